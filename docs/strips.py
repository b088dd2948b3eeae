"""Draw the strips of the pages of tasks: one solved episode each, from left to right.

Control tasks need OpenGL, such as OSMesa: MUJOCO_GL=osmesa python docs/strips.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from pytest_cpg import Task
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import bound_as_truth, starts_of
from pytest_cpg.gates.plan_quality.measure import decide
from pytest_cpg.gates.presets import PRESETS, preset_planner
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics

STRIPS = Path(__file__).parent / "strips"
FRAMES, WIDTH = 6, 160


def main() -> None:
    """Draw the strips of the tasks that are named, or of all."""
    STRIPS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or TASKS:
        task = TASKS[name](**PRESETS[name].options)
        frames = [Image.fromarray(frame) for frame in task.render(_states(task, name))]
        size = (WIDTH, WIDTH * frames[0].height // frames[0].width)
        strip = Image.new("RGB", (FRAMES * (WIDTH + 4) - 4, size[1]), "white")
        for place, frame in enumerate(frames):
            strip.paste(frame.resize(size), (place * (WIDTH + 4), 0))
        strip.quantize(64).save(STRIPS / f"{name}.png", optimize=True)


def _states(task: Task, name: str) -> np.ndarray:
    """Return states of one episode, of its first decision, its last, and evenly between."""
    design = Design(task=task, planner=preset_planner(name), episodes=1, seed=1)
    starts = starts_of(design)
    truth = bound_as_truth(OracleDynamics(task), design, starts)
    states = decide(design, truth, starts, progress=lambda *_: None).decisions.states
    return states[np.linspace(0, len(states) - 1, FRAMES).round().astype(int)]


if __name__ == "__main__":
    main()
