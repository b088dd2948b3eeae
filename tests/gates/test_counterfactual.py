"""Whether a model knows which action does what: gates on predictions, by what they tell apart."""

from types import SimpleNamespace

import numpy as np
import pytest
from wrong_physics import TRUE, WRONG, copied

import pytest_cpg
from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.contracts.arrays import rolled_out
from pytest_cpg.gates.prediction.counterfactual import counterfactual
from pytest_cpg.gates.prediction.logs import read_logs
from pytest_cpg.gates.rows import Questions
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.causal.blocks import Blocks
from pytest_cpg.world_models import (
    Ensemble,
    OracleDynamics,
    SampledEnsemble,
    Transitions,
    collect_transitions,
)


def judged(task, model, **asked):
    """Return what the gate says of a model, on a task or on recorded steps."""
    asked = {"limit": 0.2, "cache": None, "progress": False} | asked
    return pytest_cpg.evaluate(task, model, kind="cpg_counterfactual", **asked)


def share(task, model, **asked):
    """Return the share of actions that a model confuses."""
    return judged(task, model, **asked).found.estimate


def test_pushes_and_blocked_pushes_tell_wrong_physics_that_all_steps_pass():
    task = Blocks()
    strata = ("push", "blocked")
    assert [share(task, TRUE, stratum=stratum) for stratum in ("all", *strata)] == [0, 0, 0]
    assert share(task, TRUE, stratum="contact") == 0
    for name, model in WRONG.items():
        assert share(task, model) < 0.1, name
        assert max(share(task, model, stratum=stratum) for stratum in strata) > 0.5, name
        assert share(task, model, stratum="contact") > 0.15, name
    for stratum in strata:
        gate = judged(task, copied, stratum=stratum)
        assert gate.label == "ABOVE LIMIT"
        assert "% of random steps are" in gate.facts["stratum"]


def test_a_gate_on_one_number_names_its_task_and_has_a_trend_within_its_design():
    gate, other = (judged("maze", copied, horizon=horizon) for horizon in (1, 2))
    (trend,) = gate.card.trends
    assert (trend.name, trend.text) == ("Share confused", gate.card.cells["share confused"])
    assert gate.card.subject == "maze"
    assert gate.card.design != other.card.design
    assert judged("maze", copied).card.design == gate.card.design
    logged = judged(None, copied, transitions=STEPS)
    assert logged.card.subject == ""


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
    from pytest_cpg.world_models import train_mlp

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


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_single_prediction_that_is_no_number_is_an_error_that_shows_it(number):
    def model(observations, actions):
        is_lost = (observations[:, 0] == 2) & (actions[:, 1] == 3)
        return np.where(is_lost[:, None], number, TRUE(observations, actions))

    for kind in ("cpg_counterfactual", "cpg_retrieval", "cpg_response"):
        with pytest.raises(WorldModelError, match=rf"predicts {number} after .*3.0\]\] from \[2"):
            pytest_cpg.evaluate(Blocks(), model, kind=kind, limit=0.2, cache=None)


def test_members_that_are_the_same_are_no_ensemble():
    def predict(observations, actions):
        means = np.stack([model(observations, actions) for model in (TRUE, WRONG["ghost"], TRUE)])
        return means, 0 * means

    for model in (
        Ensemble([TRUE, WRONG["ghost"], TRUE]),
        SampledEnsemble(predict, members=3, observation_size=15),
    ):
        with pytest.raises(WorldModelError, match=r"members 0 and 2 of \w+\(3 .* predict the same"):
            judged(Blocks(), model)


def test_each_member_that_may_be_drawn_is_asked():
    model = Ensemble([WRONG["ghost"], TRUE, lambda o, a: o - a.sum()], combine="sampled")
    assert 0.2 < share(Blocks(), model) < 0.4


STEPS = collect_transitions(TASKS["maze"](), count=1500, seed=3)


def logged_share(model, source=STEPS, **asked):
    """Return the share of recorded steps of which a model takes another action for the one."""
    return share(None, model, transitions=source, **asked)


@pytest.mark.parametrize("horizon", [1, 5])
def test_recorded_steps_tell_the_truth_from_what_knows_no_actions(horizon):
    task = TASKS["maze"]()
    right = lambda o, a: task.observe(task.step(o, a))  # noqa: E731
    assert logged_share(right, horizon=horizon) == 0
    for wrong in (copied, lambda o, a: 0 * o + 1, lambda o, a: right(o, -a)):
        assert logged_share(wrong, horizon=horizon) > 0.3
    collapsed = Latent(task, [])
    collapsed.encode = lambda observations: 0 * observations
    collapsed.score = lambda latents: latents[..., 0]
    assert logged_share(collapsed, horizon=horizon) > 0.7
    with pytest.raises(WorldModelError, match="the model predicts nan"):
        logged_share(lambda o, a: o * np.nan, horizon=horizon)


def test_every_layout_of_recorded_steps_is_the_same():
    arrays = {
        name: getattr(STEPS, name) for name in ("observations", "actions", "next_observations")
    }
    ends = np.r_[(arrays["next_observations"][:-1] != arrays["observations"][1:]).any(axis=1), True]
    noisy = lambda o, a: o + a + 0.4 * np.sin(9 * o + 5 * a)  # noqa: E731
    expected = logged_share(noisy)
    assert (
        logged_share(noisy, arrays) == logged_share(noisy, {**arrays, "timeouts": ends}) == expected
    )
    del arrays["next_observations"]
    logs = read_logs({**arrays, "timeouts": ends})
    assert len(logs.transitions) == len(STEPS) - ends.sum()
    assert len(logs.stretches(5)) < len(logs.stretches(1)) == len(logs.transitions)


def test_steps_of_one_episode_are_one_piece_of_evidence():
    one = Transitions(
        observations=[[t, 0] for t in range(200)],
        actions=[[t % 7] for t in range(200)],
        next_observations=[[t + 1, 0] for t in range(200)],
    )
    assert set(np.bincount(read_logs(one).episodes)) == {4}
    kind = counterfactual()
    asked = Questions(None, None, (), clusters=np.repeat(np.arange(20), 25))
    errors = np.repeat(np.arange(20) % 2, 25).astype(float)
    spec = SimpleNamespace(values={"seed": 0})
    wide = kind.mean(errors, asked, spec).interval(0.95)
    narrow = kind.mean(errors, asked._replace(clusters=None), spec).interval(0.95)
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)
    assert kind.mean(0 * errors, asked, spec).interval(0.95).high > 0.1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"observations": np.zeros((200, 2))}, "there is no 'actions' among observations"),
        (dict.fromkeys(("observations", "actions"), np.zeros((200, 2))), "nobody can tell where"),
        (
            dict.fromkeys(("observations", "actions", "next_observations"), np.zeros((99, 2))),
            "has 99",
        ),
        (
            dict.fromkeys(("observations", "actions", "next_observations"), np.zeros((200, 2))),
            "all actions of logs are",
        ),
        (
            dict.fromkeys(
                ("observations", "actions", "next_observations"), np.full((200, 2), np.nan)
            ),
            r"observations must be finite, row 0 is \[nan nan\]",
        ),
        (7, "need a file .npz with observations, .* got 7"),
        ("nowhere.npz", "there is no file 'nowhere.npz'"),
    ],
)
def test_what_is_no_record_of_steps_is_an_error_that_says_what_to_give(source, message):
    with pytest.raises(ValueError, match=message):
        read_logs(source)


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
