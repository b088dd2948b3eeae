"""Scoring: plans and their neighbours in the learned model, and in truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from pytest_cpg.contracts import ActionSpace, BoolArray, FiniteActions, FloatArray, IntArray
from pytest_cpg.contracts.streams import Purpose
from pytest_cpg.episodes.decisions import Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.gates.plan_quality.formulas import Search, are_flat, bounded, cfsim, explore
from pytest_cpg.planners.search import rate_plans
from pytest_cpg.world_models import BoundModel

# Of a plan in a model that draws noise: all plans of a decision meet the same.
_ROLLOUTS = 8


class Standing(NamedTuple):
    """Where ``N`` plans stand among their neighbours in one world: scores as `bounded`.

    Regrets are what the best neighbour is worth more, at least 0; of flat ones no edit matters.
    """

    scores: FloatArray
    regrets: FloatArray
    beats_all: BoolArray
    flat: BoolArray

    @classmethod
    def of(cls, values: FloatArray, neighbours: FloatArray) -> Standing:
        """Return the standing of plans worth values [N] among neighbours [N, K].

        What diverges is worth as much as the worst that does not.
        """
        everybody = np.concatenate([values[:, None], neighbours], axis=1)
        is_finite = np.isfinite(everybody)
        least = np.where(is_finite, everybody, np.inf).min(axis=1, keepdims=True)
        everybody = np.where(is_finite, everybody, np.where(np.isfinite(least), least, 0.0))
        values, neighbours = everybody[:, 0], everybody[:, 1:]
        best = neighbours.max(axis=1)
        return cls(
            scores=bounded(cfsim(values, neighbours)),
            regrets=np.maximum(best - values, 0.0),
            beats_all=values > best,
            flat=are_flat(values, neighbours),
        )


class Standings(NamedTuple):
    """Where plans stand in the learned model and in truth, and random ones in truth."""

    imagined: Standing
    true: Standing
    chance: Standing


def standings_of(
    design: Design,
    bound: Mapping[str, BoundModel],
    decisions: Decisions,
    plans: FloatArray,
    *,
    k: int,
    search: Search,
    progress: Callable[[str, int, int], None],
) -> Standings:
    """Return where plans [N, H, A] stand, by the models ``"learned"`` and ``"oracle"``.

    What the planner would choose in truth stands among the neighbours of each world: of a local
    optimum no edit shows how far it is from what can be reached. A decision's numbers are the same
    whatever the others are.
    """
    truths, count = [], len(plans)
    progress("planning in truth", 0, count)
    # As many at once as an arm plans.
    for rows in np.array_split(np.arange(count), -(-count // design.episodes)):
        truths.append(decisions.take(rows).planned(design, "oracle", bound["oracle"]))
        progress("planning in truth", int(rows[-1]) + 1, count)
    rngs = decisions.streams(design.seed, Purpose.RANDOM_PLANS)
    random = design.task.actions.sample(rngs, (plans.shape[1],))
    worlds = (("learned", plans), ("oracle", plans), ("oracle", random))
    beside, done = np.concatenate(truths), 0

    def tell(scored: int) -> None:
        nonlocal done
        done += scored
        progress("scoring plans", done, len(worlds) * count)

    tell(0)
    return Standings(
        *(
            standing_of(
                design, arm, bound[arm], decisions, rated, beside, k=k, search=search, tell=tell
            )
            for arm, rated in worlds
        )
    )


def standing_of(
    design: Design,
    arm: str,
    model: BoundModel,
    decisions: Decisions,
    plans: FloatArray,
    beside: FloatArray,
    *,
    k: int,
    search: Search,
    tell: Callable[[int], None] = lambda scored: None,  # noqa: ARG005
) -> Standing:
    """Return where plans [N, H, A] stand in one world, as many at once as memory allows.

    ``beside`` [N, H, A] are neighbours that no edit makes of them, one of each. ``arm`` says whose
    model it is; ``tell`` is told how many more plans have been scored.
    """
    # Numbers that a step of a plan needs.
    latents = int(decisions.latents.shape[1]) + model.noise_size
    size = max(int(decisions.states.shape[1]), latents, plans.shape[2])
    standings: list[Standing] = []
    for rows in decisions.parts((k + 1) * plans.shape[1] * size):
        part = decisions.take(rows)
        worth = _rating(design, arm, model, part)
        rngs = part.streams(design.seed, Purpose.NEIGHBOURS)
        # Alike in every world.
        draw = partial(control_edits, design.task.actions, design.task.budget - part.at, rngs)
        values = worth(plans[rows, None])[:, 0]
        near = explore(plans[rows], values, draw=draw, evaluate=worth, k=k, search=search)
        neighbours = np.concatenate([near, worth(beside[rows, None])], axis=1)
        standings.append(Standing.of(values, neighbours))
        tell(len(rows))
    return Standing(*map(np.concatenate, zip(*standings, strict=True)))


def _rating(
    design: Design, arm: str, model: BoundModel, decisions: Decisions
) -> Callable[[FloatArray], FloatArray]:
    """Return what maps plans [N, C, H, A] to what they are worth: the mean over a model's noise."""
    places = (decisions.episodes, decisions.at)
    imagination = Imagination(arm, design.task.actions, model)
    imagination.plans_for(*places)
    is_learned = arm == "learned"
    latents = decisions.latents if is_learned else imagination.encode(decisions.states)

    def once(plans: FloatArray) -> FloatArray:
        remaining = design.task.budget - decisions.at
        return -rate_plans(design.planner, imagination, latents, plans, remaining)[0]

    def over_noise(plans: FloatArray) -> FloatArray:
        streams = decisions.streams(design.seed, Purpose.NOISE_OF_NEIGHBOURS)
        imagination.plans_for(*places, cast("Any", [_Shared(stream) for stream in streams]))
        return np.asarray(np.mean([once(plans) for _ in range(_ROLLOUTS)], axis=0))

    return over_noise if model.noise_size else once


class _Shared:
    """A stream that gives all plans of a decision the same noise."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def standard_normal(self, shape: tuple[int, ...]) -> FloatArray:
        """Return it for so many plans [C, ...]."""
        return np.broadcast_to(self._rng.standard_normal(shape[1:]), shape)


def control_edits(
    space: ActionSpace,
    remaining: IntArray,
    rngs: Sequence[np.random.Generator],
    plans: FloatArray,
    count: int,
) -> FloatArray:
    """Return neighbours [N, count, H, A] of plans [N, H, A], each drawn from a stream of its own.

    Half of them are prefixes, of lengths from 0 that are all different, as far as there are so
    many: a plan that ends early goes on with the idle action, the one nearest to zero. The others
    have one action substituted, at a place that is drawn uniformly: by a draw from a box, or by
    another action of a finite set. Steps past the budget, in ``remaining`` [N], stay as they are.
    """
    drawn: FloatArray = np.repeat(plans[:, None], count, axis=1)
    horizon = plans.shape[1]
    for neighbours, left, rng in zip(drawn, remaining, rngs, strict=True):
        steps = min(horizon, int(left))
        prefixes = min(count // 2, steps)
        ends = rng.permutation(steps)[:prefixes]
        is_past = np.arange(horizon) >= ends[:, None]
        neighbours[:prefixes][is_past] = space.idle
        rows = np.arange(prefixes, count)
        places = rng.integers(steps, size=len(rows))
        neighbours[rows, places] = _substitutes(space, neighbours[rows, places], rng)
    return drawn


def _substitutes(space: ActionSpace, old: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return other actions than these [C, A]."""
    if not isinstance(space, FiniteActions):
        return np.asarray(space.sample([rng], (len(old),))[0])
    count = len(space.values)
    indices = (old[:, None] == space.values).all(axis=-1).argmax(axis=1)
    shifts = 1 + rng.integers(max(1, count - 1), size=len(old))
    return np.asarray(space.values[(indices + shifts) % count])
