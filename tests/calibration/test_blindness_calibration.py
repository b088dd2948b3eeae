"""How often a gate is called blind although its oracle is strong, by enumeration."""

import itertools

import numpy as np
import pytest

from pytest_cpg.stats import Verdict, agresti_caffo_interval
from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.paired import TANGO, margin_interval
from pytest_cpg.stats.pairing import Pairs, multinomial_chance
from pytest_cpg.stats.power import gap_power
from pytest_cpg.stats.verdicts import weigh_gap

pytestmark = pytest.mark.slow

SIZES = (10, 20, 50)
CHANCES = (0.0, 0.3, 0.5)
ORACLES = (0.8, 0.9, 1.0)
MARGINS = (0.1, 0.2)
FAMILY = 10


def passes_by_default(oracle, chance, n):
    verdict = weigh_gap(
        agresti_caffo_interval(oracle, n, chance, n), (oracle, n), (chance, n)
    ).verdict
    return verdict is not Verdict.MODEL_BOTTLENECK


def passes_by_margin(table, n, margin):
    """Say so of the paired table of both arms; what is not proven does not pass."""
    pairs = Pairs(**dict(zip(NAMES, table, strict=True)))
    verdict = weigh_gap(
        margin_interval(pairs, margin=margin),
        (pairs.both + pairs.oracle_only, n),
        (pairs.both + pairs.learned_only, n),
        margin=margin,
    ).verdict
    return verdict not in (Verdict.MODEL_BOTTLENECK, Verdict.INCONCLUSIVE)


NAMES = ("both", "oracle_only", "learned_only", "neither")


def blind_share(tables, passing, n, oracle, chance):
    """Return the chance of the tables [T, 4] that pass, where the arms are independent."""
    shares = (oracle * chance, oracle * (1 - chance), (1 - oracle) * chance)
    kinds = zip(tables[:, :3].T, shares, strict=True)
    return float(multinomial_chance(n, *kinds)[passing].sum())


def test_a_gate_whose_oracle_is_strong_is_seldom_blind(statistics_page):
    rows, found = [], {}
    for n in SIZES:
        cells = itertools.product(range(n + 1), repeat=3)
        tables = np.array([(*cell, n - sum(cell)) for cell in cells if sum(cell) <= n])
        counts = {
            pair: passes_by_default(*pair, n) for pair in itertools.product(range(n + 1), repeat=2)
        }
        passing = {
            None: np.array([counts[int(t[0] + t[1]), int(t[0] + t[2])] for t in tables]),
            FAMILY: ~TANGO.above(
                tables[:, 1], tables[:, 2], n, z=critical_value(1 - 0.05 / FAMILY)
            ),
            **{
                margin: np.array([passes_by_margin(t.tolist(), n, margin) for t in tables])
                for margin in MARGINS
            },
        }
        for chance, oracle in itertools.product(CHANCES, ORACLES):
            for margin, blind in passing.items():
                found[n, chance, oracle, margin] = blind_share(tables, blind, n, oracle, chance)
            shares = (found[n, chance, oracle, margin] for margin in passing)
            rows.append((n, chance, oracle, *(f"{100 * share:.1f} %" for share in shares)))
    statistics_page.table(
        "Blind gates whose oracle is strong",
        (
            "n",
            "chance solves",
            "oracle solves",
            "no margin",
            f"one of {FAMILY} under Holm",
            "margin 0.1",
            "margin 0.2",
        ),
        rows,
        note=(
            "Share of gates of fixed size in which acting at random would have passed, so that "
            "they fail as blind, at level 0.95 with independent arms: by Agresti-Caffo, "
            "where random actions pass unless they are a MODEL BOTTLENECK, as one of ten gates "
            "under Holm's correction likewise (Tango), and with a margin by the interval that "
            "holds it (Tango), where they pass only if they are proven to lose less."
        ),
    )
    for (n, chance, oracle, margin), share in found.items():
        if margin is None:
            power = gap_power(oracle, chance, episodes=n, method="agresti-caffo")
            assert share == pytest.approx(1 - power, abs=1e-9)
            # Who stands in a family has to tell chance from the oracle more surely.
            assert found[n, chance, oracle, FAMILY] >= share - 1e-9
    alone = {row: share for row, share in found.items() if row[3] != FAMILY}
    assert max(share for (n, chance, *_), share in alone.items() if not chance) < 0.01
