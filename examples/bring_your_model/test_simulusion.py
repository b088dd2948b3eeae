"""A Dreamer of simulusion, as its own save() wrote it: it sees frames, and remembers."""

import pytest

pytest.importorskip("simulusion")

import torch
from simulusion.world_model import load_world_model

from pytest_cpg.planners import CEM
from pytest_cpg.tasks import TASKS


class Dreamer(torch.nn.Module):
    """Its networks, and the mean of what they would draw; its replay buffer stays behind."""

    discount = 0.99

    def __init__(self, dreamer):
        super().__init__()
        self.rssm, self.eye, self.rewards = dreamer.rssm, dreamer.obs_encoder, dreamer.reward_model

    def encode(self, pictures):  # [B, F, H, W, C] in 8 bits
        start = pictures.new_zeros(len(pictures), self.rssm.stoch_size + self.rssm.deter_size)
        still = pictures.new_zeros(len(pictures), self.rssm.action_size)
        return self.update(start.float(), still.float(), pictures)

    def update(self, latents, actions, pictures):
        seen = self.eye(pictures[:, -1].permute(0, 3, 1, 2).float() / 255 - 0.5)
        mean = latents.new_zeros(len(latents), self.rssm.stoch_size)
        after, _ = self.rssm.observe_step(self.state(latents), actions, seen, noise=(mean, mean))
        return torch.cat([after["stoch"], after["deter"]], dim=-1)

    def rollout(self, latents, actions):
        state, reached = self.state(latents), []
        for action in actions.unbind(dim=1):
            state = self.rssm.imagine_step(state, action, noise=torch.zeros_like(state["stoch"]))
            reached.append(torch.cat([state["stoch"], state["deter"]], dim=-1))
        return torch.stack(reached, dim=1)

    def reward(self, latents, actions, reached):
        return self.rewards(reached).mean.squeeze(-1)

    def state(self, latents):
        size = self.rssm.stoch_size
        return {"stoch": latents[:, :size], "deter": latents[:, size:]}


@pytest.fixture
def learned_dynamics():
    return Dreamer(load_world_model("simulusion", device="cpu").dreamer).eval()


@pytest.mark.xfail(strict=True, reason="nobody trained these weights; with yours, leave this out")
@pytest.mark.cpg(
    task=TASKS["reacher-easy"](action_repeat=2, actions="box"),
    observe={"size": 64, "stack": 1},
    planner=CEM(samples=16, horizon=6, iterations=2, elites=4, objective="sum", execute=2),
    episodes=12,
    budget=20,
)
def test_simulusion(cpg): ...
