"""Train models of causal worlds, measure them and write results/: python causal.py

What has been trained and measured is not done again, so that it goes on where it was stopped.
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
from baselines import baselines
from measure import HORIZONS, QUERIES, confused, planning, retrieval
from tables import write
from train import Recipe, load, task_of, train

RESULTS = Path(__file__).parent / "results"
FOUND = RESULTS / "found.json"
HALF = 1
WHOLE = {"ae": 4, "vae": 4, "gnn": 4, "modular": 6}
KINDS = "ae", "gnn", "modular"


def whole(world, kind, **more):
    return Recipe(world, kind, epochs=WHOLE[kind], **more)


# In the order in which they are run: first what answers most.
RECIPES = [
    *(Recipe("blocks:3", kind, epochs=HALF) for kind in ("modular", "ae")),
    *(whole("blocks:3", kind) for kind in KINDS[::-1]),
    Recipe("blocks:3", "gnn", epochs=HALF),
    *(Recipe(f"chemistry:collider5{places}", "ae", epochs=2) for places in ("", "-dynamic")),
    *(whole("blocks:3", kind, seed=seed) for seed in (1, 2) for kind in KINDS),
    *(
        Recipe(f"chemistry:{graph}5", "modular", epochs=2)
        for graph in ("collider", "chain", "full")
    ),
    *(whole("blocks:3", kind, loss="nll") for kind in ("ae", "vae")),
    *(whole("blocks:5", kind) for kind in KINDS),
    *(whole("blocks:3-fixed-unobserved", kind) for kind in ("ae", "modular")),
]


def measured(recipe, row, path):
    """Return a checkpoint's row: what it predicts, and what is solved with it."""
    model = load(path, recipe.arguments)
    ranks = retrieval(recipe.world, model)
    strata = ("all", "contact", "push") if recipe.world.startswith("blocks:") else ("all",)
    shares = {}
    for stratum in strata:
        interval = confused(task_of(recipe.world), model, stratum).result.found
        shares[stratum] = [interval.estimate, interval.low, interval.high]
    solved = []
    for k in HORIZONS:
        for rates in ("distance", "reward"):
            model.rates = rates
            # As published by rewards alone; one step is the same, unseen or not.
            for is_open in (False, True) if rates == "reward" and k > 1 else (False,):
                gate = planning(task_of(recipe.world, k=k), model, is_open=is_open)
                arms = (gate.oracle, gate.rescored, gate.learned, gate.chance)
                counts = [None if arm is None else arm.success_count for arm in arms]
                cell = {"k": k, "rates": rates, "open": is_open, "solved": counts}
                solved.append({**cell, "episodes": gate.learned.episodes, "says": gate.label})
    return {
        **asdict(recipe),
        "loss": row,
        "hits": {f"{who} {k}": int((seen == 1).sum()) for (k, who), seen in ranks.items()},
        "mrr": {f"{who} {k}": float((1 / seen).mean()) for (k, who), seen in ranks.items()},
        "queries": QUERIES,
        "confused": shares,
        "planning": solved,
    }


def save(found):
    """Write what was found, and its tables."""
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, one thread"
    found["date"] = f"{datetime.now(UTC):%Y-%m-%d}"
    RESULTS.mkdir(exist_ok=True)
    FOUND.write_text(json.dumps(found, indent=1) + "\n")
    write(found, RESULTS)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    if "baselines" not in found:
        found["baselines"] = baselines()
        save(found)
    rows = found.setdefault("rows", {})
    for recipe in RECIPES:
        for row, path in train(recipe).items():
            if path.stem not in rows:
                begun = time.process_time()
                rows[path.stem] = measured(recipe, row, path)
                print(f"{path.stem}, measured in {time.process_time() - begun:.0f} s of CPU")
                save(found)


if __name__ == "__main__":
    main()
