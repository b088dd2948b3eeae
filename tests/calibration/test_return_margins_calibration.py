"""Exact chance to prove a margin on returns where few starts lose much."""

import numpy as np
import pytest
from fakes import arm

from pytest_cpg.gates.planning_gap.result import possible_return_gap
from pytest_cpg.stats.returns import paired_mean_interval

pytestmark = pytest.mark.slow

SIZES, SHARES = range(10, 201), np.arange(0.005, 1, 0.005)


def proven_by(n):
    """Return the least margin that starts without any loss prove, as a share of the worst one."""
    return f"{100 * (1 - 0.025 ** (1 / n)):.1f} %"


def proofs_of_disasters(n, unseen):
    """Return the chance to prove a margin that is the mean loss, by the share of starts that lose.

    A start loses 1 or nothing. With ``unseen`` None by Student's interval alone, and else as gates
    do, where random actions lose so much at worst, at most 1.
    """
    stats, special = (pytest.importorskip(f"scipy.{name}") for name in ("stats", "special"))
    lost = np.arange(n + 1)
    error = np.sqrt(lost * (n - lost) / n**2 / (n - 1))
    high = lost / n + stats.t.ppf(0.975, n - 1) * error
    if unseen is not None:
        # Gaffke's bound of zeros and ones is Clopper's and Pearson's.
        possible = special.betaincinv(lost + 1, np.maximum(n - lost, 1), 0.975)
        possible[0] *= unseen
        possible[n] = 1
        high = np.maximum(high, possible)
    passes = high < SHARES[:, None]
    return (stats.binom.pmf(lost, n, SHARES[:, None]) * passes).sum(axis=1)


@pytest.mark.parametrize("unseen", [1.0, 0.5])
def test_what_is_enumerated_is_what_gates_do(unseen):
    """Of 15 starts, of which some lose 1."""
    lost = np.arange(16)
    for count in lost[:8]:
        arms = np.ones(15), np.where(np.arange(15) < count, 0.0, 1.0), np.full(15, 1 - unseen)
        oracle, learned, chance = (
            arm(name, earned) for name, earned in zip("olc", arms, strict=True)
        )
        bound = possible_return_gap(oracle, learned, chance, level=0.95)
        interval = paired_mean_interval(arms[0], arms[1])
        exact = pytest.importorskip("scipy.stats").binomtest(int(count), 15).proportion_ci().high
        assert bound == pytest.approx(
            max(interval.high, exact * (1 if count else unseen)), abs=1e-9
        )


def test_margins_on_returns_where_few_starts_lose_much(statistics_page):
    rows, worst = [], {}
    for name, unseen in (
        ("Student's interval alone", None),
        ("as judged; as much as random actions at worst", 1.0),
        ("as judged; twice as much", 0.5),
        ("as judged; 5 times as much", 0.2),
    ):
        found = {n: proofs_of_disasters(n, unseen) for n in SIZES}
        n = max(SIZES, key=lambda n: found[n].max())
        worst[unseen] = found[n].max()
        at = SHARES[found[n].argmax()]
        of_twenty = (found[n][9] for n in (10, 20, 50, 100, 200))
        rows.append(
            (
                name,
                f"{100 * worst[unseen]:.2f} % ({n}, {at:.3f})",
                *(f"{100 * share:.1f} %" for share in of_twenty),
            )
        )
    assert worst[1.0] <= 0.025 < worst[0.5] < worst[0.2] < worst[None]
    statistics_page.table(
        "Margins on returns where few starts lose much",
        (
            "judged by; what such a start loses",
            "worst (n, share)",
            *(f"1 in 20 lose, n = {n}" for n in (10, 20, 50, 100, 200)),
        ),
        rows,
        note=(
            "Chance that a gate proves a margin that is the model's mean loss, at level 0.95 "
            "(nominal 2.5 %), where the model is exact on all starts but a share of them, which "
            "all lose as much: the worst over all n from 10 to 200 and shares in steps of 0.005, "
            "and that of 1 start in 20. Gates guard against starts that lose as much as random "
            "actions lose at the worst of the gate's starts, and against no worse ones that none "
            "of its starts shows. Below 10 starts nothing is proven. Where none of 20 starts loses "
            f"anything, a gate proves margins above {proven_by(20)} of what random actions lose, "
            f"of 50 above {proven_by(50)}, of 100 above {proven_by(100)}."
        ),
    )


def test_returns_of_0_or_1_without_a_gap():
    """Student's interval above 0, as said in the docstring of `paired_mean_interval`."""
    stats = pytest.importorskip("scipy.stats")
    worst = {}
    for n in range(2, 201):
        split, wins = np.indices((n + 1, n + 1))
        gap = (2 * wins - split) / n
        error = np.sqrt(np.maximum(split / n - gap**2, 0) / (n - 1))
        # Where no start splits the arms, both are 0.
        above = (wins <= split) & (gap > stats.t.ppf(0.975, n - 1) * error + 1e-12)
        least = split[:, 0] + 1 - above.sum(axis=1)
        tail = stats.binom.sf(least - 1, split[:, 0], 0.5)
        shares = np.linspace(0, 0.5, 101)[:, None]
        worst[n] = (stats.binom.pmf(split[:, 0], n, shares) @ tail).max()
    assert worst.pop(2) == pytest.approx(0.0625)
    assert 0.027 < max(worst.values()) < 0.028
