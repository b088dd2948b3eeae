"""Tables: what the grid found, as Markdown beside the published numbers."""

import json
from pathlib import Path

import numpy as np

from pytest_cpg.stats.student import student_critical_value

PUBLISHED = json.loads((Path(__file__).parent / "published.json").read_text())
HORIZONS = ("10", "20", "30", "40", "50")


def written(found):
    """Return all tables, of the cells that were run."""
    return "\n".join(
        [
            "Made by `grid.py`; README.md says what cells are. Losses are those of PCI answers,",
            "unless it says EV. Of several groups of ten members: mean and 95 % interval of",
            "Student's t, which is about training alone, as all share their transitions.",
            "",
            "## Against the paper: learned with s' = s",
            "",
            *against_paper(found),
            "",
            "## Settings",
            "",
            *settings(found),
            "",
            "## Horizons",
            "",
            *horizons(found),
            "",
            "## Members",
            "",
            *sizes(found),
            "",
        ]
    )


def table(head, rows):
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def against_paper(found):
    """Return the losses of cells that learn s' = s beside the published ones, by horizon."""
    rows = []
    for name, cell in found.items():
        environment = cell["cell"]["environment"]
        published = PUBLISHED["loss"].get(environment)
        if cell["cell"]["target"] != "same" or published is None:
            continue
        ours = cell["all"]["ev"]
        losses = {"all": ours["loss"], **ours["horizons"]}
        keys = ("all", *HORIZONS)
        rows.append([f"{environment}, published", *(number(published.get(key)) for key in keys)])
        rows.append([f"`{name}`, EV", *(number(losses.get(key)) for key in keys)])
        apart = [published[key] - losses[key] for key in keys if key in published and key in losses]
        rows.append([f"largest difference: {max(map(abs, apart)):.3f}", *[""] * len(keys)])
    return table(["", "all", *HORIZONS], rows)


def settings(found):
    """Return every cell's metrics with their intervals."""
    rows = []
    for name, cell in found.items():
        rows.append(
            [
                f"`{name}`",
                str(len(cell["groups"])),
                interval(cell, "pci", "loss"),
                interval(cell, "ev", "auroc"),
                interval(cell, "pci", "auroc"),
                interval(cell, "u-pci", "auroc"),
                interval(cell, "pci", "aurcc", digits=4),
                number(half_the_loss(cell), 4),
                interval(cell, "pci", "rpp", digits=4),
                interval(cell, "ev", "cr", digits=2),
                interval(cell, "pci", "cr", digits=2),
                interval(cell, "pci", "coverage_at_risk", digits=2),
                f"{cell['cpu_seconds']['training']:.0f} + {cell['cpu_seconds']['answering']:.0f}",
            ]
        )
    head = ["cell", "groups", "loss", "AUROC EV", "AUROC PCI", "AUROC U-PCI", "AURCC PCI"]
    head += ["loss / 2", "RPP PCI", "CR_10 EV", "CR_10 PCI", "coverage at risk .05"]
    return table([*head, "CPU s, training + answering"], rows)


def horizons(found):
    rows = []
    for name, cell in found.items():
        lists = [group["pci"]["horizons"] for group in cell["groups"]]
        rows.append(
            [
                f"`{name}`",
                *(
                    number(np.mean([one[key] for one in lists])) if key in lists[0] else "-"
                    for key in HORIZONS
                ),
            ]
        )
    return table(["cell", *HORIZONS], rows)


def sizes(found):
    """Return what more members do: each size has those of the smaller ones."""
    rows = []
    for name, cell in found.items():
        for size, metrics in cell["sizes"].items():
            if len(cell["sizes"]) > 1:
                values = (number(metrics[key]) for key in ("loss", "auroc", "aurcc"))
                rows.append([f"`{name}`", size, *values])
    return table(["cell", "members", "loss", "AUROC PCI", "AURCC PCI"], rows)


def half_the_loss(cell):
    return np.mean([group["pci"]["loss"] for group in cell["groups"]]) / 2


def interval(cell, confidence, metric, digits=3):
    """Return the mean over groups and its interval, as text."""
    values = [group[confidence][metric] for group in cell["groups"]]
    if any(value is None for value in values):
        return "undefined"
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return number(mean, digits)
    t = student_critical_value(0.95, freedom=count - 1)
    half = t * float(np.std(values, ddof=1)) / count**0.5
    return f"{number(mean, digits)} ± {number(half, digits)}"


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"
