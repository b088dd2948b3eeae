"""Answer: what a kind of gate returns where one of its members is called, checked.

A kind may be a user's. Whatever it raises, or returns in place of an answer, becomes one sentence
for whoever asked to show: in a test's failure, or below the gates of the session.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_cpg.contracts import CpgError, IncompleteError, KindError
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.contracts.errors import own_frames
from pytest_cpg.gates.card import Card, Ruling
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.kind import Alarm, Finding, ForecastLine, Lost, MaxVerdict

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

_PASSES = (CpgError, KeyboardInterrupt)
# They say by a ValueError what is wrong with what they are given.
_REFUSING = frozenset({"parse", "read_entry", "read_lost"})


def ask(kind: Any, member: str, *given: Any, **named: Any) -> Any:
    """Return what a member of a kind of gate returns; what is shown of it in plain values.

    Raises KindError, naming the kind, the member, what it raised or returned, and what it has to
    return; and what the member raises itself where that may refuse what it is given.
    """
    marker = kind.marker
    place = f"the kind of gate {marker!r}: {member}()"
    passes = (*_PASSES, ValueError) if member in _REFUSING else _PASSES
    call = partial(getattr(kind, member), *given, **named)
    answer = _answer(place, call, _WANTED.get(member, _ANYTHING), passes)
    check_marker(kind, marker, member)
    if isinstance(answer, Alarm):
        p_value = partial(_answer, f"{place}.p_value()", answer.p_value, _P_VALUE)
        return answer._replace(p_value=p_value)
    return answer


def check_marker(kind: Any, marker: str, member: str) -> None:
    """Raise KindError for a kind that a member of it has renamed: nobody would know its results."""
    if kind.marker != marker:
        raise KindError(
            f"the kind of gate {marker!r}: {member}() changed its marker to {kind.marker!r}. Leave "
            f"it as it was contributed."
        )


def ask_at_end(found: list[Finding], kind: Any, member: str, *given: Any, **named: Any) -> Any:
    """Return what a member returns; None where it does not, and a finding that fails the session.

    The gates of other kinds are shown all the same.
    """
    try:
        return ask(kind, member, *given, **named)
    except CpgError as error:
        fault = Finding(str(error), fails=True)
        # One for all gates of the kind.
        found += [] if fault in found else [fault]
        return None


class _Wanted(NamedTuple):
    """What a member has to return, in words, and what reads it or raises ValueError, TypeError."""

    text: str
    read: Callable[[Any], Any]


def _answer(
    place: str,
    call: Callable[[], Any],
    wanted: _Wanted,
    passes: tuple[type[BaseException], ...] = _PASSES,
) -> Any:
    try:
        answer = call()
    # The time of the gate was over within it.
    except IncompleteError as error:
        raise IncompleteError(f"{place} was broken off{_where(error)}: {error}") from error
    except passes:
        raise
    # A user's code may raise anything, a skip of pytest's and an exit included.
    except BaseException as error:
        raise fault_of(place, error, wanted.text) from error
    try:
        return wanted.read(answer)
    except (ValueError, TypeError) as error:
        why = f": {error}" if str(error) else f", and has to return {wanted.text}."
        raise KindError(f"{place} returned {answer!r:.80}{why}") from None


def fault_of(place: str, error: BaseException, wanted: str = "") -> KindError:
    """Return what says that a user's code raised, by the place that called it, and where."""
    fault = KindError(
        f"{place} raised {type(error).__name__}: {error}{_where(error)}."
        f"{f' It has to return {wanted}.' * bool(wanted)}"
    )
    # Whoever shows it whole need not raise it first.
    fault.__cause__ = error
    return fault


def _where(error: BaseException) -> str:
    frames = own_frames(error)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _of(kind: type) -> Callable[[Any], Any]:
    """Return what reads a dataclass that a report or a page is made from."""

    def read(answer: Any) -> Any:
        if not isinstance(answer, kind):
            raise TypeError
        return decode(kind, encode(answer))

    return read


def _findings(answer: Any) -> list[Finding]:
    if not isinstance(answer, Sequence) or not all(
        isinstance(finding, Finding) for finding in answer
    ):
        raise TypeError
    return list(answer)


def _alarm(answer: Any) -> Alarm:
    is_alarm = isinstance(answer, Alarm) and callable(answer.p_value)
    if not is_alarm or not 0 < _number(answer.rate) < 1:
        raise TypeError
    return Alarm(answer.p_value, float(answer.rate), bool(answer.is_settled))


def _p_value(answer: Any) -> float:
    if not 0 <= (value := _number(answer)) <= 1:
        raise ValueError
    return value


def _number(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        return math.nan


def _texts(answer: Any) -> dict[str, str]:
    if not isinstance(answer, Mapping):
        raise TypeError
    return decode(dict[str, str], encode(answer))


def _lost(answer: Any) -> Lost:
    if not isinstance(answer, Lost):
        raise TypeError
    encode(answer.then)
    numbers = tuple[int, ...]
    return answer._replace(
        episodes=decode(numbers, encode(answer.episodes)),
        telling=decode(numbers, encode(answer.telling)),
    )


def _object(answer: Any) -> Any:
    """Return what JSON has as an object."""
    plain = encode(answer)
    if not isinstance(plain, dict):
        raise TypeError
    json.dumps(plain, allow_nan=False)
    return answer


_ANYTHING = _Wanted("", lambda answer: answer)
_P_VALUE = _Wanted("a number from 0 to 1", _p_value)
_WANTED: Mapping[str, _Wanted] = {
    "accepts": _Wanted("a MaxVerdict", _of(MaxVerdict)),
    "judge": _Wanted("a Ruling", _of(Ruling)),
    "card": _Wanted("a Card", _of(Card)),
    "compare": _Wanted("a Drift", _of(Drift)),
    "forecast": _Wanted("a ForecastLine", _of(ForecastLine)),
    "alarm": _Wanted("an Alarm: a function p_value, and a rate between 0 and 1", _alarm),
    "together": _Wanted("a list of Finding", _findings),
    "unprovable": _Wanted("a list of Finding", _findings),
    "without_effect": _Wanted("a dict from options to texts", _texts),
    "entry": _Wanted("a dict or a dataclass, of finite numbers and texts", _object),
    "cost": _Wanted("a dict of finite numbers and texts", lambda answer: encode(_object(answer))),
    "lost": _Wanted("a Lost: whole numbers, and how they were lost", _lost),
}
