"""Tree searches over a finite action set: exhaustive, beam, and greedy.

None of them draws a random number where the set is finite. A plan is always imagined from where
the episode is, never from an imagined latent: only then is the oracle exact (see `Task.rollout`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    ComponentError,
    FiniteActions,
    FloatArray,
    IntArray,
    PlanningModel,
    Plans,
)
from pytest_cpg.planners.candidates import Ties, check_counts, score_plans
from pytest_cpg.planners.objective import Choice, Objective

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustive:
    """Every plan there is, the first of the best ones executed.

    Attributes
    ----------
    horizon : int
        Steps per plan, ``H``: there are ``M**H`` plans.
    most : int
        Plans that may be imagined per decision; more are refused.
    objective, execute, ties
        See `rate`.
    """

    horizon: int = 4
    most: int = 10_000
    objective: Objective = "best"
    execute: int | None = None
    ties: Ties = "earliest"
    name: ClassVar[str] = "exhaustive"

    def __post_init__(self) -> None:
        check_counts(most=self.most)
        Choice.of(self).check(self.horizon)

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        del rngs
        values = _values(self.name, world_model.actions)
        choices, horizon = len(values), self.horizon
        if choices**horizon > self.most:
            fitting = max([h for h in range(1, horizon) if choices**h <= self.most], default=None)
            shorter = f"horizon={fitting} ({choices**fitting} plans), " if fitting else ""
            raise ComponentError(
                f"exhaustive search over {choices} actions and {horizon} steps would imagine "
                f"{choices**horizon} plans for each decision, and may {self.most}. Write {shorter}"
                f'planner="beam", or Exhaustive(most={choices**horizon}).'
            )
        codes = np.indices((choices,) * horizon).reshape(horizon, -1).T
        plans = np.broadcast_to(values[codes], (len(latents), *codes.shape, values.shape[1]))
        return _best_of(self, world_model, latents, plans, remaining)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamSearch:
    """Plans grown step by step, the best of them kept; exhaustive where the beam holds all.

    A decision imagines up to ``width * M * H * (H + 1) / 2`` steps.

    Attributes
    ----------
    width : int
        Plans that are kept at each step. Of equal ones those that end better, then the first.
    horizon : int
        Steps per plan, ``H``.
    objective, execute, ties
        See `rate`; the objective also chooses among unfinished plans.
    """

    width: int = 8
    horizon: int = 10
    objective: Objective = "best"
    execute: int | None = None
    ties: Ties = "earliest"
    name: ClassVar[str] = "beam"

    def __post_init__(self) -> None:
        check_counts(width=self.width)
        Choice.of(self).check(self.horizon)

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        del rngs
        values = _values(self.name, world_model.actions)
        episodes = len(latents)
        beam = np.empty((episodes, 1, 0, values.shape[1]))
        for step in range(1, self.horizon + 1):
            stems = np.repeat(beam, len(values), axis=1)
            leaves = np.broadcast_to(
                np.tile(values, (beam.shape[1], 1))[:, None], (*stems.shape[:2], 1, values.shape[1])
            )
            beam = np.concatenate([stems, leaves], axis=2)
            if step == self.horizon or beam.shape[1] <= self.width:
                continue
            scores = score_plans(world_model, latents, beam)
            costs, _ = Choice.of(self).rate(scores, remaining)
            cap = np.minimum(remaining, step) - 1
            last = np.take_along_axis(scores, cap[:, None, None], axis=2)[..., 0]
            best = np.lexsort((last, costs), axis=1)[:, : self.width]
            # In the order in which all plans would be: of equal ones, a search takes the first.
            beam = np.take_along_axis(beam, np.sort(best, axis=1)[..., None, None], axis=1)
        return _best_of(self, world_model, latents, beam, remaining)


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """The action that looks best one step ahead.

    Attributes
    ----------
    candidates : int
        Random actions that are tried of a box, beside its middle; a finite set is tried whole.
    horizon : int
        Always 1.
    """

    candidates: int = 50
    horizon: int = 1
    name: ClassVar[str] = "greedy"

    def __post_init__(self) -> None:
        check_counts(candidates=self.candidates)
        if self.horizon != 1:
            raise ValueError(
                f"a greedy planner looks 1 step ahead, got horizon={self.horizon!r}. To look "
                f'farther, write planner="beam", or "exhaustive" for a few steps.'
            )

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        del remaining
        actions, episodes = world_model.actions, len(latents)
        if isinstance(actions, FiniteActions):
            plans = np.broadcast_to(
                actions.values[:, None], (episodes, len(actions.values), 1, actions.size)
            )
        else:
            middle = np.broadcast_to(
                (actions.low + actions.high) / 2, (episodes, 1, 1, actions.size)
            )
            drawn = actions.sample(rngs, (self.candidates, 1))
            plans = np.concatenate([middle, drawn], axis=1)
        best = score_plans(world_model, latents, plans)[..., 0].argmin(axis=1)
        return Plans(plans[np.arange(episodes), best], np.ones(episodes, dtype=np.intp))


def _values(name: str, actions: ActionSpace) -> FloatArray:
    """Return the actions of a finite set, or raise ComponentError."""
    if isinstance(actions, FiniteActions):
        return actions.values
    raise ComponentError(
        f'planner "{name}" searches a finite set of actions, and those of this task lie between '
        f'bounds: {actions.low} to {actions.high}. Write planner="icem" or "mppi", or give the '
        f"task a FiniteActions."
    )


def _best_of(
    planner: Exhaustive | BeamSearch,
    world_model: PlanningModel,
    latents: FloatArray,
    plans: FloatArray,
    remaining: IntArray,
) -> Plans:
    """Return the first of the best of whole plans [N, K, H, A]."""
    costs, lengths = Choice.of(planner).rate(score_plans(world_model, latents, plans), remaining)
    episodes, best = np.arange(len(latents)), costs.argmin(axis=1)
    return Plans(plans[episodes, best], lengths[episodes, best])
