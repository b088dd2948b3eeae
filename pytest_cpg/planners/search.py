"""Search: the settings of planners, their candidate plans, and what a plan is chosen for."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import fields, is_dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import ActionSpace, FloatArray, IntArray, Planner, PlanningModel, Plans
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import PlanCosts, RolloutSteps, is_warm_started

Ties: TypeAlias = Literal["earliest", "published"]
Objective: TypeAlias = Literal["best", "sum", "terminal", "peak-and-tail"]
Confidence: TypeAlias = Literal["elite-spread", "value-gap", "disagreement"]
Gradients: TypeAlias = Literal["auto", "finite-differences"]

Rngs: TypeAlias = Sequence[np.random.Generator]
"""Each episode's own stream."""

# Bytes that imagined states may take at a time.
_ROOM = 1 << 27
_CHOICES = {
    "ties": Ties,
    "objective": Objective,
    "gradients": Gradients,
    "confidence": Confidence,
}
# Fields that say how many plans a planner looks at.
_WIDTHS = ("candidates", "samples", "width")
# The least of each.
_COUNTS = {
    **dict.fromkeys(("horizon", "execute", "iterations", "samples", "candidates"), 1),
    "elites": 1,
    "width": 1,
    "policy_plans": 0,
}
_POSITIVE = "above 0", lambda value: 0 < value < math.inf
_NOT_NEGATIVE = "of at least 0", lambda value: 0 <= value < math.inf
_NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    **dict.fromkeys(("temperature", "learning_rate", "difference"), _POSITIVE),
    **dict.fromkeys(("initial_deviation", "minimum_deviation", "deviation"), _NOT_NEGATIVE),
    **dict.fromkeys(("noise", "colour"), _NOT_NEGATIVE),
    "smoothing": ("in [0, 1)", lambda value: 0 <= value < 1),
    "correlation": ("in (-1, 1)", lambda value: -1 < value < 1),
    "keep": ("in [0, 1]", lambda value: 0 <= value <= 1),
    "decay": ("of at least 1", lambda value: 1 <= value < math.inf),
}
# The first of each two may not be more than the second.
_BOUNDS = (
    ("execute", "horizon"),
    ("elites", "samples"),
    ("policy_plans", "samples"),
    ("minimum_deviation", "deviation"),
)
# Of "peak-and-tail": the weight of the mean of the plan's last quarter. A plan that swings up and
# falls again is worth less than one that stays up.
_TAIL_WEIGHT = 0.3
_TAIL_SHARE = 4


class Search:
    """A planner whose fields are checked by their names."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_settings(self)


def check_settings(planner: Any) -> None:
    """Raise ValueError unless every field of a planner may be what it is.

    A field that is annotated so may be None, and one whose default is a bool is one.
    """
    for field in fields(planner):
        name, value = field.name, getattr(planner, field.name)
        if value is None and str(field.type).endswith("| None"):
            continue
        wanted = None
        if name in _COUNTS:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not is_whole or value < _COUNTS[name]:
                wanted = f"a whole number of at least {_COUNTS[name]}"
        elif name in _NUMBERS:
            text, fits = _NUMBERS[name]
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if not is_number or not fits(value):
                wanted = f"a number {text}"
        elif name in _CHOICES and value not in get_args(_CHOICES[name]):
            wanted = f"one of {get_args(_CHOICES[name])}"
        elif isinstance(field.default, bool) and not isinstance(value, bool):
            wanted = "True or False"
        if wanted:
            raise ValueError(f"{name} must be {wanted}, got {value!r}")
    for name, limit in _BOUNDS:
        value, most = getattr(planner, name, None), getattr(planner, limit, None)
        if value is not None and most is not None and value > most:
            raise ValueError(f"{name} must not exceed {limit} {most}, got {value}")


def written(planner: Any, always: Container[str]) -> str:
    """Return how a planner is made: the fields that are always named, and those that differ."""
    shown = (
        f"{field.name}={getattr(planner, field.name)!r}"
        for field in fields(planner)
        if field.name in always or (field.repr and getattr(planner, field.name) != field.default)
    )
    return f"{type(planner).__name__}({', '.join(shown)})"


def score_plans(world_model: PlanningModel, latents: FloatArray, plans: FloatArray) -> FloatArray:
    """Imagine every candidate: latents [N, Z], plans [N, K, H, A] to scores [N, K, H]."""

    def scored(part: FloatArray) -> FloatArray:
        rows = part.reshape(-1, *part.shape[2:])
        imagined = world_model.rollout(np.repeat(latents, part.shape[1], axis=0), rows)
        return world_model.score(imagined).reshape(part.shape[:3])

    return _in_parts(scored, latents, plans)


def _in_parts(
    rating: Callable[[FloatArray], FloatArray], latents: FloatArray, plans: FloatArray
) -> FloatArray:
    """Return what rates plans [N, K, H, A]: [N, K, ...], of so many candidates as fit into memory.

    Each part is of every episode, whose noise is drawn in the same order.
    """
    episodes, candidates, horizon, _ = plans.shape
    most = max(1, _ROOM // max(1, episodes * horizon * latents.shape[1] * latents.itemsize))
    if candidates <= most:
        return rating(plans)
    parts = [rating(plans[:, begin : begin + most]) for begin in range(0, candidates, most)]
    return np.concatenate(parts, axis=1)


def cut_at_best(
    scores: FloatArray, remaining: IntArray, *, ties: Ties = "earliest"
) -> tuple[FloatArray, IntArray]:
    """Return the best score of each candidate [N, K] and the steps that lead there [N, K].

    Lower scores [N, K, H] are better; steps past the remaining ones [N] do not count. Of several
    best steps the earliest is taken; with ties="published" the last step wins its ties, as the
    published rule starts from its score and looks for a strictly better one.
    """
    horizon = scores.shape[-1]
    cap = np.minimum(remaining, horizon)
    if (cap < horizon).any():
        scores = np.where(np.arange(horizon) < cap[:, None, None], scores, np.inf)
    step = scores.argmin(axis=-1)
    best = np.take_along_axis(scores, step[..., None], axis=-1)[..., 0]
    lengths = step + 1
    if ties == "published":
        last = np.broadcast_to((cap - 1)[:, None, None], (*scores.shape[:2], 1))
        wins = np.take_along_axis(scores, last, axis=-1)[..., 0] == best
        lengths = np.where(wins, cap[:, None], lengths)
    return best, lengths


class BestPlans:
    """The best plan [N, H, A] of each episode that a search has seen, and its lengths [N]."""

    def __init__(self, episodes: int, horizon: int, size: int) -> None:
        self.actions = np.empty((episodes, horizon, size))
        self.lengths = np.ones(episodes, dtype=np.intp)
        self._lowest: FloatArray | None = None

    def offer(self, plans: FloatArray, costs: FloatArray, lengths: IntArray) -> IntArray:
        """Look at plans [N, K, H, A]; return the candidates from the best to the worst [N, K]."""
        ranking = np.argsort(costs, axis=1, kind="stable")
        episodes, top = np.arange(len(plans)), ranking[:, 0]
        cost = costs[episodes, top]
        better = np.ones(len(plans), dtype=bool) if self._lowest is None else cost < self._lowest
        self._lowest = np.where(better, cost, cost if self._lowest is None else self._lowest)
        self.lengths = np.where(better, lengths[episodes, top], self.lengths)
        self.actions[better] = plans[episodes, top][better]
        return ranking


def take(plans: FloatArray, candidates: IntArray) -> FloatArray:
    """Return some candidates [N, E] of plans [N, K, H, A]: [N, E, H, A]."""
    return np.take_along_axis(plans, candidates[:, :, None, None], axis=1)


def cheapest(plans: FloatArray, costs: FloatArray, lengths: IntArray) -> Plans:
    """Return the cheapest of candidates [N, K, H, A] for each episode, of equal ones the first."""
    episodes, best = np.arange(len(plans)), costs.argmin(axis=1)
    return Plans(plans[episodes, best], lengths[episodes, best])


def objective_of(planner: Planner) -> Objective:
    """Return what a planner chooses plans for, as far as we know."""
    objective: Any = getattr(planner, "objective", "best")
    return objective if objective in get_args(Objective) else "best"


def rate(
    scores: FloatArray,
    remaining: IntArray,
    *,
    objective: Objective = "best",
    execute: int | None = None,
    ties: Ties = "earliest",
) -> tuple[FloatArray, IntArray]:
    """Return the cost of each candidate [N, K] and how many steps of it to execute [N, K].

    Lower scores [N, K, H] and costs are better; steps past the remaining ones [N] do not count.

    Parameters
    ----------
    objective : "best", "sum", "terminal" or "peak-and-tail"
        The score of the best step (the published rule), the sum of all scores, the last score, or
        the best score and 0.3 of the mean of the last quarter. Where rewards rate, a step's score
        is minus its reward; where a value stands behind them, minus the return of a plan that ends
        there.
    execute : int, optional
        Steps to execute; by default up to the best step, as published.
    ties : "earliest" or "published"
        See `cut_at_best`.
    """
    best, lengths = cut_at_best(scores, remaining, ties=ties)
    if execute is not None:
        lengths = np.broadcast_to(np.minimum(remaining, execute)[:, None], best.shape)
    if objective == "best":
        return best, lengths
    weights = step_weights(scores, remaining, objective=objective)
    # A diverged plan rates as infinity, which no weight of zero takes away.
    return (weights * np.where(weights > 0, scores, 0.0)).sum(axis=-1), lengths


def step_weights(
    scores: FloatArray, remaining: IntArray, *, objective: Objective = "best"
) -> FloatArray:
    """Return the weight of each step's score in the cost [N, K, H]; see `rate`."""
    horizon = scores.shape[-1]
    cap = np.minimum(remaining, horizon)[:, None, None]
    step = np.broadcast_to(np.arange(horizon), scores.shape)
    if objective == "sum":
        return np.asarray(step < cap, dtype=np.float64)
    if objective == "terminal":
        return np.asarray(step == cap - 1, dtype=np.float64)
    _, lengths = cut_at_best(scores, remaining)
    weights: FloatArray = np.asarray(step == lengths[..., None] - 1, dtype=np.float64)
    if objective == "peak-and-tail":
        tail = np.maximum(1, cap // _TAIL_SHARE)
        weights += np.where((step < cap) & (step >= cap - tail), _TAIL_WEIGHT / tail, 0.0)
    return weights


def choice_of(planner: Any) -> dict[str, Any]:
    """Return how a planner chooses, as `rate` takes it: its own fields, or the defaults."""
    names = ("execute", "ties")
    own = {name: getattr(planner, name) for name in names if hasattr(planner, name)}
    return {"objective": objective_of(planner), **own}


def rate_plans(
    planner: Any,
    world_model: PlanningModel,
    latents: FloatArray,
    plans: FloatArray,
    remaining: IntArray,
) -> tuple[FloatArray, IntArray]:
    """Imagine candidates [N, K, H, A] from latents [N, Z]; return what `rate` says of them.

    Where nothing but the end of a plan decides, nothing else is rated.
    """
    choice = choice_of(planner)
    execute = choice.get("execute")
    if choice["objective"] != "terminal" or execute is None or not has(world_model, PlanCosts):
        return rate(score_plans(world_model, latents, plans), remaining, **choice)
    lengths = np.minimum(remaining, plans.shape[2])
    costs = _in_parts(lambda part: world_model.plan_costs(latents, part, lengths), latents, plans)
    return costs, np.broadcast_to(np.minimum(remaining, execute)[:, None], costs.shape)


class _EmptyWorld:
    """A planning model in which nothing happens: it counts steps, and notes who reads scores."""

    members = None

    def __init__(self, actions: ActionSpace) -> None:
        self.actions, self.steps, self.is_scored = actions, 0, False

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        self.steps += actions.shape[0] * actions.shape[1]
        return np.zeros((*actions.shape[:2], latents.shape[1]))

    def score(self, latents: FloatArray) -> FloatArray:
        self.is_scored = True
        return np.zeros(latents.shape[:2])

    def plan_costs(self, latents: FloatArray, plans: FloatArray, lengths: IntArray) -> FloatArray:
        del latents, lengths
        self.steps += int(np.prod(plans.shape[:3]))
        return np.zeros(plans.shape[:2])

    def asked(self, planner: Planner, budget: int, memory: Any = None) -> Any:
        """Ask for a plan that begins from a memory, and return what it leaves."""
        warm: Any = {"memory": memory} if is_warm_started(planner) else {}
        rngs = [np.random.default_rng(0)]
        plans = planner.plan(self, np.zeros((1, 1)), rngs, np.array([budget]), **warm)
        return getattr(plans, "memory", None)


def rollout_steps_per_plan(planner: Planner, actions: ActionSpace, *, budget: int) -> int:
    """Count the model steps that one plan imagines, by asking for one in an empty world.

    Of a planner that is warm started, a plan that begins from another one. What the members of an
    ensemble imagine for ``confidence="disagreement"``, a plan each, comes on top.
    """
    if has(planner, RolloutSteps):
        return int(planner.rollout_steps)
    world = _EmptyWorld(actions)
    memory = world.asked(planner, budget)
    if not is_warm_started(planner):
        return world.steps
    first, _ = world.steps, world.asked(planner, budget, memory)
    return world.steps - first


def reads_steps(planner: Planner, actions: ActionSpace, *, budget: int) -> bool:
    """Say whether a planner asks for scores of steps, by asking for a plan in an empty world."""
    if has(planner, RolloutSteps):
        return False
    world = _EmptyWorld(actions)
    world.asked(planner, budget)
    return world.is_scored


def widened(planner: Planner, times: int) -> Planner | None:
    """Return a planner that looks at so many times the plans; None where no field says how many.

    >>> from pytest_cpg.planners import MPPI
    >>> widened(MPPI(samples=8), 4).samples
    32
    """
    if not is_dataclass(planner):
        return None
    names = {field.name for field in fields(planner)}
    wider = {name: times * getattr(planner, name) for name in _WIDTHS if name in names}
    return replace(planner, **wider) if wider else None
