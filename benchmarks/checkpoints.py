"""Checkpoints: a training loop that evaluates its model again and again, on the same starts."""

from __future__ import annotations

import tempfile

from benchmarks.row import Row, cpu_seconds

CHECKPOINTS = 20


def loop() -> Row:
    """Evaluate a model of reacher-easy so many times, with arms that are kept and without."""
    import pytest_cpg
    from pytest_cpg.tasks import TASKS
    from pytest_cpg.world_models import collect_transitions, train_mlp

    # A model that solves what the oracle does: of one that fails, the learned arm takes longer. The
    # true steps of reacher are cheap; where the oracle's plans are not, more is saved.
    data = collect_transitions(TASKS["reacher-easy"](), count=40_000, policy="held-3", seed=0)
    model = train_mlp(
        data, epochs=30, learning_rate=2e-2, schedule="one-cycle", activation="silu", seed=0
    )

    def evaluated(cache: str | None) -> None:
        for _ in range(CHECKPOINTS):
            pytest_cpg.evaluate(
                "reacher-easy", model, planner="preset", diagnose="never", cache=cache
            )

    # Imports and the simulator are no part of either side.
    pytest_cpg.evaluate("reacher-easy", model, planner="preset", diagnose="never", cache=None)
    with tempfile.TemporaryDirectory() as folder:
        kept = cpu_seconds(lambda: evaluated(folder))
    anew = cpu_seconds(lambda: evaluated(None))
    return Row(
        what=f"{CHECKPOINTS} checkpoints of reacher-easy, n = 50, CPU",
        ours=f"{kept:.1f} s, arms kept",
        other=f"{anew:.1f} s, all arms run",
        result=f"{anew / kept:.2f} x",
        bar=">= 1.1 x",
    )
