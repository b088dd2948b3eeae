"""Forecast: what a gate could find, what it would cost, and what would settle what it left open."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.kept import read_cost
from pytest_cpg.gates.kind import ForecastLine
from pytest_cpg.gates.notation import duration, found_drop
from pytest_cpg.gates.planning_gap import stopping
from pytest_cpg.gates.planning_gap.records import BaselineGate
from pytest_cpg.gates.planning_gap.result import GateResult, return_gap, worst_of_chance
from pytest_cpg.stats import Verdict
from pytest_cpg.stats.intervals import critical_value, wilson_episodes_above
from pytest_cpg.stats.paired import PAIRED_METHODS
from pytest_cpg.stats.pairing import pair_rates
from pytest_cpg.stats.power import (
    detectable_gap,
    episodes_for_gap,
    episodes_to_settle,
    gap_half_width,
)
from pytest_cpg.stats.sequential import (
    Boundary,
    operating_characteristics,
    wang_tsiatis_boundary,
)
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE

# The usual convention for a planned study (Cohen, Statistical Power Analysis, 1988, section 2.4).
POWER = 0.8
_WANTED_GAPS = (0.1, 0.2, 0.3)
# Where nothing is known of the oracle: rates near 0.5 vary most, so that gaps are hardest to find.
_UNKNOWN_RATE = 0.5
# Half of the starts decide for both arms at once: equal arms then correlate by one half.
_USUAL_SHARE = 0.5
_GAP_STEPS, _FINE_STEPS = 100, 1000


def forecast(
    design: Design,
    criteria: stopping.Criteria,
    *,
    cost: Mapping[str, Any] | None,
    accepted: BaselineGate | None,
) -> ForecastLine:
    """Return what a gate of this design could find, judged by these criteria, and what it takes.

    Gaps are found with a chance of 80 %. Episodes that find one are told of gates of one size, as
    far as the oracle's rate leaves room for it.
    """
    last, oracle_rate, seconds = read_cost(Cost, cost), None, None
    if last is not None:
        oracle_rate = last.oracle_rate
        seconds = sum(each * design.episodes for each in last.seconds_per_episode.values())
    elif accepted is not None:
        oracle_rate = accepted.oracle_arm[0] / accepted.oracle_arm[1]
    rate = _UNKNOWN_RATE if oracle_rate is None else oracle_rate
    level = stopping.level_of_size(
        criteria.method, design.episodes, level=criteria.gap_level(design), margin=criteria.margin
    )
    independent, paired = _detectable(design, criteria, rate, level)
    may_stop, needed = criteria.stop != "fixed", {}
    has_one_size = design.metric == "success" and not may_stop
    width = (
        _half_width(rate, design.episodes, method=criteria.method, level=level)
        if has_one_size
        else None
    )
    for gap in _WANTED_GAPS:
        needed[f"n@{gap:g}"] = (
            episodes_for_gap(rate, gap, power=POWER, method=criteria.method, level=level)
            if has_one_size and gap <= rate
            else None
        )
    notes = [
        f"finds: the smallest drop that fails the gate {POWER * 5:.0f} times in 5; paired: if half "
        f"of the starts decide for both arms and a paired interval judges",
        "+-: half the interval's width, of a model as good; n@0.2: the starts that find a drop of "
        "0.2 as often",
    ]
    if oracle_rate is None:
        notes.append(
            f"?: not run here yet; assumed to be {rate:.2f}, where drops are hardest to find"
        )
    if last is not None and seconds is not None:
        notes += _sooner(design, criteria, last, seconds=seconds, finds=independent)
    if may_stop:
        notes.append(
            "<= at most: the gate stops as soon as its verdict is settled, and +- and n@, which "
            "are for gates of one size, say nothing of it"
        )
    return ForecastLine(
        cells={
            "starts": f"{'<=' * may_stop}{design.episodes}",
            "oracle": f"{rate:.2f}{'?' * (oracle_rate is None)}",
            "finds": "-" if independent is None else found_drop(independent),
            "paired": "-" if paired is None else found_drop(paired),
            "+-": "-" if width is None else f"{width:.2f}",
            **{name: "-" if n is None else str(n) for name, n in needed.items()},
            "time": duration(seconds),
        },
        notes=tuple(notes),
        seconds=seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the oracle of a result solved, and what an episode of each arm took."""

    oracle_rate: float
    seconds_per_episode: Mapping[str, float]
    learned_rate: float | None = None

    def __post_init__(self) -> None:
        rates = (self.oracle_rate, self.learned_rate or 0.0)
        if not min(*self.seconds_per_episode.values(), *rates) >= 0 or max(rates) > 1:
            raise ValueError(f"no such cost: {self}")


def cost_of(result: GateResult) -> Cost:
    """Return what a forecast needs to know of a result."""
    seconds = {arm.name: arm.seconds / arm.episodes for arm in result.arms}
    return Cost(
        oracle_rate=result.oracle.success_rate,
        seconds_per_episode=seconds,
        learned_rate=result.learned.success_rate,
    )


def _sooner(
    design: Design, criteria: stopping.Criteria, cost: Cost, *, seconds: float, finds: float | None
) -> Iterator[str]:
    """Say what a long gate would save by stopping early at its last rates, and what it changes."""
    is_short = seconds < stopping.LONG or not criteria.could_stop_early(design)
    if is_short or cost.learned_rate is None:
        return
    boundary = wang_tsiatis_boundary(design.episodes, level=criteria.gap_level(design))
    rates = pair_rates(cost.oracle_rate, cost.learned_rate, share=_USUAL_SHARE)
    chances = {"oracle_only": rates.oracle_only, "learned_only": rates.learned_only}
    starts = operating_characteristics(boundary, **chances).mean_pairs
    drop = _found_in_time(boundary, cost.oracle_rate, 0.0)
    changed = ""
    if drop is not None and finds is not None:
        changed = (
            f", and the drop found 4 times in 5 is {found_drop(drop)}, not {found_drop(finds)}"
        )
    *looks, most = map(str, boundary.looks)
    yield (
        f"{duration(seconds)}: with {stopping.OPTION} --cpg-max-episodes={most} the gate looks "
        f"after {', '.join(looks)} and {most} starts and ends once its verdict is settled: at its "
        f"last rates after {starts:.0f} on average, in {duration(seconds * starts / int(most))}. "
        f"A model as good as the oracle runs them all{changed}"
    )


def surely_failed_drop(result: GateResult, max_verdict: Verdict) -> float | None:
    """Return a drop from the oracle's measured rate that fails such a gate 4 times in 5, in (0, 1].

    Arms are taken to be independent, which promises too little of arms on the same starts. None
    where no drop fails it so often, and of gates judged by returns and smoke tests. Where
    ``max_verdict`` does not accept INCONCLUSIVE, raw rates that are not near 1, or a gap of the
    margin, fail it as well.
    """
    by_return = result.design.metric == "return"
    if by_return or result.is_smoke or max_verdict is Verdict.MODEL_BOTTLENECK:
        return None
    rate = result.oracle.success_rate
    if max_verdict.severity < Verdict.INCONCLUSIVE.severity:
        if result.margin is not None:
            return result.margin if result.margin < rate else None
        return _seen_by_raw_rates(rate, result.learned.episodes, result.tolerance)
    # A gap within the margin may be as sure as one above 0, and is then no bottleneck.
    power = POWER + (0.0 if result.margin is None else (1 - result.interval.level) / 2)
    drop = detectable_gap(
        rate,
        result.max_episodes or result.learned.episodes,
        power=power,
        oracle_episodes=result.oracle.episodes if result.stop == "fixed" else None,
        method=result.method,
        # Of a boundary this is the last look alone, which finds nearly what all of them do.
        level=stopping.level_of_last_look(result),
    )
    return drop if drop is None else max(drop, result.margin or 0.0)


def _seen_by_raw_rates(rate: float, episodes: int, tolerance: float) -> float | None:
    """Return the smallest drop whose raw rate is not near 1 with the wanted chance."""
    from scipy.special import bdtr

    # The most successes that are not near 1, apart from how tolerances round.
    most = math.ceil((1 - tolerance) * episodes - 1e-9) - 1
    steps = bisect_left(
        range(int(rate * _FINE_STEPS)),
        x=True,
        key=lambda drop: bool(bdtr(most, episodes, rate - drop / _FINE_STEPS) >= POWER),
    )
    return max(steps, 1) / _FINE_STEPS if steps < int(rate * _FINE_STEPS) else None


def _detectable(
    design: Design, criteria: stopping.Criteria, rate: float, level: float
) -> tuple[float | None, float | None]:
    if design.metric == "return":
        return None, None
    boundary = criteria.boundary(design)
    if boundary is not None:
        return _found_in_time(boundary, rate, 0.0), _found_in_time(boundary, rate, _USUAL_SHARE)
    find = partial(detectable_gap, rate, design.episodes, power=POWER, level=level)
    method = criteria.method
    of_pairs = "bonett-price" if method == "agresti-caffo" else method
    return find(method=method), find(method=of_pairs, share=_USUAL_SHARE)


def _half_width(rate: float, episodes: int, *, method: str, level: float) -> float:
    """Return half the width of a gate's interval on a model as good, the arms independent."""
    if method not in PAIRED_METHODS:
        return gap_half_width(rate, rate, episodes, level=level)
    differ = episodes * pair_rates(rate, rate, share=0.0).oracle_only
    z = critical_value(level)
    low, high = PAIRED_METHODS[method].bounds(differ, differ, episodes, z=z)
    return (high - low) / 2


def _found_in_time(boundary: Boundary, rate: float, share: float) -> float | None:
    """Return the smallest gap in hundredths that a gate which may stop early finds."""

    def is_found(steps: int) -> bool:
        rates = pair_rates(rate, max(0.0, rate - steps / _GAP_STEPS), share=share)
        chances = {"oracle_only": rates.oracle_only, "learned_only": rates.learned_only}
        return operating_characteristics(boundary, **chances).above >= POWER

    # Larger ones are found more often.
    most = int(rate * _GAP_STEPS)
    if not most or not is_found(most):
        return None
    return (1 + bisect_left(range(1, most), x=True, key=is_found)) / _GAP_STEPS


# Nobody runs more.
_MOST_EPISODES = 10_000


class Settling(NamedTuple):
    """What would resolve an INCONCLUSIVE gate: options, none where nothing would, and advice."""

    options: Mapping[str, int]
    advice: str


def settling(result: GateResult) -> Settling:
    """Return what would resolve an INCONCLUSIVE gate at these rates.

    On new starts: to add to the same ones until they tell the arms apart finds gaps by chance.
    """
    margin, by_return = result.margin, result.design.metric == "return"
    sees = result.chance_verdict in (None, Verdict.MODEL_BOTTLENECK) or is_strong(result)
    if not sees:
        return Settling(
            {},
            "Mend the gate before it is given more starts: even the true dynamics are not told "
            "from random actions.",
        )
    episodes, most, few = result.learned.episodes, _most(result), ""
    needed = 50
    if episodes < FEWEST_EPISODES_TO_CALL_ALIKE and (margin is not None or not by_return):
        proof = "no margin is proven" if by_return else "no two rates are called alike"
        few = f"Below {FEWEST_EPISODES_TO_CALL_ALIKE} starts {proof}. "
    elif margin is None and (result.interval.estimate if by_return else result.gap) == 0:
        equal, such = "rates", "0.1"
        if by_return:
            equal, such = "mean returns", "5, in units of return"
        return Settling(
            {},
            f"The {equal} are equal, so there is no gap to find; margin= (such as {such}) asks for "
            f"proof that the model loses less than that.",
        )
    else:
        bounded: int | None = 0
        at_rates = _episodes_needed(result)
        if margin is not None and not by_return and result.gap < margin:
            # What a margin is proven by has to show the oracle above it, too.
            rate, level = result.oracle.success_rate, result.interval.level
            bounded = wilson_episodes_above(margin, rate=rate, level=level)
        if at_rates is None or bounded is None or max(at_rates, bounded) > most:
            wanted = "prove the margin" if margin is not None else "tell them apart"
            return Settling({}, f"At these rates no {most} starts per arm would {wanted}.")
        needed = max(at_rates, bounded, episodes + 1)
    option = "episodes" if result.stop == "fixed" else "max_episodes"
    return Settling(
        {option: needed, "seed": result.seed + 1},
        f"{few}Run {needed} starts of another seed. Do not add to these starts until they tell the "
        f"arms apart: that finds gaps that are not there.",
    )


def _most(result: GateResult) -> int:
    return stopping.MOST_SEQUENTIAL if result.stop == "sequential" else _MOST_EPISODES


def is_strong(result: GateResult) -> bool:
    """Say whether the oracle solves half of the starts; of returns nobody knows what is much."""
    oracle = result.oracle
    return result.design.metric == "success" and 2 * oracle.success_count >= oracle.episodes


def episodes_to_see(result: GateResult) -> int | None:
    """Return the episodes per arm that tell an oracle from chance at these rates or returns.

    None where they are no cure: what is to be mended of a weak oracle is its planner.
    """
    by_return = result.design.metric == "return"
    is_open = result.margin is None or result.chance_verdict is Verdict.INCONCLUSIVE
    is_weak = not by_return and not is_strong(result)
    if not is_open or is_weak or result.oracle_over_chance <= 0:
        return None
    # Where a gate stops early, chance runs on until it is known to see.
    chance = result.chance.first(min(result.oracle.episodes, result.chance.episodes))
    beside = replace(result, learned=chance, margin=None)
    if by_return:
        gap = return_gap(result.oracle, chance, level=result.interval.level)
        beside = replace(beside, interval=gap)
    # If these rates were true, half of the runs of the size returned would still be blind, and one
    # in five of twice that: ((1.96 + 0.84) / 1.96)^2 is 2.04.
    needed = 2 * (_episodes_needed(beside) or _MOST_EPISODES)
    return needed if needed <= _most(result) else None


def _episodes_needed(result: GateResult) -> int | None:
    if result.design.metric == "return":
        return _starts_needed(result)
    margin = result.margin if result.margin is not None and result.gap < result.margin else None
    # It hardly changes with the number of episodes.
    level = stopping.level_of_last_look(result)
    if result.method != "agresti-caffo":
        return PAIRED_METHODS[result.method].episodes_to_settle(
            result.pairs, margin=margin, level=level, limit=_MOST_EPISODES
        )
    arms = (*result.oracle.solved, *result.learned.solved)
    return episodes_to_settle(*arms, margin=margin, level=level, limit=_MOST_EPISODES)


def _starts_needed(result: GateResult) -> int | None:
    interval, margin = result.interval, result.margin
    goal, unseen = abs(interval.estimate), 0.0
    if margin is not None and interval.estimate < margin:
        goal = margin - interval.estimate
        # Of n equal scores and one of another size, Gaffke's bound is that share of the size.
        share = -math.log((1 - interval.level) / 2)
        unseen = share * max(0.0, worst_of_chance(result.oracle, result.chance) - interval.estimate)
    if not goal:
        return None
    width = (interval.high - interval.low) / 2 * math.sqrt(result.learned.episodes)
    # The goal is the sum of width over the root of n, and of what is unseen over n.
    needed = ((width + math.sqrt(width**2 + 4 * unseen * goal)) / (2 * goal)) ** 2
    return math.ceil(needed) if needed <= _MOST_EPISODES else None
