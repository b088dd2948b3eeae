from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from pytest_cpg.stats.bootstrap import (
    sampled_differences,
    sampled_metrics,
)
from pytest_cpg.stats.graded_answers import ANSWER_METRICS, GradedAnswers, answer_metrics
from pytest_cpg.stats.intervals import wilson_interval
from pytest_cpg.stats.sampled import Share

RESAMPLES = 150


def seeded(seed=0):
    return np.random.default_rng(seed)


def intervals(*answers, rng=None, level=0.95):
    """Return the interval of every metric of some answers, or of every change between two."""
    sample = sampled_metrics if len(answers) == 1 else sampled_differences
    sampled = sample(*answers, rng=rng or seeded(), resamples=RESAMPLES)
    return {name: one.interval(level) for name, one in sampled.items()}


def table(n=120, loss=0.2, *, per=1, levels=None, seed=0):
    rng = seeded(seed)
    wrong = rng.random(n) < loss
    confidences = rng.beta(4, 2, n) - 0.3 * wrong
    if levels:
        confidences = np.round(confidences * levels) / levels
    return GradedAnswers(
        wrong=wrong,
        confidences=confidences,
        stakes=rng.exponential(5, n),
        groups=seeded().permutation(np.arange(n) // per),
    )


def drawn_one_by_one(answers, *, resamples=RESAMPLES, seed=0):
    """Return the metrics of each resample, whose groups are laid out row by row."""
    members = [np.flatnonzero(answers.groups == g) for g in range(answers.groups.max() + 1)]
    rng, found, left = seeded(seed), [], resamples
    while left:
        # 64 resamples are drawn at a time.
        for groups in rng.integers(len(members), size=(min(left, 64), len(members))):
            rows = np.concatenate([members[g] for g in groups])
            found.append(asdict(answer_metrics(answers.take(rows))))
            left -= 1
    return {name: np.array([one[name] for one in found], dtype=float) for name in found[0]}


@pytest.mark.parametrize("per", [1, 4])
@pytest.mark.parametrize("levels", [None, 5])
def test_intervals_agree_with_resamples_laid_out_row_by_row(per, levels):
    answers = table(per=per, levels=levels)
    drawn = drawn_one_by_one(answers)
    found = intervals(answers)
    assert set(found) == set(ANSWER_METRICS)
    once = asdict(answer_metrics(answers))
    groups = len(np.unique(answers.groups[answers.wrong]))
    t = stats.t.isf(0.025, groups - 1)
    for name in ("aurc", "excess", "aurcc", "rpp", "regret"):
        half = t * drawn[name].std() / once[name]
        ends = once[name] * np.exp([-half, half])
        assert (found[name].low, found[name].high) == pytest.approx(tuple(ends), rel=1e-9)
    for name in ("cr", "coverage_at_risk"):
        ends = np.quantile(drawn[name], [0.025, 0.975])
        assert (found[name].low, found[name].high) == pytest.approx(tuple(ends), rel=1e-9)
    t = stats.t.isf(0.025, min(groups, len(np.unique(answers.groups[~answers.wrong]))) - 1)
    area = once["auroc"]
    half = t * drawn["auroc"].std() / (area * (1 - area))
    ends = 1 / (1 + np.exp(np.array([half, -half]) - np.log(area / (1 - area))))
    assert (found["auroc"].low, found["auroc"].high) == pytest.approx(tuple(ends), rel=1e-9)
    for name in found:
        assert found[name].estimate == once[name]


@pytest.mark.parametrize("per", [1, 4])
def test_differences_agree_with_resamples_laid_out_row_by_row(per):
    now = table(per=per)
    before = GradedAnswers(
        wrong=np.roll(now.wrong, 3) & (np.arange(120) % 4 > 0),
        confidences=now.confidences[::-1],
        stakes=now.stakes,
        groups=now.groups,
    )
    one, other = drawn_one_by_one(now), drawn_one_by_one(before)
    found = intervals(now, before)
    first, second = asdict(answer_metrics(now)), asdict(answer_metrics(before))
    freedom = min(len(np.unique(x.groups[x.wrong])) for x in (now, before)) - 1
    freedom = min(freedom, *(len(np.unique(x.groups[~x.wrong])) - 1 for x in (now, before)))
    for name in ANSWER_METRICS:
        change = first[name] - second[name]
        assert found[name].estimate == pytest.approx(change, abs=1e-15)
        if name in ("aurc", "excess", "aurcc", "rpp", "auroc", "risk_at_coverage", "regret"):
            half = stats.t.isf(0.025, freedom) * (one[name] - other[name]).std()
            expected = change - half, change + half
            assert (found[name].low, found[name].high) == pytest.approx(expected, rel=1e-9)


def test_a_share_of_independent_answers_is_bounded_by_wilson():
    answers = table(n=200, loss=0.05)
    expected = wilson_interval(int(answers.wrong.sum()), 200, level=0.9)
    found = intervals(answers, level=0.9)["loss"]
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_copies_of_every_answer_in_its_group_make_nothing_surer():
    single = table(n=100)
    copied = single.take(np.repeat(np.arange(100), 5))
    found = intervals(single)
    again = intervals(copied)
    for name in ("auroc", "aurcc", "cr", "coverage_at_risk", "rpp", "regret"):
        assert again[name].low == pytest.approx(found[name].low, rel=1e-9)
        assert again[name].high == pytest.approx(found[name].high, rel=1e-9)
    # The effective size is estimated where answers come in groups.
    width = found["loss"].high - found["loss"].low
    assert again["loss"].high - again["loss"].low == pytest.approx(width, rel=0.2)
    alone = GradedAnswers(wrong=copied.wrong, confidences=copied.confidences)
    narrow = intervals(alone)["loss"]
    assert narrow.high - narrow.low < 0.6 * width


def test_a_loss_of_few_starts_is_bounded_by_student_and_not_by_z():
    # 30 starts of 50 answers, of which five starts have all the wrong ones.
    wrong = np.zeros((30, 50), dtype=bool)
    wrong[:5, ::3] = True
    groups = np.repeat(np.arange(30), 50)
    given = {"wrong": wrong.ravel(), "confidences": np.arange(1500)}
    found = intervals(GradedAnswers(**given, groups=groups))["loss"]
    shares = wrong.mean(axis=1)
    error = shares.std() / np.sqrt(30)
    size = shares.mean() * (1 - shares.mean()) / error**2
    by_t = Share(estimate=shares.mean(), size=size, freedom=4).interval()
    assert (found.low, found.high) == pytest.approx((by_t.low, by_t.high), rel=0.1)
    by_z = Share(estimate=shares.mean(), size=size).interval()
    assert found.high - found.low > 1.2 * (by_z.high - by_z.low)


def test_answers_of_few_starts_that_are_all_alike_count_once_each():
    # Two answers a start hardly hang together: Student's t of so few wrong ones would say less.
    wrong = np.arange(200) == 7
    answers = GradedAnswers(wrong=wrong, confidences=np.arange(200), groups=np.arange(200) // 2)
    found, expected = intervals(answers)["loss"], Share(estimate=1 / 200, size=100).interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_copies_of_every_answer_in_its_group_make_no_change_surer():
    now, before, copies = table(n=100), table(n=100, seed=1), np.repeat(np.arange(100), 5)
    single = intervals(now, before)["loss"]
    many = [one.take(copies) for one in (now, before)]
    copied = intervals(*many)["loss"]
    alone = [GradedAnswers(wrong=one.wrong, confidences=one.confidences) for one in many]
    narrow = intervals(*alone)["loss"]
    width = single.high - single.low
    assert copied.high - copied.low == pytest.approx(width, rel=0.2)
    assert narrow.high - narrow.low < 0.6 * width


def test_the_same_seed_gives_the_same_bits():
    answers, other = table(), table(seed=1)
    once, again, otherwise = (
        (
            intervals(answers, rng=seeded(seed)),
            intervals(answers, other, rng=seeded(seed)),
        )
        for seed in (5, 5, 6)
    )
    assert once == again
    assert once[0] != otherwise[0]
    assert once[1] != otherwise[1]


def test_no_wrong_answer_leaves_a_loss_that_may_be_above_0():
    answers = GradedAnswers(wrong=np.zeros(200, dtype=bool), confidences=np.arange(200))
    found = intervals(answers)
    assert set(found) == {"loss", "cr", "risk_at_coverage", "coverage_at_risk"}
    assert found["loss"].low == 0
    assert found["loss"].high == pytest.approx(wilson_interval(0, 200).high)
    assert found["risk_at_coverage"].high == pytest.approx(stats.beta.isf(0.025, 0.5, 100.5))


def test_wrong_answers_that_are_all_least_sure_do_not_prove_perfection():
    answers = GradedAnswers(wrong=np.arange(200) < 12, confidences=np.arange(200))
    found = intervals(answers)["auroc"]
    assert (found.estimate, found.high) == (1, 1)
    assert found.low == pytest.approx(wilson_interval(12, 12).low)


def test_one_wrong_answer_says_nothing_of_the_order():
    answers = GradedAnswers(wrong=np.arange(200) == 7, confidences=np.arange(200))
    found = intervals(answers)
    assert "auroc" not in found
    assert "aurcc" not in found


def test_the_same_answers_do_not_differ():
    answers = table()
    found = sampled_differences(answers, answers, rng=seeded(), resamples=RESAMPLES)
    assert set(found) == set(ANSWER_METRICS)
    for sampled in found.values():
        assert sampled.estimate == 0
        assert sampled.interval().low <= 0 <= sampled.interval().high
        assert sampled.p_above(0) >= 0.5
    # Other queries of the same kind may have moved.
    assert found["loss"].interval().high > 0


def test_few_resamples_and_a_single_group_are_refused():
    answers = table()
    with pytest.raises(ValueError, match="need resamples to be a whole number of at least 100"):
        sampled_metrics(answers, rng=seeded(), resamples=99)
    alone = GradedAnswers(wrong=[True, False], confidences=[0.1, 0.2], groups=[0, 0])
    with pytest.raises(ValueError, match="need two groups or more to resample, got 1"):
        sampled_metrics(alone, rng=seeded())
    with pytest.raises(ValueError, match="same queries in the same groups, got 120 and 60"):
        sampled_differences(answers, answers.take(np.arange(60)), rng=seeded())
