"""Worlds of the published queries: four mazes, and three bodies of gymnasium's.

A world has step, observe, reward and perhaps terminated, as a task has; see `true_returns`.
"""

import warnings
from functools import cache
from pathlib import Path

import numpy as np
from point_maze import LAYOUTS, PointMaze

from pytest_cpg.gates.policy_comparison.queries import PolicyQueries

HERE = Path(__file__).parent
# How the observed speeds of Hopper and Walker2d are limited, and beyond what a body counts as lost.
FASTEST, LOST = 10.0, 100.0


def hopper_fell(observations):
    """Say where Hopper-v2 ends: too low, too far tilted, or lost."""
    height, angle = observations[..., 0], observations[..., 1]
    # NaN fails every comparison, and so it ends an episode too.
    stands = (height > 0.7) & (np.abs(angle) < 0.2)
    return ~(stands & (np.abs(observations[..., 1:]) < LOST).all(axis=-1))


def walker_fell(observations):
    """Say where Walker2d-v2 ends: too low, too high or too far tilted."""
    height, angle = observations[..., 0], observations[..., 1]
    return ~((height > 0.8) & (height < 2.0) & (np.abs(angle) < 1.0))


# Of a body: where episodes end, how fast it seems at most, what a step adds to the reward, which is
# the speed, and what each squared action takes.
BODIES = {
    "hopper": (hopper_fell, FASTEST, 1.0, 1e-3),
    "halfcheetah": (None, np.inf, 0.0, 0.1),
    "walker2d": (walker_fell, FASTEST, 1.0, 1e-3),
}
IDS = {"hopper": "Hopper-v4", "halfcheetah": "HalfCheetah-v4", "walker2d": "Walker2d-v4"}
WORLDS = (*BODIES, *(f"maze-{name}" for name in LAYOUTS))


class Body:
    """Copies of a body, rewarded as by gym's version 2; the version 4 that moves them is nearest.

    A state is what the simulator goes on from exactly, and the speed of the last step.
    """

    def __init__(self, name):
        from pytest_cpg.tasks.control.simulator import Simulator

        self.rule, self.fastest, self.alive, self.effort = BODIES[name]
        bare = gym_body(name)
        self.model, self.data, self.period = bare.model, bare.data, float(bare.dt)
        self.simulator = Simulator(bare.model, threads=1, substeps=bare.frame_skip)

    def begin(self, states):
        """Map positions and velocities [B, S] to what can be stepped."""
        import mujoco

        rows = []
        for state in np.asarray(states, dtype=np.float64):
            mujoco.mj_resetData(self.model, self.data)
            self.data.qpos[:], self.data.qvel[:] = np.split(state, [self.model.nq])
            mujoco.mj_forward(self.model, self.data)
            rows.append([*self.simulator.snapshot(self.model, self.data), 0.0])
        return np.array(rows)

    def step(self, states, actions):
        after = self.simulator.step(states[:, :-1], actions)
        # The place along the track is first.
        before, reached = (part[:, self.simulator.measured][:, 0] for part in (states, after))
        return np.column_stack([after, (reached - before) / self.period])

    def observe(self, states):
        measured = states[:, :-1][:, self.simulator.measured]
        positions, velocities = np.split(measured, [self.model.nq], axis=1)
        return np.hstack([positions[:, 1:], np.clip(velocities, -self.fastest, self.fastest)])

    def reward(self, states, actions):
        efforts = (np.asarray(actions, dtype=np.float64) ** 2).sum(axis=1)
        return states[:, -1] + self.alive - self.effort * efforts

    def terminated(self, states):
        return np.zeros(len(states), bool) if self.rule is None else self.rule(self.observe(states))


def gym_body(name):
    import gymnasium

    with warnings.catch_warnings():
        # That there is a newer version: the published labels are those of an old one.
        warnings.simplefilter("ignore")
        return gymnasium.make(IDS[name]).unwrapped


def world_of(name):
    return PointMaze(name.removeprefix("maze-")) if name.startswith("maze-") else Body(name)


def rule_of(name):
    """Return where episodes of a world end, of observations; None where they never do."""
    return BODIES[name][0] if name in BODIES else None


@cache
def published_queries(name, folder=HERE / "data"):
    """Return the published queries of a world; two mazes are here, convert.py makes the others."""
    return PolicyQueries.load(Path(folder) / f"{name}.npz", terminated=rule_of(name))
