"""What every planner must do: the conformance suite that users run, over all of ours."""

import numpy as np
import pytest

from pytest_cpg.conformance.rows import Drift
from pytest_cpg.conformance.test_planners import *  # noqa: F403 - tests of conformance_planner
from pytest_cpg.conformance.test_planners import SPACES
from pytest_cpg.contracts import ComponentError
from pytest_cpg.planners import PLANNERS, Chance, PolicyGuided

MAKERS = {
    **PLANNERS,
    "chance": Chance,
    "policy-guided": lambda: PolicyGuided(policy=lambda observations: -observations),
}
# Searches that one kind of action space has no answer for: they refuse it, and say what has one.
REFUSED = [("beam", "box"), ("gradient", "finite")]
PAIRS = [(name, space) for name in MAKERS for space in SPACES if (name, space) not in REFUSED]


@pytest.fixture(params=MAKERS)
def conformance_planner(request):
    return MAKERS[request.param]()


def plan_once(name, space, remaining=1000):
    """The plan of one episode, and what its stream gives next."""
    rng = np.random.default_rng(9)
    world = Drift(SPACES[space])
    plans = MAKERS[name]().plan(world, np.zeros((1, 2)), [rng], np.array([remaining]))
    return plans, rng.random()


@pytest.mark.parametrize(("name", "space"), REFUSED)
def test_a_planner_that_cannot_search_a_space_names_one_that_can(name, space):
    with pytest.raises(ComponentError, match=rf'planner "{name}" .* Write planner="'):
        plan_once(name, space)


@pytest.mark.parametrize(("name", "space"), PAIRS)
def test_the_stream_moves_by_the_same_amount_whatever_remains(name, space):
    assert len({plan_once(name, space, remaining)[1] for remaining in (1, 4, 1000)}) == 1


@pytest.mark.parametrize(("name", "space"), PAIRS)
def test_only_a_planner_that_is_warm_started_remembers(name, space):
    for remaining in (1, 1000):
        memory = plan_once(name, space, remaining)[0].memory
        assert (memory is not None) == getattr(MAKERS[name](), "is_warm_started", False)
        assert memory is None or np.isfinite(memory).all()
