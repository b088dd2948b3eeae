"""Simulators: the true worlds in which policies earn their returns, many rows in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, TaskError
from pytest_cpg.contracts.task import has_ended

# What a policy, by its index, does on observations [B, O] at a step of rows that began at [B, O].
Acting: TypeAlias = Callable[[int, FloatArray, int, FloatArray], FloatArray]


class Simulator(Protocol):
    """What of a `Task` is simulated; ``terminated(states)`` says where episodes end, if they do."""

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [B, S] to observations [B, O]."""
        ...

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to the next states [B, S]."""
        ...

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map the states reached and the actions that led there to rewards [B]."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """Rows [B] that are simulated at once: starts [B, S], who acts, first actions [B, K, A]."""

    states: FloatArray
    policies: IntArray
    horizons: IntArray
    actions: FloatArray | None = None


def true_returns(simulator: Simulator, side: Side, act: Acting, discount: float) -> FloatArray:
    """Return what rows earn in the true world, [B]; raise TaskError where it diverges.

    The reward of the step that ended an episode counts.
    """
    states = np.array(side.states, dtype=np.float64)
    totals, going = np.zeros(len(states)), np.arange(len(states))
    begun = simulator.observe(states)
    for step in range(int(side.horizons.max())):
        going = going[side.horizons[going] > step]
        if not going.size:
            break
        if side.actions is not None and step < side.actions.shape[1]:
            actions = side.actions[going, step]
        else:
            observed = simulator.observe(states[going])
            actions = acted(act, side.policies[going], observed, step, begun[going])
        reached = simulator.step(states[going], actions)
        rewards = simulator.reward(reached, actions)
        lost = np.flatnonzero(~np.isfinite(rewards))
        if len(lost):
            raise TaskError(
                f"the simulator diverged in row {going[lost[0]]} at step {step + 1}, after the "
                f"action {actions[lost[0]]}. Leave the query out, or have its policies do less."
            )
        states[going] = reached
        totals[going] += discount**step * rewards
        going = going[~has_ended(simulator, reached)]
    return totals


def acted(
    act: Acting, policies: IntArray, observations: FloatArray, step: int, starts: FloatArray
) -> FloatArray:
    """Return what policies, one index a row [B], do on observations [B, O]: [B, A]."""
    order = np.argsort(policies, kind="stable")
    own, begins = np.unique(policies[order], return_index=True)
    parts = [
        act(int(policy), observations[rows], step, starts[rows])
        for policy, rows in zip(own, np.split(order, begins[1:]), strict=True)
    ]
    actions = np.empty((len(policies), parts[0].shape[1]))
    actions[order] = np.concatenate(parts)
    return actions
