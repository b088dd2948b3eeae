"""Margins on returns: what the starts that were run prove of those that were not."""

import pytest
from fakes import result_of

from pytest_cpg import Verdict
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.planning_gap import explanation
from pytest_cpg.gates.planning_gap.forecast import settling
from pytest_cpg.gates.planning_gap.result import possible_return_gap
from pytest_cpg.gates.planning_gap.ruling import ruling_of

PROOF = Verdict.MODEL_AS_GOOD_AS_ORACLE


def gate(margin, *, starts=20, learned=100.0, oracle=100.0, chance=0.0):
    """Return the result of arms that earn as much at every start."""
    arms = ([float(earned)] * starts for earned in (oracle, learned, chance))
    return result_of(*arms, metric="return", margin=margin)


def test_a_model_that_is_exact_on_every_start_of_few_proves_no_small_margin():
    """A model that loses 100 on 1 start in 20, 5 in the mean, shows none in 36 % of such gates."""
    exact = gate(5.0)
    assert (exact.interval.low, exact.interval.high) == (0, 0)
    # Of 20 starts none of which lose anything, 1 in 6 may: 1 - 0.025 ** (1 / 20).
    bound = possible_return_gap(exact.oracle, exact.learned, exact.chance, level=0.95)
    assert bound == pytest.approx(100 * (1 - 0.025 ** (1 / 20)))
    assert exact.verdict is Verdict.INCONCLUSIVE
    assert explanation.told(exact, PROOF).meaning == [
        "These 20 starts lose at most 0 in the mean, less than the margin of 5. Starts that were "
        "not run may lose more: if some lose 100, as random actions do at worst, the mean loss may "
        "be 16.8."
    ]
    assert gate(17.0).verdict is PROOF


def test_the_starts_that_would_prove_a_margin_are_told_and_prove_it():
    few = gate(5.0)
    needed = settling(few).options["episodes"]
    assert f"Run {needed} starts of another seed." in settling(few).advice
    assert gate(5.0, starts=needed).verdict is PROOF
    assert gate(5.0, starts=round(0.9 * needed)).verdict is Verdict.INCONCLUSIVE


def test_below_ten_starts_no_margin_of_returns_is_proven():
    two = gate(90.0, starts=9)
    assert two.verdict is Verdict.INCONCLUSIVE
    assert gate(90.0, starts=10).verdict is PROOF
    assert settling(two).advice.startswith("Below 10 starts no margin is proven. Run 50 starts ")


def test_a_loss_within_the_margin_that_is_not_proven_is_no_bottleneck():
    assert gate(5.0, learned=99.5).verdict is Verdict.INCONCLUSIVE
    assert gate(None, learned=99.5).verdict is Verdict.MODEL_BOTTLENECK


@pytest.mark.parametrize(
    ("margin", "cause"),
    [
        (1000.0, "The margin of 1000 is as wide as all that the oracle adds to random actions"),
        (50.0, "The margin of 50 is as wide as all that the oracle adds to random actions (7)"),
    ],
)
def test_a_margin_that_no_model_can_lose_is_blind_and_asks_for_no_better_planner(margin, cause):
    wide = gate(margin, oracle=10, learned=9, chance=3)
    assert ruling_of(wide, PROOF).severity is Severity.BLIND
    (told,) = explanation.told(wide, PROOF).advice
    assert told.startswith(cause)
    assert "Write a smaller one, such as margin=1.4." in told
    assert "search" not in told


@pytest.mark.parametrize("margin", [None, 5.0])
def test_returns_that_nothing_changes_are_blind_and_ask_for_no_better_planner(margin):
    accepts = Verdict.INCONCLUSIVE if margin is None else PROOF
    flat = gate(margin, oracle=3, learned=3, chance=3)
    assert ruling_of(flat, accepts).severity is Severity.BLIND
    (told,) = explanation.told(flat, accepts).advice
    assert told.startswith("Random actions earn at every start what the planner earns: as long as ")
    assert "search" not in told
    assert "horizon" not in told


def test_few_starts_that_blind_a_gate_of_returns_are_told_how_many_would_not():
    arms = [3.0, 9.0, 5.0, 12.0], [3.0, 9.0, 5.0, 12.0], [4.0, 2.0, 3.0, 4.0]
    few = result_of(*arms, metric="return")
    assert ruling_of(few, Verdict.INCONCLUSIVE).severity is Severity.BLIND
    (told,) = explanation.told(few, Verdict.INCONCLUSIVE).advice
    assert "Or make it larger: at these rates about" in told
