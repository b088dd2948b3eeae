"""The paper: its numbers beside ours, and whether the intervals of both overlap."""

import json
from pathlib import Path

import numpy as np
from cells import BODIES, KINDS, LONGER, MAZES, UPDATES
from confidences import CONFIDENCES
from means import (
    HORIZONS,
    any_run,
    by_horizon,
    complete,
    half_width,
    interval,
    label,
    number,
    values,
)

PUBLISHED = json.loads((Path(__file__).parent / "published.json").read_text())
# Members beyond our ten, of Tables 5 and 18.
SIZES = ("20", "40", "80", "100")
METRICS = {"loss": "loss", "aurcc": "AURCC", "rpp": "RPP", "cr": "baselines' CR_10"}
# The paper's tables of a change, of bodies and of mazes; its key there, and the end of our cells.
CHANGES = {
    "6": ("10", "prior of scale 5", "5", "-prior"),
    "7": ("13", "autoregressive", "autoregressive", "-autoregressive"),
    "11": ("12", "stochastic", "False", "-gaussian"),
    "14": ("15", "not normalised", "False", "-not-normalised"),
}
LEFT_OUT = """
Not run: more than ten members but on Hopper, and autoregressive networks in mazes, which both take
several times as long. RPP and CR_10 of Tables 3 and 17 were not kept by horizon. The defaults of
Tables 6, 7 and 10 to 15 repeat EV of Table 4, and Table 2, and have no row of their own.
"""


def against_paper(runs):
    """Return losses of cells that learn s' = s beside the published ones, by horizon."""
    rows = []
    for body in BODIES:
        published, cells = published_losses(body), [f"{body}-{kind}-same" for kind in KINDS]
        first = cells[0]
        if first not in runs:
            continue
        ours = ev_losses(runs, first)
        rows.append([f"{body}, published", *(number(published[key]) for key in ours)])
        rows += [
            [label(runs, cell), *map(interval, ev_losses(runs, cell).values())]
            for cell in (*cells, f"{first}-longer")
            if cell in runs
        ]
        apart = [interval(np.subtract(ours[key], published[key])) for key in ours]
        rows.append([f"`{first}` less published", *apart])
        if all(cell in complete(runs) for cell in cells):
            rows.append([f"{body}, mean of kinds", *map(interval, mean_of_kinds(runs, cells))])
        counts = any_run(runs, first)["queries"]
        counts = {"all": sum(counts.values()), **counts}
        losses = {key: np.mean(ours[key]) for key in ours}
        errors = [(loss * (1 - loss) / counts[key]) ** 0.5 for key, loss in losses.items()]
        rows.append(["standard error of so many queries", *map(number, errors)])
    return ["", "all", *HORIZONS], rows


def published_losses(body):
    """Return the published losses of EV, of all queries and by horizon."""
    by_horizon = {h: row["loss"][0] for h, row in PUBLISHED["3"][body].items()}
    return {"all": PUBLISHED["4"][body]["ev"]["loss"][0], **by_horizon}


def beside_paper(runs):
    """Return the paper's numbers beside ours, and whether both intervals overlap."""
    rows = []
    for table, world, key, setting, cells, part in counterparts():
        known = [cell for cell in cells if cell in runs]
        seeds = sorted(set.intersection(*(set(runs[cell]) for cell in known))) if known else []
        setting += " (mixed data alone)" * (len(cells) > len(known) == 1)
        row = [table, world, setting, str(len(seeds))]
        for metric in METRICS:
            ours = [[part(runs[cell][seed]).get(metric) for cell in known] for seed in seeds]
            row.append(beside(PUBLISHED[table][world][key][metric], ours))
        rows.append(row)
    return ["table", "world", "setting", "seeds", *METRICS.values()], rows, tally(rows) + LEFT_OUT


def tally(rows):
    """Return a line that counts the numbers which are apart, of bodies and of mazes."""
    parts = []
    for words, is_maze in (("on bodies", False), ("in mazes", True)):
        there = [row[4:] for row in rows if row[1].startswith("maze") == is_maze]
        losses, numbers = [row[0] for row in there], [field for row in there for field in row]
        parts.append(f"{of_known(losses)} losses and {of_known(numbers)} numbers {words}")
    return f"\nApart are {', '.join(parts)}.\n"


def of_known(fields):
    """Say how many of the fields that were run are apart."""
    known = [field for field in fields if not field.endswith("-")]
    return f"{sum(field.endswith('apart') for field in known)} of {len(known)}"


def counterparts():
    """Yield table, world, key and setting of published numbers, our cells, and their part."""
    for body in BODIES:
        cells = [f"{body}-{kind}-same" for kind in KINDS]
        for kind, cell in zip(KINDS, cells, strict=True):
            key = kind.replace("mixed", "medium-replay")
            yield "1", body, key, key, [cell], of_confidence("ev")
        for horizon in HORIZONS:
            yield "3", body, horizon, f"horizon {horizon}", cells, at_horizon(horizon)
        for name in CONFIDENCES:
            yield "4", body, name, name.upper(), cells, of_confidence(name)
        yield "5", body, "10", "10 members", cells, of_confidence("ev")
        many = ["hundred-same"] if body == "hopper" else []
        for size in SIZES:
            setting = f"{size} members" + " (mixed data alone)" * len(many)
            yield "5", body, size, setting, many, of_size(size)
        for table, (_, change, key, end) in CHANGES.items():
            yield table, body, key, change, [c + end for c in cells], of_confidence("ev")
    for maze in MAZES:
        cell = f"{maze}-same"
        yield "2", maze, "1m", "1m", [cell], of_confidence("ev")
        for table, change, key, end in CHANGES.values():
            yield table, maze, key, change, [cell + end], of_confidence("ev")
        for name in CONFIDENCES if maze in PUBLISHED["16"] else ():
            yield "16", maze, name, name.upper(), [cell], of_confidence(name)
        for horizon in HORIZONS[1:]:
            yield "17", maze, horizon, f"horizon {horizon}", [cell], at_horizon(horizon)
        for size in ("10", *SIZES):
            only = [cell] if size == "10" else []
            yield "18", maze, size, f"{size} members", only, of_confidence("ev")


def longer(runs):
    """Return what does not reproduce, after 300 updates and more, beside the published numbers."""
    rows = []
    for body in BODIES:
        for table, (_, words, key, end) in CHANGES.items():
            if end.removeprefix("-") not in LONGER:
                continue
            cell = f"{body}-mixed-same{end}"
            for updates, name in ((300, cell), *((n, f"{cell}-{n}") for n in UPDATES)):
                if name not in runs:
                    continue
                row = [table, body, words, str(updates), str(len(runs[name]))]
                for metric in METRICS:
                    part = of_confidence("ev")
                    ours = [[part(run).get(metric)] for run in runs[name].values()]
                    row.append(beside(PUBLISHED[table][body][key][metric], ours))
                rows.append(row)
    return ["table", "world", "setting", "updates", "seeds", *METRICS.values()], rows


def of_confidence(name):
    """Return what reads a run: CR_K as the baselines compute it, whose numbers the paper has."""
    return lambda run: {**run[name], "cr": run[name]["cr_of_baselines"]}


def of_size(size):
    return lambda run: of_confidence("ev")(run["sizes"][size])


def at_horizon(horizon):
    return lambda run: run["ev"]["horizons"][horizon]


def beside(published, ours):
    """Return a published number, and the mean of ours [seeds][cells] with its interval."""
    mean, half = published
    if not ours or any(value is None for values in ours for value in values):
        return f"{mean:.3f}, -"
    seeds = np.mean(ours, axis=1)
    reach = half + (half_width(seeds) if len(seeds) > 1 else 0)
    is_apart = bool(abs(mean - seeds.mean()) > reach)
    return f"{mean:.3f}, {interval(seeds)}" + ", apart" * is_apart


def ev_losses(runs, cell):
    """Return the losses of EV by horizon, of each seed."""
    losses = {"all": values(runs, cell, "ev", "loss")}
    for key in HORIZONS:
        losses[key] = by_horizon(runs, cell, "ev", key, "loss")
    return losses


def mean_of_kinds(runs, cells):
    return np.mean([list(ev_losses(runs, cell).values()) for cell in cells], axis=0)
