"""Question readings: a model asked with observations as it may want them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.gates.planning_gap.diagnosis.answer_readings import (
    indices,
    of_scale,
    of_scaled_change,
    vector,
)
from pytest_cpg.gates.planning_gap.diagnosis.true_steps import (
    Asked,
    Reading,
    Step,
    TrueSteps,
    error,
)

# States with one action each by which the best of many ways to ask is chosen.
_TRIED = 16
# Ways that are tried at most: all orders of six columns.
_MOST_WAYS = 720
_DEGREE = 180 / math.pi
# What changes a column has to make an error so many times as small.
_BETTER = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """A way to ask: observations [..., O] in another order, and then scaled."""

    order: IntArray
    scale: FloatArray

    def asked(self, observations: FloatArray) -> FloatArray:
        return np.asarray(observations[..., self.order] * self.scale)

    def answered(self, answers: FloatArray) -> FloatArray:
        return np.asarray((answers / self.scale)[..., np.argsort(self.order)])


def of_columns(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Iterator[Reading]:
    """Yield readings with the columns of observations in another order, sign or unit."""
    size = steps.observations.shape[1]
    same = _Way(np.arange(size), np.ones(size))
    order = _best(steps, asked, same, _orders(size))
    if (order.order != same.order).any():
        back = indices(np.argsort(order.order))
        yield _asked_so(
            steps,
            asked,
            answers,
            order,
            name="COLUMN ORDER",
            code=f"model(o[:, {indices(order.order)}], a)[:, {back}]",
            meaning="the model was trained with the columns of observations in another order",
        )
    scale = same
    for _ in range(size):
        found = _best(steps, asked, scale, _scales(scale))
        if found is scale:
            break
        scale = found
    if scale is not same:
        k = vector(scale.scale)
        yield _asked_so(
            steps,
            asked,
            answers,
            scale,
            name="COLUMN SCALE",
            code=f"model(k * o, a) / k with k = {k}",
            meaning="the model was trained on observations with other signs or units",
        )


def of_normalised(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Iterator[Reading]:
    """Yield readings of a model that is asked with normalised observations."""
    deviation = np.where(steps.deviation > 0, steps.deviation, 1.0)
    given = (steps.observations - steps.mean) / deviation
    found, (off,) = _one_step(steps, asked, given), steps.errors(answers)
    for read in (*of_scale(steps, found), of_scaled_change(steps, found)):
        fits, _, as_is = read.claim.rpartition(" than ")
        fits = fits.replace("model(o, a)", "model((o - mean) / std, a)")
        yield read._replace(
            name="NORMALISED OBSERVATIONS",
            claim=f"{fits} than {as_is}",
            meaning="the model was trained on normalised observations, and is given others",
            advice="Normalise what it is given, and undo it of what it returns, with the means "
            "and deviations of its training.",
            mended=_normalising(read, steps.mean, deviation),
            as_is=off,
        )


def _normalising(
    read: Reading, mean: FloatArray, deviation: FloatArray
) -> Callable[[Step], Step] | None:
    mended = read.mended
    if mended is None:
        return None
    return lambda model: mended(lambda o, a: model((o - mean) / deviation, a))


def _asked_so(
    steps: TrueSteps,
    asked: Asked,
    answers: FloatArray,
    way: _Way,
    *,
    name: str,
    code: str,
    meaning: str,
) -> Reading:
    read = way.answered(_one_step(steps, asked, way.asked(steps.observations)))
    return Reading(
        name,
        f"`{code}` {{fits}} than `model(o, a)`",
        meaning,
        f"Return `{code}`.",
        lambda model: lambda o, a: way.answered(model(way.asked(o), a)),
        *steps.errors(answers, read, steps.begun),
    )


def _one_step(steps: TrueSteps, asked: Asked, observations: FloatArray) -> FloatArray:
    """Ask for one step of every action with other observations [N, O]: answers [N, J, O]."""
    count, tried, size = steps.actions.shape
    rows = np.repeat(np.arange(count), tried)
    given = np.repeat(observations, tried, axis=0)
    found = asked.answers(rows, steps.actions.reshape(-1, 1, size), given)
    return found.reshape(count, tried, -1)


def _best(steps: TrueSteps, asked: Asked, now: _Way, ways: Iterator[_Way]) -> _Way:
    """Return the way that fits a few steps best, or the present one where none is better."""
    tried = [now, *ways]
    rows = steps.fitted[:_TRIED]
    given = np.concatenate([way.asked(steps.observations[rows]) for way in tried])
    plans = np.tile(steps.actions[rows, :1], (len(tried), 1, 1))
    found = asked.answers(np.tile(rows, len(tried)), plans, given)[:, 0]
    errors = [
        error(way.answered(part), steps.after[rows, 0], steps.change)
        for way, part in zip(tried, np.split(found, len(tried)), strict=True)
    ]
    best = int(np.argmin(errors))
    return tried[best] if errors[best] < _BETTER * errors[0] else now


def _orders(size: int) -> Iterator[_Way]:
    """Yield all orders of a few columns; of many, those that shift, reverse or swap them."""
    same = np.arange(size)
    if math.factorial(size) <= _MOST_WAYS:
        found = [np.array(order) for order in permutations(range(size))]
    else:
        found = [np.roll(same, shift) for shift in range(1, size)] + [same[::-1].copy()]
        for first, second in combinations(range(size), 2):
            swapped = same.copy()
            swapped[[first, second]] = second, first
            found.append(swapped)
    for order in found[:_MOST_WAYS]:
        yield _Way(order, np.ones(size))


def _scales(now: _Way) -> Iterator[_Way]:
    """Yield what differs by a sign, or by degrees and radians, in one column or all."""
    for factor in (-1.0, _DEGREE, 1 / _DEGREE):
        yield _Way(now.order, now.scale * factor)
        for column in range(len(now.scale)):
            scale = now.scale.copy()
            scale[column] *= factor
            yield _Way(now.order, scale)
