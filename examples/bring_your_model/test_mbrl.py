"""PETS of mbrl-lib: a vectorised ensemble that gives (mean, log variance) of every member."""

import pytest

mbrl = pytest.importorskip("mbrl.models")

import torch

from pytest_cpg.world_models import SampledEnsemble

MEMBERS = 5


@pytest.fixture(scope="session")
def learned_dynamics():
    network = mbrl.GaussianMLP(
        in_size=8, out_size=6, device="cpu", num_layers=2, ensemble_size=MEMBERS, hid_size=64,
        activation_fn_cfg={"_target_": "torch.nn.SiLU"},
    )  # fmt: skip
    model = mbrl.OneDTransitionRewardModel(network, normalize=True, learned_rewards=False)
    model.load("pets")

    def predict(observations, actions):
        inputs = model.input_normalizer.normalize(torch.cat([observations, actions], dim=-1))
        change, log_variance = model.forward(inputs.float(), use_propagation=False)
        return observations + change, log_variance.exp()

    return SampledEnsemble(predict, members=MEMBERS, observation_size=6, propagation="TSinf")


@pytest.mark.cpg(task="reacher-easy", planner="preset", episodes=12)
def test_mbrl(cpg): ...
