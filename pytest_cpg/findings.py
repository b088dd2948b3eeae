"""Findings: what the gates of a session say together, as recipes and as a family.

A gate's own verdict never depends on which other gates were run. What is said here comes on top of
the verdicts, and can only add a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_cpg.gates.result import GateResult
from pytest_cpg.gates.stopping import gap_p_value_of
from pytest_cpg.ledger import Finding, Judgement, Ledger, comparison_name
from pytest_cpg.stats import (
    Interval,
    Verdict,
    cluster_interval,
    family_false_alarm_chance,
    holm,
    parse_verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Several checkpoints of one way to train, each judged by its own gate.

    Attributes
    ----------
    group : str
    members : mapping
        Result of each checkpoint, by gate.
    interval : Interval or None
        Of the recipe's gap, with checkpoints as clusters; None for a single one.
    verdict : Verdict
    """

    group: str
    members: Mapping[str, GateResult]
    interval: Interval | None
    verdict: Verdict


def findings(ledger: Ledger, *, is_corrected: bool, family_size: int) -> list[Finding]:
    """Return what all gates together say.

    Parameters
    ----------
    is_corrected : bool
        Whether the gates share one error rate.
    family_size : int
        Gates of the family, run or not; 0 when it is not known.
    """
    measured = [
        _Measured(comparison_name(gate, number), judgement, judgement.read())
        for gate, entry in ledger.entries.items()
        for number, judgement in enumerate(entry.judgements, 1)
    ]
    found = _recipe_findings([one for one in measured if one.result.group])
    collected = len({**ledger.planned, **ledger.deselected})
    size = max(family_size, collected)
    if size > 1 and measured:
        found += _family_findings(measured, is_corrected=is_corrected, size=size)
    if is_corrected and collected > family_size:
        found.append(
            Finding(
                f"the family is said to have {family_size} gates, and {collected} were collected: "
                f"each was judged as if the others were fewer. Set cpg_family_size = {collected}",
                fails=True,
            )
        )
    return found


def recipe(group: str, members: Mapping[str, GateResult]) -> Recipe:
    """Judge a recipe by the gaps of its checkpoints, which are clusters and not more episodes."""
    results = list(members.values())
    if len(results) == 1:
        return Recipe(group=group, members=members, interval=None, verdict=Verdict.INCONCLUSIVE)
    interval = cluster_interval(
        [(result.oracle.success_count, result.oracle.episodes) for result in results],
        [(result.learned.success_count, result.learned.episodes) for result in results],
        level=results[0].level,
        same_starts=len({result.seed for result in results}) == 1,
    )
    verdicts = {result.verdict for result in results}
    if interval.low > 0:
        verdict = Verdict.MODEL_BOTTLENECK
    elif interval.high < 0:
        verdict = Verdict.LEARNED_OUTPERFORMS_ORACLE
    elif len(verdicts) == 1 and verdicts <= {
        Verdict.PLANNER_BOTTLENECK,
        Verdict.MODEL_AS_GOOD_AS_ORACLE,
    }:
        (verdict,) = verdicts
    else:
        verdict = Verdict.INCONCLUSIVE
    return Recipe(group=group, members=members, interval=interval, verdict=verdict)


class _Measured(NamedTuple):
    """One comparison of one gate."""

    name: str
    judgement: Judgement
    result: GateResult


def _recipe_findings(measured: Sequence[_Measured]) -> list[Finding]:
    found = []
    for group in dict.fromkeys(one.result.group for one in measured):
        members = [one for one in measured if one.result.group == group]
        accepted = [parse_verdict(one.judgement.max_verdict) for one in members]
        judged = recipe(group, {one.name: one.result for one in members})
        found.append(_recipe_finding(judged, min(accepted, key=lambda verdict: verdict.severity)))
    return found


def _recipe_finding(found: Recipe, strictest: Verdict) -> Finding:
    checkpoints = ", ".join(
        f"{result.learned.success_count}/{result.learned.episodes} against "
        f"{result.oracle.success_count}/{result.oracle.episodes}"
        for result in found.members.values()
    )
    lead = f"recipe {found.group}: "
    if found.interval is None:
        return Finding(
            f"{lead}one checkpoint ({checkpoints}) says nothing about the recipe; gate more of "
            f"them with the same group="
        )
    interval = found.interval
    # Recipes are judged by plain success gaps: what asks for a margin or returns is not failed.
    is_plain = all(
        result.margin is None and result.metric == "success" for result in found.members.values()
    )
    fails = is_plain and found.verdict.severity > strictest.severity
    return Finding(
        f"{lead}{found.verdict}, gap {interval.estimate:+.2f} [{interval.low:+.2f},"
        f"{interval.high:+.2f}] over {len(found.members)} checkpoints as clusters "
        f"({interval.method}): {checkpoints}{f'; worse than {strictest}' if fails else ''}",
        fails=fails,
    )


def _family_findings(
    measured: Sequence[_Measured], *, is_corrected: bool, size: int
) -> list[Finding]:
    alpha = max((1 - one.result.level) / 2 for one in measured)
    percent = f"{100 * alpha:.2g} %"
    if not is_corrected:
        chance = family_false_alarm_chance(size, alpha=alpha)
        return [
            Finding(
                f"{size} gates: a false alarm in about {100 * chance:.2g} % of runs; "
                f"--cpg-correction=holm: {percent}"
            )
        ]
    found = [
        Finding(f"{size} gates: a false alarm in about {percent} of runs, by Holm's correction")
    ]
    if len(measured) < size:
        return found
    # The first step of Holm is what every gate was judged by. Its later steps need all p-values of
    # the family: they are taken when it is complete, and never change a gate's own verdict.
    p_values = {one.name: gap_p_value_of(one.result) for one in measured}
    rejected = holm(p_values, alpha=alpha, family_size=max(size, len(p_values)))
    return found + [
        Finding(
            f"Holm: {one.name} is a MODEL BOTTLENECK as well, now that all {size} gates are known "
            f"(p={p_values[one.name]:.2g})",
            fails=parse_verdict(one.judgement.max_verdict) is not Verdict.MODEL_BOTTLENECK,
        )
        for one in measured
        if one.name in rejected and not _is_decided(one.result)
    ]


def _is_decided(result: GateResult) -> bool:
    """Say whether a gate was flagged already, or has proven that it loses less than its margin."""
    is_proven = result.margin is not None and result.verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE
    return is_proven or result.verdict is Verdict.MODEL_BOTTLENECK
