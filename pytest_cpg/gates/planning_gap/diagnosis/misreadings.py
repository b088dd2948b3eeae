"""Misreadings: a model that would be right if it were asked, or its answers read, otherwise.

A model that returns the change, in degrees, or with columns in another order is not wrong about
the world. Each such convention is tried on true steps, and is named only if it makes the error
many times smaller on steps that it was not fitted on, and leaves a small one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from pytest_cpg.contracts import FloatArray
from pytest_cpg.gates.planning_gap.cause import Misreading
from pytest_cpg.gates.planning_gap.diagnosis import (
    action_readings,
    answer_readings,
    question_readings,
)
from pytest_cpg.gates.planning_gap.diagnosis.true_steps import (
    Asked,
    Reading,
    TrueSteps,
    centred,
    error,
)

# Of what a step, or the choice of an action, changes: a nearer model needs no other reading.
_LEAST_ERROR = 0.25
# A reading has to make the error so many times smaller, and one that is seen by choices so many.
BETTER, _FAINTLY_BETTER = 5.0, 2.0
# And leave at most this, of the error of an answer that says that nothing happens.
_MOST_LEFT = 0.75
# What is nearer than this is right.
EXACT = 1e-3
# Tiers of readings that have no fitted numbers.
_SIMPLE = 2
# Nobody needs to know whether it is a million times.
_MOST_TIMES = 1000


def reading_of(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Reading | None:
    """Return the reading that a model's answers [N, J, O] to these steps want, if there is one.

    Simple readings have the first word: one with fitted numbers has to be as many times better
    again as the first has to be.
    """
    found = None
    if not _is_off(answers, steps):
        return None
    for tier in _tiers(steps, asked, answers):
        best = min(filter(is_shown, tier), key=lambda reading: reading.read, default=None)
        if best is not None and (found is None or BETTER * max(best.read, EXACT) < found.read):
            found = best
        if found is not None and found.read <= BETTER * EXACT:
            break
    return found


def faint_reading_of(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Reading | None:
    """Return the reading without fitted numbers that fits best, if it fits twice as well.

    A network that is wrong by itself hides a convention. This one has to be shown by choices.
    """
    if not _is_off(answers, steps):
        return None
    simple = chain.from_iterable(islice(_tiers(steps, asked, answers), _SIMPLE))
    shown = (reading for reading in simple if is_shown(reading, better=_FAINTLY_BETTER))
    return min(shown, key=lambda reading: reading.read, default=None)


def _is_off(answers: FloatArray, steps: TrueSteps) -> bool:
    """Say whether answers [N, J, O] are far enough off for another reading to be shown."""
    rows, (off, still) = steps.checked, steps.errors(answers, steps.begun)
    of_actions = error(centred(answers)[rows], centred(steps.after)[rows], steps.effect)
    return off >= _LEAST_ERROR * still or of_actions >= _LEAST_ERROR


def is_shown(reading: Reading, *, better: float = BETTER) -> bool:
    """Say whether a model is shown to be misread, by an error so many times smaller."""
    return (
        reading.as_is >= _LEAST_ERROR * reading.nothing
        and reading.as_is >= better * reading.read
        and reading.read <= _MOST_LEFT * reading.nothing
        and reading.nothing > 0
    )


def _tiers(steps: TrueSteps, asked: Asked, answers: FloatArray) -> Iterator[Iterable[Reading]]:
    """Yield readings, simple ones first."""
    takes = asked.takes_observations
    yield [
        *(answer_readings.of_change(steps, answers) if takes else ()),
        answer_readings.of_order(steps, answers),
        *answer_readings.of_time(steps, asked),
    ]
    yield action_readings.of_actions(steps, asked, answers)
    yield [
        *answer_readings.of_scale(steps, answers),
        *([answer_readings.of_scaled_change(steps, answers)] if takes else ()),
    ]
    yield action_readings.of_scaled(steps, asked, answers)
    if takes:
        yield question_readings.of_columns(steps, asked, answers)
        yield question_readings.of_normalised(steps, asked, answers)


def worded(
    found: Reading, steps: TrueSteps, asked: Asked, *, regrets: tuple[float, float | None] | None
) -> Misreading:
    """Return a reading in words.

    ``regrets`` are what the model's choices lose of what a random plan loses, as it is, and read
    this way where that can be done; None where the former is too little to matter.
    """
    times = found.as_is / found.read if found.read else math.inf
    often = f"{times:.0f}" if times < _MOST_TIMES else f"more than {_MOST_TIMES}"
    count = int(steps.moves.sum())
    claim = found.claim.format(fits=f"fits {count} true steps {often} times better")
    said = [f"{claim}: {found.meaning}."]
    as_is, read = regrets or (0.0, None)
    if read is not None:
        said.append(
            f"Read so, its choices lose {100 * read:.0f} % of what a random plan loses, not "
            f"{100 * as_is:.0f} %."
        )
        if read > as_is / 2:
            said.append("The rest is another fault.")
    told = [found.advice]
    if not asked.takes_observations:
        told.append("Here `model(o, a)` is what is decoded after one action.")
    return Misreading(
        name=found.name,
        summary=" ".join(said),
        recommendation=" ".join(told),
        is_decisive=regrets is not None,
    )
