"""What so many episodes can tell: the smallest gap to an oracle of 94 %, and how sharply."""

from itertools import count

from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.power import agresti_caffo_above, detectable_gap, gap_half_width

RATE, POWER = 0.94, 0.8
# In parts of 1000, as published.
STEP = 5


def measure(published):
    """Return for each number of episodes the gap at the edge, and the one that is mostly found."""
    return [
        {
            "episodes": n,
            "edge": edge(n),
            "found": round(detectable_gap(RATE, episodes=n, power=POWER), 3),
        }
        for n in map(int, published["edges"])
    ]


def edge(n):
    """Return the smallest gap whose interval is above 0 where rates are as they should be."""
    for gap in range(STEP, 1000, STEP):
        solved = (RATE - gap / 1000) * n
        if agresti_caffo_above(RATE * n, n, solved, n, z=critical_value(0.95)):
            return gap / 1000
    return None


def table(found, published):
    rows = [
        "| episodes per arm | gap at the edge | published | gap found in 80 % of gates |",
        "|" + "---|" * 4,
    ]
    for row in found:
        n, theirs = row["episodes"], published["edges"][str(row["episodes"])]
        rows.append(f"| {n} | {row['edge']} | {theirs} | {row['found']} |")
    rows += ["", published["differs"], "", "| rates | half-width | episodes per arm | published |"]
    rows.append("|" + "---|" * 4)
    for theirs in published["episodes_for"]:
        rates = theirs["oracle"], theirs["learned"]
        for width, n in theirs["episodes"].items():
            enough = next(size for size in count(1) if gap_half_width(*rates, size) <= float(width))
            rows.append(f"| {rates[0]:.3g} and {rates[1]:.3g} | {width} | {enough} | {n} |")
    rows += ["", "| rates | episodes per arm | half-width | published |", "|" + "---|" * 4]
    for theirs in published["half_widths"]:
        for n, width in theirs["of"].items():
            rates = theirs["oracle"], theirs["learned"]
            ours = gap_half_width(*rates, int(n))
            rows.append(f"| {rates[0]:.3g} and {rates[1]:.3g} | {n} | {ours:.4f} | {width} |")
    return "\n".join(rows) + "\n"
