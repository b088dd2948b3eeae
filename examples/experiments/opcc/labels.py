"""Check published labels by simulating again: python labels.py --data FOLDER

FOLDER holds the published queries, as convert.py writes them. Prints a row for each world.
"""

import argparse

import numpy as np
from tables import table
from worlds import WORLDS, published_queries, world_of

from pytest_cpg.gates.policy_comparison.generate import Side, true_returns

HEAD = ["world", "labels that agree", "flipped", "returns differ by (median, largest)"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, metavar="FOLDER", help="of the published queries")
    folder = parser.parse_args().data
    rows = []
    for name in WORLDS:
        flipped, errors = checked(published_queries(name, folder), world_of(name))
        apart = f"{np.median(errors):.3g}, {errors.max():.3g}"
        rows.append([name, f"{100 * (1 - flipped.mean()):.2f} %", str(flipped.sum()), apart])
    print(table(HEAD, rows))


def checked(queries, world):
    """Return which labels [N] a world denies, and by how much returns [2, N] differ."""
    sides = (
        Side(
            states=world.begin(getattr(queries, f"states_{side}")),
            policies=getattr(queries, f"policy_{side}"),
            horizons=queries.horizons,
            actions=queries.opening(side),
        )
        for side in "ab"
    )
    a, b = (true_returns(world, side, queries.act, queries.discount) for side in sides)
    flipped = np.where(queries.labels, a >= b, a <= b)
    return flipped, np.abs([a - queries.returns_a, b - queries.returns_b])


if __name__ == "__main__":
    main()
