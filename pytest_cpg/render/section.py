"""Section: what a failing gate shows on a terminal, laid out in lines that can be acted on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from pytest_cpg.gates.card import USUAL_LEVEL, Cause, Figure, Ruling, Table
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.notation import percentage
from pytest_cpg.render.line import (
    COLOURS,
    OF_ROWS,
    Line,
    bar_text,
    command_lines,
    padded,
    wrapped,
)
from pytest_cpg.render.words import headline, judged, reasons
from pytest_cpg.report.ledger import Judgement

# Less has no room for a table, and longer lines are hard to read.
_NARROWEST, _WIDEST = 60, 120
# Names of rows, and the blanks around them.
_NAME = 7
_INDENT = " " * (_NAME + 4)
_NARROWEST_FACT = 9
# Bars are tens of signs long; shorter ones tell nothing.
_STEP, _LONGEST = 10, 80
# What as many columns hold explains itself, and needs no heading at the usual level.
_PLAIN_COLUMNS = 3
_USUAL = f"{percentage(USUAL_LEVEL)} CI"
_BOLD: Mapping[str, bool] = {"bold": True}
_CYAN: Mapping[str, bool] = {"cyan": True}
# Of the sets of cells, in their order: as it should be, worse, better, neither.
_SIGNS = ".Xo-"
_LOST_NOW, _LOST_BEFORE = "X", "x"
_SIGN_COLOURS: Mapping[str, Mapping[str, bool]] = {
    "X": {"red": True, "bold": True},
    "x": {"red": True},
    ".": {"light": True},
    "-": {"light": True},
}
_IN_GROUP, _IN_ROW, _MOST_ROWS = 10, 50, 3
_BETWEEN = "   "


def section(judgement: Judgement, *, verbosity: int = 0, width: int = 80) -> list[Line]:
    """Return the whole section that a failing test prints.

    First what was found, then why and what to do, and last what to type. With ``verbosity`` above 0
    it ends in what a reader may look up.
    """
    width = min(max(width, _NARROWEST), _WIDEST)
    card, drift = judgement.card, judgement.drift
    notes = [("Note", text) for text in card.texts("note")]
    texts = notes if judgement.reason is None else reasons(judgement)
    undrawn, unkept = judgement.strip_problem, judgement.lost_problem
    problems = [("Film", f"none: {undrawn}")] * bool(undrawn)
    problems += [("Lost", f"episodes were not kept: {unkept}")] * bool(unkept)
    typed = _rows(problems, width)
    for command in judgement.commands:
        lead = _lead_of(command.what.partition(" ")[0])
        first, *more = command_lines(command.text, lead=lead, width=width)
        typed.append(Line(((lead, _BOLD), (first[len(lead) :], _CYAN))))
        typed += (Line.of(text, cyan=True) for text in more)
    for name, text in texts:
        if name == "Accept":
            typed += _accepted(name, text, width)
    parts = [
        list(_lead(judgement, width)),
        [*_table(card.table, judgement.ruling, drift, width), *_starts(card.figures, drift, width)],
        _rows([*card.table.below], width),
        _rows([text for text in texts if text[0] != "Accept"], width, cause=card.cause),
        typed,
    ]
    if verbosity > 0:
        space = max([_NARROWEST_FACT, *(len(name) for name, _ in card.facts)])
        facts = [Line.of("  Facts", bold=True)] * bool(card.facts)
        for name, text in card.facts:
            facts += map(Line.of, _wrapped(text, width, f"  {name:{space}s}  "))
        parts += [facts, cause_lines(card.cause, width) if card.cause else []]
    return [line for part in parts if part for line in (Line.of(""), *part)][1:]


def broken_section(
    sentence: str, rows: Sequence[tuple[str, str]], typed: str, *, width: int = 80
) -> list[Line]:
    """Return what a test prints whose model broke its contract, which ends in what to type."""
    width = min(max(width, _NARROWEST), _WIDEST)
    return [
        *(Line.of(text, bold=True) for text in _wrapped(sentence, width)),
        Line.of(""),
        *_rows(rows, width),
        *(Line.of(text, cyan=True) for text in command_lines(typed, lead=_INDENT, width=width)),
    ]


def text_of(lines: Sequence[Line]) -> str:
    """Return what lines say, without their colours."""
    return "\n".join(line.text for line in lines)


def _lead(judgement: Judgement, width: int) -> Iterator[Line]:
    """Yield what was found, since when, and by what it was judged."""
    drift, reason = judgement.drift, judgement.reason
    label, colon, sentence = headline(judgement).partition(": ")
    is_verdict = reason in (None, judgement.max_verdict.exceeded)
    colour = COLOURS[judgement.ruling.severity] if is_verdict else "red"
    first, *more = _wrapped(f"{label}{colon}{sentence}", width)
    yield Line(((f"{label}:", {colour: True, "bold": True}), (first[len(label) + 1 :], _BOLD)))
    yield from (Line.of(text, bold=True) for text in more)
    if drift is not None and drift.is_news and drift.was:
        for text in _wrapped(drift.sentence, width):
            before, label, _ = text.partition(drift.label)
            markup = {"red": True, "bold": True} if drift.fails else _BOLD
            yield Line(((before, {}), (label, markup)) if label else ((text, {}),))
    yield from (Line.of(text, light=True) for text in _wrapped(judged(judgement), width))


def _table(table: Table, ruling: Ruling, drift: Drift | None, width: int) -> Iterator[Line]:
    """Yield the rows, each with its estimate as a bar."""
    if not table.rows:
        return
    is_unusual = any(name.endswith("% CI") and name != _USUAL for name in table.columns)
    has_heading = is_unusual or len(table.columns) > _PLAIN_COLUMNS
    cells = [*[table.columns] * has_heading, *(row.cells for row in table.rows)]
    first = padded([row[:1] for row in cells], "")
    rest = padded([row[1:] for row in cells], "  " if has_heading else " ")
    space = max([_NAME, *(len(row.name) for row in table.rows)])
    taken = len(f"  {'':{space}s}  {first[0]}    {rest[0]}")
    size = min((width - taken) // _STEP * _STEP, _LONGEST)
    size = max(size, 0) if any(row.bound for row in table.rows) else 0
    between = "  " if size else ""
    if has_heading:
        lead = f"  {table.name:{space}s}  {first.pop(0)}{between}"
        yield Line.of(f"{lead}{'':{size}s}  {rest.pop(0)}".rstrip(), light=True)
    then, axis = drift.then if drift is not None else {}, _axis(table)
    for row, number, numbers in zip(table.rows, first, rest, strict=True):
        colour = {OF_ROWS.get(row.name, COLOURS[ruling.severity]): True}
        bar, was = "", ""
        if row.bound is not None and size:
            bar, was = bar_text(row.bound.estimate, axis, size, then=then.get(row.name))
        rate, bracket, ends = numbers.partition("[")
        parts: list[tuple[str, Mapping[str, bool]]] = [
            (f"  {row.name:{space}s}  {number}{between}", {}),
            (bar, colour),
            (was, {**colour, "light": True}),
            (f"{'':{size - len(bar) - len(was)}s}  {rate}", {}),
            (f"{bracket}{ends}", {"light": True}),
        ]
        # No line has blanks at its end.
        while len(parts) > 1 and not parts[-1][0].strip():
            parts.pop()
        text, markup = parts.pop()
        parts.append((text.rstrip(), markup))
        yield Line(tuple(part for part in parts if part[0]))


def _axis(table: Table) -> tuple[float, float]:
    """Return the scale of a table's bars: below zero there is room only where a number is."""
    low, high = table.axis
    is_above = all(row.bound.estimate >= 0 for row in table.rows if row.bound)
    return (0.0, high) if low < 0 < high and is_above else (low, high)


def _starts(figures: Sequence[Figure], drift: Drift | None, width: int) -> Iterator[Line]:
    """Yield a sign for each cell, and what signs mean; those lost since the baseline stand out."""
    with_cells = (figure for figure in figures if figure.kind == "cells")
    figure = next((figure for figure in with_cells if any(figure.series.values())), None)
    if figure is None:
        return
    signs: dict[int, str] = {}
    names: dict[str, str] = {}
    for sign, (name, cells) in zip(_SIGNS, figure.series.items(), strict=False):
        names[sign] = name
        signs |= dict.fromkeys(cells, sign)
    if drift is not None and drift.worse is not None:
        lost_before = {cell for cell, sign in signs.items() if sign == _LOST_NOW} - {*drift.worse}
        signs |= dict.fromkeys(lost_before, _LOST_BEFORE) | dict.fromkeys(drift.worse, _LOST_NOW)
        names |= {_LOST_NOW: f"lost since {drift.since}", _LOST_BEFORE: "lost before, too"}
    ordered = "".join(signs[cell] for cell in sorted(signs))
    in_row = min(figure.across, _IN_ROW) or _IN_ROW
    most = _MOST_ROWS * _IN_ROW // in_row
    shown = [ordered[at : at + in_row] for at in range(0, len(ordered), in_row)][:most]
    name = f"{figure.axes[0]}s"
    lead = max(_NAME, len(name)) + 2
    for row in shown:
        text = " ".join(row[at : at + _IN_GROUP] for at in range(0, len(row), _IN_GROUP))
        alike = ("".join(same) for _, same in groupby(text))
        yield Line(
            ((f"  {name:{lead}s}", {}), *((run, _SIGN_COLOURS.get(run[0], {})) for run in alike))
        )
        name = ""
    indent, more = " " * (lead + 2), len(ordered) - most * in_row
    if more > 0:
        yield Line.of(f"{indent}... and {more} more")
    counted = [(sign, ordered.count(sign)) for sign in "Xx.o-"]
    line = ""
    for meaning in [f"{sign} {names[sign]}: {count}" for sign, count in counted if count]:
        if line and len(f"{indent}{line}{_BETWEEN}{meaning}") > width:
            yield Line.of(f"{indent}{line}")
            line = ""
        line = f"{line}{_BETWEEN * bool(line)}{meaning}"
    yield Line.of(f"{indent}{line}")


def _rows(
    named: Sequence[tuple[str, str]], width: int, *, cause: Cause | None = None
) -> list[Line]:
    """Return texts behind their names, the name of a cause in colour."""
    lines: list[Line] = []
    space = max([_NAME, *(len(name) for name, _ in named)])
    heading = f"{cause.name}:" if cause else ""
    for name, text in named:
        lead = f"  {name:{space}s}  "
        first, *more = _wrapped(text, width, lead)
        rest = first[len(lead) :]
        shown = heading if rest.startswith(heading) else ""
        colour = {"yellow": True, "bold": True}
        coloured = [(shown, colour)] if shown else []
        lines.append(Line(((lead, _BOLD), *coloured, (rest[len(shown) :], {}))))
        lines += map(Line.of, more)
    return lines


def _accepted(name: str, text: str, width: int) -> Iterator[Line]:
    """Yield how to accept a result: what is typed stands alone where not all fits into a line."""
    before, typed, command = text.partition("pytest ")
    lead = _lead_of(name)
    if len(lead + text) <= width or not before:
        yield Line(((lead, _BOLD), (before, {}), (typed + command, _CYAN)))
        return
    yield from _rows([(name, before.rstrip())], width)
    if typed:
        yield Line(((_INDENT, {}), (typed + command, _CYAN)))


def cause_lines(cause: Cause, width: int = 80) -> list[Line]:
    """Return what a cause was found by, in a line for each of the main measures."""
    lines = [Line.of(f"  {cause.heading} ({cause.source})", bold=True)]
    for name, numbers, text in cause.measures:
        if name in cause.main:
            measure = f"{numbers:22s} {text}" if numbers else text
            lines += map(Line.of, _wrapped(measure, width, f"    {name:11s}"))
    return lines


def _lead_of(name: str) -> str:
    return f"  {name:{_NAME}s}  "


def _wrapped(text: str, width: int, lead: str = "") -> list[str]:
    return wrapped(text, width, lead) or [lead.rstrip()]
