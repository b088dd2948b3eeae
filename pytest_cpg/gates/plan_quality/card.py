"""Card of a gate on plans: all that any report shows of one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pytest_cpg.gates.card import Card, Effect, Figure, Table, Trend, numbers_of
from pytest_cpg.gates.kind import MaxVerdict
from pytest_cpg.gates.notation import percentage, with_ends
from pytest_cpg.gates.plan_quality.result import Place, PlanQualityResult
from pytest_cpg.gates.plan_quality.ruling import (
    blindness,
    criteria_of,
    episodes_known,
    is_flat,
    label_of,
)
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE

_MEANING = {
    "NOT EXPLOITED": (
        "What the model likes is nearly as good in truth: plans stand as high among their "
        "neighbours there as in the model. That they solve the task is another question."
    ),
    "UNCLEAR": (
        "The intervals leave open whether the criteria are met. Below "
        f"{FEWEST_EPISODES_TO_CALL_ALIKE} episodes nothing is called good."
    ),
    "POOR PLANS": "The planner's plans are easy to improve, and the model does not promise more.",
    "EXPLOITED": (
        "The planner finds plans that are good in the model alone: in truth a plan that differs in "
        "one action, or the one that it would choose there, is far better."
    ),
}
_ADVICE = {
    "UNCLEAR": "Run more episodes.",
    "POOR PLANS": "Search wider, or give the planner a model that tells plans apart.",
    "EXPLOITED": (
        "Train on data of the plans that it chooses (its own episodes), or penalise where models "
        "disagree."
    ),
}
_GIST = {
    "NOT EXPLOITED": "nearly as good in truth as in the model",
    "UNCLEAR": "an interval leaves a criterion open",
    "FLAT": "one changed action changes nothing",
    "POOR PLANS": "plans are easy to improve",
    "EXPLOITED": "plans are good in the model alone",
    "BROKEN": "the model broke its contract",
}


def card_of(
    result: PlanQualityResult,
    max_verdict: MaxVerdict | None = None,  # noqa: ARG001
    *,
    model: str = "",
) -> Card:
    """Return the card of a result; ``model`` is its name, and may be empty."""
    found, worlds, label = result.exploitation, result.worlds, label_of(result)
    blind, meaning, advice = blindness(result), _MEANING.get(label), _ADVICE.get(label)
    brief = (
        f"{worlds.first.mean():.2f} in the model, {worlds.second.mean():.2f} in truth"
        if found
        else ""
    )
    if blind is not None:
        # The ruling says why, and no more is known.
        meaning, advice, brief = None, blind.advice, blind.brief
    return Card(
        kind="plan quality",
        headline=f"exploitation {with_ends(found)}" if found else "no decision to score",
        sentence=_sentence(result),
        gist=_GIST[label],
        size=f"{result.episodes} episodes",
        cells={
            "exploitation": f"{found.estimate:.2f}" if found else "-",
            "model": f"{result.worlds.first.mean():.2f}" if found else "-",
            "truth": f"{result.worlds.second.mean():.2f}" if found else "-",
            "solved": f"{result.solved}/{result.episodes}" if result.criteria.has_goal else "-",
            "n": str(result.episodes),
        },
        table=_table(result),
        facts=tuple((name, text) for name, text in _facts(result, model) if text),
        brief=brief,
        meaning=result.faults or tuple(filter(None, [meaning])),
        advice=tuple(filter(None, [advice])),
        effect=None
        if found is None
        else Effect(found=found, unit="of a score", margin=result.criteria.max_exploitation),
        figures=tuple(_figures(result)),
        trends=tuple(_trends(result)),
        design=f"{result.design.short_hash} {result.criteria.k} {result.criteria.neighbours} truth",
        numbers=_numbers(result),
    )


def _sentence(result: PlanQualityResult) -> str:
    if result.faults:
        return result.faults[0].rstrip(".")
    if is_flat(result):
        known = f"{episodes_known(result)} of {result.episodes}"
        return f"changing one action changes the score in only {known} episodes"
    model, truth = result.worlds.first.mean(), result.worlds.second.mean()
    solved = f", and solve {result.solved} of {result.episodes}" * result.criteria.has_goal
    return f"plans score {model:.2f} in the model and {truth:.2f} in truth{solved}"


def _table(result: PlanQualityResult) -> Table:
    counts, level = result.counts, percentage(result.criteria.level)
    return Table(
        name="plans",
        columns=("mean", f"{level} CI", "needed", "met"),
        rows=tuple(one.row(".2f") for one in criteria_of(result)),
        axis=(-1.0, 1.0),
        below=(
            ("beats all", _beats(result)),
            *[("solved", f"{result.solved} of {result.episodes} starts")]
            * result.criteria.has_goal,
            (
                "all alike",
                f"plans at {counts.flat_imagined} of {counts.decisions} decisions in the model, "
                f"{counts.flat_true} in truth",
            ),
            *_worst(result),
        ),
    )


def _worst(result: PlanQualityResult) -> Iterator[tuple[str, str]]:
    for name, place in zip(("worst plan", ""), result.worst, strict=False):
        yield name, f"episode {place.episode}, step {place.at}: {_place_text(place)}"


def _beats(result: PlanQualityResult) -> str:
    counts, k = result.counts, result.criteria.k
    shares = (100 * one / counts.decisions for one in (counts.beats_imagined, counts.beats_true))
    in_model, in_truth = shares
    return f"{k + 1} neighbours: {in_model:.0f} % in the model, {in_truth:.0f} % in truth"


def _facts(result: PlanQualityResult, model: str) -> Iterator[tuple[str, str]]:
    asked, counts = result.criteria, result.counts
    yield "regret", f"{result.regret:.3g} a plan, in the units that plans are rated in"
    yield (
        "neighbours",
        f"{asked.k}, {asked.neighbours}: one action changed, or idle from a step on; and the "
        f"planner's choice in truth",
    )
    yield "decisions", f"{counts.decisions} of {result.episodes} episodes"
    yield "task", f"{result.design.task}, budget {result.design.budget}, seed {result.seed}"
    yield "planner", result.design.planner
    yield "model", model
    yield "family", f"{asked.family_size} gates" if asked.family_size > 1 else ""


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
                f"episode {one.episode}, step {one.at}": (
                    _place_text(one),
                    f"regret {one.regret:.3g}",
                )
                for one in result.worst
            },
        )


def _trends(result: PlanQualityResult) -> Iterator[Trend]:
    for name, found, axis in (
        ("Score in truth", result.score, (0.0, 1.0)),
        ("Exploitation", result.exploitation, (-1.0, 1.0)),
    ):
        if found is not None:
            yield Trend(name=name, text=f"{found.estimate:.2f}", bound=found, axis=axis)


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
