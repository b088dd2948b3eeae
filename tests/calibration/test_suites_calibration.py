"""How often the interval of a suite misses the true mean gap, over many suites of small tasks."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.suites import Stratum, suite_gap

pytestmark = pytest.mark.slow

RUNS, SUITES = 20_000, 60
RATES = {
    "any rates": lambda rng, k: rng.random((2, k)),
    "0.02, 0.5 or 0.98, no gap": lambda rng, k: np.tile(rng.choice([0.02, 0.5, 0.98], k), (2, 1)),
    "0.98 and 0.90": lambda _, k: np.array([[0.98], [0.9]]).repeat(k, axis=1),
    "near 0 or 1, gaps below 0.3": lambda rng, k: _near_the_ends(rng, k),
    "one rate, no gap": lambda rng, k: np.full((2, k), rng.random()),
}


def _near_the_ends(rng, k):
    oracle = rng.beta(0.3, 0.3, k)
    return np.stack([oracle, np.clip(oracle - 0.3 * rng.random(k), 0, 1)])


def misses(rng, rates, sizes, z):
    """Return how often the interval lies above and below the true mean gap, as `suite_gap` does."""
    weights = sizes / sizes.sum()
    true = weights @ (rates[0] - rates[1])
    solved = rng.binomial(sizes, rates[:, None], (2, RUNS, len(sizes)))
    gaps = (solved[0] - solved[1]) / sizes
    centre = (weights * gaps * sizes / (sizes + 2 * weights)).sum(axis=1)
    p = (solved + 1) / (sizes + 2)
    variance = (weights**2 * (p * (1 - p)).sum(axis=0) / (sizes + 2 * weights)).sum(axis=1)
    half = z * np.sqrt(variance)
    return (centre - half > true).mean(), (centre + half < true).mean(), centre, variance, solved


def test_the_interval_of_a_suite_covers_the_true_gap(statistics_page):
    rng, z, rows = np.random.default_rng(0), critical_value(0.95), []
    for tasks in (2, 3, 5, 10, 30):
        for episodes in (2, 3, 5, 10, 20, 50):
            worst = dict.fromkeys(RATES, 0.0)
            for name, draw in RATES.items():
                for suite in range(SUITES // len(RATES)):
                    sizes = np.full(tasks, episodes)
                    if suite % 2:
                        sizes = rng.integers(max(2, episodes // 2), 2 * episodes + 1, tasks)
                    above, below, centre, variance, solved = misses(rng, draw(rng, tasks), sizes, z)
                    worst[name] = max(worst[name], above, below)
                    arms = (solved[:, 0] / sizes).T
                    strata = [
                        Stratum(*rates, int(n), n / sizes.sum())
                        for rates, n in zip(arms, sizes, strict=True)
                    ]
                    found = suite_gap(strata)
                    assert (found.centre, found.error**2) == pytest.approx((centre[0], variance[0]))
            assert max(worst.values()) < (0.06 if episodes < 5 else 0.045)
            rows.append((tasks, episodes, *(f"{share:.4f}" for share in worst.values())))
    statistics_page.table(
        "Suites of several tasks",
        ("tasks", "n", *RATES),
        rows,
        note=(
            f"Share of runs in which the interval of a suite's gap at level 0.95 lies above, or "
            f"below, the true mean gap, whichever is more, the worst of {SUITES // len(RATES)} "
            f"suites; nominal is 0.025. Half of the suites have n episodes for each task, half "
            f"between n/2 and 2n. {RUNS} simulated runs, Monte Carlo standard error 0.0011 at "
            "0.025; the worst of many is above the truth by chance, too."
        ),
    )


SIZES = ((10, 10), (10, 20), (10, 40), (20, 20), (20, 40))
GRID = (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99)


def outcomes(n, share):
    """Return the part of the centre and of the variance of a task by what both arms solve."""
    oracle, learned = np.divmod(np.arange((n + 1) ** 2), n + 1)
    weight = share / (n + 2 * share)
    p = (np.stack([oracle, learned]) + 1) / (n + 2)
    return weight * (oracle - learned), share * weight * (p * (1 - p)).sum(axis=0)


def test_two_tasks_are_missed_as_often_as_is_said(statistics_page):
    z, rows = critical_value(0.95), []
    for sizes in SIZES:
        shares = np.array(sizes) / sum(sizes)
        parts = [outcomes(*pair) for pair in zip(sizes, shares, strict=True)]
        chances = [{rate: binom.pmf(np.arange(n + 1), n, rate) for rate in GRID} for n in sizes]
        joint = [
            {
                pair: np.outer(*(by[rate] for rate in pair)).ravel()
                for pair in product(GRID, repeat=2)
            }
            for by in chances
        ]
        centre = parts[0][0][:, None] + parts[1][0]
        low = centre - z * np.sqrt(parts[0][1][:, None] + parts[1][1])
        worst, where = 0.0, ()
        for first, second in product(joint[0], joint[1]):
            true = shares @ [first[0] - first[1], second[0] - second[1]]
            # Arms may change their places, so that one side says all.
            share = joint[0][first] @ (low > true + 1e-12) @ joint[1][second]
            if share > worst:
                worst, where = share, (first, second)
        assert worst < 0.06
        rates = " and ".join(f"{oracle:g} / {learned:g}" for oracle, learned in where)
        rows.append((*sizes, f"{worst:.4f}", rates))
    statistics_page.table(
        "Suites of two tasks, exactly",
        ("episodes of one", "of the other", "missed on one side", "at the rates"),
        rows,
        note=(
            f"The largest chance that the interval of a suite's gap at level 0.95 lies above the "
            f"true mean gap, over all rates of both arms (oracle / learned) among "
            f"{', '.join(f'{rate:g}' for rate in GRID)}; nominal is 0.025."
        ),
    )
