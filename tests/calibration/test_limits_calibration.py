"""Where what a gate promises ends: every size, unequal arms, chosen baselines, small sizes."""

from functools import cache

import numpy as np
import pytest

from pytest_cpg.stats import Verdict
from pytest_cpg.stats.intervals import critical_value, highest_rate, wilson_interval
from pytest_cpg.stats.paired import PAIRED_METHODS, exact_mcnemar_p_value
from pytest_cpg.stats.power import agresti_caffo_above, agresti_caffo_interval
from pytest_cpg.stats.verdicts import weigh_gap

pytestmark = pytest.mark.slow

# Gates of three starts are the smallest that are accepted.
SMALL, SIZES = range(3, 10), range(10, 201)
RATES = np.linspace(0, 1, 201)
Z = critical_value(0.95)


def binomial(n, rates):
    """Return the chance of each count [rate, count]."""
    binom = pytest.importorskip("scipy.stats").binom
    return binom.pmf(np.arange(n + 1), n, np.asarray(rates)[:, None])


def independent_alarms(n, m, rates=RATES):
    """Return P(interval above 0) for Agresti and Caffo, by the rate of both arms.

    The oracle arm has ``m`` episodes, the learned one ``n``.
    """
    binom = pytest.importorskip("scipy.stats").binom
    above = agresti_caffo_above(np.arange(m + 1)[:, None], m, np.arange(n + 1), n, z=Z)
    least = m + 1 - above.sum(axis=0)
    # The more the oracle solves, the more is lost.
    assert (above == (np.arange(m + 1)[:, None] >= least)).all()
    return (binomial(n, rates) * binom.sf(least - 1, m, np.asarray(rates)[:, None])).sum(axis=1)


def opposed_alarms(n):
    """Return P(interval above 0) for Agresti and Caffo, of arms that disagree on every start."""
    wins = np.arange(n + 1)
    return binomial(n, [0.5])[0] @ agresti_caffo_above(wins, n, n - wins, n, z=Z)


def paired_alarms(method, n, shares):
    """Return P(interval above 0) without a gap, by the share of starts that split the arms."""
    disagreed, wins = np.indices((n + 1, n + 1))
    is_possible = wins <= disagreed
    losses = np.where(is_possible, disagreed - wins, 0)
    above = is_possible & PAIRED_METHODS[method].above(wins, losses, n, z=Z)
    half = np.stack([np.pad(binomial(d, [0.5])[0], (0, n - d)) for d in range(n + 1)])
    return binomial(n, shares) @ (half * above).sum(axis=1)


def test_false_alarms_at_every_size(statistics_page):
    found = {}
    shares = np.sin(np.linspace(0, np.pi / 2, 401)) ** 2
    for n in (*SMALL, *SIZES):
        found["agresti-caffo, independent arms", n] = independent_alarms(n, n).max()
        found["agresti-caffo, arms that disagree on every start", n] = opposed_alarms(n)
        for method in ("bonett-price", "tango"):
            alarms = paired_alarms(method, n, shares)
            found[f"{method}, not negatively correlated", n] = alarms[shares <= 0.5].max()
            found[f"{method}, any pairing", n] = alarms.max()
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        errors = np.array([found[name, n] for n in SIZES])
        small, worst = (max(sizes, key=lambda n: found[name, n]) for sizes in (SMALL, SIZES))
        rows.append(
            (
                name,
                f"{100 * found[name, small]:.2f} %",
                small,
                f"{100 * found[name, worst]:.2f} %",
                worst,
                f"{100 * np.median(errors):.2f} %",
                (errors > 0.0275).sum(),
            )
        )
    statistics_page.table(
        "False alarms at every number of episodes",
        (
            "interval, arms",
            "worst, n from 3 to 9",
            "at n =",
            "worst, n from 10 to 200",
            "at n =",
            "median of these",
            "of these above 2.75 %",
        ),
        rows,
        note=(
            "Largest chance of an interval above 0 for arms of equal rates, at level 0.95 (nominal "
            "2.5 %), over all sizes from 3 to 200 and all rates in steps of 0.005, or all shares "
            "of starts that split the arms."
        ),
    )
    assert max(found["agresti-caffo, independent arms", n] for n in SIZES) < 0.033
    assert max(found["agresti-caffo, independent arms", n] for n in SMALL) < 0.036
    assert max(found["tango, not negatively correlated", n] for n in SIZES) < 0.028


def wald(s, t, n):
    """Return Wald's bounds on the gap of two arms of ``n`` episodes, for arrays of successes."""
    half = Z * np.sqrt((s * (n - s) + t * (n - t)) / n**3)
    return (s - t) / n - half, (s - t) / n + half


def agresti_caffo(s, t, n):
    """Return Agresti and Caffo's: Wald's, of one more success and failure in each arm."""
    return wald(s + 1, t + 1, n + 2)


def test_wald_covers_the_gap_less_often(statistics_page):
    rows = []
    for n in (3, 10, 20, 50, 150):
        s, t = np.indices((n + 1, n + 1))
        chances = binomial(n, RATES)
        row = [n]
        for bounds in (agresti_caffo, wald):
            low, high = bounds(s, t, n)
            # A bound that equals the gap covers it: rounding must not decide.
            covered = [
                (chances[i] @ ((low <= gap + 1e-12) & (gap - 1e-12 <= high)) * chances[j]).sum()
                for i, oracle in enumerate(RATES)
                for j, learned in enumerate(RATES[: i + 1])
                for gap in (oracle - learned,)
            ]
            alarms = (chances @ (low > 1e-12) * chances).sum(axis=1)
            row += [
                f"{100 * min(covered):.1f} %",
                f"{100 * alarms.max():.2f} %",
                f"[{max(low[n, 0], -1):+.2f}, {min(high[n, 0], 1):+.2f}]",
            ]
        rows.append((*row[:2], row[4], row[2], row[5], row[3], row[6]))
        assert agresti_caffo_interval(n, n, 0, n).low == pytest.approx(agresti_caffo(n, 0, n)[0])
    statistics_page.table(
        "Why not Wald",
        (
            "n",
            "covers the gap at least, Agresti-Caffo",
            "Wald",
            "false alarms at most, Agresti-Caffo",
            "Wald",
            "interval of n of n beside 0 of n, Agresti-Caffo",
            "Wald",
        ),
        rows,
        note=(
            "Independent arms of n episodes at level 0.95, over all pairs of rates in steps of "
            "0.005: the least chance that the interval covers the true gap, the largest chance "
            "that it is above 0 where there is none (nominal 2.5 %), and what both say of an "
            "oracle that solves every start and a model that solves none."
        ),
    )


def test_false_alarms_of_unequal_arms(statistics_page):
    rows, rates = [], np.linspace(0, 1, 501)
    for m in (150, 500, 1500):
        found = {n: independent_alarms(n, m, rates) for n in range(SMALL[0], 151)}
        worst = {n: errors.max() for n, errors in found.items()}
        for sizes in (SMALL, range(10, 151), *((n,) for n in (10, 20, 30, 50, 100, 150))):
            n = max(sizes, key=worst.get)
            of = f"{sizes[0]} to {sizes[-1]}: {n}" if len(sizes) > 1 else n
            rows.append((m, of, f"{100 * worst[n]:.2f} %", f"{rates[found[n].argmax()]:.3f}"))
        assert max(worst[n] for n in SMALL) < 0.08
        assert max(error for n, error in worst.items() if n not in SMALL) < 0.05
    statistics_page.table(
        "False alarms with more oracle episodes",
        ("oracle episodes", "n", "worst", "at the rate"),
        rows,
        note=(
            "Largest chance of an Agresti-Caffo interval above 0 for independent arms of equal "
            "rates at level 0.95 (nominal 2.5 %), over all rates in steps of 0.002, with more "
            "oracle episodes (`oracle_episodes`) than learned ones; of a range of n its worst."
        ),
    )


@cache
def regressed(n):
    """Return whether McNemar's test calls it REGRESSED, [lost, gained]."""
    flags = np.zeros((n + 1, n + 1), dtype=bool)
    for lost in range(n + 1):
        for gained in range(min(lost, n + 1 - lost)):
            flags[lost, gained] = exact_mcnemar_p_value(lost=lost, gained=gained) <= 1 - 0.95
    return flags


def false_regressions(n, rate, accepted):
    """Return P(REGRESSED) for a model that is as good as an accepted one [successes of `n`].

    Starts are independent, and which of them were solved is as likely as any.
    """
    flags, total = regressed(n), 0.0
    for solved, chance in enumerate(accepted):
        if chance > 1e-12:
            lost = binomial(solved, [1 - rate])[0]
            gained = binomial(n - solved, [rate])[0]
            total += chance * (lost @ flags[: solved + 1, : n - solved + 1] @ gained)
    return total


def best_of(n, rate, count):
    """Return the chance of each number of successes of the best of some equal models."""
    below = np.minimum(binomial(n, [rate])[0].cumsum(), 1)
    return np.diff(below**count, prepend=0)


def passed(n, oracle, rate):
    """Return the chance of each number of successes of a model whose gate did not fail.

    And how often it does not.
    """
    counts = np.arange(n + 1)
    fails = agresti_caffo_above(counts[:, None], n, counts, n, z=Z)
    chances = binomial(n, [rate])[0] * (binomial(n, [oracle])[0] @ ~fails)
    return chances / chances.sum(), chances.sum()


def test_false_regressions_against_baselines_that_were_chosen(statistics_page):
    rows = []
    for rate, oracle in ((0.5, 0.6), (0.7, 0.8), (0.7, 0.9), (0.8, 0.9), (0.95, 1.0)):
        for n in (50, 150):
            chosen = [
                [false_regressions(m, rate, best_of(m, rate, count)) for m in range(1, n + 1)]
                for count in (1, 3, 10)
            ]
            # Half of the starts decide for all models: only the others can change.
            halves = [binomial(n, [0.5])[0][1:] @ errors for errors in chosen]
            fortunate, chance = passed(n, oracle, rate)
            shares = [errors[-1] for errors in chosen]
            by_gate = false_regressions(n, rate, fortunate)
            rows.append(
                (
                    f"{rate:g}",
                    n,
                    *(
                        f"{100 * share:.1f} % ({100 * half:.1f} %)"
                        for share, half in zip(shares, halves, strict=True)
                    ),
                    f"{oracle:g}: {100 * by_gate:.1f} % ({100 * chance:.0f} %)",
                )
            )
            assert shares[0] < 0.025
            assert shares[0] <= shares[1] <= shares[2]
    statistics_page.table(
        "False REGRESSED against a baseline that was chosen",
        (
            "rate of all models",
            "n",
            "accepted as it came",
            "best of 3",
            "best of 10",
            "oracle's rate: passed its gate (how often)",
        ),
        rows,
        note=(
            "Chance that a model reads REGRESSED beside an accepted one of the same true rate, on "
            "the same starts, by McNemar's exact test at level 0.95 (nominal 2.5 %); in brackets "
            "where half of the starts decide for all models at once. Who accepts "
            "the luckiest of several checkpoints compares all that come after with luck. A model "
            "that was accepted because its gate did not fail is lucky, too, where that gate could "
            "have failed."
        ),
    )


def test_checkpoints_chosen_on_the_starts_of_their_gate(statistics_page):
    rows = []
    for oracle, rate in ((1.0, 0.9), (0.95, 0.8), (0.9, 0.7), (0.7, 0.5)):
        for n in (50, 150):
            counts = np.arange(n + 1)
            fails = agresti_caffo_above(counts[:, None], n, counts, n, z=Z)
            solved = binomial(n, [oracle])[0]
            shares = [solved @ fails @ best_of(n, rate, count) for count in (1, 3, 10)]
            rows.append((f"{oracle:g}, {rate:g}", n, *(f"{share:.3f}" for share in shares)))
            assert shares[0] >= shares[1] >= shares[2]
    statistics_page.table(
        "Checkpoints chosen on the starts of their gate",
        ("rates of oracle and models", "n", "any checkpoint", "best of 3", "best of 10"),
        rows,
        note=(
            "Chance of MODEL BOTTLENECK at level 0.95 (Agresti-Caffo, independent arms) where all "
            "checkpoints have the same true rate, and the one that solves most is chosen on the "
            "very starts that it is then gated on. Choose with another `--cpg-seed` than the "
            "gate's, and the first column holds."
        ),
    )


def failed_at_limit(bound, n, limits):
    """Return P(bound of the rate below a limit) where that is the rate [limit]."""
    binom = pytest.importorskip("scipy.stats").binom
    high = np.array([bound(count, n) for count in range(n + 1)])
    return binom.cdf((high < limits[:, None]).sum(axis=1) - 1, n, limits)


def test_oracles_that_min_oracle_fails(statistics_page):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    rows = []
    for wanted, rates in ((0.5, (0.3, 0.4, 0.5, 0.6)), (0.8, (0.5, 0.6, 0.7, 0.8, 0.85, 0.9))):
        for rate in rates:
            cells = []
            for n in (10, 20, 50, 150):
                counts = np.arange(n + 1)
                chances = binomial(n, [rate])[0]
                _, high = proportion.proportion_confint(counts, n, method="beta")
                ours = np.array([highest_rate(int(s), n) for s in counts])
                assert ((ours < wanted) == (high < wanted)).all()
                raw, sure = chances[counts / n < wanted].sum(), chances[ours < wanted].sum()
                cells.append(f"{100 * sure:.1f} % ({100 * raw:.0f} %)")
            rows.append((f"{wanted:g}", f"{rate:g}", *cells))
    limits, worst = np.arange(0.005, 1, 0.005), {}
    for n in (*SMALL, *SIZES):
        bounds = highest_rate, lambda s, n: wilson_interval(s, n).high
        worst[n] = [failed_at_limit(bound, n, limits).max() for bound in bounds]
        assert worst[n][0] <= 0.025
    exact, of_wilson = (max(errors) for errors in zip(*worst.values(), strict=True))
    statistics_page.table(
        "Oracles that min_oracle fails",
        ("min_oracle", "oracle's true rate", "n = 10", "n = 20", "n = 50", "n = 150"),
        rows,
        note=(
            "Chance that the oracle arm fails its gate because the upper end of its exact interval "
            "(Clopper and Pearson) at level 0.95 is below `min_oracle`; in brackets the chance "
            "that its raw rate is. An oracle that is just good enough fails in at most "
            f"{100 * exact:.2f} % of gates, over all n from 3 to 200 and limits in steps of 0.005 "
            f"(by Wilson's interval {100 * of_wilson:.1f} %); one that is not needs a distance, or "
            "episodes, to be told."
        ),
    )


def test_verdicts_by_raw_rates_that_are_marked_as_weak(statistics_page):
    rows = []
    pairs = ((1, 1), (0.99, 0.99), (0.98, 0.98), (0.95, 0.95), (1, 0.98), (1, 0.95), (1, 0.9))
    sizes = 10, 20, 50, 100, 150
    for oracle, learned in pairs:
        cells = []
        for n in sizes:
            good = weak = 0.0
            least = int(np.ceil(0.95 * n - 1e-9))
            solved, reached = binomial(n, [oracle])[0], binomial(n, [learned])[0]
            for s in range(least, n + 1):
                for t in range(least, n + 1):
                    ruled = weigh_gap(agresti_caffo_interval(s, n, t, n), (s, n), (t, n))
                    if ruled.verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE:
                        good += solved[s] * reached[t]
                        weak += solved[s] * reached[t] * ruled.is_weak
            cells.append(f"{good:.3f} ({good - weak:.3f})")
            if oracle - learned >= 0.1:
                assert good - weak < 0.04
        rows.append((f"{oracle:g}, {learned:g}", *cells))
    statistics_page.table(
        "AS GOOD by raw rates",
        ("rates of oracle and model", *(f"n = {n}" for n in sizes)),
        rows,
        note=(
            "Chance of MODEL AS GOOD AS ORACLE without a margin, at level 0.95 and a tolerance of "
            "0.05, for independent arms, and in brackets of one that is not marked with `~`: its "
            "interval rules out a drop of 0.1, twice the tolerance. Below 26 episodes no outcome "
            "does, and every AS GOOD is marked."
        ),
    )
