"""Summary rows: every comparison of a session with the group that its summary puts it into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pytest_cpg.gates.card import NOW, SMOKE_TEST, Card, Severity, comparison_name
from pytest_cpg.gates.drift import Drift
from pytest_cpg.render.failure import is_blind, is_drifted, label_of
from pytest_cpg.render.line import COLOURS
from pytest_cpg.report.ledger import Entry, Judgement, Ledger
from pytest_cpg.report.outcomes import comparison_outcomes

_BLIND = "the gate could not have failed, whatever the model"
# What is said of gates without a verdict: the best before all others, the worst behind them.
_UNJUDGED = {
    "passed": (-2, "MEASURED", "nothing was judged", "green"),
    "skipped": (-1, "SKIPPED", "nothing was judged", "yellow"),
    "xfailed": (10, "FAILED AS EXPECTED", "without a verdict", "yellow"),
    "failed": (11, "FAILED", "without a verdict", "red"),
    "error": (12, "ERROR", "there is no verdict", "red"),
    "missing": (13, "NOT REPORTED", "there is no verdict", "red"),
}
_MARKS = {
    "passed": ".",
    "failed": "F",
    "error": "E",
    "skipped": "s",
    "xfailed": "x",
    "inconclusive": "?",
    "missing": "!",
}


class Group(NamedTuple):
    """What rows have in common that are listed together.

    Attributes
    ----------
    rank : int
        From best to worst.
    """

    rank: int
    label: str
    meaning: str
    colour: str


class SummaryRow(NamedTuple):
    """One comparison of a gate, or a gate without one, and how it ended.

    Attributes
    ----------
    name : str
        Of the comparison.
    text : str
        What is said in place of numbers.
    word : str
        What became of the accepted result, where that has to be known.
    heights : tuple of float
        The number that is followed, in [0, 1], over the last sessions.
    """

    gate: str
    name: str
    outcome: str
    group: Group
    cells: Mapping[str, str]
    text: str = ""
    word: str = ""
    heights: tuple[float, ...] = ()
    card: Card | None = None
    drift: Drift | None = None
    entry: Entry | None = None

    @property
    def mark(self) -> str:
        """One sign for how it ended."""
        is_blind = self.outcome == "failed" and self.group.label == Severity.BLIND.name
        return "B" if is_blind else _MARKS[self.outcome]

    @property
    def tail(self) -> str:
        """What stands behind the numbers."""
        return " ".join(filter(None, [self.card.mark if self.card else "", self.word]))

    @property
    def has_passed(self) -> bool:
        """Whether there is nothing to say of it."""
        return self.outcome == "passed" and not self.word


def rows_of(ledger: Ledger) -> list[SummaryRow]:
    """Return the rows of all gates: by columns, and then best first."""
    rows = [row for gate in ledger.gates for row in _of_gate(ledger, gate)]
    if any(row.drift is not None and row.drift.was for row in rows):
        rows = [row._replace(cells=_with_was(row)) for row in rows]
    kinds = {columns: at for at, columns in enumerate(dict.fromkeys(tuple(r.cells) for r in rows))}

    labels = {label: at for at, label in enumerate(dict.fromkeys(r.group.label for r in rows))}

    def order(row: SummaryRow) -> tuple[int, int, int, int]:
        rank = row.group.rank
        side = 0 if row.cells else (-1 if rank < 0 else 1)
        return side, kinds[tuple(row.cells)] * bool(row.cells), rank, labels[row.group.label]

    return sorted(rows, key=order)


def _of_gate(ledger: Ledger, gate: str) -> Iterator[SummaryRow]:
    entry = ledger.entries.get(gate)
    if entry is None or not entry.judgements:
        ended: str = "missing" if entry is None else entry.outcome
        text = ledger.running.get(gate, "did not report") if entry is None else entry.detail
        group = Group(*_UNJUDGED[ended])
        yield SummaryRow(gate, gate, ended, group, {}, text=text, entry=entry)
        return
    outcomes = comparison_outcomes(entry.outcome, entry.judgements)
    for number, (one, outcome) in enumerate(zip(entry.judgements, outcomes, strict=True), 1):
        card, drift, name = one.card, one.drift, comparison_name(gate, number)
        is_quick = one.ruling.check == SMOKE_TEST
        yield SummaryRow(
            gate,
            name,
            outcome,
            _group(one),
            {} if is_quick else card.cells,
            text=(one.reason or "") if is_quick else "",
            word="" if drift is None else drift.became,
            heights=() if one.ruling.check else ledger.history.heights(name),
            card=card,
            drift=drift,
            entry=entry,
        )


def _group(judgement: Judgement) -> Group:
    ruling, label = judgement.ruling, label_of(judgement)
    if is_drifted(judgement.drift, judgement.reason):
        return Group(Severity.BAD, label, "beside the accepted result", "red")
    meaning = _BLIND if is_blind(ruling) else judgement.card.gist
    return Group(ruling.severity, label, meaning, COLOURS[ruling.severity])


def _with_was(row: SummaryRow) -> Mapping[str, str]:
    """Return a row's cells with that of the accepted result before the one that it became."""
    if not row.cells:
        return row.cells
    before = NOW if NOW in row.cells else next(iter(row.cells))
    was = (row.drift.was if row.drift else "") or "-"
    cells: dict[str, str] = {}
    for name, cell in row.cells.items():
        cells |= {"was": was, name: cell} if name == before else {name: cell}
    return cells
