import numpy as np
import pytest
from confidences import CONFIDENCES, compared
from scipy import stats


def returns(many=200, seed=3):
    """Yield returns [E, N] of both sides, of ensembles of several sizes."""
    rng = np.random.default_rng(seed)
    for members in (2, 3, 5, 10, 40):
        shared = rng.normal(0, 3, (members, many))
        lead = rng.normal(0, 2, many)
        yield shared, shared * 0.5 + lead + rng.normal(0, 1, (members, many))


def largest(holds):
    """Return the largest level at which ``holds``, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def student(values, level):
    scale = np.std(values, ddof=1) / np.sqrt(len(values))
    return stats.t.interval(level, len(values) - 1, loc=np.mean(values), scale=scale)


def excludes_0(a, b, level):
    low, high = student(np.array(a) - np.array(b), level)
    return not low <= 0 <= high


def are_disjoint(a, b, level):
    (low_a, high_a), (low_b, high_b) = student(a, level), student(b, level)
    return high_a < low_b or high_b < low_a


@pytest.mark.parametrize(("method", "holds"), [("pci", excludes_0), ("u-pci", are_disjoint)])
def test_confidence_is_the_largest_level_of_the_intervals_of_the_definition(method, holds):
    for a, b in returns(many=4):
        answers, confidences = compared(a, b, method)
        for i in range(a.shape[1]):
            level = largest(lambda level, i=i, a=a, b=b: holds(a[:, i], b[:, i], level))
            assert confidences[i] == pytest.approx(level, abs=1e-9)
            assert answers[i] == (b[:, i].mean() > a[:, i].mean())


def test_closed_forms_agree_with_scipy_to_twelve_digits():
    for a, b in returns():
        t, p = stats.ttest_rel(b, a)
        answers, confidences = compared(a, b, "pci")
        assert np.array_equal(answers, t > 0)
        assert confidences == pytest.approx(1 - p, abs=1e-12)
        spread = a.std(axis=0, ddof=1) + b.std(axis=0, ddof=1)
        t = np.abs(a.mean(axis=0) - b.mean(axis=0)) / (spread / np.sqrt(len(a)))
        expected = 2 * stats.t.cdf(t, len(a) - 1) - 1
        assert compared(a, b, "u-pci").confidences == pytest.approx(expected, abs=1e-12)


def test_votes_are_counted_in_whole_numbers():
    for a, b in returns():
        answers, confidences = compared(a, b, "ev")
        for i in range(a.shape[1]):
            votes = sum(1 for x, y in zip(a[:, i], b[:, i], strict=True) if x < y)
            assert answers[i] == (2 * votes > len(a))
            assert confidences[i] == abs(2 * votes - len(a)) / len(a)


def test_worked_example_of_all_three():
    a, b = ([[v] for v in side] for side in ([10, 11, 12, 9, 8], [12, 10, 15, 11, 9]))
    found = [compared(a, b, method) for method in CONFIDENCES]
    assert all(answer for (answer,), _ in found)
    assert [c for _, (c,) in found] == pytest.approx([0.6, 0.8921, 0.5346], abs=5e-5)


@pytest.mark.parametrize("method", CONFIDENCES)
def test_swapped_sides_have_opposite_answers_and_the_same_confidences(method):
    for a, b in returns():
        a[:, 0] = b[:, 0]
        a[0, 1] = b[0, 1]
        answers, confidences = compared(a, b, method)
        swapped, same = compared(b, a, method)
        assert np.array_equal(confidences, same)
        is_tied = confidences == 0
        assert np.array_equal(answers[~is_tied], ~swapped[~is_tied])
        assert not answers[is_tied].any()
        assert not swapped[is_tied].any()
        assert is_tied[0]
        assert not is_tied.all()


@pytest.mark.parametrize("method", CONFIDENCES)
def test_members_that_all_say_the_same_are_sure(method):
    # The mean of ten times 0.1 is not 0.1.
    a, b = np.full((10, 2), 0.1), np.full((10, 2), 0.3)
    a[:, 1] = 0.3
    answers, confidences = compared(a, b, method)
    assert answers.tolist() == [True, False]
    assert confidences.tolist() == [1, 0]


@pytest.mark.parametrize("method", CONFIDENCES)
def test_a_tied_vote_answers_false(method):
    answers, confidences = compared([[0], [1]], [[1], [0]], method)
    assert not answers[0]
    assert confidences[0] == 0


@pytest.mark.parametrize("method", CONFIDENCES)
@pytest.mark.parametrize("power", [900, -900])
def test_returns_may_be_of_any_size(method, power):
    for a, b in returns(many=20):
        plain, scaled = compared(a, b, method), compared(a * 2.0**power, b * 2.0**power, method)
        assert np.array_equal(plain.answers, scaled.answers)
        assert np.array_equal(plain.confidences, scaled.confidences)


@pytest.mark.parametrize("method", CONFIDENCES)
def test_confidences_lie_between_0_and_1(method):
    for a, b in returns():
        confidences = compared(a, b, method).confidences
        assert ((confidences >= 0) & (confidences <= 1)).all()


@pytest.mark.parametrize(
    ("a", "b", "method", "message"),
    [
        (
            [[1.0], [2.0]],
            [[1.0], [2.0]],
            "pic",
            "no confidence named 'pic'. Known: ev, pci, u-pci.",
        ),
        ([[1.0]], [[2.0]], "ev", "need two members or more to be sure or unsure, got 1"),
        ([1.0, 2.0], [1.0, 2.0], "ev", "need returns [members, queries] of both sides"),
        ([[1.0], [2.0]], [[1.0, 1], [2.0, 1]], "ev", "got (2, 1), (2, 2)"),
        (
            [[1.0, 2.0], [1.0, 2.0]],
            [[1.0, 2.0], [1.0, float("nan")]],
            "ev",
            "got nan from member 1 on side b of query 1",
        ),
    ],
)
def test_impossible_returns_are_refused_with_their_place(a, b, method, message):
    with pytest.raises(ValueError, match=r"need|no confidence") as caught:
        compared(a, b, method)
    assert message in str(caught.value)
