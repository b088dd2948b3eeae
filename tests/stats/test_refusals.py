"""What no statistic takes, and what it says instead, with the value."""

import math
import re

import numpy as np
import pytest

from pytest_cpg.stats import (
    GradedAnswers,
    OperatingPoints,
    agresti_caffo_interval,
    judge_gap,
    power,
    sequential,
)
from pytest_cpg.stats.graded_answers import aurc
from pytest_cpg.stats.intervals import (
    Interval,
    highest_rate,
    student_critical_value,
    wilson_interval,
)
from pytest_cpg.stats.paired import BONETT_PRICE, TANGO, exact_mcnemar_p_value, margin_level
from pytest_cpg.stats.pairing import Pairs, pair_rates
from pytest_cpg.stats.rankings import (
    cluster_interval,
    cluster_return_interval,
    kendall_interval,
    rank_models,
    spearman_interval,
)
from pytest_cpg.stats.returns import fieller_interval, fieller_return_interval, paired_mean_interval
from pytest_cpg.stats.sampled import Adjusted, Percentile, Scaled, Share
from pytest_cpg.stats.verdicts import holm, weigh_gap, weigh_returns

PAIRS = Pairs(both=5, oracle_only=5, learned_only=5, neither=5)
GAP = Interval(estimate=0.5, low=0.0, high=1.0, level=0.95, method="any")
ARMS = [(5, 10), (6, 10)], [(3, 10), (1, 10)]
RETURNS = [3.0, 4.0], [1.0, 3.0]
SOLVED = np.ones((2, 5), dtype=bool)
LOOKS = sequential.wang_tsiatis_boundary(50)
NO_NUMBERS = math.nan, True


def ranked(outcomes=SOLVED, names="ab", **more):
    return rank_models([*names], outcomes, rng=np.random.default_rng(0), **more)


def answers(**columns):
    return GradedAnswers(**{"wrong": [True, False], "confidences": [0.1, 0.2], **columns})


def refused(call, value, message):
    with pytest.raises(ValueError, match=r"need|look") as caught:
        call(value)
    assert message in re.sub(r"np\.(True_|False_)", r"\1", str(caught.value))


OF_LEVEL = {
    "agresti-caffo": lambda level: agresti_caffo_interval(3, 10, 0, 10, level=level),
    "decisive": lambda level: power.smallest_decisive_episodes(level=level),
    "wilson": lambda level: wilson_interval(3, 10, level=level),
    "highest": lambda level: highest_rate(3, 10, level=level),
    "student": lambda level: student_critical_value(level, freedom=3),
    "bonett-price": lambda level: BONETT_PRICE.interval(PAIRS, level=level),
    "tango": lambda level: TANGO.interval(PAIRS, level=level),
    "margin": lambda level: margin_level(20, margin=0.1, level=level),
    "power": lambda level: power.gap_power(0.5, 0.5, episodes=10, level=level),
    "returns": lambda level: paired_mean_interval(*RETURNS, level=level),
    "fieller": lambda level: fieller_return_interval(*RETURNS, [0.0, 0.0], level=level),
    "clusters": lambda level: cluster_interval(*ARMS, level=level),
    "ranking": lambda level: ranked(level=level),
    "spearman": lambda level: spearman_interval(range(6), range(6), level=level),
    "kendall": lambda level: kendall_interval(range(6), range(6), level=level),
    "verdict": lambda level: judge_gap(0, 10, 0, 10, level=level),
    "share": Share(estimate=0.5, size=9).interval,
    "scaled": Scaled(estimate=0.5, error=0.1, freedom=3, scale="log").interval,
    "adjusted": Adjusted(estimate=0.5, centre=0.4, error=0.1).interval,
    "percentile": Percentile(estimate=0.5, resamples=np.arange(100.0)).interval,
}


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, "0.95", *NO_NUMBERS])
@pytest.mark.parametrize("call", OF_LEVEL.values(), ids=OF_LEVEL)
def test_an_impossible_level(call, level):
    refused(call, level, f"need a level between 0 and 1, such as 0.95, got {level!r}")


OF_MARGIN = {
    "agresti-caffo": lambda margin: power.episodes_to_settle(3, 10, 3, 10, margin=margin),
    "bonett-price": lambda margin: BONETT_PRICE.episodes_to_settle(PAIRS, margin=margin),
    "tango": lambda margin: TANGO.episodes_to_settle(PAIRS, margin=margin),
    "level": lambda margin: margin_level(20, margin=margin),
    "looks": lambda margin: sequential.wang_tsiatis_boundary(50, margin=margin),
    "verdict": lambda margin: weigh_gap(GAP, (5, 10), (5, 10), margin=margin),
}


@pytest.mark.parametrize("margin", [0, 1, 10, -0.1, "0.1", math.nan])
@pytest.mark.parametrize("call", OF_MARGIN.values(), ids=OF_MARGIN)
def test_an_impossible_margin(call, margin):
    refused(call, margin, f"need a margin between 0 and 1, such as 0.1, got {margin!r}")


OF_LIMIT = [
    lambda limit: power.episodes_to_settle(3, 10, 0, 10, limit=limit),
    lambda limit: BONETT_PRICE.episodes_to_settle(PAIRS, limit=limit),
    lambda limit: TANGO.episodes_to_settle(PAIRS, limit=limit),
    lambda limit: power.episodes_for_gap(0.5, 0.1, limit=limit),
]


@pytest.mark.parametrize("call", OF_LIMIT)
def test_an_impossible_limit(call):
    refused(call, 0, "need limit to be a whole number of at least 1, got 0")


WHOLE = "to be a whole number of at least"
ROWS = [
    (
        lambda counts: agresti_caffo_interval(*counts),
        [
            ((True, 5, 0, 5), f"need oracle_successes {WHOLE} 0, got True"),
            ((np.True_, 5, 0, 5), f"need oracle_successes {WHOLE} 0, got True_"),
            ((3.0, 5, 0, 5), f"need oracle_successes {WHOLE} 0, got 3.0"),
            ((1, 5, -1, 5), f"need learned_successes {WHOLE} 0, got -1"),
            ((1, 5, "0", 5), f"need learned_successes {WHOLE} 0, got '0'"),
            ((0, 0, 0, 5), f"need oracle_episodes {WHOLE} 1, got 0"),
            ((1, 5, None, 5), f"need learned_successes {WHOLE} 0, got None"),
            ((1, 5, 6, 5), "need learned_successes <= learned_episodes, got 6 of 5"),
        ],
    ),
    (
        lambda counts: wilson_interval(*counts),
        [
            ((3, 2), "need successes <= episodes, got 3 of 2"),
            ((0, 0), f"need episodes {WHOLE} 1, got 0"),
        ],
    ),
    (
        lambda counts: judge_gap(*counts),
        [((0, 10, 11, 10), "need learned_successes <= learned_episodes, got 11 of 10")],
    ),
    (
        lambda counts: Pairs(**{"both": 0, "oracle_only": 0, "learned_only": 0, **counts}),
        [
            ({"neither": 0}, "need at least one episode, got four counts of 0"),
            *(
                ({"neither": 1, name: value}, f"need {name} {WHOLE} 0, got {value!r}")
                for name in ("both", "oracle_only", "learned_only", "neither")
                for value in (-1, 1.0, True, None, "3")
            ),
        ],
    ),
    (
        lambda lost: exact_mcnemar_p_value(lost=lost, gained=2),
        [(value, f"need lost {WHOLE} 0, got {value!r}") for value in (-1, 1.0, True, None, "3")],
    ),
    (
        lambda freedom: student_critical_value(0.95, freedom=freedom),
        [(value, f"need freedom {WHOLE} 1, got {value!r}") for value in (0, -1, 2.5, None)],
    ),
    (
        lambda rates: pair_rates(
            **{"oracle_rate": 0.5, "learned_rate": 0.5, "share": 0.5, **rates}
        ),
        [
            ({name: value}, f"need {name} from 0 to 1, got {value!r}")
            for name in ("oracle_rate", "learned_rate", "share")
            for value in (-0.1, 1.1, "0.5", None, *NO_NUMBERS)
        ],
    ),
    (
        lambda gate: power.gap_power(0.5, 0.5, **{"episodes": 10, **gate}),
        [
            ({"episodes": 0}, f"need episodes {WHOLE} 1, got 0"),
            ({"oracle_episodes": 9}, f"need oracle_episodes {WHOLE} 10, got 9"),
            ({"method": "wald"}, "among agresti-caffo, bonett-price, tango, got 'wald'"),
        ],
    ),
    (
        lambda rate: power.gap_power(rate, 0.5, episodes=10),
        [(rate, f"need oracle_rate from 0 to 1, got {rate!r}") for rate in (1.5, "1", math.nan)],
    ),
    (
        lambda chance: power.detectable_gap(0.9, 50, power=chance),
        [
            (chance, f"need a power between 0 and 1, such as 0.8, got {chance!r}")
            for chance in (0, 1, 80, "0.8", *NO_NUMBERS)
        ],
    ),
    (
        lambda gap: power.episodes_for_gap(0.9, gap),
        [
            (gap, f"need a gap above 0 and at most 1, such as 0.1, got {gap!r}")
            for gap in (0, -0.1, 1.1, "0.1", *NO_NUMBERS)
        ],
    ),
    (
        lambda counts: power.smallest_detectable_gap(*counts[:2], level=0.95, method=counts[2]),
        [
            ((6, 5, "tango"), "need oracle_successes <= oracle_episodes, got 6 of 5"),
            ((5, 6, "wald"), "need a method among agresti-caffo, bonett-price, tango, got 'wald'"),
        ],
    ),
    (
        lambda most: sequential.look_sizes(most),
        [
            *(
                (most, f"need at least 10 episodes, where the first look is, got {most}")
                for most in (0, 9)
            ),
            *((most, f"need max_episodes {WHOLE} 0, got {most!r}") for most in (-1, 10.0, True)),
        ],
    ),
    (
        lambda counts: sequential.repeated_interval(LOOKS, 1, counts),
        [(PAIRS, "look 1 is at 25 pairs, got 20")],
    ),
    (
        lambda looks: sequential.boundary_p_value(50, looks),
        [({}, "need the statistic of at least one look, got none")],
    ),
    (
        lambda win: sequential.pair_chances(win, 0.4),
        [
            (win, "need two chances from 0, at most 1 together")
            for win in (-0.1, 0.7, math.nan, "0.1")
        ],
    ),
    (
        lambda arms: cluster_interval(*arms),
        [
            (([(5, 10)], [(3, 10)]), "need at least two checkpoints to judge a recipe, got 1"),
            ((ARMS[0], [(3, 10)]), "need both arms of each checkpoint, got 2 oracle and 1"),
            (
                (ARMS[0], [(3, 10), (11, 10)]),
                "need learned_successes <= learned_episodes, got 11 of 10",
            ),
            (([(5, 10), (0, 0)], ARMS[1]), f"need oracle_episodes {WHOLE} 1, got 0"),
        ],
    ),
    (
        lambda arms: cluster_return_interval(*arms),
        [(([[1, 2]], [[1, 2], [3, 4]]), "need both arms of each checkpoint, got 1 oracle and 2")],
    ),
    (
        lambda alpha: holm({"gate": 0.1}, alpha=alpha, family_size=2),
        [
            (alpha, f"need an alpha between 0 and 1, such as 0.025, got {alpha!r}")
            for alpha in (0, 1, -0.1, 2.5, "0.025", None, *NO_NUMBERS)
        ],
    ),
    (
        lambda p: holm({"walker": 0.1, "hopper": p}, alpha=0.025, family_size=2),
        [
            (p, f"need a p-value from 0 to 1 for 'hopper', got {p!r}")
            for p in (-0.1, 1.1, "0.1", None, *NO_NUMBERS)
        ],
    ),
    (
        lambda gates: holm({}, alpha=0.025, family_size=gates),
        [
            (gates, f"need family_size {WHOLE} 1, got {gates!r}")
            for gates in (0, -1, 2.0, True, None)
        ],
    ),
    (
        lambda gates: holm({"walker": 0.1, "hopper": 0.2}, alpha=0.025, family_size=gates),
        [(1, "need a family_size of at least the 2 gates observed, got 1")],
    ),
    (
        lambda tolerance: judge_gap(0, 10, 0, 10, tolerance=tolerance),
        [
            (tolerance, f"need a tolerance from 0 to 0.5, such as 0.05, got {tolerance!r}")
            for tolerance in (-0.01, 0.51, 5, "0.05", None, *NO_NUMBERS)
        ],
    ),
    (
        lambda margin: weigh_returns(GAP, starts=10, possible=1, margin=margin),
        [
            (margin, "need a margin above 0, in units of return")
            for margin in (0, -1.0, math.nan, "5")
        ],
    ),
    (
        lambda names: ranked(np.ones((len(names), 5), dtype=bool), names),
        [(names, "need different names of at least two models") for names in ("a", "", "aa")],
    ),
    (
        lambda names: rank_models(names, SOLVED, rng=np.random.default_rng(0)),
        [("ab", "need different names of at least two models, got 'ab'")],
    ),
    (
        ranked,
        [
            (
                np.ones((2, 5), int),
                "need bool outcomes or finite returns [2 models, starts], got",
            ),
            (np.ones((3, 5), dtype=bool), "got bool of shape (3, 5)"),
            (np.ones(5, dtype=bool), "got bool of shape (5,)"),
            ([[1, 0, 1], [0, 0, 1]], "got int64 of shape (2, 3)"),
            *((SOLVED[:, :n], f"need at least 3 starts, got {n}") for n in (0, 1, 2)),
        ],
    ),
    *(
        (
            lambda columns, method=method: method(*columns),
            [
                ((range(4), range(4)), "need at least 5 models, got 4"),
                ((range(6), range(5)), "need metric and success of the same models, got 6 and 5"),
                (([0.5] * 6, range(6)), "a metric that differs between models, got 0.5 for all 6"),
                ((range(6), [0] * 6), "need a success that differs between models, got 0 for all"),
                (([range(6)], range(6)), "need one finite metric for each model, got"),
                *(
                    (([*range(5), value], range(6)), "need one finite metric for each model, got")
                    for value in (math.nan, math.inf, "1", None)
                ),
                ((range(6), [*range(5), None]), "need one finite success for each model, got"),
            ],
        )
        for method in (spearman_interval, kendall_interval)
    ),
    (
        lambda pairs: fieller_interval(*map(np.array, pairs)),
        [
            (([1.0] * 3, [-1, 1, 0.5]), "need denominators whose mean is shown to be above 0"),
            (([1.0], [1.0]), "need pairs, at least two, got 1 and 1"),
        ],
    ),
    (
        lambda columns: answers(**columns),
        [
            ({"wrong": []}, "need a bool for each answer, True where it is wrong, got float64"),
            ({"wrong": [0, 1]}, "got int64"),
            ({"wrong": [[True]]}, "bool of (1, 1)"),
            ({"confidences": [0.5]}, "need confidences for each of 2 answers, got (1,)"),
            ({"confidences": [True, False]}, "need numbers as confidences, got bool"),
            ({"confidences": ["0.5", "0.7"]}, "need numbers as confidences, got <U3"),
            ({"confidences": [0.5, math.nan]}, "need finite confidences, got nan at 1"),
            ({"stakes": [1, -2.5]}, "need stakes of 0 or more, got -2.5"),
            ({"groups": [1]}, "need one group for each of 2 answers, got (1,)"),
        ],
    ),
    (
        lambda confidences: aurc(confidences, [True]),
        [
            *(
                (confidences, "need confidences for each of 1 answers, got")
                for confidences in ([], [[0.1]], 0.1, [0.1, 0.2])
            ),
            *(
                ([value], f"need finite confidences, got {value} at 0")
                for value in (math.inf, math.nan)
            ),
        ],
    ),
    (
        lambda point: OperatingPoints(**point),
        [
            ({"coverage": 0}, "need a coverage above 0, up to 1, got 0"),
            ({"risk": 1.0}, "need a risk from 0, below 1, got 1.0"),
            ({"bins": 1}, "need two bins or more, got 1"),
        ],
    ),
    (
        lambda shape: Percentile(estimate=0.4, resamples=np.zeros(shape)),
        [
            (s, "need an array of at least 100 resamples, got the shape")
            for s in ((), (99,), (100, 2))
        ],
    ),
]


@pytest.mark.parametrize(
    ("call", "value", "message"), [(call, *row) for call, rows in ROWS for row in rows]
)
def test_an_impossible_argument(call, value, message):
    refused(call, value, message)
