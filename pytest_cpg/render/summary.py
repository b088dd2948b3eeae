"""Summary: one line for every gate of the session."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_cpg.gates.card import Card
from pytest_cpg.gates.notation import Names, fitted_names, for_log, one_line
from pytest_cpg.render.columns import aligned
from pytest_cpg.report.ledger import Entry, Judgement, Ledger
from pytest_cpg.report.outcomes import WORDS, comparison_outcome, gate_outcome

# The mark, and blanks on both sides of it, of the numbers and of the name.
_MARK_AND_BLANKS = 5
_NARROWEST_COLUMN = 4
_UNSEEN = "a drop below {} may pass: larger ones fail 4 times in 5"
_PASSING = ("passed", "inconclusive")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text and how the terminal marks it up."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


def title(ledger: Ledger) -> str:
    """Return the heading of the summary."""
    gates = ledger.gates
    counted = Counter(map(_gate_outcome, ledger.entries.values()))
    counted["missing"] = len(ledger.missing)
    del counted["passed"]
    counts = [f"{counted[outcome]} {word}" for outcome, word in WORDS.items() if counted[outcome]]
    done = "all passed" if gates else "none collected"
    if any(found.fails for found in ledger.findings):
        done = "the session fails"
    rulings = [one.ruling for entry in ledger.entries.values() for one in entry.judgements]
    checks = {ruling.check for ruling in rulings}
    what = f" {checks.pop()}" if len(checks) == 1 and checks != {""} else ""
    return f"cpg{what}: {len(gates)} gate{'s'[: len(gates) != 1]}, {', '.join(counts) or done}"


def _gate_outcome(entry: Entry) -> str:
    return gate_outcome(entry.outcome, [one.ruling.severity for one in entry.judgements])


def summary_lines(ledger: Ledger, *, width: int, verbosity: int = 0) -> list[Line]:
    """Return the table of all gates, fit for a terminal of this width.

    With ``verbosity`` below 0 only gates that did not simply pass are listed.
    """
    rows = [row for gate in ledger.entries for row in _rows(ledger, gate)]
    cells, headings = aligned([row.card.cells for row in rows], least=_NARROWEST_COLUMN)
    rows = [row._replace(cells=line) for row, line in zip(rows, cells, strict=True)]
    numbers = max(map(len, headings.values()), default=0)
    verdicts = max([len(row.verdict) for row in rows], default=0)
    names = fitted_names(ledger.gates, width - _MARK_AND_BLANKS - numbers - verdicts)
    by_gate: dict[str, list[_Row]] = {}
    for row in rows:
        by_gate.setdefault(row.gate, []).append(row)
    lines = [Line(f" {names.shared}")] if names.shared else []
    columns: tuple[str, ...] | None = None
    for gate in ledger.gates:
        own = by_gate.get(gate, [])
        of_gate = list(_gate_lines(ledger, gate, own, names, verbosity, width))
        wanted = own[0].columns if own else columns or next(iter(headings), ())
        # A heading stands wherever what is below it changes.
        if of_gate and wanted != columns:
            numbered = f" {headings[wanted]} verdict" if wanted else ""
            lines.append(Line(f" {'gate':{names.width + 2}s}{numbered}".rstrip()))
            columns = wanted
        lines += of_gate
    if verbosity >= 0:
        notes = dict.fromkeys(note for row in rows for note in row.card.footnotes)
        lines += [line for note in notes for line in _wrapped(note, " ", width)]
    if verbosity == 0:
        lines += _wrapped(_unseen(rows), " ", width)
    for found in ledger.findings:
        if found.fails or verbosity >= 0:
            lines += _wrapped(found.text, " ", width, _RED if found.fails else {})
    if ledger.missing:
        lines.append(
            Line(
                f" {len(ledger.gates) - len(ledger.missing)} of {len(ledger.gates)} gates reported",
                {"red": True},
            )
        )
        if ledger.are_workers_cut or not ledger.resumable.isdisjoint(ledger.missing):
            lines.append(Line(" --cpg-resume goes on where they were interrupted"))
    return [Line(for_log(line.text), line.markup) for line in lines]


def _unseen(rows: Sequence[_Row]) -> str:
    """Say which drops the gates that passed could not have seen; empty where that is not known."""
    drops = {drop for row in rows if row.outcome in _PASSING and (drop := _drop(row.card))}
    if len(drops) < 2:
        return "".join(map(_UNSEEN.format, drops))
    return (
        f"drops below {min(drops)} to {max(drops)} may pass (-v: each); larger ones fail 4 times "
        f"in 5"
    )


def _drop(card: Card) -> str:
    """Return the drop that surely fails, rounded up to hundredths; empty where it is not known."""
    return "" if card.drop is None else f"{math.ceil(100 * card.drop - 1e-9) / 100:.2f}"


class _Row(NamedTuple):
    """One comparison of a gate, and how it ended."""

    gate: str
    judgement: Judgement
    outcome: str
    verdict: str
    card: Card
    cells: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Headings of its cells."""
        return tuple(self.card.cells)


def _rows(ledger: Ledger, gate: str) -> Iterator[_Row]:
    entry = ledger.entries[gate]
    reasons = [judgement.reason for judgement in entry.judgements]
    for judgement in entry.judgements:
        ruling, card = judgement.ruling, judgement.card
        outcome = comparison_outcome(
            entry.outcome, reason=judgement.reason, reasons=reasons, severity=ruling.severity
        )
        yield _Row(gate, judgement, outcome, f"{card.mark}{card.verdict or ruling.label}", card)


def _gate_lines(
    ledger: Ledger, gate: str, rows: Sequence[_Row], names: Names, verbosity: int, width: int
) -> Iterator[Line]:
    """Yield the lines of one gate."""
    entry = ledger.entries.get(gate)
    if entry is None:
        why = ledger.running.get(gate, "did not report")
        yield from _without_numbers("!", names, gate, why, _RED, width)
    elif not rows:
        mark, markup = _MARKS[entry.outcome]
        if verbosity >= 0 or entry.outcome != "skipped":
            why = entry.detail or ("measurement" if entry.measurements else entry.outcome)
            yield from _without_numbers(mark, names, gate, why, markup, width)
    elif verbosity < 0 and all(row.outcome == "passed" for row in rows):
        return
    for count, row in enumerate(rows, 1):
        mark, markup = _MARKS[row.outcome]
        shown = names if count == 1 else names._replace(of={gate: f"#{count}"})
        for text in shown.rows(f" {mark} ", gate, f"{row.cells} {row.verdict}"):
            yield Line(text, markup)
        for remark in _remarks(row, verbosity):
            yield from _wrapped(remark, "     ", width)
    if entry is None or verbosity < 0:
        return
    if entry.earlier:
        yield from _wrapped(
            f"attempt {entry.attempt}, after {'; '.join(entry.earlier)}: a gate that is repeated "
            f"until it passes says nothing",
            "     ",
            width,
        )
    for measurement in entry.measurements:
        yield from _wrapped(measurement, "     ", width)


def _without_numbers(
    mark: str, names: Names, gate: str, why: str, markup: Mapping[str, bool], width: int
) -> Iterator[Line]:
    room, why = max(width - names.width - 11, len("...")), one_line(why)
    shown = why if len(why) <= room else f"{why[: room - 3]}..."
    for text in names.rows(f" {mark} ", gate, f" -- {shown} --"):
        yield Line(text, markup)


def _remarks(row: _Row, verbosity: int) -> list[str]:
    """Return what is said below a gate's line; nothing in quiet sessions but what went wrong."""
    drift = row.judgement.drift
    remarks = []
    if drift is not None and (drift.fails or verbosity >= 0) and drift.is_news:
        remarks.append(drift.sentence)
    remarks += [remark.text for remark in row.card.remarks if remark.detail <= verbosity]
    if verbosity > 0 and row.outcome in _PASSING and (drop := _drop(row.card)):
        remarks.append(_UNSEEN.format(drop))
    return remarks


def _wrapped(
    text: str, indent: str, width: int, markup: Mapping[str, bool] | None = None
) -> list[Line]:
    lines = textwrap.wrap(one_line(text), width - len(indent), break_on_hyphens=False)
    return [Line(f"{indent}{line}", markup or {}) for line in lines]


_RED, _YELLOW, _GREEN = {"red": True}, {"yellow": True}, {"green": True}
_MARKS: dict[str, tuple[str, Mapping[str, bool]]] = {
    "passed": (".", _GREEN),
    "failed": ("F", _RED),
    "error": ("E", _RED),
    "skipped": ("s", _YELLOW),
    "xfailed": ("x", _YELLOW),
    "inconclusive": ("?", _YELLOW),
}
