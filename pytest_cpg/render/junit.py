"""JUnit: a gate's numbers as properties of its test case."""

from __future__ import annotations

from pytest_cpg.gates.notation import visible
from pytest_cpg.gates.planning_gap.result import GateResult


def properties(result: GateResult) -> list[tuple[str, str | float]]:
    """Return names and plain values, for ``user_properties``."""
    return [
        ("cpg_verdict", result.label),
        ("cpg_gap", result.interval.estimate),
        ("cpg_low", result.interval.low),
        ("cpg_high", result.interval.high),
        ("cpg_level", result.interval.level),
        ("cpg_metric", result.metric),
        ("cpg_oracle_rate", result.oracle.success_rate),
        ("cpg_learned_rate", result.learned.success_rate),
        ("cpg_chance_rate", result.chance.success_rate),
        *([("cpg_chance_verdict", result.chance_verdict.value)] if result.chance_verdict else []),
        *([("cpg_rescored_rate", result.rescored.success_rate)] if result.rescored else []),
        ("cpg_episodes", result.learned.episodes),
        ("cpg_stop", result.stop),
        ("cpg_seed", result.seed),
        ("cpg_task", visible(result.task)),
        ("cpg_planner", visible(result.planner)),
        *([("cpg_perturbation", result.perturbation)] if result.perturbation else []),
    ]
