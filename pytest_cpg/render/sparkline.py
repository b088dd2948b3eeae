"""Sparkline: a number over sessions, in one sign each."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS, _DIGITS = "▁▂▃▄▅▆▇", "0123456789"


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
