import itertools
import json

import pytest
from fakes import first, result_of

from pytest_cpg import GateResult, Verdict
from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.gates.planning_gap.card import card_of
from pytest_cpg.gates.planning_gap.ruling import ruling_of
from pytest_cpg.planners import GradientMPC


@pytest.mark.parametrize(
    ("oracle", "learned", "episodes", "line"),
    [
        (3, 0, 10, "INCONCLUSIVE +0.300 -0.059 +0.559"),
        (40, 0, 150, "MODEL BOTTLENECK +0.267 +0.191 +0.335"),
    ],
)
def test_published_points_come_out_as_published(oracle, learned, episodes, line):
    result = result_of(first(oracle, episodes), first(learned, episodes))
    interval = result.interval
    assert f"{result.verdict} {result.gap:+.3f} {interval.low:+.3f} {interval.high:+.3f}" == line


def test_the_paired_table_counts_every_episode_once():
    result = result_of([1, 1, 1, 0, 0, 1], [1, 0, 0, 1, 0, 1])
    pairs = result.pairs
    assert (pairs.both, pairs.oracle_only, pairs.learned_only, pairs.neither) == (2, 2, 1, 1)
    assert result.lost_episodes == (1, 2)
    assert result.paired_interval.estimate == pytest.approx(result.gap)


def test_the_gap_is_normalised_to_what_the_oracle_adds_to_chance():
    result = result_of(first(10, 20), first(5, 20), first(5, 20))
    assert result.normalised_gap == pytest.approx(1.0)
    assert result_of(first(5, 20), first(5, 20), first(5, 20)).normalised_gap is None


def test_a_weak_oracle_is_a_planner_bottleneck_when_min_oracle_says_so():
    # Clopper's and Pearson's interval of 8 of 20 is [0.19, 0.64].
    outcomes = first(8, 20), first(0, 20)
    assert result_of(*outcomes).verdict is Verdict.MODEL_BOTTLENECK
    too_weak = result_of(*outcomes, min_oracle=0.64)
    assert too_weak.verdict is Verdict.PLANNER_BOTTLENECK
    assert ruling_of(too_weak, Verdict.MODEL_BOTTLENECK).reason == (
        "the oracle solves 8/20, a rate of at most 0.639, and min_oracle asks for 0.64"
    )
    assert result_of(*outcomes, min_oracle=0.63).verdict is Verdict.MODEL_BOTTLENECK
    assert result_of(*outcomes, min_oracle=0.63).is_oracle_too_weak is False


@pytest.mark.parametrize("max_verdict", Verdict)
def test_a_test_fails_exactly_when_the_verdict_is_worse_than_it_accepts(max_verdict):
    for outcomes in (
        (first(20, 20), first(20, 20)),
        (first(20, 20), first(0, 20)),
        (first(10, 20), first(20, 20)),
        (first(0, 20), first(0, 20)),
        (first(10, 20), first(9, 20)),
    ):
        result = result_of(*outcomes)
        fails = ruling_of(result, max_verdict).reason is not None
        assert fails == (result.verdict.severity > max_verdict.severity)


BLIND = (
    # Oracle, learned and chance arm of so many episodes.
    (0, 4, 0, 50),
    (0, 23, 25, 50),
    (3, 0, 0, 50),
    (2, 0, 0, 10),
    (20, 19, 15, 50),
    (50, 49, 49, 50),
)


def arms_of(oracle, learned, chance, episodes):
    return [first(count, episodes) for count in (oracle, learned, chance)]


@pytest.mark.parametrize("counts", BLIND)
def test_a_gate_that_chance_would_pass_is_blind_whatever_the_learned_arm_did(counts):
    result = result_of(*arms_of(*counts))
    in_place = result_of(*arms_of(counts[0], counts[2], counts[2], counts[3]))
    assert result.chance_verdict is in_place.verdict
    reason = ruling_of(result, Verdict.INCONCLUSIVE).reason
    assert reason.startswith("random actions would have passed this gate")
    assert f"chance {counts[2]}/{counts[3]}, oracle {counts[0]}/{counts[3]}" in reason
    for accepted in (Verdict.PLANNER_BOTTLENECK, Verdict.MODEL_BOTTLENECK):
        assert ruling_of(result, accepted).reason is None


def test_the_strictest_gate_is_blind_only_where_it_would_pass_chance():
    def reason(*counts):
        return ruling_of(result_of(*arms_of(*counts)), Verdict.MODEL_AS_GOOD_AS_ORACLE).reason

    assert "random actions" in reason(0, 23, 25, 50)
    assert "random actions" in reason(50, 50, 49, 50)
    # Chance would be INCONCLUSIVE, which this gate does not accept.
    assert reason(50, 50, 46, 50) is None


@pytest.mark.parametrize(
    ("metric", "stop"),
    [("success", "fixed"), ("success", "sequential"), ("return", "fixed")],
)
@pytest.mark.parametrize("margin", [None, 0.3])
def test_chance_is_ruled_as_a_learned_arm_of_its_outcomes_is(metric, stop, margin):
    design = {"metric": metric, "margin": margin, "stop": stop, "interval": "tango"}
    for oracle, chance in itertools.product((0, 1, 4, 5, 9, 10), repeat=2):
        arms = arms_of(oracle, 5, chance, 10)
        in_place = result_of(arms[0], arms[2], arms[2], **design)
        assert result_of(*arms, **design).chance_verdict is in_place.verdict


def test_a_result_of_an_earlier_version_is_not_called_blind():
    values = json.loads(result_of(*arms_of(0, 4, 0, 50)).to_json())
    del values["chance_verdict"]
    old = GateResult.from_json(json.dumps(values))
    assert old.chance_verdict is None
    assert ruling_of(old, Verdict.INCONCLUSIVE).reason is None


def test_a_model_that_ignores_actions_is_never_accepted():
    result = result_of(first(20, 20), first(20, 20), ignores_action=True)
    assert "ignores the action" in ruling_of(result, Verdict.MODEL_BOTTLENECK).reason


@pytest.mark.parametrize(
    ("episodes", "more", "note"),
    [
        (20, {"starts": "fixed"}, 'starts="fixed"'),
        (20, {"chance": first(11, 20)}, "random actions succeed in 11/20 episodes"),
        (20, {"swapped": ("dynamics", "score")}, "the model also gives score"),
        # The first episode is the only one in which it has none.
        (1, {"perturbation": DropActions(0)}, "took effect in none of"),
    ],
)
def test_what_weakens_a_verdict_is_noted(episodes, more, note):
    arms = first(episodes, episodes), first(episodes, episodes)
    assert any(note in said for said in result_of(*arms, **more).notes)
    assert not any(note in said for said in result_of(*arms).notes)


def test_a_result_survives_json():
    result = result_of(first(8, 20), first(3, 20), starts="fixed", min_oracle=0.1)
    again = GateResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert (again.verdict, again.notes) == (result.verdict, result.notes)
    assert again.start_seeds == tuple(range(7, 27))
    assert json.loads(result.to_json())["gap"] == 0.25


def test_a_result_of_another_schema_says_what_to_do():
    text = result_of(first(8, 20), first(3, 20)).to_json().replace('"schema": 2', '"schema": 99')
    with pytest.raises(ValueError, match="schema 99, and this pytest-cpg reads up to 2"):
        GateResult.from_json(text)


def test_a_result_of_the_first_schema_still_loads():
    result = result_of(first(8, 20), first(3, 20))
    values = json.loads(result.to_json())
    later = ("evidence", "is_weak", "margin", "metric", "stop", "max_episodes", "looks")
    for name in (*later, "family_size", "group", "perturbation", "processor", "kernels"):
        del values[name]
    for arm in ("oracle", "learned", "chance"):
        for name in ("indices", "returns", "confidences", "perturbed"):
            del values[arm][name]
    old = GateResult.from_json(json.dumps({**values, "schema": 1}))
    assert old.verdict is result.verdict
    assert (old.gap, old.lost_episodes) == (result.gap, result.lost_episodes)
    assert (old.stop, old.design.metric, old.looks, old.family_size) == ("fixed", "success", (), 1)
    assert (old.processor, old.kernels) == ("", {})


@pytest.mark.parametrize(("learned", "more"), [(3, {}), (16, {}), (16, {"margin": 0.1})])
def test_a_result_that_newcombes_interval_judged_still_loads_and_is_shown(learned, more):
    result = result_of(first(18, 20), first(learned, 20), interval="bonett-price", **more)
    values = json.loads(result.to_json()) | {"method": "newcombe-paired"}
    values["interval"]["method"] = "Newcombe 1998"
    old = GateResult.from_json(json.dumps(values))
    assert (old.verdict, old.interval.low) == (result.verdict, result.interval.low)
    shown = card_of(old, Verdict.INCONCLUSIVE)
    assert "Newcombe" in str(shown.table) + str(shown.facts)


def test_json_never_holds_a_number_that_is_none():
    with pytest.raises(ValueError, match="Out of range float"):
        result_of(first(8, 20), first(3, 20), min_oracle=float("nan")).to_json()


def test_arms_that_follow_gradients_in_two_ways_are_noted():
    def notes(planner, plan_gradient):
        arms = (first(20, 20), first(20, 20))
        return result_of(*arms, planner=planner, plan_gradient=plan_gradient).notes

    (note,) = notes(GradientMPC(), print)
    assert note.startswith("plans follow gradients by finite differences in the oracle arm and by")
    assert not notes(GradientMPC(), None)
    assert not notes(GradientMPC(gradients="finite-differences"), print)
