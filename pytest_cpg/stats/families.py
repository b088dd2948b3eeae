"""Families of gates: Holm's correction of how often one of several cries wolf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsIndex

from pytest_cpg.stats.counts import check_count, check_fraction, real_or_nan


def holm(p_values: Mapping[str, float], *, alpha: float, family_size: int) -> tuple[str, ...]:
    """Return the gates whose null hypothesis Holm's procedure rejects, smallest p-value first.

    The chance to reject any true one is at most ``alpha``, however the gates depend on each other
    (Holm, Scandinavian Journal of Statistics 6:65-70, 1979), if the p-values are right in their
    far tails. Tango's are; of independent arms Agresti and Caffo's spend up to 2.4 times their
    share among ten gates of 10 to 200 episodes, Bonett and Price's 1.5 times (docs/statistics.md).

    Gates of the family that were not observed count as not rejected. Observing them can only add
    rejections: a gate whose p-value is at most ``alpha / family_size`` is rejected whatever the
    others say, and only such a verdict does not depend on which gates were run.

    >>> holm({"walker": 0.011, "hopper": 0.004, "reacher": 0.4}, alpha=0.025, family_size=3)
    ('hopper', 'walker')

    Parameters
    ----------
    p_values : mapping
        One-sided p-value in [0, 1] of each observed gate, by name.
    alpha : float
        Error rate of the family, in (0, 1); one-sided, ``(1 - level) / 2``.
    family_size : int
        Gates of the family, observed or not.
    """
    most = check_fraction("an alpha", alpha, such_as=0.025)
    adjusted = holm_adjusted(p_values, family_size=family_size)
    return tuple(name for name, p in adjusted.items() if p <= most)


def holm_adjusted(p_values: Mapping[str, float], *, family_size: int) -> dict[str, float]:
    """Return for each gate the smallest ``alpha`` at which `holm` rejects it, smallest first.

    >>> holm_adjusted({"walker": 0.25, "hopper": 0.125}, family_size=3)
    {'hopper': 0.375, 'walker': 0.5}
    """
    size = _check_family(p_values, family_size)
    adjusted, reached = {}, 0.0
    for step, name in enumerate(sorted(p_values, key=lambda name: float(p_values[name]))):
        # A step is only taken when all before it were: no gate passes one with a smaller p-value.
        reached = max(reached, min(1.0, (size - step) * float(p_values[name])))
        adjusted[name] = reached
    return adjusted


def _check_family(p_values: Mapping[str, float], family_size: SupportsIndex) -> int:
    for name, p in p_values.items():
        if not 0 <= real_or_nan(p) <= 1:
            raise ValueError(f"need a p-value from 0 to 1 for {name!r}, got {p!r}")
    size = check_count("family_size", family_size, least=1)
    if size < len(p_values):
        raise ValueError(
            f"need a family_size of at least the {len(p_values)} gates observed, got {size}"
        )
    return size
