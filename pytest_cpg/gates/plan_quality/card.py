"""Card of a gate on plans: all that any report shows of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pytest_cpg.gates.card import Effect, Figure, Severity, Table, Trend, numbers_of
from pytest_cpg.gates.criteria import CriteriaKind
from pytest_cpg.gates.criterion import Words
from pytest_cpg.gates.notation import with_ends
from pytest_cpg.gates.plan_quality.result import Place, PlanQualityResult
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE

WORDS = {
    "NOT EXPLOITED": Words(
        "nearly as good in truth as in the model",
        "What the model likes is nearly as good in truth: plans stand as high among their "
        "neighbours there as in the model. That they solve the task is another question.",
        severity=Severity.GOOD,
    ),
    "UNCLEAR": Words(
        "an interval leaves a criterion open",
        "The intervals leave open whether the criteria are met. Below "
        f"{FEWEST_EPISODES_TO_CALL_ALIKE} episodes nothing is called good.",
        "Run more episodes.",
        Severity.UNSURE,
    ),
    "FLAT": Words("one changed action changes nothing", severity=Severity.BLIND),
    "POOR PLANS": Words(
        "plans are easy to improve",
        "The planner's plans are easy to improve, and the model does not promise more.",
        "Search wider, or give the planner a model that tells plans apart.",
    ),
    "EXPLOITED": Words(
        "plans are good in the model alone",
        "The planner finds plans that are good in the model alone: in truth a plan that differs in "
        "one action, or the one that it would choose there, is far better.",
        "Train on data of the plans that it chooses (its own episodes), or penalise where models "
        "disagree.",
    ),
    "BROKEN": Words("the model broke its contract", severity=Severity.BROKEN),
}
"""What the gate's labels mean."""


def shown(
    kind: CriteriaKind[PlanQualityResult], result: PlanQualityResult, model: str
) -> dict[str, Any]:
    """Return what the card of a result has beside the words of its label."""
    exploitation, worlds, criteria = result.exploitation, result.worlds, result.criteria
    means = [
        f"{scores.mean():.2f}" if exploitation else "-" for scores in (worlds.first, worlds.second)
    ]
    return {
        "kind": "plan quality",
        "subject": result.design.task,
        "judged": f"exploitation {with_ends(exploitation)}"
        if exploitation
        else "no decision to score",
        "sentence": _sentence(result),
        "size": f"{result.episodes} episodes",
        "cells": {
            "exploitation": f"{exploitation.estimate:.2f}" if exploitation else "-",
            "model": means[0],
            "truth": means[1],
            "solved": f"{result.solved}/{result.episodes}" if criteria.has_goal else "-",
            "n": str(result.episodes),
        },
        "table": _table(kind, result),
        "facts": tuple((name, text) for name, text in _facts(result, model) if text),
        "effect": exploitation
        and Effect(found=exploitation, unit="of a score", margin=criteria.max_exploitation),
        "figures": tuple(_figures(result)),
        "trends": tuple(_trends(result)),
        "design": f"{result.design.short_hash} {criteria.k} {criteria.neighbours} truth",
        "numbers": _numbers(result),
    }


def _sentence(result: PlanQualityResult) -> str:
    if result.faults:
        return result.faults[0].rstrip(".")
    if result.is_flat:
        episodes = f"{result.episodes_known} of {result.episodes}"
        return f"changing one action changes the score in only {episodes} episodes"
    model, truth = result.worlds.first.mean(), result.worlds.second.mean()
    solved = f", and solve {result.solved} of {result.episodes}" * result.criteria.has_goal
    return f"plans score {model:.2f} in the model and {truth:.2f} in truth{solved}"


def _table(kind: CriteriaKind[PlanQualityResult], result: PlanQualityResult) -> Table:
    counts, places = result.counts, zip(("worst plan", ""), result.worst, strict=False)
    in_model, in_truth = (
        100 * beaten / counts.decisions for beaten in (counts.beats_imagined, counts.beats_true)
    )
    return kind.table(
        result,
        name="plans",
        form=".2f",
        number="mean",
        axis=(-1.0, 1.0),
        below=(
            (
                "beats all",
                f"{result.criteria.k + 1} neighbours: {in_model:.0f} % in the model, "
                f"{in_truth:.0f} % in truth",
            ),
            *[("solved", f"{result.solved} of {result.episodes} starts")]
            * result.criteria.has_goal,
            (
                "all alike",
                f"plans at {counts.flat_imagined} of {counts.decisions} decisions in the model, "
                f"{counts.flat_true} in truth",
            ),
            *(
                (name, f"episode {place.episode}, step {place.at}: {_place_text(place)}")
                for name, place in places
            ),
        ),
    )


def _facts(result: PlanQualityResult, model: str) -> Iterator[tuple[str, str]]:
    criteria, counts = result.criteria, result.counts
    yield "regret", f"{result.regret:.3g} a plan, in the units that plans are rated in"
    yield (
        "neighbours",
        f"{criteria.k}, {criteria.neighbours}: one action changed, or idle from a step on; and the "
        f"planner's choice in truth",
    )
    yield "decisions", f"{counts.decisions} of {result.episodes} episodes"
    yield "task", f"{result.design.task}, budget {result.design.budget}, seed {result.seed}"
    yield "planner", result.design.planner
    yield "model", model
    yield "family", f"{criteria.family_size} gates" if criteria.family_size > 1 else ""


def _place_text(place: Place) -> str:
    return f"score {place.imagined:.2f} in the model, {place.true:.2f} in truth"


def _figures(result: PlanQualityResult) -> Iterator[Figure]:
    worlds = result.worlds
    if len(worlds):
        order = np.argsort(worlds.first, kind="stable")
        most = result.criteria.max_exploitation
        yield Figure(
            kind="scatter",
            title="Score of plans in the model and in truth",
            reading=(
                "Each dot is an episode, of which 1 is the best plan known. Below the dashed line "
                "more is exploited than is accepted."
            ),
            axes=("score in the model", "score in truth"),
            series={
                "learned": tuple(
                    (float(worlds.first[row]), float(worlds.second[row])) for row in order
                ),
                "limit": ((most, 0.0), (1.0, 1.0 - most)),
            },
            scale=(0.0, 1.0),
        )
    if result.worst:
        yield Figure(
            kind="list",
            title="Decisions with the most exploitation",
            reading="Regret is what the best neighbour is worth more in truth.",
            series={
                f"episode {place.episode}, step {place.at}": (
                    _place_text(place),
                    f"regret {place.regret:.3g}",
                )
                for place in result.worst
            },
        )


def _trends(result: PlanQualityResult) -> Iterator[Trend]:
    for name, interval, axis in (
        ("Score in truth", result.score, (0.0, 1.0)),
        ("Exploitation", result.exploitation, (-1.0, 1.0)),
    ):
        if interval is not None:
            yield Trend(name=name, text=f"{interval.estimate:.2f}", bound=interval, axis=axis)


def _numbers(result: PlanQualityResult) -> dict[str, str | float]:
    intervals = {
        "exploitation": result.exploitation,
        "score": result.score,
        "above_chance": result.above_chance,
    }
    return {
        **numbers_of(intervals),
        "regret": result.regret,
        "solved": result.solved,
        "decisions": result.counts.decisions,
        "k": result.criteria.k,
        "neighbours": result.criteria.neighbours,
        "level": result.criteria.level,
        "episodes": result.episodes,
        "seed": result.seed,
    }
