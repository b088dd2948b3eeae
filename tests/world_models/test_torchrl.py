from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tensordict")

from tensordict.nn import TensorDictModule, TensorDictSequential

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.checkpoints.torchrl import TorchRLModel


class Joined(torch.nn.Linear):
    def forward(self, latents, actions):
        return super().forward(torch.cat([latents, actions], dim=-1))


class Composed(torch.nn.Module):
    """A world model as TorchRL composes it, of three modules on named keys."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        nexts = [("next", "latent")]
        self.encoder = TensorDictModule(torch.nn.Linear(2, 3), ["observation"], ["latent"])
        self.dynamics = TensorDictModule(Joined(5, 3), ["latent", "action"], nexts)
        self.head = TensorDictModule(torch.nn.Linear(3, 1), nexts, [("next", "reward")])
        self.encode = self.encoder
        self.step = TensorDictSequential(self.dynamics, self.head)


@pytest.mark.parametrize("is_env", [False, True])
def test_a_world_model_on_keys_gives_what_its_formula_gives(is_env):
    composed = Composed()
    model = TorchRLModel(SimpleNamespace(world_model=composed) if is_env else composed)
    rng = np.random.default_rng(0)
    observations, actions = rng.normal(size=(4, 2)), rng.normal(size=(4, 3, 2))
    w = [value.detach().double().numpy() for value in composed.parameters()]
    latent = observations @ w[0].T + w[1]
    found = model.encode(observations)
    assert found == pytest.approx(latent, abs=1e-5)
    imagined = model.rollout(found, actions)
    before = np.concatenate([found[:, None], imagined[:, :-1]], axis=1)
    rewards = model.reward(before, actions)
    for step in range(3):
        latent = np.concatenate([latent, actions[:, step]], -1) @ w[2].T + w[3]
        assert imagined[:, step] == pytest.approx(latent, abs=1e-5)
        assert rewards[:, step] == pytest.approx((latent @ w[4].T + w[5])[:, 0], abs=1e-5)


def test_a_key_that_the_model_does_not_write_is_named_with_those_it_does():
    model = TorchRLModel(Composed(), reward="gain")
    with pytest.raises(WorldModelError, match=r"no 'gain', only .*reward"):
        model.reward(np.zeros((4, 3)), np.zeros((4, 2)))
    assert not hasattr(TorchRLModel(Composed(), reward=None), "reward")
