"""Section: what a failing gate shows on a terminal, laid out in lines that can be acted on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_cpg.gates.card import USUAL_LEVEL, Cause, Command, Ruling, Table
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.notation import percentage
from pytest_cpg.render.bars import bar_text, starts_rows
from pytest_cpg.render.line import COLOURS, OF_ROWS, Line, command_lines, padded, wrapped
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


def section(
    found: Judgement, *, not_kept: str = "", verbosity: int = 0, width: int = 80
) -> list[Line]:
    """Return the whole section that a failing test prints.

    First what was found, then why and what to do, and last what to type. With ``verbosity`` above 0
    it ends in what a reader may look up.

    Parameters
    ----------
    not_kept : str
        Why lost episodes could not be written.
    """
    width = min(max(width, _NARROWEST), _WIDEST)
    card, notes = found.card, [("Note", text) for text in found.card.texts("note")]
    texts = notes if found.reason is None else reasons(found)
    next_steps = [
        *(("Film", path) for path in found.films),
        *([("Film", f"none: {found.film_problem}")] if found.film_problem else []),
        *([("Lost", f"episodes were not kept: {not_kept}")] if not_kept else []),
    ]
    typed = [*_rows(next_steps, width), *_typed(found.commands, width)]
    typed += [
        line for name, text in texts if name == "Accept" for line in _accepted(name, text, width)
    ]
    parts = [
        list(_lead(found, width)),
        [
            *_table(card.table, found.ruling, found.drift, width),
            *starts_rows(card.figures, found.drift, lead=_NAME + 2, width=width),
        ],
        _rows([*card.table.below], width),
        _rows([one for one in texts if one[0] != "Accept"], width, cause=card.cause),
        typed,
    ]
    if verbosity > 0:
        parts += [_facts(card.facts, width), cause_lines(card.cause, width) if card.cause else []]
    return [line for part in parts if part for line in (Line.of(""), *part)][1:]


def broken_section(
    sentence: str, told: Sequence[tuple[str, str]], typed: str, *, width: int = 80
) -> list[Line]:
    """Return what a test prints whose model broke its contract, which ends in what to type."""
    width = min(max(width, _NARROWEST), _WIDEST)
    return [
        *(Line.of(text, bold=True) for text in _wrapped(sentence, width)),
        Line.of(""),
        *_rows(told, width),
        *(Line.of(text, cyan=True) for text in command_lines(typed, lead=_INDENT, width=width)),
    ]


def text_of(lines: Sequence[Line]) -> str:
    """Return what lines say, without their colours."""
    return "\n".join(line.text for line in lines)


def _lead(found: Judgement, width: int) -> Iterator[Line]:
    """Yield what was found, since when, and by what it was judged."""
    drift, reason = found.drift, found.reason
    label, colon, said = headline(found).partition(": ")
    colour = COLOURS[found.ruling.severity] if reason is None else "red"
    if reason == found.max_verdict.exceeded:
        colour = COLOURS[found.ruling.severity]
    first, *more = _wrapped(f"{label}{colon}{said}", width)
    yield Line(((f"{label}:", {colour: True, "bold": True}), (first[len(label) + 1 :], _BOLD)))
    yield from (Line.of(text, bold=True) for text in more)
    if drift is not None and drift.is_news and drift.was:
        for text in _wrapped(drift.sentence, width):
            before, label, _ = text.partition(drift.label)
            markup = {"red": True, "bold": True} if drift.fails else _BOLD
            yield Line(((before, {}), (label, markup)) if label else ((text, {}),))
    yield from (Line.of(text, light=True) for text in _wrapped(judged(found), width))


def _table(table: Table, ruling: Ruling, drift: Drift | None, width: int) -> Iterator[Line]:
    """Yield the rows, each with its estimate as a bar."""
    if not table.rows:
        return
    is_unusual = any(name.endswith("% CI") and name != _USUAL for name in table.columns)
    has_heading = is_unusual or len(table.columns) > _PLAIN_COLUMNS
    cells = [*[table.columns] * has_heading, *(row.cells for row in table.rows)]
    first = padded([one[:1] for one in cells], "")
    rest = padded([one[1:] for one in cells], "  " if has_heading else " ")
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
        yield _trimmed(parts)


def _axis(table: Table) -> tuple[float, float]:
    """Return the scale of a table's bars: below zero there is room only where a number is."""
    low, high = table.axis
    is_above = all(row.bound.estimate >= 0 for row in table.rows if row.bound)
    return (0.0, high) if low < 0 < high and is_above else (low, high)


def _trimmed(parts: Sequence[tuple[str, Mapping[str, bool]]]) -> Line:
    """Return a line without blanks at its end."""
    shown = [*parts]
    while shown and not shown[-1][0].strip():
        shown.pop()
    if shown:
        text, markup = shown[-1]
        shown[-1] = (text.rstrip(), markup)
    return Line(tuple((text, markup) for text, markup in shown if text))


def _rows(told: Sequence[tuple[str, str]], width: int, *, cause: Cause | None = None) -> list[Line]:
    """Return texts behind their names, the name of a cause in colour."""
    lines: list[Line] = []
    space = max([_NAME, *(len(name) for name, _ in told)])
    for name, text in told:
        lead = f"  {name:{space}s}  "
        first, *more = _wrapped(text, width, lead)
        beginning = first[len(lead) :]
        known = f"{cause.name}:" if cause is not None else ""
        if known and beginning.startswith(known):
            shown = {"yellow": True, "bold": True}
            lines.append(Line(((lead, _BOLD), (known, shown), (beginning[len(known) :], {}))))
        else:
            lines.append(Line(((lead, _BOLD), (beginning, {}))))
        lines += map(Line.of, more)
    return lines


def _typed(commands: Sequence[Command], width: int) -> Iterator[Line]:
    for command in commands:
        lead = _lead_of(command.what.partition(" ")[0])
        first, *more = command_lines(command.text, lead=lead, width=width)
        yield Line(((lead, _BOLD), (first[len(lead) :], {"cyan": True})))
        yield from (Line.of(text, cyan=True) for text in more)


def _accepted(name: str, text: str, width: int) -> Iterator[Line]:
    """Yield how to accept a result: what is typed stands alone where not all fits into a line."""
    before, typed, command = text.partition("pytest ")
    lead = _lead_of(name)
    if len(lead + text) <= width or not before:
        yield Line(((lead, _BOLD), (before, {}), (typed + command, {"cyan": True})))
        return
    yield from _rows([(name, before.rstrip())], width)
    if typed:
        yield Line(((_INDENT, {}), (typed + command, {"cyan": True})))


def _facts(listed: Sequence[tuple[str, str]], width: int) -> list[Line]:
    space = max([_NARROWEST_FACT, *(len(name) for name, _ in listed)])
    lines = [Line.of("  Facts", bold=True)] * bool(listed)
    for name, text in listed:
        lines += map(Line.of, _wrapped(text, width, f"  {name:{space}s}  "))
    return lines


def cause_lines(cause: Cause, width: int = 80) -> list[Line]:
    """Return what a cause was found by, in a line for each of the main measures."""
    lines = [Line.of(f"  {cause.heading} ({cause.source})", bold=True)]
    for name, numbers, text in cause.measures:
        if name in cause.main:
            told = f"{numbers:22s} {text}" if numbers else text
            lines += map(Line.of, _wrapped(told, width, f"    {name:11s}"))
    return lines


def _lead_of(name: str) -> str:
    return f"  {name:{_NAME}s}  "


def _wrapped(text: str, width: int, lead: str = "") -> list[str]:
    return wrapped(text, width, lead) or [lead.rstrip()]
