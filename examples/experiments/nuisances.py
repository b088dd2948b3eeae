"""Nuisances: columns that tell the planner nothing, in what a model of the cartpole predicts.

They are functions of the state: smooth ones, which are easy to predict, or fast sines, which no
small network can. The task's score reads the state alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from learned import shaken_transitions

import pytest_cpg
from pytest_cpg.planners import RandomShooting
from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import train_mlp

STATE, FREQUENCY, EPISODES = 5, 12.0, 10
CELLS = [
    ("none", 0),
    *((kind, width) for kind in ("redundant", "high_freq") for width in (4, 16, 64)),
]


@dataclass(frozen=True)
class Cluttered:
    """The cartpole, which also observes ``width`` columns of nuisance."""

    task: Any
    kind: str
    width: int

    def __getattr__(self, name):
        if name in ("task", "kind", "width"):
            raise AttributeError(name)
        return getattr(self.task, name)

    @property
    def observation_size(self):
        return STATE + self.width

    @property
    def observed(self):
        return (*self.task.observed, *(f"{self.kind} {j}" for j in range(self.width)))

    def observe(self, states):
        state = self.task.observe(states)
        return np.concatenate([state, self.nuisance(state)], axis=-1)

    def nuisance(self, state):
        j = np.arange(self.width)
        values = state[..., j % STATE]
        if self.kind == "redundant":
            return np.tanh(values * (1 + j // STATE))
        return np.sin(FREQUENCY * (1 + j) * values)

    def score(self, observations):
        return self.task.score(observations[..., :STATE])


def measure():
    """Return a row for each kind, width and seed: both arms, and the model's one-step errors."""
    rows = []
    for kind, width in CELLS:
        task = Cluttered(TASKS["cartpole-swingup"](), kind, width)
        for seed in range(3):
            data = shaken_transitions(task, count=8_000, seed=seed)
            model = train_mlp(data, seed=seed, variant="plain")
            found = pytest_cpg.evaluate(
                task,
                model,
                planner=RandomShooting(ties="published"),
                starts="fixed",
                episodes=EPISODES,
                seed=seed,
                diagnose="never",
                cache=None,
                progress=False,
            )
            other = shaken_transitions(task, count=200, seed=1_000 + seed)
            predicted = np.asarray(model(other.observations, other.actions))
            squared = (predicted - other.next_observations) ** 2
            rows.append(
                {
                    "kind": kind,
                    "width": width,
                    "seed": seed,
                    "oracle": found.oracle.success_count,
                    "learned": found.learned.success_count,
                    "verdict": str(found.verdict),
                    "error": float(squared.mean()),
                    "state_error": float(squared[:, :STATE].mean()),
                }
            )
    return rows


def table(found, published):
    rows = [
        "| nuisance | columns | oracle | published | difference | learned | published | difference "
        "| error of all | published | of the state | published |",
        "|" + "---|" * 12,
    ]
    for (kind, width), theirs in zip(CELLS, published["rows"], strict=True):
        group = [row for row in found if (row["kind"], row["width"]) == (kind, width)]
        columns, n = [kind.replace("_", " "), width], EPISODES * len(group)
        for arm in ("oracle", "learned"):
            ours = sum(row[arm] for row in group)
            gap = agresti_caffo_interval(ours, n, theirs[arm], n)
            columns += [f"{ours}/{n}", f"{theirs[arm]}/{n}"]
            columns.append(f"{gap.estimate:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]")
        for error in ("error", "state_error"):
            columns.append(f"{np.mean([row[error] for row in group]):.2g}")
            columns.append(f"{theirs[error]:.2g}")
        rows.append(f"| {' | '.join(map(str, columns))} |")
    return "\n".join([*rows, "", f"What differs: {published['differs']}."]) + "\n"
