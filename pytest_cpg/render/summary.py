"""Summary: a line for every gate of the session, best first, and what they say together."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from pytest_cpg.gates.card import NOW, SMOKE_TEST, Card, Severity
from pytest_cpg.gates.drift import Label
from pytest_cpg.gates.notation import Names, duration, fitted_names, for_log, found_drop, one_line
from pytest_cpg.render.columns import aligned
from pytest_cpg.render.failure import RERUN, is_blind, is_drifted, label_of, program_in
from pytest_cpg.render.line import COLOURS, Line, command_lines, sparkline, wrapped
from pytest_cpg.report.history import History
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.session import FAILING, WORDS, Row, Session, gist

# The mark, and blanks on both sides of it, of the numbers and of the name.
_MARK_AND_BLANKS = 5
_NARROWEST_COLUMN = 4
_LEAST_TEXT = 20
# A line through fewer points is no trend.
_LEAST_TREND = 3
# From so many rows on, those that passed are counted: where all did, and where some did not.
_MANY_GREEN, _MANY = 6, 60
_SIZE = "n"
_UNSEEN = "A drop below {} may pass; larger ones fail 4 times in 5."
_QUIET = ("passed", "measured")
_PASSING = (*_QUIET, "inconclusive")
_PLAIN: Mapping[str, bool] = {}
_DRIFTS = ("regressed", "improved", "unresolved", "unchanged", "incomparable", "new")
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
    def of(cls, judgement: Judgement) -> _Group:
        ruling, label = judgement.ruling, label_of(judgement)
        if is_drifted(judgement.drift, judgement.reason):
            return cls(Severity.BAD, label, "beside the accepted result", "red")
        meaning = _BLIND if is_blind(ruling) else judgement.card.gist
        return cls(ruling.severity, label, meaning, COLOURS[ruling.severity])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed(Row):
    """A row of the summary: its numbers, or the text in their place, and what became of it.

    ``heights`` are of the number that is followed, in [0, 1], over the last sessions.
    """

    group: _Group
    cells: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    word: str = ""
    heights: tuple[float, ...] = ()

    @classmethod
    def of(cls, row: Row, history: History) -> _Listed:
        make, judgement = partial(cls, row.gate, row.name, row.comparison), row.judgement
        if judgement is None:
            group = _Group(*_UNJUDGED[row.gate.outcome])
            return make(group=group, text=row.gate.entry.detail)
        drift, check = judgement.drift, judgement.ruling.check
        is_quick = check == SMOKE_TEST
        return make(
            group=_Group.of(judgement),
            cells={} if is_quick else judgement.card.cells,
            text=(judgement.reason or "") if is_quick else "",
            word="" if drift is None else drift.became,
            heights=() if check else history.heights(row.name),
        )

    @property
    def mark(self) -> str:
        """One sign for how it ended."""
        is_blind = self.state == "failed" and self.group.label == Severity.BLIND.name
        return "B" if is_blind else _MARKS[self.state]

    @property
    def tail(self) -> str:
        """What stands behind the numbers."""
        return " ".join(filter(None, [self.card.mark if self.card else "", self.word]))

    @property
    def has_passed(self) -> bool:
        """Whether there is nothing to say of it."""
        return self.state in _QUIET and not self.word


def _listed(session: Session) -> list[_Listed]:
    """Return the rows of all gates: by columns, and then best first."""
    rows = [
        _Listed.of(row, session.history) for gate in session.gates for row in gate.rows(gate.id)
    ]
    if any(row.drift is not None and row.drift.was for row in rows):
        rows = [replace(row, cells=_with_was(row)) for row in rows]
    kinds = {columns: at for at, columns in enumerate(dict.fromkeys(tuple(r.cells) for r in rows))}
    labels = {label: at for at, label in enumerate(dict.fromkeys(r.group.label for r in rows))}

    def order(row: _Listed) -> tuple[int, int, int, int]:
        rank = row.group.rank
        side = 0 if row.cells else (-1 if rank < 0 else 1)
        return side, kinds[tuple(row.cells)] * bool(row.cells), rank, labels[row.group.label]

    return sorted(rows, key=order)


def _with_was(row: _Listed) -> Mapping[str, str]:
    """Return a row's cells with that of the accepted result before the one that it became."""
    before = NOW if NOW in row.cells else next(iter(row.cells), "")
    was = (row.drift.was if row.drift else "") or "-"
    cells: dict[str, str] = {}
    for name, cell in row.cells.items():
        cells |= {"was": was, name: cell} if name == before else {name: cell}
    return cells


def title(session: Session, *, verbosity: int = 0, seconds: float | None = None) -> str:
    """Return the heading of the summary; in quiet sessions it says what they were compared with.

    It says how long the session took where that is given: pytest itself tells it in its last line.
    """
    gates = session.gates
    counted = Counter(gate.state for gate in gates)
    counts = [f"{counted[outcome]} {word}" for outcome, word in WORDS.items() if counted[outcome]]
    if len(counts) == 1:
        counts = [counts[0].partition(" ")[2]]
    if session.fails and not any(counted[state] for state in FAILING):
        counts.append("the session fails")
    if _is_quick(session):
        ran = counted["passed"]
        others = [text for text in counts if not text.endswith("passed")]
        return ", ".join([f"cpg: quick run, {ran} of {len(gates)} gates ran", *others])
    checks = _checks(session)
    what = f" {checks.pop()}" if len(checks) == 1 and checks != {""} else ""
    many = f"{len(gates)} gate{'s'[: len(gates) != 1]}"
    between = " " if len(counts) == 1 and gates else ", "
    took = "" if seconds is None else f" in {duration(seconds)}"
    text = f"cpg{what}: {many}{between}{', '.join(counts) or 'none collected'}{took}"
    since = _since(_listed(session)) if verbosity < 0 and len(counts) == 1 else ""
    return f"{text}; s{since[1:]}" if since else text


def _checks(session: Session) -> set[str]:
    """Return what was run in place of gates; a verdict is an empty text."""
    return {one.judgement.ruling.check for one in session.comparisons}


def _is_quick(session: Session) -> bool:
    return _checks(session) == {SMOKE_TEST}


def title_markup(session: Session) -> dict[str, bool]:
    """Return the colour of the worst gate."""
    if session.fails:
        return {"red": True}
    is_open = any(gate.state not in _QUIET for gate in session.gates)
    return {"yellow": True} if is_open else {"green": True}


def summary_lines(
    session: Session, *, width: int, verbosity: int = 0, is_ascii: bool = False
) -> list[Line]:
    """Return the table of all gates and what follows from it, for a terminal of this width.

    With ``verbosity`` below 0 only gates that did not simply pass are listed, without headings, and
    what has to be known before a verdict is believed.
    """
    rows = _listed(session)
    is_brief = verbosity < 0 or (verbosity == 0 and _is_quick(session))
    shown = _shown(rows) if is_brief else rows
    layout = _Layout(shown, width, is_ascii=is_ascii, shares=not is_brief)
    lines = list(layout.rows()) if is_brief else _table(rows, layout, width, verbosity)
    if is_brief and verbosity == 0:
        lines = [*_ran(rows, width), *lines]
    if verbosity >= 0:
        notes = dict.fromkeys(note for row in rows if row.card for note in row.card.footnotes)
        lines += [line for note in notes for line in _wrapped(note, " ", width)]
        lines += [] if _is_alone(rows, verbosity) else _wrapped(_since(rows), " ", width)
    if verbosity == 0:
        lines += _wrapped(_unseen(rows), " ", width)
    if verbosity >= 0:
        lines += _settle(rows, width)
    for found in session.findings:
        if found.fails or found.warns or found.answers or verbosity >= 0:
            lines += _wrapped(found.text, " ", width, red=found.fails)
    if missing := session.missing:
        size = len(session.gates)
        lines.append(Line.of(f" {size - len(missing)} of {size} gates reported", red=True))
        if session.is_resumable:
            lines.append(Line.of(" --cpg-resume goes on with what was finished"))
    return lines


def _ran(rows: Sequence[_Listed], width: int) -> list[Line]:
    """Say what a quick run was, how many gates there is nothing else to say of, and the slowest."""
    meanings = dict.fromkeys(row.group.meaning for row in rows if row.card)
    ran = [row.gate for row in rows if row.state in _QUIET]
    told = f". {len(ran)} gate{'s'[: len(ran) != 1]} ran"
    timed = [(gate.seconds, gate.id) for gate in ran if gate.seconds is not None]
    if len(timed) > 1:
        seconds, slowest = max(timed, key=itemgetter(0))
        name = fitted_names((slowest,), width).of[slowest]
        told = f"{told} (slowest: {name}, {duration(seconds)})"
    said = [f"{text[:1].upper()}{text[1:]}." for text in meanings]
    lines = _wrapped(
        " ".join([*said, "The exit code counts errors and broken models alone."]), " ", width
    )
    first, *more = textwrap.wrap(told, width - 1, subsequent_indent="  ", break_on_hyphens=False)
    return [*lines, *(Line.of(f" {text}") for text in (first, *more))]


def _shown(rows: Sequence[_Listed]) -> list[_Listed]:
    """Return the rows that need an eye, each with its label."""
    told = [row for row in rows if not row.has_passed and row.state != "skipped"]
    return [replace(row, word=_told(row) * bool(row.cells), heights=()) for row in told]


def _told(row: _Listed) -> str:
    """Return a row's label and what became of it, where that is not the label."""
    return " ".join(dict.fromkeys(filter(None, [row.group.label, row.word])))


def _table(rows: Sequence[_Listed], layout: _Layout, width: int, verbosity: int) -> list[Line]:
    """Return the rows in groups, under what all of them share."""
    remarks = _Remarks(rows, verbosity)
    is_green = verbosity == 0 and all(row.has_passed and not remarks.of(row) for row in rows)
    if is_green and len(rows) >= _MANY_GREEN:
        counted = Counter(row.group.label for row in rows)
        found = ", ".join(f"{count} {label}" for label, count in counted.items())
        size = _one_size(rows)
        text = f"{found}{f', {size} each' * bool(size)}. Every row: pytest -v"
        return [*_wrapped(text, " ", width), *remarks.of_several(width)]
    if _is_alone(rows, verbosity):
        return _in_words(rows[0], remarks.of(rows[0]), width)
    shared = [layout.names.shared, _one_size(rows), _baseline(rows)]
    lines = _wrapped(", ".join(filter(None, shared)), " ", width)
    columns: tuple[str, ...] = ()
    for group, members in groupby(rows, key=lambda row: row.group):
        own = list(members)
        if own[0].cells and tuple(own[0].cells) != columns:
            columns = tuple(own[0].cells)
            lines.append(Line.of(layout.heading(own[0])))
        lines.append(_group_line(group, len(own), width))
        is_folded = verbosity < 1 and len(rows) >= _MANY
        shown = [row for row in own if not (is_folded and row.has_passed) or remarks.of(row)]
        for row in shown:
            lines += layout.lines(row)
            lines += remarks.lines(row, width)
        if len(shown) < len(own):
            lines.append(Line.of(f" . {len(own) - len(shown)} more passed (pytest -v)", light=True))
    return [*lines, *remarks.of_several(width)]


def _is_alone(rows: Sequence[_Listed], verbosity: int) -> bool:
    """Say whether there is one gate, which passed and left open what it asks."""
    return verbosity == 0 and len(rows) == 1 and rows[0].state == "inconclusive"


def _in_words(row: _Listed, remarks: Sequence[str], width: int) -> list[Line]:
    """Return what the only gate found, of which a table of one row would say too little."""
    name, card, drift = fitted_names((row.name,), width).of[row.name], row.card, row.drift
    said = "" if card is None else f"{card.sentence or card.headline} ({card.headline})"
    since = drift.sentence if drift is not None and drift.was else ""
    passes = f"It passes, because {row.group.label} is accepted here"
    told = dict.fromkeys(filter(None, [f"{name}: {said}", since, *remarks, passes]))
    return _wrapped(f"{'. '.join(told)}.", " ", width)


def _group_line(group: _Group, count: int, width: int) -> Line:
    label = f" {group.label} ({count})"
    meaning = f": {group.meaning}" * bool(group.meaning)
    if len(label) + len(meaning) > width:
        meaning = ""
    colour = {group.colour: True, "bold": True}
    return Line(((for_log(label), colour), (for_log(meaning), {"light": True})))


class _Layout:
    """Where the columns of a table stand."""

    def __init__(
        self, rows: Sequence[_Listed], width: int, *, is_ascii: bool, shares: bool
    ) -> None:
        self._rows, self._width = rows, width
        size = _one_size(rows)
        shown = [row.cells for row in rows]
        if size:
            shown = [{name: one[name] for name in one if name != _SIZE} for one in shown]
        texts, self._headings = aligned(shown, least=_NARROWEST_COLUMN)
        if any(len(row.heights) >= _LEAST_TREND for row in rows):
            trends = [sparkline(row.heights, is_ascii=is_ascii) for row in rows]
            most = max(map(len, trends))
            texts = [f"{text} {trend:>{most}s}" for text, trend in zip(texts, trends, strict=True)]
            self._headings = {key: f"{text} trend" for key, text in self._headings.items()}
        # Numbers stand right in their columns; what is said in their place begins below them.
        starts = [len(text) - len(text.lstrip()) for text in texts if text.strip()]
        self._lead = " " * min(starts, default=0)
        self._texts = {row.name: text for row, text in zip(rows, texts, strict=True)}
        self._columns = {row.name: tuple(one) for row, one in zip(rows, shown, strict=True)}
        least = _LEAST_TEXT * any(row.text for row in rows if not row.cells)
        numbers = max([least, *map(len, texts)])
        words = max([len(row.tail) for row in rows], default=0)
        room = width - _MARK_AND_BLANKS - numbers - words
        names = tuple(row.name for row in rows)
        self.names: Names = fitted_names(names, room, shares=shares)

    def heading(self, row: _Listed) -> str:
        """Return the heading of a row's columns."""
        return f"{' ' * (self.names.width + 4)}{self._headings[self._columns[row.name]]}".rstrip()

    def rows(self) -> Iterator[Line]:
        """Yield the lines of all rows."""
        for row in self._rows:
            yield from self.lines(row)

    def lines(self, row: _Listed) -> Iterator[Line]:
        """Yield the lines of one row."""
        mark = f" {row.mark} "
        numbers, *more = [self._texts[row.name]] if row.cells else self._said(row)
        *above, last = self.names.rows(mark, row.name, f"{numbers} ")
        marked = {row.group.colour: True, "bold": row.state not in _QUIET}
        for text in above:
            yield Line(((mark, marked), (for_log(text[len(mark) :]), _PLAIN)))
        lead, rest = (last[: len(mark)], last[len(mark) :]) if not above else ("", last)
        told = {row.group.colour: True, "bold": True} if row.word else _PLAIN
        if row.word == Label.IMPROVED:
            told = {"green": True, "bold": True}
        text = for_log(rest if row.tail else rest.rstrip())
        yield Line(((lead, marked), (text, _PLAIN), (for_log(row.tail), told)))
        yield from (Line.of(f"{' ' * (self.names.width + 4)}{text}") for text in more)

    def _said(self, row: _Listed) -> list[str]:
        """Return what is said in place of numbers, in at most three lines."""
        taken = self.names.width + _MARK_AND_BLANKS + len(self._lead)
        room = max(self._width - taken, _LEAST_TEXT)
        said = textwrap.wrap(one_line(gist(row.text)), room, max_lines=3, placeholder=" ...")
        return [f"{self._lead}{text}" for text in said] or [""]


class _Remarks:
    """What is said below rows: once for all, where it is the same of several gates."""

    def __init__(self, rows: Sequence[_Listed], verbosity: int) -> None:
        self._of = {row.name: list(_remarks(row, verbosity)) for row in rows}
        counted = Counter(text for texts in self._of.values() for text in dict.fromkeys(texts))
        self._shared = {text: count for text, count in counted.items() if count > 1}

    def of(self, row: _Listed) -> list[str]:
        """Return what is said of this row alone."""
        return [text for text in self._of[row.name] if text not in self._shared]

    def lines(self, row: _Listed, width: int) -> list[Line]:
        """Return the lines of what is said of this row alone."""
        return [line for text in self.of(row) for line in _wrapped(text, "     ", width)]

    def of_several(self, width: int) -> list[Line]:
        """Return what is said of several gates, once."""
        said = (f"{count} gates: {text}" for text, count in self._shared.items())
        return [line for text in said for line in _wrapped(text, " ", width)]


def _remarks(row: _Listed, verbosity: int) -> Iterator[str]:
    drift, card, entry, comparison = row.drift, row.card, row.gate.entry, row.comparison
    if drift is not None and drift.is_news:
        # A failing test has said it in its section.
        is_untold = row.state in _PASSING and (drift.fails or drift.differs)
        if is_untold or verbosity > 0:
            yield drift.sentence
    if card is not None:
        yield from (remark.text for remark in card.remarks if remark.detail <= verbosity)
        if row.state == "failed" and entry.detail:
            yield f"the test failed by itself: {one_line(entry.detail)}"
    if verbosity > 0 and row.state in _PASSING and (drop := _drop(card)):
        yield _UNSEEN.format(drop)
    if comparison is None or comparison.number == 1:
        if entry.earlier:
            yield (
                f"attempt {entry.attempt}, after {'; '.join(entry.earlier)}: a gate that is "
                f"repeated until it passes says nothing"
            )
        yield from entry.measurements


def _one_size(rows: Sequence[_Listed]) -> str:
    """Return how much each gate measured; empty where that differs."""
    sizes = {row.card.size for row in rows if row.card and row.cells}
    return sizes.pop() if len(sizes) == 1 else ""


def _baseline(rows: Sequence[_Listed]) -> str:
    commits = list(dict.fromkeys(row.drift.since for row in rows if row.drift and row.drift.commit))
    shown = commits[0] if len(commits) == 1 else f"of {len(commits)} commits"
    return f"baseline {shown}" if commits else ""


def _since(rows: Sequence[_Listed]) -> str:
    """Say what a session in which all passed was compared with; empty where nothing was."""
    drifts = [row.drift for row in rows if row.drift is not None]
    if not drifts or any(row.state not in _PASSING for row in rows):
        return ""
    counted = Counter(one.label.lower() for one in drifts)
    found = [f"{counted[word]} {word}" for word in _DRIFTS if counted[word]]
    found = [text.replace("unresolved", "within chance") for text in found]
    if len(found) == 1:
        found = [found[0].partition(" ")[2]]
    commits = {one.since for one in drifts if one.was}
    since = commits.pop() if len(commits) == 1 else "the results were accepted"
    return f"Since {since}: {', '.join(found)}"


def _settle(rows: Sequence[_Listed], width: int) -> list[Line]:
    """Return the one command that settles all gates that are open, where some can be settled.

    Each heeds the options that are for gates like it.
    """
    asked = [row.card.settle for row in rows if row.card and row.card.settle]
    if not asked:
        return []
    names = dict.fromkeys(name for one in asked for name in one)
    options = [
        f"--cpg-{name.replace('_', '-')}={max(one[name] for one in asked if name in one)}"
        for name in names
    ]
    many = "inconclusive gate" if len(asked) == 1 else f"{len(asked)} inconclusive gates"
    reruns = [
        command
        for row in rows
        if row.card and row.card.settle and row.judgement
        for command in row.judgement.commands
        if command.what.startswith(RERUN)
    ]
    program = program_in(reruns)
    tests = [
        word
        for command in reruns
        for word in shlex.split(command.text.removeprefix(program))
        if not word.startswith("--")
    ]
    command = f"{program} {shlex.join([*dict.fromkeys(tests), *options])}"
    typed = command_lines(command, lead="     ", width=width)
    lead = f" Settle the {many}{' on new starts' * ('seed' in names)}:"
    return [Line.of(lead), *(Line.of(line, cyan=True) for line in typed)]


def _unseen(rows: Sequence[_Listed]) -> str:
    """Say which drops the gates that passed could not have seen; empty where that is not known."""
    drops = {drop for row in rows if row.state in _PASSING and (drop := _drop(row.card))}
    if len(drops) < 2:
        return "".join(map(_UNSEEN.format, drops))
    return (
        f"Drops below {min(drops)} to {max(drops)} may pass (-v: each); larger ones fail 4 times "
        f"in 5."
    )


def _drop(card: Card | None) -> str:
    """Return the drop that surely fails, rounded up to hundredths; empty where it is not known."""
    return "" if card is None or card.drop is None else found_drop(card.drop)


def _wrapped(text: str, indent: str, width: int, **markup: bool) -> list[Line]:
    return [Line.of(line, **markup) for line in wrapped(one_line(text), width, indent)]
