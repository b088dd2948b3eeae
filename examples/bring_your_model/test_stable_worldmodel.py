"""Models of stable-worldmodel: plans are rated by their get_cost, as its own solver does."""

from types import SimpleNamespace

import pytest

pytest.importorskip("stable_worldmodel")

import torch
from omegaconf import OmegaConf
from stable_worldmodel.wm.lewm import LeWM
from stable_worldmodel.wm.lewm.module import Embedder, Predictor
from stable_worldmodel.wm.pldm import PLDM
from stable_worldmodel.wm.prejepa import PreJEPA
from stable_worldmodel.wm.prejepa.module import CausalPredictor
from stable_worldmodel.wm.prejepa.module import Embedder as ActionEmbedder
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
    """Where yours has a vision transformer: one token of a picture, and one of each patch."""

    def __init__(self):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 16, 16, 16)

    def forward(self, pixels, **_):
        tokens = self.patches(pixels).flatten(2).transpose(1, 2)
        return SimpleNamespace(last_hidden_state=torch.cat([tokens[:, :1], tokens], 1))


def jepa(kind):
    sizes = {"input_dim": 16, "hidden_dim": 16, "heads": 2, "dim_head": 8, "mlp_dim": 32}
    predictor = Predictor(num_frames=3, depth=1, **sizes)
    return kind(Seeing(), predictor, Embedder(input_dim=2, emb_dim=16))


def lewm_of_pictures():
    return jepa(LeWM)


def pldm_of_pictures():
    return jepa(PLDM)


def dino_wm():
    sizes = {"dim": 20, "depth": 1, "heads": 2, "dim_head": 8, "mlp_dim": 32}
    predictor = CausalPredictor(num_patches=16, num_frames=3, **sizes)
    actions = torch.nn.ModuleDict({"action": ActionEmbedder(in_chans=2, emb_dim=4)})
    return PreJEPA(Seeing(), predictor, actions)


@pytest.fixture
def model_of_pictures(request):
    def info(pictures):  # [B, F, H, W, C] in 8 bits; the last one is the goal's
        frames = pictures.permute(0, 1, 4, 2, 3).float() / 255
        return {"pixels": frames[:, :-1], "goal": frames[:, -1:]}

    torch.manual_seed(0)
    return StableWorldModel(request.param().eval(), action_size=2, info=info)


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
@pytest.mark.parametrize(
    "model_of_pictures",
    [lewm_of_pictures, pldm_of_pictures, dino_wm],
    indirect=True,
    ids=["lewm", "pldm", "dino_wm"],
)
@pytest.mark.cpg(
    task="maze",
    observe={"size": 64, "stack": 1},
    goals={"offset": 20, "within": 0.5},
    planner=CEM(samples=16, **END),
    episodes=20,
    budget=20,
)
def test_pictures_of_goals(benchmark_runner, model_of_pictures):
    benchmark_runner.compare(learned=model_of_pictures)
