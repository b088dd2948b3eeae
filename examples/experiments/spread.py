"""Cells of an experiment, spread over processes of one thread each, and what each found kept.

A run that was broken off, or stopped by its time, goes on where it was.
"""

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path

HERE = Path(__file__).parent
# What cells share: transitions and arms, made once.
COLLECTED = HERE / "collected"


def parsed(description):
    """Return the options that every such experiment has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--minutes", type=float, default=600, help="stop after so many")
    parser.add_argument("--results", type=Path, help="the JSON file (default results/NAME.json)")
    parser.add_argument("--tables", action="store_true", help="run nothing, write table and figure")
    parser.add_argument("--tiny", action="store_true", help="a trial of a minute")
    return parser.parse_args()


def run(measure, cells, *, jobs, until):
    """Yield cells with what they were found to be, in any order, until a time is over."""
    if not cells:
        return
    # Before numpy and torch are imported there.
    os.environ["OMP_NUM_THREADS"] = "1"
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        found = pool.imap_unordered(measure, cells)
        for _ in cells:
            try:
                yield found.next(timeout=max(0, until - time.monotonic()))
            except multiprocessing.TimeoutError:
                print("time is over", flush=True)
                return
            # A cell that went wrong is missing, and tried again by the next run.
            except Exception as error:
                print(f"{type(error).__name__}: {error}", flush=True)


def results_of(path, measure, cells, *, jobs, until):
    """Return all that is found, run what is missing, and write the file after each cell."""
    path.parent.mkdir(exist_ok=True, parents=True)
    found = json.loads(path.read_text()) if path.exists() else []
    done = [row["cell"] for row in found]
    missing = [cell for cell in cells if cell not in done]
    print(f"{len(missing)} of {len(cells)} cells to run", flush=True)
    for row in run(measure, missing, jobs=jobs, until=until):
        found.append(row)
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(found, indent=1) + "\n")
        partial.replace(path)
        print(f"{len(found)}/{len(cells)} {row}", flush=True)
    return found
