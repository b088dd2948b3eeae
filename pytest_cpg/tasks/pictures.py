"""Pictures: what states look like, as frames [B, H, W, 3] of red, green and blue, for films."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import Pictures
from pytest_cpg.tasks.renderer import Frames, View, check_finite

__all__ = ["FILM", "HEIGHT", "WIDTH", "Frames", "draw_grid", "rendered"]

# Pixels: large enough to see a thin pole, small enough for a hundred frames in a file.
WIDTH, HEIGHT = 320, 240

_FLOOR, _WALL, _GOAL, _AGENT = np.array(
    [(238, 241, 245), (52, 64, 84), (90, 174, 122), (214, 106, 48)], dtype=np.uint8
)
# The agent's radius, in cells.
_RADIUS = 0.36
# Shadows and reflections take two thirds of the time where there is no GPU.
FILM = View(height=HEIGHT, width=WIDTH, shadows=False, reflections=False, shows_hidden=True)


def rendered(task: Any, states: FloatArray) -> Frames:
    """Return what a task draws of states [B, S], checked: [B, H, W, 3]."""
    name = f"task {task.name!r}"
    if not has(task, Pictures):
        raise ComponentError(
            f"{name} has no pictures: give it render(states [B, S]) -> frames [B, H, W, 3], uint8"
        )
    drawn = task.render(states)
    try:
        frames = np.asarray(drawn)
    except ValueError as error:
        raise ComponentError(
            f"{name}: render must map states {states.shape} to frames [{len(states)}, H, W, 3] of "
            f"one size: {error}"
        ) from error
    shape = frames.shape
    if (len(shape), shape[:1], shape[3:]) != (4, (len(states),), (3,)) or not frames.size:
        raise ComponentError(
            f"{name}: render must map states {states.shape} to frames [{len(states)}, H, W, 3], "
            f"got shape {shape}"
        )
    if frames.dtype != np.uint8:
        raise ComponentError(f"{name}: render must return uint8, 0 to 255, got {frames.dtype}")
    return frames


def draw_grid(layout: str, states: FloatArray, goals: FloatArray | None = None) -> Frames:
    """Draw the agent on the map of a `GridTask` for each state (x, y) [B, 2]: [B, H, W, 3].

    Goals [B, 2] take the place of the map's; NaN is any column or row.
    """
    check_finite(states)
    cells = np.array([list(line) for line in layout.split()])
    colours = np.where((cells == "#")[..., None], _WALL, _FLOOR)
    if goals is None:
        colours[cells == "G"] = _GOAL
    side = min(HEIGHT / cells.shape[0], WIDTH / cells.shape[1])
    # Pixels' centres, in cells; that of the first cell is 0.
    y, x = ((np.arange(round(size * side)) + 0.5) / side - 0.5 for size in cells.shape)
    ground = colours[np.rint(y).astype(int)[:, None], np.rint(x).astype(int)]
    frames = np.empty((len(states), *ground.shape), dtype=np.uint8)
    # One by one: all at once would take half a gigabyte.
    for row, (state, frame) in enumerate(zip(states, frames, strict=True)):
        seen = ground
        if goals is not None:
            beside = np.abs(x - goals[row, 0]) > 0.5, np.abs(y - goals[row, 1]) > 0.5
            is_wall = (ground == _WALL).all(axis=-1)
            seen = np.where((is_wall | beside[0] | beside[1][:, None])[..., None], ground, _GOAL)
        away = np.hypot(x - state[0], y[:, None] - state[1])
        # The edge fades over one pixel, so that it looks round.
        share = np.clip((_RADIUS - away) * side + 0.5, 0, 1)[..., None]
        frame[:] = np.rint(seen * (1 - share) + _AGENT * share)
    return frames
