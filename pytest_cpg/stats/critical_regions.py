"""Critical regions: the counts at which an interval lies above a given gap.

Each decides as the interval of its name does, for many counts at once. Counts are numbers or arrays
that broadcast, need not be whole, and are trusted: expected counts go through here too. That the
interval lies below a gap is that it lies above the negative gap with the arms swapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class PairedRegion(Protocol):
    """Whether a paired interval lies above a gap, from the four counts of the paired table."""

    def __call__(
        self,
        both: ArrayLike,
        oracle_only: ArrayLike,
        learned_only: ArrayLike,
        neither: ArrayLike,
        *,
        gap: float = 0.0,
        z: float,
    ) -> NDArray[np.bool_]:
        """Return a bool for each table; ``gap`` is in (-1, 1)."""
        ...


def agresti_caffo_above(
    oracle_successes: ArrayLike,
    oracle_episodes: ArrayLike,
    learned_successes: ArrayLike,
    learned_episodes: ArrayLike,
    *,
    gap: float = 0.0,
    z: float,
) -> NDArray[np.bool_]:
    """Return where the Agresti-Caffo interval lies above ``gap`` (Am. Stat. 54:280-288, 2000).

    Examples
    --------
    >>> agresti_caffo_above(47, 50, [40, 41], 50, z=1.96).tolist()
    [True, False]
    """
    s, n = _floats(oracle_successes, oracle_episodes)
    t, m = _floats(learned_successes, learned_episodes)
    excess = (s + 1) / (n + 2) - (t + 1) / (m + 2) - gap
    variance = (s + 1) * (n - s + 1) / (n + 2) ** 3 + (t + 1) * (m - t + 1) / (m + 2) ** 3
    return _exceeds(excess, z**2 * variance)


def bonett_price_above(
    both: ArrayLike,
    oracle_only: ArrayLike,
    learned_only: ArrayLike,
    neither: ArrayLike,
    *,
    gap: float = 0.0,
    z: float,
) -> NDArray[np.bool_]:
    """Return where the Bonett-Price interval lies above ``gap`` (J. Educ. Behav. Stat. 37, 2012).

    Examples
    --------
    >>> bonett_price_above(35, [8, 9], 2, [5, 4], z=1.96).tolist()
    [False, True]
    """
    a, b, c, d = _floats(both, oracle_only, learned_only, neither)
    n = a + b + c + d
    p, q = (b + 1) / (n + 2), (c + 1) / (n + 2)
    return _exceeds(p - q - gap, z**2 * (p + q - (p - q) ** 2) / (n + 2))


def tango_above(
    both: ArrayLike,
    oracle_only: ArrayLike,
    learned_only: ArrayLike,
    neither: ArrayLike,
    *,
    gap: float = 0.0,
    z: float,
) -> NDArray[np.bool_]:
    """Return where Tango's interval lies above ``gap`` (Stat. Med. 17:891-908, 1998).

    The score test rejects the gap itself, so that no bound need be searched for.

    Examples
    --------
    >>> tango_above(35, [8, 9], 2, [5, 4], z=1.96).tolist()
    [False, True]
    """
    a, b, c, d = _floats(both, oracle_only, learned_only, neither)
    n = a + b + c + d
    excess = (b - c) / n - gap
    if gap < 0:
        gap, b, c = -gap, c, b
    linear = (2 * n - b + c) * gap - b - c
    # The rarer outcome's chance at its maximum likelihood given the gap. Where `linear` is positive
    # this loses digits, but only those that the second part of the variance hides.
    rarer = ((linear**2 + 8 * n * c * gap * (1 - gap)) ** 0.5 - linear) / (4 * n)
    return _exceeds(excess, z**2 * (2 * rarer + gap * (1 - gap)) / n)


def newcombe_paired_above(
    both: ArrayLike,
    oracle_only: ArrayLike,
    learned_only: ArrayLike,
    neither: ArrayLike,
    *,
    gap: float = 0.0,
    z: float,
) -> NDArray[np.bool_]:
    """Return where Newcombe's method 10 lies above ``gap`` (Stat. Med. 17:2635-2650, 1998).

    Examples
    --------
    >>> newcombe_paired_above(35, [8, 9], 2, [5, 4], z=1.96).tolist()
    [False, True]
    """
    import numpy as np

    a, b, c, d = _floats(both, oracle_only, learned_only, neither)
    n = a + b + c + d
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    covariance = a * d - b * c
    covariance = np.where(covariance > 0, np.maximum(covariance - n / 2, 0), covariance)
    # Without variance in an arm the correlation is taken to be 0, and so is the numerator.
    phi = covariance / np.where(margins > 0, margins, 1) ** 0.5
    below = _wilson_distance(a + b, n, z)
    # Of successes upwards as far as of failures downwards.
    above = _wilson_distance(b + d, n, z)
    return _exceeds((b - c) / n - gap, (below - above) ** 2 + 2 * (1 - phi) * below * above)


# By the names that the intervals have in markers and options.
PAIRED_REGIONS: dict[str, PairedRegion] = {
    "bonett-price": bonett_price_above,
    "newcombe-paired": newcombe_paired_above,
    "tango": tango_above,
}
# Those that do not ask how the starts on which the arms agree divide into both and neither.
SEES_ONLY_DISAGREEMENT = ("bonett-price", "tango")


def fewest_wins(
    region: PairedRegion,
    both: ArrayLike,
    disagreed: ArrayLike,
    neither: ArrayLike,
    *,
    gap: float = 0.0,
    z: float,
) -> NDArray[np.intp]:
    """Return the fewest wins of the oracle arm with which a region lies above ``gap``.

    One more than ``disagreed`` where none do. Given the other counts, a region holds all numbers of
    wins from one on (tests/calibration/test_paired_calibration.py, tests/stats/test_margins.py).
    """
    import numpy as np

    both, disagreed, neither = np.broadcast_arrays(both, disagreed, neither)
    least, most = np.zeros_like(disagreed), disagreed + 1
    while (least < most).any():
        wins = np.minimum((least + most) // 2, disagreed)
        is_above = region(both, wins, disagreed - wins, neither, gap=gap, z=z)
        least, most = np.where(is_above, least, wins + 1), np.where(is_above, wins, most)
    fewest: NDArray[np.intp] = most
    return fewest


def _floats(*counts: ArrayLike) -> list[NDArray[np.float64]]:
    import numpy as np

    return [np.asarray(count, dtype=np.float64) for count in counts]


def _exceeds(excess: NDArray[np.float64], squared: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where ``excess`` is above the positive root of ``squared``."""
    above: NDArray[np.bool_] = (excess > 0) & (excess**2 > squared)
    return above


def _wilson_distance(
    s: NDArray[np.float64], n: NDArray[np.float64], z: float
) -> NDArray[np.float64]:
    """Return how far Wilson's lower bound lies below the rate (JASA 22:209-212, 1927)."""
    half = z * (s * (n - s) / n + z**2 / 4) ** 0.5
    return s / n - (s + z**2 / 2 - half) / (n + z**2)
