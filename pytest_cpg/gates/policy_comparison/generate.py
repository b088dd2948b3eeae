"""Generate: queries about policies of yours in any task, answered by its true dynamics.

The published construction (Koul et al. 2022): starts that some behaviour reached, a first action at
random, graded policies, and no pair whose returns are nearly the same.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import BoolArray, ComponentError, FloatArray, IntArray, Task
from pytest_cpg.contracts.planner import Policy
from pytest_cpg.contracts.task import has_ended
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries, policies_of
from pytest_cpg.gates.policy_comparison.simulators import (
    Behaviour,
    Candidates,
    draw_candidates,
    reached_states,
    true_returns,
)
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
    balanced: bool = False,
    progress: Progress | None = None,
    announce: Callable[[str], object] = sys.stderr.write,
) -> PolicyQueries:
    """Return queries about pairs of policies, with the returns of the task's true dynamics.

    Policies and tasks are deterministic, so one simulation of a side is its value. A candidate
    depends on the seed, its horizon and its index alone, however many there are.

    Parameters
    ----------
    policies : sequence of Policy
        At least two, best from the best to the worst: the first of a pair is always side a.
    gap : float
        Candidates whose returns differ by no more are left out, as ambiguous; at least 0.
    candidates : int
        For each horizon; a multiple of 100, which are simulated at once.
    horizons : sequence of int
        Steps that are counted, increasing.
    discount : float
        In [0, 1].
    starts : "random", "learned" or "mixed"
        What reached the states that queries start from: see `reached_states`.
    same_start : float
        Share of candidates with one start and two first actions; the others have two starts.
    balanced : bool
        Toss which side is a, and leave out as many as make labels equally frequent at each horizon.
    progress : callable, optional
        Called with candidates done and in all after each block.
    announce : callable
        Called with a sentence on the states that are left out, because an episode is over there.

    Raises
    ------
    ValueError
        For an impossible setting.
    CpgError
        When a policy leaves the action space, the simulator diverges, no pair differs enough, or
        every state is over.
    """
    if not isinstance(task, Task):
        raise ValueError(f"task must be a task such as TASKS['maze'](), got {task!r:.60}")
    if not isinstance(horizons, Sequence):
        raise ValueError(f"horizons must be several, got {horizons!r}: write ({horizons!r},)")
    seed = check_count("seed", seed)
    candidates = check_count("candidates", candidates, least=1)
    horizons = tuple(check_count("horizons", horizon, least=1) for horizon in horizons)
    acting = policies_of(policies)
    if len(acting) < 2:
        raise ValueError(f"need at least two policies to compare, got {len(acting)}")
    _check(candidates, horizons, starts, gap=gap, discount=discount, same_start=same_start)
    names = [f"policy {number}" for number in range(len(acting))]

    def act(
        policy: int, seen: FloatArray, step: int = 0, begun: FloatArray | None = None
    ) -> FloatArray:
        return checked_actions(
            acting[policy], names[policy], seen, task.actions, step=step, starts=begun
        )

    observed = task.observe(task.reset(np.arange(_PROBES)))
    for number, policy in enumerate(acting):
        check_repeats(policy, names[number], observed, act(number, observed))
    reached = reached_states(task, act, policies=len(acting), seed=seed, behaviour=starts)
    states = _living(task, reached, announce)
    drawn = [
        draw_candidates(
            task,
            np.arange(_BLOCK) + first,
            seed=seed,
            horizon=horizon,
            starts=len(states),
            policies=len(acting),
            same_start=same_start,
        )
        for horizon in horizons
        for first in range(0, candidates, _BLOCK)
    ]
    horizon_of = np.repeat(horizons, candidates)
    returns = []
    for done, block in enumerate(drawn, 1):
        sides = block.sides(states, horizon_of[(done - 1) * _BLOCK])
        returns.append(true_returns(task, sides, act, discount).reshape(2, -1))
        if progress is not None:
            progress(done * _BLOCK, len(horizon_of))
    return PolicyQueries(
        environment=task.name,
        policies=acting,
        discount=discount,
        action_space=task.actions,
        **_remaining(
            task, states, drawn, np.concatenate(returns, axis=1), horizon_of, gap, balanced
        ),
    )


def _living(task: Task, states: FloatArray, announce: Callable[[str], object]) -> FloatArray:
    """Return the states [P, S] that are not over, and tell how many are left out.

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
        announce(
            f"{is_over.sum()} of {len(states)} states are left out as starts of queries: their "
            f"episode is over.\n"
        )
    return states[~is_over]


def _remaining(
    task: Task,
    states: FloatArray,
    drawn: Sequence[Candidates],
    returns: FloatArray,
    horizons: IntArray,
    gap: float,
    is_balanced: bool,
) -> dict[str, Any]:
    """Return the arrays of the queries that remain of all candidates with returns [2, C]."""
    starts, policies, actions = (
        np.concatenate([getattr(block, name) for block in drawn], axis=1)
        for name in ("starts", "policies", "actions")
    )
    sides = np.stack([np.zeros_like(horizons), np.ones_like(horizons)])
    differences = np.abs(returns[0] - returns[1])
    is_kept = differences > gap
    if is_balanced:
        sides[:, np.concatenate([block.is_turned for block in drawn])] ^= 1
        labels = np.take_along_axis(returns, sides, axis=0)
        is_kept &= _evenly(labels[0] < labels[1], horizons, is_kept)
    if not is_kept.any():
        raise ComponentError(
            f"no pair of policies differs by more than gap={gap!r}: the largest difference is "
            f"{differences.max():.3g}. Lower the gap, or grade the policies further apart."
        )
    rows = np.flatnonzero(is_kept)
    arrays: dict[str, Any] = {"horizons": horizons[rows]}
    for number, side in enumerate("ab"):
        # Which of the two drawn sides is this one now.
        chosen = (sides[number, rows], rows)
        begun = states[starts[chosen]]
        arrays |= {
            f"states_{side}": begun,
            f"observations_{side}": task.observe(begun),
            f"policy_{side}": policies[chosen],
            f"actions_{side}": actions[chosen],
            f"returns_{side}": returns[chosen],
        }
    return arrays


def _evenly(labels: BoolArray, horizons: IntArray, is_kept: BoolArray) -> BoolArray:
    """Say which candidates [C] to keep so that labels are even: the first of the more frequent."""
    chosen = np.zeros(len(labels), dtype=np.bool_)
    for horizon in np.unique(horizons):
        is_here = is_kept & (horizons == horizon)
        each = [np.flatnonzero(is_here & (labels == label)) for label in (False, True)]
        fewest = min(map(len, each))
        chosen[np.concatenate([rows[:fewest] for rows in each])] = True
    return chosen


def _check(candidates: int, horizons: Sequence[int], starts: str, **numbers: float) -> None:
    """Raise ValueError for an impossible setting."""
    if candidates % _BLOCK:
        raise ValueError(
            f"candidates must be a multiple of {_BLOCK}, which are simulated at once, got "
            f"{candidates!r}"
        )
    if not horizons:
        raise ValueError("horizons must be at least one, got none")
    if list(horizons) != sorted(set(horizons)):
        raise ValueError(
            f"horizons must increase, got {horizons!r}: write {tuple(sorted(set(horizons)))!r}"
        )
    if starts not in get_args(Behaviour):
        raise ValueError(f"starts must be one of {get_args(Behaviour)}, got {starts!r}")
    for name, value in numbers.items():
        most, span = (math.inf, "at least 0") if name == "gap" else (1, "from 0 to 1")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise ValueError(f"{name} must be a number {span}, got {value!r}")
