"""Words: what a result is called, and why a test fails for it, as every report says it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from pytest_cpg.gates.card import Card, Command, Effect, Ruling, Severity
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.session import Row

RERUN = "Rerun this gate"
_STRICT = (
    "--cpg-strict fails what its verdict would let pass: {doubt}. Mend that, or leave --cpg-strict "
    "(cpg_strict) out."
)
# What stands in the place of a label.
_UNJUDGED = {"failed": "FAILED", "error": "ERROR", "missing": "NOT REPORTED"}
_REGRESSED = "The model does worse than the accepted one."
_INCOMPARABLE = (
    "The accepted result was measured under another design, so nothing can be said about drift."
)
_NUMBER = re.compile(r"\d[\d.]*")
_CHANGE = re.compile(r"(\d) -> (?=\d)")
_UPDATE = "on main: {program} --cpg-update-baseline"


def headline(judgement: Judgement) -> str:
    """Return the first sentence, which stands alone: what was found, and what that is called."""
    return f"{label_of(judgement)}: {judgement.card.sentence}."


def sentence(row: Row, *, is_brief: bool = False) -> str:
    """Return what was found, in a sentence that stands alone, its label first."""
    if row.judgement is not None:
        return headline(row.judgement)
    label = _UNJUDGED.get(row.state, row.state)
    return f"{label}: {row.why(is_brief=is_brief) or 'nothing is judged'}"


def alike(rows: Iterable[Row]) -> list[list[Row]]:
    """Return failing comparisons in groups of one reason, in the order of the first of each.

    That is the cause, and what is said of it but for numbers where none is named.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        cause = row.card.cause if row.card is not None else None
        name = cause.name if cause and cause.advice else _NUMBER.sub("", sentence(row))
        groups.setdefault(name, []).append(row)
    return [*groups.values()]


def named_with(row: Row, name: str) -> str:
    """Return a gate's name behind that of its task."""
    return f"{row.card.subject} ({name})" if row.card and row.card.subject else name


def crash_line(judgement: Judgement) -> str:
    """Return the same for one line among those of other tests."""
    card, drift = judgement.card, judgement.drift
    if is_drifted(drift, judgement.reason):
        return f"{drift.label}: {drift.text.partition('; ')[0]}"
    became = f", {drift.label}" * (drift.fails and bool(drift.was)) if drift else ""
    return f"{label_of(judgement)}: {card.sentence}{became}"


def regression(drift: Drift | None) -> str:
    """Return what was lost since when by a gate that got worse; empty for any other."""
    if drift is None or drift.label is not Label.REGRESSED:
        return ""
    return f"{drift.text.partition('; ')[0]} since {drift.since}"


def with_arrows(text: str) -> str:
    """Write "50 -> 11" with an arrow, at which no line breaks."""
    return _CHANGE.sub("\\1\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}", text)


def label_of(judgement: Judgement) -> str:
    """Return what a failure is called: by its drift, its blindness or its verdict."""
    if is_drifted(judgement.drift, judgement.reason):
        return judgement.drift.label.value
    return verdict_of(judgement.ruling)


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


def effect_text(effect: Effect) -> str:
    """Return an effect and its interval, a share to two decimals and all else to three digits."""
    sign, digits = "+" * effect.is_difference, ".2f" if effect.is_share else ".3g"
    interval, form = effect.found, f"{{:{sign}{digits}}}"
    estimate, low, high = map(form.format, (interval.estimate, interval.low, interval.high))
    return f"{estimate} [{low}, {high}]"


def judged(judgement: Judgement) -> str:
    """Say by which number a gate is judged, and what its test accepts."""
    card, accepts = judgement.card, judgement.max_verdict
    numbers = ", ".join(card.texts("judged"))
    if is_blind(judgement.ruling) and not is_drifted(judgement.drift, judgement.reason):
        label = judgement.ruling.label
        lead = f"label {label}" * (label != label_of(judgement))
        parts = [", ".join(filter(None, [lead, numbers]))]
    else:
        better = " or better" * (accepts.severity > Severity.GOOD)
        parts = [numbers, f"accepted here: {accepts.label}{better}"]
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def reasons(judgement: Judgement) -> list[tuple[str, str]]:
    """Return, each behind Why, Do, Note or Accept, why a result is as it is, and what to do."""
    card, drift, reason = judgement.card, judgement.drift, judgement.reason
    cause = card.cause
    is_known = cause is not None and bool(cause.advice)
    texts: list[tuple[str, str]] = []
    if cause is not None and is_known:
        texts += [("Why", f"{cause.name}: {cause.text}"), ("Do", cause.advice)]
    whys = [_begun(text) for text in card.texts("why") if text.rstrip(".") != card.sentence]
    if is_drifted(drift, reason):
        is_worse = drift.label is Label.REGRESSED
        texts += [("Why", _REGRESSED if is_worse else _INCOMPARABLE)] * (not is_known)
    elif is_known and judgement.ruling.severity >= Severity.BAD:
        # What is wrong with a model is known once its cause is, and not why a test fails that
        # accepts the verdict.
        failing = [text for text in whys if text.rstrip(".") == _begun(reason or "").rstrip(".")]
        texts = [*(("Why", text) for text in failing), *texts]
    else:
        texts += [("Why", text) for text in whys]
        texts += [("Do", text) for text in card.texts("do")]
    if cause is not None and not is_known:
        # That none is known is worth less than what the verdict means.
        texts.append(("Note", f"{cause.name}: {cause.text}"))
    texts += [("Note", text) for text in card.texts("note")]
    if is_in_doubt(reason, judgement.ruling):
        texts.append(("Do", _STRICT.format(doubt=reason)))
    accept = _acceptance(judgement)
    return [*texts, ("Accept", accept)] if accept else texts


def _begun(text: str) -> str:
    """Return a text as a sentence begins; what begins with something to type is typed so."""
    return text[:1].upper() + text[1:] if text.split(" ")[0].isalpha() else text


def _acceptance(judgement: Judgement) -> str:
    """Return how a result is accepted as it is; empty where nothing does that."""
    ruling, accepts, reason = judgement.ruling, judgement.max_verdict, judgement.reason
    update = _UPDATE.format(program=program_in(judgement.commands))
    if is_drifted(judgement.drift, reason):
        return update
    if reason != accepts.exceeded or ruling.severity is not Severity.BAD:
        return ""
    written = f'set max_verdict="{ruling.label}"'
    # What nothing runs again is no test, and has no marker.
    where = " in the marker" * bool(judgement.commands)
    return f"{written}{where}" if judgement.drift is None else f"{written}; then {update}"


def program_in(commands: Iterable[Command]) -> str:
    """Return how pytest is typed where these commands are."""
    return next((command.program for command in commands), "pytest")


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

    ``typed`` are the options of the session that decide the gate, by name: what its marker and the
    ini file say need not be said again.
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
