import json
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import risk_at_coverage
from pytest_cpg.stats.bootstrap import risk_intervals
from pytest_cpg.stats.graded_answers import (
    ANSWER_METRICS,
    GradedAnswers,
    OperatingPoints,
    answer_metrics,
    aurc,
    risk_coverage,
)
from pytest_cpg.stats.intervals import wilson_interval

# Confidences closer than this are equal, by the definition.
SAME = 1e-9
FEW_BINS = OperatingPoints(coverage=0.3, risk=0.2, bins=7)


def tables(many=500):
    """Yield answers with ties, constant confidences, all right and all wrong ones among them."""
    rng = np.random.default_rng(16)
    for i in range(many):
        n = int(rng.integers(1, 40))
        levels = [1, 2, 5, 11, 10**6][i % 5]
        confidences = rng.integers(0, levels, n) / levels
        if i % 3 == 0:
            # Rounding apart: equal by the definition.
            confidences = confidences + rng.integers(-1, 2, n) * 1e-13
        wrong = rng.random(n) < rng.choice([0, 0.05, 0.3, 0.7, 1])
        stakes = rng.exponential(10, n)
        yield wrong.tolist(), confidences.tolist(), stakes.tolist()


def points_of_curve(wrong, confidences):
    """Return (answers, wrong ones) that each threshold lets in, from none; by the definition."""
    points = [(0, 0)]
    for threshold in sorted(confidences, reverse=True):
        covered = [lost for lost, c in zip(wrong, confidences, strict=True) if c > threshold - SAME]
        if len(covered) > points[-1][0]:
            points.append((len(covered), sum(covered)))
    return points


def expected_wrong(points, k):
    """Return how many of the ``k`` surest are wrong, on average over all orders within ties."""
    for (a, lost), (b, more) in pairwise(points):
        if k <= b:
            return lost + Fraction(more - lost, b - a) * (Fraction(k) - a)
    raise AssertionError(k)


def area_of_risk(points):
    n = points[-1][0]
    return sum((expected_wrong(points, k) / k for k in range(1, n + 1)), Fraction(0)) / n


def risk(point):
    return Fraction(point[1], point[0]) if point[0] else Fraction(0)


def by_definition(wrong, confidences, stakes, at):
    n, lost = len(wrong), sum(wrong)
    points = points_of_curve(wrong, confidences)
    ideal = area_of_risk([(0, 0)] + [(k, max(0, k - (n - lost))) for k in range(1, n + 1)])
    area, loss = area_of_risk(points), Fraction(lost, n)
    in_disorder = concordant = Fraction(0)
    for lost_i, c_i in zip(wrong, confidences, strict=True):
        for lost_j, c_j in zip(wrong, confidences, strict=True):
            if not lost_i and lost_j:
                in_disorder += c_j - c_i >= SAME
                concordant += (
                    1 if c_i - c_j >= SAME else Fraction(1, 2) if abs(c_i - c_j) < SAME else 0
                )
    steps = pairwise(points)
    covered = [Fraction(at.coverage).limit_denominator(1000) * n]
    accepted = Fraction(at.risk).limit_denominator(1000)
    return {
        "loss": loss,
        "aurc": area,
        "excess": (area - ideal) / (loss - ideal) if 0 < lost < n else None,
        "aurcc": sum((Fraction(b[0] - a[0], n) * (risk(a) + risk(b)) / 2 for a, b in steps)),
        "rpp": in_disorder / n**2,
        "cr": Fraction(len({min(k * at.bins // n, at.bins - 1) for k, _ in points}), at.bins),
        "auroc": concordant / (lost * (n - lost)) if 0 < lost < n else None,
        "risk_at_coverage": expected_wrong(points, covered[0]) / covered[0],
        "coverage_at_risk": max(Fraction(p[0], n) for p in points if risk(p) <= accepted),
        "regret": sum(Fraction(s) for lost, s in zip(wrong, stakes, strict=True) if lost) / n,
    }


@pytest.mark.parametrize("points", [OperatingPoints(), FEW_BINS], ids=["defaults", "other points"])
def test_all_metrics_agree_with_loops_over_exact_fractions(points):
    for wrong, confidences, stakes in tables():
        answers = GradedAnswers(wrong=wrong, confidences=confidences, stakes=stakes)
        found = asdict(answer_metrics(answers, points=points))
        expected = by_definition(wrong, confidences, stakes, points)
        assert list(found) == list(ANSWER_METRICS)
        for name, value in expected.items():
            if value is None:
                assert found[name] is None
            else:
                assert found[name] == pytest.approx(float(value), abs=1e-12, rel=1e-12), name


def test_the_curve_agrees_with_loops_over_exact_fractions():
    for wrong, confidences, _ in tables(100):
        curve = risk_coverage(GradedAnswers(wrong=wrong, confidences=confidences))
        points = points_of_curve(wrong, confidences)
        assert curve.coverages == tuple(p[0] / len(wrong) for p in points)
        assert curve.risks == tuple(float(risk(p)) for p in points)
        for threshold, (covered, _) in zip(curve.thresholds, points[1:], strict=True):
            assert sum(c >= threshold for c in confidences) == covered


@pytest.mark.parametrize(
    ("wrong", "confidences", "aurcc", "rpp", "cr"),
    [
        ([0, 0, 1, 1], [0.9, 0.8, 0.2, 0.1], 0.14583, 0, 0.5),
        ([1, 1, 0, 0], [0.9, 0.8, 0.2, 0.1], 0.72917, 0.25, 0.5),
        ([0, 0, 1, 1], [0.7] * 4, 0.25, 0, 0.2),
        ([0, 0, 1, 0, 1, 1], [0.8] * 3 + [0.2] * 3, 0.29167, 1 / 36, 0.3),
    ],
)
def test_worked_examples_of_the_published_definitions(wrong, confidences, aurcc, rpp, cr):
    answers = GradedAnswers(wrong=np.array(wrong, dtype=bool), confidences=confidences)
    found = answer_metrics(answers)
    assert found.aurcc == pytest.approx(aurcc, abs=5e-6)
    assert (found.rpp, found.cr) == pytest.approx((rpp, cr))


def test_bins_of_coverage_are_those_of_whole_numbers():
    answers = GradedAnswers(wrong=[False] * 10, confidences=[3.0] * 2 + [2.5] + [0.0] * 7)
    assert answer_metrics(answers).cr == 0.4
    constant = GradedAnswers(wrong=[False, True], confidences=[1, 1])
    assert answer_metrics(constant, points=OperatingPoints(bins=49)).cr == 2 / 49


def test_one_pair_in_disorder_among_thousands_is_no_ideal_order():
    wrong = np.arange(4000) < 40
    sure = np.arange(4000.0)
    sure[[39, 40]] = sure[[40, 39]]
    found = answer_metrics(GradedAnswers(wrong=wrong, confidences=sure))
    assert 0 < found.excess < 1e-3
    assert found.auroc == pytest.approx(1 - 1 / (40 * 3960), abs=1e-12)


def test_metrics_are_plain_numbers_and_arguments_stay_untouched():
    wrong, confidences = np.array([True, False]), np.array([0.2, 0.9])
    answers = GradedAnswers(wrong=wrong, confidences=confidences)
    found = asdict(answer_metrics(answers))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    wrong[0] = confidences[0] = False
    assert asdict(answer_metrics(answers)) == found
    with pytest.raises(ValueError, match="read-only"):
        answers.confidences[0] = 1


def test_risks_of_single_answers_have_wilsons_interval():
    rng = np.random.default_rng(0)
    sure = rng.random(300).round(2)
    answers = GradedAnswers(wrong=rng.random(300) < 0.2, confidences=sure)
    for least, found in zip((0.0, 0.5, 0.97), risk_intervals(answers, (0, 0.5, 0.97)), strict=True):
        held = answers.wrong[sure >= least]
        expected = wilson_interval(int(held.sum()), len(held))
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
        assert found.estimate == held.mean()


def test_risks_of_answers_in_groups_vary_as_those_of_groups_drawn_again():
    rng = np.random.default_rng(0)
    groups = np.arange(60).repeat(10)
    wrong = rng.random(600) < rng.beta(1, 3, 60)[groups]
    answers = GradedAnswers(wrong=wrong, confidences=rng.random(600), groups=groups)
    found = risk_intervals(answers, [0.0, 0.6])
    for least, interval in zip((0.0, 0.6), found, strict=True):
        held = np.bincount(groups, answers.confidences >= least)
        lost = np.bincount(groups, (answers.confidences >= least) & wrong)
        drawn = rng.integers(60, size=(20_000, 60))
        error = (lost[drawn].sum(axis=1) / held[drawn].sum(axis=1)).std()
        assert interval.high - interval.low == pytest.approx(2 * 1.96 * error, rel=0.06)


@pytest.mark.parametrize(("per", "wrong"), [(4, 0), (7, 3), (49, 1), (60, 7)])
@pytest.mark.parametrize("groups", [1, 10])
def test_groups_that_are_all_alike_count_as_one_answer_each(groups, per, wrong):
    answers = GradedAnswers(
        wrong=np.tile(np.arange(per) < wrong, groups),
        confidences=np.ones(groups * per),
        groups=np.arange(groups).repeat(per),
    )
    (found,) = risk_intervals(answers, [0.5])
    # Where the score test of Wilson's interval is on the edge.
    for end in (found.low, found.high):
        distance = 1.959964 * np.sqrt(end * (1 - end) / groups)
        assert abs(wrong / per - end) == pytest.approx(distance, abs=1e-6)


def test_groups_of_answers_that_are_all_right_or_all_wrong_count_once():
    groups = np.arange(40) // 4
    answers = GradedAnswers(wrong=groups < 3, confidences=np.ones(40), groups=groups)
    (found,) = risk_intervals(answers, [0.5])
    expected = wilson_interval(3, 10)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_a_threshold_that_lets_no_answer_in_is_refused():
    answers = GradedAnswers(wrong=[True, False], confidences=[0.2, 0.6])
    with pytest.raises(ValueError, match=r"need thresholds up to 0\.6, got \[0\.2, 0\.7\]"):
        risk_intervals(answers, [0.2, 0.7])


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


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), min_size=1, max_size=30)
)
def test_the_risk_of_the_surest_is_that_of_their_mean_order(answers):
    confidences, failures = zip(*answers, strict=True)
    count = len(answers)
    for taken in range(1, count + 1):
        expected, left = 0.0, taken
        for level in (0.9, 0.5, 0.1):
            held = [f for c, f in answers if c == level]
            used = min(left, len(held))
            expected += used * sum(held) / len(held) if held else 0.0
            left -= used
        found = risk_at_coverage(confidences, failures, taken / count)
        assert found == pytest.approx(expected / taken)


@pytest.mark.parametrize("coverage", [0, 1.5, float("nan")])
def test_no_such_coverage_is_refused(coverage):
    with pytest.raises(ValueError, match="need a coverage"):
        risk_at_coverage([1.0], [True], coverage)
