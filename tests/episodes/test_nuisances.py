from inspect import getattr_static

import numpy as np
import pytest

from pytest_cpg import evaluate
from pytest_cpg.contracts import ComponentError, Task
from pytest_cpg.contracts.parts import has, members
from pytest_cpg.contracts.task import ObservationKeys, StateScore
from pytest_cpg.episodes.nuisances import Nuisance
from pytest_cpg.tasks.grids import two_room

TASK = two_room(budget=30)
SIZE = TASK.observation_size
ASKED = {"episodes": 10, "cache": None, "progress": False, "diagnose": "never"}


_UNDISTURBED = "the perturbation took effect in none of the oracle's 10 episodes"


def right(observations, actions):
    return observations[:, :SIZE] + actions


@pytest.mark.parametrize("kind", ["redundant", "fast"])
def test_a_nuisance_is_a_function_of_what_is_observed(kind):
    task, states = Nuisance(SIZE + 1, kind).observe(TASK), TASK.reset(np.arange(4))
    seen, bare = task.observe(states), TASK.observe(states)
    assert seen.shape == (4, task.observation_size) == (4, 2 * SIZE + 1)
    np.testing.assert_array_equal(seen[:, :SIZE], bare)
    steep = 2 if kind == "redundant" else 12 * (SIZE + 1)
    function = np.tanh if kind == "redundant" else np.sin
    np.testing.assert_allclose(seen[:, -1], function(steep * bare[:, 0]))
    np.testing.assert_array_equal(
        task.score(seen + (np.arange(2 * SIZE + 1) >= SIZE)), TASK.score(bare)
    )
    assert task.name == TASK.name
    assert not has(task, ObservationKeys)
    # As Python 3.12 checks a protocol.
    for name in members(Task):
        assert getattr_static(task, name) is not None
    assert has(task, StateScore) == has(TASK, StateScore)


def test_models_observe_it_and_the_oracle_plans_as_without():
    shapes = set()

    def cluttered(observations, actions):
        shapes.add(observations.shape[1])
        moved = right(observations, actions)
        return np.concatenate([moved, Nuisance(3, "fast").of(moved)], axis=1)

    bare = evaluate(TASK, right, **ASKED)
    found = evaluate(TASK, cluttered, perturbation="fast-nuisance-3", **ASKED)
    assert shapes == {SIZE + 3}
    assert found.learned.perturbed.all()
    # What is true has no columns more, and random actions need none.
    assert not (found.oracle.perturbed | found.chance.perturbed).any()
    assert _UNDISTURBED not in " ".join(found.notes)
    for arm in ("oracle", "learned", "chance"):
        assert getattr(found, arm).steps.tolist() == getattr(bare, arm).steps.tolist()
    several = evaluate(TASK, cluttered, perturbation="drop-next-2,fast-nuisance-3", **ASKED)
    dropped = evaluate(TASK, right, perturbation="drop-next-2", **ASKED)
    assert several.learned.steps.tolist() == dropped.learned.steps.tolist()
    assert several.learned.perturbed.tolist() == dropped.learned.perturbed.tolist()
    nothing = evaluate(TASK, cluttered, perturbation="drop-next-0,fast-nuisance-3", **ASKED)
    assert not any(arm.perturbed.any() for arm in nothing.arms)
    assert nothing.learned.recovery is None
    assert _UNDISTURBED in " ".join(nothing.notes)


def test_what_has_no_columns_is_refused():
    class Seen:
        name, picture_shape = "seen", (1, 8, 8, 3)
        pictures = print

    with pytest.raises(ComponentError, match="'fast-nuisance-3': models of 'seen' are given pic"):
        Nuisance(3, "fast").observe(Seen())
    with pytest.raises(ValueError, match="kind: need one of"):
        Nuisance(3, "slow")
