"""Columns: cells of a text table, one below the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


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
