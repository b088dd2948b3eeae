"""A TD-MPC2 trained offline, and an MLP on data of its policy, as the learned arm."""

import pytest

from pytest_cpg.planners import CEM, RandomShooting

PLANNERS = {
    "random-shooting": RandomShooting(ties="published"),
    "cem": CEM(ties="published"),
}
# Task, starts, size of the model, planner, episodes per arm and seeds, as published.
CELLS = [
    ("cartpole-swingup", "fixed", 1, "random-shooting", 30, 1),
    ("cartpole-swingup", "fixed", 1, "cem", 30, 1),
    ("cartpole-swingup", "fixed", 5, "random-shooting", 30, 1),
    ("cartpole-swingup", "fixed", 5, "cem", 30, 1),
    ("acrobot-swingup", "fixed", 1, "random-shooting", 10, 1),
    ("acrobot-swingup", "fixed", 1, "cem", 50, 3),
    ("reacher-easy", "fixed", 1, "random-shooting", 30, 1),
    ("reacher-easy", "fixed", 1, "cem", 30, 1),
    ("cartpole-swingup", "sampled", 1, "random-shooting", 30, 1),
    ("cartpole-swingup", "sampled", 1, "cem", 30, 1),
    ("cartpole-swingup", "sampled", 5, "random-shooting", 30, 1),
    ("cartpole-swingup", "sampled", 5, "cem", 30, 1),
    ("acrobot-swingup", "sampled", 1, "random-shooting", 10, 1),
    ("acrobot-swingup", "sampled", 1, "cem", 50, 3),
    ("reacher-easy", "sampled", 1, "random-shooting", 30, 1),
    ("reacher-easy", "sampled", 1, "cem", 30, 1),
]
# Rated by their own rewards and values, too.
REWARDED = {
    "cartpole-swingup-fixed-size-1-cem",
    "cartpole-swingup-fixed-size-5-cem",
    "cartpole-swingup-fixed-size-5-random-shooting",
    "acrobot-swingup-fixed-size-1-cem",
}
# As published, re-encoded after each imagined step, beside latents that are carried on.
RE_ENCODED = {
    "cartpole-swingup-fixed-size-1-random-shooting",
    "cartpole-swingup-fixed-size-1-cem",
    "reacher-easy-fixed-size-1-random-shooting",
    "reacher-easy-fixed-size-1-cem",
}


def gates():
    for task, starts, size, planner, episodes, seeds in CELLS:
        cell = f"{task}-{starts}-size-{size}-{planner}"
        kinds = ["policy-data", "tdmpc2"]
        kinds += ["re-encoded"] * (cell in RE_ENCODED) + ["rewards"] * (cell in REWARDED)
        for learned in kinds:
            for seed in range(seeds):
                marker = pytest.mark.cpg(
                    task=task,
                    starts=starts,
                    planner=PLANNERS[planner],
                    episodes=episodes,
                    seed=seed,
                )
                end = f"-seed-{seed}" if seeds > 1 else ""
                yield pytest.param(size, learned, seed, marks=marker, id=f"{cell}-{learned}{end}")


@pytest.mark.parametrize(("size", "learned", "training_seed"), list(gates()))
@pytest.mark.cpg(max_verdict="MODEL BOTTLENECK")
def test_latent(cpg, size, learned, training_seed):
    """One gate for each published cell, model and seed."""
