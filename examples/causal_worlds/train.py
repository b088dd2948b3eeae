"""Train a model of a causal world: python train.py blocks:3 modular --epochs 15

It writes models/NAME.safetensors and, beside it, NAME.toml with what `--cpg-model` has to know. It
shows its progress, keeps the weights that are best on validation, and goes on where it was stopped.
"""

import argparse
import hashlib
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from losses import STAGES, rewards
from networks import KINDS, Model
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pytest_cpg.tasks import TASKS, named_task

HERE = Path(__file__).parent
MODELS = HERE / "models"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# As published: episodes of training and validation, of so many random steps.
EPISODES, CHECKED, STEPS = 1000, 100, 100
BATCH = 128
# Published are a hundred epochs, batches of 512 and a rate of 5e-4. Few epochs get far with small
# batches, and a rate that rises and falls.
RATE, RISE = 3e-3, 0.1
# Of the learned reward: as many rows, seen as often.
REWARD_ROWS, REWARD_EPOCHS = 20_000, 5


def task_of(world, **options):
    """Return a world as models see it: blocks as pictures of a pixel for each cell."""
    if world.startswith("blocks:"):
        options["look"] = "grid"
    return named_task(",".join([world, *(f"{key}={options[key]}" for key in options)]), TASKS)()


def seen(task, states):
    """Return what models are given of states [B, S]: pictures of 8 bits, or numbers."""
    rows = task.observe(states) if task.picture_shape is None else task.pictures(states)
    return torch.tensor(rows)


@dataclass(frozen=True)
class Recipe:
    """All that weights depend on.

    Attributes
    ----------
    world : str
        As a marker names it, such as "blocks:3" or "chemistry:chain5-dynamic".
    """

    world: str
    kind: str
    loss: str = "contrastive"
    seed: int = 0
    epochs: int = 4

    def path(self, loss):
        world = "".join(letter if letter.isalnum() else "-" for letter in self.world)
        name = f"{world}-{self.kind}-{loss}-seed{self.seed}-epochs{self.epochs}"
        return MODELS / f"{name}.safetensors"

    @property
    def paths(self):
        """Return the files of the recipe by the row of the published tables that they stand for."""
        return {loss: self.path(loss) for loss in STAGES[self.loss]}

    @property
    def arguments(self):
        """Return what the network is made with."""
        task = task_of(self.world)
        objects = len(np.unique(task.actions.values[:, 0]))
        made = {"kind": self.kind, "objects": objects}
        made["choices"] = len(task.actions.values) // objects
        if hasattr(task, "colours"):
            made["colours"] = task.colours
        return made


@lru_cache(maxsize=2)
def transitions(world, episodes, *seed):
    """Return observations, actions, observations and rewards of random steps, [T, ...] each.

    Steps that would push one block into another are left out, as in the published data.
    """
    task, rng = task_of(world), np.random.default_rng([*seed, 33])
    states = task.reset(rng.integers(2**31, size=episodes))
    rows = []
    for _ in range(STEPS):
        actions = task.actions.values[rng.integers(len(task.actions.values), size=episodes)]
        after = task.step(states, actions)
        keep = np.ones(episodes, bool)
        if hasattr(task, "moved"):
            keep = ~task.moved(states, actions).is_invalid
        reward = torch.tensor(task.reward(after, actions))
        row = (seen(task, states), torch.tensor(actions), seen(task, after), reward)
        rows.append([part[keep] for part in row])
        states = after
    parts = [torch.cat(parts) for parts in zip(*rows, strict=True)]
    return [part.float() if part.is_floating_point() else part for part in parts]


def fit(model, loss, data, checked, *, epochs, title, at):
    """Fit a model by a loss of rows, and leave it with its best weights; goes on from a file.

    Returns the seconds of CPU that it took.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    epoch, best, kept, begun = 0, float("inf"), model.state_dict(), time.process_time()
    data, checked = ([part.to(DEVICE) for part in rows] for rows in (data, checked))
    if at.exists():
        saved = torch.load(at, weights_only=True)
        epoch, best, kept = saved["epoch"], saved["best"], saved["kept"]
        begun -= saved["seconds"]
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
    while epoch < epochs:
        # Of the epoch, so that what goes on draws what it would have drawn.
        torch.manual_seed(epoch)
        model.train()
        batches = torch.randperm(len(data[0])).split(BATCH)
        for number, rows in enumerate(batches):
            done = (epoch + (number + 1) / len(batches)) / epochs
            optimiser.param_groups[0]["lr"] = RATE * min(done / RISE, (1 - done) / (1 - RISE))
            optimiser.zero_grad()
            loss(model, *(part[rows] for part in data)).backward()
            optimiser.step()
        model.eval()
        epoch += 1
        with torch.no_grad():
            error = float(loss(model, *checked))
        if error < best:
            best = error
            kept = {name: weights.clone() for name, weights in model.state_dict().items()}
        state = {"epoch": epoch, "best": best, "kept": kept, "model": model.state_dict()}
        state["seconds"] = time.process_time() - begun
        at.parent.mkdir(exist_ok=True)
        torch.save({**state, "optimiser": optimiser.state_dict()}, at)
        print(f"{title}: epoch {epoch} of {epochs}, validation {error:.4g}", file=sys.stderr)
    model.load_state_dict(kept)
    return time.process_time() - begun


def train(recipe):
    """Return the files of a recipe by the row of the tables, trained where they are not there."""
    if all(path.exists() for path in recipe.paths.values()):
        return recipe.paths
    begun = time.process_time()
    torch.manual_seed(recipe.seed)
    model = Model(**recipe.arguments).to(DEVICE)
    data, checked = (
        transitions(recipe.world, episodes, recipe.seed, part)
        for part, episodes in enumerate((EPISODES, CHECKED))
    )
    # Of a world seen now and as it is wanted, dynamics are of the former.
    seen = [
        [model.seen(before)[0], actions, model.seen(after)[0]]
        for before, actions, after, _ in (data, checked)
    ]
    seconds = time.process_time() - begun
    for row, losses in STAGES[recipe.loss].items():
        path = recipe.path(row)
        parts = [path.with_suffix(f".{number}.pt") for number in range(len(losses) + 1)]
        for loss, at in zip(losses, parts, strict=False):
            title = f"{path.stem}, {loss.__name__}"
            seconds += fit(model, loss, *seen, epochs=recipe.epochs, title=title, at=at)
        encoded = []
        with torch.no_grad():
            for _, _, after, reward in (data, checked):
                rows = torch.linspace(0, len(after) - 1, min(len(after), REWARD_ROWS)).long()
                encoded.append([model.encode(after[rows].to(DEVICE)), reward[rows]])
        title = f"{path.stem}, reward"
        seconds += fit(model, rewards, *encoded, epochs=REWARD_EPOCHS, title=title, at=parts[-1])
        save_file(model.state_dict(), path, {"seconds": f"{seconds:.0f}"})
        write_side_file(path, recipe.arguments)
        seconds = 0.0
        for at in parts:
            at.unlink(missing_ok=True)
    return recipe.paths


def write_side_file(path, arguments):
    """Say beside the weights of which class they are, and how it is made."""
    values = ", ".join(
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
        for name, value in arguments.items()
    )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    path.with_suffix(".toml").write_text(
        f'# Weights {digest}\nclass = "networks:Model"\narguments = {{ {values} }}\n'
    )


def seconds(path):
    """Return how many seconds of CPU the weights in a file took, without rows before them."""
    with safe_open(path, "pt") as file:
        return int(file.metadata()["seconds"])


def load(path, arguments, rates="distance"):
    """Return the model in a file, which rates plans by "distance" or by its learned "reward"."""
    model = Model(**arguments, rates=rates)
    model.load_state_dict(load_file(path))
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--loss", choices=STAGES, default="contrastive")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=4)
    for path in train(Recipe(**vars(parser.parse_args()))).values():
        print(path)


if __name__ == "__main__":
    main()
