"""Misreadings: a model that would be right if it were asked, or its answers read, otherwise.

A model that returns the change, in degrees, or with columns in another order is not wrong about
the world. Each such convention is tried on true steps, and is named only if it makes the error
many times smaller on steps that it was not fitted on, and leaves a small one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from pytest_cpg.contracts import FloatArray, Task
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Purpose
from pytest_cpg.contracts.task import StateScore, observed
from pytest_cpg.episodes.decisions import Decisions, evenly
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.cause import Misreading
from pytest_cpg.gates.planning_gap.diagnosis import true_steps
from pytest_cpg.gates.planning_gap.diagnosis.conventions import Reading
from pytest_cpg.gates.planning_gap.diagnosis.evidence import TrainingStates
from pytest_cpg.gates.planning_gap.diagnosis.losses import LEAST_REGRET
from pytest_cpg.gates.planning_gap.diagnosis.readings import Readings
from pytest_cpg.planners.search import objective_of, rate
from pytest_cpg.world_models import BoundModel

# Decisions whose states are asked about: half of them check what is found on the others.
_STATES = 64
# Of a few states some convention fits noise by chance: tests/gates/test_misreadings.py.
_FEWEST = 16
# Random plans of each state that are chosen from.
_PLANS = 16
# A reading leaves at most this: of the error of an answer that says that nothing happens, and of
# what choices lose, or it is not what they lose by. One that fits less clearly leaves less of that.
_MOST_LEFT, _MOST_LEFT_BY_CHOICE = 0.75, 0.25
# Of what a step, or the choice of an action, changes: a nearer model needs no other reading.
_LEAST_ERROR = 0.25
# A reading has to make the error so many times smaller, and one that is seen by choices so many.
_BETTER, _FAINTLY_BETTER = 5.0, 2.0
# What is nearer than this is right.
_EXACT = 1e-3
# Tiers of readings that have no fitted numbers.
_SIMPLE = 2
# Nobody needs to know whether it is a million times.
_MOST_TIMES = 1000


class Choices(NamedTuple):
    """What choices among random plans lose, by what a model predicts as it is and read otherwise.

    Both are shares of a random plan's loss; None for the latter where nothing makes the step
    another. ``mends_score``: the score of a single step is off as it is, and many times less when
    read otherwise.
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


@contextmanager
def _quiet() -> Iterator[None]:
    # Of answers to what a model was never meant to be asked.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@_quiet()
def misread(
    design: Design, learned: BoundModel, decisions: Decisions, *, trained: TrainingStates | str
) -> Misreading | None:
    """Return how the learned model is misread at some of these decisions, if it is.

    None also where its choices are shown to be no better for it, its answers cannot be compared
    with observations, or the decisions are too few to tell by. ``trained`` is as of `evidence_of`.
    """
    places = decisions.take(evenly(np.arange(len(decisions.rows)), _STATES))
    decisions = _within(trained, design.task, decisions)
    steps, rows = true_steps.true_steps_at(design, decisions, trained)
    model = true_steps.asked_model(learned, decisions.latents[rows], steps.observations)
    if model is None or len(rows) < _FEWEST:
        return None
    readings, rows = Readings(steps, model), steps.checked
    # Far enough off for another reading to be shown, in what a step or an action changes.
    off, still = steps.errors(readings.answers, steps.begun)
    answered, true = (true_steps.centred(part)[rows] for part in (readings.answers, steps.after))
    of_actions = true_steps.error(answered, true, steps.effect)
    if off < _LEAST_ERROR * still and of_actions < _LEAST_ERROR:
        return None
    reading = _clear_one(readings)
    is_clear = reading is not None
    if reading is None:
        # A network that is wrong by itself hides a convention. Of readings without fitted numbers
        # one has to fit twice as well, and to be shown by choices.
        simple = chain.from_iterable(islice(readings.tiers(), _SIMPLE))
        reading = _best(simple, _FAINTLY_BETTER)
    if reading is None:
        return None
    # Where states are rated, and not what is observed of them, predictions are not.
    if has(design.task, StateScore):
        return _worded(reading, steps, model, regrets=None) if is_clear else None
    asked_there = true_steps.asked_model(
        learned, places.latents, observed(design.task, places.states)
    )
    if asked_there is None:
        return None
    random = RandomPlans(design, places, asked_there)
    choices = random.choices(reading, design.task.score)
    if not is_clear and (choices.read is None or not choices.are_mended(_MOST_LEFT_BY_CHOICE)):
        return None
    # One that fits exactly is right. What it leaves is another fault, such as missing walls.
    is_right = reading.read <= _EXACT and choices.mends_score
    is_decisive = choices.are_mended(_MOST_LEFT) or (choices.lose and is_right)
    if choices.lose and not is_decisive:
        return None
    if learned.rates and is_decisive:
        # What is read rightly may still be rated wrongly.
        is_rated = model.takes_observations and decisions.latents.shape[1] == len(steps.mean)
        choices = choices._replace(read=None)
        if is_rated:
            choices = random.choices(reading, learned.score)
        is_decisive = choices.are_mended(_MOST_LEFT)
    return _worded(reading, steps, model, regrets=choices[:2] if is_decisive else None)


def _within(trained: TrainingStates | str, task: Task, decisions: Decisions) -> Decisions:
    """Return some of the decisions within the training data, or of all if these are too few.

    Outside of it a network is wrong in any way, however it is read.
    """
    rows = np.arange(len(decisions.rows))
    if not isinstance(trained, str):
        inside = np.flatnonzero(trained.distances(observed(task, decisions.states)) <= 1)
        rows = inside if len(inside) >= _FEWEST else rows
    return decisions.take(evenly(rows, _STATES))


def _clear_one(readings: Readings) -> Reading | None:
    """Return the reading that fits many times better, if there is one.

    Simple readings have the first word: one with fitted numbers has to be as many times better
    again as the first has to be.
    """
    clear: Reading | None = None
    for tier in readings.tiers():
        best = _best(tier, _BETTER)
        if best is not None and (clear is None or _BETTER * max(best.read, _EXACT) < clear.read):
            clear = best
        if clear is not None and clear.read <= _BETTER * _EXACT:
            break
    return clear


def _best(readings: Iterable[Reading], better: float) -> Reading | None:
    """Return what fits best of the readings that make the error so many times smaller."""
    shown = (
        reading
        for reading in readings
        if reading.as_is >= max(_LEAST_ERROR * reading.nothing, better * reading.read)
        and reading.read <= _MOST_LEFT * reading.nothing
        and reading.nothing > 0
    )
    return min(shown, key=lambda reading: reading.read, default=None)


def _worded(
    reading: Reading,
    steps: true_steps.TrueSteps,
    model: true_steps.AskedModel,
    *,
    regrets: tuple[float, float | None] | None,
) -> Misreading:
    """Return a reading in words.

    ``regrets`` are what the model's choices lose of what a random plan loses, as it is, and read
    this way where that can be done; None where the former is too little to matter.
    """
    times = reading.as_is / reading.read if reading.read else math.inf
    often = f"{times:.0f}" if times < _MOST_TIMES else f"more than {_MOST_TIMES}"
    count = int(steps.moves.sum())
    name, _, means, advice, claim = reading.convention
    claim = claim.format(fits=f"fits {count} true steps {often} times better")
    sentences = [f"{claim}: {means}."]
    as_is, read = regrets or (0.0, None)
    if read is not None:
        sentences.append(
            f"Read so, its choices lose {100 * read:.0f} % of what a random plan loses, not "
            f"{100 * as_is:.0f} %."
        )
        if read > as_is / 2:
            sentences.append("The rest is another fault.")
    if not model.takes_observations:
        advice = f"{advice} Here `model(o, a)` is what is decoded after one action."
    return Misreading(
        name=name,
        summary=" ".join(sentences),
        recommendation=advice,
        is_decisive=regrets is not None,
    )


class RandomPlans:
    """Random plans [B, H, A] at some decisions, what they truly cost, and what a model predicts."""

    def __init__(self, design: Design, decisions: Decisions, model: true_steps.AskedModel) -> None:
        self._objective, self._model = objective_of(design.planner), model
        self._remaining = design.task.budget - decisions.at
        self._rows = np.repeat(np.arange(len(decisions.rows)), _PLANS)
        streams = decisions.streams(design.seed, Purpose.PLANS)
        drawn = design.task.actions.sample(streams, (_PLANS, design.planner.horizon))
        self._plans: FloatArray = drawn.reshape(len(self._rows), *drawn.shape[2:])
        states = np.ascontiguousarray(decisions.states[self._rows])
        self._begun = observed(design.task, states)
        self._reached = observed(design.task, design.task.rollout(states, self._plans))
        self._true = self._costs(self._reached, design.task.score)

    def choices(self, reading: Reading, score: Callable[[FloatArray], FloatArray]) -> Choices:
        """Return what choices lose by a score of what is observed, with and without a reading."""
        as_is = self._predicted(lambda model: model)
        if reading.mended is None:
            return Choices(self.regret(as_is, score), None, mends_score=False)
        read = self._predicted(reading.mended)
        off, left = (self.off_at_first(observed, score) for observed in (as_is, read))
        lost = [self.regret(observed, score) for observed in (as_is, read)]
        return Choices(lost[0], lost[1], mends_score=off > _BETTER * left)

    def _predicted(self, way: Callable[[true_steps.Step], true_steps.Step]) -> FloatArray:
        """Return what is predicted along the plans [B, H, O] by a model that is asked so."""
        answers, rows = self._model.answers, self._rows
        if not self._model.takes_observations:
            return way(lambda _, plans: answers(rows, plans))(self._plans, self._plans)
        # Step by step: what is wrong along a plan alone is no misread step.
        step = way(lambda observed, actions: answers(rows, actions[:, None], observed)[:, 0])
        reached = [self._begun]
        for at in range(self._plans.shape[1]):
            reached.append(step(reached[-1], self._plans[:, at]))
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
        is_finite = np.asarray(np.isfinite(observations).all(axis=-1))
        scores = score(np.where(is_finite[..., None], observations, 0.0))
        scores = np.where(is_finite, scores, np.inf).reshape(-1, _PLANS, self._plans.shape[1])
        return rate(scores, self._remaining, objective=self._objective)[0]
