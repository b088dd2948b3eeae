"""Ruling: what a result says to a test, and what checkpoints of one recipe say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_cpg.gates.card import AA_CHECK, SMOKE_TEST, Ruling, Severity
from pytest_cpg.gates.kind import Compared, Finding
from pytest_cpg.gates.planning_gap.result import (
    GateResult,
    highest_rate_of,
    possible_return_gap,
    reached,
)
from pytest_cpg.stats import Interval, Verdict, agresti_caffo_interval
from pytest_cpg.stats.rankings import cluster_interval, cluster_return_interval
from pytest_cpg.stats.verdicts import weigh_gap, weigh_returns


def ruling_of(result: GateResult, accepts: Verdict) -> Ruling:
    """Return what a result says to a test that accepts no verdict worse than this one."""
    blind, faults, verdict = blindness(result, accepts), result.faults, result.verdict
    is_blind = result.is_oracle_too_weak or blind is not None
    severity = Severity.BLIND if is_blind else Severity(verdict.severity)
    reason = faults[0] if faults else None
    if result.is_smoke:
        severity, reason = Severity.GOOD, None
    # Two arms of one model that differ say more than whatever else may be wrong.
    elif result.is_aa and faults:
        pass
    elif result.is_oracle_too_weak:
        reason = (
            f"the oracle solves {result.oracle.success_count}/{result.oracle.episodes}, a rate of "
            f"at most {highest_rate_of(result.oracle):.3f}, and min_oracle asks for "
            f"{result.min_oracle:g}"
        )
    elif not result.is_aa and verdict.severity > accepts.severity:
        reason = f"the verdict is worse than {accepts}"
    elif blind is not None and Verdict.PLANNER_BOTTLENECK.severity > accepts.severity:
        reason = blind
    if result.is_aa and not result.is_smoke:
        # No model is judged: that random actions would pass matters only where it is not accepted.
        severity = Severity.BLIND if reason else Severity.GOOD
    doubt = None
    if not result.is_smoke:
        doubt = f"judged by {result.evidence}" if result.is_weak else None
        # What is wrong with stored arms says nothing of this verdict: they were run anew.
        harmless = {*result.reuse, result.about_starts}
        doubt = next((note for note in result.notes if note not in harmless), doubt)
    return Ruling(
        label=result.label,
        severity=Severity.BROKEN if faults else severity,
        reason=reason,
        doubt=doubt,
        check=SMOKE_TEST if result.is_smoke else AA_CHECK if result.is_aa else "",
    )


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
    level, seeds = results[0].interval.level, {result.seed for result in results}
    arms = [(result.oracle, result.learned) for result in results]
    same_starts = len(seeds) < len(results)
    verdicts = set()
    if results[0].design.metric == "return":
        shared = [oracle.returns[: learned.episodes] for oracle, learned in arms]
        learnt = [learned.returns for _, learned in arms]
        interval = cluster_return_interval(shared, learnt, level=level, same_starts=same_starts)
        for result, (oracle, learned) in zip(results, arms, strict=True):
            possible = possible_return_gap(oracle, learned, result.chance, level=level)
            possible = max(interval.high, possible)
            weighed = weigh_returns(
                interval, starts=learned.episodes, possible=possible, margin=result.margin
            )
            verdicts.add(weighed.verdict)
    else:
        solved = [(oracle.solved, learned.solved) for oracle, learned in arms]
        both = (list(of_arm) for of_arm in zip(*solved, strict=True))
        interval = cluster_interval(*both, level=level, same_starts=same_starts)
        for result, pair in zip(results, solved, strict=True):
            weighed = weigh_gap(interval, *pair, tolerance=result.tolerance, margin=result.margin)
            verdicts.add(weighed.verdict)
    return verdicts.pop() if len(verdicts) == 1 else Verdict.INCONCLUSIVE, interval


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
    form = "+.2f" if metric == "success" else "+.3g"
    accepted = [Verdict(member.max_verdict.label) for member in members]
    strictest = min(accepted, key=lambda verdict: verdict.severity)
    # One that its checkpoints do not settle informs: proof takes more of them than most have.
    strictest = max(strictest, Verdict.INCONCLUSIVE, key=lambda verdict: verdict.severity)
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
        f"checkpoints as clusters ({interval.method}): {checkpoints}{beside}{_pooled(results)}",
        fails=is_worse and not is_expected,
    )


def _pooled(results: Sequence[GateResult]) -> str:
    """Return the verdict on all episodes as if one model had played them, which papers print."""
    first = results[0]
    if first.design.metric != "success":
        return ""
    arms = [(*result.oracle.solved, *result.learned.solved) for result in results]
    s, n, t, m = (sum(counts) for counts in zip(*arms, strict=True))
    interval = agresti_caffo_interval(s, n, t, m, level=first.interval.level)
    weighed = weigh_gap(interval, (s, n), (t, m), tolerance=first.tolerance, margin=first.margin)
    ends = f"[{interval.low:+.2f},{interval.high:+.2f}]"
    return f"; pooled, as if of one model: {weighed.verdict} {interval.estimate:+.2f} {ends}"


def _arms(result: GateResult) -> str:
    arms = (reached(arm, result.design.metric) for arm in (result.learned, result.oracle))
    return " against ".join(arm.removesuffix(" a start") for arm in arms)
