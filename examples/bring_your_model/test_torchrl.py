"""A WorldModelWrapper of TorchRL: name the keys that it reads and writes."""

import pytest

pytest.importorskip("torchrl")

from tensordict.nn import TensorDictModule
from test_torch import Dynamics
from torchrl.modules import WorldModelWrapper

from pytest_cpg.world_models import TorchRLModel

WEIGHTS = "../dmc_gates/models/reacher-easy.safetensors"


def nearness(observations):
    """Return the reward: minus the distance of finger and target, which a reacher observes."""
    return -observations[..., 2:4].norm(dim=-1, keepdim=True)


@pytest.fixture(scope="session")
def learned_dynamics():
    from safetensors.torch import load_file

    network = Dynamics()
    network.load_state_dict(load_file(WEIGHTS))
    model = WorldModelWrapper(
        TensorDictModule(network, ["observation", "action"], ["observation"]),
        TensorDictModule(nearness, ["observation"], ["reward"]),
    )
    return TorchRLModel(model, latents="observation", reward="reward")


@pytest.mark.cpg(task="reacher-easy", planner="preset", episodes=12)
def test_torchrl(cpg): ...
