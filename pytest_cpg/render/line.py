"""Line: one line for a terminal, in parts of which each has its colour."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import NamedTuple

from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.notation import for_log

# The terminal's own colours; that of a severity says again what its label says.
COLOURS = {
    Severity.GOOD: "green",
    Severity.UNSURE: "yellow",
    Severity.BLIND: "red",
    Severity.BAD: "red",
    Severity.BROKEN: "red",
}
# These rows look the same in every table; others have the colour of the verdict.
OF_ROWS: Mapping[str, str] = {"oracle": "green", "chance": "light"}


class Line(NamedTuple):
    """One line of text in parts, each with how the terminal marks it up."""

    parts: tuple[tuple[str, Mapping[str, bool]], ...]

    @classmethod
    def of(cls, text: str, **markup: bool) -> Line:
        """Return a line that is marked up as a whole, and that no log obeys."""
        return cls(((for_log(text), markup),))

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(text for text, _ in self.parts)


def wrapped(text: str, width: int, lead: str = "", *, breaks_words: bool = True) -> list[str]:
    """Return a text in lines of this width: the first behind a lead, the others below it."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=breaks_words,
        break_on_hyphens=False,
    )
