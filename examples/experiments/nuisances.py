"""Nuisances: columns that tell the planner nothing, in what a model of the cartpole predicts.

They are a perturbation of what is observed: smooth functions of the state, which are easy to
predict, or fast sines, which no small network can. The task's score reads the state alone.
"""

import numpy as np
from learned import shaken_transitions

import pytest_cpg
from pytest_cpg.episodes.nuisances import Nuisance
from pytest_cpg.planners import RandomShooting
from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import train_mlp

STATE, EPISODES = 5, 10
KINDS = {"redundant": "redundant", "high_freq": "fast"}
CELLS = [
    ("none", 0),
    *((kind, width) for kind in KINDS for width in (4, 16, 64)),
]


def measure():
    """Return a row for each kind, width and seed: both arms, and the model's one-step errors."""
    rows = []
    for kind, width in CELLS:
        task = TASKS["cartpole-swingup"]()
        nuisance = Nuisance(width, KINDS[kind]) if width else None
        seen = nuisance.observe(task) if nuisance else task
        for seed in range(3):
            data = shaken_transitions(seen, count=8_000, seed=seed)
            model = train_mlp(data, seed=seed, variant="plain")
            found = pytest_cpg.evaluate(
                task,
                model,
                planner=RandomShooting(ties="published"),
                perturbation=nuisance,
                starts="fixed",
                episodes=EPISODES,
                seed=seed,
                diagnose="never",
                cache=None,
                progress=False,
            )
            other = shaken_transitions(seen, count=200, seed=1_000 + seed)
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
