"""Failure section: what a failing gate shows, in text that can be acted on."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from pytest_cpg.gates.card import Card, Cause, Command, Ruling, Table
from pytest_cpg.gates.drift import Drift
from pytest_cpg.render.columns import padded
from pytest_cpg.stats import Interval

_WIDTH = 80
_BAR = 23
_NARROWEST_NAME, _NARROWEST_FACT = 9, 13
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
    """Return the first line: verdict, what was found, why it fails and n, within 80 columns."""
    if is_drifted(drift, reason):
        lead = f"{drift.label} from baseline  {card.verdict or ruling.label} {card.headline}"
        line = f"{lead}  {card.size}"
        return line if len(line) <= _WIDTH else lead
    brief = ruling.brief
    if reason is None:
        brief = "gate passed"
    elif is_in_doubt(reason, ruling):
        brief = "in doubt"
    return "  ".join([" ".join(filter(None, (ruling.label, card.headline, brief))), card.size])


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
    baseline = [("baseline", f"{drift.label}, {drift.text}")] if drift is not None else []
    return [*card.facts, *baseline]


def failure_text(
    card: Card,
    ruling: Ruling,
    *,
    reason: str | None,
    drift: Drift | None = None,
    commands: Sequence[Command] = (),
    not_kept: str = "",
    films: Sequence[str] = (),
    film_problem: str | None = None,
) -> str:
    """Return the whole section that a failing test prints."""
    parts = [headline(card, ruling, reason=reason, drift=drift), "", *_table(card.table)]
    listed = facts(card, drift)
    parts += ["", *_facts(listed)] if listed else []
    if reason is not None:
        texts = paragraphs(card, ruling, reason=reason, drift=drift)
        parts += ["", *(_wrapped(text, "  ") for text in texts)]
    if card.cause is not None:
        parts += ["", *cause_lines(card.cause)]
    if films or film_problem:
        parts += ["", *(f"  film: {path}" for path in films)]
        parts += [_wrapped(f"no film: {film_problem}", "  ")] if film_problem else []
    if not_kept:
        parts += ["", f"  lost episodes were not kept: {not_kept}"]
    for command in commands:
        parts += ["", f"  {command.what}:", f"      {command.text}"]
    return "\n".join(parts)


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


def _facts(listed: Sequence[tuple[str, str]]) -> list[str]:
    width = max([_NARROWEST_FACT, *(len(name) + 1 for name, _ in listed)])
    return [_wrapped(text, " " * (width + 2), lead=f"  {name:{width}s}") for name, text in listed]


def cause_lines(cause: Cause) -> list[str]:
    """Return at most 12 lines, unless two causes, or readings, are named."""
    lines = [f"  {cause.heading} ({cause.source})"]
    for name, numbers, text in cause.measures:
        if name in cause.main:
            told = f"{numbers:22s} {text}" if numbers else text
            lines += _wrapped(told, " " * 15, lead=f"    {name:11s}").splitlines()
    return [*lines, *_wrapped(cause.text, "    ").splitlines()]


def _wrapped(text: str, indent: str, *, lead: str | None = None) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent if lead is None else lead,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
