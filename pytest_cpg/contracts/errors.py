"""Errors: what is raised for the user to mend, by what is to be mended."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_STANDARD_LIBRARY = Path(os.__file__).parent
# Where packages are installed; Debian's own have the second.
_INSTALLED = frozenset({"site-packages", "dist-packages"})


class CpgError(Exception):
    """A problem that the user can mend; the message says how."""

    @property
    def whole(self) -> str:
        """What it says, with its notes, and the lines of the user's code that it comes from."""
        notes = getattr(self, "__notes__", ())
        return "\n\n".join(filter(None, [str(self), self.lines, *notes]))

    @property
    def lines(self) -> str:
        """Where the user's code was when its cause was raised; empty without a cause."""
        frames = own_frames(self.__cause__) if self.__cause__ else []
        return "".join(traceback.format_list(frames)).rstrip()


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return where a user's code was when something was raised, the last place last.

    Of code that is installed, or Python's own, it is the last place alone.
    """
    frames = traceback.extract_tb(error.__traceback__)
    others = [frame for frame in frames if _PACKAGE not in Path(frame.filename).parents]
    own = [
        frame
        for frame, path in ((frame, Path(frame.filename)) for frame in others)
        if _STANDARD_LIBRARY not in path.parents and not frame.filename.startswith("<frozen ")
        if _INSTALLED.isdisjoint(path.parts)
    ]
    return own or others[-1:]


class ComponentError(CpgError):
    """A task, planner or world model that is unknown, not installed or not usable together."""


@contextmanager
def needs_extra(extra: str, *modules: str, what: str) -> Iterator[None]:
    """Raise ComponentError, with what to install, where one of these modules cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in modules:
            raise
        raise ComponentError(f'{what}: pip install "pytest-cpg[{extra}]"') from error


class TaskError(CpgError):
    """A task that cannot go on: a diverged simulator, or no start that is not solved already."""


class WorldModelError(CpgError):
    """A world model that broke its contract: shape, dtype, NaN, or no reaction to the action."""


class BrokenModelError(WorldModelError):
    """A world model that predicted no finite number in an episode, so that there is no verdict.

    ``sentence`` says what and where, ``brief`` the same in one line, ``why`` what it comes from.
    """

    def __init__(self, sentence: str, why: str, brief: str, episode: int) -> None:
        super().__init__(sentence, why, brief, episode)
        self.sentence, self.why, self.brief, self.episode = sentence, why, brief, episode
        # All that a test prints of it, laid out; empty while nobody has.
        self.section = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.why}"


CURE = "Clip its predictions (clip_bounds), or train it longer and on normalised data."
"""Of a model whose predictions grow without bounds."""


class ImaginationError(WorldModelError):
    """A prediction that is no finite number, in one row of many, at an imagined step from 1 on."""

    def __init__(self, what: str, *, member: int, row: int, step: int) -> None:
        self.what, self.member, self.row, self.step = what, member, row, step
        super().__init__(self.at(f"in row {row}"))

    def at(self, place: str) -> str:
        """Return the message, with a place that says more than the row does."""
        return (
            f"member {self.member} predicted {self.what}, {place} at imagined step {self.step}. "
            f"{CURE}"
        )


class KindError(CpgError):
    """A kind of gate that raised, or returned, what it must not."""


class IncompleteError(CpgError):
    """A comparison whose time ran out: there is no verdict, and its gate fails."""


def all_answers(*questions: Callable[[], Any]) -> list[Any]:
    """Return the answer to each question; raise what refuses one, of several a line for each.

    A question refuses by ValueError or ComponentError.

    >>> all_answers(lambda: 1, lambda: int("two"), lambda: float("three"))
    Traceback (most recent call last):
    pytest_cpg.contracts.errors.ComponentError: invalid literal for int() with base 10: 'two'
    could not convert string to float: 'three'
    """
    answers, refused = [], []
    for question in questions:
        try:
            answers.append(question())
        except (ValueError, ComponentError) as error:
            refused.append(error)
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise ComponentError("\n".join(str(getattr(error, "whole", error)) for error in refused))
    return answers
