"""Replay: a few episodes of a gate run again in both arms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pytest_cpg.contracts import CpgError, FloatArray, IntArray, Plans, Task
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.episodes.probe import bound_as_truth, bound_to_starts, starts_of, unchanged
from pytest_cpg.episodes.stage import ArmProgress
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.episodes.traces import ArmTraces, EpisodeTrace, Replay, has_own_score
from pytest_cpg.world_models import BoundModel, OracleDynamics, inference


def replay(
    design: Design,
    *,
    oracle: Any,
    learned: Any,
    episodes: Sequence[int],
    progress: ArmProgress | None = None,
) -> Replay:
    """Run the oracle and learned arms on some episodes of a gate, as `measure_gap` did.

    Raises CpgError when there are no episodes, or one that the gate does not have, and
    WorldModelError when a model breaks its contract; what a model raises itself goes on unchanged.
    """
    with inference(oracle, learned):
        starts = starts_of(design)
        models = {
            "oracle": bound_as_truth(oracle, design, starts),
            "learned": bound_to_starts(learned, design, starts),
        }
        rows = _rows(episodes, starts)
        with unchanged("the learned model", models["learned"], design, starts):
            arms = {
                name: _arm_traces(name, design, models[name], starts.take(rows), progress)
                for name in ("oracle", "learned")
            }
    pairs = zip(arms["oracle"], arms["learned"], strict=True)
    return Replay(
        design=design.record,
        seed=int(design.seed),
        swapped=models["learned"].swapped,
        traces={int(row): ArmTraces(*pair) for row, pair in zip(rows, pairs, strict=True)},
    )


class _Notes:
    """What an arm was seen to do in one episode so far."""

    def __init__(self, start: FloatArray) -> None:
        self.states = [start]
        self.actions: list[FloatArray] = []
        self.at: list[int] = []
        self.plans: list[FloatArray] = []
        self.lengths: list[int] = []
        self.latents: list[FloatArray] = []


def _rows(episodes: Sequence[int], starts: Starts) -> IntArray:
    """Return the episodes' rows, rising, each once."""
    if not len(episodes):
        raise CpgError("a replay needs at least one episode, got none.")
    rows = np.unique(episodes)
    for row in rows[(rows < 0) | (rows >= len(starts.episodes))]:
        raise CpgError(
            f"the gate has no episode {row}: it has {len(starts.episodes)}, from 0 on. Run it with "
            f"the episodes that it had."
        )
    return rows


def _arm_traces(
    name: str, design: Design, model: BoundModel, starts: Starts, progress: ArmProgress | None
) -> list[EpisodeTrace]:
    """Run one arm on all of these starts."""
    notes = [_Notes(state) for state in starts.states]
    rows = {int(episode): row for row, episode in enumerate(starts.episodes)}

    def note_plans(episodes: IntArray, plans: Plans) -> None:
        latents = run.latents
        for episode, plan, length in zip(episodes, plans.actions, plans.lengths, strict=True):
            row = rows[int(episode)]
            note = notes[row]
            note.latents.append(latents[row])
            note.at.append(len(note.actions))
            # A planner may write to it again.
            note.plans.append(plan.copy())
            note.lengths.append(int(length))

    def note_step(episodes: IntArray, actions: FloatArray) -> None:
        states = run.states
        for episode, action in zip(episodes, actions, strict=True):
            row = rows[int(episode)]
            notes[row].actions.append(action)
            notes[row].states.append(states[row])

    run = ArmRun(
        name,
        design,
        model,
        starts,
        progress=progress and partial(progress, name),
        on_step=note_step,
        on_plan=note_plans,
    )
    arm = run.advance(len(notes))
    imagination = Imagination(name, design.task.actions, model)
    return [
        _trace(note, int(episode), design.task, model, imagination, (bool(success), int(steps)))
        for note, episode, success, steps in zip(
            notes, starts.episodes, arm.successes, arm.steps, strict=True
        )
    ]


def _trace(
    notes: _Notes,
    episode: int,
    task: Task,
    model: BoundModel,
    imagination: Imagination,
    outcome: tuple[bool, int],
) -> EpisodeTrace:
    """Return an episode's trace; all its plans are rated in one batch."""
    states, at, plans = np.stack(notes.states), np.array(notes.at), np.stack(notes.plans)
    # Whatever breaks is told with this episode and the step of its round.
    imagination.plans_for(np.full(len(at), episode), at)
    begun = states[at]
    latents = np.stack(notes.latents)
    if model.rates_steps:
        predicted = imagination.score(imagination.rollout(latents, plans))
    else:
        # The cost of the whole plan, at each of its steps.
        lengths = np.minimum(plans.shape[1], int(task.budget) - at)
        costs = imagination.plan_costs(latents, plans[:, None], lengths)
        predicted = np.repeat(costs, plans.shape[1], axis=1)
    within = np.arange(plans.shape[1]) < (int(task.budget) - at)[:, None]
    truth = OracleDynamics(task)
    reached = truth.rollout(begun, plans)
    actual = truth.score(reached)
    if model.rescored is not None and has_own_score(model.swapped):
        rescored = Imagination("rescored", task.actions, model.rescored)
        rescored.plans_for(np.full(len(at), episode), at)
        actual = rescored.score(rescored.rollout(np.concatenate([begun, latents], axis=1), plans))
    success, steps = outcome
    return EpisodeTrace(
        success=success,
        steps=steps,
        states=states,
        actions=np.stack(notes.actions),
        scores=truth.score(states),
        at=at,
        plans=plans,
        # The episode may have been over before its last plan was.
        lengths=np.minimum(notes.lengths, len(notes.actions) - at),
        promised=np.where(within, predicted, np.inf).argmin(axis=1) + 1,
        predicted=predicted,
        actual=actual,
    )
