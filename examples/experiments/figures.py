"""Figures: what the experiments found, as SVG that reads on light and dark pages."""

from html import escape
from math import log10

from pytest_cpg.stats import wilson_interval

WIDTH, LEFT, RIGHT = 720, 320, 40
ORACLE, LEARNED, INK = "#2a78b5", "#d1702a", "#808080"


def drawn(height, marks):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
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
        return LEFT + rate * (WIDTH - LEFT - RIGHT)

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
    return drawn(foot + 10, [*marks, line(LEFT, 20, LEFT, foot - 20)])


def data_size(cells):
    """Draw the gap with its interval, and the validation error, against the transitions."""
    height, foot = 340, 230

    def across(transitions, seed):
        return 80 + 230 * (log10(transitions) - 2.3) + 8 * seed

    def up(share):
        return foot - 180 * share

    marks = [text(8, 16, "gap (blue, 95 %) and validation error / largest (orange)")]
    for level in (-0.5, 0, 0.5, 1):
        marks += [line(60, up(level), 660, up(level)), text(52, up(level) + 4, f"{level:g}", "end")]
    most = max(cell["validation_error"] for cell in cells)
    for cell in cells:
        transitions, seed = map(int, cell["cell"].split("-"))
        x, (gap, low, high) = across(transitions, seed), cell["gap"]
        marks += [line(x, up(low), x, up(high), ORACLE, 2), dot(x, up(gap), ORACLE)]
        marks.append(dot(x + 40, up(cell["validation_error"] / most), LEARNED))
        if not seed:
            marks.append(text(x + 28, height - 4, f"{transitions} transitions", "middle"))
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


DRAWN = {
    "data-size": data_size,
    "planners": rates,
    "perturbations": rates,
    "horizons": rates,
    "latent": rates,
    "coverage": histogram,
}
