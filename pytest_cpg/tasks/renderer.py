"""Renderer: a process that draws the states of a model of MuJoCo, as long as it is asked.

The choice of an OpenGL library holds for a whole process, and a driver that crashes takes its
process along. So MuJoCo draws in one of its own, which lives as long as this one: to start it takes
longer than to draw a hundred frames.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import RLock, Timer
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import ComponentError, FloatArray

Frames: TypeAlias = npt.NDArray[np.uint8]

# Seconds that a renderer may take to start, or to draw the frames that it is asked for at once; in
# software MuJoCo draws 70 small ones in one.
_PATIENCE, _AT_ONCE = 120.0, 256
# Renderers that live at a time.
_MOST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a model is drawn; None leaves what the model says."""

    height: int
    width: int
    camera: int | str = 0
    shadows: bool = True
    reflections: bool = True
    #: Pixels along a side of the map that shadows are made with.
    shadow_map: int | None = None
    #: Points within a pixel at the edge of something; 0 for one, without smoothing.
    samples: int | None = None
    #: Whether what the suite hides is seen, such as acrobot's goal.
    shows_hidden: bool = False


class Renderer:
    """A process that draws the states of one model, as one view sees them.

    Attributes
    ----------
    name : str
        What draws, as OpenGL names it, and by which of `MUJOCO_GL`.
    """

    def __init__(self, model: Any, view: View) -> None:
        # Imported here, as nobody else needs MuJoCo.
        import mujoco

        # Held, as it is known by its place in memory.
        self.model, self._lock = model, RLock()
        self._size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        with tempfile.TemporaryDirectory(prefix="cpg-pictures-") as folder:
            path = str(Path(folder, "model.mjb"))
            mujoco.mj_saveModel(model, path, None)
            self.name = self._begun(path, view)

    def draw(self, states: FloatArray, changes: Mapping[str, FloatArray] | None = None) -> Frames:
        """Draw states [B, S]: frames [B, H, W, 3]; ``changes`` are arrays of the model by name.

        Raises ComponentError where it cannot.
        """
        physics, targets = states[:, : self._size], states[:, self._size + self.model.nv :]
        for part in (physics, targets):
            check_finite(part)
        first = range(0, len(states), _AT_ONCE) or [0]
        some = [slice(begin, begin + _AT_ONCE) for begin in first]
        asked = [(physics[part], targets[part], dict(changes or {})) for part in some]
        return np.concatenate([self._ask(question) for question in asked])

    def is_alive(self) -> bool:
        """Say whether it still draws."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        self._end()

    def _begun(self, path: str, view: View) -> str:
        """Start the process with the first library that draws here; return what it is called."""
        backends = ("egl", "osmesa", "glfw") if sys.platform == "linux" else ("on",)
        wanted = os.environ.get("MUJOCO_GL") or _WORKING.get(sys.platform)
        if (wanted or "").lower() in _DRAW_NOTHING:
            raise ComponentError(
                f"MUJOCO_GL={wanted} lets MuJoCo draw nothing: unset it, or set MUJOCO_GL=osmesa "
                f"with libosmesa6 installed, or MUJOCO_GL=egl on a machine with a GPU"
            )
        tried, reason = (wanted,) if wanted else backends, ""
        for self._backend in tried:
            self._process = _started(self._backend)
            self._end = weakref.finalize(self, _ended, self._process)
            try:
                name = str(self._ask((path, view)))
            except ComponentError as error:
                self.close()
                reason = str(error)
            else:
                _WORKING[sys.platform] = self._backend
                return f"{name} by {self._backend}"
        raise ComponentError(
            f"this machine offers no OpenGL to draw with (tried MUJOCO_GL={', '.join(tried)}): "
            f"install libosmesa6 and set MUJOCO_GL=osmesa, or use a machine with a GPU and "
            f"MUJOCO_GL=egl. {reason}"
        )

    def _ask(self, question: Any) -> Any:
        """Return the answer to a question; raise ComponentError for what went wrong."""
        process, is_late = self._process, []

        def stop() -> None:
            is_late.append(True)
            process.kill()

        with self._lock:
            timer = Timer(_PATIENCE, stop)
            timer.start()
            try:
                answer, trouble = _asked(process, question)
            except BaseException:
                # Interrupted: the answer that nobody read would be taken for that of the next.
                process.kill()
                process.wait()
                raise
            finally:
                timer.cancel()
        if is_late:
            trouble = f"not done after {_PATIENCE:g} s"
        if trouble:
            raise ComponentError(f"MuJoCo could not draw with MUJOCO_GL={self._backend}: {trouble}")
        return answer


# Values of MUJOCO_GL with which MuJoCo has no renderer.
_DRAW_NOTHING = ("disable", "disabled", "off", "false", "0")
# The library that has drawn here, once one has.
_WORKING: dict[str, str] = {}
_LIVING: OrderedDict[tuple[Any, ...], Renderer] = OrderedDict()
_LOCK = RLock()


def renderer_of(model: Any, view: View) -> Renderer:
    """Return this process's renderer of a model, which is begun where there is none."""
    # One that was forked has its own.
    key = (id(model), view, os.environ.get("MUJOCO_GL"), os.getpid())
    with _LOCK:
        if key not in _LIVING or not _LIVING[key].is_alive():
            _LIVING[key] = Renderer(model, view)
        _LIVING.move_to_end(key)
        if len(_LIVING) > _MOST:
            _LIVING.popitem(last=False)[1].close()
        return _LIVING[key]


def check_camera(model: Any, camera: int | str) -> None:
    """Raise ComponentError for a camera that a model does not have; -1 is free."""
    names = [model.camera(number).name for number in range(model.ncam)]
    is_there = camera in names if isinstance(camera, str) else -1 <= camera < len(names)
    if not is_there:
        some = ", ".join(f"{number} ({name})" for number, name in enumerate(names)) or "none"
        raise ComponentError(
            f"camera={camera!r}: the model's cameras are {some}; -1 looks at all of it"
        )


def check_finite(states: FloatArray) -> None:
    """Raise ValueError for a state that nothing can be seen of."""
    if not np.isfinite(states).all():
        raise ValueError("need finite states to draw, got some that are not")


def _started(backend: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "MUJOCO_GL": backend}
    # Left behind by whoever drew with another library in this process.
    environment.pop("PYOPENGL_PLATFORM", None)
    command = [sys.executable, "-P", "-m", __name__]
    return subprocess.Popen(  # noqa: S603 - our own module
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _asked(process: subprocess.Popen[bytes], question: Any) -> tuple[Any, str]:
    """Return the answer to a question, and what went wrong if anything did."""
    try:
        pickle.dump(question, process.stdin)  # type: ignore[arg-type]  # a pipe
        process.stdin.flush()  # type: ignore[union-attr]
        answer, trouble = pickle.load(process.stdout)  # type: ignore[arg-type]  # noqa: S301
        return answer, trouble
    except (OSError, EOFError, ValueError, pickle.UnpicklingError):
        process.kill()
        return None, f"exit status {process.wait()}"


def _serve() -> None:
    """Draw what is asked for at stdin, until nobody is left to ask."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Whatever a driver prints is no answer.
    os.dup2(2, 1)
    path, view = pickle.load(questions)  # noqa: S301 - of the process that started this one
    try:
        for answer in _drawn(path, view, questions):
            pickle.dump((answer, ""), answers)
            answers.flush()
    # Drivers fail in any way, and whoever asked has to be told.
    except Exception as error:
        pickle.dump((None, f"{type(error).__name__}: {error}"), answers)
        answers.flush()


def _drawn(path: str, view: View, questions: Any) -> Iterator[Any]:
    """Yield what draws the model in a file, and then the frames of each question."""
    import mujoco
    from OpenGL import GL  # type: ignore[import-untyped] # it has none

    model = mujoco.MjModel.from_binary_path(path)
    quality, buffer = model.vis.quality, model.vis.global_
    buffer.offwidth, buffer.offheight = view.width, view.height
    quality.shadowsize = quality.shadowsize if view.shadow_map is None else view.shadow_map
    quality.offsamples = quality.offsamples if view.samples is None else view.samples
    data, option = mujoco.MjData(model), mujoco.MjvOption()
    option.sitegroup[3] = view.shows_hidden
    base: dict[str, Any] = {}
    with mujoco.Renderer(model, view.height, view.width) as renderer:
        flags = renderer.scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] &= view.shadows
        flags[mujoco.mjtRndFlag.mjRND_REFLECTION] &= view.reflections
        yield GL.glGetString(GL.GL_RENDERER).decode()
        while questions.peek(1):
            states, targets, changes = pickle.load(questions)  # noqa: S301 - as above
            for name in {*base, *changes}:
                array = getattr(model, name)
                base.setdefault(name, array.copy())
                array[...] = changes.get(name, base[name])
            frames = np.empty((len(states), view.height, view.width, 3), dtype=np.uint8)
            for state, target, frame in zip(states, targets, frames, strict=True):
                mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
                # Only the reacher has one: its x and y, which the suite draws for every episode.
                if target.size:
                    model.geom("target").pos[:2] = target
                mujoco.mj_forward(model, data)
                renderer.update_scene(data, camera=view.camera, scene_option=option)
                renderer.render(out=frame)
            yield frames


if __name__ == "__main__":
    _serve()
