"""Answer readings: other ways to read what a model answers, with nothing asked otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.gates.planning_gap.diagnosis.true_steps import Asked, Reading, TrueSteps, error

# A scale nearer to 1 than this is not what a model is wrong by.
_SCALED = 0.1
# Numbers of a vector that a sentence holds.
_MOST_SHOWN = 12


def of_change(steps: TrueSteps, answers: FloatArray) -> Iterator[Reading]:
    """Yield readings of answers [N, J, O] as what changes."""
    yield _answered(
        steps,
        answers,
        lambda answer, begun: begun + answer,
        name="RETURNS THE CHANGE",
        code="o + model(o, a)",
        meaning="the model returns the change, and the gate wants the next observation",
        advice="Return `o + model(o, a)`.",
    )
    rate = f"o + {steps.period:g} * model(o, a)"
    yield _answered(
        steps,
        answers,
        lambda answer, begun: begun + steps.period * answer,
        name="RETURNS A RATE",
        code=rate,
        meaning="the model returns the change per second, and the gate wants the next observation",
        advice=f"Return `{rate}`.",
    )


def of_scaled_change(steps: TrueSteps, answers: FloatArray) -> Reading:
    """Return the reading of answers [N, J, O] as a change in units of its own."""
    scale, offset = _line(steps, answers, steps.after - steps.begun)
    return _answered(
        steps,
        answers,
        lambda answer, begun: begun + scale * answer + offset,
        name="RETURNS A SCALED CHANGE",
        code="o + scale * model(o, a) + offset",
        meaning=f"the model returns a normalised change, with a scale of about {vector(scale)}",
        advice="Undo its normalisation: return `o + model(o, a) * std + mean`, of the changes "
        "that it was trained on.",
    )


def of_order(steps: TrueSteps, answers: FloatArray) -> Reading:
    """Return the reading of answers [N, J, O] with columns in another order."""
    from scipy.optimize import linear_sum_assignment

    rows, unit = steps.fitted, np.where(np.isfinite(steps.change), steps.change, 1.0)
    off = np.abs(answers[rows][..., None, :] - steps.after[rows][..., :, None])
    cost = np.median(off.reshape(-1, *off.shape[2:]), axis=0) / unit[:, None]
    # Of columns that are alike each stays where it is.
    cost = np.where(np.isfinite(cost), cost, 1e9) + 1e-9 * (1 - np.eye(len(cost)))
    order: IntArray = linear_sum_assignment(cost)[1]
    code = f"model(o, a)[:, {indices(order)}]"
    return _answered(
        steps,
        answers,
        lambda answer, _: answer[..., order],
        name="COLUMN ORDER",
        code=code,
        meaning="the model returns the columns of an observation in another order",
        advice=f"Return `{code}`.",
    )


def of_scale(steps: TrueSteps, answers: FloatArray) -> Iterator[Reading]:
    """Yield the reading of answers [N, J, O] in units of their own, if these differ."""
    scale, offset = _line(steps, answers, steps.after)
    # What is off by a constant alone is biased.
    if (np.abs(scale - 1)[np.isfinite(steps.change)] <= _SCALED).all():
        return
    yield _answered(
        steps,
        answers,
        lambda answer, _: scale * answer + offset,
        name="COLUMN SCALE",
        code="scale * model(o, a) + offset",
        meaning="the model returns observations that are normalised or in other units, with a "
        f"scale of about {vector(scale)}",
        advice="Undo its normalisation: return `model(o, a) * std + mean`, of the observations "
        "that it was trained on.",
    )


def of_time(steps: TrueSteps, asked: Asked) -> Iterator[Reading]:
    """Yield readings of steps of another length, or one too late."""
    rows, first = np.arange(len(steps.observations)), steps.pair[:, :1]
    once = asked.answers(rows, first)[:, 0]
    count = steps.held.shape[1]
    yield from _of_delay(steps, asked, once)
    for held in range(2, count + 1):
        yield _in_time(
            steps,
            (once, steps.held[:, 0]),
            (once, steps.held[:, held - 1]),
            name="STEP LENGTH",
            claim=f"`model(o, a)` {{fits}} as {held} steps with one action than as one",
            meaning=f"a step of the model is {held} of the task's",
            advice=f"Set `action_repeat={held}` where the task takes it, or train "
            f"on steps of {steps.period:g} s.",
        )
    repeated = asked.answers(rows, np.repeat(first, count, axis=1))
    for calls in range(2, count + 1):
        yield _in_time(
            steps,
            (once, steps.held[:, 0]),
            (repeated[:, calls - 1], steps.held[:, 0]),
            name="STEP LENGTH",
            claim=f"After {calls} steps with one action the model {{fits}} than after one",
            meaning=f"{calls} steps of the model are one of the task's",
            advice=f"Take {calls} steps of the model for one, or train on steps of "
            f"{steps.period:g} s.",
        )


def _of_delay(steps: TrueSteps, asked: Asked, once: FloatArray) -> Iterator[Reading]:
    rows = np.arange(len(steps.observations))
    then = asked.answers(rows, steps.pair)[:, 1]
    yield _in_time(
        steps,
        (once, steps.held[:, 0]),
        (then, steps.held[:, 0]),
        name="ONE STEP LATE",
        claim="`rollout(latents, actions)[:, 1]` {fits} than `[:, 0]`",
        meaning="the rollout begins with the present state",
        advice="Return the latents after each action, without the one before: leave out the first "
        "and take one step more.",
    )
    # Where no action does nothing, what a late model does first is not known.
    if steps.idle.any():
        return
    yield _in_time(
        steps,
        (then, steps.second),
        (then, steps.delayed),
        name="ONE STEP LATE",
        claim="`model(o, a)` {fits} with the action of the step before",
        meaning="in the model an action acts one step late",
        advice="Pair each observation with the action taken in it, and not with the one that led "
        "to it.",
    )


def _answered(
    steps: TrueSteps,
    answers: FloatArray,
    read: Callable[[FloatArray, FloatArray], FloatArray],
    *,
    name: str,
    code: str,
    meaning: str,
    advice: str,
) -> Reading:
    """Return the reading of answers [N, J, O] by what they are and the observation before."""
    return Reading(
        name,
        f"`{code}` {{fits}} than `model(o, a)`",
        meaning,
        advice,
        lambda model: (
            lambda observations, actions: read(model(observations, actions), observations)
        ),
        *steps.errors(answers, read(answers, steps.begun), steps.begun),
    )


def _in_time(
    steps: TrueSteps,
    as_is: tuple[FloatArray, FloatArray],
    read: tuple[FloatArray, FloatArray],
    *,
    name: str,
    claim: str,
    meaning: str,
    advice: str,
) -> Reading:
    """Return the reading by answers and truth [N, O], as they are held together and should be."""
    pairs = (as_is, read, (steps.observations, read[1]))
    errors = [error(x[steps.checked], y[steps.checked], steps.change) for x, y in pairs]
    return Reading(name, claim, meaning, advice, None, *errors)


def _line(steps: TrueSteps, given: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return scale and offset [O] by least squares of each column [N, J, O]."""
    rows = steps.fitted
    size = given.shape[-1]
    x, y = given[rows].reshape(-1, size), wanted[rows].reshape(-1, size)
    known = np.isfinite(x).all(axis=1)
    if not known.any():
        return np.ones(size), np.zeros(size)
    x, y = x[known], y[known]
    from_mean = x - x.mean(axis=0)
    power = (from_mean**2).sum(axis=0)
    scale = np.ones(size)
    np.divide((from_mean * (y - y.mean(axis=0))).sum(axis=0), power, out=scale, where=power > 0)
    return scale, y.mean(axis=0) - scale * x.mean(axis=0)


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
