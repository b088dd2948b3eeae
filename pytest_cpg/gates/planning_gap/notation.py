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
    return f"{number(result.interval.estimate, result.design.metric)} {bracket(result)}"


def bracket(result: GateResult) -> str:
    """Return the interval of the judged gap."""
    return ends(result.interval, result.design.metric)


def ends(interval: Interval, metric: str) -> str:
    """Return an interval of a gap, of success or of returns."""
    return f"[{_bound(interval.low, metric)}, {_bound(interval.high, metric)}]"


def _bound(value: float, metric: str) -> str:
    """Return an end of an interval, on which side of 0 it is included."""
    text = number(value, metric)
    return f"{value:.1g}" if value and not float(text) else text


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
    return f"{result.design.perturbation}: recovered {', '.join(map(_recovered, result.arms))}"


def _recovered(arm: Arm) -> str:
    interval = arm.recovery
    if arm.perturbed is None or interval is None:
        return f"{arm_name(arm)} 0/0"
    count = int((arm.successes & arm.perturbed).sum())
    return f"{arm_name(arm)} {count}/{arm.perturbed.sum()} {notation.ends(interval)}"
