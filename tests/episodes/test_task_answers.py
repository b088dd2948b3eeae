import numpy as np
import pytest
from track import Track

from pytest_cpg.contracts import ComponentError, TaskError
from pytest_cpg.contracts.task import check_facts
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.planners import RandomShooting
from pytest_cpg.world_models import OracleDynamics

METHODS = ("reset", "step", "score", "reward", "success")


def measured(task):
    design = Design(
        task=check_facts(task), planner=RandomShooting(horizon=3, candidates=8), episodes=5, seed=0
    )
    learned = measure_gap(design, Criteria(), oracle=OracleDynamics(task), learned=np.add).learned
    return learned.successes.tolist(), learned.returns.tolist()


def answering(given, methods=METHODS):
    """Return a Track whose methods answer in something else than arrays of float64."""
    plain, other = Track(), type("Other", (Track,), {})
    for name in methods:

        def answer(self, *arguments, name=name):
            return given(getattr(plain, name)(*map(np.asarray, arguments)))

        setattr(other, name, answer)
    return other()


def tensor(values):
    return pytest.importorskip("torch").as_tensor(values)


@pytest.mark.parametrize("given", [np.ndarray.tolist, tensor])
def test_answers_in_lists_and_tensors_are_those_in_arrays(given):
    assert measured(answering(given)) == measured(Track())


def test_starts_that_differ_by_rounding_between_batches_are_the_same():
    class Rounded(Track):
        def reset(self, seeds):
            return super().reset(seeds) * (1 + 1e-16 * len(seeds))

    task = Rounded()
    assert not np.array_equal(task.reset(np.arange(50))[:2], task.reset(np.arange(2)))
    assert sample_starts(task, 50, seed=0).states.shape == (50, task.reset(np.arange(2)).shape[1])


def test_a_reset_may_write_to_its_seeds():
    class Writing(Track):
        def reset(self, seeds):
            states = super().reset(seeds)
            seeds += 1
            return states

    found, wanted = (sample_starts(task, 5, seed=0) for task in (Writing(), Track()))
    np.testing.assert_array_equal(found.seeds, wanted.seeds)


@pytest.mark.parametrize("kind", [float, np.float32, np.array, tensor])
def test_facts_may_be_numbers_of_any_library(kind):
    assert measured(Track(budget=kind(30), control_period=kind(0.1))) == measured(Track())


@pytest.mark.parametrize("value", ["30", np.array([30]), 0.5, np.nan, None, 1j])
def test_a_budget_that_is_no_whole_number_is_refused(value):
    task = Track()
    task.budget = value
    with pytest.raises(ComponentError, match="task 'track': budget: need a whole number"):
        check_facts(task)


def test_a_long_answer_is_told_in_short():
    task = answering(lambda states: [[row.tolist()] for row in states], ["reset"])
    with pytest.raises(TaskError, match=r"track: reset returned .*Return one state") as caught:
        sample_starts(task, 200, seed=0)
    assert len(str(caught.value)) < 300
