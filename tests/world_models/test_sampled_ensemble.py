"""Ensembles with variances: which member imagines a plan, and what is drawn from it."""

import numpy as np
import pytest
from scipy import stats
from sliders import Slider

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models import SampledEnsemble, bind

TASK = Slider()
PROBE = {
    "probe_states": TASK.reset(np.arange(8)),
    "probe_actions": np.resize(TASK.actions.values, (8, 1)),
}
MEMBERS, ROWS = 4, 4000


def predict(observations, actions):
    """Member e moves by the action and 10 e, with the standard deviation e."""
    moved = observations + actions
    if isinstance(moved, np.ndarray):
        means = np.stack([moved + 10 * member for member in range(MEMBERS)])
        return means, np.stack([np.full(moved.shape, member**2.0) for member in range(MEMBERS)])
    means = moved + 10 * moved.new_tensor(range(MEMBERS))[:, None, None]
    return means, (means * 0) + moved.new_tensor(range(MEMBERS))[:, None, None] ** 2


def imagined(propagation, predict=predict):
    model = SampledEnsemble(predict, members=MEMBERS, observation_size=1, propagation=propagation)
    bound = bind(model, TASK, **PROBE)
    noise = np.random.default_rng(0).standard_normal((ROWS, 2, model.noise_size))
    return bound.rollout(np.zeros((ROWS, 1)), np.zeros((ROWS, 2, 1)), noise)[..., 0], noise


@pytest.mark.parametrize("propagation", ["TS1", "TSinf"])
def test_each_member_imagines_as_many_plans_and_draws_from_its_own_gaussian(propagation):
    reached, noise = imagined(propagation)
    first = np.floor(stats.norm.cdf(noise[:, 0, 0]) * MEMBERS).astype(int)
    assert stats.chisquare(np.bincount(first)).pvalue > 1e-3
    assert reached[:, 0] == pytest.approx(10 * first + first * noise[:, 0, 1])
    second = np.floor(stats.norm.cdf(noise[:, 1, 0]) * MEMBERS).astype(int)
    second = first if propagation == "TSinf" else second
    after = reached[:, 1] - reached[:, 0]
    assert after == pytest.approx(10 * second + second * noise[:, 1, 1], abs=1e-9)


def test_tensors_are_imagined_as_arrays_are():
    torch = pytest.importorskip("torch")

    def of_tensors(observations, actions):
        assert isinstance(observations, torch.Tensor)
        return predict(observations, actions)

    for propagation in ("TS1", "TSinf"):
        found, _ = imagined(propagation, of_tensors)
        assert found == pytest.approx(imagined(propagation)[0], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"propagation": "TS2"}, "propagation must be one of"),
        ({"members": 0}, "members must be a whole number"),
        ({"observation_size": 1.0}, "observation_size must be a whole number"),
        ({"predict": 3}, "predict must map"),
    ],
)
def test_settings_that_are_none_are_refused(options, said):
    given = {"predict": predict, "members": MEMBERS, "observation_size": 1, **options}
    with pytest.raises(ValueError, match=said):
        SampledEnsemble(given.pop("predict"), **given)


@pytest.mark.parametrize("wrong", [lambda o, a: o, lambda o, a: (o, o)])
def test_other_answers_say_what_to_return(wrong):
    with pytest.raises(WorldModelError, match=r"return means and variances, \(4, 8, 1\) each"):
        bind(SampledEnsemble(wrong, members=MEMBERS, observation_size=1), TASK, **PROBE)
