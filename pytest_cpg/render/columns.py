"""Columns: cells of a text table, one below the other."""

from __future__ import annotations

from collections.abc import Sequence


def padded(rows: Sequence[Sequence[str]], between: str, *, least: int = 0) -> list[str]:
    """Return each row as one line of one width: numbers stand right, intervals in the middle.

    Parameters
    ----------
    rows : sequence of sequence of str
        All of one length, the headings first.
    least : int
        The narrowest column.

    Examples
    --------
    >>> padded([("rate", "95% CI"), ("1", "[0.93, 1.00]")], " ")
    ['rate    95% CI   ', '   1 [0.93, 1.00]']
    """
    columns = [_padded(column, least) for column in zip(*rows, strict=True)]
    return [between.join(cells) for cells in zip(*columns, strict=True)] or [""] * len(rows)


def _padded(column: Sequence[str], least: int) -> list[str]:
    width = max(least, *map(len, column))
    side = "^" if any(cell.startswith("[") for cell in column) else ">"
    return [f"{cell:{side}{width}s}" for cell in column]
