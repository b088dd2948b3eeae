"""Failure: what a failing gate says, in sentences that every report shows."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from pytest_cpg.gates.card import Card, Command, Ruling, Severity
from pytest_cpg.gates.drift import Drift
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.session import Row

RERUN = "Rerun this gate"
_STRICT = (
    "--cpg-strict fails what its verdict would let pass: {doubt}. Mend that, or leave --cpg-strict "
    "(cpg_strict) out."
)
_REGRESSED = "The model does worse than the accepted one."
_INCOMPARABLE = (
    "The accepted result was measured under another design, so nothing can be said about drift."
)
_UPDATE = "on main: {program} --cpg-update-baseline"


def headline(found: Judgement) -> str:
    """Return the first sentence, which stands alone: what was found, and what that is called."""
    card = found.card
    said = card.sentence or ", ".join(filter(None, (card.headline, card.size)))
    return f"{label_of(found)}: {said}."


def sentence(row: Row, *, is_brief: bool = False) -> str:
    """Return what was found, in a sentence that stands alone, its label first."""
    if row.judgement is not None:
        return headline(row.judgement)
    return f"{row.unjudged}: {row.why(is_brief=is_brief) or 'nothing is judged'}"


def crash_line(found: Judgement) -> str:
    """Return the same for one line among those of other tests."""
    card, drift = found.card, found.drift
    if is_drifted(drift, found.reason):
        return f"{drift.label}: {drift.text.partition('; ')[0]}"
    became = f", {drift.label}" * (drift.fails and bool(drift.was)) if drift else ""
    return f"{label_of(found)}: {card.brief or card.sentence or card.headline}{became}"


def label_of(found: Judgement) -> str:
    """Return what a failure is called: by its drift, its blindness or its verdict."""
    if is_drifted(found.drift, found.reason):
        return found.drift.label.value
    return verdict_of(found.ruling)


def verdict_of(ruling: Ruling) -> str:
    """Return what a ruling is called wherever it is shown: of a blind gate that it is one."""
    return Severity.BLIND.name if is_blind(ruling) else ruling.label


def is_blind(ruling: Ruling) -> bool:
    """Say whether a gate could not have failed, where a model was judged."""
    return ruling.severity is Severity.BLIND and not ruling.check


def is_drifted(drift: Drift | None, reason: str | None) -> TypeGuard[Drift]:
    """Say whether a test fails for how its result compares with the accepted one."""
    return drift is not None and reason == drift.text


def is_in_doubt(reason: str | None, ruling: Ruling) -> bool:
    """Say whether a test fails for a doubt alone."""
    return reason is not None and reason != ruling.reason and reason == ruling.doubt


def facts(card: Card, drift: Drift | None) -> list[tuple[str, str]]:
    """Return what a reader may look up, with how the result compares with the accepted one."""
    baseline = [("baseline", drift.sentence)] if drift is not None else []
    return [*card.facts, *baseline]


def judged(found: Judgement) -> str:
    """Say by which number a gate is judged, and what its test accepts."""
    card, accepts, reason = found.card, found.max_verdict, found.reason
    if is_blind(found.ruling) and not is_drifted(found.drift, reason):
        label = found.ruling.label
        lead = f"Label {label}, " if label != label_of(found) else ""
        return f"{lead}{card.headline}."
    # Without a sentence the headline is the first line.
    said = f"{card.headline[:1].upper()}{card.headline[1:]}. " if card.sentence else ""
    if reason in (None, accepts.exceeded) or is_drifted(found.drift, reason):
        better = " or better" * (accepts.severity > Severity.GOOD)
        return f"{said}Accepted here: {accepts.label}{better}."
    end = "" if reason.endswith((".", "?")) else "."
    return f"{said}Failed: {reason}{end}"


def reasons(found: Judgement) -> list[tuple[str, str]]:
    """Return why a result is as it is, what to do, what to know, and how to accept it.

    Each has its name: Why, Do, Note or Accept.
    """
    card, ruling, drift, reason = found.card, found.ruling, found.drift, found.reason
    told: list[tuple[str, str]] = []
    cause = card.cause
    is_known = cause is not None and bool(cause.advice)
    named = [("Why", f"{cause.name}: {cause.text}")] if cause is not None else []
    if cause is not None and is_known:
        told += [*named, ("Do", cause.advice)]
    if is_drifted(drift, reason):
        is_worse = drift.label == "REGRESSED"
        told += [("Why", _REGRESSED if is_worse else _INCOMPARABLE)] * (not is_known)
    # What is wrong with a model is known once its cause is; what is wrong with a gate is not.
    elif not is_known or ruling.severity < Severity.BAD:
        # What it is judged by has just been said.
        told += [("Why", text) for text in card.meaning if text != reason]
        told += [("Do", text) for text in card.advice]
    # That none is known is worth less than what the verdict means.
    told += [] if is_known else [("Note", text) for _, text in named]
    told += [("Note", text.removeprefix("Note: ")) for text in card.paragraphs if text != reason]
    if is_in_doubt(reason, ruling):
        told.append(("Do", _STRICT.format(doubt=reason)))
    accept = _acceptance(found)
    return [*told, ("Accept", accept)] if accept else told


def _acceptance(found: Judgement) -> str:
    """Return how a result is accepted as it is; empty where nothing does that."""
    ruling, accepts, reason = found.ruling, found.max_verdict, found.reason
    update = _UPDATE.format(program=program_in(found.commands))
    if is_drifted(found.drift, reason):
        return update
    if reason != accepts.exceeded or ruling.severity is not Severity.BAD:
        return ""
    written = f'set max_verdict="{ruling.label}"'
    # What nothing runs again is no test, and has no marker.
    where = " in the marker" * bool(found.commands)
    return f"{written}{where}" if found.drift is None else f"{written}; then {update}"


def program_in(commands: Iterable[Command]) -> str:
    """Return how pytest is typed where these commands are."""
    return next((one.program for one in commands), "pytest")


def rerun_command(
    card: Card,
    ruling: Ruling,
    node: str,
    typed: Mapping[str, Any],
    *,
    program: str = "pytest",
    is_strict: bool = False,
) -> Command:
    """Return the command that measures once more, on new starts where that settles a verdict.

    Parameters
    ----------
    typed : mapping
        Option name to value, of what was asked of the session and decides the gate; what its
        marker and the ini file say need not be said again.
    """
    settle = card.settle if ruling.severity is Severity.UNSURE else {}
    what = f"{RERUN} on new starts" if "seed" in settle else RERUN
    text = run_of(program, node, {**typed, **settle}) + " --cpg-strict" * is_strict
    return Command(what=what, text=text, program=program)


def run_of(program: str, node: str, typed: Mapping[str, Any]) -> str:
    """Return what runs a gate with these options, by name; True is an option alone.

    >>> run_of("pytest", "t.py::test_gate[a b]", {"seed": 7, "no_cache": True})
    "pytest 't.py::test_gate[a b]' --cpg-seed=7 --cpg-no-cache"
    """
    words = [
        f"--cpg-{name.replace('_', '-')}" + ("" if value is True else f"={shlex.quote(str(value))}")
        for name, value in typed.items()
    ]
    return " ".join([program, shlex.quote(node), *words])
