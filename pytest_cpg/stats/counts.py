"""Counts of episodes and real settings: what the statistics accept, and the fewest that do."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Callable
from numbers import Real
from typing import SupportsIndex


def check_count(name: str, value: SupportsIndex, *, least: int = 0) -> int:
    """Return a whole number of at least ``least`` as an int, or raise ValueError."""
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, bool) or count < least:
        raise ValueError(f"need {name} to be a whole number of at least {least}, got {value!r}")
    return count


def check_arm(
    successes: SupportsIndex, episodes: SupportsIndex, *, prefix: str = ""
) -> tuple[int, int]:
    """Return an arm's successes and episodes as ints, or raise ValueError for impossible ones."""
    n = check_count(f"{prefix}episodes", episodes, least=1)
    s = check_count(f"{prefix}successes", successes)
    if s > n:
        raise ValueError(f"need {prefix}successes <= {prefix}episodes, got {s} of {n}")
    return s, n


def real_or_nan(value: object) -> float:
    """Return a real number as a float, and NaN, which fails every comparison, for anything else."""
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan


def check_fraction(what: str, value: object, *, such_as: float) -> float:
    """Return a number in (0, 1) as a float, or raise ValueError that proposes ``such_as``."""
    share = real_or_nan(value)
    if not 0 < share < 1:
        raise ValueError(f"need {what} between 0 and 1, such as {such_as}, got {value!r}")
    return share


def check_margin(margin: object) -> float:
    """Return the largest gap that is no loss, in (0, 1), or raise ValueError."""
    return check_fraction("a margin", margin, such_as=0.1)


def smallest(holds: Callable[[int], bool], *, most: int) -> int:
    """Return the smallest number from 1 to ``most`` that ``holds``, as all above it must."""
    return 1 + bisect_left(range(1, most), x=True, key=holds)


def smallest_from(least: int, holds: Callable[[int], bool], *, step: int) -> int:
    """Return the smallest number from ``least`` on that ``holds``, as all above it must."""
    most = least
    while not holds(most):
        least, most = most + 1, most + step
    return least + bisect_left(range(least, most), x=True, key=holds)


def smallest_up_to(holds: Callable[[int], bool], limit: int) -> int | None:
    """Return what `smallest` does, and None where ``limit`` does not hold."""
    most = check_count("limit", limit, least=1)
    return smallest(holds, most=most) if holds(most) else None
