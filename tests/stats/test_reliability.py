"""Errors of calibration, against loops over folds, bins and means."""

import numpy as np
import pytest

from pytest_cpg.stats.graded_answers import GradedAnswers
from pytest_cpg.stats.reliability import reliability


def table(n=300, *, levels=None, power=1.0, seed=0):
    """Return answers whose chance to be right is a power of their confidence."""
    rng = np.random.default_rng(seed)
    confidences = rng.random(n)
    if levels:
        confidences = np.round(confidences * levels) / levels
    return GradedAnswers(
        wrong=rng.random(n) > confidences**power, confidences=confidences, groups=np.arange(n)
    )


def error_by_loop(confidences, right):
    total = 0.0
    for k in range(10):
        held = [i for i, c in enumerate(confidences) if min(int(c * 10 + 1e-9), 9) == k]
        if held:
            gap = np.mean([confidences[i] for i in held]) - np.mean([right[i] for i in held])
            total += len(held) / len(right) * abs(gap)
    return total


def isotonic_by_loop(x, y, asked):
    """Return the isotonic fit, by its formula of largest and smallest means, at other places."""
    at = np.unique(x)
    fit = [
        max(
            min(
                np.mean([yi for xi, yi in zip(x, y, strict=True) if at[a] <= xi <= at[b]])
                for b in range(i, len(at))
            )
            for a in range(i + 1)
        )
        for i in range(len(at))
    ]
    return np.interp(asked, at, fit)


@pytest.mark.parametrize("levels", [4, 9])
def test_both_errors_agree_with_loops_over_folds_bins_and_means(levels):
    answers = table(60, levels=levels, power=3)
    right = ~answers.wrong
    found = reliability(answers)
    assert found.ece == pytest.approx(error_by_loop(answers.confidences, right), abs=1e-12)
    chances = np.empty(60)
    for fold in range(5):
        held = answers.groups % 5 == fold
        chances[held] = isotonic_by_loop(
            answers.confidences[~held], right[~held], answers.confidences[held]
        )
    assert found.calibrated_ece == pytest.approx(error_by_loop(chances, right), abs=1e-12)


def test_confidences_that_are_chances_need_no_calibration_and_others_get_it():
    chances, squeezed = reliability(table(4000)), reliability(table(4000, power=4))
    assert chances.ece < 0.04
    assert squeezed.ece > 0.25
    assert squeezed.calibrated_ece < 0.04


def test_bins_hold_all_answers_least_sure_first():
    answers = table(200)
    bins = reliability(answers).bins
    assert sum(one.answers for one in bins) == 200
    assert [one.confidence for one in bins] == sorted(one.confidence for one in bins)
    right = sum(one.answers * one.right for one in bins)
    assert right == pytest.approx((~answers.wrong).sum())


def test_groups_are_never_calibrated_on_themselves():
    # Of each group all are right or all wrong, at one confidence of its own.
    groups = np.repeat(np.arange(40), 10)
    wrong = np.random.default_rng(0).random(40)[groups] < 0.5
    confidences = np.arange(40)[groups] / 40
    apart = GradedAnswers(wrong=wrong, confidences=confidences)
    together = GradedAnswers(wrong=wrong, confidences=confidences, groups=groups)
    assert reliability(together).calibrated_ece > reliability(apart).calibrated_ece + 0.05


def test_what_is_no_chance_and_a_single_group_are_refused():
    with pytest.raises(ValueError, match=r"need confidences in \[0, 1\] as chances, got 1.5"):
        reliability(GradedAnswers(wrong=[True, False], confidences=[0.5, 1.5]))
    with pytest.raises(ValueError, match="need two groups or more to calibrate on others, got 1"):
        reliability(GradedAnswers(wrong=[True, False], confidences=[0.5, 1], groups=[3, 3]))
