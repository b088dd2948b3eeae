"""Rulings of policy comparisons at their defaults, of answers that are simulated."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from comparisons import KIND, label_of

from pytest_cpg.gates.policy_comparison.result import ComparisonResult, Criteria, Design, grade
from pytest_cpg.stats import GradedAnswers, sampled_metrics

pytestmark = pytest.mark.slow

RUNS, RESAMPLES = 200, 200
# As of the published queries of Hopper.
CONSTANT_LOSS, FROZEN_LOSS = 0.248, 0.263
DEFAULTS = {"min_auroc": 0.6, "max_risk": 0.05, "min_coverage": 0.5, "max_loss": None}
# Name: loss, AUROC, most and least share of KNOWS ITS LIMITS.
MODELS = {
    "good": (0.042, 0.946),
    "good, by votes": (0.042, 0.906),
    "trained on random data": (0.357, 0.68),
    "trained on s' = s": (0.263, 0.515),
    "loss at its limit": (CONSTANT_LOSS, 0.93),
}
# Losses of models of which one criterion is just met, and how many answers from how many starts.
LIMIT_LOSSES = (0.06, 0.1, 0.15, 0.3)
LIMIT_SIZES = ((200, 200), (500, 500), (1500, 1500), (500, 50), (1500, 30))
LIMIT_RUNS, LIMIT_RESAMPLES = 600, 100
FEW_WRONG = (0.02, 0.04, 0.06, 0.1, 0.15)
VOTES = {"good, by votes": 10, "trained on s' = s": 10}


def simulated(model, n, rng):
    """Return a result of a model whose right answers are surer by a normal distance."""
    loss, area = MODELS.get(model, model)
    labels, wrong = rng.random(n) < CONSTANT_LOSS, rng.random(n) < loss
    distance = math.sqrt(2) * NormalDist().inv_cdf(area)
    deviates = rng.standard_normal(n) + distance * ~wrong
    confidences = 1 / (1 + np.exp(-deviates))
    if model in VOTES:
        half = VOTES[model] / 2
        confidences = np.floor(confidences * (half + 1)) / half
    lead = np.where(labels, 1, -1) * (10 + rng.exponential(20, n))
    frozen = rng.random(n) < FROZEN_LOSS
    asked = Criteria(
        confidence="pci", resamples=RESAMPLES, level=0.95, family_size=1, seed=0, **DEFAULTS
    )
    given = GradedAnswers(wrong=wrong, confidences=confidences, stakes=np.abs(lead))
    nothing, horizons = np.zeros(n), np.full(n, 10)
    return ComparisonResult(
        design=Design(
            name="", environment="", digest="", discount=1.0, groups=n, steps=1, members=10
        ),
        criteria=asked,
        answers=labels ^ wrong,
        labels=labels,
        confidences=confidences,
        imagined_a=nothing,
        imagined_b=nothing,
        returns_a=nothing,
        returns_b=lead,
        horizons=horizons,
        groups=np.arange(n),
        grades=grade(given, asked, trivial=(labels, frozen), horizons=horizons),
        constant_loss=float(labels.mean()),
        constant_answer=False,
        frozen_loss=float(frozen.mean()),
    )


def test_rulings_of_good_and_bad_models_at_the_defaults(statistics_page):
    rows, passed = [], {}
    labels = [label for label in KIND.labels if label != "BROKEN"]
    for model, (loss, area) in MODELS.items():
        for n in (200, 500, 1500):
            rng = np.random.default_rng(n)
            found = [label_of(simulated(model, n, rng)) for _ in range(RUNS)]
            shares = [found.count(label) / RUNS for label in labels]
            passed[model, n] = shares[0]
            rows.append([model, loss, area, n, *(f"{100 * share:.1f} %" for share in shares)])
            print(rows[-1], flush=True)
    statistics_page.table(
        "Rulings of policy comparisons",
        ["model", "loss", "AUROC", "queries", *labels],
        rows,
        note=f"Share of gates at their defaults that rule so: {RUNS} simulated gates each, whose "
        f"right answers are surer by a normal distance; a constant answer is wrong on "
        f"{CONSTANT_LOSS} of the queries and a frozen world on {FROZEN_LOSS}. A model at a limit "
        "passes by luck alone. Guards, which name s' = s without any statistics, are left out.",
    )
    for (model, n), share in passed.items():
        if "limit" in model:
            assert share < 0.08
        elif "good" in model and n >= 500:
            assert share > 0.9
        elif "trained" in model:
            assert share == 0


def at_the_limit(loss, n, starts, rng, *, shared):
    """Return answers of a model whose surest half is wrong in 5 %, whose loss is what it is.

    Deviates of answers from one start correlate by ``shared``.
    """
    normal = NormalDist()
    least = -normal.inv_cdf(0.05 * 0.5 / loss)
    distance = least + normal.inv_cdf(0.95 * 0.5 / (1 - loss))
    groups = np.arange(n) % starts

    def deviates():
        common = math.sqrt(shared) * rng.standard_normal(starts)[groups]
        return common + math.sqrt(1 - shared) * rng.standard_normal(n)

    wrong = deviates() < normal.inv_cdf(loss)
    return GradedAnswers(wrong=wrong, confidences=deviates() + distance * ~wrong, groups=groups)


def standard_error(share, runs):
    return f"{100 * math.sqrt(share * (1 - share) / runs):.1f} %"


def test_shares_of_wrong_answers_exactly_at_their_limits(statistics_page):
    rows = []
    for n, starts in LIMIT_SIZES:
        for shared in (0.3, 0.8) if starts < n else (0.0,):
            for loss in LIMIT_LOSSES:
                rng, counts = np.random.default_rng(n), np.zeros(3)
                for _ in range(LIMIT_RUNS):
                    answers = at_the_limit(loss, n, starts, rng, shared=shared)
                    found = sampled_metrics(answers, rng=rng, resamples=LIMIT_RESAMPLES)
                    surest, lost = (found[name].interval() for name in ("risk_at_coverage", "loss"))
                    counts += [surest.high <= 0.05, lost.high < loss, lost.low > loss]
                shares = counts / LIMIT_RUNS
                kind = f"{n} from {starts} starts, {shared:g}" if starts < n else n
                rows.append([kind, loss, *(f"{100 * share:.1f} %" for share in shares)])
                print(rows[-1], flush=True)
                # The standard error of 2.5 % is 0.6 %.
                # The spread between few starts is itself a guess.
                assert shares.max() < (0.05 if starts > 30 else 0.1)
    statistics_page.table(
        "Policy comparisons exactly at a limit",
        ["answers", "loss", "surest half seems safe", "loss seems lower", "loss seems higher"],
        rows,
        note=f"Share of {LIMIT_RUNS} simulated gates that are sure of the wrong side, nominal "
        f"2.5 % (standard error {standard_error(0.025, LIMIT_RUNS)}): the surest half of the "
        "answers is wrong in exactly the 5 % that are accepted, and "
        "the limit of the loss is the loss itself. Deviates of answers from one start correlate "
        "by what is said.",
    )


def test_confidences_that_hardly_tell_pass_where_few_answers_are_wrong(statistics_page):
    rows = []
    for loss in FEW_WRONG:
        shares = []
        for n in (200, 500, 1500):
            rng = np.random.default_rng(n)
            labels = [label_of(simulated((loss, 0.6), n, rng)) for _ in range(RUNS)]
            shares.append(labels.count("KNOWS ITS LIMITS") / RUNS)
        rows.append([loss, *(f"{100 * share:.1f} %" for share in shares)])
        print(rows[-1], flush=True)
    # Fewer than ten wrong answers say nothing of confidence: the loss alone decides.
    assert all(float(row[-1].split()[0]) < 8 for row in rows)
    statistics_page.table(
        "AUROC at its limit where few answers are wrong",
        ["loss", "200 queries", "500 queries", "1500 queries"],
        rows,
        note=f"Share of {RUNS} simulated gates at their defaults that read KNOWS ITS LIMITS though "
        f"AUROC is just 0.60 (standard error of 15 %: {standard_error(0.15, RUNS)}). Below ten "
        "wrong answers AUROC is not judged, and the loss decides.",
    )
