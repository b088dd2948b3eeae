"""Models of stable-worldmodel: plans are rated by their get_cost, as its own solver does."""

from types import SimpleNamespace

import pytest

pytest.importorskip("stable_worldmodel")

import torch
from omegaconf import OmegaConf
from stable_worldmodel.wm.lewm import LeWM
from stable_worldmodel.wm.lewm.module import Embedder, Predictor
from stable_worldmodel.wm.tdmpc2 import TDMPC2

from pytest_cpg.planners import CEM
from pytest_cpg.world_models import StableWorldModel


def tdmpc2():
    settings = {
        "mlp_dim": 64, "enc_dim": 32, "simnorm_dim": 8, "num_q": 2, "tau": 0.01, "discount": 0.99,
        "num_bins": 21, "vmin": -6, "vmax": 2, "uncertainty_penalty": 0.5,
        "encoding": {"state": 32},
    }  # fmt: skip
    sizes = {"action_dim": 2, "extra_dims": {"state": 6}}
    model = TDMPC2(OmegaConf.create({**sizes, "wm": settings}))
    # Load your weights here.
    return StableWorldModel(model.eval(), action_size=2, info="state")


class Encoder(torch.nn.Linear):
    """Where your LeWM has a vision transformer."""

    def forward(self, given, **_):
        return SimpleNamespace(last_hidden_state=super().forward(given)[:, None])


def lewm():
    sizes = {"input_dim": 16, "hidden_dim": 16, "heads": 2, "dim_head": 8, "mlp_dim": 32}
    predictor = Predictor(num_frames=3, depth=1, **sizes)
    model = LeWM(Encoder(6, 16), predictor, Embedder(input_dim=2, emb_dim=16))

    def info(observations):  # a window of one frame, and the goal's
        frames = observations[:, None]
        goal = frames.clone()
        goal[..., 2:6] = 0  # a reacher observes how far finger and target are, and speeds
        return {"pixels": frames, "goal": goal}

    return StableWorldModel(model.eval(), action_size=2, info=info)


class Seeing(torch.nn.Module):
    """Where your LeWM has a vision transformer, of pictures of 64 x 64."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 8, 8),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(512, 16),
        )

    def forward(self, pixels, **_):
        return SimpleNamespace(last_hidden_state=self.net(pixels)[:, None])


def lewm_of_pictures():
    sizes = {"input_dim": 16, "hidden_dim": 16, "heads": 2, "dim_head": 8, "mlp_dim": 32}
    predictor = Predictor(num_frames=3, depth=1, **sizes)
    model = LeWM(Seeing(), predictor, Embedder(input_dim=2, emb_dim=16))

    def info(pictures):  # [B, F, H, W, C] in 8 bits; the last one is the goal's
        frames = pictures.permute(0, 1, 4, 2, 3).float() / 255
        return {"pixels": frames[:, :-1], "goal": frames[:, -1:]}

    return StableWorldModel(model.eval(), action_size=2, info=info)


@pytest.fixture(params=[tdmpc2, lewm], ids=lambda make: make.__name__)
def learned_dynamics(request):
    torch.manual_seed(0)
    return request.param()


untrained = pytest.mark.xfail(
    strict=True, reason="nobody trained these weights; with yours, leave this out"
)
END = {"horizon": 5, "iterations": 2, "elites": 4, "objective": "terminal", "execute": 1}


@untrained
@pytest.mark.cpg(
    task="reacher-easy",
    actions="box",
    # Plans are rated by their end alone, so get_cost is asked once a plan.
    planner=CEM(samples=32, **END),
    episodes=12,
    budget=40,
)
def test_stable_worldmodel(cpg): ...


@untrained
@pytest.mark.parametrize("learned_dynamics", [lewm_of_pictures], indirect=True, ids=["lewm"])
@pytest.mark.cpg(
    task="maze",
    observe={"size": 64, "stack": 1},
    goals={"offset": 12, "within": 0.5},
    planner=CEM(samples=32, **END),
    episodes=20,
)
def test_pictures_of_goals(cpg): ...
