"""What a trained model predicts and plans: a row of the tables for a file of weights."""

from functools import cache

import numpy as np
import torch
from train import seen, task_of

import pytest_cpg
from pytest_cpg.planners import BeamSearch, Greedy
from pytest_cpg.tasks.causal.chemistry import Chemistry, ExactChemistry

HORIZONS = 1, 5, 10
# As published: test episodes. Of so many each is told from all others.
GALLERY, QUERIES = 10_000, 1_000


@cache
def walks(world):
    """Return what is seen at the starts of test episodes, actions, and what is seen after some."""
    task, rng = task_of(world), np.random.default_rng([1_000_000, 33])
    states = task.reset(1_000_000 + np.arange(GALLERY))
    begun, actions, reached = seen(task, states), [], {}
    for step in range(1, max(HORIZONS) + 1):
        actions.append(task.actions.values[rng.integers(len(task.actions.values), size=GALLERY)])
        states = task.step(states, actions[-1])
        if step in HORIZONS:
            reached[step] = seen(task, states)
    return begun, torch.tensor(np.stack(actions, axis=1)), reached


def retrieval(world, model):
    """Return the ranks of each episode's prediction after some steps: {(steps, who): ranks [N]}.

    "copy" predicts what it was given. As published, but that of ties each takes its share: to be as
    near is to be half in front.
    """
    begun, actions, ends = walks(world)
    ranks = {}
    with torch.no_grad():
        latents = model.encode(begun)
        reached = model.rollout(latents, actions)
        for step, observations in ends.items():
            true = model.encode(observations)
            for who, predicted in (("model", reached[:, step - 1]), ("copy", latents)):
                parts = (part[:, : model.width].double() for part in (predicted, true))
                ranks[step, who] = _ranks(*parts)
    return ranks


def _ranks(predicted, true):
    centre = true.mean(dim=0)
    predicted, true = predicted - centre, true - centre
    away = predicted.square().sum(dim=1) - 2 * true[:QUERIES] @ predicted.T
    own = away.diagonal()[:, None]
    nearer, as_near = (away < own).sum(dim=1), (away == own).sum(dim=1) - 1
    return (1 + nearer + as_near / 2).numpy()


def planning(task, model, *, is_open=False, episodes=200):
    """Return what a gate measures with plans of one step, or of all that are carried out unseen."""
    planner = Greedy()
    if is_open:
        planner = BeamSearch(width=1, horizon=task.k, objective="terminal", execute=task.k)
    fixtures = {}
    if isinstance(task, Chemistry):
        # The true dynamics would foresee what is drawn.
        fixtures["oracle_dynamics"] = ExactChemistry(task)
    return pytest_cpg.evaluate(
        task,
        model,
        planner=planner,
        episodes=episodes,
        diagnose="never",
        max_verdict="BAD",
        **fixtures,
    )


def confused(task, model, stratum="all"):
    """Return the interval of the share of actions that a model takes for another."""
    return pytest_cpg.evaluate(
        task.name, model, kind="cpg_counterfactual", limit=0.99, stratum=stratum, max_verdict="BAD"
    )
