"""Whether what followed is found among a model's predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_counterfactual import Latent
from wrong_physics import TRUE, copied

import pytest_cpg
from pytest_cpg.contracts import WorldModelError
from pytest_cpg.gates.prediction.ranking import ranks
from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.causal.blocks import Blocks
from pytest_cpg.world_models import OracleDynamics, collect_transitions


def found(model, task=None, source=None, **asked):
    """Return what the gate says of a model on a task, or on recorded steps."""
    asked = {"limit": 0.2, "cache": None, "progress": False, "transitions": source} | asked
    return pytest_cpg.evaluate(task, model, kind="cpg_retrieval", **asked)


@given(st.integers(2, 8), st.integers(1, 3), st.randoms(use_true_random=False))
def test_ranks_are_those_of_all_distances(count, size, random):
    rows = np.array([[random.randrange(3) for _ in range(size)] for _ in range(2 * count)], float)
    queries, gallery, same = rows[:count], rows[count:], np.arange(count)
    nearer, ties = ranks(queries, gallery, same)
    for row in range(count):
        away = [float(((queries[row] - other) ** 2).sum()) for other in gallery]
        assert nearer[row] == sum(one < away[row] for one in away)
        assert ties[row] == away.count(away[row]) - 1
    assert np.array_equal(ranks(queries + 1e6, gallery + 1e6, same)[0], nearer)


@pytest.mark.parametrize("horizon", [1, 10])
def test_the_truth_is_found_and_a_copy_is_worth_what_stands_beside(horizon):
    right = found(OracleDynamics(Blocks()), Blocks(), horizon=horizon)
    assert right.found.estimate == 0
    assert right.facts["MRR"] == "1.000"
    copy = found(copied, Blocks(), horizon=horizon)
    assert copy.found.estimate == copy.beside["copy"] > 0.05


def test_an_offset_in_float32_and_recorded_steps_change_nothing():
    far = lambda o, a: (TRUE(o, a) + 1e-9).astype(np.float32)  # noqa: E731
    assert found(far, Blocks()).found.estimate == 0
    steps = collect_transitions(TASKS["maze"](), count=1000, seed=0)
    right = lambda o, a: TASKS["maze"]().step(o, a)  # noqa: E731
    assert found(right, source=steps, horizon=3).found.estimate == 0
    assert found(lambda o, a: o - a, source=steps, horizon=3).found.estimate > 0.3


def test_a_gallery_of_one_is_an_error_by_name():
    with pytest.raises(WorldModelError, match="the predictions of all 500 states are the same"):
        found(lambda o, a: 0 * o, Blocks())
    collapsed = Latent(Blocks(), [0])
    collapsed.encode = lambda observations: 0 * observations[:, :1]
    with pytest.raises(WorldModelError, match="the true ends of all 500 states are the same"):
        found(collapsed, Blocks())


def test_ties_are_shared_and_hits_as_published():
    halves = lambda o, a: np.where(o[:, :1] > 2, 0 * o, 0 * o + 1)  # noqa: E731
    reading = found(halves, Blocks())
    assert reading.found.estimate > 0.97
    assert float(reading.facts["published"].split()[1].rstrip(",")) > 0.3


def test_what_knows_no_actions_passes_no_limit():
    """Its own predictions for another plan are as good."""
    task = TASKS["maze"]()
    deaf = found(lambda o, a: task.step(o, 0 * a), task, horizon=5, limit=0.97)
    assert deaf.found.estimate == deaf.beside["swapped"]
    assert deaf.ruling.severity.name == "BLIND"


def test_what_is_wrong_at_once_is_told_no_shorter_horizon():
    for horizon, advice in ((1, "wrong after one step"), (5, "Compare with horizon=1")):
        gate = found(lambda o, a: TRUE(o, -a), Blocks(), horizon=horizon, limit=0.05)
        assert advice in str(gate)
