"""False alarms of recipes, simulated from checkpoints whose true gaps differ."""

import numpy as np
import pytest

from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.rankings import cluster_interval

pytestmark = pytest.mark.slow

RUNS = 10_000


def normal(spread, rate=0.5):
    """Return true rates around ``rate`` with this standard deviation [run, checkpoint]."""

    def draw(rng, checkpoints):
        return np.clip(rng.normal(rate, spread, (RUNS, checkpoints)), 0, 1)

    return draw


def works_or_fails(rng, checkpoints):
    """Return true rates of 0.1 or 0.9, as often [run, checkpoint]."""
    return np.where(rng.random((RUNS, checkpoints)) < 0.5, 0.1, 0.9)


RECIPES = {
    "all alike": normal(0),
    "sd 0.1": normal(0.1),
    "sd 0.3": normal(0.3),
    "0.1 or 0.9": works_or_fails,
}


def successes(rng, rates, episodes, *, same_starts):
    """Return successes of both arms [run, checkpoint]; the oracle solves one half.

    With ``same_starts`` the oracle arm is one, and half of the starts decide for all checkpoints
    (not for the oracle), which leaves the most luck in common.
    """
    shape = *rates.shape, episodes
    own = rng.random(shape, dtype=np.float32)
    if not same_starts:
        oracle = rng.binomial(episodes, 0.5, rates.shape)
        return oracle, (own < rates[..., None]).sum(axis=-1)
    shared = rng.random((len(rates), 1, episodes), dtype=np.float32)
    is_decided = rng.random(shared.shape, dtype=np.float32) < 0.5
    learned = np.where(is_decided, shared, own) < rates[..., None]
    oracle = rng.binomial(episodes, 0.5, (len(rates), 1))
    return np.broadcast_to(oracle, rates.shape), learned.sum(axis=-1)


def alarm_shares(oracle, learned, episodes, *, same_starts):
    """Return the share of runs above 0 as clusters and pooled."""
    clusters = pooled = 0
    checkpoints = oracle.shape[1]
    for solved, reached in zip(oracle.tolist(), learned.tolist(), strict=True):
        interval = cluster_interval(
            [(s, episodes) for s in solved],
            [(t, episodes) for t in reached],
            same_starts=same_starts,
        )
        total = checkpoints * episodes
        clusters += interval.low > 0
        pooled += agresti_caffo_interval(sum(solved), total, sum(reached), total).low > 0
    return clusters / RUNS, pooled / RUNS


@pytest.mark.parametrize("same_starts", [False, True], ids=["own-starts", "same-starts"])
def test_recipes_without_a_gap(same_starts, statistics_page):
    rng = np.random.default_rng(0)
    rows = []
    for name, draw in RECIPES.items():
        for checkpoints in (2, 3, 5, 10):
            cells = []
            for episodes in (10, 50):
                rates = draw(rng, checkpoints)
                arms = successes(rng, rates, episodes, same_starts=same_starts)
                shares = alarm_shares(*arms, episodes, same_starts=same_starts)
                cells += [f"{share:.4f}" for share in shares]
                if name != "0.1 or 0.9":
                    assert shares[0] < 0.03
                else:
                    # All checkpoints fail in 1 of 2**G runs.
                    assert shares[0] < 0.03 + 2.0**-checkpoints
            rows.append((name, checkpoints, *cells))
    statistics_page.table(
        f"Recipes of several checkpoints, {'same' if same_starts else 'own'} starts",
        ("checkpoints", "G", "n = 10", "n = 10, pooled", "n = 50", "n = 50, pooled"),
        rows,
        note=(
            f"Share of runs in which a recipe without a gap on average reads MODEL BOTTLENECK at "
            f"level 0.95; nominal is 0.025. {RUNS} simulated runs, Monte Carlo standard error "
            "0.0016 at 0.025. Oracle and recipe solve one half; the true rates of checkpoints are "
            "normal around it, or 0.1 or 0.9. Pooled: as if all episodes came from one model. "
            + (
                "One oracle arm, and half of the starts decide for all checkpoints."
                if same_starts
                else "Each checkpoint has its own oracle arm."
            )
        ),
    )


def test_recipes_that_work_or_fail(statistics_page):
    rng = np.random.default_rng(0)
    rows = []
    for works in (0.1, 0.3, 0.5, 0.7, 0.9):
        for checkpoints in (2, 3, 5, 10):
            cells = []
            for episodes in (10, 50):
                rates = np.where(rng.random((RUNS, checkpoints)) < works, 0.95, 0.05)
                learned = rng.binomial(episodes, rates)
                oracle = rng.binomial(episodes, 0.05 + 0.9 * works, rates.shape)
                shares = alarm_shares(oracle, learned, episodes, same_starts=False)
                cells.append(f"{100 * shares[0]:.1f} %")
                if checkpoints == 10 and 0.3 <= works <= 0.7:
                    assert shares[0] < 0.06
            rows.append((f"{100 * works:.0f} %", checkpoints, *cells))
    statistics_page.table(
        "Recipes that work or fail",
        ("checkpoints that work", "G", "n = 10", "n = 50"),
        rows,
        note=(
            f"Share of runs in which a recipe reads MODEL BOTTLENECK at level 0.95 although the "
            f"oracle's rate is the recipe's mean; nominal is 2.5 %. {RUNS} simulated runs, Monte "
            "Carlo standard error at most 0.5 %. A checkpoint solves 95 % of the starts where it "
            "works, and 5 % where it fails; each has its own starts. Checkpoints that all fail "
            "look like a recipe that always does: the fewer work, the more of them a recipe needs."
        ),
    )


def test_recipes_with_a_gap(statistics_page):
    rng = np.random.default_rng(0)
    rows = []
    for rate in (0.3, 0.1):
        for checkpoints in (2, 3, 5, 10):
            cells = []
            for episodes in (10, 50):
                for same_starts in (False, True):
                    rates = normal(0.1, rate)(rng, checkpoints)
                    arms = successes(rng, rates, episodes, same_starts=same_starts)
                    share, _ = alarm_shares(*arms, episodes, same_starts=same_starts)
                    cells.append(f"{share:.3f}")
            rows.append((f"{0.5 - rate:.1f}", checkpoints, *cells))
    statistics_page.table(
        "Recipes of several checkpoints, power",
        (
            "gap",
            "G",
            "n = 10, own starts",
            "n = 10, same starts",
            "n = 50, own starts",
            "n = 50, same starts",
        ),
        rows,
        note=(
            f"Share of runs that read MODEL BOTTLENECK at level 0.95 where the oracle solves one "
            f"half and checkpoints solve less, with standard deviation 0.1; {RUNS} simulated runs, "
            f"Monte Carlo standard error at most 0.005."
        ),
    )
    assert float(rows[-1][-1]) > 0.95
