"""Ruling: what a result says to a test, and whether it may pass for it."""

from __future__ import annotations

from pytest_cpg.gates.card import AA_CHECK, SMOKE_TEST, Ruling, Severity
from pytest_cpg.gates.planning_gap.notation import reached
from pytest_cpg.gates.planning_gap.result import GateResult, highest_rate_of
from pytest_cpg.stats import Verdict


def ruling_of(result: GateResult, accepts: Verdict) -> Ruling:
    """Return what a result says to a test that accepts no verdict worse than this one."""
    doubt = None
    if not result.is_smoke:
        doubt = f"judged by {result.evidence}" if result.is_weak else None
        # What is wrong with stored arms says nothing of this verdict: they were run anew.
        doubt = next((note for note in result.notes if note not in result.reuse), doubt)
    check = AA_CHECK if result.is_aa else ""
    return Ruling(
        label=result.label,
        severity=severity_of(result, accepts),
        reason=failure_reason(result, accepts),
        doubt=doubt,
        check=SMOKE_TEST if result.is_smoke else check,
    )


def severity_of(result: GateResult, accepts: Verdict) -> Severity:
    """Return how bad a result is to a test that accepts no verdict worse than this one."""
    if result.faults:
        return Severity.BROKEN
    if result.is_smoke:
        return Severity.GOOD
    if result.is_aa:
        # No model is judged: that random actions would pass matters only where it is not accepted.
        return Severity.BLIND if failure_reason(result, accepts) else Severity.GOOD
    is_blind = result.is_oracle_too_weak or blindness(result, accepts) is not None
    return Severity.BLIND if is_blind else Severity(result.verdict.severity)


def failure_reason(result: GateResult, max_verdict: Verdict) -> str | None:
    """Say in one line why a test that accepts ``max_verdict`` fails; None when it passes."""
    if result.is_smoke:
        return None
    # Two arms of one model that differ say more than whatever else may be wrong.
    if result.is_aa and result.faults:
        return result.faults[0]
    if result.is_oracle_too_weak:
        return (
            f"the oracle solves {result.oracle.success_count}/{result.oracle.episodes}, a rate of "
            f"at most {highest_rate_of(result.oracle):.3f}, and min_oracle asks for "
            f"{result.min_oracle:g}"
        )
    if not result.is_aa and result.verdict.severity > max_verdict.severity:
        return f"the verdict is worse than {max_verdict}"
    blind = blindness(result, max_verdict)
    if blind is not None and Verdict.PLANNER_BOTTLENECK.severity > max_verdict.severity:
        return blind
    return result.faults[0] if result.faults else None


def blindness(result: GateResult, max_verdict: Verdict) -> str | None:
    """Say in one line that random actions would have passed a test that accepts ``max_verdict``.

    None where they would not, and where the verdict itself already says what is wrong. They pass
    unless their own verdict is worse; PLANNER BOTTLENECK blames the gate, and never who is judged.
    """
    chance = result.chance_verdict
    if chance is None or result.verdict.severity >= Verdict.PLANNER_BOTTLENECK.severity:
        return None
    if chance is not Verdict.PLANNER_BOTTLENECK and (
        chance is Verdict.MODEL_BOTTLENECK or chance.severity > max_verdict.severity
    ):
        return None
    metric = result.design.metric
    return (
        f"random actions would have passed this gate, so it judges no model (chance "
        f"{reached(result.chance, metric)}, oracle {reached(result.oracle, metric)})"
    )
