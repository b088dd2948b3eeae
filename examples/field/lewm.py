"""A small LeWM, of stable-worldmodel's own classes, that sees places in a room and no pictures."""

from types import SimpleNamespace

import torch
from stable_worldmodel.wm.lewm import LeWM
from stable_worldmodel.wm.lewm.module import MLP, Embedder, Predictor
from stable_worldmodel.wm.loss import SIGReg

from pytest_cpg.world_models import StableWorldModel

SIZE, WINDOW = 8, 2


class Places(MLP):
    """Encodes places [B, 2] in pixels, where LeWM has a vision transformer."""

    def forward(self, places, **_):
        return SimpleNamespace(last_hidden_state=super().forward(places / 112 - 1)[:, None])


def trained(data, *, steps):
    """Return a LeWM after so many steps of its two losses, of the next latents and SIGReg."""
    torch.manual_seed(0)
    predictor = Predictor(
        num_frames=1, depth=1, heads=4, dim_head=16, mlp_dim=128, input_dim=SIZE, hidden_dim=64
    )
    places = Places(2, 128, SIZE, norm_fn=None)
    model = LeWM(places, predictor, Embedder(input_dim=2, emb_dim=SIZE))
    regularizer = SIGReg(num_proj=64)
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    frames, actions = windows(data)
    for _ in range(steps):
        rows = torch.randint(len(frames), (128,))
        read = model.encode({"pixels": frames[rows], "action": actions[rows]})
        latents, error = read["emb"][:, :1], 0.0
        for at in range(WINDOW):
            latents = model.predict(latents, read["act_emb"][:, at : at + 1])
            error += (latents[:, 0] - read["emb"][:, at + 1]).square().mean() / WINDOW
        optimizer.zero_grad()
        (error + 0.01 * regularizer(read["emb"].transpose(0, 1))).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def windows(data):
    """Return places [N, WINDOW + 1, 2] along recorded steps, and actions [N, WINDOW, 2]."""
    count = len(data) // WINDOW * WINDOW
    before, after, actions = (
        torch.tensor(array[:count, :2], dtype=torch.float32).reshape(-1, WINDOW, 2)
        for array in (data.observations, data.next_observations, data.actions)
    )
    return torch.cat([before, after[:, -1:]], dim=1), actions


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
