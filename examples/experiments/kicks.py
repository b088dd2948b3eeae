"""Kicks: models of a reacher, left alone, once it is pushed, and under noise; skipped actions.

Two networks are trained alike on 20 000 random transitions: of episodes of 200 steps, which reach
high speeds, and of 10 steps, which hardly leave their rest. Once in an episode the simulator's
state is pushed by normal noise, or there is noise in all that is observed. Of acrobot the true
dynamics alone are run, with actions that are skipped as published: 44, 45 and 41 of 50 were, for
none, one and five.
"""

import pytest_cpg
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import collect_transitions, train_mlp

EPISODES, SEEDS = 50, (0, 1, 2)
DATA = {"long episodes": 200, "short episodes": 10}
KICKS = ("none", "kick-3", "kick-8", "observation-noise-0.1")
SKIPPED = ("skip-next-0", "skip-next-1", "skip-next-5")


def measure():
    """Return a row for each model, training seed and kick, and for the skipped actions."""
    rows = []
    for seed in SEEDS:
        for data, steps in DATA.items():
            transitions = collect_transitions(
                TASKS["reacher-easy"](),
                count=20_000,
                seed=seed,
                episode_steps=steps,
                policy="held-3",
            )
            model = train_mlp(transitions, seed=seed, epochs=40)
            for kick in KICKS:
                found = pytest_cpg.evaluate(
                    "reacher-easy",
                    model,
                    planner=RandomShooting(candidates=30, horizon=10),
                    budget=300,
                    episodes=EPISODES,
                    # Not those on which the kicks were chosen.
                    seed=100 + seed,
                    perturbation=kick,
                    diagnose="never",
                    cache=None,
                    progress=False,
                )
                rows.append(row(found, data=data, perturbation=kick, seed=seed))
    for name in SKIPPED:
        found = pytest_cpg.evaluate(
            "acrobot-swingup",
            "oracle",
            planner=CEM(ties="published"),
            starts="fixed",
            episodes=EPISODES,
            perturbation=name,
            diagnose="never",
            cache=None,
            progress=False,
        )
        rows.append(row(found, data="oracle", perturbation=name, seed=0))
    return rows


def row(found, **named):
    arms = {arm.name: arm.success_count for arm in found.result.arms}
    return {**named, **arms, "verdict": str(found.verdict)}


def table(found, _published):
    rows = [
        "| trained on | perturbation | oracle | learned | chance | gap | verdicts |",
        "|" + "---|" * 7,
    ]
    keys = dict.fromkeys((row["data"], row["perturbation"]) for row in found)
    for data, perturbation in keys:
        group = [row for row in found if (row["data"], row["perturbation"]) == (data, perturbation)]
        n = EPISODES * len(group)
        oracle, learned, chance = (
            sum(row[arm] for row in group) for arm in ("oracle", "learned", "chance")
        )
        counts = [f"{count}/{n}" for count in (oracle, learned, chance)]
        gap = agresti_caffo_interval(oracle, n, learned, n)
        text = f"{gap.estimate:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"
        verdicts = ", ".join(row["verdict"] for row in group)
        if data == "oracle":
            counts[1], text, verdicts = "", "", ""
        cells = (data, perturbation, *counts, text, verdicts)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"
