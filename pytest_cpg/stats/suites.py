"""Suites: the gap over several tasks, weighted by their episodes, with the interval of its mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pytest_cpg.stats.intervals import check_count
from pytest_cpg.stats.sampled import Adjusted


class Stratum(NamedTuple):
    """Success rates of both arms on one task: on how many starts, and its share of all episodes.

    Gates that share their starts are one stratum: of their mean rates, and of one gate's starts.
    """

    oracle: float
    learned: float
    starts: int
    weight: float


def suite_gap(strata: Sequence[Stratum]) -> Adjusted:
    """Return the weighted mean of the gaps over independent strata, whose weights sum to 1.

    The interval is Agresti and Caffo's (Am. Stat. 54:280-288, 2000) for one stratum. Its success
    and failure that are added to each arm are shared out by weight, so that the centre is that of
    all episodes together however many strata they fall into, and the variance is the sum over
    strata, each with the whole success and failure added: without them a task that is always, or
    never, solved would seem to vary not at all.

    >>> tasks = [Stratum(1.0, 0.9, 50, 0.5), Stratum(0.5, 0.4, 50, 0.5)]
    >>> found = suite_gap(tasks).interval()
    >>> f"{found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]"
    '0.10 [-0.01, 0.21]'
    """
    total = math.fsum(stratum.weight for stratum in strata)
    if not math.isclose(total, 1.0):
        raise ValueError(f"need weights that sum to 1, got {total!r}")
    centre = variance = estimate = 0.0
    for oracle, learned, starts, weight in strata:
        n = check_count("starts", starts, least=1)
        estimate += weight * (oracle - learned)
        centre += weight * (oracle - learned) * n / (n + 2 * weight)
        for rate in (oracle, learned):
            if not 0 <= rate <= 1:
                raise ValueError(f"need a success rate from 0 to 1, got {rate!r}")
            p = (rate * n + 1) / (n + 2)
            variance += weight**2 * p * (1 - p) / (n + 2 * weight)
    method = "Agresti-Caffo 2000" if len(strata) == 1 else "Agresti-Caffo 2000, stratified"
    return Adjusted(estimate=estimate, centre=centre, error=math.sqrt(variance), method=method)
