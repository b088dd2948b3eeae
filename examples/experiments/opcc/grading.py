"""Grading: what an ensemble's imagined returns say of the queries, and how good that is."""

import numpy as np
from confidences import CONFIDENCES, compared
from scipy.special import stdtrit

from pytest_cpg.stats.graded_answers import GradedAnswers, answer_metrics, risk_coverage

METRICS = ("loss", "auroc", "aurcc", "rpp", "cr", "excess", "coverage_at_risk", "regret")
BY_HORIZON = ("loss", "auroc", "aurcc")
# Where risk-coverage curves are kept.
COVERAGES = np.linspace(0.05, 1, 20)
# Added to every standard error by the public baselines, whose levels are a grid of hundredths; at 1
# their intervals have no ends, and nothing is accepted.
BASELINES_ERROR, BASELINES_LEVELS = 1e-3, np.arange(100) / 100


def graded(sides, queries):
    """Return the metrics of each confidence, over all queries and at each horizon."""
    found = {}
    for name in CONFIDENCES:
        answers = answered(sides, queries, name)
        found[name] = {
            **overall(answers, sides, name),
            "risks": risks(answers),
            "horizons": {
                str(h): metrics(answers.take(queries.horizons == h), BY_HORIZON)
                for h in np.unique(queries.horizons)
            },
        }
    return found


def by_size(sides, queries, sizes):
    """Return the metrics of each confidence over all queries, for so many of the members."""
    return {
        str(size): {
            name: overall(answered(some, queries, name), some, name) for name in CONFIDENCES
        }
        for size in sizes
        for some in [[side[:size] for side in sides]]
    }


def answered(sides, queries, confidence):
    answers, confidences = compared(*sides, confidence)
    return GradedAnswers(
        wrong=answers != queries.labels,
        confidences=confidences,
        stakes=np.abs(queries.returns_a - queries.returns_b),
    )


def overall(answers, sides, confidence):
    """Return all metrics, points to 0.5, and AURCC, RPP and CR of the baselines' confidences."""
    on_grid = answers.confidences if confidence == "ev" else baselines_levels(*sides, confidence)
    baselines = GradedAnswers(wrong=answers.wrong, confidences=on_grid)
    return {
        **metrics(answers, METRICS),
        "points_to_half": sum(0 < point <= 0.5 for point in risk_coverage(answers).coverages),
        **{f"{m}_of_baselines": value for m, value in metrics(baselines, ("aurcc", "rpp")).items()},
        "cr_of_baselines": rounded(published_cr(baselines)),
    }


def risks(answers):
    """Return the risk at each of the coverages; straight lines from (0, 0) on, as published."""
    curve = risk_coverage(answers)
    found = np.interp(COVERAGES, curve.coverages, curve.risks)
    return [rounded(risk) for risk in found]


def baselines_levels(values_a, values_b, confidence):
    """Return PCI or U-PCI as the public baselines find it: the last hundredth that they accept.

    Their standard errors are larger. U-PCI also accepts a level at which side a's interval lies
    strictly within side b's: they ask of ends of b's alone whether these are in a's.
    """
    gaps, freedom = values_b - values_a, len(values_a) - 1
    reach = stdtrit(freedom, (1 + BASELINES_LEVELS[:, None]) / 2)
    leads = np.abs(gaps.mean(axis=0))
    paired, a, b = (
        values.std(axis=0, ddof=1) / np.sqrt(len(values)) + BASELINES_ERROR
        for values in (gaps, values_a, values_b)
    )
    if confidence == "pci":
        accepted = reach * paired <= leads
    else:
        accepted = (reach * (a + b) < leads) | (reach * (b - a) > leads)
    return np.max(BASELINES_LEVELS[:, None] * accepted, axis=0)


def metrics(answers, names):
    found = answer_metrics(answers)
    return {name: rounded(getattr(found, name)) for name in names}


def rounded(value):
    return None if value is None else round(float(value), 4)


def published_cr(answers: GradedAnswers, *, bins: int = 10) -> float:
    """Return CR_K as the public baselines of the paper compute it, to compare with its tables.

    Its edges are sums of 1 / K in floating point: a coverage of 0.3 falls below its bin, and for
    some K, such as 49, there is an edge and a bin too many.
    """
    edges = np.arange(0, 1, 1 / bins)
    held = np.unique(np.digitize(risk_coverage(answers).coverages, edges))
    return len(held) / len(edges)
