"""Simulators: the true worlds in which policies earn their returns, many rows in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray, Task, TaskError
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import has_ended

# What a policy, by its index, does on observations [B, O] at a step of rows that began at [B, O].
Acting: TypeAlias = Callable[[int, FloatArray, int, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """Rows [B] that are simulated at once: starts [B, S], who acts, first actions [B, K, A]."""

    states: FloatArray
    policies: IntArray
    horizons: IntArray
    actions: FloatArray | None = None


def true_returns(simulator: Any, side: Side, act: Acting, discount: float) -> FloatArray:
    """Return what rows earn in the true world, [B]; raise TaskError where it diverges.

    The simulator has of a `Task` observe, step and reward, and may have `Endings`.
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
    acting, begins = np.unique(policies[order], return_index=True)
    parts = [
        act(int(policy), observations[rows], step, starts[rows])
        for policy, rows in zip(acting, np.split(order, begins[1:]), strict=True)
    ]
    actions = np.empty((len(policies), parts[0].shape[1]))
    actions[order] = np.concatenate(parts)
    return actions


Behaviour: TypeAlias = Literal["random", "learned", "mixed"]

# Episodes that starts are taken from, and their most steps. The policies are disturbed in so large
# a share of theirs.
_EPISODES = 200
_STEPS = 100
_DISTURBED = 0.1


_RANDOM = {
    "random": np.ones(_EPISODES, dtype=np.bool_),
    "learned": np.zeros(_EPISODES, dtype=np.bool_),
    "mixed": np.arange(_EPISODES) % 2 == 0,
}


class Drawn(IntEnum):
    """What is drawn for queries: the number behind `Stream.QUERIES` in its key."""

    EPISODES = 0
    CANDIDATES = 1
    STRETCHES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Pairs of sides, ``B`` of them.

    Attributes
    ----------
    starts : array [2, B], int
        Of sides a and b, as rows of the starts that they are drawn from.
    policies : array [2, B], int
        Of sides a and b; the smaller index is always the first.
    actions : array [2, B, A]
        What is done first.
    is_turned : array [B], bool
        Whether a balanced set would have the sides the other way round: tossed.
    """

    starts: IntArray
    policies: IntArray
    actions: FloatArray
    is_turned: BoolArray

    def sides(self, states: FloatArray, horizon: int) -> Side:
        """Return both sides as rows [2 * B], those of a first, of starts ``states`` [P, S]."""
        rows = self.starts.reshape(-1)
        return Side(
            states=states[rows],
            policies=self.policies.reshape(-1),
            horizons=np.full(len(rows), horizon),
            actions=self.actions.reshape(len(rows), 1, -1),
        )


def draw_candidates(
    task: Task,
    indices: IntArray,
    *,
    seed: int,
    horizon: int,
    starts: int,
    policies: int,
    same_start: float,
) -> Candidates:
    """Return the candidates of these indices [B]; each depends on its index, seed and horizon.

    ``starts`` and ``policies`` are how many there are to draw from.
    """
    pairs = np.array(list(combinations(range(policies), 2)))
    rngs = [Stream.QUERIES.of(seed, Drawn.CANDIDATES, horizon, index) for index in indices]
    chosen = np.stack([pairs[rng.integers(len(pairs))] for rng in rngs], axis=1)
    drawn = np.stack([rng.integers(starts, size=2) for rng in rngs], axis=1)
    is_same = np.array([rng.random() < same_start for rng in rngs])
    drawn[1] = np.where(is_same, drawn[0], drawn[1])
    is_turned = np.array([rng.random() < 0.5 for rng in rngs])
    actions = np.moveaxis(task.actions.sample(rngs, (2,)), 1, 0)
    return Candidates(starts=drawn, policies=chosen, actions=actions, is_turned=is_turned)


def reached_states(
    task: Task, act: Acting, *, policies: int, seed: int, behaviour: Behaviour
) -> FloatArray:
    """Return the states [P, S] of episodes, those among them that are over, too.

    Raises TaskError when the simulator diverges.

    Parameters
    ----------
    behaviour : "random", "learned" or "mixed"
        Uniform actions; those of the policies in turn, with one in ten drawn anew; or both, every
        other episode.
    """
    streams = [Stream.QUERIES.of(seed, Drawn.EPISODES, row) for row in range(_EPISODES)]
    states = task.reset(np.array([rng.integers(2**32) for rng in streams]))
    rows, steps, is_random = np.arange(_EPISODES), min(_STEPS, task.budget), _RANDOM[behaviour]
    noise = task.actions.sample(streams, (steps,))
    is_noise = np.stack([rng.random(steps) < _DISTURBED for rng in streams]) | is_random[:, None]
    # In mixed behaviour, too, every policy has its episodes.
    policy_of = (rows // 2 if behaviour == "mixed" else rows) % policies
    followed = np.flatnonzero(~is_random)
    visited, begun = [states], task.observe(states)
    for step in range(steps):
        actions = np.array(noise[:, step])
        if followed.size:
            observed = task.observe(states[followed])
            wanted = acted(act, policy_of[followed], observed, step, begun[followed])
            keeps = ~is_noise[followed, step]
            actions[followed[keeps]] = wanted[keeps]
        states = task.step(states, actions)
        if np.isnan(task.observe(states)).any():
            raise TaskError(
                f"{task.name}: the simulator diverged at step {step + 1} of the episodes that "
                f"queries start from. Reduce its time step, or have the policies do less."
            )
        visited.append(states)
    return np.concatenate(visited)
