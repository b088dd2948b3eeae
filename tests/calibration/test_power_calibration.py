"""Exact power of gates of fixed size, and what a stored oracle arm does to their false alarms."""

import numpy as np
import pytest

from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.paired import METHODS, PAIRED_METHODS
from pytest_cpg.stats.pairing import (
    Pairs,
    joint_chance,
    likely_counts,
    multinomial_chance,
    pair_rates,
)
from pytest_cpg.stats.power import agresti_caffo_above, detectable_gap, episodes_for_gap, gap_power

pytestmark = pytest.mark.slow

Z = critical_value(0.95)
SIZES = (20, 50, 100, 150)
PAIRS = ((0.9, 0.8), (0.5, 0.3), (0.9, 0.6), (0.95, 0.05))
PAIRINGS = {"independent": 0.0, "half shared": 0.5}
NAMES = ("both", "oracle_only", "learned_only", "neither")


def alarms_of_stored_arm(rate, *, stored, share, quantile=0.975):
    """Return a count of the stored oracle arm at a quantile, and P(low > 0) of 150 given it."""
    binom = pytest.importorskip("scipy.stats").binom
    count = int(binom.ppf(quantile, stored, rate))
    pair = pair_rates(rate, rate, share=share)
    s, t = likely_counts(stored, rate)[:, None], likely_counts(150, rate)
    chance = joint_chance(pair, 150, stored, s, t)[s[:, 0] == count][0]
    return count, chance[agresti_caffo_above(count, stored, t, 150, z=Z)].sum() / chance.sum()


def chance_above(method, shares, n, *, gap=0.0):
    """Return P(low > gap) of a paired interval when every start falls out by these shares."""
    wins, losses = np.indices((n + 1, n + 1))
    is_above = (wins + losses <= n) & method.above(wins, losses, n, gap=gap, z=Z)
    return multinomial_chance(n, (wins, shares[1]), (losses, shares[2]))[is_above].sum()


def test_pairing_gives_power_and_paired_intervals_take_it(statistics_page):
    powers = {
        (pair, pairing, n): [
            gap_power(*pair, episodes=n, method=method, share=share) for method in METHODS
        ]
        for pair in PAIRS
        for pairing, share in PAIRINGS.items()
        for n in SIZES
    }
    rows = [
        (f"{oracle:g} vs {learned:g}", pairing, n, *(f"{power:.3f}" for power in found))
        for ((oracle, learned), pairing, n), found in powers.items()
    ]
    statistics_page.table(
        "Power of gates of fixed size",
        ("oracle vs learned", "starts", "n", *METHODS),
        rows,
        note=(
            "Chance of MODEL BOTTLENECK at level 0.95 when the true success rates are those of the "
            "first column. Half shared: half of the starts decide for both arms at once."
        ),
    )
    unpaired, *paired = powers[(0.9, 0.8), "half shared", 150]
    assert unpaired == pytest.approx(0.716, abs=6e-4)
    assert min(paired) >= 0.83
    unpaired, *paired = powers[(0.5, 0.3), "half shared", 150]
    assert unpaired == pytest.approx(0.976, abs=6e-4)
    assert paired == pytest.approx([0.992] * 2, abs=6e-4)
    # Where the starts decide nothing, pairing them costs little.
    for (_, pairing, _), (unpaired, *paired) in powers.items():
        assert min(paired) > unpaired - 0.04 or pairing == "half shared"


def test_detectable_gaps_and_episodes_for_gaps(statistics_page):
    def text(value, digits):
        return "none" if value is None else f"{value:.{digits}f}"

    rows, wanted = [], (0.1, 0.2, 0.3)
    for oracle in (1, 0.95, 0.9, 0.7, 0.5, 0.3):
        for what, arguments in (
            ("agresti-caffo, independent", {}),
            ("agresti-caffo, independent, 1500 oracle episodes", {"oracle_episodes": 1500}),
            ("bonett-price, independent", {"method": "bonett-price"}),
            ("bonett-price, half shared", {"method": "bonett-price", "share": 0.5}),
        ):
            gaps = [detectable_gap(oracle, n, **arguments) for n in SIZES]
            sizes = [episodes_for_gap(oracle, gap, **arguments) for gap in wanted]
            rows.append(
                (oracle, what, *(text(gap, 3) for gap in gaps), *(text(n, 0) for n in sizes))
            )
            found = [gap for gap in gaps if gap is not None]
            assert found == sorted(found, reverse=True)
            for gap, size in zip(wanted, sizes, strict=True):
                if size is not None:
                    assert gap_power(oracle, oracle - gap, episodes=size, **arguments) >= 0.8
    statistics_page.table(
        "Gaps found with a chance of 80 %",
        (
            "oracle's rate",
            "interval, starts",
            *(f"gap at n = {n}" for n in SIZES),
            *(f"n for {gap:g}" for gap in wanted),
        ),
        rows,
        note=(
            "The smallest true gap that reads MODEL BOTTLENECK with a chance of 80 % at level "
            "0.95, and the learned episodes from which on a true gap does. None: the oracle "
            "succeeds too rarely."
        ),
    )


def test_no_pairing_takes_power_from_a_gate_that_has_it(statistics_page):
    rates = np.linspace(0, 1, 11)
    rows = []
    for method in METHODS:
        losses = []
        for n in (10, *SIZES):
            for oracle in rates:
                for learned in rates[rates < oracle]:
                    powers = [
                        gap_power(oracle, learned, episodes=n, method=method, share=share)
                        for share in (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)
                    ]
                    losses.append((powers[0], powers[0] - min(powers)))
        powers, losses = np.array(losses).T
        worst = [losses[powers >= least].max() for least in (0.5, 0.75)]
        rows.append((method, *(f"{max(loss, 0):.4f}" for loss in worst)))
        assert worst[0] < 0.015
        assert worst[1] < 1e-10
    statistics_page.table(
        "Power that pairing may cost",
        ("interval", "of gates with a power of 1/2 or more", "of 3/4 or more"),
        rows,
        note=(
            "The most power that a gate of independent arms loses when a share of its starts "
            "decides for both arms, over shares from 0 to 1, success rates in steps of 0.1 and n "
            "in {10, 20, 50, 100, 150}: planning with independent arms never promises too much."
        ),
    )


def test_power_falls_back_only_soon_after_it_was_reached(statistics_page):
    rows = []
    for level in (0.9, 0.95, 0.99):
        for method in ("agresti-caffo", "bonett-price", "tango"):
            latest = (0.0, "never", "", "")
            for oracle, gaps in (
                (1, (0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.5)),
                (0.9, (0.08, 0.1, 0.15, 0.2, 0.5)),
                (0.5, (0.15, 0.2, 0.3, 0.5)),
            ):
                for gap in gaps:
                    powers = [0.0]
                    while powers[-1] < 0.97 or len(powers) < 40:
                        powers.append(
                            gap_power(
                                oracle,
                                oracle - gap,
                                episodes=len(powers),
                                method=method,
                                level=level,
                            )
                        )
                    for wanted in np.linspace(0.5, 0.95, 10):
                        has_it = np.array(powers) >= wanted
                        first, kept = has_it.argmax(), len(has_it) - has_it[::-1].argmin()
                        late = (kept - first) / np.sqrt(first)
                        if late > latest[0]:
                            what = f"{wanted:.2f} at {oracle:g} vs {oracle - gap:g}"
                            latest = (late, what, first, kept)
            late, *what = latest
            rows.append((method, level, *what, f"{late:.1f}"))
            assert late < 4
    statistics_page.table(
        "Power that is reached and lost again",
        ("interval", "level", "power", "first reached at n", "kept from n", "late by sqrt(first)"),
        rows,
        note=(
            "Counts are whole, so that one episode more may move the least count that is found and "
            "take power. The latest return to a wanted power after it was first reached, over "
            "powers from 0.5 to 0.95 and rates 1, 0.9 and 0.5 with gaps from 0.02 to 0.5."
        ),
    )


def test_a_stored_oracle_arm_keeps_its_luck_and_a_larger_one_has_less(statistics_page):
    rows, alarms = [], {}
    for rate in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
        for stored in (150, 500, 1500):
            count, alarms[rate, stored] = alarms_of_stored_arm(rate, stored=stored, share=0)
            _, paired = alarms_of_stored_arm(rate, stored=stored, share=0.5)
            every = gap_power(rate, rate, episodes=150, oracle_episodes=stored)
            rows.append(
                (
                    rate,
                    stored,
                    count,
                    f"{every:.4f}",
                    f"{alarms[rate, stored]:.3f}",
                    f"{paired:.3f}",
                )
            )
    statistics_page.table(
        "False alarms while a stored oracle arm is lucky",
        (
            "rate of both arms",
            "oracle episodes",
            "stored successes",
            "any oracle arm",
            "this one",
            "this one, half shared",
        ),
        rows,
        note=(
            "A model as good as the oracle is run for 150 episodes at every merge and compared "
            "with a stored oracle arm, by Agresti and Caffo's interval at level 0.95. Stored is "
            "the 97.5 % quantile of the oracle's successes. The shares are those of merges that "
            "read MODEL BOTTLENECK: over oracle arms drawn anew, and as long as this one is kept. "
            "Half shared: half of the 150 starts decide for both arms, so that luck with them is "
            "not luck of the oracle alone."
        ),
    )
    assert alarms[0.5, 150] == pytest.approx(0.231, abs=6e-4)
    assert alarms[0.5, 1500] == pytest.approx(0.082, abs=6e-4)
    assert all(share < 0.1 for (_, stored), share in alarms.items() if stored == 1500)
    powers = [gap_power(0.9, 0.8, episodes=150, oracle_episodes=stored) for stored in (150, 1500)]
    assert powers == pytest.approx([0.681, 0.902], abs=6e-4)


@pytest.mark.parametrize("counts", [(42, 5, 1, 2), (30, 12, 6, 2), (3, 4, 1, 2)])
def test_about_half_of_the_runs_of_the_promised_size_are_resolved(counts):
    table = dict(zip(NAMES, counts, strict=True))
    shares = np.array(counts) / sum(counts)
    for method in PAIRED_METHODS.values():
        size = method.episodes_to_settle(Pairs(**table))
        assert 0.4 < chance_above(method, shares, size) < 0.65


@pytest.mark.parametrize("counts", [(45, 2, 2, 1), (25, 5, 5, 15), (38, 4, 3, 5)])
def test_about_half_of_the_runs_of_the_promised_size_prove_the_margin(counts):
    table = dict(zip(NAMES, counts, strict=True))
    swapped = np.array(counts)[[0, 2, 1, 3]] / sum(counts)
    for method in PAIRED_METHODS.values():
        size = method.episodes_to_settle(Pairs(**table), margin=0.15)
        assert 0.4 < chance_above(method, swapped, size, gap=-0.15) < 0.65
