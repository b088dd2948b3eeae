"""Rulings of policy comparisons at their defaults, of answers that are simulated."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from pytest_cpg.gates.policy_comparison.grading import grade
from pytest_cpg.gates.policy_comparison.result import ComparisonResult, Design
from pytest_cpg.gates.policy_comparison.ruling import LABELS, label_of
from pytest_cpg.gates.policy_comparison.spec import Criteria
from pytest_cpg.stats import GradedAnswers

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
    "AUROC at its limit": (0.06, 0.6),
    # Its surer half has 0.475 right and 0.025 wrong: deviates above 1.1503, and 0.2372 less.
    "coverage at its limit": (0.2, 0.8367),
    "loss at its limit": (CONSTANT_LOSS, 0.93),
}
VOTES = {"good, by votes": 10, "trained on s' = s": 10}


def simulated(model, n, rng):
    """Return a result of a model whose right answers are surer by a normal distance."""
    loss, area = MODELS[model]
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
    labels = [label for label in LABELS if label != "BROKEN"]
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
            # Of 200 answers too few are wrong for AUROC to be judged in one gate of five.
            assert share < (0.2 if n == 200 else 0.08)
        elif "good" in model and n >= 500:
            assert share > 0.9
        elif "trained" in model:
            assert share == 0
