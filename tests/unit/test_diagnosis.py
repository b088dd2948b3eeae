"""Named causes on constructed faults; tests/calibration has every fault with ten seeds."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from fakes import first, result_of
from faulty_models import everywhere, far_from_the_goal, faults, judged, named
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from pytest_cpg.diagnosis import Cause, Diagnosis, Measure, Profile, read_training_data
from pytest_cpg.diagnosis.coverage import PERCENTILE
from pytest_cpg.diagnosis.evidence import Headroom
from pytest_cpg.diagnosis.measures import kendall_taus, over_episodes
from pytest_cpg.diagnosis.rules import has_headroom
from pytest_cpg.gates.diagnosing import diagnose
from pytest_cpg.gates.result import GateResult
from pytest_cpg.render.diagnosis import diagnosis_lines, plots
from pytest_cpg.stats import Verdict

QUICK = (
    "noise beyond a region",
    "mass too small",
    "ignored actions",
    "growing hidden error",
    "a corner of actions that seems to win",
    "score with a goal elsewhere",
    "planner with 4 short plans",
    "none: perfect",
)


@pytest.mark.parametrize("name", QUICK)
def test_the_right_cause_is_named_and_said_in_twelve_lines(name):
    fault = faults()[name]
    # What grows slowly loses few starts.
    episodes = 30 if name.startswith("growing") else 16
    found = named(
        fault, episodes=episodes, verdict=Verdict.MODEL_BOTTLENECK if fault.is_harmless else None
    )
    assert found.cause == fault.cause
    lines = diagnosis_lines(found)
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(
        f"  Why the gap is there: {fault.cause if fault.cause != 'NONE' else 'no cause named'} ("
    )
    assert Diagnosis.from_dict(json.loads(json.dumps(asdict(found), allow_nan=False))) == found
    drawn = 3 + (fault.trained_on is not None)
    assert len(plots(found.profile)) == drawn


def test_a_perfect_model_is_measured_as_perfect():
    measures = {one.name: one for one in named(faults()["none: perfect"]).measures}
    for name, value in (("regret", 0), ("ranking", 1), ("one step", 0), ("response", 1)):
        one = measures[name]
        assert (one.estimate, one.low, one.high) == pytest.approx([value] * 3)


def test_a_diagnosis_is_the_same_again_but_for_its_time():
    fault = faults()["mirrored actions"]
    once, again = (replace(named(fault), seconds=0.0) for _ in range(2))
    assert once == again


def test_a_model_that_breaks_where_it_is_asked_again_leaves_the_verdict():
    fault = faults()["mirrored actions"]
    design, result, oracle = judged(fault)

    def broken(observations, actions):
        return np.full_like(observations, np.nan)

    found = diagnose(design, oracle=oracle, learned=broken, result=result)
    assert found.cause == Cause.NONE
    assert found.summary.startswith("The diagnosis was broken off: learned arm: ")
    assert found.recommendation == ""


def test_models_whose_answers_cannot_be_compared_are_not_diagnosed():
    fault = faults()["mirrored actions"]
    design, result, oracle = judged(fault)
    perturbed = replace(design, perturbation=object())
    found = diagnose(perturbed, oracle=oracle, learned=fault.learned, result=result)
    assert found.cause == Cause.NONE
    assert "a perturbed gate is not diagnosed" in found.summary


def test_results_carry_their_diagnosis_and_old_ones_have_none():
    result = result_of(first(19, 20), first(3, 20))
    found = Diagnosis(
        cause=Cause.COVERAGE,
        summary="s",
        recommendation="r",
        measures=(Measure(name="regret", estimate=0.5, low=0.1, high=0.9, text="t"),),
        profile=Profile(ranking=(0.5, 0.25)),
        episodes=(3, 4),
        decisions=7,
        seconds=0.5,
    )
    again = GateResult.from_json(replace(result, diagnosis=found).to_json())
    assert again.diagnosis == found
    old = json.loads(result.to_json())
    del old["diagnosis"]
    assert GateResult.from_json(json.dumps(old)).diagnosis is None


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 2.0, np.inf]), st.sampled_from([0.0, 1.0, 3.0])),
        min_size=2,
        max_size=8,
    )
)
def test_tau_agrees_with_scipy(pairs):
    x, y = np.array(pairs).T
    expected = kendalltau(np.where(np.isinf(x), 9, x), y).statistic
    assert kendall_taus(x[None], y[None])[0] == pytest.approx(expected, nan_ok=True)


def test_two_episodes_bound_nothing():
    assert over_episodes(np.array([1.0, 2.0, np.nan])) is None


@pytest.mark.parametrize(("solved", "is_proven"), [(0, False), (1, False), (2, False), (3, True)])
def test_headroom_has_to_exceed_the_oracles_rate(solved, is_proven):
    assert has_headroom(Headroom(solved, 5), 0.11) is is_proven


def test_one_training_state_in_a_hundred_lies_outside_and_far_ones_do():
    trained = read_training_data(everywhere(), size=4)
    assert (trained.own_distances > 1).mean() == pytest.approx(1 - PERCENTILE / 100, abs=1e-3)
    new = trained.distances(everywhere(500, seed=5))
    assert (new > 1).mean() < 0.05
    assert (trained.distances(np.array([[20.0, 0, 0, 0]])) > 1).all()


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
def test_training_data_is_read_from_a_path(tmp_path, name):
    path, data = tmp_path / name, far_from_the_goal(200)
    np.save(path, data) if name.endswith("y") else np.savez(path, observations=data)
    read = read_training_data(path, size=4)
    assert read.threshold == read_training_data(data, size=4).threshold


@pytest.mark.parametrize(
    ("given_data", "said"),
    [
        (None, "return the observations it was trained on from a training_data fixture"),
        (np.zeros((200, 3)), "training_data has shape (200, 3): return observations [T, 4]"),
        (np.full((200, 4), np.nan), "training_data holds what is no finite number"),
        (np.zeros((20, 4)), "training_data has 20 rows, and 50 are needed"),
        ({"a": 1}, "training_data is a dict: return an array or a path"),
        ("nowhere.npy", "training_data nowhere.npy cannot be read: "),
    ],
)
def test_unusable_training_data_is_told_and_breaks_nothing(given_data, said):
    assert read_training_data(given_data, size=4).startswith(said)


def test_pickled_training_data_is_refused(tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "cannot be read" in read_training_data(path, size=4)
