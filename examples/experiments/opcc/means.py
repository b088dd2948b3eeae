"""Means: metrics over the seeds of a cell, as text with their intervals."""

import numpy as np
from cells import SEEDS

from pytest_cpg.stats.intervals import student_critical_value

HORIZONS = ("10", "20", "30", "40", "50")


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


def interval(given, digits=3, *, width=None):
    """Return the mean over seeds and its interval, of Student's t or another ``width``."""
    given = list(given)
    if not given or any(value is None for value in given):
        return "-"
    mean = float(np.mean(given))
    if len(given) < 2:
        return number(mean, digits)
    return f"{number(mean, digits)} ± {number((width or half_width)(given), digits)}"


def half_width(given):
    """Return half the length of the interval of a mean over seeds."""
    t = student_critical_value(0.95, freedom=len(given) - 1)
    return t * float(np.std(given, ddof=1)) / len(given) ** 0.5


def published_half_width(given):
    """Return half the length of the interval that the paper's tables have of so many runs.

    Its script takes the deviation over all runs of a row, of all kinds of data and seeds, for that
    of the population (`metrics` in scripts/summary_graphics.py of koulanurag/opcc-baselines).
    """
    return 1.96 * (float(np.std(given)) / len(given) ** 0.5 + 1e-5)


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"
