import numpy as np
import pytest

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import Ensemble, bind

TASK = TASKS["two-room"]()
STATES = TASK.reset(np.arange(40))
PLANS = TASK.actions.sample([np.random.default_rng(row) for row in range(40)], (5,))


def pushing(strength):
    return lambda observations, actions: observations + strength * actions


def bound(ensemble):
    return bind(ensemble, TASK, probe_states=STATES[:8], probe_actions=PLANS[:8, 0])


def imagined(model, strength):
    return model.encode(STATES)[:, None] + strength * np.cumsum(PLANS, axis=1)


def test_a_mean_ensemble_goes_on_from_the_mean_of_its_members():
    model = bound(Ensemble([pushing(1.0), pushing(3.0)]))
    assert model.swapped == ("dynamics",)
    assert model.noise_size == 0
    np.testing.assert_allclose(model.rollout(model.encode(STATES), PLANS), imagined(model, 2.0))


def test_a_sampled_ensemble_imagines_each_plan_with_one_member_all_equally_often():
    model = bound(Ensemble([pushing(s) for s in (1.0, 2.0, 4.0)], combine="sampled"))
    noise = np.random.default_rng(0).standard_normal((40, 5, 1))
    after = model.rollout(model.encode(STATES), PLANS, noise)
    used = [
        [np.allclose(after[row], imagined(model, strength)[row]) for strength in (1.0, 2.0, 4.0)]
        for row in range(40)
    ]
    assert (np.sum(used, axis=1) == 1).all()
    assert (np.sum(used, axis=0) >= 6).all()
    alone = model.rollout(model.encode(STATES[7:8]), PLANS[7:8], noise[7:8])
    np.testing.assert_array_equal(alone, after[7:8])


def test_members_may_take_one_row_at_a_time():
    def for_one(observation, action):
        x, y = observation
        return [x + action[0], y + action[1]]

    for combine in ("mean", "sampled"):
        model = bound(Ensemble([for_one, pushing(1.0)], combine=combine))
        assert model.seconds_per_row > 0
        after = model.rollout(model.encode(STATES), PLANS)
        np.testing.assert_allclose(after, imagined(model, 1.0))


def test_functions_on_arrays_and_torch_modules_may_be_mixed():
    torch = pytest.importorskip("torch")

    class Pushing(torch.nn.Module):
        def forward(self, observations, actions):
            return observations + 3 * actions

    model = bound(Ensemble([pushing(1.0), Pushing()]))
    np.testing.assert_allclose(model.rollout(model.encode(STATES), PLANS), imagined(model, 2.0))


def test_a_member_that_is_not_usable_is_named():
    with pytest.raises(WorldModelError, match=r"member 1 of the Ensemble: .* takes 1 input"):
        bound(Ensemble([pushing(1.0), lambda observations: observations]))
    with pytest.raises(WorldModelError, match=r"member 0 of the Ensemble .* cannot be called"):
        bound(Ensemble([3]))


def test_an_ensemble_of_nothing_or_combined_otherwise_is_refused():
    with pytest.raises(ValueError, match="at least one member"):
        Ensemble([])
    with pytest.raises(
        ValueError, match=r"needs a list of dynamics, got .*Write Ensemble\(\[\.\.\.\]"
    ):
        Ensemble(pushing(1.0))
    with pytest.raises(ValueError, match=r"combine must be one of .*'sampled'.*, got 'median'"):
        Ensemble([pushing(1.0)], combine="median")
