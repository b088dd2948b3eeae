"""Compare learning rates on steps that nobody was trained on: python rates.py --data FOLDER

FOLDER holds the published queries, whose policies take part in the data. Prints a row for each
rate: the error of a member and of the members' mean, and how far members are apart, in deviations
of what changes in one step, over data of another seed.
"""

import argparse
import dataclasses

import numpy as np
import recipes
from cells import BODIES
from grid import TRANSITIONS
from tables import table
from worlds import published_queries

from pytest_cpg.world_models import train_ensemble

RATES = (1e-3, 2e-3, 4e-3, 8e-3)
MEMBERS, ROWS = 3, 5000
HEAD = ["body", "rate", "updates", "a member's error", "their mean's", "spread", "ratio"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, metavar="FOLDER", help="of the published queries")
    folder = parser.parse_args().data
    rows = []
    for body in BODIES:
        queries = published_queries(body, folder)
        data = recipes.collected(queries, "mixed", TRANSITIONS, 0)
        others = recipes.collected(queries, "mixed", TRANSITIONS, 1)
        settings = [(rate, 1000) for rate in RATES] + [(RATES[0], 3000)]
        for rate, updates in settings:
            model = train_ensemble(
                data, seed=0, members=MEMBERS, updates=updates, learning_rate=rate
            )
            numbers = [f"{number:.3f}" for number in errors(model, others)]
            rows.append([body, f"{rate:g}", str(updates), *numbers])
            print(*rows[-1], flush=True)
    print(table(HEAD, rows))


def errors(model, data):
    """Return the errors of members and of their mean, the members' spread, and the ratio."""
    chosen = np.random.default_rng(0).choice(len(data), ROWS, replace=False)
    before, after = data.observations[chosen], data.next_observations[chosen]
    given = [np.repeat(part[None], MEMBERS, axis=0) for part in (before, data.actions[chosen])]
    unclipped = dataclasses.replace(model, clip_bounds=None)
    found = unclipped.step(*given)[0]
    off = (found - after) / (after - before).std(axis=0)
    common, spread = rms(off.mean(axis=0)), rms(off.std(axis=0, ddof=1))
    return rms(off), common, spread, common / spread


def rms(values):
    return float(np.sqrt(np.square(values).mean()))


if __name__ == "__main__":
    main()
