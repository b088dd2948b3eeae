"""Functions of JAX: `make clients` installs it."""

import numpy as np
import pytest
from sliders import Slider

jax = pytest.importorskip("jax")

from pytest_cpg.world_models import bind

TASK = Slider()
PROBE = {
    "probe_states": TASK.reset(np.arange(8)),
    "probe_actions": np.resize(TASK.actions.values, (8, 1)),
}
PLANS = np.random.default_rng(0).uniform(-1, 1, size=(8, 4, 1))


@jax.jit
def moved(observations, actions):
    return observations + 0.1 * jax.numpy.sin(observations + actions)


def through_numpy(observations, plans):
    reached = []
    for step in range(plans.shape[1]):
        observations = np.asarray(moved(observations, plans[:, step]), dtype=np.float64)
        reached.append(observations)
    return np.stack(reached, axis=1)


def imagined(dynamics):
    return bind(dynamics, TASK, **PROBE).rollout(PROBE["probe_states"], PLANS)


def test_what_a_step_gives_is_handed_to_the_next_as_it_is_and_changes_no_bit():
    given = []

    def noted(observations, actions):
        given.append(type(observations))
        return moved(observations, actions)

    assert np.array_equal(imagined(noted), through_numpy(PROBE["probe_states"], PLANS))
    own = [issubclass(kind, jax.Array) for kind in given[-4:]]
    assert own == [False, True, True, True]


def test_a_function_that_takes_arrays_of_numpy_alone_gets_them():
    def writing(observations, actions):
        observations += 0.0
        assert isinstance(observations, np.ndarray)
        return moved(observations, actions)

    def to_numpy(observations, actions):
        return np.asarray(moved(observations, actions))

    expected = through_numpy(PROBE["probe_states"], PLANS)
    assert np.array_equal(imagined(writing), expected)
    assert np.array_equal(imagined(jax.jit(moved, donate_argnums=0)), expected)
    assert np.array_equal(imagined(to_numpy), expected)
