"""Results: what was run, a line of results.jsonl for each cell and seed."""

import dataclasses
import json
from pathlib import Path

from cells import CELLS

RESULTS = Path(__file__).parent / "results.jsonl"


def keep(name, seed, measured):
    """Add what one run has measured."""
    line = {"name": name, "seed": seed, "cell": dataclasses.asdict(CELLS[name]), **measured}
    with RESULTS.open("a") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def found():
    """Return what was run with the settings that cells have today, by name and seed."""
    results = {}
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else []:
        one = json.loads(line)
        name = one["name"]
        if name in CELLS and one["cell"] == dataclasses.asdict(CELLS[name]):
            results.setdefault(name, {})[one["seed"]] = one
    return {name: results[name] for name in CELLS if name in results}
