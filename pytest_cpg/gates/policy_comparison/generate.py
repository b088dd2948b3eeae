"""Generate: queries about policies of yours in any task, answered by its true dynamics.

The published construction (Koul et al. 2022): starts that some behaviour reached, a first action at
random, graded policies, and no pair whose returns are nearly the same.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations, product
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray, IntArray, Task, TaskError
from pytest_cpg.contracts.planner import Policy
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import has_ended
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries, policies_of
from pytest_cpg.planners.policies import check_repeats, checked_actions
from pytest_cpg.stats.intervals import check_count

HORIZONS = (10, 20, 30, 40, 50)
"""Those of the published queries."""

# Candidates that are simulated at once, always all of them: a batch of another size would round
# otherwise, and a candidate's returns are to be its own.
_BLOCK = 100
# First observations that every policy is asked about twice.
_PROBES = 4

Progress: TypeAlias = Callable[[int, int], object]


def generate_queries(
    task: Task,
    policies: Sequence[Policy],
    *,
    gap: float,
    seed: int,
    candidates: int = 2000,
    horizons: Sequence[int] = HORIZONS,
    discount: float = 1.0,
    starts: Behaviour = "mixed",
    same_start: float = 0.2,
    progress: Progress | None = None,
) -> PolicyQueries:
    """Return queries about pairs of policies, with the returns of the task's true dynamics.

    docs/policy-queries.md has a table of the arguments. Policies and tasks are deterministic, so
    one simulation of a side is its value. A candidate depends on the seed, its horizon and its
    index alone, however many there are. Raises ValueError for an impossible setting, and CpgError
    when a policy leaves the action space, the simulator diverges, no pair differs enough, or every
    state is over.
    """
    if not isinstance(task, Task):
        raise ValueError(f"task must be a task such as TASKS['maze'](), got {task!r:.60}")
    seed = check_count("seed", seed)
    candidates = check_count("candidates", candidates, least=1)
    horizons = _checked(horizons)
    acting = policies_of(policies)
    if len(acting) < 2:
        raise ValueError(f"need at least two policies to compare, got {len(acting)}")
    _check(candidates, starts, gap=gap, discount=discount, same_start=same_start)

    def act(
        policy: int, seen: FloatArray, step: int = 0, begun: FloatArray | None = None
    ) -> FloatArray:
        name = f"policy {policy}"
        return checked_actions(acting[policy], name, seen, task.actions, step=step, starts=begun)

    observed = task.observe(task.reset(np.arange(_PROBES)))
    for number, policy in enumerate(acting):
        check_repeats(policy, f"policy {number}", observed, act(number, observed))
    reached = reached_states(task, act, policies=len(acting), seed=seed, behaviour=starts)
    states = _living(task, reached)
    pairs = np.array(list(combinations(range(len(acting)), 2)))
    blocks = []
    for horizon, first in product(horizons, range(0, candidates, _BLOCK)):
        # A candidate depends on its index, the seed and its horizon alone.
        indices = range(first, first + _BLOCK)
        rngs = [Stream.QUERIES.of(seed, Drawn.CANDIDATES, horizon, index) for index in indices]
        begun, chosen = _sides(rngs, pairs, starts=len(states), same_start=same_start)
        opening = np.moveaxis(task.actions.sample(rngs, (2,)), 1, 0)
        both = Side(
            states=states[begun.reshape(-1)],
            policies=chosen.reshape(-1),
            horizons=np.full(2 * _BLOCK, horizon),
            actions=opening.reshape(2 * _BLOCK, 1, -1),
        )
        returns = true_returns(task, both, act, discount).reshape(2, -1)
        blocks.append((np.full((1, _BLOCK), horizon), returns, begun, chosen, opening))
        if progress is not None:
            progress(len(blocks) * _BLOCK, len(horizons) * candidates)
    return PolicyQueries(
        environment=task.name,
        policies=acting,
        discount=discount,
        action_space=task.actions,
        **_remaining(task, states, blocks, gap),
    )


def _sides(
    rngs: Sequence[np.random.Generator], pairs: IntArray, *, starts: int, same_start: float
) -> tuple[IntArray, IntArray]:
    """Return rows of the starts, and policies, of sides a and b: both [2, B].

    Of ``pairs`` of policies, so that the smaller index is always the first.
    """
    policies = np.stack([pairs[rng.integers(len(pairs))] for rng in rngs], axis=1)
    rows = np.stack([rng.integers(starts, size=2) for rng in rngs], axis=1)
    # The second number decides nothing any more, and without it old seeds had other actions.
    is_same = np.array([rng.random(2)[0] < same_start for rng in rngs])
    rows[1] = np.where(is_same, rows[0], rows[1])
    return rows, policies


def _remaining(
    task: Task, states: FloatArray, blocks: Sequence[Sequence[Any]], gap: float
) -> dict[str, Any]:
    """Return the arrays of the queries that remain: of horizons, returns and candidates."""
    parts = (np.concatenate(part, axis=1) for part in zip(*blocks, strict=True))
    (horizons,), returns, starts, policies, actions = parts
    differences = np.abs(returns[0] - returns[1])
    rows = np.flatnonzero(differences > gap)
    if not rows.size:
        raise ComponentError(
            f"no pair of policies differs by more than gap={gap!r}: the largest difference is "
            f"{differences.max():.3g}. Lower the gap, or grade the policies further apart."
        )
    arrays: dict[str, Any] = {"horizons": horizons[rows]}
    for number, side in enumerate("ab"):
        begun = states[starts[number, rows]]
        arrays |= {
            f"states_{side}": begun,
            f"observations_{side}": task.observe(begun),
            f"policy_{side}": policies[number, rows],
            f"actions_{side}": actions[number, rows],
            f"returns_{side}": returns[number, rows],
        }
    return arrays


def _living(task: Task, states: FloatArray) -> FloatArray:
    """Return the states [P, S] that are not over; stderr has how many are left out.

    Whatever is done there, nothing moves and nothing is paid: a query would ask which start is
    over.
    """
    is_over = has_ended(task, states)
    if is_over.all():
        raise ComponentError(
            f"{task.name}: all {len(states)} states that queries could start from are over. "
            f"Let terminated() be false at the start of an episode."
        )
    if is_over.any():
        sys.stderr.write(
            f"{is_over.sum()} of {len(states)} states are left out as starts of queries: their "
            f"episode is over.\n"
        )
    return states[~is_over]


def _checked(horizons: object) -> tuple[int, ...]:
    """Return horizons, or raise ValueError for what are none."""
    if not isinstance(horizons, Sequence):
        raise ValueError(f"horizons must be several, got {horizons!r}: write ({horizons!r},)")
    counts = tuple(check_count("horizons", horizon, least=1) for horizon in horizons)
    if not counts:
        raise ValueError("horizons must be at least one, got none")
    rising = tuple(sorted(set(counts)))
    if counts != rising:
        raise ValueError(f"horizons must increase, got {counts!r}: write {rising!r}")
    return counts


def _check(candidates: int, starts: str, **numbers: float) -> None:
    """Raise ValueError for an impossible setting."""
    if candidates % _BLOCK:
        raise ValueError(
            f"candidates must be a multiple of {_BLOCK}, which are simulated at once, got "
            f"{candidates!r}"
        )
    if starts not in get_args(Behaviour):
        raise ValueError(f"starts must be one of {get_args(Behaviour)}, got {starts!r}")
    for name, value in numbers.items():
        most, span = (math.inf, "at least 0") if name == "gap" else (1, "from 0 to 1")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise ValueError(f"{name} must be a number {span}, got {value!r}")


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
    groups = [(policy, np.flatnonzero(policies == policy)) for policy in np.unique(policies)]
    parts = [act(int(policy), observations[of], step, starts[of]) for policy, of in groups]
    actions = np.empty((len(policies), parts[0].shape[1]))
    actions[np.concatenate([of for _, of in groups])] = np.concatenate(parts)
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


def reached_states(
    task: Task, act: Acting, *, policies: int, seed: int, behaviour: Behaviour
) -> FloatArray:
    """Return the states [P, S] of episodes, those among them that are over, too.

    The behaviour is uniform actions ("random"); those of the policies in turn, with one in ten
    drawn anew ("learned"); or both, every other episode ("mixed"). Raises TaskError when the
    simulator diverges.
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
