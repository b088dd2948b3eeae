"""Notation: how a planning gap, its verdict and its arms are written in every report."""

from __future__ import annotations

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates import notation
from pytest_cpg.gates.notation import number
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.stats import Interval

# Of a hash, enough to tell any two checkpoints apart.
WEIGHT_DIGITS = 16


def gap_text(result: GateResult) -> str:
    """Return the judged gap and its interval, as they are printed everywhere."""
    metric = result.design.metric
    return f"{number(result.interval.estimate, metric)} {ends(result.interval, metric)}"


def ends(interval: Interval, metric: str) -> str:
    """Return an interval of a gap, of success or of returns; its ends keep their side of 0."""
    texts = ((value, number(value, metric)) for value in (interval.low, interval.high))
    low, high = (f"{value:.1g}" if value and not float(text) else text for value, text in texts)
    return f"[{low}, {high}]"


def arm_name(arm: Arm) -> str:
    """Return what an arm is called for readers."""
    return "oracle+score" if arm.name == "rescored" else arm.name


def reached(arm: Arm, metric: str) -> str:
    """Return what an arm earned a start, or how many of its starts it solved."""
    if metric == "return":
        return f"{arm.returns.mean():.4g} a start"
    return f"{arm.success_count}/{arm.episodes}"


def recovery_text(result: GateResult) -> str:
    """Return what went wrong and how each arm recovered from it; empty where nothing did."""
    if not result.design.perturbation:
        return ""
    texts = []
    for arm in result.arms:
        text, interval = "0/0", arm.recovery
        if arm.perturbed is not None and interval is not None:
            count = int((arm.successes & arm.perturbed).sum())
            text = f"{count}/{arm.perturbed.sum()} {notation.ends(interval)}"
        texts.append(f"{arm_name(arm)} {text}")
    return f"{result.design.perturbation}: recovered {', '.join(texts)}"
