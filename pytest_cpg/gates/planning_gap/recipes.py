"""Recipes: several checkpoints of one way to train, each measured by a gate, judged together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_cpg.gates.planning_gap.accepted import DesignKey
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.stats import (
    Interval,
    Ruling,
    Verdict,
    cluster_interval,
    cluster_return_interval,
    rule_on_gap,
    rule_on_returns,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What several checkpoints say about the way they were trained.

    Attributes
    ----------
    verdict : Verdict
    interval : Interval
        Of the recipe's gap, with checkpoints as clusters; in the units of the gates' metric.
    """

    verdict: Verdict
    interval: Interval


def differences(members: Mapping[str, GateResult]) -> list[str]:
    """Return one clause for everything in which gates differ that recipes must have in common.

    Only the model may differ, the seed and the number of episodes: gaps of another task, planner
    or metric are no samples of the same quantity.
    """
    first, *others = members.values()
    found: dict[str, None] = {}
    for other in others:
        changed = DesignKey.of(first).changes(DesignKey.of(other))
        found.update(dict.fromkeys(changed))
        for name in ("margin", "tolerance"):
            then, now = getattr(first, name), getattr(other, name)
            if then != now:
                found[f"{name} {then} -> {now}"] = None
        if first.interval.level != other.interval.level:
            found[f"level {first.interval.level:g} -> {other.interval.level:g}"] = None
    return list(found)


def judge_recipe(members: Mapping[str, GateResult]) -> Recipe:
    """Judge a recipe by the gaps of its checkpoints, which are clusters and not more episodes.

    The verdict is the one that the rules of a gate give to every checkpoint's arms with the
    recipe's interval, at the level of the gates' own; INCONCLUSIVE where they do not agree.

    Parameters
    ----------
    members : mapping
        Result of each checkpoint, at least two without `differences`, by gate.
    """
    results = list(members.values())
    first = results[0]
    level = first.interval.level
    same_starts = len({result.seed for result in results}) < len(results)
    if first.metric == "return":
        interval = cluster_return_interval(
            [result.oracle.returns[: result.learned.episodes] for result in results],
            [result.learned.returns for result in results],
            level=level,
            same_starts=same_starts,
        )
    else:
        interval = cluster_interval(
            [(result.oracle.success_count, result.oracle.episodes) for result in results],
            [(result.learned.success_count, result.learned.episodes) for result in results],
            level=level,
            same_starts=same_starts,
        )
    verdicts = {_ruling(result, interval).verdict for result in results}
    verdict = verdicts.pop() if len(verdicts) == 1 else Verdict.INCONCLUSIVE
    return Recipe(verdict=verdict, interval=interval)


def _ruling(result: GateResult, interval: Interval) -> Ruling:
    """Rule on one checkpoint's arms by the interval of the whole recipe."""
    oracle, learned, margin = result.oracle, result.learned, result.margin
    if result.metric == "return":
        return rule_on_returns(interval, margin=margin)
    return rule_on_gap(
        interval,
        (oracle.success_count, oracle.episodes),
        (learned.success_count, learned.episodes),
        tolerance=result.tolerance,
        margin=margin,
    )
