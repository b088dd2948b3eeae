"""Probing: what is asked of a model before and after its arm, on a few states of its gate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    ComponentError,
    FiniteActions,
    FloatArray,
    IncompleteError,
    IntArray,
    Plans,
    Task,
    WorldModelError,
)
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.decisions import evenly
from pytest_cpg.episodes.design import Design, Starts, sample_starts
from pytest_cpg.episodes.stage import Progress
from pytest_cpg.planners.search import reads_steps
from pytest_cpg.world_models import BoundModel, bind
from pytest_cpg.world_models.binding.rating import NO_STEPS

# States at which a model is checked before it is trusted.
_PROBES = 8
# Distinct actions that a model must tell apart, and for how many steps they are held.
_ACTIONS, _HELD = 4, 3
# For the digest of a model: starts beside the probe, plans from each, and steps of a plan.
_ASKED, _PLANS, _AHEAD = 24, 4, 4


def starts_of(design: Design) -> Starts:
    """Return the starts of the longest arm."""
    return sample_starts(
        design.task, design.episodes, seed=design.seed, fixed=design.starts == "fixed"
    )


def bound_to_starts(model: Any, design: Design, starts: Starts) -> BoundModel:
    """Return a model as an arm uses it, checked on states near the starts."""
    task, planner = design.task, design.planner
    states, actions = probe_of(task, starts, design.seed)
    bound = bind(model, task, probe_states=states, probe_actions=actions)
    # Said now, and not after the oracle arm has run.
    is_planned = not bound.rates_steps and bound.planner is None
    if is_planned and reads_steps(planner, task.actions, budget=int(task.budget)):
        raise ComponentError(f"planner {planner.name!r}: {NO_STEPS}")
    return bound


def bound_as_truth(model: Any, design: Design, starts: Starts) -> BoundModel:
    """Return a model that stands for the truth: the gate's planner plans, whatever it brings."""
    return replace(bound_to_starts(model, design, starts), planner=None)


def bound_arms(
    design: Design, *, oracle: Any, learned: Any
) -> tuple[Starts, dict[str, BoundModel]]:
    """Return the starts of a design, and its models by their arms' names as they are used there."""
    starts = starts_of(design)
    return starts, {
        "oracle": bound_as_truth(oracle, design, starts),
        "learned": bound_to_starts(learned, design, starts),
    }


def probe_of(task: Task, starts: Starts, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return states [P, S] a few random steps from the starts, and an action [P, A] for each."""
    rngs = [Stream.PROBE.of(seed, row) for row in range(_PROBES)]
    states = starts.states[np.arange(_PROBES) % len(starts.states)]
    actions = task.actions.sample(rngs, (3,))
    for step in range(2):
        states = np.asarray(task.step(states, actions[:, step]))
    return states, actions[:, 2]


def imagined(model: BoundModel, probe: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return what a model imagines one step ahead of the probe."""
    states, actions = probe
    return model.rollout(model.encode(states), actions[:, None])


def answers_digest(model: BoundModel, design: Design, starts: Starts) -> str:
    """Return 64 hexadecimal digits of the bits that a model answers where its gate begins.

    It is asked as planners ask: for latents, for plans of the whole horizon and for their rating,
    for what a memory becomes and what a policy does. What it raises is an answer, too.
    """
    states, _ = probe_of(design.task, starts, design.seed)
    states = np.concatenate([states, evenly(starts.states, _ASKED)])
    rngs = [Stream.PROBE.of(design.seed, _PROBES + row) for row in range(len(states))]
    size = (_PLANS, int(design.planner.horizon))
    plans = design.task.actions.sample(rngs, size)
    noise = np.stack([rng.standard_normal((*size, model.noise_size)) for rng in rngs])
    digest = hashlib.sha256()
    try:
        for answer in _answers(model, states, plans, noise):
            digest.update(np.ascontiguousarray(answer).tobytes())
    except IncompleteError:
        raise
    # A user's model may raise anything.
    except Exception as error:
        digest.update(f"{type(error).__name__}: {error}".encode())
    return digest.hexdigest()


def _answers(
    model: BoundModel, states: FloatArray, plans: FloatArray, noise: FloatArray
) -> Iterator[FloatArray]:
    """Yield what a model answers of states [P, S] and plans [P, K, H, A] from each, with noise."""
    is_noisy = model.noise_size > 0
    yield (latents := model.encode(states))
    begun, count = np.repeat(latents, _PLANS, axis=0), len(states) * _PLANS
    flat = plans.reshape(count, *plans.shape[2:])[:, :_AHEAD]
    drawn = noise.reshape(count, *noise.shape[2:])[:, :_AHEAD]
    yield (ahead := model.rollout(begun, flat, drawn if is_noisy else None))
    if model.rates_steps:
        yield model.score(ahead)
    if model.has_own_cost:
        # In the shape that it was built for.
        lengths = np.full(len(states), plans.shape[2])
        yield model.plan_costs(latents, plans, lengths, noise if is_noisy else None)
    if model.update is not None:
        yield model.update(latents, plans[:, 0, 0], states)
    if model.policy_plans is not None:
        yield model.policy_plans(begun, np.zeros(flat.shape))


def check_unchanged(who: str, before: FloatArray, after: FloatArray) -> None:
    """Raise WorldModelError for a model that answers a probe otherwise than before its arm."""
    if not np.array_equal(before, after, equal_nan=True):
        raise WorldModelError(
            f"{who} answers otherwise than before its arm was run, so no verdict on it could be "
            f"repeated. Keep no state between calls."
        )


@contextmanager
def unchanged(who: str, model: BoundModel, design: Design, starts: Starts) -> Iterator[None]:
    """Raise WorldModelError for a model that answers a probe otherwise once its arm has run."""
    probe = probe_of(design.task, starts, design.seed)
    before = imagined(model, probe)
    yield
    check_unchanged(who, before, imagined(model, probe))


def ignores_action(
    model: BoundModel, design: Design, starts: Starts, arm: Arm, *, progress: Progress | None = None
) -> bool:
    """Say whether a model predicts the same for different actions wherever its own arm plans.

    It is asked at some starts first. What tells no actions apart there may know other places:
    episodes of its arm are run again, solved ones first, until it does.
    """
    responses = Responses(model, design.task)
    states = evenly(starts.states, _PROBES)
    if responses.differ(states, model.encode(states)):
        return False
    again = starts.take(np.sort(np.argsort(~arm.successes, kind="stable")[:_PROBES]))

    def look(episodes: IntArray, _: Plans) -> None:
        rows = np.searchsorted(again.episodes, episodes)
        if responses.differ(run.states[rows], run.latents[rows]):
            raise _ToldApartError

    run = ArmRun(arm.name, design, model, again, progress=progress, on_plan=look)
    with suppress(_ToldApartError):
        run.advance(len(again.episodes))
        return responses.differ_truly
    return False


def faults_of(model: BoundModel) -> list[str]:
    """Return what is wrong with a model itself: its gate fails whatever its verdict."""
    if not model.ignores_action:
        return []
    return [
        "the learned dynamics ignores the action: different actions from the same states gave "
        "identical predictions, so every plan looks the same to the planner"
    ]


class _ToldApartError(Exception):
    """A model has told two actions apart."""


class Responses:
    """Asks a model and its task whether different actions lead to different states."""

    def __init__(self, model: BoundModel, task: Task) -> None:
        self._model, self._task = model, task
        self.differ_truly = False

    def differ(self, states: FloatArray, latents: FloatArray) -> bool:
        """Say whether they do in the model, at any of these states [M, S], its latents [M, Z]."""
        choices = _choices(self._task.actions)
        plans = np.tile(choices, (len(states), 1))[:, None].repeat(_HELD, axis=1)

        def are_apart(after: FloatArray) -> bool:
            groups = after.reshape(len(states), len(choices), -1)
            return not bool((groups == groups[:, :1]).all())

        if are_apart(self._model.rollout(np.repeat(latents, len(choices), axis=0), plans)):
            return True
        if not self.differ_truly:
            true = self._task.rollout(np.repeat(states, len(choices), axis=0), plans)
            self.differ_truly = are_apart(self._task.observe(true))
        return False


def _choices(actions: ActionSpace) -> FloatArray:
    """Return a few distinct actions [M, A], the extremes among them."""
    if isinstance(actions, FiniteActions):
        return evenly(actions.values, _ACTIONS)
    return np.stack([actions.low, (actions.low + actions.high) / 2, actions.high])
