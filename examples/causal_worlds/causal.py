"""Train models of causal worlds, measure them and write results/: python causal.py

What has been trained and measured is not done again, so that it goes on where it was stopped:
remove results/found.json to measure all of it on another machine.
"""

import argparse
import json
import os
import platform
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import torch
import train
from baselines import baselines
from measure import HORIZONS, QUERIES, confused, planning, retrieval
from tables import write
from train import Recipe, load, task_of

RESULTS = Path(__file__).parent / "results"
FOUND = RESULTS / "found.json"
HALF = 1
# With a GPU, so many times as long.
TIMES = 1 if train.DEVICE.type == "cpu" else 10
WHOLE = {"ae": 4, "gnn": 4, "modular": 6}
# Of each stage of NLL.
STAGE = {"ae": 10, "vae": 6, "gnn": 4, "modular": 6}
KINDS = "modular", "ae", "gnn"
SETTINGS = "fixed-unobserved", "unobserved"


def recipe(world, kind, epochs=None, **more):
    return Recipe(world, kind, epochs=TIMES * (epochs or WHOLE[kind]), **more)


# In the order in which they are run: first what answers most.
RECIPES = [
    *(
        recipe("blocks:3", kind, epochs, seed=seed)
        for seed in (0, 1, 2)
        for kind in KINDS
        for epochs in (WHOLE[kind], HALF)
    ),
    # Longer, it is worse at what actions do.
    recipe("blocks:3", "ae", 10),
    *(recipe("blocks:3", kind, epochs, loss="nll") for kind, epochs in STAGE.items()),
    *(recipe(f"blocks:3-{setting}", kind) for setting in SETTINGS for kind in KINDS),
    *(
        recipe(f"chemistry:{graph}", kind, 2)
        for graph in ("collider5", "collider5-dynamic", "chain5", "full5")
        for kind in ("modular", "ae")
    ),
    # By how surely causes decide.
    *(recipe(f"chemistry:chain5,gain={gain}", "modular", 2) for gain in (1, 8)),
    *(recipe("blocks:5", kind) for kind in KINDS),
    *(recipe(f"blocks:5-{setting}", "modular") for setting in SETTINGS),
]


def worlds(trained):
    """Return where a model is measured: in its own world, some also with shades drawn anew."""
    shown = [recipe(world, kind) for world in ("blocks:3", "blocks:5") for kind in KINDS]
    return [trained.world, *[f"{trained.world}-zero-shot"] * (trained in shown)]


def measured(trained, row, path, world):
    """Return a checkpoint's row: what it predicts in a world, and what is solved with it."""
    begun = time.process_time()
    model = load(path, trained.arguments)
    ranks = retrieval(world, model)
    strata = ("all", "contact", "push") if world.startswith("blocks:") else ("all",)
    shares = {}
    for stratum in strata:
        interval = confused(task_of(world), model, stratum).result.found
        shares[stratum] = [interval.estimate, interval.low, interval.high]
    solved = []
    for k in HORIZONS:
        for rates in ("distance", "reward"):
            model.rates = rates
            # As published by rewards alone; one step is the same, unseen or not.
            for is_open in (False, True) if rates == "reward" and k > 1 else (False,):
                gate = planning(task_of(world, k=k), model, is_open=is_open)
                arms = (gate.oracle, gate.rescored, gate.learned, gate.chance)
                counts = [None if arm is None else arm.success_count for arm in arms]
                cell = {"k": k, "rates": rates, "open": is_open, "solved": counts}
                solved.append({**cell, "episodes": gate.learned.episodes, "says": gate.label})
    return {
        **asdict(trained),
        "world": world,
        "loss": row,
        "is_half": trained.epochs == HALF * TIMES,
        "trained": train.seconds(path) if world == trained.world else 0,
        "measured": round(time.process_time() - begun),
        "hits": {f"{who} {k}": int((seen == 1).sum()) for (k, who), seen in ranks.items()},
        "mrr": {f"{who} {k}": float((1 / seen).mean()) for (k, who), seen in ranks.items()},
        "queries": QUERIES,
        "confused": shares,
        "planning": solved,
    }


def save(found):
    """Write what was found, and its tables."""
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, one thread, {train.DEVICE}"
    found["date"] = f"{datetime.now(UTC):%Y-%m-%d}"
    RESULTS.mkdir(exist_ok=True)
    FOUND.write_text(json.dumps(found, indent=1) + "\n")
    write(found, RESULTS)


def run(trained, found):
    """Train the models of a recipe and measure them, as far as that is not done."""
    rows = found.setdefault("rows", {})
    for row, path in trained.paths.items():
        for world in worlds(trained):
            key = path.stem if world == trained.world else f"{path.stem} in {world}"
            if key not in rows:
                train.train(trained)
                rows[key] = measured(trained, row, path, world)
                print(f"{key}, measured in {rows[key]['measured']} s of CPU", flush=True)
                save(found)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    if "baselines" not in found:
        found["baselines"] = {**baselines(), "measured": round(time.process_time())}
        save(found)
    for each in RECIPES:
        run(each, found)
    write(found, RESULTS)


if __name__ == "__main__":
    main()
