"""Readings: other ways to ask a model or to read its answers, and how well each of them fits.

What is fitted of one, such as an order or a scale, is fitted in half of the states; how far it is
off is measured in the other half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, permutations, product

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.gates.planning_gap.diagnosis import conventions
from pytest_cpg.gates.planning_gap.diagnosis.conventions import (
    NORMALISED,
    Convention,
    Reading,
    Way,
    indices,
    vector,
)
from pytest_cpg.gates.planning_gap.diagnosis.true_steps import (
    AskedModel,
    Step,
    TrueSteps,
    centred,
    error,
)

# A scale nearer to 1 than this is not what a model is wrong by.
_SCALED = 0.1
# Two factors of actions nearer than this are one.
_SAME = 0.02
# Of what an action does: less is nothing.
_NOTHING = 1e-6
# Of trimming; few are needed.
_ROUNDS = 20
# Numbers of an action, of which every pair is fitted; and in one of a small set, whose orders are
# named as such.
_MOST_NUMBERS, _MOST_ORDERED = 8, 3
# States with one action each by which the best of many ways to ask is chosen, and by how many
# times an error has to be smaller for what changes a column.
_TRIED, _BETTER = 16, 0.8


class Readings:
    """Readings of what a model answers to true steps: ``answers`` [N, J, O] as it is asked."""

    def __init__(self, steps: TrueSteps, asked: AskedModel) -> None:
        self._steps, self._asked = steps, asked
        count, tried, _ = steps.actions.shape
        self._rows = np.repeat(np.arange(count), tried)
        self.answers = self._read(lambda model: model)

    def tiers(self) -> Iterator[Iterable[Reading]]:
        """Yield readings, simple ones first; the first two have no fitted numbers."""
        takes = self._asked.takes_observations
        yield [*(self._of_change() if takes else ()), self._of_order(), *self._of_time()]
        yield chain(self._of_all_actions(), self._of_linear(signs_only=True))
        yield chain(self._of_line(), self._of_line(is_change=True) if takes else ())
        yield self._of_linear(signs_only=False)
        if takes:
            yield self._of_columns()
            yield self._of_normalised()

    def _read(self, mended: Callable[[Step], Step]) -> FloatArray:
        """Return the answers [N, J, O] of a model that is mended."""
        steps, takes = self._steps, self._asked.takes_observations

        def step(observations: FloatArray, actions: FloatArray) -> FloatArray:
            own_observations = observations if takes else None
            return self._asked.answers(self._rows, actions[:, None], own_observations)[:, 0]

        observations = steps.observations[self._rows]
        actions = steps.actions.reshape(len(self._rows), -1)
        return mended(step)(observations, actions).reshape(steps.after.shape)

    def _tried(
        self, convention: Convention, mended: Callable[[Step], Step], **words: object
    ) -> Reading:
        errors = self._steps.errors(self.answers, self._read(mended), self._steps.begun)
        return Reading.of(convention, errors, mended, **words)

    def _of_change(self) -> Iterator[Reading]:
        period = self._steps.period
        yield self._tried(conventions.CHANGE, lambda model: lambda o, a: o + model(o, a))
        yield self._tried(
            conventions.RATE, lambda model: lambda o, a: o + period * model(o, a), period=period
        )

    def _of_order(self) -> Reading:
        steps, answers = self._steps, self.answers
        rows, unit = steps.fitted, np.where(np.isfinite(steps.change), steps.change, 1.0)
        off = np.abs(answers[rows][..., None, :] - steps.after[rows][..., :, None])
        order = _assigned(np.median(off.reshape(-1, *off.shape[2:]), axis=0) / unit[:, None])
        return self._tried(
            conventions.ORDER,
            lambda model: lambda o, a: model(o, a)[..., order],
            order=indices(order),
        )

    def _of_line(self, *, is_change: bool = False) -> Iterator[Reading]:
        """Yield scale and offset by least squares of each column, of answers or of changes."""
        steps, rows, size = self._steps, self._steps.fitted, self.answers.shape[-1]
        wanted = steps.after - steps.begun if is_change else steps.after
        x, y = self.answers[rows].reshape(-1, size), wanted[rows].reshape(-1, size)
        rows_known = np.isfinite(x).all(axis=1)
        scale, offset = np.ones(size), np.zeros(size)
        if rows_known.any():
            x, y = x[rows_known], y[rows_known]
            from_mean = x - x.mean(axis=0)
            power, moved = (
                (from_mean**2).sum(axis=0),
                (from_mean * (y - y.mean(axis=0))).sum(axis=0),
            )
            np.divide(moved, power, out=scale, where=power > 0)
            offset = y.mean(axis=0) - scale * x.mean(axis=0)
        # What is off by a constant alone is biased.
        if not is_change and (np.abs(scale - 1)[np.isfinite(steps.change)] <= _SCALED).all():
            return
        yield self._tried(
            conventions.SCALED_CHANGE if is_change else conventions.SCALE,
            lambda model: lambda o, a: is_change * o + scale * model(o, a) + offset,
            scale=vector(scale),
        )

    def _of_time(self) -> Iterator[Reading]:
        steps, rows = self._steps, np.arange(len(self._steps.observations))
        first, count = steps.pair[:, :1], steps.held.shape[1]
        once = self._asked.answers(rows, first)[:, 0]
        then = self._asked.answers(rows, steps.pair)[:, 1]
        after = steps.held[:, 0]
        yield self._in_time(conventions.LATE_ROLLOUT, (once, after), (then, after))
        # Where no action does nothing, what a late model does first is not known.
        if not steps.idle.any():
            yield self._in_time(
                conventions.LATE_ACTION, (then, steps.second), (then, steps.delayed)
            )
        for held in range(2, count + 1):
            yield self._in_time(
                conventions.LONG_STEP, (once, after), (once, steps.held[:, held - 1]), held
            )
        repeated = self._asked.answers(rows, np.repeat(first, count, axis=1))
        for calls in range(2, count + 1):
            yield self._in_time(
                conventions.SHORT_STEP, (once, after), (repeated[:, calls - 1], after), calls
            )

    def _in_time(
        self,
        convention: Convention,
        as_is: tuple[FloatArray, FloatArray],
        read: tuple[FloatArray, FloatArray],
        count: int = 1,
    ) -> Reading:
        """Return the reading by answers and truth [N, O], as they are held together and should."""
        steps = self._steps
        pairs = (as_is, read, (steps.observations, read[1]))
        errors = (error(x[steps.checked], y[steps.checked], steps.change) for x, y in pairs)
        return Reading.of(convention, errors, count=count, period=steps.period)

    def _asking(
        self, convention: Convention, actions: str, instead: Callable[[FloatArray], FloatArray]
    ) -> Iterator[Reading]:
        """Yield readings with other actions [..., A], by where steps lead and by what they do."""
        steps = self._steps

        def mended(model: Step) -> Step:
            return lambda observations, plain: model(observations, instead(plain))

        read = self._read(mended)
        # The choice of an action may be but little of what a step changes.
        of_mean = steps.after.mean(axis=1, keepdims=True)
        *errors, nothing = steps.errors(self.answers, read, of_mean, steps.begun)
        yield Reading.of(convention, errors, mended, actions=actions)
        # With answers as far off as that the actions may be right, and all else wrong.
        if errors[1] > nothing:
            return
        rows = steps.checked
        begun, true = np.broadcast_to(steps.begun, read.shape), centred(steps.after)[rows]
        effects = (centred(values)[rows] for values in (self.answers, read, begun))
        errors = [error(values, true, steps.effect) for values in effects]
        yield Reading.of(
            convention._replace(claim=conventions.EFFECT), errors, mended, actions=actions
        )

    def _of_all_actions(self) -> Iterator[Reading]:
        """Yield readings with those of a few actions that do what another one should."""
        if not self._steps.is_complete:
            return
        steps, every = self._steps, range(self._steps.actions.shape[1])
        model, true = (centred(values)[steps.fitted] for values in (self.answers, steps.after))
        order = _assigned(
            np.array(
                [
                    [error(model[:, other], true[:, wanted], steps.effect) for other in every]
                    for wanted in every
                ]
            )
        )
        if (order == np.arange(len(order))).all():
            return
        values = steps.actions[0]

        def instead(actions: FloatArray) -> FloatArray:
            # Each of them is one of the set, exactly.
            numbers = (actions[..., None, :] == values).all(axis=-1).argmax(axis=-1)
            return np.asarray(values[order[numbers]])

        size = values.shape[1]
        for columns in permutations(range(size)) if size <= _MOST_ORDERED else ():
            for signs in product((1.0, -1.0), repeat=size):
                if np.array_equal(signs * values[:, columns], values[order]):
                    convention, code = _as_code(np.array(signs), np.array(columns))
                    yield from self._asking(convention, code, instead)
                    return
        yield from self._asking(
            conventions.ACTION_ORDER, f"actions[{indices(order)}[number of a]]", instead
        )

    def _of_linear(self, *, signs_only: bool) -> Iterator[Reading]:
        """Yield readings with the numbers of actions in another order and then scaled."""
        idle, mixing = self._steps.idle, self._mixing()
        if mixing is None:
            return
        order, scale = mixing
        scale = np.sign(scale) if signs_only else scale
        if (scale == 1).all() and (order == np.arange(len(order))).all():
            return
        convention, code = _as_code(scale, order)
        yield from self._asking(
            convention,
            code,
            lambda actions: np.asarray(idle + scale * (actions - idle)[..., order]),
        )

    def _mixing(self) -> tuple[IntArray, FloatArray] | None:
        """Return which number of an action does what another should, and how strongly, [A]."""
        steps, rows, size = self._steps, self._steps.fitted, self._steps.actions.shape[-1]
        counts = np.isfinite(steps.effect)
        if size > _MOST_NUMBERS or not counts.any():
            return None
        unit, half = steps.effect[counts], steps.reach / 2
        plans = np.concatenate([steps.idle[None], steps.idle + np.diag(half)])[:, None]
        pushed = self._asked.answers(np.repeat(rows, len(plans)), np.tile(plans, (len(rows), 1, 1)))
        pushed = pushed.reshape(len(rows), size + 1, -1)[..., counts] / unit
        # What each number does [N, A, O], per half of its reach, and all should do [N, J, O].
        does = pushed[:, 1:] - pushed[:, :1]
        should = centred(steps.after[rows])[..., counts] / unit
        tried = centred(steps.actions[rows]) / half
        inputs = np.einsum("nko,njl->njokl", does, tried).reshape(-1, size * size)
        is_finite = np.isfinite(inputs).all(axis=1)
        if not is_finite.any():
            return None
        mixing = _trimmed(inputs[is_finite], should.reshape(-1)[is_finite])
        mixing = mixing.reshape(size, size) * half[:, None] / half
        order = np.abs(mixing).argmax(axis=1)
        scale = np.array(
            [
                math.copysign(1.0, value) if abs(abs(value) - 1) < _SAME else float(f"{value:.3g}")
                for value in mixing[np.arange(size), order]
            ]
        )
        if len(set(order.tolist())) < size or (scale == 0).any():
            return None
        return order, scale

    def _of_columns(self) -> Iterator[Reading]:
        size = self._steps.observations.shape[1]
        same = Way(np.arange(size), np.ones(size))
        way = self._best(same, conventions.orders_of(size))
        if (way.order != same.order).any():
            words = {"order": indices(way.order), "back": indices(np.argsort(way.order))}
            yield self._tried(conventions.ORDER_OF_BOTH, way.mended, **words)
        way = same
        for _ in range(size):
            now, way = way, self._best(way, conventions.scales_of(way))
            if way is now:
                break
        if way is not same:
            yield self._tried(conventions.SCALE_OF_BOTH, way.mended, scale=vector(way.scale))

    def _best(self, now: Way, ways: Iterator[Way]) -> Way:
        """Return the way that fits a few steps best, or the present one where none is better."""
        steps, tried = self._steps, [now, *ways]
        rows = steps.fitted[:_TRIED]
        observations = np.concatenate([way.asked(steps.observations[rows]) for way in tried])
        plans = np.tile(steps.actions[rows, :1], (len(tried), 1, 1))
        answers = self._asked.answers(np.tile(rows, len(tried)), plans, observations)[:, 0]
        errors = [
            error(way.answered(part), steps.after[rows, 0], steps.change)
            for way, part in zip(tried, np.split(answers, len(tried)), strict=True)
        ]
        best = int(np.argmin(errors))
        return tried[best] if errors[best] < _BETTER * errors[0] else now

    def _of_normalised(self) -> Iterator[Reading]:
        steps, code = self._steps, NORMALISED.code
        deviation = np.where(steps.deviation > 0, steps.deviation, 1.0)

        def normalised(observations: FloatArray) -> FloatArray:
            return (observations - steps.mean) / deviation

        def answers(rows: IntArray, plans: FloatArray, observations: FloatArray) -> FloatArray:
            return self._asked.answers(rows, plans, normalised(observations))

        inner = Readings(steps, self._asked._replace(answers=answers))
        (off,) = steps.errors(self.answers)
        for read in chain(inner._of_line(), inner._of_line(is_change=True)):
            better = read.convention.claim.rpartition(" than ")[0].replace("model(o, a)", code)
            yield read._replace(
                convention=NORMALISED._replace(claim=f"{better} than `model(o, a)`"),
                mended=_behind(normalised, read.mended),
                as_is=off,
            )


def _behind(
    normalised: Callable[[FloatArray], FloatArray], mended: Callable[[Step], Step] | None
) -> Callable[[Step], Step] | None:
    return mended and (lambda model: mended(lambda o, a: model(normalised(o), a)))


def _assigned(cost: FloatArray) -> IntArray:
    """Return the cheapest assignment by a cost [K, K]; of what is alike each stays as it is."""
    from scipy.optimize import linear_sum_assignment

    cost = np.where(np.isfinite(cost), cost, 1e9) + 1e-9 * (1 - np.eye(len(cost)))
    order: IntArray = linear_sum_assignment(cost)[1]
    return order


def _trimmed(inputs: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the weights of inputs [N, I] that come nearest to what is wanted in half of the rows.

    Least trimmed squares (Rousseeuw and Van Driessen, Data Mining and Knowledge Discovery 12:29-45,
    2006): a wall that the model lacks is no reason for another weight.
    """
    # What nothing acts on fits any weights.
    says = (np.abs(np.column_stack([inputs, wanted])) > _NOTHING).any(axis=1)
    inputs, wanted = inputs[says], wanted[says]
    nearest = np.ones(len(wanted), dtype=bool)
    for _ in range(_ROUNDS):
        weights: FloatArray = np.linalg.lstsq(inputs[nearest], wanted[nearest], rcond=None)[0]
        off = np.abs(inputs @ weights - wanted)
        nearest = off <= np.median(off)
    return weights


def _as_code(scale: FloatArray, order: IntArray) -> tuple[Convention, str]:
    is_ordered = bool((order != np.arange(len(order))).any())
    what = f"a[:, {indices(order)}]" if is_ordered else "a"
    if (scale == 1).all():
        return conventions.ACTION_ORDER, what
    if (scale == -1).all():
        return conventions.ACTION_SIGN, f"-{what}"
    if (np.abs(scale) == 1).all():
        return conventions.ACTION_SIGN, f"{vector(scale)} * {what}"
    factor = f"{scale[0]:g}" if (scale == scale[0]).all() else vector(scale)
    return conventions.ACTION_SCALE, f"{factor} * {what}"
