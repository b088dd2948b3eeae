"""Statistics of success counts: intervals, verdicts and power. Pure, and plain Python."""

from __future__ import annotations

from pytest_cpg.stats.intervals import (
    Interval,
    agresti_caffo_interval,
    bonett_price_interval,
    wilson_interval,
)
from pytest_cpg.stats.paired import newcombe_paired_interval, tango_interval
from pytest_cpg.stats.power import (
    episodes_to_resolve,
    smallest_decisive_episodes,
    smallest_detectable_gap,
)
from pytest_cpg.stats.verdicts import (
    FEWEST_EPISODES_TO_CALL_ALIKE,
    Verdict,
    judge_gap,
    parse_verdict,
)

__all__ = [
    "FEWEST_EPISODES_TO_CALL_ALIKE",
    "Interval",
    "Verdict",
    "agresti_caffo_interval",
    "bonett_price_interval",
    "episodes_to_resolve",
    "judge_gap",
    "newcombe_paired_interval",
    "parse_verdict",
    "smallest_decisive_episodes",
    "smallest_detectable_gap",
    "tango_interval",
    "wilson_interval",
]
