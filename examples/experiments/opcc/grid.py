"""Train ensembles on a grid of settings, and write how they answer: python grid.py --data FOLDER

FOLDER holds the published queries and policies (queries_hopper.npz, ...). What is in results.json
is not run again; results.md is the table beside the published numbers.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import recipes
import tables

from pytest_cpg.gates.policy_comparison.answers import imagined_returns
from pytest_cpg.gates.policy_comparison.confidences import CONFIDENCES, compared
from pytest_cpg.gates.policy_comparison.environments import environment
from pytest_cpg.gates.policy_comparison.published import SHIPPED, published_queries
from pytest_cpg.stats.graded_answers import GradedAnswers
from pytest_cpg.stats.risk_coverage import answer_metrics
from pytest_cpg.world_models import ClipBounds, bind_ensemble, show_progress, train_ensemble

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
# Members are independent of each other, so that groups of one ensemble are trainings of their own.
GROUPS, SIZE = 3, 10
TRANSITIONS, UPDATES, HIDDEN = 50_000, 600, 64
METRICS = ("loss", "auroc", "aurcc", "rpp", "cr", "excess", "coverage_at_risk", "regret")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One ensemble; what is not said is feed-forward, deterministic, normalised and clipped.

    Attributes
    ----------
    target : "next" or "same"
        What is learned to come after an observation: what did, or the observation itself, as the
        public baselines' replay buffer has it.
    bounds : "all", "before" or "none"
        What observations are clipped to: all, those before a step alone, or nothing.
    """

    environment: str = "hopper"
    recipe: str = "mixed"
    target: str = "next"
    bounds: str = "all"
    draws: bool = False
    members: int = GROUPS * SIZE
    updates: int = UPDATES
    hidden: int = HIDDEN
    training: tuple = ()


def training(**options):
    return tuple(sorted(options.items()))


SAME = {"target": "same", "updates": 300}
CELLS = {
    "ten-wide": Cell(members=10, updates=1000, hidden=200),
    "mixed": Cell(members=50, updates=1000),
    "hopper-same": Cell(**SAME),
    "halfcheetah-same": Cell("halfcheetah", **SAME),
    "walker2d-same": Cell("walker2d", **SAME),
    "random": Cell(recipe="random"),
    "medium": Cell(recipe="medium"),
    "expert": Cell(recipe="expert"),
    "medium-expert": Cell(recipe="medium-expert"),
    "mixed-600": Cell(),
    "bounds-before": Cell(bounds="before"),
    "no-bounds": Cell(bounds="none"),
    "prior": Cell(training=training(prior_scale=5.0)),
    "inputs-only": Cell(training=training(normalise_targets=False)),
    "not-normalised": Cell(training=training(normalise_targets=False, normalise_inputs=False)),
    "gaussian": Cell(training=training(output="gaussian")),
    "gaussian-drawn": Cell(training=training(output="gaussian"), draws=True),
    "random-same": Cell(recipe="random", **SAME),
    "medium-same": Cell(recipe="medium", **SAME),
    "halfcheetah": Cell("halfcheetah"),
    "walker2d": Cell("walker2d"),
    "maze-umaze": Cell("maze-umaze"),
    "maze-umaze-same": Cell("maze-umaze", **SAME),
    "maze-open": Cell("maze-open"),
    "maze-open-same": Cell("maze-open", **SAME),
    "autoregressive": Cell(members=10, updates=300, training=training(kind="autoregressive")),
    "feed-forward-300": Cell(members=10, updates=300),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cells", nargs="*", metavar="CELL", help=f"of {', '.join(CELLS)}; or all")
    parser.add_argument("--data", required=True, help="folder of the published queries")
    options = parser.parse_args()
    for name in options.cells or CELLS:
        if name not in CELLS:
            parser.error(f"no cell {name!r}. Known: {', '.join(CELLS)}.")
        found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if name not in found:
            measured = run(CELLS[name], options.data)
            found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            RESULTS.write_text(json.dumps(found | {name: measured}, indent=1) + "\n")
    found = json.loads(RESULTS.read_text())
    (HERE / "results.md").write_text(tables.written(found))
    print(tables.written(found))


def run(cell, folder):
    """Return what an ensemble of these settings answers: each group's metrics, and all members'."""
    shipped = cell.environment in SHIPPED
    queries = published_queries(cell.environment, None if shipped else folder)
    start = time.process_time()
    data = recipes.collected(queries, cell.recipe, TRANSITIONS, 0)
    collected = time.process_time()
    model = trained(cell, data)
    fitted = time.process_time()
    bound = bind_ensemble(
        model,
        observations=queries.observations_a[:8],
        actions=queries.actions_a[:8],
        terminated=environment(cell.environment).terminated,
    )
    sides = imagined_returns(bound, queries, progress=lambda *_: None)
    answered = time.process_time()
    groups = [slice(first, first + SIZE) for first in range(0, cell.members, SIZE)]
    return {
        "cell": dataclasses.asdict(cell),
        "cpu_seconds": {
            "collecting": round(collected - start, 1),
            "training": round(fitted - collected, 1),
            "answering": round(answered - fitted, 1),
        },
        "groups": [graded([side[own] for side in sides], queries) for own in groups],
        "all": graded(sides, queries),
        "sizes": {
            size: graded([side[:size] for side in sides], queries)["pci"]
            for size in range(SIZE, cell.members + 1, SIZE)
        },
    }


def trained(cell, data):
    """Return the ensemble of a cell."""
    learned = data
    if cell.target == "same":
        learned = dataclasses.replace(data, next_observations=data.observations)
    model = train_ensemble(
        learned,
        seed=0,
        members=cell.members,
        updates=cell.updates,
        hidden=cell.hidden,
        progress=show_progress,
        **dict(cell.training),
    )
    bounds = ClipBounds.of(data)
    if cell.bounds == "before":
        bounds = dataclasses.replace(
            bounds, low=data.observations.min(axis=0), high=data.observations.max(axis=0)
        )
    clip_bounds = None if cell.bounds == "none" else bounds
    return dataclasses.replace(model, clip_bounds=clip_bounds, draws=cell.draws)


def graded(sides, queries):
    """Return the metrics of each confidence, and its loss at each horizon."""
    found = {}
    for confidence in CONFIDENCES:
        answers, confidences = compared(*sides, confidence)
        wrong = answers != queries.labels
        stakes = np.abs(queries.returns_a - queries.returns_b)
        metrics = answer_metrics(GradedAnswers(wrong=wrong, confidences=confidences, stakes=stakes))
        found[confidence] = {name: rounded(getattr(metrics, name)) for name in METRICS} | {
            "horizons": {
                int(h): rounded(wrong[queries.horizons == h].mean())
                for h in np.unique(queries.horizons)
            }
        }
    return found


def rounded(value):
    return None if value is None else round(float(value), 5)


if __name__ == "__main__":
    main()
