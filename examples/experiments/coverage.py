"""Coverage: how upright the acrobot was in the data, and how upright the oracle's planner holds it.

Uprightness is the height of the tip above the axle in lengths of a link, in [-2, 2]; the task
succeeds near 2.
"""

from dataclasses import replace

import numpy as np

from pytest_cpg.contracts import Plans
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.planners import RandomShooting
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics, bind, collect_transitions

EPISODES, BINS = 10, 32
# Of the published planner.
PLANNED, STEPS = 5, 300


class OneAction(RandomShooting):
    """Random shooting that plans anew after every action."""

    def plan(self, world_model, latents, rngs, remaining):
        plans = super().plan(world_model, latents, rngs, remaining)
        return Plans(plans.actions, np.ones_like(plans.lengths))


def measure():
    task = TASKS["acrobot-swingup"]()
    starts = sample_starts(task, EPISODES, seed=0, fixed=True)
    anywhere = collect_transitions(task, count=2_000, seed=0).observations
    heights = {
        "random rollouts": upright(task, shaken(task, starts)),
        "random rollouts, random starts": upright(task, anywhere),
        "oracle planner": visited(task, starts, OneAction(ties="published"), PLANNED, STEPS),
        "oracle planner, whole plans": visited(
            task, starts, RandomShooting(ties="published"), EPISODES, task.budget
        ),
    }
    return {name: described(values) for name, values in heights.items()}


def shaken(task, starts):
    """Return what random actions lead to from the published start, 200 steps an episode."""
    rngs = [Stream.PLANNER.of(0, episode) for episode in range(EPISODES)]
    observations = task.observe(task.rollout(starts.states, task.actions.sample(rngs, (200,))))
    return observations.reshape(-1, task.observation_size)


def upright(task, observations):
    return -task.score(observations)


def visited(task, starts, planner, episodes, budget):
    """Return the uprightness after every step of a planner with the true dynamics."""
    oracle = bind(
        OracleDynamics(task),
        task,
        probe_states=starts.states[:2],
        probe_actions=task.actions.values[:2],
    )
    heights = []

    def look(episodes, actions):
        heights.append(upright(task, task.observe(run.states[episodes])))

    design = Design(task=replace(task, budget=budget), planner=planner, episodes=episodes, seed=0)
    run = ArmRun("oracle", design, oracle, starts, on_step=look)
    run.advance(episodes)
    return np.concatenate(heights)


def described(values):
    counts, _ = np.histogram(values, bins=BINS, range=(-2, 2))
    return {
        "observations": len(values),
        "mean": round(float(values.mean()), 3),
        "most": round(float(values.max()), 3),
        "above_1": round(float((values > 1).mean()), 3),
        "above_1.5": round(float((values > 1.5).mean()), 3),
        "histogram": (counts / len(values)).round(4).tolist(),
    }


def table(found, published):
    rows = ["| data | | observations | mean | most | above 1 | above 1.5 |", "|" + "---|" * 7]
    for name in found:
        pairs = (("ours", found[name]), ("published", published.get(name)))
        for whose, row in pairs:
            if row is None:
                continue
            shares = " | ".join(f"{100 * row[part]:.1f} %" for part in ("above_1", "above_1.5"))
            columns = [name, whose, str(row["observations"]), str(row["mean"]), str(row["most"])]
            rows.append(f"| {' | '.join(columns)} | {shares} |")
    return "\n".join(rows) + "\n"
