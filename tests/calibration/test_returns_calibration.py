"""Coverage of the intervals on returns, simulated from skewed and bounded returns."""

import numpy as np
import pytest

from pytest_cpg.stats.returns import fieller_return_interval, mean_p_value, paired_mean_interval

pytestmark = pytest.mark.slow


def exponential(rng, n):
    """Start luck and each arm's own luck are exponential; true means 3, 2.5 and 0.5."""
    start = rng.exponential(1, n)
    oracle = 1 + start + rng.exponential(1, n)
    learned = 1 + start + rng.exponential(0.5, n)
    return oracle, learned, rng.exponential(0.5, n)


def mixture(shares):
    """Each arm gets 0.8 to 1 in its share of the starts, else 0 to 0.2; half decide for both."""

    def draw(rng, n):
        luck, is_decided = rng.random(n), rng.random(n) < 0.5
        arms = []
        for share in shares:
            works = np.where(is_decided, luck, rng.random(n)) < share
            arms.append(np.where(works, rng.uniform(0.8, 1, n), rng.uniform(0, 0.2, n)))
        return (*arms, rng.uniform(0, 0.2, n))

    return draw


def collapse(rng, n):
    """Both arms get 0.9 to 1, but the model gets 0 in one start of twenty."""
    oracle, learned = rng.uniform(0.9, 1, (2, n))
    return oracle, np.where(rng.random(n) < 0.05, 0, learned), rng.uniform(0, 0.2, n)


def successes(rng, n):
    """Nothing but 0 and 1, with chance one half in each arm."""
    return (rng.random((3, n)) < 0.5).astype(float)


# What is drawn, and the true means of oracle, learned and chance.
RETURNS = {
    "exponential": (exponential, (3, 2.5, 0.5)),
    "mixture .8, .6": (mixture((0.8, 0.6)), (0.74, 0.58, 0.1)),
    "mixture .95, .95": (mixture((0.95, 0.95)), (0.86, 0.86, 0.1)),
    "0 or 1, .5, .5": (successes, (0.5, 0.5, 0.5)),
    "collapse of 1 in 20": (collapse, (0.95, 0.9025, 0.1)),
}


def normalised_gap(oracle, learned, chance, axis):
    top = oracle.mean(axis=axis)
    return (top - learned.mean(axis=axis)) / (top - chance.mean(axis=axis))


def bootstrap_interval(oracle, learned, chance, rng):
    """Return scipy's BCa interval of the normalised gap, the alternative to Fieller's."""
    stats = pytest.importorskip("scipy.stats")
    return stats.bootstrap(
        (oracle, learned, chance),
        normalised_gap,
        paired=True,
        vectorized=True,
        method="BCa",
        random_state=rng,
    ).confidence_interval


def misses(bound, draw, truth, *, n, runs):
    """Return the shares of runs with an interval above the truth, below it, and without one."""
    rng = np.random.default_rng(0)
    counts = np.zeros(3)
    for _ in range(runs):
        interval = bound(*draw(rng, n), rng)
        if interval is None:
            counts[2] += 1
        else:
            counts[:2] += interval.low > truth, interval.high < truth
    return counts / runs


def proofs(draw, truth, *, n, runs):
    """Return the share of runs that prove a margin that is the truth."""
    rng, count = np.random.default_rng(0), 0
    for _ in range(runs):
        oracle, learned, chance = draw(rng, n)
        worst = (oracle - chance).max()
        count += mean_p_value(learned - oracle, limit=-truth, unseen=-worst) < 0.025
    return count / runs


def test_paired_means_of_skewed_returns(statistics_page):
    runs, rows = 5000, []
    found = {}
    for name, (draw, (oracle, learned, _)) in RETURNS.items():
        for n in (5, 10, 20, 50):
            above, below, _ = found[name, n] = misses(
                lambda first, second, _chance, _rng: paired_mean_interval(first, second),
                draw,
                oracle - learned,
                n=n,
                runs=runs,
            )
            proven = proofs(draw, oracle - learned, n=n, runs=runs)
            shares = (f"{share:.3f}" for share in (1 - above - below, above, below, proven))
            rows.append((name, n, *shares))
            # Of fewer starts no gate proves anything.
            assert n < 10 or proven < 0.025 + 4 * (0.025 * 0.975 / runs) ** 0.5, (name, n)
    statistics_page.table(
        "Mean returns, paired",
        ("returns", "n", "coverage", "above the true gap", "below it", "margin proven"),
        rows,
        note=(
            f"Student's interval on paired differences at level 0.95; {runs} simulated runs, Monte "
            "Carlo standard error at most 0.003 near 0.95. An interval above a true gap of 0 is a "
            "false alarm. A collapse that no start of a run shows cannot be in its interval: of 10 "
            "starts 60 % show none, of 50 starts 8 %. Last, how often a margin that is the true "
            "gap is proven, as gates of 10 starts or more judge it: by Gaffke's bound, too."
        ),
    )
    for name in list(RETURNS)[:4]:
        for n in (20, 50):
            assert found[name, n][0] < 0.045, (name, n)
    for n in (10, 20, 50):
        assert found["mixture .95, .95", n][0] < 0.03
        assert found["0 or 1, .5, .5", n][0] < 0.035


def one_sided(rng, n):
    """Return arms of equal means: the oracle is 1 ahead, and 19 behind on 1 start in 20."""
    learned, is_bad = rng.random(n), rng.random(n) < 0.05
    return learned + np.where(is_bad, -19, 1), learned, np.zeros(n)


def enumerated(n):
    """Return the shares of `one_sided` runs whose interval lies above 0, and below it."""
    stats = pytest.importorskip("scipy.stats")
    bad = np.arange(n + 1)
    mean, error = 1 - 20 * bad / n, 20 * np.sqrt(bad * (n - bad) / n**2 / (n - 1))
    half = stats.t.ppf(0.975, n - 1) * error
    chances = stats.binom.pmf(bad, n, 0.05)
    return chances[mean > half].sum(), chances[mean < -half].sum()


def lognormal(rng, n):
    """Return arms of equal means; the learned one has a lognormal tail of 1.5."""
    return rng.normal(np.exp(1.5**2 / 2), 0.1, n), rng.lognormal(0, 1.5, n), np.zeros(n)


SKEWED = {
    "oracle ahead by 1, behind by 19 on 1 start in 20": one_sided,
    "lognormal tail in the learned arm": lognormal,
}


def test_skewed_returns_without_a_gap(statistics_page):
    runs, rows, found = 5000, [], {}
    for name, draw in SKEWED.items():
        for n in (10, 20, 50, 100, 200):
            above, below, _ = found[name, n] = misses(
                lambda first, second, _chance, _rng: paired_mean_interval(first, second),
                draw,
                0.0,
                n=n,
                runs=runs,
            )
            if draw is one_sided:
                exact = enumerated(n)
                assert (above, below) == pytest.approx(exact, abs=0.03)
                above, below = exact
            error = 0 if draw is one_sided else 100 * (above * (1 - above) / runs) ** 0.5
            rows.append(
                (
                    name,
                    n,
                    f"{100 * above:.1f} %{f' +- {error:.1f} %' * bool(error)}",
                    f"{100 * below:.1f} %",
                )
            )
    statistics_page.table(
        "Skewed returns without a gap",
        ("returns", "n", "MODEL BOTTLENECK", "LEARNED OUTPERFORMS"),
        rows,
        note=(
            "Student's interval on paired differences at level 0.95, equal true means; nominal "
            "2.5 % each way, and the other way round where the arms change places. Exact where "
            f"starts lose 1 or 19, else {runs} simulated runs, +- one standard error. Where rare "
            "starts decide the mean, runs that miss them are sure of the wrong sign: judge "
            "successes, or use more episodes than the rarest start that matters needs to show up."
        ),
    )


def test_normalised_returns_of_skewed_returns(statistics_page):
    runs, rows = 1000, []
    methods = {
        "Fieller": lambda oracle, learned, chance, _rng: fieller_return_interval(
            oracle, learned, chance
        ),
        "BCa bootstrap": bootstrap_interval,
    }
    for name in ("exponential", "mixture .8, .6"):
        draw, (oracle, learned, chance) = RETURNS[name]
        for n in (10, 20, 50):
            for method, bound in methods.items():
                truth = (oracle - learned) / (oracle - chance)
                above, below, none = misses(bound, draw, truth, n=n, runs=runs)
                coverage = 1 - (above + below) / (1 - none)
                shares = (f"{share:.3f}" for share in (coverage, above, below, none))
                rows.append((name, n, method, *shares))
                assert coverage > 0.92 or method != "Fieller"
    statistics_page.table(
        "Normalised returns",
        ("returns", "n", "interval", "coverage", "above the truth", "below it", "none"),
        rows,
        note=(
            f"The ratio (oracle - learned) / (oracle - chance) at level 0.95; {runs} simulated "
            "runs, Monte Carlo standard error 0.007 at 0.95. Coverage is of those runs that had an "
            "interval."
        ),
    )
