"""Explanation: what a ruling on compared policies means, and what to do about it."""

from __future__ import annotations

from math import ceil

from pytest_cpg.gates.criterion import Standing
from pytest_cpg.gates.policy_comparison.result import ComparisonResult
from pytest_cpg.gates.policy_comparison.ruling import criteria_of, label_of

# Nobody collects more.
_MOST_QUERIES = 100_000


def meaning(result: ComparisonResult) -> list[str]:
    """Return paragraphs: what was found."""
    if result.faults:
        return list(result.faults)
    label = label_of(result)
    is_only_above_limit = label == "UNINFORMED" and result.loss.estimate < result.trivial_loss
    said = (_ABOVE_LIMIT if is_only_above_limit else _MEANING[label]).format(
        risk=100 * result.criteria.max_risk,
        sure=100 * result.coverage_at_risk.estimate,
        trivial=_trivial(result),
    )
    return [said]


def advice(result: ComparisonResult) -> list[str]:
    """Return paragraphs: what to do about a result that is not good."""
    label = label_of(result)
    if label not in _ADVICE:
        return []
    more = _more_queries(result) if label == "INCONCLUSIVE" else ""
    return [f"{_ADVICE[label]}{more}"]


def _trivial(result: ComparisonResult) -> str:
    if result.frozen_loss < result.constant_loss:
        return "what a world pays in which nothing moves"
    return f"always answering side {'ab'[result.constant_answer]}"


def _more_queries(result: ComparisonResult) -> str:
    """Say how many queries would decide every open criterion, if nothing but chance is open."""
    needed = 0.0
    for one in criteria_of(result):
        if one.standing is not Standing.OPEN:
            continue
        found, distance = one.found, one.bound - one.found.estimate
        if distance == 0:
            return ""
        # The end that has to come nearer: of shares near 0 or 1 it is the farther one.
        end = found.high if distance > 0 else found.low
        needed = max(needed, ((end - found.estimate) / distance) ** 2)
    count = ceil(needed * len(result) / 100) * 100
    if not len(result) < count <= _MOST_QUERIES:
        return ""
    return f" About {count} queries in place of {len(result)} would decide, if the shares stay."


_ABOVE_LIMIT = "The model is surely wrong more often than max_loss allows."
_MEANING = {
    "KNOWS ITS LIMITS": (
        "The model answers better than without a model, its confidence tells wrong answers from "
        "right ones, and {sure:.0f} % of the queries can be answered at a risk of {risk:.3g} %."
    ),
    "INCONCLUSIVE": "The intervals leave open whether the criteria are met.",
    "OVERCONFIDENT": (
        "The model's confidence does not tell which of its answers are wrong; {sure:.0f} % of the "
        "queries can be answered at a risk of {risk:.3g} %."
    ),
    "UNINFORMED": "The model's answers are no better than {trivial}.",
}
_ADVICE = {
    "INCONCLUSIVE": "Ask more queries, best from other starts.",
    "OVERCONFIDENT": (
        "Train longer or at a higher rate, as members that have learned too little are wrong "
        "alike; take up to about 30 of them, give each its own seed and resampled data, or add a "
        "randomised prior. Until then trust no threshold on this confidence."
    ),
    "UNINFORMED": (
        "Train on data of policies like those that are compared, or ask about shorter horizons, "
        "where the loss by horizon is low."
    ),
}
