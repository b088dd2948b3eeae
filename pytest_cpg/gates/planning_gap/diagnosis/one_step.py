"""One step: how far a model is off, where plans lead and where it was trained, and by what."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.contracts.streams import Purpose
from pytest_cpg.contracts.task import observed
from pytest_cpg.episodes.decisions import Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.diagnosis import losses
from pytest_cpg.gates.planning_gap.diagnosis.conventions import vector
from pytest_cpg.gates.planning_gap.diagnosis.evidence import OneStep, Term, TrainingStates
from pytest_cpg.gates.planning_gap.diagnosis.measures import CONTRAST
from pytest_cpg.gates.planning_gap.diagnosis.true_steps import (
    AskedModel,
    actions_to_try,
    asked_model,
    centred,
    observed_after,
    rows_of_numbers,
)
from pytest_cpg.stats.returns import fieller_interval
from pytest_cpg.world_models import BoundModel, Transitions

# States that a term is fitted on and checked in, at least.
_FEWEST = 16
# Of an error: a term that leaves more of it removes less than half of its square. Networks that
# learned too little leave more, a wrong constant less: tests/calibration/test_network_ladder.py.
MOST_LEFT = 0.65
# A linear function of the state has numbers enough to be a part of what was not learned.
_MOST_OF_MANY = 0.5
# A term of more numbers has to leave so much less.
_BETTER = 0.8
# Of a time step.
_SLOWEST = 0.1
# What is left less is gone.
_EXACT = 1e-3
# Of the true effect of an action: less comes later, or never.
_MOST_BLIND = 0.1
# Transitions beside a true step whose errors are drawn together.
_NEIGHBOURS = 5
# Of what a column varies by: what changes less in a step than this is constant.
_STILL = 1e-6


class Steps(NamedTuple):
    """True steps, and what a model answers.

    From observations ``begun`` [N, O], ``actions`` [N, J, A] lead to ``after`` [N, J, O], and by
    the model to ``answers``; ``idle`` [N, O] is what it answers to the idle action.
    """

    begun: FloatArray
    actions: FloatArray
    after: FloatArray
    answers: FloatArray
    idle: FloatArray

    @property
    def unit(self) -> FloatArray:
        """The unit of each column [O]: what a step changes; infinite where nothing does."""
        change = np.sqrt(((self.after - self.begun[:, None]) ** 2).mean(axis=(0, 1)))
        return np.where(change > _STILL * (1e-9 + self.begun.std(axis=0)), change, np.inf)

    def take(self, rows: IntArray) -> Steps:
        """Return those of some states."""
        return Steps(*(part[rows] for part in self))


def one_step_of(
    design: Design, learned: BoundModel, decisions: Decisions, *, trained: TrainingStates | str
) -> OneStep | None:
    """Return how far the model is off one step after these decisions.

    None where its answers cannot be compared with observations. ``trained`` is as of `evidence_of`.
    """
    lead, rows, model = _steps_of(design, learned, decisions)
    if model is None or len(rows) < _FEWEST or not np.isfinite(lead.unit).any():
        return None
    episodes, errors = decisions.episodes[rows], _errors(lead.answers, lead.after, lead.unit)
    transitions = None if isinstance(trained, str) else trained.transitions
    wide = lead
    if learned.update is None:
        beside, *_ = _steps_of(design, learned, _wandered(design, learned, decisions))
        wide = Steps(*(np.concatenate(parts) for parts in zip(lead, beside, strict=True)))
    if not isinstance(trained, str):
        # Outside of its data a network is wrong in any way.
        inside = np.flatnonzero(trained.distances(wide.begun) <= 1)
        wide = wide.take(inside) if len(inside) >= 2 * _FEWEST else wide
    learnt = ratio = None
    lacks_transitions = transitions is None and model.takes_observations
    if transitions is not None and model.takes_observations:
        near = losses.per_episode(_errors_beside(model, lead, transitions), episodes)
        learnt = losses.over_episodes(near)
        if learnt is not None and learnt.low > 0:
            ratio = fieller_interval(losses.per_episode(errors, episodes), near, level=losses.LEVEL)
    return OneStep(
        error=losses.over_episodes(losses.per_episode(errors, episodes)),
        trained=learnt,
        ratio=ratio,
        term=term_of(wide),
        right=right_share(lead, design.task.actions.idle),
        lacks_transitions=lacks_transitions,
    )


def _steps_of(
    design: Design, learned: BoundModel, decisions: Decisions
) -> tuple[Steps, IntArray, AskedModel | None]:
    """Return steps where all are numbers, which decisions they are from, and the model asked."""
    task, states = design.task, decisions.states
    begun = np.asarray(observed(task, states), dtype=np.float64)
    actions = actions_to_try(task, decisions.streams(design.seed, Purpose.ACTIONS))
    after, model = (
        observed_after(task, states, actions),
        asked_model(learned, decisions.latents, begun),
    )
    answers, idle = np.full_like(after, np.nan), np.full_like(begun, np.nan)
    if model is not None:
        count, tried = actions.shape[:2]
        plans, still = (
            actions.reshape(count * tried, 1, -1),
            np.tile(task.actions.idle, (count, 1, 1)),
        )
        answers[:] = model.answers(np.repeat(np.arange(count), tried), plans).reshape(after.shape)
        idle[:] = model.answers(np.arange(count), still)[:, 0]
    steps = Steps(begun, actions, after, answers, idle)
    rows = rows_of_numbers(*steps)
    return steps.take(rows), rows, model


def _wandered(design: Design, learned: BoundModel, decisions: Decisions) -> Decisions:
    """Return decisions in the states that random plans lead to, each after a step of its own."""
    streams = decisions.streams(design.seed, Purpose.PLANS)
    horizon = design.planner.horizon
    plans = design.task.actions.sample(streams, (horizon,))
    reached = design.task.rollout(decisions.states, plans)
    states = reached[np.arange(len(plans)), np.arange(len(plans)) % horizon]
    # What diverged is not asked about.
    is_known = np.asarray(np.isfinite(states).all(axis=1))
    states = np.ascontiguousarray(np.where(is_known[:, None], states, decisions.states))
    return replace(decisions, states=states, latents=learned.encode(states))


def _errors(predicted: FloatArray, true: FloatArray, unit: FloatArray) -> FloatArray:
    """Return how far predictions [..., O] are off in these units [O]: [...]."""
    counts = np.isfinite(unit)
    off = (predicted - true)[..., counts] / unit[counts]
    return np.asarray(np.sqrt((off**2).mean(axis=-1)))


def right_share(steps: Steps, idle: FloatArray) -> float:
    """Return the share of steps that are right, of those in which anything is done and happens.

    A network is nowhere that right; a model without walls is, where there are none. Actions that
    are right everywhere do not count.
    """
    begun, errors = steps.begun[:, None], _errors(steps.answers, steps.after, steps.unit)
    happens = ((steps.after != begun) | (steps.answers != begun)).any(axis=-1)
    counts = happens & (steps.actions != idle).any(axis=-1)
    right = counts & (errors < losses.WINDOW_ERROR / CONTRAST)
    mixed = right.sum(axis=0) < counts.sum(axis=0)
    return float(right[:, mixed].sum() / counts[:, mixed].sum()) if mixed.any() else 0.0


def _errors_beside(model: AskedModel, steps: Steps, transitions: Transitions) -> FloatArray:
    """Return the mean error of the transitions nearest to each true step, [N, J]."""
    from scipy.spatial import cKDTree

    answers = model.answers(
        np.zeros(len(transitions), dtype=np.intp),
        transitions.actions[:, None],
        transitions.observations,
    )[:, 0]
    errors = _errors(answers, transitions.next_observations, steps.unit)
    inputs = np.column_stack([transitions.observations, transitions.actions])
    begun = np.broadcast_to(steps.begun[:, None], steps.after.shape)
    wanted = np.concatenate([begun, steps.actions], axis=-1)
    deviations = inputs.std(axis=0)
    scale = np.where(deviations > 0, deviations, 1.0)
    nearest: IntArray = cKDTree(inputs / scale).query(wanted / scale, k=_NEIGHBOURS)[1]
    return np.asarray(errors[nearest].mean(axis=-1))


def term_of(steps: Steps) -> Term | None:
    """Return the simplest term that removes most of what a model's answers are off by."""
    simplest = None
    for term in terms_of(steps):
        least = math.inf if simplest is None else _BETTER * max(simplest.left, _EXACT)
        most = _MOST_OF_MANY if term.name == "DAMPING" else MOST_LEFT
        if term.left <= most and max(term.left, _EXACT) < least:
            simplest = term
    return simplest


def terms_of(steps: Steps) -> list[Term]:
    """Return what terms leave of an error, those of the fewest numbers first.

    They are fitted by least squares in the states of one side and checked in those of the other.
    """
    begun = np.broadcast_to(steps.begun[:, None], steps.after.shape)
    ones, unit = np.ones((*begun.shape[:2], 1)), steps.unit
    state, pushes = (np.concatenate([part, ones], axis=-1) for part in (begun, steps.actions))
    effect, change = steps.answers - steps.idle[:, None], steps.answers - begun
    missing = steps.after - steps.answers
    halves = _halves(steps.begun)

    def factor(of: FloatArray, rows: IntArray | slice = slice(None)) -> FloatArray:
        x, y = of[rows] / unit, missing[rows] / unit
        power = float((x * x).sum())
        return np.array((x * y).sum() / power if power > 0 else 0.0)

    def weights(of: FloatArray, rows: IntArray | slice = slice(None)) -> FloatArray:
        x, y = (part[rows].reshape(-1, part.shape[2]) for part in (of, missing))
        return np.asarray(np.linalg.lstsq(x, y, rcond=None)[0])

    def left(of: FloatArray, fit: Callable[..., FloatArray]) -> float:
        apply = np.matmul if fit is weights else np.multiply
        swapped = (halves, halves[::-1])
        off = [missing[rows] - apply(of[rows], fit(of, fitted)) for fitted, rows in swapped]
        before, after = (
            np.square(part / unit).mean(axis=(0, 1)) for part in (missing, np.concatenate(off))
        )
        # A column that no score reads may be nonsense, and counts as one that stands still.
        is_off = before > 0
        counts = np.minimum(before, 1.0)[is_off]
        lefts = after[is_off] / before[is_off]
        return math.sqrt(np.average(lefts, weights=counts)) if is_off.any() else 1.0

    # The weight of the state that moves an answer most.
    linear = weights(state)[:-1]
    moved = np.abs(linear) * steps.begun.std(axis=0)[:, None] / unit
    source, column = np.unravel_index(int(np.argmax(moved)), moved.shape)
    strongest = f"{linear[source, column]:+.2g} * o[:, {source}] in column {column}"
    offset = weights(ones)[0]
    offset = np.where(np.abs(offset) > _EXACT * unit, offset, 0.0)
    terms = [
        Term(
            name="OFFSET",
            claim=f"`model(o, a) + {vector(offset)}`",
            advice="constant forces, the bias of a sensor and means of the normalisation",
            left=left(ones, weights),
        ),
        Term(
            name="GAIN",
            claim=f"the effect of actions times {1 + factor(effect):.2g}",
            advice="masses, the units of actions and how strongly they act",
            left=left(effect, factor),
        ),
        Term(
            name="TIME STEP",
            claim=f"every change times {1 + factor(change):.2g}",
            advice="the time step and the normalisation of changes",
            # A world that stands still is none with another time step.
            left=left(change, factor) if 1 + factor(change) > _SLOWEST else 1.0,
        ),
        Term(
            name="DAMPING",
            claim=f"a linear function of o (most: {strongest})",
            advice="friction, drag, springs and gravity",
            left=left(state, weights),
        ),
    ]
    effects = [np.abs(centred(part) / unit).mean() for part in (steps.answers, steps.after)]
    if effects[0] < _MOST_BLIND * effects[1]:
        terms.append(
            Term(
                name="DELAY",
                claim="an effect of the action in the same step",
                advice="the delay of actions, and which action stands beside which observation",
                left=left(pushes, weights),
            )
        )
    return terms


def _halves(begun: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the states of observations [N, O] on one side and on the other, along their length."""
    deviation = begun.std(axis=0)
    scaled = (begun - begun.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    order = np.argsort(scaled @ np.linalg.svd(scaled, full_matrices=False)[2][0], kind="stable")
    return order[: len(order) // 2], order[len(order) // 2 :]
