"""Scoring plans: 10 000 of acrobot-swingup, 15 steps long, among 64 neighbours each."""

from __future__ import annotations

import numpy as np

from benchmarks.arms import bare_rollout
from benchmarks.row import Row, cpu_seconds
from pytest_cpg.contracts import FloatArray
from pytest_cpg.episodes.decisions import Decision, Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import bound_as_truth, bound_to_starts, starts_of
from pytest_cpg.gates.plan_quality.scoring import standing_of
from pytest_cpg.planners import CEM
from pytest_cpg.tasks.control.task import control_task
from pytest_cpg.world_models import (
    BoundModel,
    OracleDynamics,
    collect_transitions,
    inference,
    train_mlp,
)

PLANS, EPISODES, NEIGHBOURS, HORIZON = 10_000, 50, 64, 15
STEPS = PLANS * (NEIGHBOURS + 1) * HORIZON
# Of the true dynamics, which are as many times slower.
SHARE = 10

_TASK = control_task("acrobot-swingup", budget=500)
_DESIGN = Design(task=_TASK, planner=CEM(horizon=HORIZON), episodes=EPISODES, seed=0)


def _asked(count: int, model: BoundModel) -> tuple[Decisions, FloatArray]:
    """Return so many decisions at the starts, and a random plan for each."""
    each = count // EPISODES
    states = np.repeat(starts_of(_DESIGN).states, each, axis=0)
    decisions = Decisions(
        rows=tuple(Decision(row // each, 0, row % each) for row in range(count)),
        states=states,
        latents=model.encode(states),
    )
    return decisions, _TASK.actions.sample([np.random.default_rng(0)], (count, HORIZON))[0]


def _seconds(arm: str, model: BoundModel, count: int) -> float:
    decisions, plans = _asked(count, model)
    return cpu_seconds(
        lambda: standing_of(
            _DESIGN, arm, model, decisions, plans, plans, k=NEIGHBOURS, search="random"
        )
    )


def learned() -> Row:
    """Score all plans in an MLP."""
    model = train_mlp(collect_transitions(_TASK, count=2000, seed=0), seed=0)
    with inference(model):
        bound = bound_to_starts(model, _DESIGN, starts_of(_DESIGN))
        _seconds("learned", bound, PLANS // SHARE)
        seconds = _seconds("learned", bound, PLANS)
    return Row(
        what="10 000 plans, 64 neighbours, acrobot's MLP, CPU",
        ours=f"{seconds:.1f} s",
        other=f"{STEPS / 1e6:.1f} M steps",
        result=f"{STEPS / seconds / 1e6:.1f} M/s",
        bar="<= 10 s",
    )


def oracle() -> Row:
    """Compare a step of the scored plans in the true dynamics with one of mujoco.rollout alone."""
    bound = bound_as_truth(OracleDynamics(_TASK), _DESIGN, starts_of(_DESIGN))
    steps, ours, bare = STEPS / SHARE, [], []
    _seconds("oracle", bound, EPISODES)
    for _ in range(3):
        bare.append(bare_rollout(_TASK, 10))
        ours.append(_seconds("oracle", bound, PLANS // SHARE) / steps)
    return Row(
        what="a step of plans scored in truth, acrobot, CPU",
        ours=f"{1e6 * np.median(ours):.2f} us",
        other=f"mujoco.rollout {1e6 * np.median(bare):.2f} us",
        result=f"{np.median(ours) / np.median(bare):.2f} x",
        bar="<= 1.25 x",
    )
