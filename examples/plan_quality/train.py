"""The recipes of the checkpoints in models/. To make them again: python train.py

Of each task there are two: one trained on a few random actions, and one on what happens around the
states that good plans lead to. They are committed because another processor makes other ones.
"""

from pathlib import Path

import numpy as np

from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import bound_as_truth, starts_of
from pytest_cpg.gates.plan_quality.measure import decide
from pytest_cpg.gates.presets import PRESETS, preset_planner
from pytest_cpg.planners import CEM
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics, Transitions, collect_transitions, train_mlp

MODELS = Path(__file__).parent / "models"
USUAL = {"batch_size": 512, "activation": "silu", "schedule": "one-cycle", "epochs": 10**6}
# Of a few random actions; and of visited states: episodes that are planned with the true dynamics,
# random plans from each of their decisions, and random actions beside them.
RANDOM = {
    "cartpole-swingup": ({"count": 60}, {"hidden": 64, "steps": 1_500, "learning_rate": 5e-3}),
    "acrobot-swingup": (
        {"count": 500, "policy": "held-3"},
        {"hidden": 128, "steps": 1_500, "learning_rate": 5e-3},
    ),
}
VISITED = {
    "cartpole-swingup": (6, 20, None, {"hidden": 64, "steps": 12_000, "learning_rate": 5e-3}),
    "acrobot-swingup": (
        3,
        60,
        {"count": 97_000, "policy": "held-3"},
        {"hidden": 128, "steps": 16_000, "learning_rate": 6e-3},
    ),
}
LENGTH = 10
# The planner whose decisions are visited: more than the preset's.
LARGER = {
    "cartpole-swingup": preset_planner("cartpole-swingup", samples=32),
    "acrobot-swingup": CEM(
        iterations=3,
        samples=64,
        elites=8,
        horizon=40,
        smoothing=0.0,
        objective="peak-and-tail",
        execute=4,
        correlation=0.7,
        warm_start=True,
    ),
}


def visited(task, *, episodes, plans):
    """Return transitions of random plans from the decisions of a good planner."""
    planner = LARGER[task_name(task)]
    design = Design(task=task, planner=planner, episodes=episodes, seed=1)
    starts = starts_of(design)
    truth = bound_as_truth(OracleDynamics(task), design, starts)
    decided = decide(design, truth, starts, progress=lambda *_: None)
    states = np.repeat(decided.decisions.states, plans, axis=0)
    actions = task.actions.sample([np.random.default_rng(5)], (len(states), LENGTH))[0]
    after = task.observe(task.rollout(states, actions))
    before = np.concatenate([task.observe(states)[:, None], after[:, :-1]], axis=1)
    flat = [array.reshape(-1, array.shape[-1]) for array in (before, actions, after)]
    return Transitions(observations=flat[0], actions=flat[1], next_observations=flat[2])


def task_name(task):
    return task.name.partition(" ")[0]


def joined(*parts):
    names = ("observations", "actions", "next_observations")
    return Transitions(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )


def main():
    MODELS.mkdir(exist_ok=True)
    for name in RANDOM:
        task = TASKS[name](**PRESETS[name].options)
        collecting, fitting = RANDOM[name]
        data = collect_transitions(task, seed=11, **collecting)
        train_mlp(data, seed=11, **fitting, **USUAL).save(MODELS / f"{name}-random.pt")
        episodes, plans, collecting, fitting = VISITED[name]
        data = visited(task, episodes=episodes, plans=plans)
        if collecting is not None:
            data = joined(data, collect_transitions(task, seed=11, **collecting))
        train_mlp(data, seed=11, **fitting, **USUAL).save(MODELS / f"{name}-visited.pt")


if __name__ == "__main__":
    main()
