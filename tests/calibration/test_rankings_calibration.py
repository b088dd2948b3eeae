"""Coverage of rank intervals and of rank correlations, simulated: their tables are too many."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from pytest_cpg.stats.rankings import kendall_interval, rank_models, spearman_interval

pytestmark = pytest.mark.slow

RUNS = 1000
RESAMPLES = 400
MONTE_CARLO = f"{RUNS} simulated runs: a share of .95 has a standard error of .007."


def related_outcomes(rates, starts, rng, *, shared):
    """Return outcomes [M, starts] of models that find the same starts hard.

    Behind each outcome is a normal deviate that correlates by ``shared`` with those of the other
    models on this start.
    """
    hardness = rng.standard_normal(starts)
    own = rng.standard_normal((len(rates), starts))
    deviate = math.sqrt(shared) * hardness + math.sqrt(1 - shared) * own
    limits = np.array([NormalDist().inv_cdf(rate) for rate in rates])
    return deviate < limits[:, None]


def rank_coverage(rates, starts, *, shared=0.5, seed=0):
    """Return coverage by model, share of runs with a wrong order, and mean width.

    The order is wrong where the interval of a model lies wholly above that of one with a rate as
    high or higher.
    """
    rng = np.random.default_rng(seed)
    true_rank = np.array([1 + sum(other > own for other in rates) for own in rates])
    last_rank = np.array([sum(other >= own for other in rates) for own in rates])
    names = [str(i) for i in range(len(rates))]
    not_worse = np.greater_equal.outer(rates, rates)
    covered, wrong, width = np.zeros(len(rates)), 0, 0.0
    for _ in range(RUNS):
        outcomes = related_outcomes(rates, starts, rng, shared=shared)
        ranking = rank_models(names, outcomes, rng=rng, resamples=RESAMPLES)
        models = [int(name) for name in ranking.names]
        low, high = np.empty((2, len(rates)))
        low[models], high[models] = np.array(ranking.rank_intervals).T
        # Models of one rate share several true ranks; any of them will do.
        covered += (low <= last_rank) & (high >= true_rank)
        wrong += (not_worse & (low[:, None] > high)).any()
        width += (high - low).mean()
    return covered / RUNS, wrong / RUNS, width / RUNS


CLOSE = tuple(0.5 + 0.01 * i for i in range(10))
SETTINGS = [
    # Rates, starts, options, least coverage of any one model, most runs with a wrong order.
    ((0.9, 0.8, 0.6, 0.4), 100, {}, 0.98, 0.01),
    ((0.9, 0.8, 0.6, 0.4), 100, {"shared": 0.0}, 0.98, 0.01),
    ((0.9, 0.8, 0.6, 0.4), 10, {}, 0.98, 0.02),
    ((0.6, 0.55, 0.5, 0.45), 100, {}, 0.97, 0.02),
    ((0.53, 0.52, 0.51, 0.5), 100, {}, 0.91, 0.03),
    ((0.5, 0.5), 100, {}, 0.99, 0.07),
    ((0.5,) * 10, 100, {}, 0.99, 0.11),
    (CLOSE, 100, {}, 0.86, 0.05),
    ((0.98, 0.01), 50, {}, 0.99, 0.01),
]


def described(rates, starts, options):
    models = ", ".join(f"{rate:.2f}" for rate in rates)
    if len(rates) == 10:
        models = "0.50 to 0.59 by 0.01" if rates is CLOSE else "ten of 0.50"
    return models, f"{starts}, independent models" if options else str(starts)


def test_rank_intervals_cover_the_true_rank(statistics_page):
    rows = []
    for rates, starts, options, least, most_wrong in SETTINGS:
        covered, wrong, width = rank_coverage(rates, starts, **options)
        shares = covered.min(), covered.mean(), wrong, width
        rows.append([*described(rates, starts, options), *(f"{share:.3f}" for share in shares)])
        assert covered.min() > least
        assert wrong < most_wrong
    statistics_page.table(
        "Rank intervals of several models on the same starts",
        [
            "true rates",
            "starts",
            "least coverage of a model",
            "mean coverage",
            "runs with a wrong order",
            "mean width in ranks",
        ],
        rows,
        note=f"Percentile bootstrap at level 0.95, {RESAMPLES} resamples. {MONTE_CARLO} Behind the "
        "outcomes of two models on one start are normal deviates that correlate by one half where "
        "nothing else is said. A truly shared rank is covered by any of the ranks that are shared. "
        "The order of a run is wrong when some model's whole interval lies behind that of a model "
        "that is no better.",
    )


def ordered_pairs(values):
    """Return the sign of each difference between models [B, M, M] of ``values`` [B, M]."""
    return np.sign(values[:, :, None] - values[:, None, :])


def spearman(times, x, y):
    """Return the rank correlation [B, R] of models taken ``times`` [B, R, M]; x, y their pairs."""
    # Twice the distance of each model's midrank from the middle one.
    ranks, others = times @ x.transpose(0, 2, 1), times @ y.transpose(0, 2, 1)
    spread = (times * ranks**2).sum(-1) * (times * others**2).sum(-1)
    return (times * ranks * others).sum(-1) / np.sqrt(spread)


def kendall(times, x, y):
    """Return tau-b [B, R] of models taken ``times`` [B, R, M]; x, y their pairs."""
    concordant, *distinct = (((times @ pairs) * times).sum(-1) for pairs in (x * y, x**2, y**2))
    return concordant / np.sqrt(distinct[0] * distinct[1])


def percentile_bounds(resampled):
    return np.nanquantile(resampled, 0.025, axis=1), np.nanquantile(resampled, 0.975, axis=1)


def bca_bounds(resampled, estimate, left_out):
    """Return the bounds of Efron's BCa interval (JASA 82:171-185, 1987), NaN where it has none."""
    from scipy.special import ndtr, ndtri

    below = (resampled < estimate[:, None]).mean(axis=1)
    level_with = (resampled == estimate[:, None]).mean(axis=1)
    bias = ndtri(below + level_with / 2)
    pull = left_out.mean(axis=1, keepdims=True) - left_out
    acceleration = (pull**3).sum(axis=1) / (6 * (pull**2).sum(axis=1) ** 1.5)
    bounds = []
    for z in (-1.96, 1.96):
        share = ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))
        bounds.append(
            [
                np.nanquantile(row, p) if math.isfinite(p) else math.nan
                for row, p in zip(resampled, share, strict=True)
            ]
        )
    return np.array(bounds)


def metric_and_success(rho, models, episodes, rng, runs=RUNS):
    """Return a metric and success rates [runs, models] of a normal copula.

    With ``episodes`` the rates are counted in so few, and tie; without, they are known exactly.
    """
    from scipy.special import ndtr

    metric = rng.standard_normal((runs, models))
    skill = rho * metric + math.sqrt(1 - rho**2) * rng.standard_normal((runs, models))
    return metric, skill if episodes is None else rng.binomial(episodes, ndtr(skill)) / episodes


def population(rho, episodes, rng):
    """Return Spearman's and Kendall's correlation among infinitely many models."""
    if episodes is None:
        return 6 / math.pi * math.asin(rho / 2), 2 / math.pi * math.asin(rho)
    from scipy.stats import kendalltau, spearmanr

    metric, success = metric_and_success(rho, 200_000, episodes, rng, runs=1)
    return spearmanr(metric[0], success[0]).statistic, kendalltau(metric[0], success[0]).statistic


def correlation_coverage(rho, models, episodes, rng):
    """Return coverage and mean width of the closed, percentile and BCa interval, by correlation."""
    metric, success = metric_and_success(rho, models, episodes, rng)
    x, y = ordered_pairs(metric), ordered_pairs(success)
    times = rng.multinomial(models, np.full(models, 1 / models), size=(RUNS, RESAMPLES)).astype(
        float
    )
    one_out = np.broadcast_to(1 - np.eye(models), (RUNS, models, models))
    results = []
    for truth, closed, correlation in zip(
        population(rho, episodes, rng),
        (spearman_interval, kendall_interval),
        (spearman, kendall),
        strict=True,
    ):
        intervals = [closed(*pair) for pair in zip(metric, success, strict=True)]
        estimate = np.array([ci.estimate for ci in intervals])
        # Resamples that draw one model only, or all of one success, have no correlation.
        with np.errstate(invalid="ignore", divide="ignore"):
            resampled, left_out = correlation(times, x, y), correlation(one_out, x, y)
            bounds = [
                np.array([(ci.low, ci.high) for ci in intervals]).T,
                percentile_bounds(resampled),
                bca_bounds(resampled, estimate, left_out),
            ]
        assert correlation(np.ones((RUNS, 1, models)), x, y)[:, 0] == pytest.approx(estimate)
        for low, high in bounds:
            covered = ((low <= truth) & (truth <= high)).mean()
            results.append((covered, np.nanmean(high - low)))
    return results


@pytest.mark.parametrize("episodes", [None, 10])
def test_correlation_intervals_cover_where_few_models_leave_bootstraps_short(
    episodes, statistics_page
):
    pytest.importorskip("scipy")
    rng = np.random.default_rng(0)
    rows = []
    for models in (5, 6, 10, 20):
        for rho in (0.0, 0.8, 0.95):
            results = correlation_coverage(rho, models, episodes, rng)
            rows.append(
                [models, rho, *(f"{covered:.3f} ({width:.2f})" for covered, width in results)]
            )
            spearmans, kendalls = np.array(results)[:, 0].reshape(2, 3)
            assert spearmans[0] > 0.92
            assert kendalls[0] > 0.89
            if models == 5 and rho == 0.8:
                assert max(*spearmans[1:], *kendalls[1:]) < 0.9
    rates = "exact success rates" if episodes is None else f"success in {episodes} episodes"
    statistics_page.table(
        f"Rank correlation of a metric with planning success: {rates}",
        [
            "models",
            "normal correlation",
            "Spearman: Bonett-Wright",
            "Spearman: percentile",
            "Spearman: BCa",
            "Kendall: Fieller-Hartley-Pearson",
            "Kendall: percentile",
            "Kendall: BCa",
        ],
        rows,
        note=f"Coverage, and mean width, at level 0.95. {MONTE_CARLO} The bootstraps take "
        f"{RESAMPLES} resamples of models; a BCa interval that is not defined covers nothing.",
    )
