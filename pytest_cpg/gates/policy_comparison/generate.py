"""Generate: queries about policies of yours in any task, answered by its true dynamics.

The published construction (Koul et al. 2022): starts that some behaviour reached, a first action at
random, graded policies, and no pair whose returns are nearly the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import BoolArray, ComponentError, FloatArray, IntArray, Task
from pytest_cpg.contracts.policy import Policy
from pytest_cpg.contracts.task import has_ended
from pytest_cpg.gates.policy_comparison.candidates import (
    Behaviour,
    Candidates,
    draw_candidates,
    reached_states,
)
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries, policies_of
from pytest_cpg.gates.policy_comparison.simulators import true_returns
from pytest_cpg.planners.acting import check_repeats, checked_actions
from pytest_cpg.stats.counts import check_count

HORIZONS = (10, 20, 30, 40, 50)
"""Those of the published queries."""

# Candidates that are simulated at once, always all of them: a batch of another size would round
# otherwise, and a candidate's returns are to be its own.
_BLOCK = 100
# First observations that every policy is asked about twice.
_PROBES = 4

Progress: TypeAlias = Callable[[int, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is asked for, checked."""

    task: Task
    policies: tuple[Policy, ...]
    seed: int
    candidates: int
    horizons: tuple[int, ...]
    discount: float
    starts: Behaviour
    same_start: float

    def act(
        self,
        policy: int,
        observations: FloatArray,
        step: int = 0,
        starts: FloatArray | None = None,
    ) -> FloatArray:
        """Return the actions [B, A] of a policy, by its index; see `PolicyQueries.act`."""
        return checked_actions(
            self.policies[policy],
            f"policy {policy}",
            observations,
            self.task.actions,
            step=step,
            starts=starts,
        )

    @property
    def blocks(self) -> list[tuple[int, IntArray]]:
        """The horizon and the indices of each block of candidates, in order."""
        firsts = range(0, self.candidates, _BLOCK)
        return [(h, np.arange(_BLOCK) + first) for h in self.horizons for first in firsts]

    def drawn(self, states: FloatArray, horizon: int, indices: IntArray) -> Candidates:
        """Return the candidates of a block, whose starts are among states [P, S]."""
        return draw_candidates(
            self.task,
            indices,
            seed=self.seed,
            horizon=horizon,
            starts=len(states),
            policies=len(self.policies),
            same_start=self.same_start,
        )


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
    plan = _Plan(
        task=task,
        policies=policies_of(policies),
        seed=check_count("seed", seed),
        candidates=check_count("candidates", candidates, least=1),
        horizons=tuple(check_count("horizons", one, least=1) for one in horizons),
        discount=discount,
        starts=starts,
        same_start=same_start,
    )
    _check(plan, gap)
    _check_policies(plan)
    states = _living_states(plan, announce)
    returns = _returns(plan, states, progress)
    return _queries(plan, states, returns, gap, is_balanced=balanced)


def _living_states(plan: _Plan, announce: Callable[[str], object]) -> FloatArray:
    """Return the states [P, S] that queries start from, and tell how many are left out as over.

    Whatever is done there, nothing moves and nothing is paid: a query would ask which start is
    over.
    """
    states = reached_states(
        plan.task,
        plan.act,
        policies=len(plan.policies),
        seed=plan.seed,
        behaviour=plan.starts,
    )
    is_over = has_ended(plan.task, states)
    if is_over.all():
        raise ComponentError(
            f"{plan.task.name}: all {len(states)} states that queries could start from are over. "
            f"Let terminated() be false at the start of an episode."
        )
    if is_over.any():
        announce(
            f"{is_over.sum()} of {len(states)} states are left out as starts of queries: their "
            f"episode is over.\n"
        )
    return states[~is_over]


def _returns(plan: _Plan, states: FloatArray, progress: Progress | None) -> FloatArray:
    """Return what both sides of all candidates [C] earn, [2, C]."""
    returns, blocks = [], plan.blocks
    for done, (horizon, indices) in enumerate(blocks, 1):
        sides = plan.drawn(states, horizon, indices).sides(states, horizon)
        returns.append(true_returns(plan.task, sides, plan.act, plan.discount).reshape(2, -1))
        if progress is not None:
            progress(done * _BLOCK, len(blocks) * _BLOCK)
    return np.concatenate(returns, axis=1)


def _queries(
    plan: _Plan, states: FloatArray, returns: FloatArray, gap: float, *, is_balanced: bool
) -> PolicyQueries:
    """Return the queries that remain of all candidates with returns [2, C]."""
    blocks = [plan.drawn(states, horizon, indices) for horizon, indices in plan.blocks]
    starts, policies, actions = (
        np.concatenate([getattr(block, name) for block in blocks], axis=1)
        for name in ("starts", "policies", "actions")
    )
    horizons = np.repeat(plan.horizons, plan.candidates)
    sides = np.stack([np.zeros_like(horizons), np.ones_like(horizons)])
    differences = np.abs(returns[0] - returns[1])
    is_kept = differences > gap
    if is_balanced:
        sides[:, np.concatenate([block.is_turned for block in blocks])] ^= 1
        labels = np.take_along_axis(returns, sides, axis=0)
        is_kept &= _evenly(labels[0] < labels[1], horizons, is_kept)
    if not is_kept.any():
        raise ComponentError(
            f"no pair of policies differs by more than gap={gap!r}: the largest difference is "
            f"{differences.max():.3g}. Lower the gap, or grade the policies further apart."
        )
    rows = np.flatnonzero(is_kept)
    found: Any = {}
    for number, side in enumerate("ab"):
        # Which of the two drawn sides is this one now.
        own = (sides[number, rows], rows)
        begun = states[starts[own]]
        found |= {
            f"states_{side}": begun,
            f"observations_{side}": plan.task.observe(begun),
            f"policy_{side}": policies[own],
            f"actions_{side}": actions[own],
            f"returns_{side}": returns[own],
        }
    return PolicyQueries(
        environment=plan.task.name,
        policies=plan.policies,
        horizons=horizons[rows],
        discount=plan.discount,
        action_space=plan.task.actions,
        **found,
    )


def _evenly(labels: BoolArray, horizons: IntArray, is_kept: BoolArray) -> BoolArray:
    """Say which candidates [C] to keep so that labels are even: the first of the more frequent."""
    chosen = np.zeros(len(labels), dtype=np.bool_)
    for horizon in np.unique(horizons):
        own = is_kept & (horizons == horizon)
        each = [np.flatnonzero(own & (labels == label)) for label in (False, True)]
        fewest = min(map(len, each))
        chosen[np.concatenate([rows[:fewest] for rows in each])] = True
    return chosen


def _check_policies(plan: _Plan) -> None:
    """Raise CpgError unless every policy answers first observations alike twice."""
    observed = plan.task.observe(plan.task.reset(np.arange(_PROBES)))
    for number, policy in enumerate(plan.policies):
        check_repeats(policy, f"policy {number}", observed, plan.act(number, observed))


def _check(plan: _Plan, gap: float) -> None:
    if len(plan.policies) < 2:
        raise ValueError(f"need at least two policies to compare, got {len(plan.policies)}")
    if plan.candidates % _BLOCK:
        raise ValueError(
            f"candidates must be a multiple of {_BLOCK}, which are simulated at once, got "
            f"{plan.candidates!r}"
        )
    horizons = plan.horizons
    if not horizons:
        raise ValueError("horizons must be at least one, got none")
    if list(horizons) != sorted(set(horizons)):
        raise ValueError(
            f"horizons must increase, got {horizons!r}: write {tuple(sorted(set(horizons)))!r}"
        )
    if plan.starts not in get_args(Behaviour):
        raise ValueError(f"starts must be one of {get_args(Behaviour)}, got {plan.starts!r}")
    for name, value, most in (
        ("gap", gap, float("inf")),
        ("discount", plan.discount, 1),
        ("same_start", plan.same_start, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            span = "at least 0" if name == "gap" else "from 0 to 1"
            raise ValueError(f"{name} must be a number {span}, got {value!r}")
