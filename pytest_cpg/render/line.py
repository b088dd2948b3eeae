"""Line: one line for a terminal, in parts of which each has its colour."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
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

_DEEPER, _HELD = "    ", "\x00"

_BLOCKS, _DIGITS = "▁▂▃▄▅▆▇", "0123456789"


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
    lines = textwrap.wrap(
        # A number stays beside its sign.
        text.replace(" %", f"{_HELD}%"),
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=breaks_words,
        break_on_hyphens=False,
    )
    return [line.replace(_HELD, " ") for line in lines]


def command_lines(text: str, *, lead: str, width: int) -> list[str]:
    r"""Return a command behind ``lead``, in as many lines as it takes.

    What no shell can read is left as it is.

    >>> command_lines("pytest 'a b' --cpg-seed=1", lead="  Rerun  ", width=24)
    ["  Rerun  pytest 'a b' \\", '             --cpg-seed=1']
    """
    try:
        first, *words = map(shlex.quote, shlex.split(text))
    except ValueError:
        return [f"{lead}{text}"]
    lines = [f"{lead}{first}"]
    for number, word in enumerate(words, 1):
        # Behind every word but the last there has to be room for the sign of a break.
        room = width - (2 if number < len(words) else 0)
        if len(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(f"{' ' * len(lead)}{_DEEPER}{word}")
    return lines


def sparkline(heights: Sequence[float], *, is_ascii: bool = False) -> str:
    """Return heights in [0, 1] as blocks, or as tenths where a stream has ASCII alone.

    >>> sparkline([0, 0.5, 1]), sparkline([0, 0.5, 1], is_ascii=True)
    ('▁▄▇', '059')
    """
    signs = _DIGITS if is_ascii else _BLOCKS
    return "".join(signs[min(int(height * len(signs)), len(signs) - 1)] for height in heights)


def has_blocks(encoding: str | None) -> bool:
    """Say whether a stream of this encoding can show the blocks."""
    try:
        _BLOCKS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
