"""Table: the rows of a summary, what each says, and where its columns stand."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_cpg.gates.card import NOW, SMOKE_TEST, Card, Severity
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.notation import fitted_names, for_log, found_drop, one_line
from pytest_cpg.render.line import COLOURS, Line, aligned, sparkline
from pytest_cpg.render.words import is_blind, is_drifted, label_of
from pytest_cpg.report.session import WORDS, Row, Session, gist

# The mark, and blanks on both sides of it, of the numbers and of the name.
_MARK_AND_BLANKS = 5
_NARROWEST_COLUMN = 4
_LEAST_TEXT = 20
# A line through fewer points is no trend.
_LEAST_TREND = 3
SIZE = "n"
BY_ITSELF = "the test failed by itself"
UNSEEN = "A drop below {} may pass; larger ones fail 4 times in 5."
GREEN = ("passed", "measured")
PASSING = (*GREEN, "inconclusive")
_ACCEPTED = "accepted by max_verdict"
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
# In the order of `WORDS`.
_MARKS = dict(zip(WORDS, "FE!x?s..", strict=True))


class _Group(NamedTuple):
    """What lines have in common that are listed together; ``rank`` goes from best to worst."""

    rank: int
    label: str
    meaning: str
    colour: str

    @classmethod
    def of(cls, row: Row) -> _Group:
        judgement = row.judgement
        if judgement is None:
            return cls(*_UNJUDGED[row.outcome])
        ruling, label = judgement.ruling, label_of(judgement)
        if is_drifted(judgement.drift, judgement.reason):
            return cls(Severity.BAD, label, "beside the accepted result", "red")
        meaning = _BLIND if is_blind(ruling) else judgement.card.gist
        return cls(ruling.severity, label, meaning, COLOURS[ruling.severity])

    def line(self, count: int, width: int) -> Line:
        """Return the heading of so many rows."""
        label = f" {self.label} ({count})"
        meaning = f": {self.meaning}" * bool(self.meaning)
        meaning = meaning * (len(label) + len(meaning) <= width)
        colour = {self.colour: True, "bold": True}
        return Line(((for_log(label), colour), (for_log(meaning), {"light": True})))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A row of the summary: its numbers, or the text in their place, and what became of it."""

    row: Row
    group: _Group
    cells: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    word: str = ""
    heights: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """One sign for how it ended."""
        blind = self.row.state == "failed" and self.group.label == Severity.BLIND.name
        return "B" if blind else _MARKS[self.row.state]

    @property
    def has_passed(self) -> bool:
        """Whether there is nothing to say of it."""
        return self.row.state in GREEN and not self.word


def listed_rows(session: Session, verbosity: int = 0) -> list[Listed]:
    """Return the rows of all gates: by columns, and then best first."""
    rows = [row for gate in session.gates for row in gate.rows]
    has_was = any(row.drift is not None and row.drift.was for row in rows)
    listed = []
    for row in rows:
        judgement, group = row.judgement, _Group.of(row)
        check = judgement.ruling.check if judgement else ""
        shows_cells = judgement is not None and check != SMOKE_TEST
        text = (judgement and judgement.reason) or row.entry.detail
        cells = row.card.cells if row.card and shows_cells else {}
        listed.append(
            Listed(
                row=row,
                group=group,
                cells=_with_was(cells, row.drift) if has_was else cells,
                text="" if shows_cells else text,
                word=row.drift.became if row.drift else "",
                heights=() if check else session.history.heights(row.name),
                notes=tuple(_notes(row, group, verbosity)),
            )
        )
    kinds = list(dict.fromkeys(tuple(row.cells) for row in listed))
    labels = list(dict.fromkeys(row.group.label for row in listed))

    def order(row: Listed) -> tuple[int, int, int, int]:
        rank, label = row.group.rank, labels.index(row.group.label)
        if not row.cells:
            return -1 if rank < 0 else 1, 0, rank, label
        return 0, kinds.index(tuple(row.cells)), rank, label

    return sorted(listed, key=order)


def _with_was(cells: Mapping[str, str], drift: Drift | None) -> Mapping[str, str]:
    """Return a row's cells with that of the accepted result before the one that it became."""
    now = NOW if NOW in cells else next(iter(cells), "")
    names = [part for name in cells for part in (["was", name] if name == now else [name])]
    was = (drift.cell or drift.was) if drift else ""
    return {name: cells.get(name, was or "-") for name in names}


def _notes(row: Row, group: _Group, verbosity: int) -> Iterator[str]:
    """Yield what stands below a row; a failing test has said it in its section."""
    drift, card, entry = row.drift, row.card, row.entry
    if drift is not None and drift.is_news:
        is_untold = row.state in PASSING and (drift.fails or drift.differs)
        if is_untold or (verbosity > 0 and not row.fails):
            yield drift.sentence
    if card is not None:
        if row.state != "failed":
            yield from card.texts("note", level=verbosity)
        elif entry.detail:
            yield f"{BY_ITSELF}: {one_line(entry.detail)}"
        is_bad = row.state == "passed" and group.rank >= Severity.BLIND
        if is_bad and row.judgement is not None and not row.judgement.ruling.check:
            yield _ACCEPTED
        if group.rank == Severity.UNSURE and not card.settle:
            yield from card.texts("do")
    if verbosity > 0 and row.state in PASSING and (drop := surely_failed_drop(card)):
        yield UNSEEN.format(drop)
    if row.number == 1:
        if entry.earlier:
            yield (
                f"attempt {entry.attempt}, after {'; '.join(entry.earlier)}: a gate that is "
                f"repeated until it passes says nothing"
            )
        yield from entry.measurements


class Layout:
    """Where the columns of a table stand."""

    def __init__(self, rows: Sequence[Listed], width: int, *, shares: bool) -> None:
        self._width = width
        left_out = SIZE if one_size(rows) else ""
        shown = [{name: row.cells[name] for name in row.cells if name != left_out} for row in rows]
        texts, self._headings = aligned(shown, least=_NARROWEST_COLUMN)
        if any(len(row.heights) >= _LEAST_TREND for row in rows):
            trends = [sparkline(row.heights) for row in rows]
            most = max(map(len, trends))
            texts = [f"{text} {trend:>{most}s}" for text, trend in zip(texts, trends, strict=True)]
            self._headings = {key: f"{text} trend" for key, text in self._headings.items()}
        # Numbers stand right in their columns; what is said in their place begins below them.
        starts = [len(text) - len(text.lstrip()) for text in texts if text.strip()]
        self._lead = " " * min(starts, default=0)
        names = tuple(row.row.name for row in rows)
        self._texts = dict(zip(names, texts, strict=True))
        self._columns = dict(zip(names, map(tuple, shown), strict=True))
        least = _LEAST_TEXT * any(row.text for row in rows if not row.cells)
        numbers = max([least, *map(len, texts)])
        words = max([len(row.word) for row in rows], default=0)
        self.names = fitted_names(names, width - _MARK_AND_BLANKS - numbers - words, shares=shares)

    def heading(self, row: Listed) -> str:
        """Return the heading of a row's columns."""
        columns = self._columns[row.row.name]
        return f"{' ' * (self.names.width + 4)}{self._headings[columns]}".rstrip()

    def lines(self, row: Listed) -> Iterator[Line]:
        """Yield the lines of one row."""
        name, mark = row.row.name, f" {row.mark} "
        numbers, *more = [self._texts[name]] if row.cells else self._text(row)
        *above, last = self.names.rows(mark, name, f"{numbers} ")
        marked = {
            row.group.colour: True,
            "bold": not row.row.is_quiet or row.row.state == "skipped",
        }
        for text in above:
            yield Line(((mark, marked), (for_log(text[len(mark) :]), {})))
        lead, rest = (last[: len(mark)], last[len(mark) :]) if not above else ("", last)
        worded = {row.group.colour: True, "bold": True} if row.word else {}
        if row.word == Label.IMPROVED:
            worded = {"green": True, "bold": True}
        word = for_log(row.word)
        indent, is_wide = " " * (self.names.width + 4), len(last) + len(word) > self._width
        text = for_log(rest if word and not is_wide else rest.rstrip())
        yield Line(((lead, marked), (text, {}), *[(word, worded)] * (not is_wide)))
        if is_wide:
            yield Line(((f"{indent}{self._lead}", {}), (word, worded)))
        yield from (Line.of(f"{indent}{text}") for text in more)

    def _text(self, row: Listed) -> list[str]:
        """Return what is said in place of numbers, in at most three lines."""
        taken = self.names.width + _MARK_AND_BLANKS + len(self._lead)
        room = max(self._width - taken, _LEAST_TEXT)
        texts = textwrap.wrap(one_line(gist(row.text)), room, max_lines=3, placeholder=" ...")
        return [f"{self._lead}{text}" for text in texts] or [""]


def one_size(rows: Sequence[Listed]) -> str:
    """Return how much each gate measured; empty where that differs."""
    sizes = {row.row.card.size for row in rows if row.row.card and row.cells}
    return sizes.pop() if len(sizes) == 1 else ""


def surely_failed_drop(card: Card | None) -> str:
    """Return the drop that surely fails, rounded up to hundredths; empty where it is not known."""
    return "" if card is None or card.drop is None else found_drop(card.drop)
