import json
import math
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats.graded_answers import aurc

fifty = settings(max_examples=50)
two_hundred = settings(max_examples=200)


@st.composite
def episodes(draw, most=40, levels=8):
    """Draw confidences, with ties, and failures."""
    n = draw(st.integers(1, most))
    confidences = draw(st.lists(st.integers(0, levels), min_size=n, max_size=n))
    failures = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return np.array(confidences) / levels, np.array(failures)


def area_of_one_order(failures):
    risks = [Fraction(sum(failures[:k]), k) for k in range(1, len(failures) + 1)]
    return sum(risks) / len(risks)


def enumerated_area(confidences, failures):
    """Return the mean area over all orders of the episodes that keep the confidences sorted."""
    orders = [
        order
        for order in permutations(range(len(confidences)))
        if all(confidences[i] >= confidences[j] for i, j in pairwise(order))
    ]
    areas = [area_of_one_order([bool(failures[i]) for i in order]) for order in orders]
    return sum(areas) / len(areas)


@settings(max_examples=50)
@given(sample=episodes(most=6, levels=2))
def test_aurc_is_the_mean_over_all_orders_within_ties(sample):
    assert aurc(*sample).aurc == pytest.approx(float(enumerated_area(*sample)), abs=1e-14)


@two_hundred
@given(sample=episodes())
def test_aurc_agrees_with_a_loop_over_exact_fractions(sample):
    confidences, failures = sample
    kept, lost, area = 0, Fraction(0), Fraction(0)
    for confidence in sorted(set(confidences), reverse=True):
        group = failures[confidences == confidence]
        for _ in group:
            kept, lost = kept + 1, lost + Fraction(int(group.sum()), len(group))
            area += lost / kept / len(failures)
    risk = aurc(confidences, failures)
    assert risk.aurc == pytest.approx(float(area), abs=1e-12, rel=0)
    perfect = area_of_one_order(sorted(failures.tolist()))
    assert risk.ideal == pytest.approx(float(perfect), abs=1e-12, rel=0)
    assert risk.base_rate == failures.mean()
    if 0 < lost < len(failures):
        excess = (area - perfect) / (lost / len(failures) - perfect)
        assert risk.excess == pytest.approx(float(excess), abs=1e-12, rel=0)


@fifty
@given(sample=episodes())
def test_a_perfect_order_has_no_excess_and_its_reverse_has_the_most(sample):
    confidences, failures = sample
    risk = aurc(confidences, failures)
    perfect, reverse = aurc(1.0 - failures, failures), aurc(failures * 1.0, failures)
    assert perfect.aurc == perfect.ideal == pytest.approx(risk.ideal, abs=1e-15)
    assert perfect.aurc <= risk.aurc + 1e-15
    if failures.all() or not failures.any():
        assert risk.excess is None
    else:
        assert perfect.excess == 0
        assert 0 <= risk.excess <= reverse.excess + 1e-12
    assert 0 <= risk.aurc <= 1


def test_arguments_stay_untouched_and_results_are_plain_numbers():
    confidences, failures = np.array([0.2, 0.9, 0.2]), np.array([True, False, False])
    for array in (confidences, failures):
        array.flags.writeable = False
    risk = aurc(confidences, failures)
    assert json.loads(json.dumps(asdict(risk))) == asdict(risk)
    assert aurc([20, 90, 20], [True, False, False]) == risk


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_confidence_that_is_not_finite_is_refused_with_its_place(value):
    with pytest.raises(ValueError, match=f"need finite confidences, got {value} at 2"):
        aurc([0.1, 0.2, value, 0.3], [True, False, True, False])


@pytest.mark.parametrize("confidences", [[], [[0.1]], 0.1, [0.1, 0.2]])
def test_confidences_that_are_not_one_for_each_episode_are_refused(confidences):
    with pytest.raises(ValueError, match="need confidences for each of 1 answers, got"):
        aurc(confidences, [True])


@pytest.mark.parametrize(
    ("failures", "got"),
    [([1, 0], r"int64 of \(2,\)"), ([[True, False]], r"bool of \(1, 2\)"), ([], "float64 of")],
)
def test_failures_that_are_no_bools_are_refused(failures, got):
    with pytest.raises(ValueError, match=rf"True where it is wrong, got {got}"):
        aurc([0.1, 0.2], failures)
