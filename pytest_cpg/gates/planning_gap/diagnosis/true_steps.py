"""True steps: what a model's answers are read against, and how near a reading of them comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray

# A column that changes less than this in a step, of what it varies by, is not asked for more.
_STILL = 0.01
# Rounding alone makes a constant differ by a few parts in 1e16.
_NEGLIGIBLE = 1e-9

# Maps observations [B, O] and actions [B, A] to what is observed next, or answered [B, O].
Step: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrueSteps:
    """True steps of a task, from states that the arms of a gate came to.

    Shapes: ``N`` states, ``J`` actions tried in each, ``K`` steps, ``O``, ``A``.

    Attributes
    ----------
    observations : array [N, O]
    actions : array [N, J, A]
        All of a small set, in its order, or random ones.
    after : array [N, J, O]
        What each leads to.
    pair : array [N, 2, A]
        Two random actions, others in each state: of one pair for all, some other reading fits by
        chance.
    held : array [N, K, O]
        Where the first of them leads, held for 1 to ``K`` steps.
    second : array [N, O]
        Where the first leads and the second then.
    delayed : array [N, O]
        Where the idle action leads and the first then.
    idle, reach : array [A]
        The idle action, and half of the range of each number in one.
    is_complete : bool
        Whether ``actions`` are all that there are.
    period : float
        Seconds of a step.
    mean, deviation : array [O]
        Of the training data's observations, where they are known, or of these.
    """

    observations: FloatArray
    actions: FloatArray
    after: FloatArray
    pair: FloatArray
    held: FloatArray
    second: FloatArray
    delayed: FloatArray
    idle: FloatArray
    reach: FloatArray
    is_complete: bool
    period: float
    mean: FloatArray
    deviation: FloatArray

    @property
    def fitted(self) -> IntArray:
        """States that readings are fitted on; they are checked on the others."""
        return np.arange(0, len(self.observations), 2)

    @property
    def checked(self) -> IntArray:
        """States that readings are checked on."""
        return np.arange(1, len(self.observations), 2)

    @property
    def begun(self) -> FloatArray:
        """The observation before each step, [N, 1, O]."""
        return self.observations[:, None]

    @property
    def moves(self) -> BoolArray:
        """Which steps change anything, [N, J], of those to check on; all where none does.

        What stands before a wall tells nothing of how a change is written.
        """
        moves: BoolArray = (self.after != self.begun).any(axis=-1)[self.checked]
        return moves if moves.any() else ~moves

    @property
    def change(self) -> FloatArray:
        """The unit of each column [O]: what a step changes; infinite where nothing does."""
        change = _size(self.after - self.begun)
        deviation = self.observations.std(axis=0)
        unit = np.maximum(change, _STILL * deviation)
        negligible = _NEGLIGIBLE * np.abs(self.observations).max(axis=0)
        return np.where(unit > negligible, unit, np.inf)

    @property
    def effect(self) -> FloatArray:
        """The unit of each column [O]: what the choice of an action changes; infinite if none."""
        effect = _size(centred(self.after))
        return np.where(effect > _STILL * self.change, effect, np.inf)

    def errors(self, *answers: FloatArray) -> list[float]:
        """Return how far each of some answers [N, J, O] is off, in states to check on."""
        rows, moves = self.checked, self.moves
        return [
            error(
                np.broadcast_to(answer, self.after.shape)[rows][moves],
                self.after[rows][moves],
                self.change,
            )
            for answer in answers
        ]


class Asked(NamedTuple):
    """A model as it is asked about true steps.

    Attributes
    ----------
    answers : callable
        Maps rows [B] of the states and plans [B, H, A] to what the model predicts to be observed
        after each action [B, H, O]. It may be given other observations [B, O] in place of its own.
    takes_observations : bool
        Whether it can be given other observations, as its latents are just these.
    """

    answers: Callable[..., FloatArray]
    takes_observations: bool


class Reading(NamedTuple):
    """Another way to ask a model, or to read its answers, and how well both ways fit.

    Attributes
    ----------
    name : str
        What it is, in capitals.
    claim : str
        What fits better than what, with ``{fits}`` for how much better.
    meaning, advice : str
        What this says of the model, and what to do.
    mended : callable or None
        Makes the step of a model read this way from what it answers; None where nothing does.
    as_is, read : float
        Errors of the model as it is, and read this way, on steps that nothing was fitted on.
    nothing : float
        The error of an answer that says that nothing happens.
    """

    name: str
    claim: str
    meaning: str
    advice: str
    mended: Callable[[Step], Step] | None
    as_is: float
    read: float
    nothing: float


def centred(values: FloatArray) -> FloatArray:
    """Return how answers [N, J, O] to several actions differ from their mean."""
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def error(predicted: FloatArray, true: FloatArray, unit: FloatArray) -> float:
    """Return how far predictions [..., O] are off at most in three rows of four, in these units.

    Half of them may be right by chance: a move into a wall is none. Columns with an infinite unit
    do not count. An answer that is no number is infinitely far off.
    """
    counts: BoolArray = np.isfinite(unit)
    if not counts.any():
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        off = ((predicted - true)[..., counts] / unit[counts]) ** 2
        lengths = np.sqrt(off.mean(axis=-1)).ravel()
    return float(np.sort(np.where(np.isfinite(lengths), lengths, np.inf))[len(lengths) * 3 // 4])


def _size(values: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt((values**2).mean(axis=tuple(range(values.ndim - 1)))))
