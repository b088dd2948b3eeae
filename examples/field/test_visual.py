"""Gates on OGBench's visual- ids, by a network that sees a frame and that of the goal.

Nobody trained it, so each gate fails, as it should: its plans go where its latents are near the
goal's. Plans of the true dynamics are rated by numbers, and nothing is drawn for them.

Four starts are just enough to say so. Where the true dynamics solve all four, the gate fails if the
network solves none or one; where they solve three, only if it solves none. Otherwise the gate is
INCONCLUSIVE, which passes, and a strict xfail fails then.

Needs ``pip install ogbench`` beside ``pytest-cpg[gymnasium,control,render]``, and an OpenGL:
``MUJOCO_GL=osmesa pytest -v test_visual.py``.
"""

import numpy as np
import pytest

pytest.importorskip("ogbench")

from pytest_cpg.planners import ICEM

PIXELS = {"size": 64, "stack": 1}
LATENTS = 8


class Untrained:
    """A network of random weights: latents are a frame's, which actions move, and the goal's."""

    def __init__(self, actions):
        rng = np.random.default_rng(0)
        self.seeing = rng.normal(size=(64 * 64 * 3, LATENTS)) / 100
        self.moving = rng.normal(size=(actions, LATENTS)) / 10

    def encode(self, pictures):  # [B, 2, 64, 64, 3]: now, and the goal
        seen = (pictures.reshape(len(pictures), 2, -1) / 255) @ self.seeing
        return seen.reshape(len(pictures), -1)

    def rollout(self, latents, plans):
        now, goals = latents[:, None, :LATENTS], latents[:, None, LATENTS:]
        reached = now + np.cumsum(plans @ self.moving, axis=1)
        return np.concatenate([reached, np.broadcast_to(goals, reached.shape)], axis=2)

    def score(self, latents):
        return np.linalg.norm(latents[..., :LATENTS] - latents[..., LATENTS:], axis=-1)


def gate(name, actions, goals=None, **settings):
    """Return the case of a gate on an id, which fails as it should."""
    planner = ICEM(samples=24, iterations=2, horizon=10, execute=5)
    given = {"planner": planner, "observe": PIXELS, "episodes": 4, "goals": goals, **settings}
    marks = [
        pytest.mark.cpg(task=f"gym:ogbench:{name}", **given),
        pytest.mark.xfail(strict=True, reason="a network with random weights"),
    ]
    return pytest.param(actions, marks=marks, id=name)


ANT = {"offset": 20, "within": 0.2, "columns": (0, 1)}
EFFECTOR = {"offset": 10, "within": 0.5, "columns": (12, 13, 14)}


@pytest.mark.parametrize(
    "actions",
    [
        gate("visual-antmaze-medium-v0", 8, ANT, budget=20),
        gate("visual-cube-single-v0", 5, EFFECTOR, budget=15),
        gate("visual-scene-v0", 5, EFFECTOR, budget=15),
        gate("visual-puzzle-3x3-v0", 5, EFFECTOR, budget=15),
    ],
)
def test_it_reaches_what_it_sees(benchmark_runner, actions):
    benchmark_runner.compare(learned=Untrained(actions))
