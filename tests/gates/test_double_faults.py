"""The real fault is named beside a harmless one; tests/calibration has every pair."""

import double_faults as double
import pytest

from pytest_cpg.gates.diagnosis import Cause
from pytest_cpg.stats import Verdict

QUICK = (
    "maze: wide wormhole, beside a dead end that holds",
    "maze: walls missing, beside a little noise",
    "two-room: mirrored after 3 steps, beside a corner that holds",
    "two-room: blind in a region, beside another unit of score",
    "reacher: mirrored after 3 steps, beside nonsense in the angles",
    "puck: a corner that seems to win, beside narrow training data",
)


@pytest.mark.parametrize("title", QUICK)
def test_the_real_one_of_two_faults_is_named(title):
    if title.startswith("reacher"):
        pytest.importorskip("dm_control")
    (case,) = (case for case in double.CASES if case.title == title)
    assert double.cause_of(case).named in case.causes


@pytest.mark.parametrize("seed", [0, 2])
def test_moves_that_are_swapped_are_wrong_everywhere_though_half_of_them_come_as_near(seed):
    learned = double.model_of("two-room", "a corner that holds", "moves swapped")
    found = double.named("two-room", learned, seed=seed)
    assert found.cause == Cause.DYNAMICS_BIAS
    assert found.misreading.name == "ACTION ORDER"


@pytest.mark.parametrize("harmless", ["clutter", "another unit of score", "a corner that holds"])
def test_a_harmless_fault_is_not_accused(harmless):
    learned = double.model_of("two-room", harmless)
    found = double.named("two-room", learned, verdict=Verdict.MODEL_BOTTLENECK)
    assert found.cause == Cause.NONE
