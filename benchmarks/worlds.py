"""Worlds whose causes are known: steps a second of the batched simulators, on one core."""

from __future__ import annotations

import numpy as np

from benchmarks.row import Row, cpu_seconds
from pytest_cpg.contracts import Task
from pytest_cpg.tasks.causal.blocks import Blocks
from pytest_cpg.tasks.causal.chemistry import Chemistry

ROWS, STEPS, TURNS = 4096, 50, 5


def blocks() -> Row:
    """Step boards of five blocks, where most meet."""
    return _row("blocks:5", Blocks(blocks=5), bar=4.0)


def chemistry() -> Row:
    """Step worlds of the graph in which most colours are drawn anew."""
    return _row("chemistry:full5", Chemistry(graph="full"), bar=2.0)


def _row(name: str, task: Task, *, bar: float) -> Row:
    states = np.resize(task.reset(np.arange(64)), (ROWS, task.reset(np.arange(1)).shape[1]))
    rng = np.random.default_rng(0)
    plans = task.actions.sample([rng], (STEPS, ROWS))[0]

    def steps() -> None:
        now = states
        for actions in plans:
            now = task.step(now, actions)

    steps()
    rate = ROWS * STEPS / min(cpu_seconds(steps) for _ in range(TURNS)) / 1e6
    return Row(
        what=f"{name}, true steps per CPU second",
        ours=f"{rate:.1f} M/s",
        other="",
        result=f"{rate:.1f} M/s",
        bar=f">= {bar:g} M/s",
    )
