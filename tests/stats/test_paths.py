import itertools
import math

import numpy as np
import pytest

from pytest_cpg.stats.pairing import shares_of_disagreement
from pytest_cpg.stats.sequential import log_chances, pair_chances, paired_paths, weighted_paths


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
