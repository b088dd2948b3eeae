"""Simulators: the true worlds in which policies earn their returns, many rows in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from pytest_cpg.contracts import BoolArray, ComponentError, FloatArray, IntArray, Task, TaskError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.task import has_ended
from pytest_cpg.gates.policy_comparison.environments import ENVIRONMENTS, Environment
from pytest_cpg.gates.policy_comparison.point_maze import PointMaze
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries

# What a policy, by its index, does on observations [B, O] at a step of rows that began at [B, O].
Acting: TypeAlias = Callable[[int, FloatArray, int, FloatArray], FloatArray]


class Simulator(Protocol):
    """A world that can be put into states [B, S] and stepped.

    ``P`` is what it takes to go on from a state exactly, such as what a solver remembers.
    """

    def begin(self, states: FloatArray) -> FloatArray:
        """Map states [B, S] to what can be stepped from [B, P]."""
        ...

    def observe(self, inner: FloatArray) -> FloatArray:
        """Map [B, P] to observations [B, O]."""
        ...

    def step(
        self, inner: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Map [B, P] and actions [B, A] to the next [B, P], rewards [B], and who has ended [B].

        The reward of the step that ended counts.
        """
        ...


@dataclass(frozen=True, slots=True)
class BodySimulator:
    """A body of gymnasium's, rewarded as by gym's version 2 environments; see `Simulator`.

    ``bodies`` are `pytest_cpg.tasks.gymnasium.bodies.Bodies`.
    """

    world: Environment
    bodies: Any

    def begin(self, states: FloatArray) -> FloatArray:
        """Put bodies into positions and velocities [B, S]."""
        return np.asarray(self.bodies.begin(states))

    def observe(self, inner: FloatArray) -> FloatArray:
        """Return what the environment observes, [B, O]."""
        return self.world.observe(self.bodies.states(inner))

    def step(
        self, inner: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Move the bodies; see `Simulator.step`."""
        after = self.bodies.step(inner, actions)
        before, reached = self.bodies.states(inner), self.bodies.states(after)
        # The place along the track is first.
        speeds = (reached[:, 0] - before[:, 0]) / self.bodies.period
        efforts = (np.asarray(actions, dtype=np.float64) ** 2).sum(axis=1)
        rewards = speeds + self.world.alive - self.world.effort * efforts
        return after, rewards, self.world.terminated(self.world.observe(reached))


@dataclass(frozen=True, slots=True)
class TaskSimulator:
    """A world whose episodes end where the task says so, or by their horizon; see `Simulator`."""

    task: Task | PointMaze

    def begin(self, states: FloatArray) -> FloatArray:
        """Copy states [B, S]."""
        return np.array(states, dtype=np.float64)

    def observe(self, inner: FloatArray) -> FloatArray:
        """Return what the task observes, [B, O]."""
        return self.task.observe(inner)

    def step(
        self, inner: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Step the task; see `Simulator.step`."""
        after = self.task.step(inner, actions)
        return after, self.task.reward(after, actions), has_ended(self.task, after)


def simulator_of(name: str) -> Simulator:
    """Return the simulator of a published environment.

    Raises ComponentError when there is none by that name, or its simulator is not installed.
    """
    world = ENVIRONMENTS.get(name)
    if world is None:
        raise ComponentError(
            f"no simulator is known for {name!r}. {did_you_mean(name, ENVIRONMENTS)} For a task, "
            f"give TaskSimulator(task)."
        )
    if world.maze is not None:
        return TaskSimulator(world.maze)
    from pytest_cpg.tasks.gymnasium.bodies import Bodies

    return BodySimulator(world, Bodies(world.body))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """Rows [B] that are simulated at once: starts [B, S], who acts, first actions [B, K, A]."""

    states: FloatArray
    policies: IntArray
    horizons: IntArray
    actions: FloatArray | None = None


def side_of(queries: PolicyQueries, side: str, rows: IntArray) -> Side:
    """Return side a or b of some queries [K], or raise ValueError where they have no states."""
    states, first = getattr(queries, f"states_{side}"), queries.opening(side)
    if states is None:
        raise ValueError(
            "these queries have no states, and no simulator can start from observations: give "
            "states_a and states_b"
        )
    return Side(
        states=states[rows],
        policies=getattr(queries, f"policy_{side}")[rows],
        horizons=queries.horizons[rows],
        actions=None if first is None else first[rows],
    )


def true_returns(simulator: Simulator, side: Side, act: Acting, discount: float) -> FloatArray:
    """Return what rows earn in the true world, [B]; raise TaskError where it diverges."""
    inner = simulator.begin(side.states)
    totals, going = np.zeros(len(inner)), np.arange(len(inner))
    begun = simulator.observe(inner)
    for step in range(int(side.horizons.max())):
        going = going[side.horizons[going] > step]
        if not going.size:
            break
        if side.actions is not None and step < side.actions.shape[1]:
            actions = side.actions[going, step]
        else:
            observed = simulator.observe(inner[going])
            actions = acted(act, side.policies[going], observed, step, begun[going])
        inner[going], rewards, has_ended = simulator.step(inner[going], actions)
        lost = np.flatnonzero(~np.isfinite(rewards))
        if len(lost):
            raise TaskError(
                f"the simulator diverged in row {going[lost[0]]} at step {step + 1}, after the "
                f"action {actions[lost[0]]}. Leave the query out, or have its policies do less."
            )
        totals[going] += discount**step * rewards
        going = going[~has_ended]
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
