"""Stage: how far a stage of a measurement is, such as an arm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Stage(NamedTuple):
    """How much of a stage is done: so many of a total, of a unit such as the step of all episodes.

    So many of the ``starts`` are solved so far, None where that is not asked; the note is said of
    the stage at its end, and the hint, an option, of one that takes long. ``frames`` were drawn for
    it so far, in whatever process.
    """

    done: int
    total: int
    unit: str = ""
    solved: int | None = None
    starts: int = 0
    note: str = ""
    hint: str = ""
    frames: int = 0


Progress: TypeAlias = Callable[[Stage], None]
ArmProgress: TypeAlias = Callable[[str, Stage], None]
"""Told the name of the stage, too."""
