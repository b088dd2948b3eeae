"""Train ensembles, and write how they answer: python grid.py NAME --data FOLDER

FOLDER holds the published queries, as convert.py writes them. Each cell of a table
is run with five seeds, or as many as --seeds says, which decide its transitions and its training.
What results.jsonl has is not run again, so that Ctrl-C costs one run; results.md has the tables.

"""

import argparse
import dataclasses
import textwrap
import time

import numpy as np
import recipes
import tables
from cells import CELLS, SEEDS, TABLES
from grading import by_size, graded, rounded
from results import found, keep
from worlds import published_queries, rule_of

from pytest_cpg.gates.policy_comparison.answers import imagined_returns
from pytest_cpg.world_models import ClipBounds, bind_ensemble, show_progress, train_ensemble

TRANSITIONS = 50_000
# Of how many members a large ensemble is graded.
SIZES = range(10, 101, 10)


def main():
    lists = (f"{name:8} {', '.join(cells)}" for name, cells in TABLES.items())
    known = "\n".join(
        textwrap.fill(one, 80, subsequent_indent=" " * 9, break_on_hyphens=False) for one in lists
    )
    parser = argparse.ArgumentParser(
        description=__doc__ + known, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a table or a cell; all, if none")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="of the published queries")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), metavar="N", help="of each cell")
    options = parser.parse_args()
    names = options.names or list(TABLES)
    for name in names:
        if name not in TABLES and name not in CELLS:
            parser.error(f"no table or cell {name!r}. See --help.")
    wanted = [cell for name in names for cell in TABLES.get(name, [name])]
    try:
        run_all(wanted, options.data, SEEDS[: options.seeds])
    finally:
        tables.write()


def run_all(names, folder, seeds):
    """Run what results.jsonl lacks, one data set after the other."""
    known = found()
    runs = [(name, seed) for name in dict.fromkeys(names) for seed in seeds]
    missing = [(name, seed) for name, seed in runs if seed not in known.get(name, {})]
    missing.sort(key=lambda run: (CELLS[run[0]].environment, CELLS[run[0]].recipe, run[1]))
    for done, (name, seed) in enumerate(missing):
        print(f"{done} of {len(missing)} runs done; {name}, seed {seed}", flush=True)
        keep(name, seed, run(CELLS[name], seed, folder))


def run(cell, seed, folder):
    """Return what an ensemble of these settings answers."""
    queries = published_queries(cell.environment, folder)
    data = recipes.collected(queries, cell.recipe, TRANSITIONS, seed)
    start = time.process_time()
    model = trained(cell, data, seed)
    fitted = time.process_time()
    bound = bind_ensemble(
        model,
        observations=queries.observations_a[:8],
        actions=queries.actions_a[:8],
        terminated=rule_of(cell.environment),
    )
    sides = imagined_returns(bound, queries, progress=lambda *_: None)
    answered = time.process_time()
    counted = np.unique(queries.horizons, return_counts=True)
    sizes = [size for size in SIZES if size <= cell.members]
    return {
        "cpu_seconds": {
            "training": round(fitted - start, 1),
            "answering": round(answered - fitted, 1),
        },
        "always_a": rounded(queries.labels.mean()),
        "queries": {str(h): int(n) for h, n in zip(*counted, strict=True)},
        **graded(sides, queries),
        "sizes": by_size(sides, queries, sizes) if len(sizes) > 1 else {},
    }


def trained(cell, data, seed):
    """Return the ensemble of a cell."""
    learned = data
    if cell.target == "same":
        learned = dataclasses.replace(data, next_observations=data.observations)
    model = train_ensemble(
        learned,
        seed=seed,
        members=cell.members,
        updates=cell.updates,
        hidden=cell.hidden,
        learning_rate=cell.learning_rate,
        progress=show_progress,
        **(cell.training or {}),
    )
    bounds = ClipBounds.of(data)
    if cell.bounds == "before":
        bounds = dataclasses.replace(
            bounds, low=data.observations.min(axis=0), high=data.observations.max(axis=0)
        )
    clip_bounds = None if cell.bounds == "none" else bounds
    return dataclasses.replace(model, clip_bounds=clip_bounds, draws=cell.draws)


if __name__ == "__main__":
    main()
