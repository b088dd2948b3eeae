"""Pictures: what states look like, as frames [B, H, W, 3] of red, green and blue.

They are drawn without a display. MuJoCo draws in a process of its own: the choice of an OpenGL
library holds for a whole process, and a driver that crashes takes its process along.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import ComponentError, FloatArray

Frames: TypeAlias = npt.NDArray[np.uint8]

# Pixels: large enough to see a thin pole, small enough for a hundred frames in a file.
WIDTH, HEIGHT = 320, 240

_FLOOR, _WALL, _GOAL, _AGENT = np.array(
    [(238, 241, 245), (52, 64, 84), (90, 174, 122), (214, 106, 48)], dtype=np.uint8
)
# The agent's radius, in cells.
_RADIUS = 0.36


def draw_control(model: Any, states: FloatArray) -> Frames:
    """Draw states [B, S] of one of the suite's models as its first camera sees them: [B, H, W, 3].

    Raises ComponentError where there is no OpenGL.
    """
    # Imported here, as grids are drawn without MuJoCo.
    import mujoco

    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    physics, targets = states[:, :size], states[:, size + model.nv :]
    _check_finite(physics)
    _check_finite(targets)
    with tempfile.TemporaryDirectory(prefix="cpg-pictures-") as folder:
        mujoco.mj_saveModel(model, str(Path(folder, "model.mjb")), None)
        np.save(Path(folder, "physics.npy"), physics)
        np.save(Path(folder, "targets.npy"), targets)
        backend = _backend(os.environ.get("MUJOCO_GL", ""))
        trouble = _draw(Path(folder), backend)
        if trouble:
            raise ComponentError(f"MuJoCo could not draw with MUJOCO_GL={backend}: {trouble}")
        frames: Frames = np.load(Path(folder, "frames.npy"))
        return frames


def draw_grid(layout: str, states: FloatArray) -> Frames:
    """Draw the agent on the map of a `GridTask` for each state (x, y) [B, 2]: [B, H, W, 3]."""
    _check_finite(states)
    cells = np.array([list(line) for line in layout.split()])
    colours = np.where((cells == "#")[..., None], _WALL, _FLOOR)
    colours[cells == "G"] = _GOAL
    side = min(HEIGHT / cells.shape[0], WIDTH / cells.shape[1])
    # Pixels' centres, in cells; that of the first cell is 0.
    y, x = ((np.arange(round(size * side)) + 0.5) / side - 0.5 for size in cells.shape)
    ground = colours[np.rint(y).astype(int)[:, None], np.rint(x).astype(int)]
    frames = np.empty((len(states), *ground.shape), dtype=np.uint8)
    # One by one: all at once would take half a gigabyte.
    for state, frame in zip(states, frames, strict=True):
        away = np.hypot(x - state[0], y[:, None] - state[1])
        # The edge fades over one pixel, so that it looks round.
        share = np.clip((_RADIUS - away) * side + 0.5, 0, 1)[..., None]
        frame[:] = np.rint(ground * (1 - share) + _AGENT * share)
    return frames


def _check_finite(states: FloatArray) -> None:
    """Raise ValueError for a state that nothing can be seen of."""
    if not np.isfinite(states).all():
        raise ValueError("need finite states to draw, got some that are not")


@cache
def _backend(wanted: str) -> str:
    """Return the first value of ``MUJOCO_GL`` that draws here, of those allowed by the user's."""
    backends = ("egl", "osmesa", "glfw") if sys.platform == "linux" else ("on",)
    tried = (wanted,) if wanted else backends
    for backend in tried:
        if not _draw(None, backend):
            return backend
    raise ComponentError(
        f"this machine offers no OpenGL to draw with (tried MUJOCO_GL={', '.join(tried)}): install "
        f"libosmesa6 and set MUJOCO_GL=osmesa, or use a machine with a GPU and MUJOCO_GL=egl"
    )


def _draw(folder: Path | None, backend: str, *, patience: float = 120.0) -> str:
    """Run this module to draw what is in a folder, or nothing; return what went wrong, if any.

    It may take ``patience`` seconds; in software MuJoCo draws about 70 frames in one.
    """
    command = [sys.executable, "-P", "-m", __name__, *([] if folder is None else [str(folder)])]
    environment = {**os.environ, "MUJOCO_GL": backend}
    # Left behind by whoever drew with another library in this process.
    environment.pop("PYOPENGL_PLATFORM", None)
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, env=environment, capture_output=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done after {patience:g} s"
    if not done.returncode:
        return ""
    # The first error is the cause; later ones are of what could not be closed any more.
    lines = done.stderr.decode(errors="replace").splitlines()
    errors = (line for line in lines if "Error" in line and not line.startswith(" "))
    return next(errors, f"exit status {done.returncode}")


def _main(folder: str | None) -> None:
    """Draw the states in a folder, or nothing, to see whether it can be done."""
    import mujoco

    if folder is None:
        mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8).close()
        return
    model = mujoco.MjModel.from_binary_path(str(Path(folder, "model.mjb")))
    data = mujoco.MjData(model)
    option = mujoco.MjvOption()
    # Where the suite hides acrobot's goal.
    option.sitegroup[3] = 1
    states, targets = (np.load(Path(folder, f"{name}.npy")) for name in ("physics", "targets"))
    frames = np.empty((len(states), HEIGHT, WIDTH, 3), dtype=np.uint8)
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        # Shadows and reflections take two thirds of the time where there is no GPU.
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        for state, target, frame in zip(states, targets, frames, strict=True):
            mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
            # Only the reacher has one: its x and y, which the suite draws for every episode.
            if target.size:
                model.geom("target").pos[:2] = target
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera=0, scene_option=option)
            renderer.render(out=frame)
    np.save(Path(folder, "frames.npy"), frames)


if __name__ == "__main__":
    _main(sys.argv[1] if len(sys.argv) > 1 else None)
