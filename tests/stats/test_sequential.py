import itertools
import math
from statistics import fmean, pvariance

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import sequential
from pytest_cpg.stats.paired import BONETT_PRICE, TANGO
from pytest_cpg.stats.pairing import Pairs, shares_of_disagreement
from pytest_cpg.stats.sequential import (
    Boundary,
    boundary_p_value,
    log_chances,
    look_sizes,
    operating_characteristics,
    pair_chances,
    paired_paths,
    paired_statistic,
    repeated_interval,
    wang_tsiatis_boundary,
    weighted_paths,
)


def table(wins, losses, pairs):
    rest = pairs - wins - losses
    both = rest // 2
    return Pairs(both=both, oracle_only=wins, learned_only=losses, neither=rest - both)


def boundary_at(looks, constant, margin=None):
    return Boundary(
        max_episodes=looks[-1],
        level=0.95,
        margin=margin,
        constant=constant,
        looks=looks,
        critical_values=tuple(constant * (looks[-1] / pairs) ** 0.25 for pairs in looks),
    )


@pytest.mark.parametrize(
    ("most", "sizes"),
    [
        (10, (10,)),
        (12, (10, 12)),
        (25, (10, 25)),
        (50, (10, 25, 50)),
        (150, (10, 25, 50, 75, 100, 125, 150)),
        (160, (10, 25, 50, 75, 100, 125, 150, 160)),
        (400, (10, 25, 50, 100, 150, 200, 250, 300, 350, 400)),
    ],
)
def test_looks_end_at_the_maximum(most, sizes):
    assert look_sizes(most) == sizes


@given(st.integers(10, 5000))
def test_looks_rise_and_are_few(most):
    sizes = look_sizes(most)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[0] == 10
    assert sizes[-1] == most
    assert len(sizes) <= 14


@pytest.mark.parametrize(("most", "constant"), [(50, 2.12), (100, 2.24)])
def test_shipped_constants_are_what_the_calibration_gives(most, constant):
    boundary = wang_tsiatis_boundary(most)
    assert boundary.constant == constant
    sizes = look_sizes(most)
    assert sequential._smallest_constant(sizes, 1.959964, 0.025, None) == constant
    assert sequential._error_at_no_gap(sizes, constant, None) <= 0.025
    assert sequential._error_at_no_gap(sizes, constant - 0.01, None) > 0.025


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("most", [10, 11, 25])
def test_a_hundredth_less_would_not_hold_the_error(most, level):
    boundary = wang_tsiatis_boundary(most, level=level)
    for constant, holds in ((boundary.constant, True), (boundary.constant - 0.01, False)):
        error = sequential._error_at_no_gap(boundary.looks, constant, None)
        assert (error <= (1 - level) / 2) == holds


def test_a_stricter_level_and_a_margin_have_their_own_constants():
    assert wang_tsiatis_boundary(50, level=0.995).constant > wang_tsiatis_boundary(50).constant
    boundary = wang_tsiatis_boundary(50, margin=0.1)
    sizes = boundary.looks
    assert sequential._error_at_no_gap(sizes, boundary.constant, 0.1) <= 0.025
    assert sequential._error_at_margin(sizes, boundary.constant, 0.1) <= 0.025


def test_bounds_are_the_wald_bounds_of_scores_at_the_critical_value_of_the_look():
    rng = np.random.default_rng(0)
    boundaries = [wang_tsiatis_boundary(most) for most in (50, 100, 150)]
    for _ in range(500):
        boundary = boundaries[rng.integers(3)]
        look = int(rng.integers(len(boundary.looks)))
        pairs, z = boundary.looks[look], boundary.critical_values[look]
        wins, losses, ties = rng.multinomial(pairs, rng.dirichlet([1, 1, 1])).tolist()
        scores = [1] * (wins + 1) + [-1] * (losses + 1) + [0] * ties
        half = z * (pvariance(scores) / len(scores)) ** 0.5
        reference = np.clip((fmean(scores) - half, fmean(scores) + half), -1, 1)
        interval = repeated_interval(boundary, look, table(wins, losses, pairs))
        assert (interval.low, interval.high) == pytest.approx(reference, abs=1e-12, rel=0)


@given(
    st.sampled_from([None, 0.1]), st.integers(0, 25), st.integers(0, 25), st.sampled_from([0, 1, 2])
)
def test_the_interval_excludes_zero_exactly_where_the_boundary_is_crossed(margin, wins, losses, k):
    boundary = wang_tsiatis_boundary(50, margin=margin)
    pairs, z = boundary.looks[k], boundary.critical_values[k]
    wins, losses = min(wins, pairs), min(losses, pairs - min(wins, pairs))
    interval = repeated_interval(boundary, k, table(wins, losses, pairs))
    statistic = paired_statistic(wins=wins, losses=losses, pairs=pairs, margin=margin)
    assert (interval.low > 0) == (statistic > z)
    assert (interval.high < 0) == (statistic < -z)
    above = sequential._is_above(np.array(wins), np.array(losses), pairs, z, margin)
    assert bool(above) == (interval.low > 0)


@settings(max_examples=200)
@given(st.integers(0, 50), st.integers(0, 50), st.floats(0.5, 0.999))
def test_one_look_alone_is_the_interval_of_its_level(wins, losses, level):
    losses = min(losses, 50 - wins)
    z = sequential.critical_value(level)
    for margin, interval in ((None, BONETT_PRICE.interval), (0.1, TANGO.interval)):
        boundary = boundary_at((50,), z, margin)
        ours = repeated_interval(boundary, 0, table(wins, losses, 50))
        fixed = interval(table(wins, losses, 50), level=level)
        assert (ours.low, ours.high) == pytest.approx((fixed.low, fixed.high), abs=1e-12)


@pytest.mark.parametrize("margin", [None, 0.2])
def test_characteristics_are_those_of_all_paths_counted_one_by_one(margin):
    boundary = boundary_at((3, 5, 8), 1.3, margin)
    win, loss = 0.5, 0.2
    above = below = used = 0.0
    for path in itertools.product((1, -1, 0), repeat=8):
        chance = math.prod({1: win, -1: loss, 0: 1 - win - loss}[step] for step in path)
        for k, pairs in enumerate(boundary.looks):
            wins, losses = path[:pairs].count(1), path[:pairs].count(-1)
            interval = repeated_interval(boundary, k, table(wins, losses, pairs))
            if interval.low > 0 or interval.high < 0 or pairs == 8:
                above += chance * (interval.low > 0)
                below += chance * (interval.high < 0)
                used += chance * pairs
                break
    exact = operating_characteristics(boundary, oracle_only=win, learned_only=loss)
    assert exact == pytest.approx((above, below, used), abs=1e-12)


def test_the_error_without_a_gap_is_that_of_all_paths_at_the_worst_share():
    boundary = boundary_at((3, 5, 7), 1.2)
    by_disagreement = {}
    for path in itertools.product((1, -1, 0), repeat=7):
        for k, pairs in enumerate(boundary.looks):
            wins, losses = path[:pairs].count(1), path[:pairs].count(-1)
            if repeated_interval(boundary, k, table(wins, losses, pairs)).low > 0:
                disagreed = 7 - path.count(0)
                by_disagreement[disagreed] = by_disagreement.get(disagreed, 0) + 1
                break
    errors = [
        sum(n * (d / 2) ** k * (1 - d) ** (7 - k) for k, n in by_disagreement.items())
        for d in np.linspace(0, 1, 20_001)[1:]
    ]
    error = sequential._error_at_no_gap(boundary.looks, boundary.constant, None)
    assert error == pytest.approx(max(errors), rel=1e-5)


def test_the_error_at_a_margin_is_that_of_all_paths_at_the_worst_share():
    boundary, margin = boundary_at((3, 5, 7), 1.0, 0.3), 0.3
    by_counts = {}
    for path in itertools.product((1, -1, 0), repeat=7):
        for k, pairs in enumerate(boundary.looks):
            wins, losses = path[:pairs].count(1), path[:pairs].count(-1)
            if repeated_interval(boundary, k, table(wins, losses, pairs)).high < margin:
                counts = path.count(1), path.count(-1)
                by_counts[counts] = by_counts.get(counts, 0) + 1
                break
    assert by_counts
    errors = [
        sum(n * (d + margin) ** w * d**k * (1 - margin - 2 * d) ** (7 - w - k)
            for (w, k), n in by_counts.items())
        for d in np.linspace(0, (1 - margin) / 2, 2001)
    ]  # fmt: skip
    error = sequential._error_at_margin(boundary.looks, boundary.constant, margin)
    assert error == pytest.approx(max(errors), rel=1e-3)


def test_a_p_value_is_the_error_of_the_boundary_that_was_just_reached():
    boundary = wang_tsiatis_boundary(50)
    at_boundary = {25: boundary.critical_values[1]}
    assert boundary_p_value(50, at_boundary) == pytest.approx(0.02476, abs=1e-5)
    assert boundary_p_value(50, {10: 0.0, 25: -1.0}) == 1.0
    assert 0 < boundary_p_value(50, {10: 4.5}) < boundary_p_value(50, {10: 4.4}) < 0.025
    assert boundary_p_value(50, {10: 1.0, 25: 2.0}) == boundary_p_value(50, {25: 2.0})
    assert 0 < boundary_p_value(50, {10: 3.2}, margin=0.1) < 1


def test_a_p_value_counts_what_was_found():
    # All ten pairs are wins with chance 2**-10 at most, and nothing says more.
    found = {10: paired_statistic(wins=10, losses=0, pairs=10)}
    assert boundary_p_value(10, found) == pytest.approx(2**-10, rel=1e-12)
    found = {25: paired_statistic(wins=25, losses=0, pairs=25)}
    assert boundary_p_value(25, found) == pytest.approx(2**-25, rel=1e-12)


@pytest.mark.parametrize("margin", [None, 0.1])
def test_small_p_values_are_as_rare_as_they_say(margin):
    reached = {}
    for wins, losses in itertools.product(range(11), repeat=2):
        if wins + losses > 10:
            continue
        ways = math.comb(10, wins) * math.comb(10 - wins, losses)
        first = paired_statistic(wins=wins, losses=losses, pairs=10, margin=margin)
        for steps in itertools.product((1, -1, 0), repeat=2):
            won, lost = wins + steps.count(1), losses + steps.count(-1)
            last = paired_statistic(wins=won, losses=lost, pairs=12, margin=margin)
            key = max(first * (10 / 12) ** 0.25, last), won + lost
            reached[key] = reached.get(key, 0) + ways
    p_values = {z: boundary_p_value(12, {12: z}, margin=margin) for z, _ in reached}
    for share in np.linspace(0.05, 1, 20):
        chance = {
            key: ways * (share / 2) ** key[1] * (1 - share) ** (12 - key[1])
            for key, ways in reached.items()
        }
        assert sum(chance.values()) == pytest.approx(1)
        for level in sorted(set(p_values.values())):
            rare = sum(part for (z, _), part in chance.items() if p_values[z] <= level)
            assert rare <= level * (1 + 1e-3)


def multinomial(wins, losses, pairs, chances):
    ties = pairs - wins - losses
    ways = math.comb(pairs, wins) * math.comb(pairs - wins, losses)
    return ways * chances[0] ** wins * chances[1] ** losses * chances[2] ** ties


@pytest.mark.parametrize("sizes", [(1,), (3, 7), (10, 127, 128, 129, 140)])
def test_paths_that_nothing_ends_are_multinomial(sizes):
    chances = (0.3, 0.2, 0.5)
    for pairs, mass, wins, losses in paired_paths(sizes, chances):
        assert mass.shape == (pairs + 1, pairs + 1)
        assert mass.sum() == pytest.approx(1, rel=1e-12)
        for won, lost in itertools.product(range(0, pairs + 1, 1 + pairs // 9), repeat=2):
            assert (wins[won, lost], losses[won, lost]) == (won, lost)
            if won + lost > pairs:
                assert mass[won, lost] == 0
            else:
                reference = multinomial(won, lost, pairs, chances)
                assert mass[won, lost] == pytest.approx(reference, rel=1e-11)


def test_what_ends_at_one_look_is_missing_at_the_next():
    chances = (0.3, 0.2, 0.5)
    for pairs, mass, _, _ in paired_paths((2, 4), chances):
        if pairs == 2:
            mass[2, 0] = 0
    assert mass.sum() == pytest.approx(1 - 0.3**2)
    assert mass[4, 0] == 0


@pytest.mark.parametrize("most", [10, 300, 1100])
def test_weights_become_chances_at_every_share_of_disagreement(most):
    unit, paths = weighted_paths((most,))
    ((pairs, mass, wins, losses),) = paths
    weights = np.bincount((wins + losses).ravel(), mass.ravel(), minlength=pairs + 1)[: pairs + 1]
    disagreed = np.flatnonzero(weights)
    assert np.isfinite(weights).all()
    for share in (0.02, 0.3, 0.7, 0.98):
        logs = disagreed * math.log(share) + (pairs - disagreed) * math.log(1 - share)
        chances = np.exp(np.log(weights[disagreed]) + logs - pairs * math.log(unit))
        assert chances.sum() == pytest.approx(1, rel=1e-10)


def test_shares_end_at_one_and_are_dense_there():
    shares = shares_of_disagreement(0.1, 121)
    assert (shares[0], shares[-1]) == pytest.approx((0.1, 1))
    assert (np.diff(shares) > 0).all()
    assert shares[-2] > 0.999


def test_logarithms_are_finite_at_a_chance_of_zero():
    logs = log_chances(np.array([0.0, -1e-17, 1.0]))
    assert np.exp(0 * logs).tolist() == [1, 1, 1]
    assert logs[2] == 0


def test_rounding_past_one_is_no_chance_below_zero():
    assert pair_chances(0.7, 0.3 + 1e-15)[2] == 0
    with pytest.raises(ValueError, match=r"got 0\.7 and 0\.4"):
        pair_chances(0.7, 0.4)
