"""Exact operating characteristics of the paired intervals: every table of counts is enumerated."""

from functools import cache

import numpy as np
import pytest

from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.paired import PAIRED_METHODS
from pytest_cpg.stats.pairing import Pairs

pytestmark = pytest.mark.slow

SIZES = (10, 20, 50, 100, 150)
SHARES = np.linspace(0, 1, 201)


def agresti_caffo_of_the_margins(pairs):
    n, both = pairs.count, pairs.both
    return agresti_caffo_interval(both + pairs.oracle_only, n, both + pairs.learned_only, n)


METHODS = {
    "agresti-caffo": agresti_caffo_of_the_margins,
    **{name: method.interval for name, method in PAIRED_METHODS.items()},
}
# Without a gap: the largest share of runs with a lower bound above 0 at level 0.95, whatever the
# rate, over all pairings and over those that are not negatively correlated.
MOST_ALARMS = {
    "agresti-caffo": (0.105, 0.029),
    "bonett-price": (0.055, 0.0256),
    "tango": (0.033, 0.0270),
}


def outcomes(n, rates):
    """Return the binomial probabilities [rate, successes]."""
    binom = pytest.importorskip("scipy.stats").binom
    return binom.pmf(np.arange(n + 1), n, np.asarray(rates)[:, None])


@cache
def alarms(method, n):
    """Return for each number of disagreements whether the lower bound is above 0, [wins, both]."""
    tables = []
    for disagreed in range(n + 1):
        agreed = n - disagreed
        flags = np.zeros((disagreed + 1, agreed + 1), dtype=bool)
        # Only a positive estimate can have a positive lower bound.
        for wins in range(disagreed // 2 + 1, disagreed + 1):
            for both in range(1 if method in PAIRED_METHODS else agreed + 1):
                pairs = Pairs(
                    both=both,
                    oracle_only=wins,
                    learned_only=disagreed - wins,
                    neither=agreed - both,
                )
                flags[wins, both] = METHODS[method](pairs).low > 0
        if method in PAIRED_METHODS:
            # How agreement divides into both and neither changes nothing.
            flags[:, 1:] = flags[:, :1]
        tables.append(flags)
    return tables


def alarm_shares(method, n, disagree, solve, *, win=0.5):
    """Return P(low > 0) [share of disagreement, share of agreement that both solve].

    ``win`` is the oracle arm's share of the disagreements.
    """
    shares = np.zeros((len(disagree), len(solve)))
    for disagreed, chance in enumerate(outcomes(n, disagree).T):
        by_both = outcomes(disagreed, [win])[0] @ alarms(method, n)[disagreed]
        shares += np.outer(chance, outcomes(n - disagreed, solve) @ by_both)
    return shares


def half_shared(oracle, learned):
    """Return the pairing of two rates in which half of the starts decide for both arms at once.

    On those the arms solve as many together as their rates allow; on the others they are
    independent. Arms of one rate then correlate by one half.
    """
    both = (oracle * learned + min(oracle, learned)) / 2
    disagree = oracle + learned - 2 * both
    return [disagree], [both / (1 - disagree)], (oracle - both) / disagree


def power(method, n, oracle, learned):
    disagree, solve, win = half_shared(oracle, learned)
    return alarm_shares(method, n, disagree, solve, win=win)[0, 0]


def test_false_alarms_over_all_rates_and_pairings(statistics_page):
    # Two arms of one rate disagree on some share of the starts, half of it each way, and both
    # solve some share of the others: this grid holds every pairing of every rate. Arms that are not
    # negatively correlated disagree on no more than independent ones.
    disagree, solve = SHARES[:, None], SHARES
    rate = solve * (1 - disagree) + disagree / 2
    usual = disagree <= 2 * rate * (1 - rate) + 1e-12
    rows = []
    for method in METHODS:
        for n in SIZES:
            shares = alarm_shares(method, n, SHARES, SHARES)
            cells = []
            for kept in (np.full_like(usual, fill_value=True), usual):
                i, j = np.unravel_index(np.where(kept, shares, 0).argmax(), shares.shape)
                cells.append((shares[i, j], rate[i, j], SHARES[i]))
            worst, usual_worst = (share for share, *_ in cells)
            assert worst < MOST_ALARMS[method][0]
            assert usual_worst < MOST_ALARMS[method][1]
            rows.append([method, n, *(f"{100 * s:.2f} % ({p:.3f}, {d:.3f})" for s, p, d in cells)])
    statistics_page.table(
        "False alarms of the intervals",
        ["interval", "episodes", "any pairing", "arms not negatively correlated"],
        rows,
        note=(
            "Largest chance of an interval above 0 for arms of equal rates at level 0.95 (nominal "
            "2.5 %), over all rates and pairings in steps of 0.005; in brackets the rate and the "
            "share of starts on which the arms disagree. Independent arms, and arms that share "
            "starts and luck, are not negatively correlated."
        ),
    )


@pytest.mark.parametrize("method", METHODS)
def test_no_pairing_of_a_worse_oracle_raises_more_alarms_than_equal_arms(method):
    # Given the number of disagreements and of starts both solve, one win more never lifts an alarm:
    # the chance of an alarm rises with the oracle's share of the disagreements.
    for n in SIZES:
        assert all((flags[1:] >= flags[:-1]).all() for flags in alarms(method, n))


def test_pairing_turns_unused_false_alarms_into_power():
    print(f"\n{'half shared, n = 150':20s}  .5 vs .3   .9 vs .8   .5 vs .5   .3 vs .3")
    table = {}
    for method in METHODS:
        pairs = [(0.5, 0.3), (0.9, 0.8), (0.5, 0.5), (0.3, 0.3)]
        table[method] = [power(method, 150, *pair) for pair in pairs]
        print(f"{method:20s}" + "".join(f"{share:10.4f} " for share in table[method]))
    assert table["agresti-caffo"] == pytest.approx([0.976, 0.716, 0.0035, 0.0028], abs=6e-4)
    assert table["tango"] == pytest.approx([0.992, 0.860, 0.0247, 0.0257], abs=6e-4)
    assert table["bonett-price"] == pytest.approx([0.992, 0.841, 0.0238, 0.0227], abs=6e-4)
