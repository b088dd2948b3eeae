"""The recipe of the checkpoints in models/. To make them again: python train.py

It draws 14 000 frames and fits a network to them, in seven minutes of a processor. They are
committed, as another processor makes other ones.
"""

import time
from pathlib import Path

import numpy as np
import torch
from networks import SCALE, SIZE, STACK, Model
from safetensors.torch import save_file

from pytest_cpg.tasks.pixel_task import seen_as_pixels

MODELS = Path(__file__).parent / "models"
PIXELS = {"size": SIZE, "stack": STACK, "shadows": False}
EPISODES, STEPS, HOLD = 1_000, 14, 3
# Steps of a plan that is imagined in training.
AHEAD = 8
BATCH, RATE, UPDATES = 64, 2e-3, 6_000
# The share of its training after which an early checkpoint is kept.
EARLY = 0.05


def logged(task, *, episodes=EPISODES, seed=0):
    """Return frames [N, T, H, W, 3], actions [N, T, 2] and what is told [N, T, 8] of episodes.

    The frames at [n, t] and before are what is seen before the action at [n, t].
    """
    rng = np.random.default_rng(seed)
    states = task.reset(rng.integers(2**31, size=episodes))
    drawn = task.actions.sample([rng], (episodes, -(-STEPS // HOLD)))[0]
    actions = drawn.repeat(HOLD, axis=1)[:, :STEPS]
    frames, told = [], []
    for step in range(STEPS):
        frames.append(task.pictures(states)[:, -1])
        told.append(truth(task.observe(states)))
        states = task.step(states, actions[:, step])
    return [torch.tensor(np.stack(part, axis=1)) for part in (frames, told)], torch.tensor(actions)


def truth(observations):
    """Return what latents are to tell [..., 8] of observations [..., 6], in its scale."""
    shoulder, wrist, *others = np.moveaxis(observations, -1, 0)
    angles = np.cos(shoulder), np.sin(shoulder), np.cos(wrist), np.sin(wrist)
    return np.stack([*angles, *others], axis=-1) / SCALE


def fit(model, frames, told, actions, *, updates=UPDATES, at=None):
    """Fit a model; ``at`` is called after each update with how many there were."""
    told, actions = told.float(), actions.float()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    pace = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=RATE, total_steps=updates)
    back = torch.arange(1 - STACK, 1)
    for update in range(updates):
        rows = torch.randint(len(frames), (BATCH, 1))
        begun = torch.randint(frames.shape[1] - AHEAD, (BATCH, 1))
        # An episode begins with its first frame, so many times.
        seen = frames[rows, (begun + back).clamp(min=0)]
        latents = model.encode(seen)
        along = begun + torch.arange(AHEAD)
        reached = model.rollout(latents, actions[rows, along])
        all_told = model.tell(torch.cat([latents[:, None], reached], dim=1))
        right = told[rows, begun + torch.arange(AHEAD + 1)]
        loss = (all_told - right).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        pace.step()
        if at is not None:
            at(update + 1, float(loss.detach()))
    return model


def save(model, name):
    MODELS.mkdir(exist_ok=True)
    save_file(
        {key: part.half().contiguous() for key, part in model.state_dict().items()},
        MODELS / f"{name}.safetensors",
    )


def main():
    begun = time.process_time()
    task = seen_as_pixels("reacher-easy", **PIXELS)
    (frames, told), actions = logged(task)
    print(f"{task.frames_drawn} frames, {time.process_time() - begun:.0f} s of CPU here")
    torch.manual_seed(0)
    model = Model()

    def at(update, loss):
        if update == EARLY * UPDATES:
            save(model, "early")
        if update % 500 == 0:
            print(f"{update} updates, {time.process_time() - begun:.0f} s of CPU, loss {loss:.4f}")

    save(fit(model, frames, told, actions, at=at), "trained")


if __name__ == "__main__":
    main()
