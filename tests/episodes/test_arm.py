import json

import numpy as np
import pytest

from pytest_cpg import Arm
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.episodes.arm import Latency


def arm(successes, steps, **changes):
    values = {
        "name": "learned",
        "successes": successes,
        "steps": steps,
        "indices": np.arange(len(successes)),
        "returns": np.zeros(len(successes)),
        "level": 0.95,
        "decisions": 9,
        "rollout_steps": 750.0,
        "latency_ms": Latency(1.0, 2.0),
        "cpu_ms": Latency(1.5, 2.5),
        "seconds": 3.0,
    }
    return Arm(**{**values, **changes})


def test_an_arm_counts_its_episodes():
    some = arm([True, False, True, False], [10, 500, 30, 500])
    assert (some.episodes, some.success_count, some.success_rate) == (4, 2, 0.5)
    assert some.mean_steps_to_success == 20
    assert some.interval.estimate == 0.5
    assert some.interval.low < 0.5 < some.interval.high


def test_without_success_there_is_no_mean_of_steps():
    assert arm([False], [500]).mean_steps_to_success is None


def test_outcomes_are_copies_that_cannot_be_written_to():
    steps = np.array([10, 20])
    some = arm([True, True], steps)
    steps[0] = 99
    assert some.steps.tolist() == [10, 20]
    with pytest.raises(ValueError, match="read-only"):
        some.successes[0] = False


def test_outcomes_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"one of steps for each of 2 episodes, got shape \(1,\)"):
        arm([True, False], [3])


@pytest.mark.parametrize("name", ["returns", "confidences"])
def test_numbers_that_are_not_finite_are_refused(name):
    with pytest.raises(ValueError, match=f"need finite {name}, got nan"):
        arm([True, False], [3, 4], **{name: [0.0, np.nan]})


def test_an_arm_survives_json():
    some = arm([True, False], [10, 500], indices=[3, 5], returns=[490.5, 0.25], confidences=[1, 0])
    again = decode(Arm, json.loads(json.dumps(encode(some))))
    assert encode(again) == encode(some)
    assert again.latency_ms == some.latency_ms


def test_latency_of_no_decision_is_zero():
    assert Latency.of(np.array([])) == Latency(0.0, 0.0)
    assert Latency.of(np.array([1.0, 3.0])).median == 2.0


def test_success_within_steps_counts_what_had_succeeded_by_then():
    some = arm([True, False, True, True], [10, 500, 30, 31])
    assert [some.success_within(n).estimate for n in (9, 10, 30, 500)] == [0, 0.25, 0.5, 0.75]
    assert some.success_within(500) == some.interval
