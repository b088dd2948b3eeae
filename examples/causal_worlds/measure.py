"""What a trained model predicts and plans: a row of the tables for a file of weights."""

import numpy as np
import torch

import pytest_cpg
from pytest_cpg.planners import BeamSearch, Greedy
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.causal.chemistry import ExactChemistry

HORIZONS = 1, 5, 10
# As published: test episodes, each of which is told from all others.
GALLERY = 10_000


def at_horizon(task, k):
    """Return a world whose targets are so many steps away."""
    return named_task(f"{task.name},k={k}" if k != task.k else task.name, TASKS)()


def retrieval(task, model, seed=1_000_000):
    """Return the ranks of each episode's prediction, after as many steps as there are horizons.

    Of ``{(horizon, who): ranks [N]}``, where "copy" predicts what it was given. As published, but
    that of ties, each takes its share: to be as near is to be half in front.
    """
    rng = np.random.default_rng([seed, 33])
    states = task.reset(seed + np.arange(GALLERY))
    with torch.no_grad():
        begun = latents = model.encode(torch.tensor(task.observe(states)))
        ranks = {}
        for step in range(1, max(HORIZONS) + 1):
            actions = task.actions.values[rng.integers(len(task.actions.values), size=GALLERY)]
            states = task.step(states, actions)
            latents = model.rollout(latents, torch.tensor(actions)[:, None])[:, 0]
            if step in HORIZONS:
                true = model.encode(torch.tensor(task.observe(states)))
                for who, predicted in (("model", latents), ("copy", begun)):
                    parts = (part[:, : model.width].double() for part in (predicted, true))
                    ranks[step, who] = _ranks(*parts)
    return ranks


def _ranks(predicted, true):
    centre = true.mean(dim=0)
    predicted, true = predicted - centre, true - centre
    sizes, ranks = predicted.square().sum(dim=1), []
    for rows in torch.arange(len(true)).split(1000):
        away = sizes - 2 * true[rows] @ predicted.T
        own = away.gather(1, rows[:, None])
        ranks.append((away < own).sum(dim=1) + ((away == own).sum(dim=1) + 1) / 2)
    return torch.cat(ranks).numpy()


def planning(task, k, model, *, is_open, episodes):
    """Return what a gate measures with plans of k steps that are carried out unseen, or of one."""
    planner = BeamSearch(width=1, horizon=k, objective="terminal", execute=k)
    oracle = {}
    if hasattr(task, "target_plans"):
        oracle["oracle_dynamics"] = ExactChemistry(task)
    return pytest_cpg.evaluate(
        task,
        model,
        planner=planner if is_open else Greedy(),
        episodes=episodes,
        diagnose="off",
        max_verdict="BAD",
        **oracle,
    )


def confused(task, model, stratum="all"):
    """Return the interval of the share of actions that a model takes for another."""
    return pytest_cpg.evaluate(
        task.name, model, kind="cpg_counterfactual", limit=0.99, stratum=stratum, max_verdict="BAD"
    ).result
