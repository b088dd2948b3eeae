"""Metrics of graded answers: what they are, and how often their intervals hold the truth."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from pytest_cpg.stats.bootstrap import risk_intervals, sampled_differences, sampled_metrics
from pytest_cpg.stats.graded_answers import (
    ANSWER_METRICS,
    GradedAnswers,
    answer_metrics,
)

pytestmark = pytest.mark.slow

RUNS = 400
RESAMPLES = 300
MONTE_CARLO = (
    f"{RUNS} simulated runs of {RESAMPLES} resamples: a share of .95 has a standard error of .011."
)
# Fewer wrong answers are not judged by their order.
FEWEST_WRONG = 10
# Name: loss, distance of right from wrong answers in deviations, members that vote.
MODELS = {
    "good, votes": (0.042, 1.86, 10),
    "good": (0.042, 2.3, None),
    "middling": (0.15, 1.3, None),
    "random data": (0.357, 0.66, None),
    "frozen": (0.263, 0.05, None),
}
SETTINGS = [
    *((name, n, 1) for name in MODELS for n in (50, 200, 500, 1500)),
    *((name, 500, 10) for name in ("good", "middling", "random data")),
]


def deviates(groups, rng):
    """Return a normal deviate per answer; those of a group correlate by 0.3."""
    many = int(groups.max()) + 1
    shared = 0.3 if many < len(groups) else 0.0
    own = rng.standard_normal(len(groups))
    return math.sqrt(shared) * rng.standard_normal(many)[groups] + math.sqrt(1 - shared) * own


def graded(model, n, rng, *, per=1, hardness=None):
    """Return answers of a model; ``hardness`` [N] decides which are wrong, where it is given."""
    loss, distance, members = MODELS[model]
    groups = np.arange(n) // per
    wrong = (deviates(groups, rng) if hardness is None else hardness) < ndtri(loss)
    confidences = ndtr(deviates(groups, rng) + distance * ~wrong)
    if members:
        confidences = np.floor(confidences * (members / 2 + 1)) / (members / 2)
    # Gaps of returns as the published queries have them: at least 10.
    return GradedAnswers(
        wrong=wrong, confidences=confidences, stakes=10 + rng.exponential(20, n), groups=groups
    )


def truth(model):
    return asdict(answer_metrics(graded(model, 1_000_000, np.random.default_rng(99))))


class Missed:
    """How often the truth lay below and above an interval, by metric."""

    def __init__(self):
        self.below, self.above, self.runs = {}, {}, {}

    def note(self, name, low, high, value):
        self.runs[name] = self.runs.get(name, 0) + 1
        self.below[name] = self.below.get(name, 0) + (value < low - 1e-12)
        self.above[name] = self.above.get(name, 0) + (value > high + 1e-12)

    def coverage(self, name):
        if self.runs.get(name, 0) < RUNS / 4:
            return math.nan
        return 1 - (self.below[name] + self.above[name]) / self.runs[name]

    def shown(self, name, *, with_sides=False):
        if math.isnan(self.coverage(name)):
            return "few wrong"
        text = f"{self.coverage(name):.3f}"
        if with_sides:
            low, high = (side[name] / self.runs[name] for side in (self.below, self.above))
            text += f" ({low:.3f}, {high:.3f})"
        return text


def missed_of(model, n, per):
    rng, true, missed = np.random.default_rng(0), truth(model), Missed()
    for _ in range(RUNS):
        answers = graded(model, n, rng, per=per)
        has_order = answers.wrong.sum() >= FEWEST_WRONG
        sampled = sampled_metrics(answers, rng=rng, resamples=RESAMPLES)
        for name, one in sampled.items():
            if has_order or name in ("loss", "risk_at_coverage", "coverage_at_risk", "regret"):
                ci = one.interval()
                missed.note(name, ci.low, ci.high, true[name])
        if has_order:
            missed.note("percentile", *percentile_of_auroc(answers, rng), true["auroc"])
    return missed


def percentile_of_auroc(answers, rng):
    """Return the plain percentile interval, of resamples laid out row by row."""
    members = np.argsort(answers.groups, kind="stable").reshape(answers.groups.max() + 1, -1)
    areas = []
    for _ in range(RESAMPLES):
        rows = members[rng.integers(len(members), size=len(members))].ravel()
        lost, sure = answers.wrong[rows], answers.confidences[rows]
        if lost.any() and not lost.all():
            right, wrong = np.sort(sure[~lost]), sure[lost]
            lower = np.searchsorted(right, wrong) + np.searchsorted(right, wrong, side="right")
            areas.append(1 - lower.sum() / 2 / len(right) / len(wrong))
    return np.quantile(areas, [0.025, 0.975])


DESCRIBED = {
    "loss": ("share of wrong answers", "0 .. 1"),
    "aurc": (
        "mean share of wrong ones among the k surest, over k = 1 .. N; ties in random order",
        "0 .. 1",
    ),
    "excess": (
        "`aurc` between that of the ideal order, 0, and of a constant confidence, 1",
        "0 .. , may exceed 1",
    ),
    "aurcc": (
        "area under risk over coverage, straight between thresholds and from (0, 0): a constant "
        "confidence has loss / 2, and is not better for it",
        "0 .. 1",
    ),
    "rpp": (
        "share of the N^2 ordered pairs in which a wrong answer is surer than a right one; ties "
        "are no conflict",
        "0 .. loss (1 - loss)",
    ),
    "cr": ("CR_10: share of ten equal bins that hold a coverage, 0 among them", "0.2 .. 1"),
    "auroc": ("chance that a right answer is surer than a wrong one, ties one half", "0 .. 1"),
    "risk_at_coverage": (
        "share of wrong ones among the surer half; ties in random order",
        "0 .. 1",
    ),
    "coverage_at_risk": (
        "largest coverage of a threshold with a risk of at most 0.05; 0 if there is none",
        "0 .. 1",
    ),
    "regret": (
        "difference of the two returns where the answer is wrong, summed and divided by N",
        "0 .. mean difference",
    ),
}


def test_what_metrics_say_of_confidences_that_know_nothing_and_all(statistics_page):
    rng = np.random.default_rng(0)
    n, loss = 100_000, 0.25
    wrong = np.arange(n) < loss * n
    stakes = 10 + rng.exponential(20, n)
    orders = {
        "constant": np.ones(n),
        "random": rng.random(n),
        "ideal": 1 - wrong + rng.random(n) / 2,
        "reversed": wrong + rng.random(n) / 2,
    }
    found = {
        name: answer_metrics(GradedAnswers(wrong=wrong, confidences=order, stakes=stakes))
        for name, order in orders.items()
    }
    rows = [
        [f"`{name}`", *DESCRIBED[name], *(f"{getattr(one, name):.3f}" for one in found.values())]
        for name in ANSWER_METRICS
    ]
    constant, random, ideal = found["constant"], found["random"], found["ideal"]
    assert (constant.aurcc, constant.excess, constant.auroc) == (loss / 2, 1, 0.5)
    assert random.aurcc == pytest.approx(loss, abs=0.01)
    assert random.excess == pytest.approx(1, abs=0.03)
    assert ideal.aurc == pytest.approx(loss + (1 - loss) * math.log(1 - loss), abs=1e-4)
    assert random.rpp == pytest.approx(loss * (1 - loss) / 2, abs=0.002)
    assert found["reversed"].rpp == pytest.approx(loss * (1 - loss))
    statistics_page.table(
        "Metrics of answers with confidences",
        ["metric", "definition", "range", *(f"{name} confidence" for name in orders)],
        rows,
        note="What a metric of a policy comparison is, and its value for 100000 answers of which a "
        "quarter is wrong, under a constant and a random confidence, one that knows all, and one "
        "that is the wrong way round. Confidences closer than 1e-9 are equal. `excess` and `auroc` "
        "do not exist where all answers are right, or all wrong. `aurc` and `excess` are also what "
        "`arm.selective_risk` has.",
    )


def test_intervals_of_metrics_hold_the_truth(statistics_page):
    rows = []
    for model, n, per in SETTINGS:
        missed = missed_of(model, n, per)
        rows.append(
            [
                model,
                f"{n}, groups of {per}" if per > 1 else n,
                missed.shown("loss", with_sides=True),
                missed.shown("auroc", with_sides=True),
                missed.shown("percentile", with_sides=True),
                missed.shown("coverage_at_risk", with_sides=True),
                *map(missed.shown, ("risk_at_coverage", "excess", "aurcc", "rpp", "regret")),
            ]
        )
        print(rows[-1], flush=True)
        assert missed.coverage("loss") > 0.9
        assert missed.coverage("regret") > 0.9
        if n >= 500:
            assert missed.coverage("auroc") > 0.88
            assert missed.coverage("auroc") > missed.coverage("percentile") - 0.02
    described = "; ".join(
        f"{name}: loss {loss:g}, AUROC {truth(name)['auroc']:.3f}, coverage at risk .05 "
        f"{truth(name)['coverage_at_risk']:.2f}"
        for name, (loss, *_) in MODELS.items()
    )
    statistics_page.table(
        "Intervals of the metrics of answers",
        [
            "model",
            "answers",
            "loss",
            "AUROC",
            "AUROC by percentiles",
            "coverage at risk",
            "risk at coverage",
            "excess",
            "AURCC",
            "RPP",
            "regret",
        ],
        rows,
        note=f"Coverage at level 0.95; in brackets how often the truth lay below and above. "
        f"{MONTE_CARLO} Orders are judged with {FEWEST_WRONG} wrong answers or more, and shown "
        f"where a quarter of the runs has them. In groups, deviates correlate by 0.3. {described}.",
    )


def test_intervals_of_changes_hold_the_truth(statistics_page):
    rows = []
    for before, now in (
        ("good", "good"),
        ("good", "middling"),
        ("middling", "good"),
        ("frozen", "frozen"),
    ):
        true, first = truth(now), truth(before)
        for n in (200, 500, 1500):
            rng, missed = np.random.default_rng(1), Missed()
            for _ in range(RUNS):
                hardness = deviates(np.arange(n), rng)
                # The two models find mostly the same queries hard.
                own = [
                    math.sqrt(0.7) * hardness + math.sqrt(0.3) * rng.standard_normal(n)
                    for _ in range(2)
                ]
                pair = [
                    graded(m, n, rng, hardness=h) for m, h in zip((now, before), own, strict=True)
                ]
                has_order = min(one.wrong.sum() for one in pair) >= FEWEST_WRONG
                for name, one in sampled_differences(*pair, rng=rng, resamples=RESAMPLES).items():
                    if has_order or name in ("loss", "regret"):
                        ci = one.interval()
                        missed.note(name, ci.low, ci.high, true[name] - first[name])
            rows.append(
                [
                    f"{before} -> {now}",
                    n,
                    *(
                        missed.shown(name, with_sides=True)
                        for name in ("loss", "auroc", "coverage_at_risk", "regret")
                    ),
                ]
            )
            print(rows[-1], flush=True)
            assert missed.coverage("loss") > 0.9
    statistics_page.table(
        "Changes of the metrics of answers",
        ["before -> now", "answers", "loss", "AUROC", "coverage at risk", "regret"],
        rows,
        note=f"Coverage at level 0.95 of the change between two models on the same queries; in "
        f"brackets how often the truth lay below and above. {MONTE_CARLO} The deviates that make "
        "answers wrong correlate by 0.7 between the models; confidences are drawn anew.",
    )


@pytest.mark.parametrize(("model", "n", "per"), SETTINGS)
def test_the_band_of_risks_holds_the_true_risk_at_each_coverage(model, n, per):
    many = graded(model, 1_000_000, np.random.default_rng(99))
    least = np.quantile(many.confidences, [0.9, 0.75, 0.5, 0.0])
    true = [many.wrong[many.confidences >= one].mean() for one in least]
    rng, held = np.random.default_rng(0), np.zeros(len(true))
    for _ in range(RUNS):
        answers = graded(model, n, rng, per=per)
        found = risk_intervals(answers, np.minimum(least, answers.confidences.max()))
        held += [one.low <= risk <= one.high for one, risk in zip(found, true, strict=True)]
    print(model, n, per, (held / RUNS).round(3))
    # Of 20 answers of which hardly one is wrong Wilson's own interval holds as rarely.
    assert (held / RUNS).min() > 0.87
