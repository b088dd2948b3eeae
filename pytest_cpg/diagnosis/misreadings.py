"""Misreadings: a model that would be right if it were asked, or its answers read, otherwise.

A model that returns the change, in degrees, or with columns in another order is not wrong about
the world. Each such convention is tried on true steps, and is named only if it makes the error
many times smaller on steps that it was not fitted on, and leaves a small one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from pytest_cpg.contracts import FloatArray
from pytest_cpg.diagnosis import action_readings, answer_readings, question_readings
from pytest_cpg.diagnosis.result import Misreading
from pytest_cpg.diagnosis.true_steps import Asked, Reading, TrueSteps

# Of what a step, or the choice of an action, changes: a nearer model needs no other reading.
_LEAST_ERROR = 0.25
# A reading has to make the error so many times smaller.
_BETTER = 5.0
# And leave at most this, of the error of an answer that says that nothing happens.
_MOST_LEFT = 0.5
# What is nearer than this is right.
_EXACT = 1e-3
# Nobody needs to know whether it is a million times.
_MOST_TIMES = 1000


def misreading_of(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Misreading | None:
    """Return how a model's answers [N, J, O] to all of these steps are misread, if they are.

    Simple readings have the first word: one with fitted numbers has to be as many times better
    again as the first has to be.
    """
    found = None
    for tier in _tiers(steps, asked, answers):
        best = min(filter(is_shown, tier), key=lambda reading: reading.read, default=None)
        if best is not None and (found is None or _BETTER * max(best.read, _EXACT) < found.read):
            found = best
    return None if found is None else _worded(found, steps, asked)


def is_shown(reading: Reading) -> bool:
    """Say whether a model is shown to be misread."""
    return (
        reading.as_is >= _LEAST_ERROR * reading.nothing
        and reading.as_is >= _BETTER * reading.read
        and reading.read <= _MOST_LEFT * reading.nothing
        and reading.nothing > 0
    )


def _tiers(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Iterator[Iterable[Reading]]:
    """Yield readings, simple ones first."""
    takes = asked.takes_observations
    yield [
        *(answer_readings.of_change(steps, answers) if takes else ()),
        answer_readings.of_order(steps, answers),
        *answer_readings.of_time(steps, asked, answers),
    ]
    yield [
        *answer_readings.of_scale(steps, answers),
        *([answer_readings.of_scaled_change(steps, answers)] if takes else ()),
    ]
    yield action_readings.of_actions(steps, asked, answers)
    if takes:
        yield question_readings.of_columns(steps, asked, answers)
        yield question_readings.of_normalised(steps, asked, answers)


def _worded(found: Reading, steps: TrueSteps, asked: Asked) -> Misreading:
    times = found.as_is / found.read if found.read else math.inf
    often = f"{times:.0f}" if times < _MOST_TIMES else f"more than {_MOST_TIMES}"
    count = len(steps.checked) * steps.actions.shape[1]
    claim = found.claim.format(fits=f"fits {count} true steps {often} times better")
    texts = [f"{claim}: {found.meaning}.", found.advice]
    if not asked.takes_observations:
        texts.append("Here `model(o, a)` is what is decoded after one action.")
    return Misreading(name=found.name, summary=texts[0], recommendation=" ".join(texts[1:]))
