"""Failure section: what a failing gate shows, in text that can be acted on."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from pytest_cpg.gates.card import Card, Cause, Command, Figure, Ruling, Severity, Table
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.kind import MaxVerdict
from pytest_cpg.render.columns import padded
from pytest_cpg.stats import Interval

_WIDTH = 80
_BAR = 23
_NARROWEST_NAME, _NARROWEST_FACT = 9, 13
# Of the sets of cells, in their order: as it should be, worse, better, neither.
_SIGNS = ".Xo-"
_CELLS_IN_GROUP, _CELLS_IN_ROW, _MOST_ROWS = 10, 50, 3
_STRICT = (
    "--cpg-strict fails what its verdict would let pass: {doubt}. Mend that, or leave --cpg-strict "
    "(cpg_strict) out."
)
_DRIFT = {
    False: (
        "The model on this branch does worse than the accepted one. If that is what you want, "
        "accept it where the baseline is kept: run pytest --cpg-update-baseline there and commit "
        "the file."
    ),
    True: (
        "The accepted result was measured under another design, so nothing can be said about "
        "drift. Accept a result of the new design: run pytest --cpg-update-baseline and commit "
        "the file."
    ),
}


def headline(card: Card, ruling: Ruling, *, reason: str | None, drift: Drift | None = None) -> str:
    """Return the first sentence, which stands alone: what was found, and what that is called."""
    label = drift.label if is_drifted(drift, reason) else ruling.label
    found = card.sentence or ", ".join(filter(None, (card.headline, card.size)))
    return f"{label}: {found}."


def is_drifted(drift: Drift | None, reason: str | None) -> TypeGuard[Drift]:
    """Say whether a test fails for how its result compares with the accepted one."""
    return drift is not None and reason == drift.text


def is_in_doubt(reason: str | None, ruling: Ruling) -> bool:
    """Say whether a test fails for a doubt alone."""
    return reason is not None and reason != ruling.reason and reason == ruling.doubt


def paragraphs(card: Card, ruling: Ruling, *, reason: str | None, drift: Drift | None) -> list[str]:
    """Return what the ruling means, what to do and what to know, wherever that is explained."""
    texts = [*card.meaning, *card.paragraphs]
    if is_drifted(drift, reason):
        return [_DRIFT[drift.label == "INCOMPARABLE"], *card.paragraphs]
    return [*texts, _STRICT.format(doubt=reason)] if is_in_doubt(reason, ruling) else texts


def facts(card: Card, drift: Drift | None) -> list[tuple[str, str]]:
    """Return what a reader may look up, with how the result compares with the accepted one."""
    baseline = [("baseline", drift.sentence)] if drift is not None else []
    return [*card.facts, *baseline]


def failure_text(
    card: Card,
    ruling: Ruling,
    max_verdict: MaxVerdict,
    *,
    reason: str | None,
    drift: Drift | None = None,
    commands: Sequence[Command] = (),
    not_kept: str = "",
    films: Sequence[str] = (),
    film_problem: str | None = None,
    verbosity: int = 0,
) -> str:
    """Return the whole section that a failing test prints.

    First what was found, then why and what to do, and last what to type. With ``verbosity`` above 0
    it ends in what a reader may look up.
    """
    is_said = bool(reason and card.sentence and reason.startswith(card.sentence))
    by_what = judged(card, max_verdict, reason=reason, drift=drift)
    next_steps = [
        *(("Film", path) for path in films),
        *([("Film", f"none: {film_problem}")] if film_problem else []),
        *([("Lost", f"episodes were not kept: {not_kept}")] if not_kept else []),
    ]
    typed = [f"  {_name(one.what):{_NARROWEST_NAME}s} {one.text}" for one in commands]
    parts = [
        [
            _wrapped(text, "")
            for text in (
                headline(card, ruling, reason=reason, drift=drift),
                *([drift.sentence] if drift and drift.is_news and drift.was else []),
                # What is wrong with a broken model may be all that there is to say.
                *([] if is_said else [by_what]),
            )
        ],
        _table(card.table),
        _cells(card.figures),
        _rows(reasons(card, ruling, reason=reason, drift=drift)),
        # What is typed is not broken, and may be longer than a line.
        [*_rows(next_steps), *typed],
    ]
    if verbosity > 0:
        parts += [_facts(card.facts), cause_lines(card.cause) if card.cause else []]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def judged(card: Card, max_verdict: MaxVerdict, *, reason: str | None, drift: Drift | None) -> str:
    """Say by which number a gate is judged, and what its test accepts."""
    found = f"{card.headline[:1].upper()}{card.headline[1:]}."
    if reason in (None, max_verdict.exceeded) or is_drifted(drift, reason):
        better = " or better" * (max_verdict.severity > Severity.GOOD)
        return f"{found} Accepted here: {max_verdict.label}{better}."
    return f"{found} Failed, as {reason}."


def reasons(
    card: Card, ruling: Ruling, *, reason: str | None, drift: Drift | None
) -> list[tuple[str, str]]:
    """Return why a result is as it is and what to do, by the cause where one was found."""
    if reason is None:
        return []
    named = {**dict.fromkeys(card.meaning, "Why"), **dict.fromkeys(card.paragraphs, "Note")}
    told = [
        (named.get(text, "Do"), text)
        for text in paragraphs(card, ruling, reason=reason, drift=drift)
        # What it is judged by has just been said.
        if text != reason
    ]
    cause = card.cause
    if cause is None:
        return told
    # What is wrong with a model is known once its cause is; what is wrong with a gate is not.
    is_known = bool(cause.advice) and ruling.severity is Severity.BAD
    others = [(name, text) for name, text in told if name != "Why" or not is_known]
    advice = [("Do", cause.advice)] * bool(cause.advice)
    return [("Why", f"{cause.name}: {cause.text}"), *advice, *others]


def rerun_command(
    card: Card, node: str, typed: Mapping[str, Any], *, is_strict: bool = False
) -> Command:
    """Return the command that measures the same once more.

    Parameters
    ----------
    typed : mapping
        Option name to value, of what was asked of the session and decides the gate: it may have
        overruled a marker.
    """
    words = [
        f"--cpg-{name.replace('_', '-')}" + ("" if value is True else f"={shlex.quote(str(value))}")
        # What was measured has the last word, and the first place.
        for name, value in {**card.rerun, **typed, **card.rerun}.items()
    ]
    words += ["--cpg-strict"] * is_strict
    text = " ".join(["pytest", shlex.quote(node), *words])
    return Command(what=f"Rerun this gate{' exactly' * bool(card.rerun)}", text=text)


def _table(table: Table) -> list[str]:
    """Return the table with its intervals drawn, and what follows from it."""
    has_bars = any(row.bound for row in table.rows)
    lines = padded([table.columns, *(row.cells for row in table.rows)], "   ")
    bars = [_scale(table.axis) if has_bars else ""]
    bars += [_bar(row.bound, table.axis) if row.bound else "" for row in table.rows]
    names = [table.name, *(row.name for row in table.rows)]
    width = max(_NARROWEST_NAME, *map(len, names))
    shown = [
        f"  {name:{width}s}  {line}   {bar}".rstrip()
        for name, line, bar in zip(names, lines, bars, strict=True)
    ]
    return shown + [
        _wrapped(text, " " * (width + 3), lead=f"  {name:{width}s} ") for name, text in table.below
    ]


def _scale(axis: tuple[float, float]) -> str:
    low, high = (f"{end:g}" for end in axis)
    return f"{low}{f'{sum(axis) / 2:g}':^{_BAR - len(low) - len(high)}s}{high}"


def _bar(bound: Interval, axis: tuple[float, float]) -> str:
    """Draw an interval on a scale; what lies beyond an end stands there."""
    low, at, high = (
        round(min(max((value - axis[0]) / (axis[1] - axis[0]), 0.0), 1.0) * (_BAR - 1))
        for value in (bound.low, bound.estimate, bound.high)
    )
    cells = ["."] * low + ["="] * (high - low + 1)
    cells[low] = cells[high] = "|"
    cells[at] = "o"
    return "".join(cells)


def _name(what: str) -> str:
    """Return what a command does, in one word."""
    return what.partition(" ")[0]


def _rows(told: Sequence[tuple[str, str]]) -> list[str]:
    """Return texts behind their names, in the columns of the table's names."""
    indent = " " * (_NARROWEST_NAME + 3)
    return [
        _wrapped(text.removeprefix(f"{name}: "), indent, lead=f"  {name:{_NARROWEST_NAME}s} ")
        for name, text in told
    ]


def _cells(figures: Sequence[Figure]) -> list[str]:
    """Return one sign for each cell of the first figure that has some, and what the signs mean."""
    drawn = next((one for one in figures if one.kind == "cells" and any(one.series.values())), None)
    if drawn is None:
        return []
    sets = list(zip(_SIGNS, drawn.series.items(), strict=False))
    signs = {cell: sign for sign, (_, cells) in sets for cell in cells}
    ordered = "".join(signs[cell] for cell in sorted(signs))
    shown = [ordered[at : at + _CELLS_IN_ROW] for at in range(0, len(ordered), _CELLS_IN_ROW)]
    lines = [
        " ".join(row[at : at + _CELLS_IN_GROUP] for at in range(0, len(row), _CELLS_IN_GROUP))
        for row in shown[:_MOST_ROWS]
    ]
    more = len(ordered) - _MOST_ROWS * _CELLS_IN_ROW
    lines += [f"... and {more} more"] if more > 0 else []
    meant = "   ".join(f"{sign} {name}: {len(cells)}" for sign, (name, cells) in sets if cells)
    lines += textwrap.wrap(meant, _WIDTH - _NARROWEST_NAME - 3)
    names = [drawn.axes[0], *[""] * (len(lines) - 1)]
    return [f"  {name:{_NARROWEST_NAME}s} {line}" for name, line in zip(names, lines, strict=True)]


def _facts(listed: Sequence[tuple[str, str]]) -> list[str]:
    width = max([_NARROWEST_FACT, *(len(name) + 1 for name, _ in listed)])
    return [_wrapped(text, " " * (width + 2), lead=f"  {name:{width}s}") for name, text in listed]


def cause_lines(cause: Cause) -> list[str]:
    """Return what a cause was found by, in a line for each of the main measures."""
    lines = [f"  {cause.heading} ({cause.source})"]
    for name, numbers, text in cause.measures:
        if name in cause.main:
            told = f"{numbers:22s} {text}" if numbers else text
            lines += _wrapped(told, " " * 15, lead=f"    {name:11s}").splitlines()
    return lines


def _wrapped(text: str, indent: str, *, lead: str | None = None) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent if lead is None else lead,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
