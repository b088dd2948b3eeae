"""Stopping: how many episodes a gate runs, and the interval it may be judged by after each look.

Nothing else looks at outcomes before a gate is over: an interval that is read again and again until
it says something says it far too often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

from pytest_cpg.episodes.arm import Arm, Metric
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.stage import ArmProgress
from pytest_cpg.gates.kind import Asked
from pytest_cpg.gates.notation import duration
from pytest_cpg.gates.planning_gap.result import (
    GateResult,
    pairs_of,
    possible_return_gap,
    return_gap,
)
from pytest_cpg.stats import Interval, Verdict, agresti_caffo_interval
from pytest_cpg.stats.paired import (
    PAIRED_METHODS,
    exact_tango_p_value,
    margin_interval,
    margin_level,
)
from pytest_cpg.stats.power import agresti_caffo_p_value, smallest_decisive_episodes
from pytest_cpg.stats.returns import paired_mean_p_value
from pytest_cpg.stats.sequential import (
    FIRST_LOOK,
    Boundary,
    boundary_p_value,
    final_critical_value,
    look_sizes,
    paired_statistic,
    repeated_interval,
    wang_tsiatis_boundary,
)
from pytest_cpg.stats.verdicts import Weighed, weigh_gap, weigh_returns

StopMode: TypeAlias = Literal["fixed", "sequential"]
# Calibrating a sequential boundary takes 13 s at the first, and no time at the second.
MOST_SEQUENTIAL, _QUICK = 1000, 150
# Seconds from which on whoever waits is told how to wait less.
LONG = 60.0
OPTION = "--cpg-stop=sequential"
# A verdict on one arm beside the oracle, and the interval of the gap that it rests on.
WeighedArm: TypeAlias = tuple[Interval, Weighed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What the gap of a design is judged by; `GateResult` says what each is.

    ``interval`` bounds the gap of a fixed number of episodes: "agresti-caffo" or a paired method.
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
        """What bounds the gap in the end, or what the interval of a sequential gate comes from."""
        if self.stop == "fixed":
            return self.interval
        return "bonett-price" if self.margin is None else "tango"

    def gap_level(self, design: Design) -> float:
        """Return the coverage of the gap's interval: Bonferroni's share of the family's error."""
        return 1 - (1 - design.level) / self.family_size

    def could_stop_early(self, design: Design) -> bool:
        """Say whether a gate that runs all its episodes has looks that could have ended it.

        A boundary for a margin, and one of very many episodes, takes long to calibrate.
        """
        is_usual = not (self.is_aa or self.is_smoke) and self.margin is None
        is_counted = design.metric == "success" and FIRST_LOOK <= design.episodes <= _QUICK
        return self.stop == "fixed" and is_usual and is_counted

    def boundary(self, design: Design) -> Boundary | None:
        """Return what statistics are held to at looks; None of a gate that looks once."""
        if self.stop == "fixed":
            return None
        level = self.gap_level(design)
        return wang_tsiatis_boundary(design.episodes, level=level, margin=self.margin)

    def bound(self, design: Design, number: int, oracle: Arm, learned: Arm) -> Interval:
        """Bound the gap at a look, counted from 0; Tango's interval holds a margin."""
        boundary, level = self.boundary(design), self.gap_level(design)
        if boundary is not None:
            return repeated_interval(boundary, number, pairs_of(oracle, learned))
        if self.interval == "tango" and self.margin is not None:
            return margin_interval(pairs_of(oracle, learned), margin=self.margin, level=level)
        return gap_interval(self.interval, oracle, learned, level=level)


def weigh_arm(
    design: Design, criteria: Criteria, number: int, done: Mapping[str, Arm], name: str
) -> WeighedArm:
    """Return what look ``number`` says of an arm: the learned one, or chance in its place."""
    oracle, arm, margin = done["oracle"], done[name], criteria.margin
    if design.metric == "success":
        interval, solved = criteria.bound(design, number, oracle, arm), (oracle.solved, arm.solved)
        return interval, weigh_gap(interval, *solved, tolerance=criteria.tolerance, margin=margin)
    level = criteria.gap_level(design)
    interval = return_gap(oracle, arm, level=level)
    possible = interval.high
    if margin is not None:
        possible = possible_return_gap(oracle, arm, done["chance"], level=level)
    starts = arm.episodes
    return interval, weigh_returns(interval, starts=starts, possible=possible, margin=margin)


def is_settled(weighed: WeighedArm, criteria: Criteria) -> bool:
    """Say whether an early look may end the gate: only what its interval has proven may."""
    verdict = weighed[1].verdict
    if verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE:
        return criteria.margin is not None
    return verdict in (Verdict.MODEL_BOTTLENECK, Verdict.LEARNED_OUTPERFORMS_ORACLE)


def early_look(
    design: Design, criteria: Criteria, oracle: Arm, learned: Arm
) -> tuple[int, int] | None:
    """Return after how many starts, and of how many, a look would have ended a finished gate."""
    if not criteria.could_stop_early(design):
        return None
    boundary = wang_tsiatis_boundary(design.episodes, level=criteria.gap_level(design))
    for number, size in enumerate(boundary.looks[:-1]):
        pairs = pairs_of(oracle.first(size), learned.first(size))
        # Only a loss ends a gate whatever is known of chance by then.
        if repeated_interval(boundary, number, pairs).low > 0:
            return size, design.episodes
    return None


def sooner(design: Design, criteria: Criteria, arms: Mapping[str, Arm], *, seconds: float) -> str:
    """Say what would have spared whoever waited so long for the arms; empty for nothing."""
    early = None
    if seconds >= LONG:
        early = early_look(design, criteria, arms["oracle"], arms["learned"])
    if early is None:
        return ""
    looked, most = early
    return (
        f"the arms took {duration(seconds)}: {OPTION} --cpg-max-episodes={most} would have ended "
        f"this gate after {looked} of {most} starts"
    )


def with_hint(progress: ArmProgress, criteria: Criteria, design: Design) -> ArmProgress:
    """Return progress that tells, of an arm that takes long, what may make the gate shorter."""
    if not criteria.could_stop_early(design):
        return progress
    return lambda name, stage: progress(name, stage._replace(hint=OPTION))


def gap_interval(method: str, oracle: Arm, learned: Arm, *, level: float) -> Interval:
    """Bound the gap of two arms; paired methods see the starts that both arms began at."""
    if method in PAIRED_METHODS:
        return PAIRED_METHODS[method].interval(pairs_of(oracle, learned), level=level)
    return agresti_caffo_interval(*oracle.solved, *learned.solved, level=level)


def level_of_last_look(result: GateResult) -> float:
    """Return the level at which `GateResult.method` alone judges as the gate's last look would."""
    if result.stop == "sequential" and result.looks:
        episodes, _, boundary = result.looks[-1]
        critical = final_critical_value(boundary, episodes, result.max_episodes or episodes)
        return 2 * NormalDist().cdf(critical) - 1
    level, margin = result.interval.level, result.margin if result.stop == "fixed" else None
    return level_of_size(result.method, result.learned.episodes, level=level, margin=margin)


def level_of_size(method: str, episodes: int, *, level: float, margin: float | None) -> float:
    """Return the level of an interval of so many episodes: a higher one where it holds a margin."""
    if method == "tango" and margin is not None:
        return margin_level(episodes, margin=margin, level=level)
    return level


def gap_p_value_of(result: GateResult) -> float:
    """Return the one-sided error rate at which a gate would just read MODEL BOTTLENECK."""
    oracle, learned, pairs = result.oracle, result.learned, result.pairs
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
    return agresti_caffo_p_value(*oracle.solved, *learned.solved)


def interval_of(interval: str, family_size: int, *, has_margin: bool) -> str:
    """Return the method meant by "auto", for gates that judge successes."""
    # At the levels of a family, Agresti and Caffo's interval excludes 0 up to 2.6 times as often as
    # it should, and proves a margin up to 3.4 times as often. Tango's does neither.
    is_strict = has_margin or family_size > 1
    return interval if interval != "auto" else ("tango" if is_strict else "agresti-caffo")


def sizes_of(asked: Asked, *, stop: StopMode, metric: Metric, level: float, interval: str) -> int:
    """Return how many episodes a gate has, at most, once all that goes with their number fits."""
    values, sources = asked.values, asked.sources
    episodes, most = int(values["episodes"]), int(values["max_episodes"])
    if stop == "fixed":
        if metric == "success":
            _check_can_fail(asked, level, interval)
        elif episodes < 2:
            usual = asked.written("episodes", 50)
            raise ValueError(f'metric="return" needs at least 2 episodes. Write {usual}.')
        if sources["max_episodes"] == sources["stop"] == "marker":
            raise ValueError(
                f"max_episodes={most} says nothing of a gate that runs all its episodes. Use "
                f'episodes={most}, or add stop="sequential".'
            )
        return episodes
    # Whoever gives both limits is ready for either kind of gate.
    is_only_limit = sources["episodes"] != sources["max_episodes"]
    if is_only_limit and _is_refused(asked, "episodes", beside="stop"):
        raise ValueError(
            f"with stop={stop!r} the limit is max_episodes, and episodes says nothing. Write "
            f"{asked.written('max_episodes', episodes, beside='episodes')}."
        )
    if values["interval"] != "auto" and _is_refused(asked, "interval", beside="stop"):
        raise ValueError(
            f"stop={stop!r} has an interval of its own: leave interval={values['interval']!r} "
            f'out, or use stop="fixed".'
        )
    _check_first_look(asked, level)
    return most


def _is_refused(asked: Asked, name: str, *, beside: str) -> bool:
    """Say whether an option without effect is a mistake: whoever asks for both can mend it."""
    source, other = asked.sources[name], asked.sources[beside]
    # A project's number of episodes always has a value.
    return (source, name) != ("project", "episodes") and (source == other or other == "project")


def _check_first_look(asked: Asked, level: float) -> None:
    most = asked.values["max_episodes"]
    try:
        look_sizes(most)
        if most > MOST_SEQUENTIAL:
            raise ValueError(
                f"the boundary of more than {MOST_SEQUENTIAL} episodes takes too long to "
                f"calibrate, got {most}"
            )
        # Any boundary that takes long to calibrate can be reached.
        boundary = wang_tsiatis_boundary(most, level=level) if most <= _QUICK else None
        if boundary and paired_statistic(wins=most, losses=0, pairs=most) <= boundary.constant:
            raise ValueError(
                f"a gate of {most} episodes can never fail at confidence {level:g}. Write "
                f"{asked.written('max_episodes', 50)}"
            )
    except ValueError as error:
        raise ValueError(f"max_episodes: {error}.") from None


def _check_can_fail(asked: Asked, level: float, interval: str) -> None:
    if interval == "agresti-caffo":
        least, kind = smallest_decisive_episodes(level=level), "gate"
    else:
        least, kind = PAIRED_METHODS[interval].smallest_decisive_pairs(level=level), "paired gate"
    episodes = asked.values["episodes"]
    if episodes < least:
        raise ValueError(
            f"a {kind} of {episodes} start{'s'[: episodes != 1]} can never fail at confidence "
            f"{level:.10g}, whatever the model does. Write "
            f"{asked.written('episodes', max(50, least))} ({least} is the least that can fail)."
        )
