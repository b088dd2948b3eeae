"""Plots: what results.jsonl holds, as SVG beside the published numbers: python plots.py

With --data FOLDER, of the published queries, their returns are drawn, too.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cells import BODIES, KINDS
from confidences import CONFIDENCES
from grading import COVERAGES
from means import HORIZONS, by_horizon, half_width, values
from paper import PUBLISHED, losses_of_kinds, published_losses
from results import found
from worlds import WORLDS, published_queries

HERE = Path(__file__).parent
# The figures of the other experiments.
sys.path.append(str(HERE.parent))
from figures import INK, LEARNED, ORACLE, box, dot, drawn, line, text

GREEN = "#3f9a4f"
TITLES = dict(zip(BODIES, ("Hopper", "HalfCheetah", "Walker2d"), strict=True))
OF_CONFIDENCE = dict(zip(CONFIDENCES, (ORACLE, LEARNED, GREEN), strict=True))
SIZES = [str(size) for size in range(10, 101, 10)]


@dataclass(frozen=True)
class Panel:
    """A rectangle with its axes, in the figure's own units.

    Attributes
    ----------
    left, top, width, height : float
    across : list of str
        What stands below, from left to right.
    most : float
        Value at the top; 0 is at the foot.
    """

    left: float
    top: float
    width: float
    height: float
    across: list
    most: float
    least: float = 0.0

    def at(self, place):
        return self.left + self.width * (place + 0.5) / len(self.across)

    def up(self, value):
        share = (value - self.least) / (self.most - self.least)
        return self.top + self.height * (1 - share)

    def axes(self, title, *, step, every=1, foot=""):
        """Return the title, a line with its number at every step, and what stands below."""
        marks = [text(self.left, self.top - 10, title)]
        for level in np.arange(self.least, self.most + step / 2, step):
            y = self.up(level)
            marks.append(line(self.left, y, self.left + self.width, y, width=0.4))
            marks.append(text(self.left - 5, y + 4, f"{level:.3f}".rstrip("0").rstrip("."), "end"))
        below = self.top + self.height + 16
        for place, name in enumerate(self.across):
            if place % every == every - 1:
                marks.append(text(self.at(place), below, name, "middle"))
        return [*marks, text(self.left + self.width / 2, below + 16, foot, "middle")]

    def series(self, lists, colour, *, shift=0.0, joined=True):
        """Return means over seeds with their intervals; a list of seeds for each place."""
        marks, last = [], None
        for place, seeds in enumerate(lists):
            if not seeds or None in seeds:
                last = None
                continue
            x, mean = self.at(place + shift), float(np.mean(seeds))
            half = half_width(seeds) if len(seeds) > 1 else 0.0
            low, high = (
                self.up(min(max(e, self.least), self.most)) for e in (mean - half, mean + half)
            )
            marks += [line(x, low, x, high, colour), dot(x, self.up(mean), colour)]
            if joined and last is not None:
                marks.append(line(*last, x, self.up(mean), colour, 1.5))
            last = x, self.up(mean)
        return marks


def key(x, y, names):
    """Return a line of names, each behind its colour."""
    marks = []
    for name, colour in names.items():
        marks += [box(x, y - 10, 11, 11, colour), text(x + 16, y, name)]
        x += 34 + 6.6 * len(name)
    return marks


def horizons(runs):
    """Draw the loss of EV by horizon, published, learned with s' = s, and as it should be.

    All are means over the runs of five kinds of data, as the published ones are.
    """
    names = {"published (Table 3)": INK, "ours, s' = s": LEARNED, "ours, true s'": ORACLE}
    marks = key(40, 18, names)
    for number, body in enumerate(BODIES):
        panel = Panel(40 + 230 * number, 62, 195, 190, HORIZONS, 0.5)
        marks += panel.axes(f"{TITLES[body]}: loss of EV", step=0.1, foot="horizon")
        marks += panel.series([[published_losses(body)[h]] for h in HORIZONS], INK)
        for end, colour, shift in (("-same", LEARNED, 0.12), ("", ORACLE, 0)):
            losses = losses_of_kinds(runs, [f"{body}-{kind}{end}" for kind in KINDS])
            marks += panel.series([losses[h] for h in HORIZONS], colour, shift=shift)
    return drawn(300, marks)


def curves(runs):
    """Draw risk against coverage, of each confidence and of a constant one."""
    names = {name.upper(): colour for name, colour in OF_CONFIDENCE.items()}
    marks = key(40, 18, {**names, "a constant confidence": INK})
    cells = {
        "hopper-mixed-same": "s' = s",
        "hopper-random-default": "random data",
        "hopper-mixed-default": "mixed data",
    }
    across = [f"{coverage:g}" for coverage in COVERAGES.round(2)]
    for number, (cell, title) in enumerate(cells.items()):
        most, step = ((0.6, 0.1), (0.6, 0.1), (0.06, 0.01))[number]
        panel = Panel(40 + 230 * number, 62, 195, 190, across, most)
        marks += panel.axes(f"Hopper, {title}: risk", step=step, every=5, foot="coverage")
        loss = float(np.mean(values(runs, cell, "pci", "loss")))
        ends = panel.at(0), panel.up(COVERAGES[0] * loss), panel.at(len(across) - 1), panel.up(loss)
        marks.append(line(*ends, INK, 2))
        for name, colour in OF_CONFIDENCE.items():
            kept = [run[name] for run in runs.get(cell, {}).values()]
            # Runs of before have none.
            seeds = [one["risks"] for one in kept if "risks" in one]
            marks += panel.series([list(one) for one in zip(*seeds, strict=True)], colour)
    return drawn(300, marks)


# What a change is called, the end of its cells, its place in the paper's tables, and its colour.
# The last two are drawn after 1000 updates, all others after 300.
CHANGED = {
    "as it is": ("", ("4", "ev"), ORACLE),
    "prior": ("-prior", ("6", "5"), LEARNED),
    "autoregressive": ("-autoregressive", ("7", "autoregressive"), GREEN),
    "stochastic, 1000 updates": ("-gaussian-1000", ("11", "False"), "#a05195"),
    "unnormalised, 1000 updates": ("-not-normalised-1000", ("14", "False"), "#c9a227"),
}


def comparisons(runs):
    """Draw risk against coverage with s' = s, by confidence and by kind of model.

    Right of each panel are the losses that are published of all answers, below it how many seeds
    each curve is of.
    """
    marks = key(40, 18, {name.upper(): colour for name, colour in OF_CONFIDENCE.items()})
    marks += key(40, 308, {name: colour for name, (_, _, colour) in CHANGED.items()})
    across = [f"{coverage:g}" for coverage in COVERAGES.round(2)]
    for number, body in enumerate(BODIES):
        confident = {
            (f"{body}-mixed-same", name, "4", name): colour
            for name, colour in OF_CONFIDENCE.items()
        }
        changed = {
            (f"{body}-mixed-same{end}", "ev", *place): colour
            for end, place, colour in CHANGED.values()
        }
        for top, curves_of, words in ((62, confident, "risk"), (352, changed, "risk by EV")):
            panel = Panel(40 + 230 * number, top, 195, 190, across, 0.5)
            counts = []
            for (cell, confidence, table, row), colour in curves_of.items():
                kept = [run[confidence] for run in runs.get(cell, {}).values()]
                # Runs of before have none.
                seeds = [one["risks"] for one in kept if "risks" in one]
                counts.append(len(seeds))
                marks += panel.series([list(one) for one in zip(*seeds, strict=True)], colour)
                loss = PUBLISHED[table][body][row]["loss"][0]
                marks.append(dot(panel.left + panel.width + 6, panel.up(loss), colour))
            foot = f"coverage (seeds: {', '.join(map(str, counts))})"
            marks += panel.axes(f"{TITLES[body]}: {words}", step=0.1, every=5, foot=foot)
    return drawn(590, marks)


def sizes(runs):
    """Draw what more members do to AUROC and to PCI's AURCC."""
    marks = key(40, 18, {name.upper(): colour for name, colour in OF_CONFIDENCE.items()})
    for number, (cell, title) in enumerate(
        {"hundred": "true s'", "hundred-same": "s' = s"}.items()
    ):
        panel = Panel(40 + 230 * number, 62, 195, 190, SIZES, 1.0, 0.4)
        marks += panel.axes(f"Hopper, {title}: AUROC", step=0.1, every=2, foot="members")
        for name, colour in OF_CONFIDENCE.items():
            lists = [
                [run["sizes"][n][name]["auroc"] for run in runs.get(cell, {}).values()]
                for n in SIZES
            ]
            marks += panel.series(lists, colour)
    panel = Panel(500, 62, 195, 190, SIZES, 0.14, 0.12)
    marks += panel.axes("s' = s: AURCC of PCI, loss / 2 (grey)", step=0.01, every=2, foot="members")
    found = [
        [run["sizes"][n]["pci"] for run in runs.get("hundred-same", {}).values()] for n in SIZES
    ]
    marks += panel.series([[one["loss"] / 2 for one in seeds] for seeds in found], INK)
    marks += panel.series([[one["aurcc"] for one in seeds] for seeds in found], LEARNED)
    return drawn(300, marks)


def kinds(runs):
    """Draw the loss of PCI by kind of data."""
    names = {"always a": INK, "s' = s": LEARNED, "true s'": ORACLE}
    marks = key(40, 18, names)
    for number, body in enumerate(BODIES):
        panel = Panel(40 + 230 * number, 62, 195, 190, [*KINDS], 0.5)
        marks += panel.axes(f"{TITLES[body]}: loss of PCI", step=0.1, every=len(KINDS) + 1)
        for place, kind in enumerate(KINDS):
            x = panel.at(place)
            name = text(x + 8, 268, kind, "end")
            marks.append(f'<g transform="rotate(-30 {x:.1f} 268)">{name}</g>')
        always = next(iter(runs[f"{body}-mixed"].values()))["always_a"]
        y = panel.up(always)
        marks.append(line(panel.left, y, panel.left + panel.width, y, INK, 2))
        for end, colour, shift in (("-same", LEARNED, 0.08), ("", ORACLE, -0.08)):
            lists = [values(runs, f"{body}-{kind}{end}", "pci", "loss") for kind in KINDS]
            marks += panel.series(lists, colour, shift=shift, joined=False)
    return drawn(330, marks)


def confidences(runs):
    """Draw what each confidence is worth at each horizon."""
    marks = key(40, 18, {name.upper(): colour for name, colour in OF_CONFIDENCE.items()})
    cells = "hopper-medium", "halfcheetah-mixed", "walker2d-mixed"
    for number, cell in enumerate(cells):
        panel = Panel(40 + 230 * number, 62, 195, 190, HORIZONS, 1.0, 0.5)
        marks += panel.axes(f"{cell}: AUROC", step=0.1, foot="horizon")
        for place, (name, colour) in enumerate(OF_CONFIDENCE.items()):
            lists = [by_horizon(runs, cell, name, h, "auroc") for h in HORIZONS]
            marks += panel.series(lists, colour, shift=0.15 * (place - 1))
    return drawn(300, marks)


def scatters(folder):
    """Draw the returns of both sides of every query, by what its label says.

    The benchmark's generator of queries draws this of each environment, and horizons in it.
    """
    marks = key(40, 18, {"a is worse (label true)": LEARNED, "b is worse (label false)": ORACLE})
    for number, name in enumerate(WORLDS):
        queries = published_queries(name, folder)
        returns = np.stack([queries.returns_a, queries.returns_b])
        least, most = returns.min(), returns.max()
        left, top = 40 + 230 * (number % 3), 62 + 270 * (number // 3)
        marks.append(text(left, top - 10, f"{name}: return of b, by that of a"))
        marks += [line(left, top + 195, left + 195, top + 195), line(left, top, left, top + 195)]
        marks.append(line(left, top + 195, left + 195, top, width=0.4))
        ends = [(left, "start", least), (left + 195, "end", most)]
        marks += [text(x, top + 211, f"{end:.4g}", anchor) for x, anchor, end in ends]
        across, up = np.rint(195 * (returns - least) / (most - least)).astype(int)
        for label, colour in ((True, LEARNED), (False, ORACLE)):
            chosen = queries.labels == label
            # Of dots at one place one is enough; a line without a length is round by its ends.
            places = np.unique([left + across[chosen], top + 195 - up[chosen]], axis=1).T
            dots = "".join(f"M{x} {y}h0" for x, y in places)
            marks.append(
                f'<path d="{dots}" stroke="{colour}" stroke-width="3" stroke-linecap="round" '
                'stroke-opacity="0.6"/>'
            )
    return drawn(850, marks)


DRAWN = {
    "horizons": horizons,
    "risk-coverage": curves,
    "comparisons": comparisons,
    "members": sizes,
    "data": kinds,
    "confidences": confidences,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", metavar="FOLDER", help="of the published queries")
    data = parser.parse_args().data
    write()
    if data:
        (HERE / "figures" / "queries.svg").write_text(scatters(data), encoding="utf-8")


def write():
    """Write a file for each figure of runs."""
    runs, folder = found(), HERE / "figures"
    folder.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        (folder / f"{name}.svg").write_text(draw(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
