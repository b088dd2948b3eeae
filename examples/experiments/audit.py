"""An audit of a published leaderboard: which of its differences so many episodes can tell."""

from itertools import combinations

from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.power import episodes_to_settle


def measure(published):
    """Return each pair of policies, the better first, with the interval of their difference."""
    n, found = published["episodes"], []
    for (better, high), (worse, low) in combinations(published["rates"].items(), 2):
        counts = round(high * n), n, round(low * n), n
        gap = agresti_caffo_interval(*counts)
        is_apart = gap.low > 0
        found.append(
            {
                "better": better,
                "worse": worse,
                "gap": [round(value, 4) for value in (gap.estimate, gap.low, gap.high)],
                "apart": is_apart,
                "episodes": None if is_apart else episodes_to_settle(*counts),
            }
        )
    return found


def table(found, published):
    rows = [
        "| better | worse | difference | published | apart | published | episodes that would tell "
        "| published |",
        "|" + "---|" * 8,
    ]
    for row, (low, high, is_apart, needed) in zip(found, published["pairs"], strict=True):
        gap, below, above = row["gap"]
        columns = [
            row["better"],
            row["worse"],
            f"{gap:+.3f} [{below:+.4f}, {above:+.4f}]",
            f"[{low:+.4f}, {high:+.4f}]",
            *("yes" if told else "no" for told in (row["apart"], is_apart)),
            row["episodes"] or "-",
            needed or "-",
        ]
        rows.append(f"| {' | '.join(map(str, columns))} |")
    return "\n".join([*rows, "", published["differs"]]) + "\n"
