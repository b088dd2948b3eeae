"""Own planner: a search that a learned model brings with it, made into a planner of its arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    FloatArray,
    IntArray,
    PlanningModel,
    Plans,
    Task,
    WorldModelError,
)
from pytest_cpg.contracts.planner import is_warm_started
from pytest_cpg.world_models.binding.conventions import (
    Sender,
    describe,
    first_that_works,
    floats,
    senders,
)

_PROMISE = (
    "plan(latents [N, Z], rngs, remaining [N]) -> (actions [N, H, A], lengths [N]), all noise "
    "drawn from the rngs. Rename it, and the gate's planner plans with this model"
)
# Of an action's range: what float32 rounds away.
_ROUNDING = 1e-6


class OwnPlanner:
    """A learned model's own ``plan``, as `Planner` has it.

    It is asked for one episode at a time: among others an episode could be planned otherwise.
    Raises WorldModelError when it cannot be called so with the model's own latents [P, Z], or plans
    otherwise when it is called again. ``own`` takes such latents out of those that planners see.
    """

    def __init__(
        self,
        learned: Any,
        task: Task,
        latents: FloatArray,
        *,
        own: Callable[[FloatArray], FloatArray],
    ) -> None:
        self.name = f"plan of {describe(learned)}"
        budget = np.full(1, task.budget)
        self._plan: Callable[..., Any] = learned.plan
        self._own, self._actions = own, task.actions
        self.is_warm_started = is_warm_started(learned)

        def through(sender: Sender) -> Callable[[FloatArray], list[Plans]]:
            self._sender = sender
            return lambda own: [self._one(own, np.random.default_rng(0), budget) for _ in range(2)]

        ways = ((sender.label, through(sender)) for sender in senders(learned.plan))
        _, (first, second) = first_that_works(ways, latents[:1], of=learned, promise=_PROMISE)
        if not np.array_equal(first.actions, second.actions):
            raise WorldModelError(
                f"{self.name} gave other actions for identical arguments, so no verdict on it "
                f"could be repeated. Draw all noise from rngs (for torch: "
                f"torch.Generator().manual_seed(int(rngs[0].integers(2**62)))), and keep no plan "
                f"between calls."
            )
        self.horizon = first.actions.shape[1]

    def __repr__(self) -> str:
        return self.name

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
        memory: FloatArray | None = None,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        del world_model
        latents = self._own(latents)
        rows = []
        for row, rng in enumerate(rngs):
            episode = slice(row, row + 1)
            remembered = None if memory is None else memory[episode].copy()
            rows.append(self._one(latents[episode], rng, remaining[episode], remembered))
            actions = rows[-1].actions
            if actions.shape[-1] != self._actions.size:
                continue
            wrong = actions[~self._actions.contains(actions)]
            if len(wrong):
                raise WorldModelError(
                    f"{self.name} gave the action {wrong[0]}, which is outside the task's: "
                    f"{self._actions}. Give the model those in its factory, which may take the "
                    f"task: task.actions."
                )
        stacked = (
            None if any(part is None for part in parts) else np.concatenate(parts)
            for parts in zip(*rows, strict=True)
        )
        return Plans(*stacked)  # type: ignore[arg-type]  # only what is optional may be None

    def _one(
        self,
        latents: FloatArray,
        rng: np.random.Generator,
        remaining: IntArray,
        memory: FloatArray | None = None,
    ) -> Plans:
        """Ask for the plan of one episode, and make arrays of what comes."""
        warm = {"memory": memory} if self.is_warm_started else {}
        answer = self._plan(self._sender.send(latents), [rng], remaining.copy(), **warm)
        if not isinstance(answer, tuple) or not 2 <= len(answer) <= len(Plans._fields):
            raise WorldModelError(
                f"{self.name} returned {type(answer).__name__!r}; return actions [N, H, A] and "
                f"lengths [N]"
            )
        arrays: list[Any] = [None if part is None else floats(part) for part in answer]
        actions, lengths, *others = arrays
        if (np.ndim(actions), np.shape(actions)[:1], np.shape(lengths)) != (3, (1,), (1,)):
            raise WorldModelError(
                f"{self.name} returned actions {np.shape(answer[0])} and lengths "
                f"{np.shape(answer[1])} for one episode; return actions [1, H, A] and lengths [1]"
            )
        whole = lengths.astype(np.int64)
        if whole[0] != lengths[0]:
            raise WorldModelError(f"{self.name} returned lengths {lengths}; return whole numbers")
        # Those that float32 moved off the space are put back on it.
        allowed, width = self._actions.nearest(actions), self._actions.high - self._actions.low
        is_near = (np.abs(allowed - actions) <= _ROUNDING * width).all(axis=-1, keepdims=True)
        return Plans(np.where(is_near, allowed, actions), whole, *others)
