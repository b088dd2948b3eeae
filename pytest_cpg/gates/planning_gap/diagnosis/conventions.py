"""Conventions: in which ways models are misread, as a table, and how well one of them fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.gates.planning_gap.diagnosis.true_steps import Step

# Ways to ask that are tried at most: all orders of six columns.
_MOST_WAYS = 720
_DEGREE = 180 / math.pi
# Numbers of a vector that a sentence holds.
_MOST_SHOWN = 12


class Convention(NamedTuple):
    """A way in which models are misread: its name, how it is typed, what it means, what to do."""

    name: str
    code: str
    meaning: str
    advice: str = "Return `{code}`."
    claim: str = "`{code}` {{fits}} than `model(o, a)`"


CHANGE = Convention(
    "RETURNS THE CHANGE",
    "o + model(o, a)",
    "the model returns the change, and the gate wants the next observation",
)
RATE = Convention(
    "RETURNS A RATE",
    "o + {period:g} * model(o, a)",
    "the model returns the change per second, and the gate wants the next observation",
)
SCALED_CHANGE = Convention(
    "RETURNS A SCALED CHANGE",
    "o + scale * model(o, a) + offset",
    "the model returns a normalised change, with a scale of about {scale}",
    "Undo its normalisation: return `o + model(o, a) * std + mean`, of the changes that it was "
    "trained on.",
)
ORDER = Convention(
    "COLUMN ORDER",
    "model(o, a)[:, {order}]",
    "the model returns the columns of an observation in another order",
)
SCALE = Convention(
    "COLUMN SCALE",
    "scale * model(o, a) + offset",
    "the model returns observations that are normalised or in other units, with a scale of about "
    "{scale}",
    "Undo its normalisation: return `model(o, a) * std + mean`, of the observations that it was "
    "trained on.",
)
ORDER_OF_BOTH = Convention(
    "COLUMN ORDER",
    "model(o[:, {order}], a)[:, {back}]",
    "the model was trained with the columns of observations in another order",
)
SCALE_OF_BOTH = Convention(
    "COLUMN SCALE",
    "model(k * o, a) / k with k = {scale}",
    "the model was trained on observations with other signs or units",
)
NORMALISED = Convention(
    "NORMALISED OBSERVATIONS",
    "model((o - mean) / std, a)",
    "the model was trained on normalised observations, and is given others",
    "Normalise what it is given, and undo it of what it returns, with the means and deviations of "
    "its training.",
)
_OF_ACTION = "Call `{code}`, or mend how it gets the action."
ACTION_SIGN = Convention(
    "ACTION SIGN",
    "model(o, {actions})",
    "an action does in the model what its opposite should",
    _OF_ACTION,
)
ACTION_ORDER = Convention(
    "ACTION ORDER",
    "model(o, {actions})",
    "the model takes actions, or their numbers, in another order",
    _OF_ACTION,
)
ACTION_SCALE = Convention(
    "ACTION SCALE",
    "model(o, {actions})",
    "actions are in other units in the model, or move another mass",
    _OF_ACTION,
)
LATE_ROLLOUT = Convention(
    "ONE STEP LATE",
    "rollout(latents, actions)[:, 1]",
    "the rollout begins with the present state",
    "Return the latents after each action, without the one before: leave out the first and take "
    "one step more.",
    "`{code}` {{fits}} than `[:, 0]`",
)
LATE_ACTION = Convention(
    "ONE STEP LATE",
    "model(o, a)",
    "in the model an action acts one step late",
    "Pair each observation with the action taken in it, and not with the one that led to it.",
    "`{code}` {{fits}} with the action of the step before",
)
LONG_STEP = Convention(
    "STEP LENGTH",
    "model(o, a)",
    "a step of the model is {count} of the task's",
    "Set `action_repeat={count}` where the task takes it, or train on steps of {period:g} s.",
    "`{code}` {{fits}} as {count} steps with one action than as one",
)
SHORT_STEP = Convention(
    "STEP LENGTH",
    "",
    "{count} steps of the model are one of the task's",
    "Take {count} steps of the model for one, or train on steps of {period:g} s.",
    "After {count} steps with one action the model {{fits}} than after one",
)
EFFECT = "In `{code}` the effect of actions {{fits}} than in `model(o, a)`"


class Reading(NamedTuple):
    """Another way to ask a model, or to read its answers, and how well both ways fit.

    The claim of its convention has a ``{fits}`` for how much better. ``mended`` makes the step of a
    model read this way from what it answers, None where nothing does. The errors are of the model
    as it is, read this way, and of an answer that says that nothing happens, on steps that nothing
    was fitted on.
    """

    convention: Convention
    mended: Callable[[Step], Step] | None
    as_is: float
    read: float
    nothing: float

    @classmethod
    def of(
        cls,
        convention: Convention,
        errors: Iterable[float],
        mended: Callable[[Step], Step] | None = None,
        **words: object,
    ) -> Reading:
        """Return a convention with these words, and its three errors."""
        words["code"] = convention.code.format(**words)
        return cls(Convention(*(text.format(**words) for text in convention)), mended, *errors)


class Way(NamedTuple):
    """A way to ask: observations [..., O] in another order, and then scaled."""

    order: IntArray
    scale: FloatArray

    def asked(self, observations: FloatArray) -> FloatArray:
        """Return what a model is given."""
        return np.asarray(observations[..., self.order] * self.scale)

    def answered(self, answers: FloatArray) -> FloatArray:
        """Return what is made of its answers."""
        return np.asarray((answers / self.scale)[..., np.argsort(self.order)])

    def mended(self, model: Step) -> Step:
        """Return the step of a model that is asked so."""
        return lambda observations, actions: self.answered(model(self.asked(observations), actions))


def orders_of(size: int) -> Iterator[Way]:
    """Yield all orders of a few columns; of many, those that shift, reverse or swap them."""
    same = np.arange(size)
    if math.factorial(size) <= _MOST_WAYS:
        orders = [np.array(order) for order in permutations(range(size))]
    else:
        orders = [np.roll(same, shift) for shift in range(1, size)] + [same[::-1].copy()]
        for pair in combinations(range(size), 2):
            orders.append(same.copy())
            orders[-1][list(pair)] = pair[::-1]
    yield from (Way(order, np.ones(size)) for order in orders[:_MOST_WAYS])


def scales_of(now: Way) -> Iterator[Way]:
    """Yield what differs by a sign, or by degrees and radians, in one column or all."""
    for factor in (-1.0, _DEGREE, 1 / _DEGREE):
        yield Way(now.order, now.scale * factor)
        for column in range(len(now.scale)):
            scale = now.scale.copy()
            scale[column] *= factor
            yield Way(now.order, scale)


def vector(values: FloatArray) -> str:
    """Return numbers as one types them, or those of a few columns and how many there are.

    >>> vector(np.array([1.0, -0.5]))
    '[1, -0.5]'
    """
    shown = ", ".join(f"{value:.3g}" for value in values[:_MOST_SHOWN])
    more = f", and {len(values) - _MOST_SHOWN} more" if len(values) > _MOST_SHOWN else ""
    return f"[{shown}{more}]"


def indices(order: npt.NDArray[np.integer]) -> str:
    """Return an order of columns as one types it."""
    return f"[{', '.join(str(int(place)) for place in order)}]"


# Orders of a stack of frames are tried up to so many.
_MOST_FRAMES = 4


class PictureReading(NamedTuple):
    """Another way to give a model its pictures: as it is typed, and what it means."""

    name: str
    code: str
    meaning: str
    read: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


def picture_readings(frames: int) -> Iterator[PictureReading]:
    """Yield all ways that are tried with a stack of so many frames."""
    orders = permutations(range(frames)) if frames <= _MOST_FRAMES else [range(frames)[::-1]]
    for order in orders:
        if list(order) != [*range(frames)]:
            code = f"pictures[:, {list(order)}]"
            if list(order) == [*range(frames)][::-1]:
                code = "pictures[:, ::-1], or pictures.flip(1) of tensors"
            meaning = "the model was trained with the frames of a stack in another order"
            yield PictureReading("STACK ORDER", code, meaning, partial(_in_order, order))
    yield PictureReading(
        "CHANNELS FIRST",
        "pictures.transpose(0, 1, 4, 2, 3), or pictures.permute(0, 1, 4, 2, 3) of tensors",
        "the model takes colours before rows and columns, and is given them last",
        lambda p: np.ascontiguousarray(p.transpose(0, 1, 4, 2, 3)).reshape(p.shape),
    )
    yield PictureReading(
        "PIXELS OF 0 TO 1",
        "pictures / 255",
        "the model was trained on pixels from 0 to 1, and is given 0 to 255",
        lambda p: p / 255,
    )
    yield PictureReading(
        "COLOUR ORDER",
        "pictures[..., ::-1], or pictures.flip(-1) of tensors",
        "the model was trained with blue first, and is given red first",
        lambda p: p[..., ::-1],
    )


def _in_order(order: Sequence[int], pictures: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return pictures[:, list(order)]
