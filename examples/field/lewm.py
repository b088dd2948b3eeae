"""A small LeWM, of stable-worldmodel's own classes, that sees places in a room, or pictures."""

from itertools import pairwise
from types import SimpleNamespace

import torch
from stable_worldmodel.wm.lewm import LeWM
from stable_worldmodel.wm.lewm.module import MLP, Embedder, Predictor
from stable_worldmodel.wm.loss import SIGReg

from pytest_cpg.world_models import StableWorldModel

SIZE, WINDOW = 8, 2


class Places(MLP):
    """Encodes places [B, 2] in pixels, where LeWM has a vision transformer."""

    def __init__(self):
        super().__init__(2, 128, SIZE, norm_fn=None)

    def forward(self, places, **_):
        return SimpleNamespace(last_hidden_state=super().forward(places / 112 - 1)[:, None])


class Pictures(torch.nn.Sequential):
    """Encodes pictures [B, 3, 64, 64] of 0 to 255."""

    def __init__(self):
        halvings = [
            layer
            for before, after in pairwise((3, 16, 32, 32))
            for layer in (torch.nn.Conv2d(before, after, 4, 2, 1), torch.nn.SiLU())
        ]
        super().__init__(
            torch.nn.AvgPool2d(2),
            *halvings,
            torch.nn.Flatten(),
            torch.nn.Linear(512, 256),
            # Without it all pictures are one in the latents at first, and stay so.
            torch.nn.BatchNorm1d(256),
            torch.nn.SiLU(),
            torch.nn.Linear(256, SIZE),
        )

    def forward(self, pictures, **_):
        return SimpleNamespace(last_hidden_state=super().forward(pictures / 255 - 0.5)[:, None])


def made(encoder):
    """Return a LeWM of stable-worldmodel's own classes around an encoder's, with random weights."""
    predictor = Predictor(
        num_frames=1, depth=1, heads=4, dim_head=16, mlp_dim=128, input_dim=SIZE, hidden_dim=64
    )
    return LeWM(encoder(), predictor, Embedder(input_dim=2, emb_dim=SIZE))


def trained(encoder, frames, actions, *, steps, rate=3e-3, weight=0.01, report=None):
    """Return a LeWM after so many steps of its two losses, of the next latents and SIGReg.

    ``frames`` [N, T, ...] are what was seen along N episodes, ``actions`` [N, T - 1, 2] what was
    done between them; ``report`` is called after each step with the model, the step and the loss.
    """
    torch.manual_seed(0)
    model = made(encoder).to(frames.device)
    regularizer = SIGReg(num_proj=64).to(frames.device)
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    begins = frames.shape[1] - WINDOW
    along = torch.arange(WINDOW + 1, device=frames.device)
    for step in range(steps):
        drawn = torch.randint(len(frames) * begins, (128, 1)).to(frames.device)
        rows, at = drawn // begins, drawn % begins + along
        read = model.encode({"pixels": frames[rows, at], "action": actions[rows, at[:, :-1]]})
        latents, error = read["emb"][:, :1], 0.0
        for ahead in range(WINDOW):
            latents = model.predict(latents, read["act_emb"][:, ahead : ahead + 1])
            error += (latents[:, 0] - read["emb"][:, ahead + 1]).square().mean() / WINDOW
        loss = error + weight * regularizer(read["emb"].transpose(0, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if report is not None:
            report(model, step + 1, loss)
    return model.eval()


def windows(data):
    """Return places [N, WINDOW + 1, 2] along recorded steps, and actions [N, WINDOW, 2]."""
    count = len(data) // WINDOW * WINDOW
    before, after, actions = (
        torch.tensor(array[:count, :2], dtype=torch.float32).reshape(-1, WINDOW, 2)
        for array in (data.observations, data.next_observations, data.actions)
    )
    return torch.cat([before, after[:, -1:]], dim=1), actions


def of_pictures(model):
    """Return a model that is given pictures, the last of which is the goal, and its own cost."""

    def info(pictures):  # [B, F, H, W, C] in 8 bits
        frames = pictures.permute(0, 1, 4, 2, 3)
        return {"pixels": frames[:, :-1], "goal": frames[:, -1:]}

    return StableWorldModel(model, action_size=2, info=info)


def seen(observations):
    """Return what LeWM reads of observations [B, O]: one frame, and the goal's."""
    return {"pixels": observations[:, None, :2], "goal": observations[:, None, 2:4]}


def by_its_own_cost(model):
    """Return a model that rates a plan by how far its last latent is from the goal's."""
    return StableWorldModel(model, action_size=2, info=seen)


def by_places(model, data):
    """Return a model whose predictions are read as places, which the task rates."""
    places = torch.tensor(data.observations[:4000, :2], dtype=torch.float32)
    with torch.no_grad():
        latents = model.encode({"pixels": places[:, None]})["emb"][:, 0]
    weights = torch.linalg.lstsq(with_one(latents), places).solution
    return StableWorldModel(
        model,
        action_size=2,
        info=seen,
        predicted="predicted_emb",
        decode=lambda latents: with_one(latents) @ weights,
        columns=(0, 1),  # the goal stays where it was
    )


def with_one(latents):
    return torch.nn.functional.pad(latents, (0, 1), value=1.0)
