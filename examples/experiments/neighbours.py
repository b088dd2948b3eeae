"""How many neighbours a plan needs, and what an adversary finds: python neighbours.py

A planner of cartpole-swingup chooses with an MLP of 2 000 transitions; its plans are scored among
6 to 128 neighbours, random ones and an adversary's. Writes results/neighbours.json and .md.
"""

import json
import time
from pathlib import Path

from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import bound_as_truth, bound_to_starts, starts_of
from pytest_cpg.gates.plan_quality.measure import decide, result_of
from pytest_cpg.gates.plan_quality.result import Criteria
from pytest_cpg.gates.plan_quality.scoring import standings_of
from pytest_cpg.gates.presets import PRESETS, preset_planner
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics, collect_transitions, inference, train_mlp

RESULTS = Path(__file__).parent / "results"
TASK, EPISODES = "cartpole-swingup", 8
COUNTS = (6, 12, 24, 48, 64, 128)
TRAINED = {"hidden": 128, "steps": 1_500, "learning_rate": 2e-3, "batch_size": 512}


def measure():
    """Return a row for each number of neighbours, random and adversarial."""
    task = TASKS[TASK](**PRESETS[TASK].options)
    design = Design(task=task, planner=preset_planner(TASK), episodes=EPISODES, seed=0)
    transitions = collect_transitions(task, count=2_000, seed=11)
    model = train_mlp(
        transitions, seed=11, epochs=10**6, schedule="one-cycle", activation="silu", **TRAINED
    )
    rows = []
    with inference(model):
        starts = starts_of(design)
        bound = {
            "learned": bound_to_starts(model, design, starts),
            "oracle": bound_as_truth(OracleDynamics(task), design, starts),
        }
        decided = decide(design, bound["learned"], starts, progress=lambda *_: None).sampled()
        for search in ("random", "adversarial"):
            for k in COUNTS:
                begun = time.process_time()
                standings = standings_of(
                    design,
                    bound,
                    decided.decisions,
                    decided.plans,
                    k=k,
                    search=search,
                    progress=lambda *_: None,
                )
                seconds = time.process_time() - begun
                result = result_of(design, Criteria(), decided, standings)
                rows.append(row_of(search, k, result, seconds))
                print(rows[-1], flush=True)
    return rows


def row_of(search, k, result, seconds):
    counts, found = result.counts, result.exploitation
    return {
        "neighbours": search,
        "k": k,
        "model": float(result.worlds.first.mean()),
        "truth": float(result.worlds.second.mean()),
        "exploitation": [found.estimate, found.low, found.high],
        "regret": result.regret,
        "beats_model": counts.beats_imagined / counts.decisions,
        "beats_truth": counts.beats_true / counts.decisions,
        "steps_per_plan": (k + 1) * result.design.horizon,
        "cpu_ms_per_plan": 1e3 * seconds / counts.decisions,
    }


def table(rows):
    lines = [
        "| neighbours | k | score in the model | in truth | exploitation | regret | beats all in "
        "the model | in truth | steps a plan | CPU a plan |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        estimate, low, high = row["exploitation"]
        lines.append(
            f"| {row['neighbours']} | {row['k']} | {row['model']:.2f} | {row['truth']:.2f} | "
            f"{estimate:+.2f} [{low:+.2f}, {high:+.2f}] | {row['regret']:.3f} | "
            f"{row['beats_model']:.0%} | {row['beats_truth']:.0%} | {row['steps_per_plan']} | "
            f"{row['cpu_ms_per_plan']:.1f} ms |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    found = measure()
    (RESULTS / "neighbours.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "neighbours.md").write_text(table(found))
    print(f"\n{table(found)}")
