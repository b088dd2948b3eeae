"""Exact chance to prove a margin that is the gap, at every number of episodes."""

from functools import cache

import numpy as np
import pytest

from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.paired import PAIRED_METHODS, TANGO, margin_level
from pytest_cpg.stats.power import agresti_caffo_above

pytestmark = pytest.mark.slow

SIZES = range(10, 201)
MARGINS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
Z = critical_value(0.95)


def binomial(n, rates):
    """Return the chance of each count [rate, count]."""
    binom = pytest.importorskip("scipy.stats").binom
    return binom.pmf(np.arange(n + 1), n, np.asarray(rates)[:, None])


def independent_error(n, margin):
    """Return the chances that Agresti and Caffo's interval ends below a margin that is the gap.

    Of an oracle that always succeeds, and of the worst one, in steps of 0.01.
    """
    counts = np.arange(n + 1)
    proven = agresti_caffo_above(counts, n, counts[:, None], n, gap=-margin, z=Z)
    rates = np.arange(round(100 * margin), 101) / 100
    oracle, learned = binomial(n, rates), binomial(n, rates - margin)
    errors = np.einsum("rs,st,rt->r", oracle, proven, learned)
    return errors[-1], errors.max()


@cache
def shares(margin, number=301):
    """Return shares of starts that split the arms, from the margin to 1 [share, 1]."""
    return np.sin(np.linspace(np.arcsin(margin**0.5), np.pi / 2, number))[:, None] ** 2


def paired_errors(method, n, margin, z, split, chances):
    """Return the chance that a paired interval ends below a margin that is the gap, by share.

    Counts of wins are summed one by one, apart from how the package does it; ``chances`` are those
    of each number of disagreements [share, n + 1].
    """
    special = pytest.importorskip("scipy.special")
    below = special.bdtr(
        np.maximum(most_wins(method, n, margin, z), -1),
        np.arange(n + 1),
        np.minimum((1 + margin / split) / 2, 1),
    )
    return (chances * np.where(most_wins(method, n, margin, z) < 0, 0, below)).sum(axis=1)


def most_wins(method, n, margin, z):
    """Return the most wins with which the margin is proven, by the number of disagreements."""
    disagreed, wins = np.indices((n + 1, n + 1))
    is_possible = wins <= disagreed
    losses = np.where(is_possible, disagreed - wins, 0)
    proven = is_possible & PAIRED_METHODS[method].above(
        losses, np.where(is_possible, wins, 0), n, gap=-margin, z=z
    )
    # Given the disagreements, fewer wins prove it, too.
    assert (np.logical_and.accumulate(proven, axis=1) == proven).all()
    return proven.sum(axis=1) - 1


def alarms(n, z):
    """Return the largest chance that Tango's interval lies above 0 without a gap."""
    special = pytest.importorskip("scipy.special")
    disagreed, wins = np.indices((n + 1, n + 1))
    losses = np.maximum(disagreed - wins, 0)
    above = (wins <= disagreed) & TANGO.above(wins, losses, n, z=z)
    least = disagreed[:, 0] + 1 - above.sum(axis=1)
    tail = special.bdtrc(least - 1, disagreed[:, 0], 0.5)
    return float((binomial(n, np.sin(np.linspace(0, np.pi / 2, 301)) ** 2) @ tail).max())


def worst(found):
    """Return the largest error of `{n: error}` as text."""
    n = max(found, key=found.get)
    return f"{100 * found[n]:.2f} % ({n})"


@pytest.mark.parametrize(("n", "margin"), [(15, 0.3), (47, 0.2), (84, 0.1), (142, 0.05)])
def test_no_share_between_those_tried_is_worse_by_much(n, margin):
    split = shares(margin, 5001)
    z = critical_value(margin_level(n, margin=margin))
    error = paired_errors("tango", n, margin, z, split, binomial(n, split[:, 0]))
    assert error.max() <= 0.025


def test_the_errors_of_all_intervals_where_the_gap_is_the_margin(statistics_page):
    rows = []
    for margin in MARGINS:
        split = shares(margin)
        # Of arms that are not negatively correlated, independent ones are split most often.
        usual = split[:, 0] <= (1 + margin**2) / 2
        found = {}
        for n in SIZES:
            held = critical_value(margin_level(n, margin=margin))
            assert alarms(n, held) <= 0.025
            chances = binomial(n, split[:, 0])
            wald, score, exact = (
                paired_errors(method, n, margin, z, split, chances)
                for method, z in (("bonett-price", Z), ("tango", Z), ("tango", held))
            )
            found[n] = (
                *independent_error(n, margin),
                wald[usual].max(),
                score[0],
                score[usual].max(),
                score.max(),
                exact[usual].max(),
                exact.max(),
            )
            assert exact.max() <= 0.025
        columns = zip(*found.values(), strict=True)
        rows.append(
            [f"{margin:g}", *(worst(dict(zip(SIZES, one, strict=True))) for one in columns)]
        )
        assert max(errors[1] for errors in found.values()) > 0.05
    statistics_page.table(
        "Proving a margin at a fixed size",
        [
            "margin",
            "agresti-caffo, oracle solves all",
            "agresti-caffo, independent arms",
            "bonett-price, not negatively correlated",
            "tango of 1998, oracle solves all",
            "tango of 1998, not negatively correlated",
            "tango of 1998, any pairing",
            "auto, not negatively correlated",
            "auto, any pairing",
        ],
        rows,
        note=(
            "Largest chance to prove a margin that is the gap, over all numbers of episodes from "
            "10 to 200 (in brackets the worst) at level 0.95; nominal 2.5 %. `auto` is Tango's "
            "interval, widened at each number of episodes until no rates and no pairing exceed "
            "2.5 %, with a gap at the margin and without one; 301 shares of starts that split the "
            "arms were tried."
        ),
    )


def test_what_holding_a_margin_costs(statistics_page):
    rows = []
    for rate in (1.0, 0.95, 0.9, 0.8):
        for margin, sizes in ((0.05, (100, 200, 400)), (0.1, (50, 100, 200)), (0.2, (20, 50, 100))):
            for n in sizes:
                cells = []
                for share in (0.0, 0.5):
                    agree = share + (1 - share) * (rate**2 + (1 - rate) ** 2)
                    split = max(0.0, 1 - agree)
                    cells += [
                        f"{proof(n, margin, split, z):.3f}"
                        for z in (Z, critical_value(margin_level(n, margin=margin)))
                    ]
                counts = np.arange(n + 1)
                region = agresti_caffo_above(counts, n, counts[:, None], n, gap=-margin, z=Z)
                chances = binomial(n, [rate])[0]
                rows.append(
                    [f"{rate:g}", f"{margin:g}", n, f"{chances @ region @ chances:.3f}", *cells]
                )
                assert float(cells[0]) - float(cells[1]) < 0.2
    statistics_page.table(
        "Chance to prove a margin with a model that is as good as the oracle",
        [
            "rate of both",
            "margin",
            "n",
            "agresti-caffo, independent",
            "tango of 1998, independent",
            "auto, independent",
            "tango of 1998, half shared",
            "auto, half shared",
        ],
        rows,
        note=(
            "At level 0.95. Half shared: half of the starts decide for both arms at once. What "
            "`auto` has less than Tango's interval of 1998 is the price of holding the margin."
        ),
    )


def proof(n, margin, split, z):
    """Return the chance that Tango's interval ends below a margin, without a gap."""
    special = pytest.importorskip("scipy.special")
    disagreed, wins = np.indices((n + 1, n + 1))
    losses = np.maximum(disagreed - wins, 0)
    region = TANGO.above(losses, wins, n, gap=-margin, z=z)
    most = ((wins <= disagreed) & region).sum(axis=1) - 1
    below = np.where(most < 0, 0, special.bdtr(most, np.arange(n + 1), 0.5))
    return float(binomial(n, [split])[0] @ below)
