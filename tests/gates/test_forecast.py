"""What a gate that passed could not have seen, against enumerations of whole gates."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import arm, design_and_criteria, first, result_of

from pytest_cpg.gates.planning_gap.forecast import forecast, surely_failed_drop
from pytest_cpg.gates.planning_gap.result import Look
from pytest_cpg.gates.planning_gap.stopping import Criteria, sooner
from pytest_cpg.stats import Verdict
from pytest_cpg.stats.pairing import pair_rates
from pytest_cpg.stats.sequential import operating_characteristics, wang_tsiatis_boundary
from pytest_cpg.stats.verdicts import weigh_gap

scipy_stats = pytest.importorskip("scipy.stats")
STRICT, USUAL = Verdict.MODEL_AS_GOOD_AS_ORACLE, Verdict.INCONCLUSIVE


def chance_to_fail(result, drop, max_verdict):
    """Return how often a gate as ``result`` fails, by the verdict on every table of counts.

    The arms are independent, and the oracle's rate is what was measured.
    """
    n, rate = result.learned.episodes, result.oracle.success_rate
    p, q = rate, max(0.0, rate - drop)
    chances = [p * q, p * (1 - q), q * (1 - p), (1 - p) * (1 - q)]
    criteria = Criteria(interval=result.method, margin=result.margin)
    total = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            for both in range(n + 1 - b - c):
                oracle = np.array([1] * (both + b) + [0] * (n - both - b), dtype=bool)
                learned = np.array([1] * both + [0] * b + [1] * c + [0] * (n - both - b - c))
                arms = (
                    replace(result.oracle, successes=oracle),
                    replace(result.learned, successes=learned.astype(bool)),
                )
                weighed = weigh_gap(
                    criteria.bound(result, 0, *arms),
                    *((int(arm.successes.sum()), n) for arm in arms),
                    margin=result.margin,
                )
                if weighed.verdict.severity > max_verdict.severity:
                    counts = [both, b, c, n - both - b - c]
                    total += scipy_stats.multinomial.pmf(counts, n, chances)
    return total


@pytest.mark.parametrize(
    ("solved", "design", "max_verdict"),
    [
        (12, {}, USUAL),
        (12, {"interval": "bonett-price"}, USUAL),
        (11, {"interval": "tango"}, USUAL),
        (12, {"interval": "tango", "margin": 0.3}, USUAL),
        (12, {"interval": "tango", "margin": 0.3}, STRICT),
        (12, {}, STRICT),
    ],
)
def test_the_drop_fails_four_gates_in_five_by_all_tables_of_counts(solved, design, max_verdict):
    result = result_of(first(solved, 12), first(solved, 12), **design)
    drop = surely_failed_drop(result, max_verdict)
    assert chance_to_fail(result, drop, max_verdict) >= 0.8
    if "margin" not in design:
        # Rates that are near 1 may be lost by the oracle arm as well.
        assert chance_to_fail(result, drop - 0.03, max_verdict) < 0.82


@pytest.mark.parametrize(("solved", "margin", "stopped_at"), [(50, None, 50), (46, 0.1, 25)])
def test_the_drop_fails_four_of_five_gates_that_look_early(solved, margin, stopped_at):
    boundary = wang_tsiatis_boundary(50, margin=margin)
    critical = dict(zip(boundary.looks, boundary.critical_values, strict=True))[stopped_at]
    solved = solved * stopped_at // 50
    result = replace(
        result_of(first(solved, stopped_at), first(solved, stopped_at), margin=margin),
        stop="sequential",
        max_episodes=50,
        method="bonett-price" if margin is None else "tango",
        looks=(Look(stopped_at, 0.0, critical),),
    )
    drop, rate = surely_failed_drop(result, USUAL), solved / stopped_at
    found = [
        operating_characteristics(boundary, oracle_only=r.oracle_only, learned_only=r.learned_only)
        for r in (pair_rates(rate, rate - d, share=0) for d in (drop, drop - 0.03))
    ]
    assert found[0].above >= 0.8 > found[1].above


def test_nothing_is_promised_where_nothing_could_be_seen():
    good = result_of(first(20, 20), first(20, 20))
    assert surely_failed_drop(good, Verdict.MODEL_BOTTLENECK) is None
    assert surely_failed_drop(replace(good, is_smoke=True), USUAL) is None
    assert (
        surely_failed_drop(replace(good, design=replace(good.design, metric="return")), USUAL)
        is None
    )
    assert surely_failed_drop(result_of(first(2, 20), first(2, 20)), USUAL) is None


def test_what_a_margin_allows_may_always_pass():
    proven = result_of(first(100, 100), first(100, 100), interval="tango", margin=0.1)
    assert surely_failed_drop(proven, STRICT) == 0.1
    assert surely_failed_drop(proven, USUAL) >= 0.1


SOONER = (
    "--cpg-stop=sequential --cpg-max-episodes=50 the gate looks after 10, 25 and 50 starts and "
    "ends once its verdict is settled: at its last rates after {} on average, in {}. A model as "
    "good as the oracle runs them all, and the drop found 4 times in 5 is {}, not {}"
)


def cells_of_plan(rate, **given):
    return plan(rate, 2.0, rate, **given).cells


def notes_of_plan(learned, seconds=2.0, oracle=1.0, **given):
    return " ".join(plan(learned, seconds, oracle, **given).notes)


def plan(learned, seconds, oracle, **given):
    design, criteria = design_and_criteria(
        {
            "task": SimpleNamespace(name="track", budget=500),
            "planner": None,
            "episodes": 50,
            "seed": 0,
            **given,
        }
    )
    cost = {
        "oracle_rate": oracle,
        "learned_rate": learned,
        "seconds_per_episode": {"oracle": seconds},
    }
    return forecast(design, criteria, cost=cost, accepted=None)


@pytest.mark.parametrize("rate", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("method", ["bonett-price", "tango"])
@pytest.mark.parametrize("margin", [None, 0.3])
def test_a_plan_has_the_width_of_the_gates_own_interval(rate, method, margin):
    margin = margin if method == "tango" else None
    differ = round(100 * rate * (1 - rate))
    solved = np.zeros((2, 100), dtype=bool)
    solved[:, : 100 - 2 * differ] = rate > 0.5
    solved[0, 100 - 2 * differ : 100 - differ] = solved[1, 100 - differ :] = True
    criteria = Criteria(interval=method, margin=margin)
    design = SimpleNamespace(level=0.95, episodes=100, metric="success")
    interval = criteria.bound(
        design, 0, *(arm(name, row) for name, row in zip("ab", solved, strict=True))
    )
    cells = cells_of_plan(rate, episodes=100, interval=method, margin=margin)
    assert cells["+-"] == f"{(interval.high - interval.low) / 2:.2f}"
    assert cells_of_plan(rate, stop="sequential")["+-"] == "-"


def test_a_plan_says_what_a_long_gate_would_save_by_looking_early_and_what_it_changes():
    assert "100 s: with " + SOONER.format(10, "20 s", "0.16", "0.14") in notes_of_plan(0.0)
    assert "in 100 s. A model as good" in notes_of_plan(1.0)
    quiet = [{"seconds": 0.1}, {"stop": "sequential"}, {"margin": 0.1}, {"metric": "return"}]
    for given in quiet:
        assert "--cpg-stop" not in notes_of_plan(0.0, **given)


@pytest.mark.parametrize(
    ("learned", "seconds", "given", "looked"),
    [
        (0, 60, {}, 10),
        (0, 59, {}, None),
        (20, 60, {}, None),
        (48, 60, {}, None),
        (0, 60, {"margin": 0.1, "interval": "tango"}, None),
        (0, 60, {"stop": "sequential"}, None),
        (0, 60, {"metric": "return"}, None),
    ],
)
def test_whoever_waited_for_a_bad_model_is_told_which_look_would_have_ended_it(
    learned, seconds, given, looked
):
    # The oracle solves all, and those that the model solves are the first.
    arms = {"oracle": arm("oracle", first(50, 50)), "learned": arm("learned", first(learned, 50))}
    task = SimpleNamespace(name="track", budget=500)
    design, criteria = design_and_criteria(
        {"task": task, "planner": None, "episodes": 50, "seed": 0, **given}
    )
    text = sooner(design, criteria, arms, seconds=seconds)
    if looked is None:
        assert text == ""
    else:
        assert text == (
            "the arms took 60 s: --cpg-stop=sequential --cpg-max-episodes=50 would have ended this "
            f"gate after {looked} of 50 starts"
        )
