"""Action readings: a model asked with actions in another order, sign or unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.gates.planning_gap.diagnosis.answer_readings import indices, vector
from pytest_cpg.gates.planning_gap.diagnosis.true_steps import (
    Asked,
    Reading,
    Step,
    TrueSteps,
    centred,
    error,
)

# Two factors nearer than this are one.
_SAME = 0.02
# Of what an action does: less is nothing.
_NOTHING = 1e-6
# Of trimming; few are needed.
_ROUNDS = 20
# Numbers of an action, of which every pair is fitted.
_MOST_NUMBERS = 8
# Of those in an action of a small set, whose orders are named as such.
_MOST_ORDERED = 3


class _Instead(NamedTuple):
    """What maps actions [..., A] to those to ask in their place, as code, and its name."""

    name: str
    code: str
    meaning: str
    of: Callable[[FloatArray], FloatArray]


def of_actions(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Iterator[Reading]:
    """Yield readings of answers [N, J, O] with actions in another order or with another sign."""
    ways = [_of_all(steps, answers) if steps.is_complete else None]
    mixing = _mixing(steps, asked)
    if mixing is not None:
        ways.append(_linear(steps, np.sign(mixing.scale), mixing.order))
    for way in filter(None, ways):
        yield from _asked_so(steps, asked, answers, way)


def of_scaled(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Iterator[Reading]:
    """Yield readings of answers [N, J, O] with actions in other units."""
    mixing = _mixing(steps, asked)
    way = mixing and _linear(steps, mixing.scale, mixing.order)
    if way is not None:
        yield from _asked_so(steps, asked, answers, way)


def _asked_so(
    steps: TrueSteps, asked: Asked, answers: FloatArray, found: _Instead
) -> Iterator[Reading]:
    """Yield readings with these actions, if there are such.

    One is held to where steps lead, and one to what the choice of an action changes in it: a model
    may be wrong about the rest as well.
    """
    count, tried, size = steps.actions.shape
    instead = found.of
    plans = instead(steps.actions).reshape(-1, 1, size)
    read = asked.answers(np.repeat(np.arange(count), tried), plans).reshape(answers.shape)
    better, rows = f"`model(o, {found.code})`", steps.checked
    advice = f"Call {better}, or mend how it gets the action."
    # The choice of an action may be but little of what a step changes.
    of_mean = steps.after.mean(axis=1, keepdims=True)
    *errors, nothing = steps.errors(answers, read, of_mean, steps.begun)
    claim = f"{better} {{fits}} than `model(o, a)`"

    def mended(model: Step) -> Step:
        return lambda observations, actions: model(observations, instead(actions))

    yield Reading(found.name, claim, found.meaning, advice, mended, *errors)
    # With answers as far off as that the actions may be right, and all else wrong.
    if errors[1] > nothing:
        return
    begun, true = np.broadcast_to(steps.begun, read.shape), centred(steps.after)[rows]
    three = (centred(values)[rows] for values in (answers, read, begun))
    errors = [error(values, true, steps.effect) for values in three]
    claim = f"In {better} the effect of actions {{fits}} than in `model(o, a)`"
    yield Reading(found.name, claim, found.meaning, advice, mended, *errors)


def _of_all(steps: TrueSteps, answers: FloatArray) -> _Instead | None:
    """Return which of a few actions does what another one should."""
    from scipy.optimize import linear_sum_assignment

    rows, count = steps.fitted, steps.actions.shape[1]
    model, true = centred(answers)[rows], centred(steps.after)[rows]
    cost = np.array(
        [
            [error(model[:, other], true[:, one], steps.effect) for other in range(count)]
            for one in range(count)
        ]
    )
    # Of actions that are alike each stays what it is.
    cost = np.where(np.isfinite(cost), cost, 1e9) + 1e-9 * (1 - np.eye(count))
    order = linear_sum_assignment(cost)[1]
    if (order == np.arange(count)).all():
        return None
    values = steps.actions[0]

    def of(actions: FloatArray) -> FloatArray:
        # Each of them is one of the set, exactly.
        numbers = (actions[..., None, :] == values).all(axis=-1).argmax(axis=-1)
        return np.asarray(values[order[numbers]])

    size = values.shape[1]
    for columns in permutations(range(size)) if size <= _MOST_ORDERED else ():
        for signs in product((1.0, -1.0), repeat=size):
            if np.array_equal(signs * values[:, columns], values[order]):
                return _as_code(np.array(signs), np.array(columns), of)
    return _ordered(f"actions[{indices(order)}[number of a]]", of)


class _Mixing(NamedTuple):
    """Which number of an action does what another one should, and how strongly, [A]."""

    order: IntArray
    scale: FloatArray


def _mixing(steps: TrueSteps, asked: Asked) -> _Mixing | None:
    rows, size = steps.fitted, steps.actions.shape[-1]
    counts = np.isfinite(steps.effect)
    if size > _MOST_NUMBERS or not counts.any():
        return None
    unit, half = steps.effect[counts], steps.reach / 2
    plans = np.concatenate([steps.idle[None], steps.idle + np.diag(half)])[:, None]
    found = asked.answers(np.repeat(rows, len(plans)), np.tile(plans, (len(rows), 1, 1)))
    found = found.reshape(len(rows), size + 1, -1)[..., counts] / unit
    # What each number does [N, A, O], per half of its reach, and all together should do [N, J, O].
    does = found[:, 1:] - found[:, :1]
    should = centred(steps.after[rows])[..., counts] / unit
    tried = centred(steps.actions[rows]) / half
    inputs = np.einsum("nko,njl->njokl", does, tried).reshape(-1, size * size)
    known = np.isfinite(inputs).all(axis=1)
    if not known.any():
        return None
    mixing = _trimmed(inputs[known], should.reshape(-1)[known])
    mixing = mixing.reshape(size, size) * half[:, None] / half
    order = np.abs(mixing).argmax(axis=1)
    scale = np.array([_rounded(value) for value in mixing[np.arange(size), order]])
    if len(set(order.tolist())) < size or (scale == 0).any():
        return None
    return _Mixing(order, scale)


def _trimmed(inputs: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the weights of inputs [N, I] that come nearest to what is wanted in half of the rows.

    Least trimmed squares, by the steps of Rousseeuw and Van Driessen (Data Mining and Knowledge
    Discovery 12:29-45, 2006): a wall that the model lacks is no reason for another weight.
    """
    # What nothing acts on fits any weights.
    says = (np.abs(np.column_stack([inputs, wanted])) > _NOTHING).any(axis=1)
    inputs, wanted = inputs[says], wanted[says]
    kept = np.ones(len(wanted), dtype=bool)
    for _ in range(_ROUNDS):
        weights: FloatArray = np.linalg.lstsq(inputs[kept], wanted[kept], rcond=None)[0]
        off = np.abs(inputs @ weights - wanted)
        kept = off <= np.median(off)
    return weights


def _linear(steps: TrueSteps, scale: FloatArray, order: IntArray) -> _Instead | None:
    """Return actions whose numbers are in this order and then scaled; None where all stay."""

    def of(actions: FloatArray) -> FloatArray:
        return np.asarray(steps.idle + scale * (actions - steps.idle)[..., order])

    return _as_code(scale, order, of)


def _as_code(
    scale: FloatArray, order: IntArray, of: Callable[[FloatArray], FloatArray]
) -> _Instead | None:
    is_ordered = bool((order != np.arange(len(order))).any())
    what = f"a[:, {indices(order)}]" if is_ordered else "a"
    if (np.abs(scale) == 1).all():
        if (scale == 1).all():
            return _ordered(what, of) if is_ordered else None
        return _signed(f"-{what}" if (scale < 0).all() else f"{vector(scale)} * {what}", of)
    factor = f"{scale[0]:g}" if (scale == scale[0]).all() else vector(scale)
    return _Instead(
        "ACTION SCALE",
        f"{factor} * {what}",
        "actions are in other units in the model, or move another mass",
        of,
    )


def _signed(code: str, of: Callable[[FloatArray], FloatArray]) -> _Instead:
    return _Instead("ACTION SIGN", code, "an action does in the model what its opposite should", of)


def _ordered(code: str, of: Callable[[FloatArray], FloatArray]) -> _Instead:
    return _Instead(
        "ACTION ORDER",
        code,
        "the model takes actions, or their numbers, in another order",
        of,
    )


def _rounded(value: float) -> float:
    return math.copysign(1.0, value) if abs(abs(value) - 1) < _SAME else float(f"{value:.3g}")
