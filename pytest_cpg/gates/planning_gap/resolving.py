"""Resolving: how many more episodes would settle what a gate left open."""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_cpg.gates.planning_gap.result import GateResult, return_gap, worst_of_chance
from pytest_cpg.gates.planning_gap.stopping import (
    MOST_SEQUENTIAL,
    gap_interval,
    level_of_last_look,
)
from pytest_cpg.stats import Verdict
from pytest_cpg.stats.agresti_caffo import episodes_to_settle
from pytest_cpg.stats.methods import PAIRED_METHODS
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE
from pytest_cpg.stats.wilson import wilson_episodes_above

# Nobody runs more.
_MOST_EPISODES = 10_000


def resolve_hint(result: GateResult) -> str:
    """Say what would resolve an INCONCLUSIVE gate."""
    option = "episodes" if result.stop == "fixed" else "max-episodes"
    settled, by_return = settling(result), result.design.metric == "return"
    if settled:
        proof = "no margin is proven" if by_return else "no two rates are called alike"
        few = f"Below {FEWEST_EPISODES_TO_CALL_ALIKE} starts {proof}. "
        return (
            f"{few * _are_few(result)}Run {settled[option.replace('-', '_')]} starts of another "
            f"seed. Do not add to these starts until they tell the arms apart: that finds gaps "
            f"that are not there."
        )
    if _sees_nothing(result):
        return (
            "Mend the gate before it is given more starts: even the true dynamics are not told "
            "from random actions."
        )
    if _is_equal(result):
        equal, such = "rates", "0.1"
        if by_return:
            equal, such = "mean returns", "5, in units of return"
        return (
            f"The {equal} are equal, so there is no gap to find; margin= (such as {such}) asks for "
            f"proof that the model loses less than that."
        )
    wanted = "prove the margin" if result.margin is not None else "tell them apart"
    return f"At these rates no {_most(result)} starts per arm would {wanted}."


def settling(result: GateResult) -> dict[str, int]:
    """Return the options that would resolve an INCONCLUSIVE gate at these rates; empty for none.

    On new starts: to add to the same ones until they tell the arms apart finds gaps by chance.
    """
    episodes = result.learned.episodes
    option = "episodes" if result.stop == "fixed" else "max_episodes"
    if _sees_nothing(result):
        return {}
    other = {"seed": result.seed + 1}
    if _are_few(result):
        return {option: 50, **other}
    if _is_equal(result):
        return {}
    needed, bounded = _episodes_needed(result), _episodes_to_bound_oracle(result)
    if needed is None or bounded is None or max(needed, bounded) > _most(result):
        return {}
    return {option: max(needed, bounded, episodes + 1), **other}


def _are_few(result: GateResult) -> bool:
    is_proof = result.design.metric == "success" or result.margin is not None
    return is_proof and result.learned.episodes < FEWEST_EPISODES_TO_CALL_ALIKE


def _sees_nothing(result: GateResult) -> bool:
    return result.chance_verdict not in (None, Verdict.MODEL_BOTTLENECK) and not is_strong(result)


def _is_equal(result: GateResult) -> bool:
    of_success = result.design.metric == "success"
    gap = result.gap if of_success else result.interval.estimate
    return result.margin is None and gap == 0


def _most(result: GateResult) -> int:
    return MOST_SEQUENTIAL if result.stop == "sequential" else _MOST_EPISODES


def is_strong(result: GateResult) -> bool:
    """Say whether the oracle solves half of the starts; of returns nobody knows what is much."""
    oracle = result.oracle
    return result.design.metric == "success" and 2 * oracle.success_count >= oracle.episodes


def sees_alone(result: GateResult) -> bool:
    """Say whether a gate of a family would tell chance from the oracle if it were the only one."""
    if result.family_size == 1 or result.stop != "fixed" or result.margin is not None:
        return False
    oracle, level = result.oracle, result.level
    chance = result.chance.first(min(oracle.episodes, result.chance.episodes))
    if result.design.metric == "return":
        return return_gap(oracle, chance, level=level).low > 0
    return gap_interval(result.method, oracle, chance, level=level).low > 0


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
    level = level_of_last_look(result)
    if result.method != "agresti-caffo":
        return PAIRED_METHODS[result.method].episodes_to_settle(
            result.pairs, margin=margin, level=level, limit=_MOST_EPISODES
        )
    arms = (*result.oracle.solved, *result.learned.solved)
    return episodes_to_settle(*arms, margin=margin, level=level, limit=_MOST_EPISODES)


def _episodes_to_bound_oracle(result: GateResult) -> int | None:
    """Return the fewest episodes that show an oracle above a margin; 0 where none is asked."""
    oracle, margin = result.oracle, result.margin
    if margin is None or result.design.metric == "return" or result.gap >= margin:
        return 0
    return wilson_episodes_above(margin, rate=oracle.success_rate, level=result.interval.level)


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
