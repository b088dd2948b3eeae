from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from official_weights import tdmpc2 as official

from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.planners import tdmpc2
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import TDMPC2, bind, inference
from pytest_cpg.world_models.binding import binding, latent, tensors, tiling
from pytest_cpg.world_models.binding import bound as bound_models
from pytest_cpg.world_models.binding.binding import native_rollout
from pytest_cpg.world_models.binding.tiling import TILE, TILE_ELSEWHERE, tile_of, tiled


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, observations, actions):
        return observations + self.linear(torch.cat([observations, actions], dim=-1))


def test_a_model_on_another_device_is_called_with_a_whole_round_at_once():
    assert tile_of(Residual()) == TILE
    assert tile_of(Residual().to("meta")) == TILE_ELSEWHERE
    assert tile_of(len) == TILE
    sizes = []
    tiled(lambda rows: sizes.append(len(rows)) or rows, rows=7)(np.zeros((10, 1)))
    assert sizes == [7, 7]


@pytest.fixture
def elsewhere(monkeypatch):
    """Every model is taken for one on another device."""
    for module in (latent, tiling, bound_models):
        monkeypatch.setattr(module, "is_elsewhere", lambda learned: True)


def imagined_by(model):
    task = maze()
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    states = task.reset(np.arange(8))
    bound = bind(model, task, probe_states=states, probe_actions=actions)
    return bound.rollout(bound.encode(states), np.stack([actions, actions[::-1]], axis=1))


class InPlace(Residual):
    """Writes to what it is given, and returns it."""

    def forward(self, observations, actions):
        observations += actions
        return observations


class Wide(Residual):
    """Gives numbers of another type than it takes."""

    def forward(self, observations, actions):
        return super().forward(observations, actions).double()


@pytest.mark.parametrize("kind", [Residual, InPlace, Wide])
@pytest.mark.parametrize("is_far", [False, True])
def test_a_rollout_that_stays_in_tensors_gives_the_same_bits_as_one_step_by_step(
    kind, is_far, monkeypatch, request
):
    with monkeypatch.context() as patched:
        patched.setattr(binding, "holds_network", lambda learned: False)
        expected = imagined_by(kind())
    if is_far:
        request.getfixturevalue("elsewhere")
    assert np.array_equal(imagined_by(kind()), expected)


def test_what_a_step_gives_on_its_device_is_handed_to_the_next_as_it_is():
    model, steps = Residual(), []
    model.register_forward_hook(lambda _, inputs, output: steps.append((inputs[0], output)))
    with torch.inference_mode():
        native_rollout(model)(np.zeros((1, 2)), np.ones((1, 3, 2)))
    assert [after[0] is before[1] for before, after in pairwise(steps)] == [True, True]


class Latent(torch.nn.Module):
    """A latent model on tensors alone."""

    discount = 0.9

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.step, self.pay = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)

    def rollout(self, latents, actions):
        reached = []
        for action in actions.unbind(dim=1):
            latents = latents + self.step(torch.cat([latents, action], dim=-1))
            reached.append(latents)
        return torch.stack(reached, dim=1)

    def reward(self, latents, actions, reached):
        return self.pay(reached)[..., 0] - self.pay(latents)[..., 0]


class Valuing(Latent):
    def terminal_value(self, latents):
        return latents.sum(dim=-1)


@pytest.mark.parametrize("kind", [Latent, Valuing])
def test_a_round_of_a_model_with_rewards_comes_back_from_its_device_once(kind, monkeypatch):
    task, model = maze(), kind()
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    states = task.reset(np.arange(40))
    probe = {"probe_states": states[:8], "probe_actions": actions}
    plans = task.actions.sample([np.random.default_rng(1)], (40, 5))[0]

    def planned(bound):
        reached = bound.rollout(bound.encode(states), plans)
        # Going on from there, as a search in pieces does.
        again = bound.rollout(reached[:, -1], plans)
        return bound.score(np.concatenate([reached, again], axis=1))

    expected = planned(bind(model, task, **probe))
    for module in (latent, tiling):
        monkeypatch.setattr(module, "is_elsewhere", lambda learned: True)
    bound = bind(model, task, **probe)
    counts, cpu = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: counts.append(1) or cpu(tensor))
    found = planned(bound)
    assert len(counts) == 2
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


class Diverging(Valuing):
    """Plans that begin upwards lead to infinity, which its rewards and value do not show."""

    def rollout(self, latents, actions):
        reached = super().rollout(latents, actions)
        return reached.masked_fill((actions[:, :1, 1:] > 0.5), torch.inf)

    def reward(self, latents, actions, reached):
        return super().reward(latents.nan_to_num(posinf=0), actions, reached.nan_to_num(posinf=0))

    def terminal_value(self, latents):
        return super().terminal_value(latents.nan_to_num(posinf=0))


@pytest.mark.parametrize("kind", [Latent, Valuing, Diverging])
def test_plans_rated_by_their_end_bring_nothing_else_back_and_once(kind, monkeypatch):
    task, model = maze(), kind()
    actions = np.repeat([[0.1, 0.2]], 8, axis=0) * np.arange(8)[:, None] / 8
    states = task.reset(np.arange(40))
    probe = {"probe_states": states[:8], "probe_actions": actions}
    plans = task.actions.sample([np.random.default_rng(1)], (40, 3, 5))[0]
    lengths = np.arange(40) % 5 + 1

    def rated(bound):
        return bound.plan_costs(bound.encode(states), plans, lengths)

    expected = rated(bind(model, task, **probe))
    for module in (latent, tiling):
        monkeypatch.setattr(module, "is_elsewhere", lambda learned: True)
    monkeypatch.setattr(tiling, "TILE_ELSEWHERE", 32)
    bound = bind(model, task, **probe)
    sizes, cpu = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda t: sizes.append(tuple(t.shape)) or cpu(t))
    found = rated(bound)
    assert sizes == [(120, 5 + (kind is not Latent))]
    assert np.isnan(expected).any() == (kind is Diverging)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_plan_of_tdmpc2_on_a_device_takes_one_journey_for_each_iteration(monkeypatch):
    task = maze()
    model = TDMPC2.of(
        official(1, observation=2, action=2),
        obs_keys="state",
        action_repeat=1,
        simnorm_dim=8,
        discount=0.99,
    )
    states, drawn = task.reset(np.arange(8)), np.random.default_rng(0).uniform(-1, 1, (8, 2))
    probe = {"probe_states": states, "probe_actions": drawn}

    def planned(bound, iterations):
        world = Imagination("learned", task.actions, bound)
        world.plans_for(np.arange(3), np.zeros(3, dtype=int))
        latents = world.encode(states[:3])
        planner = tdmpc2(iterations=iterations, samples=16, elites=4, policy_plans=4)
        rngs = [np.random.default_rng(episode) for episode in range(3)]
        counts.clear()
        return planner.plan(world, latents, rngs, np.full(3, 9)).actions

    counts, cpu = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: counts.append(1) or cpu(tensor))
    with inference(model):
        bound = bind(model, task, **probe)
        expected = planned(bound, 3)
        for module in (latent, tiling, bound_models):
            monkeypatch.setattr(module, "is_elsewhere", lambda learned: True)
        monkeypatch.setattr(tiling, "TILE_ELSEWHERE", 32)
        bound = bind(model, task, **probe)
        assert np.array_equal(planned(bound, 3), expected)
        # The policy is tried when it is first asked, in the plan above.
        planned(bound, 4)
    policy, steps_between, iterations = 3, 2, 4
    assert len(counts) == policy + steps_between + iterations


class OnArrays(Latent):
    def reward(self, latents, actions, reached):
        return super().reward(*map(torch.as_tensor, (latents, actions, np.asarray(reached))))


def test_methods_that_are_not_for_tensors_are_asked_one_by_one(monkeypatch):
    task, model = maze(), OnArrays()
    monkeypatch.setattr(latent, "is_elsewhere", lambda learned: True)
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    probe = {"probe_states": task.reset(np.arange(8)), "probe_actions": actions}
    monkeypatch.setattr(tensors, "plans_there", lambda learned: lambda *_, **__: 1 / 0)
    assert bind(model, task, **probe).swapped == ("dynamics", "reward")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")
def test_predictions_on_a_graphics_processor_are_those_of_the_processor():
    task = maze()
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    states = task.reset(np.arange(8))
    plans = np.stack([actions, actions[::-1]], axis=1)
    found = [
        bind(model, task, probe_states=states, probe_actions=actions).rollout(
            task.observe(states), plans
        )
        for model in (Residual(), Residual().to("cuda"))
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-5)
