"""The recipe of the LeWM in models/, which sees the two rooms in pictures: python train_pictures.py

It draws 10 500 frames (four minutes of a processor) unless ``--data`` has them, and fits a LeWM on
a graphics processor where there is one, or in a minute of a processor. It stops by itself after
``--minutes``, and says how well latents tell places.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from lewm import Pictures, made, trained

MODELS = Path(__file__).parent / "models"
PIXELS = {"size": 64, "stack": 1}
EPISODES, STEPS, HOLD = 500, 20, 3
UPDATES = 1_000


def recorded(task, *, episodes=EPISODES, seed=0):
    """Return frames [N, T, H, W, 3] along random actions [N, T - 1, 2], and places [N, T, 2]."""
    rng = np.random.default_rng(seed)
    states = task.reset(rng.integers(2**31, size=episodes))
    drawn = task.actions.sample([rng], (episodes, -(-STEPS // HOLD)))[0]
    actions = drawn.repeat(HOLD, axis=1)[:, :STEPS].astype(np.float32)
    frames, places = [], []
    for step in range(STEPS + 1):
        frames.append(task.pictures(states)[:, -1])
        places.append(task.observe(states)[:, :2])
        if step < STEPS:
            states = task.step(states, actions[:, step])
    return {"frames": np.stack(frames, 1), "actions": actions, "places": np.stack(places, 1)}


def apart(model, frames, places):
    """Return how far apart pictures [N, T, ...] of the nearest latents are, in the median."""
    model.eval()
    with torch.no_grad():
        latents = model.encode({"pixels": frames})["emb"].flatten(0, 1)
    model.train()
    ways = torch.cdist(latents, latents).fill_diagonal_(torch.inf)
    places = places.reshape(-1, 2)
    nearest = places[ways.argmin(dim=1).cpu().numpy()]
    return float(np.median(np.linalg.norm(nearest - places, axis=1)))


def save(model, path):
    path.parent.mkdir(exist_ok=True)
    torch.save({name: part.cpu().half() for name, part in model.state_dict().items()}, path)


def load(path):
    """Return the LeWM in a file."""
    model = made(Pictures)
    halved = torch.load(path, weights_only=True)
    model.load_state_dict({name: part.float() for name, part in halved.items()})
    return model.eval()


def data_of(path):
    """Return recorded episodes: of a file, or drawn, and written there where it is named."""
    if path is None or not path.exists():
        # Imported here, as a machine that is given the data needs no environment.
        from test_two_room import rooms

        from pytest_cpg.tasks.pixel_task import seen_as_pixels

        data = recorded(seen_as_pixels(rooms(STEPS), **PIXELS))
        if path is not None:
            np.savez_compressed(path, **data)
        return data
    with np.load(path) as arrays:
        return dict(arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="an .npz that is read, or written")
    parser.add_argument("--out", type=Path, default=MODELS, help="a folder for checkpoints")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--updates", type=int, default=UPDATES)
    asked = parser.parse_args()
    data, begun = data_of(asked.data), time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    channels = np.moveaxis(data["frames"], -1, 2)
    frames, actions = (torch.tensor(array, device=device) for array in (channels, data["actions"]))
    learnt, unseen = slice(None, -50), slice(-50, None)
    said = {}

    def report(model, step, loss):
        if step % 250 == 0:
            passed = time.monotonic() - begun
            away = apart(model, frames[unseen], data["places"][unseen])
            said.update(step=step, seconds=passed, loss=loss.item(), away=away, device=device)
            print(json.dumps(said), flush=True)
            save(model, asked.out / "lewm.pt")
            (asked.out / "lewm.json").write_text(json.dumps(said))
            if passed > 60 * asked.minutes:
                raise TimeoutError

    try:
        trained(
            Pictures,
            frames[learnt],
            actions[learnt],
            steps=asked.updates,
            rate=2e-3,
            weight=0.02,
            report=report,
        )
    except TimeoutError:
        print(f"stopped after {asked.minutes:g} minutes")


if __name__ == "__main__":
    main()
