"""Paired intervals: what the published counts of pairs give here, beside what was published."""

from operator import itemgetter

from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.paired import BONETT_PRICE, TANGO, exact_mcnemar_p_value
from pytest_cpg.stats.pairing import Pairs


def measure(published):
    """Return the intervals and p-values of each published cell."""
    found = []
    for cell in published:
        both, lost, gained, neither = cell["pairs"]
        pairs = Pairs(both=both, oracle_only=lost, learned_only=gained, neither=neither)
        arms = (both + lost, pairs.count, both + gained, pairs.count)
        found.append(
            {
                "cell": cell["cell"],
                "agresti_caffo": bounds(agresti_caffo_interval(*arms)),
                "bonett_price": bounds(BONETT_PRICE.interval(pairs)),
                "tango": bounds(TANGO.interval(pairs)),
                "mcnemar": round(exact_mcnemar_p_value(lost=lost, gained=gained), 4),
                "p": exact_mcnemar_p_value(lost=lost, gained=gained),
            }
        )
    # Holm's: the smallest of m p-values times m, the next times m - 1, and none below one before.
    largest = 0.0
    for left, row in zip(range(len(found), 0, -1), sorted(found, key=itemgetter("p")), strict=True):
        largest = max(largest, min(1.0, left * row.pop("p")))
        row["holm"] = round(largest, 4)
    return found


def bounds(interval):
    return [round(interval.low, 4), round(interval.high, 4)]


def table(found, published):
    """Return a row for each cell: ours, then theirs."""
    rows = [
        "| cell | Agresti-Caffo | published | Bonett-Price | Tango | published: Newcombe | "
        "published: bootstrap | McNemar | published | Holm | published |",
        "|" + "---|" * 11,
    ]
    for ours, theirs in zip(found, published, strict=True):
        columns = [ours["cell"]]
        for row, name in (
            (ours, "agresti_caffo"),
            (theirs, "agresti_caffo"),
            (ours, "bonett_price"),
            (ours, "tango"),
            (theirs, "newcombe"),
            (theirs, "bootstrap"),
        ):
            columns.append(f"[{row[name][0]:+.3f}, {row[name][1]:+.3f}]")
        columns += [f"{p:.4f}" for name in ("mcnemar", "holm") for p in (ours[name], theirs[name])]
        rows.append(f"| {' | '.join(columns)} |")
    return "\n".join(rows) + "\n"
