"""Models that are given pictures: 8 bits from the task to their encode, and nothing wider."""

import numpy as np
import pytest
import runs

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.contracts.task import seen
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.planners import Greedy
from pytest_cpg.tasks.causal.blocks import Blocks
from pytest_cpg.world_models import bind

SHAPES = {"grid": (2, 5, 5, 3), "picture": (2, 50, 50, 3)}


def bound(learned, look="grid"):
    task = Blocks(k=2, look=look)
    states = task.reset(np.arange(8))
    return bind(learned, task, probe_states=states, probe_actions=task.actions.values[:8]), task


class Pixels:
    """Latents are a few pixels; an action changes nothing."""

    def __init__(self, shape):
        self.shape, self.given = shape, []

    def encode(self, pictures):
        self.given.append((pictures.dtype, pictures.shape[1:], len(pictures)))
        assert pictures.shape[1:] == self.shape
        return pictures[:, 0, 2, :, 0] / 255

    def rollout(self, latents, plans):
        return np.repeat(latents[:, None], plans.shape[1], axis=1)

    def score(self, latents):
        return latents.sum(axis=-1)


@pytest.mark.parametrize("look", SHAPES)
def test_a_model_is_given_pictures_of_8_bits_with_colours_last(look):
    model = Pixels(SHAPES[look])
    world, task = bound(model, look)
    states = task.reset(np.arange(100, 130))
    latents = world.encode(states)
    assert {given[:2] for given in model.given} == {(np.dtype(np.uint8), SHAPES[look])}
    pictures = seen(task, states)
    np.testing.assert_array_equal(latents, pictures[:, 0, 2, :, 0] / 255)
    assert pictures.dtype == task.observe(states).dtype == np.uint8
    np.testing.assert_array_equal(world.encode(states[5:6]), latents[5:6])


def test_a_call_has_few_large_pictures_and_one_plan_is_not_filled_with_hundreds():
    model = Pixels(SHAPES["picture"])
    world, task = bound(model, "picture")
    model.given.clear()
    world.encode(task.reset(np.arange(3)))
    assert [count for *_, count in model.given] == [32]


def test_a_network_gets_its_pictures_as_tensors_of_8_bits_also_with_memory():
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Conv2d(6, 4, 5)
            self.given = set()

        def encode(self, pictures):
            self.given.add((pictures.dtype, tuple(pictures.shape[1:])))
            channels = pictures.permute(0, 1, 4, 2, 3).flatten(1, 2)
            return self.layer(channels / 255).flatten(1)

        def update(self, latents, actions, pictures):
            return (latents + self.encode(pictures)) / 2

        def rollout(self, latents, plans):
            return latents[:, None].expand(-1, plans.shape[1], -1) + plans.sum(-1, keepdim=True)

        def score(self, latents):
            return latents.square().sum(-1)

    torch.manual_seed(0)
    network = Network().eval()
    world, task = bound(network)
    starts = sample_starts(task, 4, seed=0)
    arm = runs.run_of("learned", task, Greedy(), world, starts, seed=1).advance(4)
    assert arm.episodes == 4
    assert network.given == {(torch.uint8, SHAPES["grid"])}


def test_what_maps_observations_to_observations_is_told_that_it_needs_an_encode():
    class NoEncoder:
        def rollout(self, latents, plans):
            raise NotImplementedError

    for model in (NoEncoder(), lambda observations, actions: observations):
        with pytest.raises(WorldModelError, match=r"\[2, 5, 5, 3\] of 8 bits\. Add encode\(pict"):
            bound(model)


def test_a_model_that_rates_plans_by_frames_is_given_them_and_latents_hold_none(monkeypatch):
    torch = pytest.importorskip("torch")
    from pytest_cpg.world_models import StableWorldModel
    from pytest_cpg.world_models.checkpoints import stable_worldmodel

    monkeypatch.setattr(stable_worldmodel, "_ROOM", 0)

    class Costly(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def get_cost(self, info, candidates):
            off = (info["pixels"].mean((2, 3, 4, 5)) - info["goal"].mean((2, 3, 4, 5))).abs()
            return off + self.weight * candidates.sum((2, 3))

    given = []

    def info(pictures):
        given.append((pictures.dtype, tuple(pictures.shape[1:])))
        frames = pictures.permute(0, 1, 4, 2, 3).float()
        return {"pixels": frames[:, :-1], "goal": frames[:, -1:]}

    rng = np.random.default_rng(0)
    pictures = rng.integers(256, size=(3, 2, 64, 64, 3), dtype=np.uint8)
    learned = StableWorldModel(Costly(), action_size=1, longest=4, info=info)
    latents = learned.encode(pictures)
    assert latents.shape == (3, 1 + 1 + 4)
    assert learned.has_opaque_latents
    plans = rng.uniform(size=(3, 5, 4, 1)).astype(np.float32)
    costs = learned.episode_costs(latents, plans)
    means = pictures.astype(np.float32).mean(axis=(2, 3, 4))
    expected = np.abs(means[:, 0] - means[:, 1])[:, None] + plans.sum(axis=(2, 3))
    np.testing.assert_allclose(costs, expected, rtol=1e-4)
    assert set(given) == {(torch.uint8, (2, 64, 64, 3))}
    reached = learned.rollout(latents, plans[:, 0])
    np.testing.assert_allclose(learned.score(reached)[:, -1], expected[:, 0], rtol=1e-4)
    many = [rng.integers(256, size=(150, 2, 8, 8, 3), dtype=np.uint8) for _ in range(2)]
    # All that were seen at once are kept, in however many calls: of a gate of 300 episodes.
    begun = np.concatenate([learned.encode(some) for some in many])
    for _ in range(2):
        assert learned.episode_costs(begun, np.zeros((300, 2, 4, 1))).shape == (300, 2)
    with pytest.raises(WorldModelError, match="a picture which was seen too long ago"):
        learned.episode_costs(latents, plans)


def test_predictions_of_a_model_that_sees_frames_are_refused_in_so_many_words():
    pytest.importorskip("torch")
    from pytest_cpg.world_models import StableWorldModel

    class Predicting:
        def rollout(self, info, candidates):
            return {"predicted": candidates}

    learned = StableWorldModel(Predicting(), action_size=1, predicted="predicted")
    said = r"predicted='predicted' is for observations of numbers, and these are pictures \[2, 5"
    with pytest.raises(WorldModelError, match=said):
        bound(learned)
