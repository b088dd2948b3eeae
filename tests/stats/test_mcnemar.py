import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats.paired import exact_mcnemar_p_value, fewest_significant_losses


def test_exact_mcnemar_agrees_with_scipy_and_statsmodels():
    stats = pytest.importorskip("scipy.stats")
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    for lost, gained in np.random.default_rng(0).integers(0, 151, (500, 2)).tolist():
        p = exact_mcnemar_p_value(lost=lost, gained=gained)
        if lost + gained:
            binomial = stats.binomtest(lost, lost + gained).pvalue
            assert p == pytest.approx(binomial, abs=1e-10, rel=1e-9)
        reference = contingency.mcnemar([[5, lost], [gained, 5]], exact=True).pvalue
        assert p == pytest.approx(reference, abs=1e-10, rel=1e-9)


def test_exact_mcnemar_is_the_share_of_sign_patterns_that_are_as_lopsided():
    for changed in range(1, 13):
        patterns = [bin(pattern).count("1") for pattern in range(2**changed)]
        for lost in range(changed + 1):
            lopsided = sum(abs(2 * k - changed) >= abs(2 * lost - changed) for k in patterns)
            p = exact_mcnemar_p_value(lost=lost, gained=changed - lost)
            assert p == float(Fraction(lopsided, 2**changed))


@given(lost=st.integers(0, 300), gained=st.integers(0, 300))
def test_exact_mcnemar_is_symmetric_and_falls_as_the_changes_part(lost, gained):
    p = exact_mcnemar_p_value(lost=lost, gained=gained)
    assert 0 < p <= 1
    assert p == exact_mcnemar_p_value(lost=gained, gained=lost)
    if lost >= gained > 0:
        assert exact_mcnemar_p_value(lost=lost + 1, gained=gained - 1) < p


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99, 0.9999])
def test_the_fewest_significant_losses_are_those_of_scipy(level):
    binomtest = pytest.importorskip("scipy.stats").binomtest
    least = fewest_significant_losses(level=level)
    assert binomtest(least, least).pvalue <= 1 - level < binomtest(least - 1, least - 1).pvalue


def test_exact_mcnemar_reproduces_the_example_of_the_failure_message():
    assert exact_mcnemar_p_value(lost=8, gained=1) == 20 / 512


def test_nothing_lost_and_nothing_gained_is_no_evidence():
    assert exact_mcnemar_p_value(lost=0, gained=0) == 1
    assert exact_mcnemar_p_value(lost=5, gained=5) == 1


def test_huge_counts_overflow_nothing_and_never_give_zero():
    assert exact_mcnemar_p_value(lost=5000, gained=0) > 0
    deviation = NormalDist().cdf(-(200 - 1) / math.sqrt(20_000))
    p = exact_mcnemar_p_value(lost=10_100, gained=9_900)
    assert p == pytest.approx(2 * deviation, rel=1e-3)


@pytest.mark.parametrize("value", [-1, 1.0, True, None, "3"])
def test_an_impossible_count_is_named_with_its_value(value):
    with pytest.raises(ValueError, match=rf"need lost to be a whole number .*, got {value!r}$"):
        exact_mcnemar_p_value(lost=value, gained=2)
