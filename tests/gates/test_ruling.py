"""Rulings: how bad a result is, whatever its label, and whether a test passes for it."""

from dataclasses import replace

import pytest
from fakes import first, result_of

from pytest_cpg import Verdict
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.planning_gap import explanation
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis
from pytest_cpg.gates.planning_gap.ruling import ruling_of

BAD = result_of(first(50, 50), first(10, 50), first(5, 50))
OPEN = result_of(first(47, 50), first(43, 50))
GOOD = result_of(first(50, 50), first(50, 50))
HOPELESS = result_of(first(0, 50), first(0, 50))
# The chance arm does as well as the oracle.
BLIND = result_of(first(25, 50), first(24, 50), first(25, 50))
WEAK = result_of(first(10, 50), first(0, 50), min_oracle=0.5)
FAULT = replace(GOOD, faults=("it ignores the action",))
SMOKE = replace(BAD, is_smoke=True, verdict=Verdict.INCONCLUSIVE, chance_verdict=None)
CHECK = replace(OPEN, is_aa=True, verdict=Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("result", "label", "severity"),
    [
        (GOOD, "MODEL AS GOOD AS ORACLE", Severity.GOOD),
        (OPEN, "INCONCLUSIVE", Severity.UNSURE),
        (BLIND, "INCONCLUSIVE", Severity.BLIND),
        (HOPELESS, "PLANNER BOTTLENECK", Severity.BLIND),
        (WEAK, "PLANNER BOTTLENECK", Severity.BLIND),
        (BAD, "MODEL BOTTLENECK", Severity.BAD),
        (FAULT, "MODEL AS GOOD AS ORACLE", Severity.BROKEN),
        (SMOKE, "SMOKE", Severity.GOOD),
        (replace(SMOKE, faults=("x",)), "SMOKE", Severity.BROKEN),
        (CHECK, "A/A", Severity.GOOD),
        (replace(CHECK, faults=("x",)), "A/A", Severity.BROKEN),
    ],
)
def test_how_bad_a_result_is(result, label, severity):
    ruling = ruling_of(result, Verdict.INCONCLUSIVE)
    assert (ruling.label, ruling.severity) == (label, severity)


@pytest.mark.parametrize("accepts", Verdict)
@pytest.mark.parametrize("result", [GOOD, OPEN, BLIND, HOPELESS, BAD, FAULT, SMOKE, CHECK])
def test_a_test_passes_where_nothing_is_worse_than_it_accepts(result, accepts):
    ruling = ruling_of(result, accepts)
    assert (ruling.reason is None) == (ruling.severity <= Severity(accepts.severity))


def test_only_a_gate_in_which_random_actions_look_the_same_says_so_of_its_planner():
    # At this tolerance 23 of 50 are near none, and a model that solves none would be told.
    sees = result_of(first(23, 50), first(18, 50), first(0, 50), tolerance=0.49)
    assert explanation.told(sees, Verdict.INCONCLUSIVE).meaning == [
        "The gate is at fault, not the model: with the true dynamics this planner solves 23/50 "
        "starts, near none by the tolerance of 0.49."
    ]
    (blind,) = explanation.told(HOPELESS, Verdict.INCONCLUSIVE).meaning
    assert blind.endswith("by the tolerance of 0.05. Random actions look the same.")


@pytest.mark.parametrize(
    ("cause", "advises_search"), [(None, True), (Cause.PLANNER, True), (Cause.NONE, False)]
)
def test_a_wider_search_is_advised_unless_it_was_tried_in_vain(cause, advises_search):
    diagnosis = None if cause is None else Diagnosis(cause=cause, summary="", recommendation="")
    (told,) = explanation.told(replace(HOPELESS, diagnosis=diagnosis), Verdict.INCONCLUSIVE).advice
    assert ("search wider" in told) is advises_search
    assert told.startswith("Look farther ahead (horizon, now ")
    design = replace(HOPELESS.design, planner="ICEM(horizon=15)")
    by_icem = replace(HOPELESS, diagnosis=diagnosis, design=design)
    assert "icem" not in explanation.told(by_icem, Verdict.INCONCLUSIVE).advice[0]


def test_a_margin_above_all_that_a_strong_oracle_solves_asks_for_a_smaller_one():
    wide = result_of(first(40, 50), first(40, 50), first(10, 50), margin=0.95, interval="tango")
    assert wide.verdict is Verdict.PLANNER_BOTTLENECK
    (told,) = explanation.told(wide, Verdict.MODEL_AS_GOOD_AS_ORACLE).advice
    assert told.startswith("The margin of 0.95 is as wide as all that the oracle adds to random ")
    assert "search" not in told


def test_a_weak_oracle_is_mended_by_its_planner_and_not_by_its_margin():
    weak = result_of(first(3, 50), first(3, 50), first(0, 50), margin=0.1, interval="tango")
    (told,) = explanation.told(weak, Verdict.INCONCLUSIVE).advice
    assert told.startswith("Look farther ahead")


def test_a_gate_that_others_made_blind_is_told_to_grow():
    arms = first(18, 20), first(18, 20), first(11, 20)
    assert ruling_of(result_of(*arms, interval="tango"), Verdict.INCONCLUSIVE).reason is None
    one_of_ten = result_of(*arms, interval="tango", family_size=10)
    assert ruling_of(one_of_ten, Verdict.INCONCLUSIVE).severity is Severity.BLIND
    (told,) = explanation.told(one_of_ten, Verdict.INCONCLUSIVE).advice
    assert "Or make it larger: at these rates about" in told


def test_no_marker_accepts_an_oracle_below_what_it_asks_for_itself():
    reason = ruling_of(WEAK, Verdict.MODEL_BOTTLENECK).reason
    assert reason is not None
    assert "min_oracle asks for 0.5" in reason


@pytest.mark.parametrize(("result", "check"), [(SMOKE, "smoke test"), (CHECK, "A/A check")])
def test_what_judges_no_model_says_what_it_is(result, check):
    assert ruling_of(result, Verdict.INCONCLUSIVE).check == check
    assert ruling_of(GOOD, Verdict.INCONCLUSIVE).check == ""
