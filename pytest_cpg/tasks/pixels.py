"""Pixels: how a task is seen by models that are given pictures of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray
from pytest_cpg.contracts.errors import needs_extra
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.tasks.renderer import Frames, View

# What a frame of MuJoCo's costs grows with its pixels, and what a model is given with both.
_LARGEST, _MOST = 512, 16


class Drawing(NamedTuple):
    """What draws states [B, S] as frames [B, H, W, 3], and what it is called."""

    draw: Callable[[FloatArray], Frames]
    by: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """Pictures in place of observations: ``stack`` frames of ``size`` pixels a side.

    >>> Pixels(size=84, camera="side")
    Pixels(size=84, camera='side')

    Attributes
    ----------
    stack : int
        Frames that are seen at once, of the last steps, oldest first; at an episode's start the
        first frame so many times.
    camera : int or str
        Which of a model's cameras, by number or name; of MuJoCo alone, as what follows.
    shadows : bool
        Without them a frame takes a fifth to a third of the time, and looks otherwise.
    shadow_map : int, optional
        Pixels along a side of the map that shadows are made with; by default the model's, 2048 or
        4096 in dm_control.
    samples : int, optional
        Points within a pixel at edges; 0 smoothes none. By default the model's, 4.
    """

    size: int = 64
    stack: int = 3
    camera: int | str = 0
    shadows: bool = True
    shadow_map: int | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, np.generic):
                object.__setattr__(self, setting.name, value.item())
        for name, least, most in (
            ("size", 8, _LARGEST),
            ("stack", 1, _MOST),
            ("shadow_map", 16, 1 << 14),
            ("samples", 0, 32),
        ):
            value = getattr(self, name)
            is_right = type(value) is int and least <= value <= most
            if not is_right and not (value is None and name in ("shadow_map", "samples")):
                raise ValueError(
                    f"{name}: need a whole number from {least} to {most}, got {value!r}"
                )
        if not isinstance(self.shadows, bool):
            raise ValueError(f"shadows: need True or False, got {self.shadows!r}")
        if not isinstance(self.camera, int | str) or isinstance(self.camera, bool):
            raise ValueError(f"camera: need its number or name, got {self.camera!r}")

    def __repr__(self) -> str:
        return f"Pixels({', '.join(f'{name}={value!r}' for name, value in self._changed.items())})"

    @classmethod
    def of(cls, value: Any) -> Pixels:
        """Return what a marker says: "pixels", or what is not as usual of them."""
        if isinstance(value, cls):
            return value
        if value == "pixels":
            return cls()
        names = [field.name for field in fields(cls)]
        if isinstance(value, Mapping):
            for name in map(str, value):
                if name not in names:
                    raise ValueError(f"no setting {name!r} of pixels. {did_you_mean(name, names)}")
            return cls(**value)
        raise ValueError(
            f'need "pixels", or some of {", ".join(names)} as in {{"size": 64, "stack": 3}}, got '
            f"{value!r}"
        )

    @property
    def view(self) -> View:
        """How MuJoCo draws them."""
        return View(
            height=self.size,
            width=self.size,
            camera=self.camera,
            shadows=self.shadows,
            shadow_map=self.shadow_map,
            samples=self.samples,
        )

    @property
    def written(self) -> str:
        """What they are, in the name of a task."""
        changed = self._changed
        others = [f"{name}={value}" for name, value in changed.items() if name not in _FIRST]
        return ", ".join([f"pixels={self.size}x{self.size}x{self.stack}", *others])

    @property
    def _changed(self) -> dict[str, Any]:
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, usual) in values.items() if value != usual}


_FIRST = ("size", "stack")


def check_plain(task: Any, pixels: Pixels) -> None:
    """Raise ComponentError where pixels ask a task for more than its own render has."""
    if replace(pixels, size=64, stack=3) != Pixels():
        raise ComponentError(
            f"observe: {task.name} is drawn by its own render, which knows no "
            f"{pixels.written.partition(', ')[2]}. Leave it out."
        )
    with needs_extra("render", "PIL", what=f"pictures of {task.name} are resized by Pillow"):
        import PIL  # noqa: F401 - asked for now, and not with the first frame


def resized(task: Any, frames: Iterable[Any], pixels: Pixels) -> Frames:
    """Return frames [H, W, 3] as squares [B, size, size, 3]."""
    from PIL import Image

    side, squares = (pixels.size, pixels.size), []
    for frame in map(np.asarray, frames):
        if frame.dtype != np.uint8 or frame.shape[2:] != (3,):
            raise ComponentError(
                f"task {task.name!r}: render must return frames [H, W, 3] in uint8, 0 to 255, got "
                f"{list(frame.shape)} in {frame.dtype}"
            )
        # Its average keeps thin lines when a frame shrinks.
        squares.append(np.asarray(Image.fromarray(frame).resize(side, Image.Resampling.BOX)))
    return np.stack(squares)
