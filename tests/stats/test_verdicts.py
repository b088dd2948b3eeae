import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats import Interval, Verdict, agresti_caffo_interval, judge_gap
from pytest_cpg.stats.verdicts import weigh_gap, weigh_returns


@st.composite
def arms(draw, most=120):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


def test_ten_episodes_in_both_arms_are_enough_to_call_them_alike():
    assert judge_gap(10, 10, 10, 10) is Verdict.MODEL_AS_GOOD_AS_ORACLE
    assert judge_gap(0, 10, 0, 10) is Verdict.PLANNER_BOTTLENECK
    assert judge_gap(10, 10, 9, 9) is Verdict.INCONCLUSIVE
    assert judge_gap(0, 9, 0, 500) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("n", [3, 9, 10, 19, 20, 40])
def test_every_outcome_follows_the_table_of_five_branches(n):
    for s in range(n + 1):
        for t in range(n + 1):
            ci = agresti_caffo_interval(s, n, t, n)
            # A tolerance of 0.05 is one in twenty, in whole numbers.
            planner = n >= 10 and 20 * s <= n and 20 * t <= n
            alike = n >= 10 and 20 * (n - s) <= n and 20 * (n - t) <= n
            expected = (
                "MODEL BOTTLENECK" if ci.low > 0
                else "LEARNED OUTPERFORMS ORACLE" if ci.high < 0
                else "PLANNER BOTTLENECK" if planner
                else "MODEL AS GOOD AS ORACLE" if alike
                else "INCONCLUSIVE"
            )  # fmt: skip
            assert judge_gap(s, n, t, n) == expected, (s, t)


@pytest.mark.parametrize(
    ("tolerance", "successes", "episodes"),
    [(0.05, 1, 20), (0.1, 3, 30), (0.15, 3, 20), (0.3, 3, 10), (1 / 3, 10, 30), (0.07, 7, 100)],
)
@pytest.mark.parametrize("convert", [float, np.float64, Fraction])
def test_a_rate_exactly_at_the_tolerance_counts(tolerance, successes, episodes, convert):
    share = convert(tolerance)
    low = judge_gap(successes, episodes, successes, episodes, tolerance=share)
    failures = episodes - successes
    high = judge_gap(failures, episodes, failures, episodes, tolerance=share)
    assert (low, high) == (Verdict.PLANNER_BOTTLENECK, Verdict.MODEL_AS_GOOD_AS_ORACLE)


def test_a_rate_one_episode_past_the_tolerance_does_not_count():
    assert judge_gap(51, 1000, 51, 1000) is Verdict.INCONCLUSIVE
    assert judge_gap(949, 1000, 949, 1000) is Verdict.INCONCLUSIVE
    assert judge_gap(1, 1000, 1, 1000, tolerance=0) is Verdict.INCONCLUSIVE
    assert judge_gap(0, 1000, 0, 1000, tolerance=0) is Verdict.PLANNER_BOTTLENECK


@given(oracle=arms(), learned=arms(), tolerance=st.floats(0, 0.5))
def test_swapping_the_arms_swaps_who_is_better_and_nothing_else(oracle, learned, tolerance):
    swap = {
        Verdict.MODEL_BOTTLENECK: Verdict.LEARNED_OUTPERFORMS_ORACLE,
        Verdict.LEARNED_OUTPERFORMS_ORACLE: Verdict.MODEL_BOTTLENECK,
    }
    verdict = judge_gap(*oracle, *learned, tolerance=tolerance)
    swapped = judge_gap(*learned, *oracle, tolerance=tolerance)
    assert swapped is swap.get(verdict, verdict)


def test_the_level_decides_between_a_finding_and_none():
    assert judge_gap(3, 10, 0, 10, level=0.8) is Verdict.MODEL_BOTTLENECK
    assert judge_gap(3, 10, 0, 10, level=0.95) is Verdict.INCONCLUSIVE


def test_severity_runs_from_the_two_best_to_model_bottleneck():
    order = ["LEARNED OUTPERFORMS ORACLE", "INCONCLUSIVE", "PLANNER BOTTLENECK", "MODEL BOTTLENECK"]
    assert [Verdict(name).severity for name in order] == [0, 1, 2, 3]
    assert Verdict.MODEL_AS_GOOD_AS_ORACLE.severity == 0
    assert len(Verdict) == 5


def test_a_verdict_prints_and_serialises_as_its_name():
    verdict = Verdict.MODEL_AS_GOOD_AS_ORACLE
    assert (str(verdict), f"{verdict:>25}") == ("MODEL AS GOOD AS ORACLE", f"{verdict.value:>25}")
    assert json.loads(json.dumps(verdict)) == "MODEL AS GOOD AS ORACLE" == verdict


def weighed(oracle, learned, episodes, *, oracle_episodes=None, **options):
    arms = (oracle, oracle_episodes or episodes), (learned, episodes)
    interval = agresti_caffo_interval(*arms[0], *arms[1])
    return weigh_gap(interval, *arms, **options)


@pytest.mark.parametrize(
    ("oracle", "learned", "episodes", "margin", "verdict"),
    [
        (145, 143, 150, 0.1, Verdict.MODEL_AS_GOOD_AS_ORACLE),
        (75, 76, 150, 0.2, Verdict.MODEL_AS_GOOD_AS_ORACLE),
        (145, 143, 150, 0.03, Verdict.INCONCLUSIVE),
        (145, 120, 150, 0.1, Verdict.MODEL_BOTTLENECK),
        (50, 50, 50, 0.1, Verdict.MODEL_AS_GOOD_AS_ORACLE),
        (50, 50, 50, 0.02, Verdict.INCONCLUSIVE),
        (0, 0, 50, 0.1, Verdict.PLANNER_BOTTLENECK),
        (0, 0, 50, 0.02, Verdict.INCONCLUSIVE),
        (0, 40, 50, 0.1, Verdict.LEARNED_OUTPERFORMS_ORACLE),
        (100, 130, 150, 0.1, Verdict.LEARNED_OUTPERFORMS_ORACLE),
        # A model without any success would be within the margin: nothing can be proven.
        (20, 20, 150, 0.15, Verdict.INCONCLUSIVE),
    ],
)
def test_with_a_margin_every_verdict_is_proven(oracle, learned, episodes, margin, verdict):
    assert weighed(oracle, learned, episodes, margin=margin).verdict is verdict


def test_a_gap_that_is_sure_and_within_the_margin_is_what_was_allowed():
    small = Interval(estimate=0.03, low=0.01, high=0.05, level=0.95, method="any")
    arms = (950, 1000), (920, 1000)
    assert weigh_gap(small, *arms, margin=0.1).verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE
    assert weigh_gap(small, *arms, margin=0.05).verdict is Verdict.MODEL_BOTTLENECK
    assert weigh_gap(small, *arms).verdict is Verdict.MODEL_BOTTLENECK


@pytest.mark.parametrize(
    ("oracle", "learned", "episodes", "is_weak"),
    [
        (50, 50, 50, False),
        (48, 48, 50, False),
        (50, 48, 50, True),
        (49, 48, 50, True),
        (25, 25, 25, True),
        (26, 26, 26, False),
        (10, 10, 10, True),
        (0, 0, 50, False),
        (1, 0, 50, True),
        (0, 0, 30, True),
    ],
)
def test_raw_rates_that_may_hide_twice_the_tolerance_are_weak(oracle, learned, episodes, is_weak):
    ruled = weighed(oracle, learned, episodes)
    assert ruled.is_weak is is_weak
    assert ("weak" in ruled.evidence) is is_weak
    assert not weighed(10, 9, 20).is_weak


def test_the_evidence_says_what_was_used():
    assert weighed(50, 20, 50).evidence == "the interval, which lies above 0"
    assert "below the margin 0.1" in weighed(145, 143, 150, margin=0.1).evidence
    assert "at most 0.07" in weighed(0, 0, 50, margin=0.1).evidence
    assert "below 10 episodes" in weighed(5, 5, 5).evidence


def gap_of(low, high):
    return Interval(estimate=(low + high) / 2, low=low, high=high, level=0.95, method="any")


@pytest.mark.parametrize(
    ("gap", "margin", "verdict"),
    [
        ((10, 30), None, Verdict.MODEL_BOTTLENECK),
        ((-30, -10), None, Verdict.LEARNED_OUTPERFORMS_ORACLE),
        ((-3, 5), None, Verdict.INCONCLUSIVE),
        ((0, 0), None, Verdict.INCONCLUSIVE),
        ((-3, 5), 20.0, Verdict.MODEL_AS_GOOD_AS_ORACLE),
        ((1, 5), 20.0, Verdict.MODEL_AS_GOOD_AS_ORACLE),
        ((-3, 25), 20.0, Verdict.INCONCLUSIVE),
        ((10, 30), 20.0, Verdict.MODEL_BOTTLENECK),
    ],
)
def test_returns_are_ruled_by_their_interval(gap, margin, verdict):
    ruled = weigh_returns(gap_of(*gap), starts=10, possible=gap[1] + 1, margin=margin)
    assert ruled.verdict is verdict


@pytest.mark.parametrize(
    ("gap", "starts", "possible", "evidence"),
    [
        ((-3, 5), 9, 6, "nothing: below 10 starts no margin is proven"),
        ((1, 5), 10, 20, "what starts like none of these could lose, 20 in the mean: the margin"),
        ((-9, -5), 10, 21, "what starts like none of these could lose, 21 in the mean: the margin"),
        ((0, 0), 50, 20, "what starts like none of these could lose, 20 in the mean: the margin"),
    ],
)
def test_a_margin_of_returns_is_not_proven_by_starts_that_were_not_seen(
    gap, starts, possible, evidence
):
    ruled = weigh_returns(gap_of(*gap), starts=starts, possible=possible, margin=20.0)
    assert ruled.verdict is Verdict.INCONCLUSIVE
    assert ruled.evidence.startswith(evidence)
