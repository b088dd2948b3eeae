"""Mazes: how far ahead a planner must see in the published maze, and what foretells its success.

The maze has 7 x 7 cells and one start, 14 steps from the goal. Plans are rated by the distance
as if there were no walls, so that one that looks few steps ahead stays in a dead end.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

import pytest_cpg
from pytest_cpg.planners import RandomShooting
from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.rankings import spearman_interval
from pytest_cpg.tasks.grids import GridTask
from pytest_cpg.world_models import Transitions, train_mlp

# "." is the start.
LAYOUT = """
#######
#.#:::#
#:#:#:#
#:#:#:#
#:::#:#
#:###G#
#######
"""
GOAL = np.array([5, 5])
HORIZONS, EPISODES = (5, 10, 15, 20, 30), 30
EPOCHS, SEEDS, HIDDEN = (2, 4, 8, 16, 32, 64, 150, 400), range(3), 32
PLANNED, AHEAD, RATE = 20, 8, 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Maze(GridTask):
    """The published maze."""

    name: str = "maze-7x7"
    layout: str = LAYOUT
    budget: int = 80

    def step(self, states, actions):
        moved = np.rint(states + actions)
        blocked = GridTask.score(self, moved) == self._distances.max()
        return np.where(blocked[:, None], states, moved)

    def score(self, observations):
        return np.abs(observations - GOAL).sum(axis=-1)


def gate(task, model, *, candidates, horizon, episodes, seed=0):
    planner = RandomShooting(candidates=candidates, horizon=horizon, ties="published")
    return pytest_cpg.evaluate(
        task,
        model,
        planner=planner,
        episodes=episodes,
        seed=seed,
        diagnose="never",
        cache=None,
        progress=False,
        starts="fixed",
    )


def horizons():
    """Return how many episodes both arms solve by how far plans look ahead."""
    task, rows = Maze(), []
    model = network(task, epochs=EPOCHS[-1], seed=0)
    for horizon in HORIZONS:
        found = gate(task, model, candidates=200, horizon=horizon, episodes=EPISODES)
        arm = found.oracle
        rows.append(
            {
                "horizon": horizon,
                "solved": arm.success_count,
                "episodes": arm.episodes,
                "steps": mean([n for n, won in zip(arm.steps, arm.successes, strict=True) if won]),
                "learned": found.learned.success_count,
            }
        )
    return rows


def mean(values):
    return round(float(np.mean(values)), 2) if values else None


def horizon_table(found, published):
    head = ["horizon", "steps", "published"]
    for arm in ("oracle", "learned"):
        head += [arm, "published", "difference"]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for ours, theirs in zip(found, published["rows"], strict=True):
        columns = [ours["horizon"], ours["steps"] or "-", theirs["steps"] or "-"]
        for arm in ("solved", "learned"):
            counts = ours[arm], ours["episodes"], theirs[arm], theirs["episodes"]
            apart = agresti_caffo_interval(*counts)
            columns += [f"{counts[0]}/{counts[1]}", f"{counts[2]}/{counts[3]}"]
            columns.append(text(apart.estimate, apart.low, apart.high))
        rows.append(f"| {' | '.join(map(str, columns))} |")
    return "\n".join([*rows, "", f"What differs: {published['differs']}."]) + "\n"


def offline_metrics():
    """Return 24 models, trained for 2 to 400 epochs: three errors and the success of plans."""
    task, rows = Maze(budget=50), []
    before, actions, after = every_step(task)
    states = before[::4]
    for epochs in EPOCHS:
        for seed in SEEDS:
            model = network(task, epochs=epochs, seed=seed)
            found = gate(task, model, candidates=100, horizon=20, episodes=PLANNED, seed=seed)
            rows.append(
                {
                    "epochs": epochs,
                    "seed": seed,
                    "one_step": float((model(before, actions) != after).any(axis=1).mean()),
                    "eight_steps": float(
                        np.abs(ahead(model, states) - ahead(task.step, states)).sum(axis=1).mean()
                    ),
                    "ranking": ranking(task, model(before, actions), after),
                    "solved": found.learned.success_count,
                }
            )
    return rows


def every_step(task):
    """Return each cell [T, 2] with each of four moves, and where it leads."""
    states = np.argwhere(np.array([list(line) for line in LAYOUT.split()]) != "#")[:, ::-1]
    before = np.repeat(states.astype(float), 4, axis=0)
    actions = np.tile(task.actions.values, (len(states), 1)).astype(float)
    return before, actions, task.step(before, actions)


def network(task, *, epochs, seed):
    """Return a network of the maze whose predictions are cells."""
    # Rows three times over, so that what is kept for validation is also learned.
    three = [np.tile(rows, (3, 1)) for rows in every_step(task)]
    data = Transitions(observations=three[0], actions=three[1], next_observations=three[2])
    model = train_mlp(data, seed=seed, hidden=HIDDEN, epochs=epochs, learning_rate=RATE)
    return lambda states, actions: np.rint(np.asarray(model(states, actions)))


def ahead(step, states):
    """Return where eight random actions lead, the same ones from all states."""
    rng = np.random.default_rng(0)
    for move in rng.choice(Maze.actions.values, size=AHEAD):
        states = step(states, np.tile(move, (len(states), 1)).astype(float))
    return states


def ranking(task, predicted, after):
    """Return Kendall's tau of each state's four actions by distance, in mean; None without one."""
    ours, theirs = (task.score(cells).reshape(-1, 4) for cells in (predicted, after))
    taus = [kendalltau(*pair).statistic for pair in zip(ours, theirs, strict=True)]
    taus = [tau for tau in taus if np.isfinite(tau)]
    return float(np.mean(taus)) if taus else None


def difference(ours, theirs):
    """Return the difference of two correlations with its bounds, of theirs (Zou 2007: MOVER)."""
    (a, low, high), (b, lower, higher) = ours, theirs
    below, above = np.hypot(a - low, higher - b), np.hypot(high - a, b - lower)
    return a - b, a - b - below, a - b + above


def text(estimate, low, high):
    return f"{estimate:+.2f} [{low:+.2f}, {high:+.2f}]"


def metric_table(found, published):
    rows = [
        "| metric | models | Spearman's correlation with success | models | published | "
        "difference |",
        "|" + "---|" * 6,
    ]
    names = {
        "one_step": "one-step error",
        "eight_steps": "error after 8 steps",
        "ranking": "ranking of actions",
    }
    ranked = [row for row in found if row["ranking"] is not None]
    for which, models in (("all that have one", found), ("those with a ranking", ranked)):
        for name, words in names.items():
            there = [row for row in models if row[name] is not None]
            ours = spearman_interval([row[name] for row in there], [row["solved"] for row in there])
            theirs, count = published[which][name][:3], published[which][name][3]
            ours = ours.estimate, ours.low, ours.high
            both = [text(*ours), str(count), text(*theirs), text(*difference(ours, theirs))]
            rows.append(f"| {words}, {which} | {len(there)} | {' | '.join(both)} |")
    rows += [
        "",
        "| epochs | one-step error | after 8 steps | ranking | solved of 20 |",
        "|" + "---|" * 5,
    ]
    for epochs in EPOCHS:
        group = [row for row in found if row["epochs"] == epochs]
        cells = [
            ", ".join("-" if row[name] is None else f"{row[name]:.2f}" for row in group)
            for name in names
        ]
        solved = ", ".join(str(row["solved"]) for row in group)
        rows.append(f"| {epochs} | {' | '.join(cells)} | {solved} |")
    return "\n".join([*rows, "", f"What differs: {published['differs']}."]) + "\n"
