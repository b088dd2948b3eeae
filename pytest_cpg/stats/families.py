"""Families of gates: Holm's correction of how often one of several cries wolf."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from pytest_cpg.stats.counts import check_count, check_fraction, real_or_nan


def holm(p_values: Mapping[str, float], *, alpha: float, family_size: int) -> tuple[str, ...]:
    """Return the gates whose null hypothesis Holm's procedure rejects, smallest p-value first.

    The chance to reject any true one is at most ``alpha``, however the gates depend on each other
    (Holm, Scandinavian Journal of Statistics 6:65-70, 1979), if the p-values are right in their
    far tails (docs/statistics.md). Gates that were not observed count as not rejected: observing
    them can only add rejections.

    >>> holm({"walker": 0.011, "hopper": 0.004, "reacher": 0.4}, alpha=0.025, family_size=3)
    ('hopper', 'walker')
    """
    most = check_fraction("an alpha", alpha, such_as=0.025)
    for name, p in p_values.items():
        if not 0 <= real_or_nan(p) <= 1:
            raise ValueError(f"need a p-value from 0 to 1 for {name!r}, got {p!r}")
    size = check_count("family_size", family_size, least=1)
    if size < len(p_values):
        raise ValueError(
            f"need a family_size of at least the {len(p_values)} gates observed, got {size}"
        )
    names = sorted(p_values, key=lambda name: float(p_values[name]))
    # A step is only taken when all before it were.
    taken = takewhile(
        lambda step: min(1.0, (size - step) * float(p_values[names[step]])) <= most,
        range(len(names)),
    )
    return tuple(names[step] for step in taken)
