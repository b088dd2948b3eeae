"""The recipe of the checkpoints in models/. To make them again: python train.py

They are committed because another processor makes other ones: its kernels round differently, and
training multiplies the difference.
"""

from pathlib import Path

import torch
from dynamics import Dynamics
from safetensors.torch import save_file

from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import collect_transitions

MODELS = Path(__file__).parent / "models"
# How many transitions of random actions, in episodes of how many steps, for how many of which each
# action is held. The acrobot's model sees next to nothing, the cartpole's a pole that hardly leaves
# its rest; the reacher's data reach the joint limits.
DATA = {
    "acrobot-swingup": {"count": 100},
    "cartpole-swingup": {"count": 1_000, "episode_steps": 10},
    "reacher-easy": {"count": 100_000, "policy": "held-3"},
}
STEPS = {"acrobot-swingup": 6_000, "cartpole-swingup": 1_200, "reacher-easy": 6_000}
BATCH, RATE = 512, 5e-3


def transitions(task):
    """Return what the model of a task is trained on."""
    return collect_transitions(task, seed=0, **DATA[task.name])


def train(task, steps):
    """Return a model of a task, fitted in so many gradient steps."""
    data = transitions(task)
    before, actions, after = (
        torch.tensor(values, dtype=torch.float32)
        for values in (data.observations, data.actions, data.next_observations)
    )
    torch.manual_seed(0)
    model = Dynamics(before.shape[1], actions.shape[1])
    for name, values in (
        ("input", torch.cat([before, actions], dim=-1)),
        ("change", after - before),
    ):
        getattr(model, f"{name}_mean").copy_(values.mean(0))
        # What never changes has no scale.
        getattr(model, f"{name}_scale").copy_(values.std(0).clamp(min=1e-6))
    optimiser = torch.optim.Adam(model.parameters())
    pace = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=RATE, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(before), (BATCH,))
        error = (model(before[rows], actions[rows]) - after[rows]) / model.change_scale
        optimiser.zero_grad()
        error.square().mean().backward()
        optimiser.step()
        pace.step()
    return model


def main(steps=STEPS):
    """Write the checkpoint of every task, fitted in these numbers of steps."""
    MODELS.mkdir(exist_ok=True)
    for name in DATA:
        model = train(TASKS[name](), steps[name])
        save_file(model.state_dict(), MODELS / f"{name}.safetensors")


if __name__ == "__main__":
    main()
