from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_cpg.contracts import BoxActions, WorldModelError
from pytest_cpg.world_models import OracleDynamics, bind, inference
from pytest_cpg.world_models.binding.binding import TILE

DT = 0.1


class Cart:
    """A cart pushed towards the origin: state (position, velocity, clock), the clock unseen."""

    name = "cart"
    actions = BoxActions(low=np.array([-1.0]), high=np.array([1.0]))
    observation_size = 2
    budget = 50
    control_period = DT
    versions = {}  # noqa: RUF012

    def reset(self, seeds):
        positions = np.random.default_rng(list(seeds)).uniform(-2, 2, size=(len(seeds), 1))
        return np.concatenate([positions, np.zeros((len(seeds), 2))], axis=1)

    def step(self, states, actions):
        position, velocity, clock = np.moveaxis(states, -1, 0)
        push = actions[..., 0]
        return np.stack([position + DT * velocity, velocity + DT * push, clock + DT], axis=-1)

    def rollout(self, states, actions):
        after = np.empty((*actions.shape[:2], states.shape[1]))
        for t in range(actions.shape[1]):
            after[:, t] = states = self.step(states, actions[:, t])
        return after

    def observe(self, states):
        return states[..., :2]

    def score(self, observations):
        return np.abs(observations[..., 0])

    def reward(self, states, actions):
        return (self.score(self.observe(states)) < 0.1).astype(float)

    def success(self, states, actions):
        return self.reward(states, actions) == 1


TASK = Cart()
RNG = np.random.default_rng(0)
STATES = np.concatenate([RNG.normal(size=(2500, 2)), np.zeros((2500, 1))], axis=1)
PLANS = RNG.uniform(-1, 1, size=(2500, 5, 1))
MATRIX = np.array([[1, 0], [DT, 1], [0, DT]], dtype=np.float32)


def bound(learned, task=TASK):
    return bind(learned, task, probe_states=STATES[:8], probe_actions=PLANS[:8, 0])


def linear(observations, actions):
    return np.concatenate([observations, actions], axis=1) @ MATRIX.astype(float)


def as_rollout(dynamics):
    def rollout(observations, plans):
        steps = []
        for t in range(plans.shape[1]):
            observations = dynamics(observations, plans[:, t])
            steps.append(observations)
        return np.stack(steps, axis=1)

    return rollout


def test_oracle_works_on_full_states_and_swaps_nothing():
    model = bound(OracleDynamics(TASK))
    assert model.swapped == ()
    assert model.seconds_per_row is None
    assert model.actions is TASK.actions
    latents = model.encode(STATES)
    np.testing.assert_array_equal(latents, STATES)
    imagined = model.rollout(latents, PLANS)
    np.testing.assert_array_equal(imagined, TASK.rollout(STATES, PLANS))
    np.testing.assert_array_equal(model.score(imagined), np.abs(imagined[..., 0]))
    np.testing.assert_array_equal(
        OracleDynamics(TASK)(STATES, PLANS[:, 0]), TASK.step(STATES, PLANS[:, 0])
    )
    # A candidate that diverged is only never chosen.
    scores = model.score(np.array([[[np.nan] * 3, [1.0, 0.0, 0.0]]]))
    np.testing.assert_array_equal(scores, [[np.inf, 1.0]])


def test_callable_is_planned_with_in_observation_space():
    model = bound(linear)
    assert model.swapped == ("dynamics",)
    latents = model.encode(STATES)
    np.testing.assert_array_equal(latents, TASK.observe(STATES))
    imagined = model.rollout(latents, PLANS)
    np.testing.assert_allclose(imagined, TASK.rollout(STATES, PLANS)[..., :2], atol=1e-6)
    scores = model.score(imagined)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, TASK.score(imagined))


def own_rollout(**more):
    return SimpleNamespace(rollout=as_rollout(linear), **more)


def test_world_model_with_own_score_swaps_the_score_and_one_without_is_rated_by_the_task():
    assert bound(own_rollout()).swapped == ("dynamics",)
    model = bound(own_rollout(score=lambda latents: 2 * np.abs(latents[..., 0])))
    assert model.swapped == ("dynamics", "score")
    imagined = model.rollout(model.encode(STATES), PLANS)
    np.testing.assert_array_equal(model.score(imagined), 2 * TASK.score(imagined))


def test_world_model_with_decoder_is_rated_by_the_task_on_what_it_decodes():
    latent_size = 3

    def encode(observations):
        return np.pad(observations, ((0, 0), (0, latent_size - 2)), constant_values=7)

    def rollout(latents, plans):
        steps = as_rollout(linear)(latents[:, :2], plans)
        return np.pad(steps, ((0, 0), (0, 0), (0, latent_size - 2)), constant_values=7)

    def decode(latents):
        return latents[..., :2]

    model = bound(SimpleNamespace(encode=encode, rollout=rollout, decode=decode))
    assert model.swapped == ("dynamics", "decoder")
    latents = model.encode(STATES)
    assert latents.shape == (2500, latent_size)
    imagined = model.rollout(latents, PLANS)
    assert imagined.shape == (2500, 5, latent_size)
    np.testing.assert_array_equal(model.score(imagined), TASK.score(imagined[..., :2]))
    with pytest.raises(WorldModelError, match=r"observations of size 2; they have size 3"):
        bound(SimpleNamespace(encode=encode, rollout=rollout))


class Network:
    """A float32 numpy network with a hidden layer, whose products round by the batch size."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.first = rng.normal(size=(3, 64)).astype(np.float32)
        self.second = rng.normal(size=(64, 2)).astype(np.float32) / 64

    def __call__(self, observations, actions):
        inputs = np.concatenate([observations, actions], axis=-1).astype(np.float32)
        return observations + np.maximum(inputs @ self.first, 0) @ self.second


class ScoredNetwork(Network):
    def encode(self, observations):
        return np.tanh(observations.astype(np.float32) @ self.first[:2])[:, :2]

    def rollout(self, latents, plans):
        return as_rollout(self)(latents, plans)

    def score(self, latents):
        return np.tanh(latents.astype(np.float32) @ self.first[:2]) @ self.second[:, 0]


def torch_network():
    torch = pytest.importorskip("torch")

    class Dynamics(torch.nn.Module):
        def __init__(self):
            super().__init__()
            # Not from torch's own stream, which nobody may seed.
            rng = np.random.default_rng(2)
            self.first = torch.nn.Parameter(torch.tensor(rng.normal(size=(3, 96))).float())
            self.second = torch.nn.Parameter(torch.tensor(rng.normal(size=(96, 2))).float() / 96)

        def forward(self, observations, actions):
            inputs = torch.cat([observations, actions], dim=1)
            return observations + torch.relu(inputs @ self.first) @ self.second

    return Dynamics()


@pytest.mark.parametrize("make", [Network, ScoredNetwork, torch_network])
def test_result_of_a_row_is_the_same_bits_in_any_batch_order_and_position(make):
    model = bound(make())

    def results(rows):
        latents = model.encode(STATES[rows])
        imagined = model.rollout(latents, PLANS[rows])
        return latents, imagined, model.score(imagined)

    whole = results(np.arange(2500))
    orders = [np.arange(2500)[::-1], np.random.default_rng(5).permutation(2500)]
    batches = [np.arange(first, first + size) for size in (1, 7, 50) for first in (0, 511, 2400)]
    for rows in (*orders, *batches):
        for result, expected in zip(results(rows), whole, strict=True):
            np.testing.assert_array_equal(result, expected[rows])


def test_memory_order_of_arguments_does_not_change_results():
    model = bound(Network())
    latents = model.encode(STATES[:700])
    expected = model.rollout(latents, PLANS[:700])
    swapped = np.asfortranarray(latents), np.asfortranarray(PLANS[:700])
    np.testing.assert_array_equal(model.rollout(*swapped), expected)


def test_learned_models_are_called_with_full_tiles_only():
    sizes = []

    def dynamics(observations, actions):
        sizes.append(len(observations))
        return linear(observations, actions)

    model = bound(dynamics)
    sizes.clear()
    assert model.rollout(model.encode(STATES[:513]), PLANS[:513]).shape == (513, 5, 2)
    assert sizes == [TILE] * 10


def test_results_do_not_alias_what_the_model_keeps():
    kept = np.zeros((TILE, 5, 2))

    def rollout(latents, plans):
        return kept[: len(latents), : plans.shape[1]]

    model = bound(SimpleNamespace(rollout=rollout))
    imagined = model.rollout(model.encode(STATES[:TILE]), PLANS[:TILE])
    imagined[:] = 1
    assert (kept == 0).all()


@pytest.mark.parametrize("horizon", [1, 5])
def test_model_that_writes_to_its_inputs_does_no_harm(horizon):
    def dynamics(observations, actions):
        observations += actions
        actions[:] = 0
        return observations

    model = bound(dynamics)
    latents, plans = model.encode(STATES), PLANS[:, :horizon].copy()
    imagined = model.rollout(latents, plans)
    np.testing.assert_array_equal(latents, TASK.observe(STATES))
    np.testing.assert_array_equal(plans, PLANS[:, :horizon])
    np.testing.assert_allclose(imagined[:, -1], latents + PLANS[:, :horizon].sum(axis=1))


class Stepping:
    """Half of a world model."""

    def encode(self, observations):
        return observations

    def step(self, latents, actions):
        return latents


def test_predictions_that_are_not_finite_are_left_to_the_episodes():
    model = bound(lambda o, a: o + a * np.nan)
    assert not np.isfinite(model.rollout(model.encode(STATES), PLANS)).any()


@pytest.mark.parametrize(
    ("learned", "message"),
    [
        (None, r"is None \(does the fixture end in a return\?\)"),
        (
            Stepping(),
            "'Stepping', which has encode and step, and no rollout. Add it:\n    def roll",
        ),
        (3, "is 'int', which can neither be called nor has it a rollout"),
        ((abs, 0.1), "is a tuple of 2, not a model.\n  Return the model in it alone"),
        ({"net": abs}, "is a dict with 'net', not a model.\n  Return the model in it alone"),
        (SimpleNamespace(predict=abs), "has predict, and cannot be called.\n  Return model.pred"),
        ({"weights": 1}, "is a state dict \\(weights\\), not a network.\n  Build the net"),
        (
            "model.pt",
            r"a path, 'model\.pt', not a model.\n  Name .* marker: .*model='model\.pt'\)",
        ),
        (Path("model.pt"), r"is a path, 'model\.pt', not"),
        (SimpleNamespace(cost=abs), "cost rates plans that nothing imagines: add a rollout, or"),
        (Network, r"is the class 'Network', not an object of it.\n  Return Network\(\.\.\.\)"),
        (TASK, r"is the task 'cart', whose true dynamics are OracleDynamics\(task\)"),
    ],
)
def test_anything_else_is_refused_with_the_lines_to_write(learned, message):
    with pytest.raises(WorldModelError, match=message) as caught:
        bound(learned)
    said = str(caught.value)
    assert "\n  " in said, "what to write stands alone"


@pytest.mark.parametrize(
    ("learned", "message"),
    [
        (
            SimpleNamespace(rollout=lambda z, p: np.zeros((len(z), p.shape[1] + 1, 2))),
            r"shape \[8, 4, 2\] came back for \[8, 2\] and \[8, 3, 1\], .*\. Leave out",
        ),
        (
            SimpleNamespace(rollout=lambda z, p: np.zeros((p.shape[1], len(z), 2))),
            r"The first axis is the batch: return its \.swapaxes\(0, 1\)",
        ),
        (own_rollout(encode=lambda o: o[:, 0]), r"shape \[8\] .*expected \[8, any\].*encode\("),
        (own_rollout(score=lambda z: z.sum(axis=(1, 2))), r"shape \[8\] .*\[8, 3\].*score\("),
        (own_rollout(decode=lambda z: z[..., :1]), r"\[8, 3, 1\].*\[8, 3, 2\].*decode\("),
        (own_rollout(score=lambda z: z[..., 0] - z[..., 0].mean()), "score gives another result"),
    ],
)
def test_broken_method_is_named_with_both_shapes(learned, message):
    with pytest.raises(WorldModelError, match=f"(?s){message}"):
        bound(learned)


def test_world_model_that_takes_tensors_only_is_given_tensors():
    torch = pytest.importorskip("torch")

    def rollout(latents, plans):
        return latents[:, None] + torch.cumsum(plans, dim=1)

    model = bound(SimpleNamespace(rollout=rollout))
    imagined = model.rollout(model.encode(STATES), PLANS)
    expected = TASK.observe(STATES)[:, None] + np.cumsum(PLANS, axis=1)
    np.testing.assert_allclose(imagined, expected, atol=1e-5)


def test_inference_puts_networks_into_eval_mode_and_everything_back():
    torch = pytest.importorskip("torch")
    inner, frozen = torch.nn.Dropout(), torch.nn.BatchNorm1d(2).eval()
    module = torch.nn.Sequential(inner, frozen)
    threads = torch.get_num_threads()

    def closure(observations, actions):
        return module(observations)

    holders = [module, closure, SimpleNamespace(parts=[{"net": module}]), module.forward]
    for learned in holders:
        with inference(None, learned):
            assert torch.is_inference_mode_enabled()
            assert torch.get_num_threads() == 1
            assert (module.training, inner.training, frozen.training) == (False,) * 3
        assert (module.training, inner.training, frozen.training) == (True, True, False)
        assert not torch.is_inference_mode_enabled()
        assert torch.get_num_threads() == threads
    with pytest.raises(KeyboardInterrupt), inference(module):
        raise KeyboardInterrupt
    assert module.training
    assert not torch.is_inference_mode_enabled()


def test_module_with_dropout_in_train_mode_can_be_bound():
    torch = pytest.importorskip("torch")

    class Dynamics(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = torch.nn.Dropout()

        def forward(self, observations, actions):
            return self.dropout(observations) + actions

    assert bound(Dynamics()).swapped == ("dynamics",)


def test_nothing_here_imports_torch(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_bind():
            import numpy as np
            from pytest_cpg.tasks import TASKS
            from pytest_cpg.world_models import bind, collect_transitions, inference

            sys.modules["torch"] = None
            task = TASKS["maze"]()
            states = task.reset(np.arange(8))
            walks = collect_transitions(task, count=8, seed=0)
            learned = lambda observations, actions: observations + actions
            with inference(learned):
                bind(learned, task, probe_states=states, probe_actions=walks.actions)
        """
    )
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_missing_torch_names_the_extra(pytester):
    pytester.makepyfile(
        """
        import sys
        import pytest

        def test_missing(monkeypatch):
            from pytest_cpg import world_models
            from pytest_cpg.contracts import ComponentError

            monkeypatch.setitem(sys.modules, "torch", None)
            for name in ("MLP", "train_mlp"):
                with pytest.raises(ComponentError, match=r'pip install "pytest-cpg\\[torch\\]"'):
                    getattr(world_models, name)
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=1)


class Rated:
    """Plain dynamics that rate what they predict by the speed alone."""

    def __call__(self, observations, actions):
        return linear(observations, actions)

    def score(self, observations):
        return 3 * np.abs(observations[..., 1])


def test_the_score_of_a_callable_rates_its_plans_as_that_of_a_rollout_does():
    rolled = SimpleNamespace(rollout=as_rollout(linear), score=Rated().score)
    called, rolled = bound(Rated()), bound(rolled)
    reached = called.rollout(called.encode(STATES), PLANS)
    assert np.array_equal(called.score(reached), 3 * np.abs(reached[..., 1]))
    assert np.array_equal(called.score(reached), rolled.score(reached))
    assert called.swapped == rolled.swapped == ("dynamics", "score")
    assert called.rescored is not None


def test_a_score_that_rates_no_plans_is_refused_by_its_name():
    class Estimator(Rated):
        def score(self, inputs, targets):
            return 0.5

    with pytest.raises(WorldModelError, match=r"(?s)Estimator.score.*needs another name"):
        bound(Estimator())


def test_a_reward_of_a_callable_is_not_asked_and_noted():
    class Rewarding(Rated):
        score = None

        def reward(self, observations, actions):
            return observations[..., 0]

    (note,) = bound(Rewarding()).notes
    assert note.startswith("the model has a reward and no rollout, and its reward is not asked")
    assert bound(Rewarding()).swapped == ("dynamics",)


def test_a_network_is_stepped_in_tensors_where_that_changes_no_bit():
    torch = pytest.importorskip("torch")
    from pytest_cpg.tasks.grids import maze

    class Network(torch.nn.Module):
        def __init__(self, *, widens):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(4, 2)
            self.widens, self.given = widens, []

        def forward(self, observations, actions):
            self.given.append(observations)
            after = observations + self.layer(torch.cat([observations, actions], dim=-1))
            # Beyond float32, in which each step is asked for.
            return after.double() + 1e-12 if self.widens else after

    task, rng = maze(), np.random.default_rng(0)
    states, plans = task.reset(np.arange(8)), rng.normal(size=(8, 5, 2))
    imagined = []
    for widens in (False, True):
        network = Network(widens=widens).eval()
        bound = bind(network, task, probe_states=states, probe_actions=plans[:, 0])
        network.given.clear()
        imagined.append(bound.rollout(bound.encode(states), plans))
        stepped = bound.encode(states)
        for t in range(plans.shape[1]):
            stepped = bound.rollout(stepped, plans[:, t : t + 1])[:, 0]
            assert np.array_equal(stepped, imagined[-1][:, t])
        # What would round otherwise from step to step comes to numpy after each.
        assert {given.dtype for given in network.given} == {torch.float32}
    assert not np.array_equal(*imagined)
