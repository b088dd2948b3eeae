"""What needs no model: random actions, greedy plans by the truth, and the target's actions."""

import numpy as np
from measure import HORIZONS, planning

from pytest_cpg.tasks.causal.blocks import Blocks
from pytest_cpg.tasks.causal.chemistry import Chemistry, ExactChemistry

EPISODES = 5000
# Tables of chemistry: the published ones were drawn once, by no seed.
DRAWS, OF_A_DRAW = 8, 200


def blocks(count):
    """Return how many starts random actions and greedy plans solve at each horizon, as published.

    Success is that at the last step, and a target may be its start.
    """
    rng, solved = np.random.default_rng(33), {}
    for k in HORIZONS:
        task = Blocks(blocks=count, k=k)
        values = task.actions.values
        begun = task.reset(np.arange(EPISODES))
        begun[:, :count] = rng.random((EPISODES, 25)).argsort(axis=1)[:, :count]
        reached = begun
        for _ in range(k):
            reached = task.step(reached, values[rng.integers(len(values), size=EPISODES)])
        begun[:, count : 2 * count] = reached[:, :count]
        at_random = greedy = begun
        for _ in range(k):
            at_random = task.step(at_random, values[rng.integers(len(values), size=EPISODES)])
            tried = (task.step(greedy, np.tile(action, (EPISODES, 1))) for action in values)
            best = np.argmax([task.reward(after, None) for after in tried], axis=0)
            greedy = task.step(greedy, values[best])
        solved[str(k)] = [int(task.success(states, None).sum()) for states in (at_random, greedy)]
    return solved


def chemistry(graph):
    """Return how many starts of each draw random actions, the target's and exact plans solve."""
    solved = {str(k): [] for k in HORIZONS}
    for k in HORIZONS:
        for tables in range(DRAWS):
            task = Chemistry(graph=graph, k=k, tables=tables)
            gate = planning(task, ExactChemistry(task), episodes=OF_A_DRAW)
            starts = task.reset(np.arange(OF_A_DRAW))
            replayed = task.rollout(starts, task.target_plans(np.arange(OF_A_DRAW)))
            replay = int(task.success(replayed, None).any(axis=1).sum())
            counts = [gate.chance.success_count, replay, gate.learned.success_count]
            solved[str(k)].append(counts)
    return solved


def baselines():
    """Return all of them, by world."""
    return {
        "blocks": {str(count): blocks(count) for count in (3, 5)},
        "chemistry": {graph: chemistry(graph) for graph in ("chain", "full", "collider")},
    }
