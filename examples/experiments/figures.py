"""Figures: what the experiments found, as SVG that reads on light and dark pages."""

from html import escape
from itertools import pairwise
from math import log10

from pytest_cpg.stats import agresti_caffo_interval, wilson_interval

# Of all, and of those with the names of cells at their left.
WIDTH, WIDE, LEFT, RIGHT = 720, 800, 400, 40
ORACLE, LEARNED, GREEN, INK = "#2a78b5", "#d1702a", "#3f9a4f", "#808080"


def drawn(height, marks, width=WIDTH):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">\n' + "\n".join(marks) + "\n</svg>\n"
    )


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1, y1, x2, y2, colour=INK, width=1):
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def box(x, y, width, height, colour):
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}" fill-opacity="0.8"/>'


def dot(x, y, colour):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def rates(cells):
    """Draw a bar with its Wilson interval for both arms of every cell."""

    def at(rate):
        return LEFT + rate * (WIDE - LEFT - RIGHT)

    marks = [text(LEFT, 14, "success rate, 95 %"), text(at(1), 14, "1", "middle")]
    for row, cell in enumerate(cells):
        top = 24 + 34 * row
        marks.append(text(LEFT - 8, top + 17, cell["cell"], "end"))
        for place, arm, colour in ((0, "oracle", ORACLE), (13, "learned", LEARNED)):
            bound = wilson_interval(cell[arm], cell["episodes"])
            y = top + place
            marks.append(box(LEFT, y, at(bound.estimate) - LEFT, 11, colour))
            marks.append(line(at(bound.low), y + 5.5, at(bound.high), y + 5.5))
    foot = 40 + 34 * len(cells)
    marks += [box(LEFT, foot - 10, 11, 11, ORACLE), text(LEFT + 16, foot, "oracle")]
    marks += [box(LEFT + 80, foot - 10, 11, 11, LEARNED), text(LEFT + 96, foot, "learned")]
    return drawn(foot + 10, [*marks, line(LEFT, 20, LEFT, foot - 20)], WIDE)


def data_size(cells, published):
    """Draw the published network's gap and validation error against the transitions.

    Ours are of all seeds together, and beside them the published ones.
    """
    height, foot = 420, 180

    def across(transitions, place):
        return 110 + 230 * (log10(transitions) - 2.3) + 20 * place

    def up(gap):
        return foot - 250 * gap

    def down(error):
        return 250 - 40 * (log10(error) + 1)

    marks = [text(8, 16, "the published network: gap (oracle - learned), 95 %")]
    marks.append(text(8, 214, "validation error"))
    for level in (0, 0.2, 0.4):
        marks += [line(60, up(level), 660, up(level)), text(52, up(level) + 4, f"{level:g}", "end")]
    for error in (0.1, 0.01, 0.001, 0.0001):
        y = down(error)
        marks += [line(60, y, 660, y, width=0.5), text(52, y + 4, f"{error:g}", "end")]
    names = [name for name in published if "published-network" in name]
    for name in names:
        group = [cell for cell in cells if cell["cell"].startswith(f"{name}-seed")]
        if not group:
            continue
        transitions, theirs = int(name.partition("-")[0]), published[name]
        ours = [sum(cell[key] for cell in group) for key in ("oracle", "learned", "episodes")]
        there = [theirs[key] for key in ("oracle", "learned", "episodes")]
        for place, (solved, lost, n), colour in ((0, ours, ORACLE), (1, there, LEARNED)):
            gap, x = agresti_caffo_interval(solved, n, lost, n), across(transitions, place)
            marks += [line(x, up(gap.low), x, up(gap.high), colour, 2)]
            marks.append(dot(x, up(gap.estimate), colour))
        errors = [cell["validation_error"] for cell in group]
        marks += [dot(across(transitions, 0), down(error), ORACLE) for error in errors]
        marks.append(dot(across(transitions, 1), down(theirs["validation_error"]), LEARNED))
        marks.append(text(across(transitions, 0.5), 392, f"{transitions} transitions", "middle"))
    marks += [dot(64, 410, ORACLE), text(74, 414, "ours: gap of all seeds, error of each")]
    marks += [dot(320, 410, LEARNED), text(330, 414, "published")]
    return drawn(height, marks)


def histogram(found):
    """Draw how often each uprightness was seen."""
    foot, marks = 200, [text(8, 16, "share of observations by uprightness (-2 hangs, 2 stands)")]
    for place, (name, colour) in enumerate(
        {"random rollouts": LEARNED, "oracle planner": ORACLE}.items()
    ):
        row = found[name]
        width = 560 / len(row["histogram"])
        for number, share in enumerate(row["histogram"]):
            tall = 600 * min(share, 0.28)
            x = 40 + width * (number + place / 2)
            marks.append(box(x, foot - tall, width / 2, tall, colour))
        marks += [box(400, 30 + 18 * place, 11, 11, colour), text(416, 40 + 18 * place, name)]
    for height in (-2, -1, 0, 1, 2):
        marks.append(text(40 + 140 * (height + 2), foot + 16, f"{height}", "middle"))
    return drawn(230, [*marks, line(40, foot, 600, foot)])


def gaps(rows):
    """Draw gaps with their Agresti-Caffo intervals: ours, and below it the published one.

    ``rows`` are a label and two arms of two counts each, ours first: oracle, its episodes, learned
    and its episodes; None where nothing was measured.
    """

    def at(gap):
        return LEFT + (gap + 1) / 2 * (WIDE - LEFT - RIGHT)

    foot = 30 + 34 * len(rows)
    ran = sum(ours is not None for _, ours, _ in rows)
    marks = [text(8, 14, f"gap (oracle - learned), 95 %; {ran} of {len(rows)} were run")]
    for level in (-1, -0.5, 0, 0.5, 1):
        marks += [line(at(level), 22, at(level), foot - 6, width=2 if level == 0 else 0.5)]
        marks.append(text(at(level), 14, f"{level:g}", "middle"))
    for row, (label, *counts) in enumerate(rows):
        top = 34 + 34 * row
        marks.append(text(LEFT - 8, top + 9, label, "end"))
        for place, arms, colour in zip((0, 12), counts, (ORACLE, LEARNED), strict=True):
            if arms is None:
                marks.append(text(at(0) + 6, top + place + 4, "not run"))
                continue
            gap = agresti_caffo_interval(*arms)
            y = top + place
            marks.append(line(at(gap.low), y, at(gap.high), y, colour, 2))
            marks.append(dot(at(gap.estimate), y, colour))
    marks += [dot(LEFT, foot + 8, ORACLE), text(LEFT + 10, foot + 12, "ours")]
    marks += [dot(LEFT + 80, foot + 8, LEARNED), text(LEFT + 90, foot + 12, "published")]
    return drawn(foot + 20, marks, WIDE)


def latent_rows(found, published, cells):
    """Return what `gaps` draws of the latent models' cells, by their labels and names."""
    rows = []
    for label, name in cells.items():
        theirs, group = published[name], [c for c in found if c["cell"].split("-seed-")[0] == name]
        n = sum(cell["episodes"] for cell in group)
        solved = [sum(cell[arm] for cell in group) for arm in ("oracle", "learned")]
        size = theirs.get("learned_episodes", theirs["episodes"])
        there = theirs["oracle"], theirs["episodes"], theirs["learned"], size
        rows.append((label, (solved[0], n, solved[1], n) if n else None, there))
    return rows


MODELS = {"MLP on its data": "policy-data", "TD-MPC2": "tdmpc2"}
PLANNERS = {"random shooting": "random-shooting", "CEM": "cem"}


def cross_environment(starts):
    """Return how to draw the gaps of three tasks by planner and model."""
    sizes = {"acrobot-swingup": 1, "cartpole-swingup": 5, "reacher-easy": 1}
    cells = {
        f"{task.partition('-')[0]}, size {size}, {planner}, {model}": f"{cell}-{short}-{kind}"
        for task, size in sizes.items()
        for cell in (f"{task}-{starts}-size-{size}",)
        for planner, short in PLANNERS.items()
        for model, kind in MODELS.items()
    }
    return lambda found, published: gaps(latent_rows(found, published, cells))


def capacity(found, published):
    """Draw the gaps of the cartpole by the size of the latent model, from the fixed start."""
    cells = {
        f"{planner}, {model}, size {size}": f"cartpole-swingup-fixed-size-{size}-{short}-{kind}"
        for planner, short in PLANNERS.items()
        for model, kind in MODELS.items()
        for size in (1, 5)
    }
    return gaps(latent_rows(found, published, cells))


def detectability(found, published):
    """Draw the smallest gap by the number of episodes: at the edge, published, and found."""

    def at(n):
        return 60 + 290 * (log10(n) - 1)

    def up(gap):
        return 230 - 340 * gap

    marks = [text(8, 16, "gap to an oracle that solves 94 %, by episodes per arm")]
    for level in (0, 0.1, 0.2, 0.3, 0.4, 0.5):
        marks += [line(50, up(level), 660, up(level), width=0.5)]
        marks.append(text(44, up(level) + 4, f"{level:g}", "end"))
    for n in (10, 30, 100, 300, 1000):
        marks.append(text(at(n), 250, f"{n}", "middle"))
    for number, (name, colour) in enumerate({"edge": ORACLE, "found": GREEN}.items()):
        points = [(at(row["episodes"]), up(row[name])) for row in found]
        marks += [line(*a, *b, colour, 2) for a, b in pairwise(points)]
        words = {"edge": "interval just above 0", "found": "found in 80 % of gates"}[name]
        marks += [dot(400, 40 + 18 * number, colour), text(410, 44 + 18 * number, words)]
    marks += [dot(at(int(n)), up(gap), LEARNED) for n, gap in published["edges"].items()]
    marks += [dot(400, 76, LEARNED), text(410, 80, "edge, published")]
    for rate in published["marked"]:
        gap = published["rate"] - rate
        marks += [dot(at(100), up(gap), INK), text(at(100) + 8, up(gap) + 4, f"to {rate:g}")]
    marks += [dot(400, 94, INK), text(410, 98, "gaps that are published as examples")]
    return drawn(262, marks)


def of_found(draw):
    """Return a drawing that needs no published figures."""
    return lambda found, _published: draw(found)


# Experiment: file and drawing.
DRAWN = {
    "data-size": {"data-size": data_size},
    "planners": {"planners": of_found(rates)},
    "perturbations": {"perturbations": of_found(rates)},
    "noise": {"noise": of_found(rates)},
    "horizons": {"horizons": of_found(rates)},
    "latent": {
        "latent": of_found(rates),
        "gaps-fixed": cross_environment("fixed"),
        "gaps-sampled": cross_environment("sampled"),
        "capacity": capacity,
    },
    "coverage": {"coverage": of_found(histogram)},
    "detectability": {"detectability": detectability},
}
