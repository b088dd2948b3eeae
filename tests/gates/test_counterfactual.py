"""Whether a model knows which action does what: gates on predictions, by what they tell apart."""

from types import SimpleNamespace

import numpy as np
import pytest
from wrong_physics import TRUE, WRONG

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.contracts.arrays import rolled_out
from pytest_cpg.gates.prediction.counterfactual import confused, copied, questions
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.causal.blocks import Blocks
from pytest_cpg.world_models import OracleDynamics, bind

USUAL = {"seed": 0, "horizon": 1, "alternatives": 8, "stratum": "all"}


def share(task, model, **more):
    """Return the share of actions that a model confuses."""
    asked = questions(SimpleNamespace(values={**USUAL, **more}), task)
    probes = {"probe_states": asked[0][:4], "probe_actions": asked[1][:4, 0, 0]}
    return confused(bind(model, task, **probes, rates=False), *asked).mean()


def test_pushes_and_blocked_pushes_tell_wrong_physics_that_all_steps_pass():
    task = Blocks()
    strata = ("push", "blocked")
    assert [share(task, TRUE, stratum=stratum) for stratum in ("all", *strata)] == [0, 0, 0]
    assert share(task, TRUE, stratum="contact") == 0
    for name, model in WRONG.items():
        assert share(task, model) < 0.1, name
        assert max(share(task, model, stratum=stratum) for stratum in strata) > 0.5, name
        assert share(task, model, stratum="contact") > 0.15, name
    assert share(task, copied, stratum="contact") > 0.2


@pytest.mark.parametrize("name", ["maze", "blocks:3", "chemistry:collider5"])
def test_the_truth_confuses_nothing_and_who_knows_nothing_almost_all(name):
    task = named_task(name, TASKS)()
    constant = lambda observations, actions: 0 * observations + 1  # noqa: E731
    assert share(task, OracleDynamics(task)) == 0
    assert share(task, copied) > 0.4
    assert share(task, constant) >= 0.5


@pytest.mark.trains
def test_more_data_tells_actions_apart_and_shuffled_ones_do_not():
    torch = pytest.importorskip("torch")
    pytest.importorskip("dm_control")
    from pytest_cpg.world_models import collect_transitions, train_mlp

    task, shares = TASKS["reacher-easy"](), []
    for count in (200, 5000):
        network = train_mlp(collect_transitions(task, count=count, seed=0), seed=0)

        def model(observations, actions, network=network):
            both = (torch.tensor(part, dtype=torch.float32) for part in (observations, actions))
            with torch.no_grad():
                return network(*both).double().numpy()

        shares.append(share(task, model))
    assert shares[0] > 0.5
    assert shares[1] < 0.15
    mirrored = share(task, lambda o, a: model(o, -a))
    assert min(mirrored, share(task, copied)) > 0.8


class Latent:
    """Encodes some of the numbers of an observation, and decodes what it has to something."""

    def __init__(self, task, columns, decode=None):
        self.task, self.columns = task, columns
        if decode is not None:
            self.decode = decode

    def encode(self, observations):
        return observations[..., self.columns]

    def rollout(self, latents, plans):
        return np.repeat(latents[:, None], plans.shape[1], axis=1)

    def score(self, latents):
        return latents.sum(axis=-1)


def test_neither_task_nor_model_needs_a_score():
    class Unscored(Blocks):
        """As of the suite: its score needs more than is observed."""

        def score(self, observations):
            raise WorldModelError("no score of observations")

        def score_states(self, states):
            return states[..., 0]

    class Unrated(Latent):
        score = None

        def rollout(self, latents, plans):
            return rolled_out(TRUE, latents, plans)

    assert share(Unscored(), TRUE) == 0
    every = list(range(15))
    assert share(Unscored(), Unrated(Blocks(), every)) == 0
    assert share(Unscored(), Unrated(Blocks(), every, lambda latents: latents)) == 0


def test_what_an_encoder_forgets_or_a_decoder_invents_is_confused():
    task = Blocks()
    assert share(task, Latent(task, [6])) > 0.8
    assert share(task, Latent(task, list(range(15)), lambda latents: 0 * latents)) > 0.5


def test_the_last_digit_of_what_no_action_changes_counts_for_nothing():
    task = Blocks()
    assert share(task, lambda o, a: TRUE(o, a) + 1e-3 * (np.arange(15) >= 6)) == 0
    assert share(task, lambda o, a: TRUE(o, a).astype(np.float32)) == 0


def test_a_prediction_that_is_no_number_is_no_share():
    task = Blocks()
    for number in (np.nan, np.inf):
        assert np.isnan(share(task, lambda o, a, number=number: np.full_like(o, number)))


def test_a_stratum_that_there_is_not_and_actions_that_change_nothing_are_errors():
    with pytest.raises(ComponentError, match=r"has no stratum 'pusch'. Did you mean 'push'"):
        share(Blocks(), TRUE, stratum="pusch")
    with pytest.raises(ComponentError, match=r"task 'maze' has no stratum 'push'. Known: all."):
        share(TASKS["maze"](), copied, stratum="push")

    class Still(Blocks):
        def step(self, states, actions):
            return states.copy()

    with pytest.raises(WorldModelError, match="actions lead apart in 0 of 300 states"):
        share(Still(), copied)
