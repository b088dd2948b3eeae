"""Simulator: what plans of discrete actions are worth in an environment that can be cloned."""

from __future__ import annotations

import inspect
import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from pytest_cpg.contracts import FloatArray

Plan: TypeAlias = tuple[Hashable, ...]

# Seeds that show whether it is stochastic, and plans that show whether clones share something.
_TRIALS = 8
_STEP = "observation, reward, terminated, truncated and info, as Gymnasium's"
_WANTED = {
    "reset": "Write reset(*, seed), which goes to where the plan begins.",
    "step": f"Write step(action), which returns {_STEP}.",
    "clone": "Write one that returns a copy that shares nothing, such as copy.deepcopy(self).",
}


class Environment(Protocol):
    """A world of discrete actions, real or learned, as Gymnasium has them, that can be cloned."""

    def reset(self, *, seed: int) -> Any:
        """Go to where the plan begins; all that is random from now on follows from the seed."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        """Return observation, reward, whether it is terminated, or truncated, and anything."""

    def clone(self) -> Environment:
        """Return a copy that goes on exactly as this one would, and shares nothing with it."""


def check_environment(environment: Any) -> None:
    """Raise ValueError where something is no environment, with what to write."""
    if isinstance(environment, type):
        raise ValueError(f"the environment is a class. Write {environment.__name__}(...).")
    name = type(environment).__name__
    for method, wanted in _WANTED.items():
        if not callable(getattr(environment, method, None)):
            raise ValueError(f"the environment, a {name!r}, has no {method}(). {wanted}")
    try:
        signature = inspect.signature(environment.reset)
    # Of what is written in C.
    except (TypeError, ValueError):
        return
    try:
        signature.bind(seed=0)
    except TypeError:
        raise ValueError(
            f"reset{signature} of the environment, a {name!r}, takes no seed. {_WANTED['reset']}"
        ) from None


class Simulator:
    """Simulates plans that share much with one plan, whose states are kept."""

    def __init__(self, environment: Environment, plan: Plan) -> None:
        self._environment, self.plan = environment, plan

    def returns(self, plans: Sequence[Plan], seeds: Sequence[int]) -> FloatArray:
        """Return the sum of rewards of each plan under each seed [R, K]."""
        rows = [self._row(plans, seed) for seed in seeds]
        return np.array(rows, dtype=np.float64)

    def replayed(self, plan: Plan, seed: int) -> float:
        """Return the sum of rewards of one plan, followed from the start."""
        return self._begun(seed).after(plan).total

    def check_deterministic(self, seeds: Sequence[int]) -> None:
        """Raise ValueError where some seeds make the plan worth more or less."""
        returns = self.returns([self.plan], seeds[:_TRIALS])
        if np.ptp(returns):
            raise ValueError(
                f"the environment is stochastic: from {_TRIALS} seeds the plan is worth "
                f"{returns.min():g} to {returns.max():g}. Write error=0.05 for as many rollouts as "
                f"bound the score so closely."
            )

    def check_clones(self, plans: Sequence[Plan], seed: int, returns: FloatArray) -> None:
        """Raise ValueError where plans are worth something else without what clones share."""
        for plan, worth in list(zip(plans, returns, strict=True))[:_TRIALS]:
            alone = self.replayed(plan, seed)
            if alone != worth:
                raise ValueError(
                    f"the plan {plan!r:.60} is worth {worth:g} by clones of the environment, and "
                    f"{alone:g} from its start. Let clone() return a copy that shares nothing, and "
                    f"reset(seed=...) decide all that is random."
                )

    def _begun(self, seed: int) -> Reached:
        world = _cloned(self._environment)
        world.reset(seed=seed)
        return Reached(world, 0.0, is_over=False)

    def _row(self, plans: Sequence[Plan], seed: int) -> list[float]:
        reached, passed = self._begun(seed), []
        for action in self.plan:
            passed.append(reached)
            reached = reached.after((action,))
        passed.append(reached)
        row = []
        for plan in plans:
            shared = next(
                (at for at, (a, b) in enumerate(zip(plan, self.plan, strict=False)) if a != b),
                min(len(plan), len(self.plan)),
            )
            row.append(passed[shared].after(plan[shared:]).total)
        return row


class Reached(NamedTuple):
    """Where some actions led, and what they were rewarded with."""

    world: Environment
    total: float
    is_over: bool

    def after(self, actions: Plan) -> Reached:
        """Return where further actions lead; this stays as it is."""
        if self.is_over or not actions:
            return self
        world, total, is_over = _cloned(self.world), self.total, False
        for action in actions:
            reward, is_over = _stepped(world, action)
            total += reward
            if is_over:
                break
        return Reached(world, total, is_over)


def _cloned(world: Environment) -> Environment:
    """Return a clone, or raise ValueError where it is none."""
    clone: Any = world.clone()
    if not callable(getattr(clone, "step", None)) or not callable(getattr(clone, "clone", None)):
        raise ValueError(
            f"clone() returned {clone!r:.60}. Return a copy of the environment that shares "
            f"nothing, such as copy.deepcopy(self)."
        )
    return cast("Environment", clone)


def _stepped(world: Environment, action: Any) -> tuple[float, bool]:
    """Take a step; return its reward, and whether the episode is over."""
    answer: Any = world.step(action)
    if not isinstance(answer, tuple | list) or len(answer) != 5:
        raise ValueError(f"step({action!r}) returned {answer!r:.60}. Return {_STEP}.")
    _, reward, terminated, truncated, _ = answer
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"action {action!r} was rewarded with {reward!r:.60}. Let step() return a finite "
            f"number."
        )
    return number, bool(terminated or truncated)
