"""Findings: what the gates of a session say together, as recipes and as a family.

A gate's own verdict never depends on which other gates were run. What is said here comes on top of
the verdicts, and can only add a failure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pytest_cpg.gates.planning_gap.recipes import differences, judge_recipe
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.stopping import gap_p_value_of
from pytest_cpg.report.ledger import Finding, Judgement, Ledger, Outcome
from pytest_cpg.stats import Verdict, holm, parse_verdict


def findings(
    ledger: Ledger, *, is_corrected: bool, family_size: int, is_cut: bool = False
) -> list[Finding]:
    """Return what all gates together say.

    Parameters
    ----------
    is_corrected : bool
        Whether the gates share one error rate.
    family_size : int
        Gates of the family, run or not; 0 when it is not known.
    is_cut : bool
        Whether pytest left out files because of what happened before.
    """
    measured = [
        _Measured(gate, name, ledger.entries[gate].outcome, judgement, judgement.read())
        for gate, name, judgement in ledger.comparisons
        # An A/A check is no chance to cry wolf, and its model no checkpoint.
        if not judgement.read().is_aa
    ]
    found = [] if is_cut else _recipe_findings(ledger, measured)
    # A test that makes two comparisons has two chances to cry wolf.
    known = len({*ledger.known, *(one.name for one in measured)})
    size = max(family_size, known)
    if is_corrected and known > family_size:
        found.append(
            Finding(
                f"the family is said to have {family_size} gates, and there are {known}: each was "
                f"judged as if the others were fewer. Set cpg_family_size = {known}",
                fails=True,
            )
        )
    elif size > 1 and measured:
        found += _family_findings(measured, is_corrected=is_corrected, size=size)
    return found


def without_effect(ledger: Ledger, asked: Collection[str]) -> list[Finding]:
    """Return a statement about every option asked of the session that decided nothing in it.

    Parameters
    ----------
    asked : collection of str
        Names of options, as in `Settings`.
    """
    results = [judgement.read() for _, _, judgement in ledger.comparisons]
    stops_early = [result.stop != "fixed" for result in results]
    in_vain = {
        "episodes": (all(stops_early), "every gate may stop early, up to its max_episodes"),
        "max_episodes": (not any(stops_early), "no gate may stop early; --cpg-stop makes them"),
        "interval": (
            all(result.stop != "fixed" or result.metric == "return" for result in results),
            "no gate judges successes after a fixed number of episodes",
        ),
        "oracle_episodes": (
            all(
                result.stop != "fixed" or result.oracle.episodes == result.learned.episodes
                for result in results
            ),
            "no gate of fixed size ran more episodes of its oracle arm",
        ),
    }
    return [
        Finding(f"--cpg-{name.replace('_', '-')} was given, and {why}")
        for name, (is_in_vain, why) in in_vain.items()
        if results and is_in_vain and name in asked
    ]


class _Measured(NamedTuple):
    """One comparison of one gate."""

    gate: str
    name: str
    outcome: Outcome
    judgement: Judgement
    result: GateResult


def _recipe_findings(ledger: Ledger, measured: Sequence[_Measured]) -> list[Finding]:
    """Return a statement about every recipe of which a checkpoint was measured."""
    found = []
    for group in dict.fromkeys(one.result.group for one in measured if one.result.group):
        members = [one for one in measured if one.result.group == group]
        gates = {gate for gate, named in ledger.groups.items() if named == group}
        absent = len(gates - {one.gate for one in members})
        found.append(_recipe_finding(f"recipe {group}: ", members, absent))
    return found


def _recipe_finding(lead: str, members: Sequence[_Measured], absent: int) -> Finding:
    results = {one.name: one.result for one in members}
    checkpoints = ", ".join(map(_arms, results.values()))
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
    judged, metric = judge_recipe(results), members[0].result.metric
    interval, form = judged.interval, "+.2f" if metric == "success" else "+.3g"
    strictest = _accepted(members)
    is_worse = _is_worse(judged.verdict, strictest)
    # What fails without the checkpoints that are expected to is no fault of theirs.
    others = [one for one in members if one.outcome != "xfailed"]
    is_expected = len(others) < len(members) and not (
        len(others) > 1
        and _is_worse(judge_recipe({one.name: one.result for one in others}).verdict, strictest)
    )
    beside = f"; worse than {strictest}{', as expected' * is_expected}" if is_worse else ""
    return Finding(
        f"{lead}{judged.verdict}, gap {interval.estimate:{form}} [{interval.low:{form}},"
        f"{interval.high:{form}}]{' in mean return' * (metric == 'return')} over {len(members)} "
        f"checkpoints as clusters ({interval.method}): {checkpoints}{beside}",
        fails=is_worse and not is_expected,
    )


def _accepted(members: Sequence[_Measured]) -> Verdict:
    """Return the worst verdict that a recipe may have: what its strictest gate accepts.

    A recipe whose checkpoints do not settle it informs: proof takes more checkpoints than most
    have, whatever each of them has proven by itself.
    """
    accepted = [parse_verdict(one.judgement.max_verdict) for one in members]
    strictest = min(accepted, key=lambda verdict: verdict.severity)
    return max(strictest, Verdict.INCONCLUSIVE, key=lambda verdict: verdict.severity)


def _is_worse(verdict: Verdict, accepted: Verdict) -> bool:
    return verdict.severity > accepted.severity


def _arms(result: GateResult) -> str:
    """Return what a checkpoint reached against the oracle."""
    oracle, learned = result.oracle, result.learned
    if result.metric == "return":
        return f"{learned.returns.mean():.4g} against {oracle.returns.mean():.4g}"
    return (
        f"{learned.success_count}/{learned.episodes} against "
        f"{oracle.success_count}/{oracle.episodes}"
    )


def _family_findings(
    measured: Sequence[_Measured], *, is_corrected: bool, size: int
) -> list[Finding]:
    alphas = {one.name: (1 - one.result.level) / 2 for one in measured}
    alpha = max(alphas.values())
    percent = f"{100 * alpha:.2g} %"
    # Each of these may fail the session by chance, too, and is no gate of the family.
    drifts = sum(one.judgement.drift_fails for one in measured)
    recipes = len({one.result.group for one in measured} - {""})
    besides = [
        f"{count} {what}{'s'[: count != 1]}"
        for count, what in ((drifts, "drift test"), (recipes, "recipe"))
        if count
    ]
    if not is_corrected:
        # Of what was not measured nothing better is known.
        chance = 1 - (
            math.prod(1 - one for one in alphas.values())
            * (1 - alpha) ** (size - len(measured) + drifts + recipes)
        )
        tests = " and ".join([f"{size} gates", *besides])
        return [
            Finding(
                f"{tests}: a false alarm in about {100 * chance:.2g} % of runs; "
                f"--cpg-correction=holm: {percent}{' of the gates' * bool(besides)}"
            )
        ]
    left_out = f", which leaves out {' and '.join(besides)}" if besides else ""
    found = [
        Finding(
            f"{size} gates: a false alarm in about {percent} of runs, by Holm's correction"
            f"{left_out}"
        )
    ]
    if len(measured) < size:
        return found
    # The first step of Holm is what every gate was judged by. Its later steps need all p-values of
    # the family: they are taken when it is complete, and never change a gate's own verdict.
    # A gate with a stricter level of its own keeps its share of the error.
    p_values = {one.name: gap_p_value_of(one.result) for one in measured}
    shares = {name: min(1.0, p * alpha / alphas[name]) for name, p in p_values.items()}
    rejected = holm(shares, alpha=alpha, family_size=size)
    return found + [
        Finding(
            f"Holm: {one.name} is a MODEL BOTTLENECK as well, now that all {size} gates are known "
            f"(p={p_values[one.name]:.2g})",
            fails=parse_verdict(one.judgement.max_verdict) is not Verdict.MODEL_BOTTLENECK
            and one.outcome != "xfailed",
        )
        for one in measured
        if one.name in rejected and not _is_decided(one.result)
    ]


def _is_decided(result: GateResult) -> bool:
    """Say whether a gate was flagged already, or has proven that it loses less than its margin."""
    is_proven = result.margin is not None and result.verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE
    return is_proven or result.verdict is Verdict.MODEL_BOTTLENECK
