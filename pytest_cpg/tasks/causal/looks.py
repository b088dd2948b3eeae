"""Looks: boards of coloured objects as small pictures of 8 bits, drawn when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray, WorldModelError
from pytest_cpg.contracts.arrays import read_only
from pytest_cpg.tasks.pictures import Frames

Look = Literal["vector", "grid", "picture"]
SIDE = 5
# Pixels of a cell; an object's last row and column of pixels lie in the next.
_CELL, _STAMP = 10, 11
# Pixels of a film for each of a picture, and of the line between two.
_ZOOM, _LINE = 4, 2


def _colours(codes: str) -> Frames:
    """Return colours [C, 3] of their codes."""
    return np.frombuffer(bytes.fromhex(codes), dtype=np.uint8).reshape(-1, 3)


# The maps "Blues" and "Set1" of ColorBrewer, https://colorbrewer2.org.
_BLUES = _colours("f7fbff deebf7 c6dbef 9ecae1 6baed6 4292c6 2171b5 08519c 08306b")
SET_1 = _colours("e41a1c 377eb8 4daf4a 984ea3 ff7f00 ffff33 a65628 f781bf 999999")


class Setting(NamedTuple):
    """What of a block shows its weight, and how many shapes there are.

    Attributes
    ----------
    shades : str
        "near": of blue, near to those of its rank; "any": of blue, in the order of weights; "": one
        of nine colours, of which each has its weight.
    """

    shades: str
    shapes: int
    is_fixed: bool = False


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "observed": Setting("near", 3),
        "unobserved": Setting("", 3),
        "fixed-unobserved": Setting("", 3, is_fixed=True),
        "zero-shot": Setting("any", 3),
        "zero-shot-shape": Setting("near", 6),
    }
)


def blues(shades: FloatArray) -> Frames:
    """Return the blue [..., 3] of shades [...], from 0, the lightest, to 1."""
    at = np.clip(shades, 0, 1) * (len(_BLUES) - 1)
    places = np.arange(len(_BLUES))
    parts = [np.interp(at, places, _BLUES[:, part]) for part in range(3)]
    return np.rint(np.stack(parts, axis=-1)).astype(np.uint8)


def as_grid(cells: IntArray, colours: npt.NDArray[np.uint8]) -> Frames:
    """Draw a pixel for each cell [B, N] in which something of colour [B, N, 3] stands.

    Black elsewhere: [B, 3, 5, 5].
    """
    frames = np.zeros((len(cells), SIDE * SIDE, 3), dtype=np.uint8)
    frames[np.arange(len(cells))[:, None], cells] = colours
    return frames.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2)


def as_picture(cells: IntArray, colours: npt.NDArray[np.uint8], shapes: IntArray) -> Frames:
    """Draw objects of shapes [B, N] as `as_grid` does, ten pixels a cell: [B, 3, 50, 50].

    A later object covers what an earlier one has in its place.
    """
    size = SIDE * _CELL
    # With room for what lies beyond the edge.
    frames = np.zeros((len(cells), size + 1, size + 1, 3), dtype=np.uint8)
    pixels = np.arange(_STAMP)
    for column in range(cells.shape[1]):
        down, right = (_CELL * part for part in np.divmod(cells[:, column], SIDE))
        rows = (down[:, None] + pixels)[:, :, None]
        columns = (right[:, None] + pixels)[:, None, :]
        at = (np.arange(len(cells))[:, None, None], rows, columns)
        mask = stamps()[shapes[:, column]][..., None]
        frames[at] = np.where(mask, colours[:, column, None, None], frames[at])
    return frames[:, :size, :size].transpose(0, 3, 1, 2)


def seen_shape(look: Look) -> tuple[int, int, int, int] | None:
    """Return the shape of two pictures of three colours [2, H, W, 3]; None of a vector."""
    side = {"grid": SIDE, "picture": SIDE * _CELL}.get(look)
    return None if side is None else (2, side, side, 3)


def seen(frames: Callable[..., Frames], states: FloatArray, look: Look) -> Frames:
    """Return pictures of states [..., S] and of their targets [..., 2, H, W, 3]."""
    flat = states.reshape(-1, states.shape[-1])
    both = np.stack([frames(flat, look, part=part) for part in (0, 1)], axis=1)
    both = np.ascontiguousarray(both.transpose(0, 1, 3, 4, 2))
    return both.reshape(*states.shape[:-1], *both.shape[1:])


def unrated(name: str) -> WorldModelError:
    """Return why observations have no score."""
    return WorldModelError(
        f"{name}: no distance to the target can be read off a picture. Give the model a "
        f"score(latents) method: lower is better."
    )


def beside(now: Frames, wanted: Frames) -> Frames:
    """Return pictures [B, 3, 50, 50] beside those of what is wanted, larger: [B, H, W, 3]."""
    line = np.full_like(now[..., :_LINE], 128)
    both = np.concatenate([now, line, wanted], axis=-1).transpose(0, 2, 3, 1)
    return both.repeat(_ZOOM, axis=1).repeat(_ZOOM, axis=2)


@cache
def stamps() -> BoolArray:
    """Return the eight shapes, [8, 11, 11]."""
    corners = [
        [(0, 5), (10, 0), (10, 10)],
        [(0, 0), (0, 10), (10, 10), (10, 0)],
        [(0, 5), (5, 10), (10, 5), (5, 0)],
        [(0, 5), (4, 10), (10, 8), (10, 2), (4, 0)],
        [(0, 3), (0, 10), (10, 7), (10, 0)],
        [(0, 0), (4, 10), (10, 3)],
    ]
    triangle, square, diamond, pentagon, parallelogram, scalene = map(_within, corners)
    rows, columns = np.indices((_STAMP, _STAMP)) - _STAMP // 2
    disk = rows**2 + columns**2 < (_STAMP // 2) ** 2
    cross = (np.abs(rows) <= 1) | (np.abs(columns) <= 1)
    shapes = [disk, triangle, square, diamond, cross, pentagon, parallelogram, scalene]
    return read_only(np.stack(shapes))


def _within(corners: list[tuple[int, int]]) -> BoolArray:
    """Say which pixels lie within a convex outline of corners (row, column), or on it."""
    rows, columns = np.indices((_STAMP, _STAMP))
    ahead = zip(corners, [*corners[1:], corners[0]], strict=True)
    sides = [(x1 - x0) * (columns - y0) - (y1 - y0) * (rows - x0) for (x0, y0), (x1, y1) in ahead]
    return np.asarray((np.stack(sides) <= 0).all(axis=0) | (np.stack(sides) >= 0).all(axis=0))
