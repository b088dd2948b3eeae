"""Ruling: what a result says to a test, and what checkpoints of one recipe say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_cpg.gates.card import AA_CHECK, SMOKE_TEST, Ruling, Severity
from pytest_cpg.gates.kind import Compared, Finding
from pytest_cpg.gates.planning_gap.result import (
    GateResult,
    highest_rate_of,
    possible_return_gap,
    reached,
)
from pytest_cpg.stats import Interval, Verdict
from pytest_cpg.stats.rankings import cluster_interval, cluster_return_interval
from pytest_cpg.stats.verdicts import Weighed, weigh_gap, weigh_returns


def ruling_of(result: GateResult, accepts: Verdict) -> Ruling:
    """Return what a result says to a test that accepts no verdict worse than this one."""
    doubt = None
    if not result.is_smoke:
        doubt = f"judged by {result.evidence}" if result.is_weak else None
        # What is wrong with stored arms says nothing of this verdict: they were run anew.
        doubt = next((note for note in result.notes if note not in result.reuse), doubt)
    check = AA_CHECK if result.is_aa else ""
    return Ruling(
        label=result.label,
        severity=severity_of(result, accepts),
        reason=failure_reason(result, accepts),
        doubt=doubt,
        check=SMOKE_TEST if result.is_smoke else check,
    )


def severity_of(result: GateResult, accepts: Verdict) -> Severity:
    """Return how bad a result is to a test that accepts no verdict worse than this one."""
    if result.faults:
        return Severity.BROKEN
    if result.is_smoke:
        return Severity.GOOD
    if result.is_aa:
        # No model is judged: that random actions would pass matters only where it is not accepted.
        return Severity.BLIND if failure_reason(result, accepts) else Severity.GOOD
    is_blind = result.is_oracle_too_weak or blindness(result, accepts) is not None
    return Severity.BLIND if is_blind else Severity(result.verdict.severity)


def failure_reason(result: GateResult, max_verdict: Verdict) -> str | None:
    """Say in one line why a test that accepts ``max_verdict`` fails; None when it passes."""
    if result.is_smoke:
        return None
    # Two arms of one model that differ say more than whatever else may be wrong.
    if result.is_aa and result.faults:
        return result.faults[0]
    if result.is_oracle_too_weak:
        return (
            f"the oracle solves {result.oracle.success_count}/{result.oracle.episodes}, a rate of "
            f"at most {highest_rate_of(result.oracle):.3f}, and min_oracle asks for "
            f"{result.min_oracle:g}"
        )
    if not result.is_aa and result.verdict.severity > max_verdict.severity:
        return f"the verdict is worse than {max_verdict}"
    blind = blindness(result, max_verdict)
    if blind is not None and Verdict.PLANNER_BOTTLENECK.severity > max_verdict.severity:
        return blind
    return result.faults[0] if result.faults else None


def blindness(result: GateResult, max_verdict: Verdict) -> str | None:
    """Say in one line that random actions would have passed a test that accepts ``max_verdict``.

    None where they would not, and where the verdict itself already says what is wrong. They pass
    unless their own verdict is worse; PLANNER BOTTLENECK blames the gate, and never who is judged.
    """
    chance = result.chance_verdict
    if chance is None or result.verdict.severity >= Verdict.PLANNER_BOTTLENECK.severity:
        return None
    if chance is not Verdict.PLANNER_BOTTLENECK and (
        chance is Verdict.MODEL_BOTTLENECK or chance.severity > max_verdict.severity
    ):
        return None
    metric = result.design.metric
    return (
        f"random actions would have passed this gate, so it judges no model (chance "
        f"{reached(result.chance, metric)}, oracle {reached(result.oracle, metric)})"
    )


def differences(results: Sequence[GateResult]) -> list[str]:
    """Return one clause for everything in which gates differ that recipes must have in common.

    Only the model may differ, the seed and the number of episodes: gaps of another task, planner
    or metric are no samples of the same quantity.
    """
    first, *others = results
    clauses: list[str] = []
    for other in others:
        clauses += first.design.changes(other.design)
        for name in ("margin", "tolerance"):
            then, now = getattr(first, name), getattr(other, name)
            clauses += [f"{name} {then} -> {now}"] * (then != now)
        then, now = first.interval.level, other.interval.level
        clauses += [f"level {then:g} -> {now:g}"] * (then != now)
    return list(dict.fromkeys(clauses))


def judge_recipe(results: Sequence[GateResult]) -> tuple[Verdict, Interval]:
    """Judge a recipe by the gaps of its checkpoints, which are clusters and not more episodes.

    There are at least two, without `differences`. The verdict is the one that the rules of a gate
    give to every checkpoint's arms with the recipe's interval, at the level of the gates' own;
    INCONCLUSIVE where they do not agree.
    """
    level, metric = results[0].interval.level, results[0].design.metric
    same_starts = len({result.seed for result in results}) < len(results)
    bound: Callable[..., Interval] = cluster_interval
    oracle: list[Any] = [result.oracle.solved for result in results]
    learned: list[Any] = [result.learned.solved for result in results]
    if metric == "return":
        bound, learned = cluster_return_interval, [result.learned.returns for result in results]
        oracle = [result.oracle.returns[: result.learned.episodes] for result in results]
    interval = bound(oracle, learned, level=level, same_starts=same_starts)
    verdicts = {_weighed(result, interval).verdict for result in results}
    return verdicts.pop() if len(verdicts) == 1 else Verdict.INCONCLUSIVE, interval


def _weighed(result: GateResult, interval: Interval) -> Weighed:
    oracle, learned, margin = result.oracle, result.learned, result.margin
    if result.design.metric == "return":
        level, starts = result.interval.level, learned.episodes
        possible = possible_return_gap(oracle, learned, result.chance, level=level)
        possible = max(interval.high, possible)
        return weigh_returns(interval, starts=starts, possible=possible, margin=margin)
    tolerance = result.tolerance
    return weigh_gap(interval, oracle.solved, learned.solved, tolerance=tolerance, margin=margin)


def recipe_findings(compared: Sequence[Compared], groups: Mapping[str, str]) -> list[Finding]:
    """Return a statement about every recipe of which a checkpoint was measured."""
    findings = []
    for group in dict.fromkeys(member.result.group for member in compared if member.result.group):
        members = [member for member in compared if member.result.group == group]
        gates = {gate for gate, recipe in groups.items() if recipe == group}
        absent = len(gates - {member.gate for member in members})
        findings.append(_recipe_finding(f"recipe {group}: ", members, absent))
    return findings


def _recipe_finding(lead: str, members: Sequence[Compared], absent: int) -> Finding:
    results = [member.result for member in members]
    checkpoints = ", ".join(map(_arms, results))
    differing = differences(results)
    if differing:
        return Finding(
            f"{lead}its gates are no samples of one quantity ({'; '.join(differing)}); give each "
            f"kind its own group=",
            fails=True,
        )
    if absent:
        return Finding(
            f"{lead}{Verdict.INCONCLUSIVE}, {len(members)} of {len(members) + absent} checkpoints "
            f"reported ({checkpoints}); it is judged by all or not at all"
        )
    if len(members) == 1:
        return Finding(
            f"{lead}one checkpoint ({checkpoints}) says nothing about the recipe; gate more of "
            f"them with the same group="
        )
    (verdict, interval), metric = judge_recipe(results), results[0].design.metric
    form, strictest = "+.2f" if metric == "success" else "+.3g", _accepted(members)
    is_worse = verdict.severity > strictest.severity
    # What fails without the checkpoints that are expected to is no fault of theirs.
    others = [member.result for member in members if not member.is_excused]
    is_expected = len(others) < len(members) and not (
        len(others) > 1 and judge_recipe(others)[0].severity > strictest.severity
    )
    beside = f"; worse than {strictest}{', as expected' * is_expected}" if is_worse else ""
    return Finding(
        f"{lead}{verdict}, gap {interval.estimate:{form}} [{interval.low:{form}},"
        f"{interval.high:{form}}]{' in mean return' * (metric == 'return')} over {len(members)} "
        f"checkpoints as clusters ({interval.method}): {checkpoints}{beside}",
        fails=is_worse and not is_expected,
    )


def _accepted(members: Sequence[Compared]) -> Verdict:
    """Return the worst verdict that a recipe may have: what its strictest gate accepts."""
    # One that its checkpoints do not settle informs: proof takes more of them than most have.
    accepted = [Verdict(member.max_verdict.label) for member in members]
    strictest = min(accepted, key=lambda verdict: verdict.severity)
    return max(strictest, Verdict.INCONCLUSIVE, key=lambda verdict: verdict.severity)


def _arms(result: GateResult) -> str:
    arms = (reached(arm, result.design.metric) for arm in (result.learned, result.oracle))
    return " against ".join(arm.removesuffix(" a start") for arm in arms)
