"""Stage: how far a stage of a measurement is, such as an arm."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Stage(NamedTuple):
    """How much of a stage is done, from nothing to all.

    Attributes
    ----------
    done, total : int
        So many of how many.
    unit : str
        Of what; ``"step"`` of episodes that go on together.
    solved : int or None
        Starts that are solved so far, of so many ``starts``; None where that is not asked.
    note : str
        What is to be known of the stage at its end.
    """

    done: int
    total: int
    unit: str = ""
    solved: int | None = None
    starts: int = 0
    note: str = ""


Progress: TypeAlias = Callable[[Stage], None]
ArmProgress: TypeAlias = Callable[[str, Stage], None]
"""Told the name of the stage, too."""
