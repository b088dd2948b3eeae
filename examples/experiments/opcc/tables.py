"""Tables: what the grid found, as Markdown beside the published numbers: python tables.py"""

from pathlib import Path

import numpy as np
from cells import BASE, BODIES, CELLS, KINDS, MAZES, SEEDS, TABLES
from confidences import CONFIDENCES
from means import HORIZONS, any_run, by_horizon, complete, interval, label, number, values
from paper import PUBLISHED, against_paper, beside_paper, longer
from results import found

HERE = Path(__file__).parent
# Cells of every kind, for tables by horizon, by confidence and of the claims.
SOME = (
    "hopper-mixed-same",
    "halfcheetah-mixed-same",
    "walker2d-mixed-same",
    "hundred-same",
    "hopper-mixed",
    "hopper-medium",
    "hopper-random",
    "halfcheetah-mixed",
    "walker2d-mixed",
    "wide",
    "hopper-mixed-default",
    "wide-default",
    "hundred",
)
INTRODUCTION = f"""\
# Tables

Made by `grid.py`; README.md says what cells are, and what was found. A ± B is a mean over seeds
with its 95 % interval of Student's t; a seed decides transitions and training. There are
{len(SEEDS)} seeds, unless a row says how many. `-` is undefined, was not run or was not kept.
Answers and losses are those of PCI, unless it says EV. The name of a cell is its body, its data and
what is different: `-same` learns s' = s in 300 updates, `-same-longer` in 1 000; `mixed` stands for
the paper's medium-replay.

In the two tables that begin with `table` and `world` they are of EV, unless a row says PCI. A field
there has the paper's number, then ours, and `apart` if their intervals do not overlap, whatever
rounding took off the published. The paper's Table 1 is by kind of data; 3 to 7, 11 and 14 are means
of five kinds. Ours are of the same kinds, but for "mixed data alone". The paper's interval is 1.96
deviations over all runs of a row / √n; so is ours there, and in a mean of kinds, but of two runs it
is Student's t. A published half-width below .0005 is taken as .001, and one of .001 may be such:
then at least seven numbers more are apart, and all counts are the least. `1m` is the one kind of
data of Table 2. Ties: as published, EV of one half answers True, and a member whose returns are
equal votes for False; ours answers False, and such a member does not vote. Of 100 members the
baselines' rounding tells True from False at 8 of 50 leads of votes; ours, in the one
row of 100, does not.
"""


def write():
    """Write results.md."""
    (HERE / "results.md").write_text(written(found()))


def written(runs):
    """Return all tables, of the cells that were run."""
    parts = {
        "Learned with s' = s, beside Tables 3 and 4 of the paper: loss of EV": against_paper,
        "Beside the paper's other tables, with s' = s": beside_paper,
        "Longer training, with s' = s, on mixed data": longer,
        "Kinds of data: loss": lambda runs: by_kind(runs, "loss", "always a"),
        "Kinds of data: AUROC": lambda runs: by_kind(runs, "auroc"),
        "Kinds of data: coverage at risk .05": lambda runs: by_kind(runs, "coverage_at_risk"),
        "Kinds of model, on Hopper's mixed data": models,
        "Learning rate, of 10 members": learning_rates,
        "Members": members,
        "Horizons: loss": lambda runs: horizons(runs, "loss"),
        "Horizons: AUROC": lambda runs: horizons(runs, "auroc"),
        "Horizons: AURCC": lambda runs: horizons(runs, "aurcc"),
        "Confidences": confidences,
        "Operating points and CR_10": claims,
        "Mazes: loss": mazes,
        "Cost": costs,
    }
    sections = [f"## {title}\n\n{table(*part(runs))}" for title, part in parts.items()]
    return "\n".join([INTRODUCTION, *sections])


def table(head, rows, note=""):
    lines = (f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))
    return "".join(lines) + note


def by_kind(runs, metric, *more):
    """Return one metric for each kind of data and each body, of both targets."""
    rows, runs = [], complete(runs)
    for body in BODIES:
        for target, end in (("next", ""), ("same", "-same")):
            cells = [f"{body}-{kind}{end}" for kind in KINDS]
            row = [f"{body}, {target}"]
            row += [interval(values(runs, cell, "pci", metric)) for cell in cells]
            if more:
                known = [cell for cell in cells if cell in runs]
                row.append(number(any_run(runs, known[0])["always_a"] if known else None))
            rows.append(row)
    return ["body, target", *KINDS, *more], rows


def models(runs):
    """Return the metrics of every kind of model, and how its loss differs from the first's."""
    rows, base = [], runs.get(BASE, {})
    for cell in filter(runs.get, TABLES["models"]):
        loss = values(runs, cell, "pci", "loss")
        seeds = [seed for seed in runs[cell] if seed in base and cell != BASE]
        apart = [runs[cell][s]["pci"]["loss"] - base[s]["pci"]["loss"] for s in seeds]
        rows.append(
            [
                label(runs, cell),
                interval(loss),
                interval(apart),
                *(interval(values(runs, cell, name, "auroc")) for name in CONFIDENCES),
                interval(values(runs, cell, "pci", "aurcc"), 4),
                number(np.mean(loss) / 2 if loss else None, 4),
                interval(values(runs, cell, "pci", "coverage_at_risk")),
            ]
        )
    head = ["cell", "loss", f"less `{BASE}`", *(f"AUROC {name.upper()}" for name in CONFIDENCES)]
    return [*head, "AURCC PCI", "loss / 2", "coverage at risk .05"], rows


def learning_rates(runs):
    """Return what `train_ensemble`'s own rate does, beside a quarter of it."""
    rows = []
    for cell in TABLES["rate"]:
        for name in filter(runs.get, (cell.replace("-default", ""), cell)):
            row = [label(runs, name), f"{CELLS[name].learning_rate:g}"]
            row += [interval(values(runs, name, one, "loss")) for one in ("ev", "pci")]
            row += [interval(values(runs, name, one, "auroc")) for one in CONFIDENCES]
            row += [interval(values(runs, name, "pci", "aurcc"), 4)]
            rows.append([*row, interval(values(runs, name, "pci", "coverage_at_risk"))])
    head = [
        "cell",
        "rate",
        "loss EV",
        "loss PCI",
        *(f"AUROC {name.upper()}" for name in CONFIDENCES),
    ]
    return [*head, "AURCC PCI", "coverage at risk .05"], rows


def members(runs):
    """Return what more members do: each size has those of the smaller ones."""
    rows = []
    for cell in filter(runs.get, TABLES["members"]):
        for size in any_run(runs, cell)["sizes"]:
            of_size = [run["sizes"][size] for run in runs[cell].values()]
            row = [label(runs, cell), size]
            row += [interval([one[name]["loss"] for one in of_size]) for name in ("ev", "pci")]
            row += [interval([one[name]["auroc"] for one in of_size]) for name in CONFIDENCES]
            row += [interval([one["pci"]["aurcc"] for one in of_size], 4)]
            row += [interval([one["pci"]["points_to_half"] for one in of_size], 1)]
            row += [interval([one[name]["cr"] for one in of_size], 2) for name in ("ev", "pci")]
            rows.append(row)
    head = ["cell", "members", "loss EV", "loss PCI"]
    head += [f"AUROC {name.upper()}" for name in CONFIDENCES]
    return [*head, "AURCC PCI", "points in (0, .5] PCI", "CR_10 EV", "CR_10 PCI"], rows


def horizons(runs, metric):
    """Return one of the metrics by horizon, of some cells."""
    rows = []
    for cell in filter(runs.get, SOME):
        lists = [by_horizon(runs, cell, "pci", h, metric) for h in HORIZONS]
        rows.append([label(runs, cell), *map(interval, lists)])
    return ["cell", *HORIZONS], rows


def confidences(runs):
    """Return what each confidence is worth, of some cells."""
    metrics = ("loss", "auroc", "excess", "aurcc", "rpp", "coverage_at_risk", "regret")
    rows = [
        [label(runs, cell), name.upper(), *(interval(values(runs, cell, name, m)) for m in metrics)]
        for cell in filter(runs.get, SOME)
        for name in CONFIDENCES
    ]
    head = ["cell", "confidence", "loss", "AUROC", "excess AURC", "AURCC", "RPP"]
    return [*head, "coverage at risk .05", "regret"], rows


def claims(runs):
    """Return how many thresholds cover half or less, and CR_10 by our and the baselines' PCI."""
    rows = []
    for cell in filter(runs.get, SOME):
        row = [label(runs, cell)]
        row += [interval(values(runs, cell, n, "points_to_half"), 1) for n in CONFIDENCES]
        row += [interval(values(runs, cell, n, "cr"), 2) for n in CONFIDENCES]
        row += [interval(values(runs, cell, n, "cr_of_baselines"), 2) for n in ("ev", "pci")]
        rows.append(row)
    head = ["cell", *(f"points in (0, .5] {name.upper()}" for name in CONFIDENCES)]
    head += [f"CR_10 {name.upper()}" for name in CONFIDENCES]
    return [*head, "baselines' CR_10 EV", "baselines' CR_10 PCI"], rows


def mazes(runs):
    rows, runs = [], complete(runs)
    for maze in MAZES:
        row = [maze, number(PUBLISHED["2"][maze]["1m"]["loss"][0])]
        for cell in (f"{maze}-same", maze):
            row += [interval(values(runs, cell, name, "loss")) for name in ("ev", "pci")]
        rows.append([*row, interval(values(runs, maze, "pci", "auroc"))])
    head = ["maze", "published", "same, EV", "same, PCI", "next, EV", "next, PCI"]
    return [*head, "next, AUROC PCI"], rows


def costs(runs):
    """Return the CPU minutes of each table, and of one run in it."""
    rows = []
    for name, cells in TABLES.items():
        done = [run["cpu_seconds"] for cell in cells for run in runs.get(cell, {}).values()]
        spent = [sum(seconds.values()) for seconds in done]
        many = len(cells) * len(SEEDS)
        rows.append(
            [
                f"`{name}`",
                f"{len(spent)} of {many}",
                f"{sum(spent) / 60:.1f}",
                f"{min(spent):.0f} to {max(spent):.0f}" if spent else "-",
            ]
        )
    return ["table", "runs", "CPU minutes", "CPU s a run"], rows


if __name__ == "__main__":
    write()
