"""Tables: what the grid found, as Markdown beside the published numbers: python tables.py"""

import json
from pathlib import Path

import numpy as np
from cells import BASE, BODIES, CELLS, KINDS, LONGER, MAZES, SEEDS, TABLES, UPDATES
from confidences import CONFIDENCES
from results import found

from pytest_cpg.stats.intervals import student_critical_value

HERE = Path(__file__).parent
PUBLISHED = json.loads((HERE / "published.json").read_text())
HORIZONS = ("10", "20", "30", "40", "50")
METRICS = {"loss": "loss", "aurcc": "AURCC", "rpp": "RPP", "cr": "CR_10"}
# The paper's tables of a change, of bodies and of mazes; its key there, and the end of our cells.
CHANGES = {
    "6": ("10", "prior of scale 5", "5", "-prior"),
    "7": ("13", "autoregressive", "autoregressive", "-autoregressive"),
    "11": ("12", "stochastic", "False", "-gaussian"),
    "14": ("15", "not normalised", "False", "-not-normalised"),
}
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

Made by `grid.py`; README.md says what cells are, and what was found. A ± B is the mean of
{len(SEEDS)} seeds with its 95 % interval of Student's t; a seed decides transitions and training.
Answers and losses are those of PCI, unless it says EV. `-` is undefined, or was not run.
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


def table(head, rows):
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


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
    for number, world, key, setting, cells, part in counterparts():
        known = [cell for cell in cells if cell in runs]
        if not known:
            continue
        row = [number, world, setting + " (mixed data alone)" * (len(cells) > len(known) == 1)]
        for metric in METRICS:
            seeds = sorted(set.intersection(*(set(runs[cell]) for cell in known)))
            ours = [[part(runs[cell][seed]).get(metric) for cell in known] for seed in seeds]
            row.append(beside(PUBLISHED[number][world][key][metric], ours))
        rows.append(row)
    return ["table", "world", "setting", *METRICS.values()], rows


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
        if body == "hopper":
            for size in ("20", "40", "80", "100"):
                setting = f"{size} members (mixed data alone)"
                yield "5", body, size, setting, ["hundred-same"], of_size(size)
        for number, (_, change, key, end) in CHANGES.items():
            yield number, body, key, change, [c + end for c in cells], of_confidence("ev")
    for maze in MAZES:
        cell = f"{maze}-same"
        yield "2", maze, "1m", "1m", [cell], of_confidence("ev")
        for number, change, key, end in CHANGES.values():
            yield number, maze, key, change, [cell + end], of_confidence("ev")
        for name in CONFIDENCES if maze in PUBLISHED["16"] else ():
            yield "16", maze, name, name.upper(), [cell], of_confidence(name)
        for horizon in HORIZONS[1:]:
            yield "17", maze, horizon, f"horizon {horizon}", [cell], at_horizon(horizon)
        yield "18", maze, "10", "10 members", [cell], of_confidence("ev")


def longer(runs):
    """Return what does not reproduce, after 300 updates and more, beside the published numbers."""
    rows = []
    for body in BODIES:
        for number, (_, words, key, end) in CHANGES.items():
            if end.removeprefix("-") not in LONGER:
                continue
            cell = f"{body}-mixed-same{end}"
            for updates, name in ((300, cell), *((n, f"{cell}-{n}") for n in UPDATES)):
                if name not in runs:
                    continue
                row = [number, body, words, str(updates)]
                for metric in METRICS:
                    part = of_confidence("ev")
                    ours = [[part(run).get(metric)] for run in runs[name].values()]
                    row.append(beside(PUBLISHED[number][body][key][metric], ours))
                rows.append(row)
    return ["table", "world", "setting", "updates", *METRICS.values()], rows


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


def complete(runs):
    """Return the cells that were run with every seed."""
    return {cell: seeds for cell, seeds in runs.items() if len(seeds) == len(SEEDS)}


def label(runs, cell):
    """Return the name of a cell, and how many of its seeds were run where some were not."""
    count = len(runs[cell])
    return f"`{cell}`" if count == len(SEEDS) else f"`{cell}`, {count} of {len(SEEDS)} seeds"


def any_run(runs, cell):
    return next(iter(runs.get(cell, {}).values()), {})


def by_horizon(runs, cell, confidence, horizon, metric):
    return [run[confidence]["horizons"][horizon][metric] for run in runs.get(cell, {}).values()]


def values(runs, cell, confidence, metric):
    """Return a metric of each seed; none where the cell was not run."""
    return [run[confidence][metric] for run in runs.get(cell, {}).values()]


def interval(given, digits=3):
    """Return the mean over seeds and its interval, as text."""
    given = list(given)
    if not given or any(value is None for value in given):
        return "-"
    mean = float(np.mean(given))
    if len(given) < 2:
        return number(mean, digits)
    return f"{number(mean, digits)} ± {number(half_width(given), digits)}"


def half_width(given):
    """Return half the length of the interval of a mean over seeds."""
    t = student_critical_value(0.95, freedom=len(given) - 1)
    return t * float(np.std(given, ddof=1)) / len(given) ** 0.5


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    write()
