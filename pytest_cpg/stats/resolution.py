"""Resolution: the smallest drop that the counts of a gate can show."""

from __future__ import annotations

from pytest_cpg.stats.agresti_caffo import agresti_caffo_bounds
from pytest_cpg.stats.counts import check_arm, check_count, smallest
from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.methods import paired_method


def smallest_detectable_gap(
    oracle_successes: int,
    episodes: int,
    *,
    level: float,
    learned_episodes: int | None = None,
    method: str = "agresti-caffo",
) -> float | None:
    """Return the smallest drop from this oracle count that reads MODEL BOTTLENECK, in (0, 1].

    Every larger drop reads so too. This is what the gate could flag once it is observed, not what
    it finds with some probability. A paired interval is taken at its best, where the model solves
    no start that the oracle does not. None when even a model without any success is not flagged.

    >>> smallest_detectable_gap(47, 50, level=0.95)
    0.14
    >>> smallest_detectable_gap(47, 50, level=0.95, method="tango")
    0.08

    Parameters
    ----------
    learned_episodes : int, optional
        Episodes of the learned arm where they are fewer. Paired methods see the common starts, on
        which the oracle is taken to succeed as often.
    """
    s, m = check_arm(oracle_successes, episodes, prefix="oracle_")
    n = (
        m
        if learned_episodes is None
        else check_count("learned_episodes", learned_episodes, least=1)
    )
    z = critical_value(level)
    if method == "agresti-caffo":
        common = s * n // m

        def flagged(drop: int) -> bool:
            return agresti_caffo_bounds(s, m, common - drop, n, z=z)[0] > 0

    else:
        above, common = paired_method(method).above, round(s * n / m)
        s, m = common, n

        def flagged(drop: int) -> bool:
            return bool(above(drop, 0, n, z=z))

    # The squared condition is a convex parabola in the learned rate that is negative at no drop,
    # so that flagged drops have no holes between them.
    if not flagged(common):
        return None
    # Arms of different sizes may differ although the nearest count is taken.
    drop = 0 if flagged(0) else smallest(flagged, most=common)
    return (s * n - (common - drop) * m) / (n * m)
