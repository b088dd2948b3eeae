"""Line: one line for a terminal, in parts of which each has its colour, bars and columns."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.kind import ForecastLine
from pytest_cpg.gates.notation import duration, fitted_names, for_log

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
_NARROWEST_FORECAST = 5

_BLOCKS = "▁▂▃▄▅▆▇"
_FULL, _WAS, _EIGHTHS = "█", "░", ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# For a stream without them: what is less than half of a sign is left out.
_ASCII = str.maketrans(
    {_FULL: "#", _WAS: "-", **dict.fromkeys("▏▎▍", " "), **dict.fromkeys("▌▋▊▉", "#")}
    | dict(zip(_BLOCKS, "1234567", strict=True))
)


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
    r"""Return a command behind ``lead`` in lines; what no shell can read stays as it is.

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


def sparkline(heights: Sequence[float]) -> str:
    """Return heights in [0, 1] as blocks.

    >>> sparkline([0, 0.5, 1])
    '▁▄▇'
    """
    count = len(_BLOCKS)
    return "".join(_BLOCKS[min(int(height * count), count - 1)] for height in heights)


def shown_in(encoding: str | None, text: str) -> str:
    """Return a text whose bars and blocks a stream of this encoding can show.

    >>> shown_in("ascii", "██▋░░ ▁▄▇")
    '###-- 147'
    """
    try:
        _BLOCKS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return text.translate(_ASCII)
    return text


def bar_text(
    value: float, axis: tuple[float, float], size: int, *, then: float | None = None
) -> tuple[str, str]:
    """Return a number as a bar from zero, and by how much it was longer ``then``.

    >>> bar_text(0.72, (0, 1), 10), bar_text(0.7, (0, 1), 10, then=0.9)
    (('███████▎', ''), ('███████', '░░'))
    """
    low, high = axis

    def place(number: float) -> float:
        return min(max((number - low) / (high - low), 0.0), 1.0) * size

    # What lies beyond an end stands there.
    zero, end = place(0.0), place(value)
    if zero > 0:
        begin, stop = sorted((round(zero), round(end)))
        return f"{' ' * begin}{_FULL * (stop - begin)}", ""
    if then is not None and round(place(then)) > round(end):
        return _FULL * round(end), _WAS * (round(place(then)) - round(end))
    eighths = round(8 * end)
    return f"{_FULL * (eighths // 8)}{_EIGHTHS[eighths % 8]}", ""


def listed(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return each row as one line of words, which stand left.

    >>> listed([("gate", "ended"), ("a", "passed")])
    ['gate  ended', 'a     passed']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{size}s}" for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def padded(rows: Sequence[Sequence[str]], between: str, *, least: int = 0) -> list[str]:
    """Return each row as one line of one width: numbers stand right, intervals in the middle.

    >>> padded([("rate", "95% CI"), ("1", "[0.93, 1.00]")], " ")
    ['rate    95% CI   ', '   1 [0.93, 1.00]']
    """
    columns = [_padded(column, least) for column in zip(*rows, strict=True)]
    return [between.join(cells) for cells in zip(*columns, strict=True)] or [""] * len(rows)


def aligned(
    rows: Sequence[Mapping[str, str]], *, least: int
) -> tuple[list[str], dict[tuple[str, ...], str]]:
    """Return each row, column to cell, as a line, and a heading for each set of columns.

    >>> aligned([{"a": "1"}, {"b": "22"}, {"a": "333"}], least=1)
    (['  1', '22', '333'], {('a',): '  a', ('b',): ' b'})
    """
    headings, lines = {}, [""] * len(rows)
    for columns in dict.fromkeys(map(tuple, rows)):
        places = [place for place, row in enumerate(rows) if tuple(row) == columns]
        table = [columns, *(tuple(rows[place].values()) for place in places)]
        headings[columns], *padded_rows = padded(table, " ", least=least)
        for place, line in zip(places, padded_rows, strict=True):
            lines[place] = line
    return lines, headings


def _padded(column: Sequence[str], least: int) -> list[str]:
    widest = max((len(cell) for cell in column if cell.startswith("[")), default=0)
    # The ends of intervals stand one below the other.
    column = [f"[{cell[1:]:>{widest - 1}s}" if cell.startswith("[") else cell for cell in column]
    width = max(least, *map(len, column))
    side = "^" if any(cell.startswith("[") for cell in column) else ">"
    return [f"{cell:{side}{width}s}" for cell in column]


def forecast_table(forecasts: Mapping[str, ForecastLine], *, width: int) -> list[str]:
    """Return the table of all gates, by id, fit for a terminal of this width."""
    if not forecasts:
        return ["no gate was collected"]
    rows = [forecast.cells for forecast in forecasts.values()]
    cells, headings = aligned(rows, least=_NARROWEST_FORECAST)
    numbers = max(map(len, headings.values()))
    names = fitted_names(tuple(forecasts), width - 2 - numbers)
    lines, columns = [f" {names.shared}"] if names.shared else [], None
    for gate, row, line in zip(forecasts, rows, cells, strict=True):
        # A heading stands wherever what is below it changes.
        if tuple(row) != columns:
            columns = tuple(row)
            lines.append(f" {'gate':{names.width}s} {headings[columns]}")
        lines += names.rows(" ", gate, line)
    for note in dict.fromkeys(note for forecast in forecasts.values() for note in forecast.notes):
        lines += wrapped(note, width - 1, " ")
    times = [
        seconds for forecast in forecasts.values() if (seconds := forecast.seconds) is not None
    ]
    if len(forecasts) > 1 and times:
        count = len(forecasts) - len(times)
        unknown = f", and {count} gate{'s'[: count != 1]} unknown" * bool(count)
        lines.append(f" In all about {duration(sum(times))}{unknown}.")
    return list(map(for_log, lines))
