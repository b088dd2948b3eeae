"""Stopping: how many episodes a gate runs, and the interval it may be judged by after each look.

Nothing else looks at outcomes before a gate is over: an interval that is read again and again until
it says something says it far too often.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.result import GateResult, Look, pairs_of
from pytest_cpg.stats import Interval, agresti_caffo_interval
from pytest_cpg.stats.agresti_caffo import agresti_caffo_p_value
from pytest_cpg.stats.methods import PAIRED_METHODS
from pytest_cpg.stats.returns import paired_mean_p_value
from pytest_cpg.stats.sequential import (
    Boundary,
    boundary_p_value,
    final_critical_value,
    paired_statistic,
    repeated_interval,
    wang_tsiatis_boundary,
)
from pytest_cpg.stats.tango import exact_tango_p_value, margin_interval, margin_level

StopMode: TypeAlias = Literal["fixed", "sequential"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingRule:
    """When a gate may look, and what it may conclude there; looks count from 0.

    A "fixed" gate looks once, at the end. A "sequential" one looks at a few sizes, with a boundary
    whose error over all of them is exact.

    Attributes
    ----------
    episodes : int
        Per arm, at most.
    method : str
        What bounds the gap of a fixed number of them.
    """

    stop: StopMode
    episodes: int
    method: str
    level: float
    margin: float | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """At how many episodes it looks, rising."""
        if self.stop == "sequential":
            return self._boundary.looks
        return (self.episodes,)

    def interval(self, number: int, oracle: Arm, learned: Arm) -> Interval:
        """Bound the gap at a look; Tango's interval holds a margin if there is one."""
        pairs = pairs_of(oracle, learned)
        if self.stop == "sequential":
            return repeated_interval(self._boundary, number, pairs)
        if self.method == "tango" and self.margin is not None:
            return margin_interval(pairs, margin=self.margin, level=self.level)
        return gap_interval(self.method, oracle, learned, level=self.level)

    def look(self, number: int, oracle: Arm, learned: Arm) -> Look | None:
        """Return the paired statistic beside what it has to exceed; None of a fixed gate."""
        if self.stop == "fixed":
            return None
        pairs, episodes = pairs_of(oracle, learned), learned.episodes
        statistic = paired_statistic(
            wins=pairs.oracle_only,
            losses=pairs.learned_only,
            pairs=episodes,
            margin=self._boundary.margin,
        )
        return Look(episodes, statistic, self._boundary.critical_values[number])

    @property
    def _boundary(self) -> Boundary:
        return wang_tsiatis_boundary(self.episodes, level=self.level, margin=self.margin)


def gap_interval(method: str, oracle: Arm, learned: Arm, *, level: float) -> Interval:
    """Bound the gap of two arms; paired methods see the starts that both arms began at."""
    if method in PAIRED_METHODS:
        return PAIRED_METHODS[method].interval(pairs_of(oracle, learned), level=level)
    return agresti_caffo_interval(
        oracle.success_count, oracle.episodes, learned.success_count, learned.episodes, level=level
    )


def level_of_last_look(result: GateResult) -> float:
    """Return the level at which `GateResult.method` alone judges as the gate's last look would.

    A boundary's critical value at its last look is larger than that of one look, and so is the one
    that holds a margin.
    """
    if result.stop == "sequential" and result.looks:
        episodes, _, boundary = result.looks[-1]
        critical = final_critical_value(boundary, episodes, result.max_episodes or episodes)
        return 2 * NormalDist().cdf(critical) - 1
    level, margin = result.interval.level, result.margin if result.stop == "fixed" else None
    return level_of_size(result.method, result.learned.episodes, level=level, margin=margin)


def level_of_size(method: str, episodes: int, *, level: float, margin: float | None) -> float:
    """Return the level of an interval that judges a fixed number of episodes.

    It is a higher one than asked for where a margin has to be held.
    """
    if method == "tango" and margin is not None:
        return margin_level(episodes, margin=margin, level=level)
    return level


def gap_p_value_of(result: GateResult) -> float:
    """Return the one-sided p-value of a finished gate, in (0, 1], by what judged it.

    At an error rate of this size its verdict would just be MODEL BOTTLENECK.
    """
    oracle, learned = result.oracle, result.learned
    pairs = result.pairs
    if result.design.metric == "return":
        return paired_mean_p_value(oracle.returns[: learned.episodes], learned.returns)
    if result.stop == "sequential" and result.max_episodes:
        return boundary_p_value(
            result.max_episodes,
            {look.episodes: look.statistic for look in result.looks},
            margin=result.margin,
        )
    if result.method == "tango" and result.margin is not None:
        return max(exact_tango_p_value(pairs), PAIRED_METHODS["tango"].p_value(pairs))
    if result.method in PAIRED_METHODS:
        return PAIRED_METHODS[result.method].p_value(pairs)
    return agresti_caffo_p_value(
        oracle.success_count, oracle.episodes, learned.success_count, learned.episodes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What the gap of a design is judged by; `Design` says what is run.

    `GateResult` has the same, and says what each is.

    Attributes
    ----------
    interval : str
        What bounds the gap of a fixed number of episodes: "agresti-caffo" or a paired method.
    """

    tolerance: float = 0.05
    min_oracle: float | None = None
    interval: str = "agresti-caffo"
    margin: float | None = None
    stop: StopMode = "fixed"
    family_size: int = 1
    group: str = ""
    is_aa: bool = False
    is_smoke: bool = False

    @property
    def method(self) -> str:
        """What bounds the gap in the end: rules that may stop early have an interval of their own.

        For those it is the fixed-size method that theirs comes from.
        """
        if self.stop == "fixed":
            return self.interval
        return "bonett-price" if self.margin is None else "tango"

    def gap_level(self, design: Design) -> float:
        """Return the coverage of the gap's interval: Bonferroni's share of the family's error."""
        return 1 - (1 - design.level) / self.family_size

    def rule(self, design: Design) -> StoppingRule:
        """Return when outcomes are looked at."""
        return StoppingRule(
            stop=self.stop,
            episodes=design.episodes,
            method=self.interval,
            level=self.gap_level(design),
            margin=self.margin,
        )
