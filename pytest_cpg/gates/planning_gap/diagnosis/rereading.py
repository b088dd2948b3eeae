"""Rereading: true steps from places where a gate decided, and what its model answers there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pytest_cpg.contracts import (
    BoxActions,
    FiniteActions,
    FloatArray,
    IncompleteError,
    IntArray,
    Task,
)
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Purpose
from pytest_cpg.contracts.task import StateScore
from pytest_cpg.episodes.decisions import Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.cause import Misreading
from pytest_cpg.gates.planning_gap.diagnosis.coverage import TrainingStates
from pytest_cpg.gates.planning_gap.diagnosis.losses import LEAST_REGRET
from pytest_cpg.gates.planning_gap.diagnosis.misreadings import (
    BETTER,
    EXACT,
    faint_reading_of,
    reading_of,
    worded,
)
from pytest_cpg.gates.planning_gap.diagnosis.true_steps import Asked, Reading, Step, TrueSteps
from pytest_cpg.planners.objective import objective_of, rate
from pytest_cpg.world_models import BoundModel

# Decisions whose states are asked about: half of them check what is found on the others.
_STATES = 64
# Of a few states some convention fits noise by chance: tests/gates/test_misreadings.py.
_FEWEST = 16
# Random actions in each; of a finite set all, if they are not more than these.
_ACTIONS, _MOST_ACTIONS = 4, 16
# A step of a model may be so many of the task, or the other way round.
_HELD = 10
# Random plans of each state that are chosen from.
_PLANS = 16
# With a reading that leaves more of what choices lose, it is not what they lose by. One that fits
# less clearly has to leave as little as the second.
_MOST_LEFT, _MOST_LEFT_BY_CHOICE = 0.75, 0.25


class _Choices(NamedTuple):
    """What choices among random plans lose, by what a model predicts as it is and read otherwise.

    Attributes
    ----------
    as_is, read : float
        Of what a random plan loses; None for the latter where nothing makes the step another.
    mends_score : bool
        The score of a single step is off as it is, and many times less when read otherwise.
    """

    as_is: float
    read: float | None
    mends_score: bool

    @property
    def lose(self) -> bool:
        """Whether as it is enough is lost to matter."""
        return self.as_is > LEAST_REGRET

    def are_mended(self, most_left: float) -> bool:
        """Say whether choices lose, and by a reading that leaves so much of it lose no more."""
        return self.lose and (self.read is None or self.read <= most_left * self.as_is)


def misread(
    design: Design,
    learned: BoundModel,
    decisions: Decisions,
    *,
    trained: TrainingStates | str,
) -> Misreading | None:
    """Return how the learned model is misread at some of these decisions, if it is.

    None also where its choices are shown to be no better for it, its answers cannot be compared
    with observations, or the decisions are too few to tell by. ``trained`` is as of `evidence_of`.
    """
    # Of answers to what a model was never meant to be asked.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _misread(design, learned, decisions, trained)


def _misread(
    design: Design, learned: BoundModel, decisions: Decisions, trained: TrainingStates | str
) -> Misreading | None:
    places = _evenly(decisions, np.arange(len(decisions.rows)))
    decisions = _within(trained, design.task, decisions)
    steps, known = _true_steps(design, decisions, trained)
    asked = asked_of(learned, decisions.latents[known], steps.observations)
    if asked is None or len(known) < _FEWEST:
        return None
    rows = np.repeat(np.arange(len(known)), steps.actions.shape[1])
    plans = steps.actions.reshape(len(rows), 1, -1)
    answers = asked.answers(rows, plans).reshape(steps.after.shape)
    reading = reading_of(steps, asked, answers)
    is_clear = reading is not None
    if reading is None:
        reading = faint_reading_of(steps, asked, answers)
    if reading is None:
        return None
    # Where states are rated, and not what is observed of them, predictions are not.
    if has(design.task, StateScore):
        return worded(reading, steps, asked, regrets=None) if is_clear else None
    asked_there = asked_of(learned, places.latents, design.task.observe(places.states))
    if asked_there is None:
        return None
    random = RandomPlans(design, places)
    choices = _choices(random, asked_there, reading, design.task.score)
    if not is_clear and (choices.read is None or not choices.are_mended(_MOST_LEFT_BY_CHOICE)):
        return None
    # One that fits exactly is right. What it leaves is another fault, such as missing walls.
    is_right = reading.read <= EXACT and choices.mends_score
    is_decisive = choices.are_mended(_MOST_LEFT) or (choices.lose and is_right)
    if choices.lose and not is_decisive:
        return None
    if learned.rates and is_decisive:
        # What is read rightly may still be rated wrongly.
        is_rated = asked.takes_observations and decisions.latents.shape[1] == len(steps.mean)
        choices = (
            _choices(random, asked_there, reading, learned.score)
            if is_rated
            else choices._replace(read=None)
        )
        is_decisive = choices.are_mended(_MOST_LEFT)
    return worded(reading, steps, asked, regrets=choices[:2] if is_decisive else None)


def _within(trained: TrainingStates | str, task: Task, decisions: Decisions) -> Decisions:
    """Return some of the decisions within the training data, or of all if these are too few.

    Outside of it a network is wrong in any way, however it is read.
    """
    rows = np.arange(len(decisions.rows))
    if not isinstance(trained, str):
        inside = np.flatnonzero(trained.distances(task.observe(decisions.states)) <= 1)
        rows = inside if len(inside) >= _FEWEST else rows
    return _evenly(decisions, rows)


def _evenly(decisions: Decisions, rows: IntArray) -> Decisions:
    """Return some of these decisions, from the first to the last."""
    places = np.linspace(0, len(rows) - 1, min(len(rows), _STATES)).round().astype(int)
    return decisions.take(rows[places])


def _choices(
    random: RandomPlans,
    asked: Asked,
    reading: Reading,
    score: Callable[[FloatArray], FloatArray],
) -> _Choices:
    """Return what choices lose by a score of what is observed, with and without a reading."""

    def step(observations: FloatArray, actions: FloatArray) -> FloatArray:
        return asked.answers(random.rows, actions[:, None], observations)[:, 0]

    def decoded(observations: FloatArray, plans: FloatArray) -> FloatArray:
        del observations
        return asked.answers(random.rows, plans)

    def predicted(way: Callable[[Step], Step]) -> FloatArray:
        # Step by step where it can be: what is wrong along a plan alone is no misread step.
        if asked.takes_observations:
            return random.followed(way(step))
        return way(decoded)(random.plans, random.plans)

    as_is = predicted(lambda model: model)
    if reading.mended is None:
        return _Choices(random.regret(as_is, score), None, mends_score=False)
    read = predicted(reading.mended)
    off, left = (random.off_at_first(observed, score) for observed in (as_is, read))
    return _Choices(random.regret(as_is, score), random.regret(read, score), off > BETTER * left)


def _true_steps(
    design: Design, decisions: Decisions, trained: TrainingStates | str
) -> tuple[TrueSteps, IntArray]:
    """Return true steps, and from which decisions they are: where none of them diverges."""
    task, states = design.task, decisions.states
    actions = actions_to_try(task, decisions.streams(design.seed, Purpose.ACTIONS))
    count, tried = actions.shape[:2]
    pair = task.actions.sample(decisions.streams(design.seed, Purpose.PAIRS_OF_ACTIONS), (2,))
    every = task.step(np.repeat(states, tried, axis=0), actions.reshape(count * tried, -1))
    after = every.reshape(count, tried, -1)
    held = [task.step(states, pair[:, 0])]
    for _ in range(1, _HELD):
        held.append(task.step(held[-1], pair[:, 0]))
    idled = task.step(states, np.tile(task.actions.idle, (count, 1)))
    seen = {
        "observations": task.observe(states),
        "after": task.observe(after),
        "held": task.observe(np.stack(held, axis=1)),
        "second": task.observe(task.step(held[0], pair[:, 1])),
        "delayed": task.observe(task.step(idled, pair[:, 0])),
    }
    is_known = [np.isfinite(part).reshape(count, -1).all(axis=1) for part in seen.values()]
    known = np.flatnonzero(np.all(is_known, axis=0))
    kept = {name: np.array(part[known], dtype=np.float64) for name, part in seen.items()}
    # Where the training data is not known, what is visited has to stand for it.
    visited = kept["observations"].mean(axis=0), kept["observations"].std(axis=0)
    mean, deviation = visited if isinstance(trained, str) else (trained.centre, trained.scale)
    steps = TrueSteps(
        **kept,
        actions=actions[known],
        pair=pair[known],
        idle=task.actions.idle,
        reach=_reach(task),
        is_complete=tried == len(getattr(task.actions, "values", ())),
        period=task.control_period,
        mean=mean,
        deviation=deviation,
    )
    return steps, known


def actions_to_try(task: Task, streams: list[np.random.Generator]) -> FloatArray:
    """Return actions to try in each state [N, J, A]: all of a small set, or random ones."""
    actions = task.actions
    if isinstance(actions, FiniteActions) and len(actions.values) <= _MOST_ACTIONS:
        return np.tile(actions.values, (len(streams), 1, 1))
    return actions.sample(streams, (_ACTIONS,))


def _reach(task: Task) -> FloatArray:
    """Return half of the range of each number in an action [A]."""
    space = task.actions
    if isinstance(space, BoxActions):
        return np.asarray((space.high - space.low) / 2)
    return np.asarray(np.ptp(space.values, axis=0) / 2)


def asked_of(learned: BoundModel, latents: FloatArray, observations: FloatArray) -> Asked | None:
    """Return how a model is asked at these latents [N, Z]; None if it predicts no observations."""
    own = learned.described(latents)
    takes_observations = learned.update is None and np.array_equal(own, observations)
    read = learned.described if takes_observations else learned.observe
    if read is None:
        return None
    size = observations.shape[1]

    def answers(rows: IntArray, plans: FloatArray, given: FloatArray | None = None) -> FloatArray:
        asked = latents[rows]
        if given is not None:
            asked = np.concatenate([given, asked[:, size:]], axis=1)
        try:
            found = read(learned.rollout(asked, plans))
        except IncompleteError:
            raise
        # A model may raise anything for what it was never meant to be asked.
        except Exception:
            return np.full((*plans.shape[:2], size), np.nan)
        return np.asarray(found, dtype=np.float64)

    return Asked(answers, takes_observations)


class RandomPlans:
    """Random plans at some decisions, and what they cost in truth.

    Shapes: ``B`` plans of all decisions, ``H`` horizon.

    Attributes
    ----------
    rows : array [B], int
        Which decision each plan is of.
    """

    def __init__(self, design: Design, decisions: Decisions) -> None:
        self._objective = objective_of(design.planner)
        self._remaining = design.task.budget - decisions.at
        self.rows = np.repeat(np.arange(len(decisions.rows)), _PLANS)
        streams = decisions.streams(design.seed, Purpose.PLANS)
        drawn = design.task.actions.sample(streams, (_PLANS, design.planner.horizon))
        self.plans: FloatArray = drawn.reshape(len(self.rows), *drawn.shape[2:])
        states = np.ascontiguousarray(decisions.states[self.rows])
        self._begun = design.task.observe(states)
        self._reached = design.task.observe(design.task.rollout(states, self.plans))
        self._true = self._costs(self._reached, design.task.score)

    def followed(self, step: Step) -> FloatArray:
        """Return what a step predicts along the plans, one after the other: [B, H, O]."""
        reached = [self._begun]
        for at in range(self.plans.shape[1]):
            reached.append(step(reached[-1], self.plans[:, at]))
        return np.stack(reached[1:], axis=1)

    def regret(self, predicted: FloatArray, score: Callable[[FloatArray], FloatArray]) -> float:
        """Return what choices by a score of predictions [B, H, O] lose, per random plan's loss."""
        liked = self._costs(predicted, score)
        is_known = np.isfinite(self._true).all(axis=1)
        liked, true = liked[is_known], self._true[is_known]
        best = true.min(axis=1, initial=np.inf)
        # Of plans that are liked alike, one at random would be taken.
        is_liked = liked == liked.min(axis=1, keepdims=True, initial=np.inf)
        chosen = (true * is_liked).sum(axis=1) / is_liked.sum(axis=1)
        chance = (true.mean(axis=1) - best).sum()
        # Rounding may leave a part in 1e16 below 0.
        return max(0.0, float((chosen - best).sum() / chance)) if chance > 0 else 0.0

    def off_at_first(
        self, predicted: FloatArray, score: Callable[[FloatArray], FloatArray]
    ) -> float:
        """Return by how much a score of predictions [B, H, O] is off at most in three of four.

        After the first step of a plan, where that changes anything.
        """
        true, answers = self._reached[:, 0], predicted[:, 0]
        counts = np.isfinite(true).all(axis=1) & (true != self._begun).any(axis=1)
        if not counts.any():
            return 0.0
        off = np.abs(score(answers[counts]) - score(true[counts]))
        return float(np.percentile(np.where(np.isfinite(off), off, np.inf), 75))

    def _costs(
        self, observations: FloatArray, score: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Return what plans cost [N, K] by what is observed along them [B, H, O]."""
        known = np.asarray(np.isfinite(observations).all(axis=-1))
        scores = score(np.where(known[..., None], observations, 0.0))
        scores = np.where(known, scores, np.inf).reshape(-1, _PLANS, self.plans.shape[1])
        return rate(scores, self._remaining, objective=self._objective)[0]
