"""Page: what a page draws of a session, of whatever kinds its gates are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from pytest_cpg.gates.card import Command, Figure, Severity
from pytest_cpg.gates.drift import Drift, Label, revision
from pytest_cpg.gates.notation import duration, ranges
from pytest_cpg.render.axis import Bar, bar, effect_axis
from pytest_cpg.render.figures import Course, Plot, Spark, course_plot, draw, spark
from pytest_cpg.render.film_strip import FilmStrip, film_strip
from pytest_cpg.render.words import reasons
from pytest_cpg.report.history import Point
from pytest_cpg.report.session import FAILING, WORDS, Comparison, Gate, Session

# How bad a result is, as the page shows it by shape and colour.
Tone: TypeAlias = Literal["bad", "blind", "unsure", "good", "none"]
_TONES: tuple[Tone, ...] = ("bad", "blind", "unsure", "none", "good")
# Nobody reads more at a glance, and each one costs the page some bytes.
_MOST_POINTS = 30
# More cells than that would not be told apart.
_MOST_CELLS = 200
# The marks of the sets of cells, in their order.
_MARKS = ("both", "lost", "won", "neither")
_LOST = 1
_WHY = ("Why", "Note")
# So many gates that do not pass are open; of more the first few, and as many that got worse.
_MOST_OPEN, _FEW_OPEN = 6, 3
# From so many gates on rows are dense, gates with parameters become a matrix, and what passes is a
# row alone.
MANY = 40


class Cell(NamedTuple):
    """One cell: its number, the mark it bears, what is known of it and what it copies."""

    number: int
    mark: str
    note: str
    copies: str


class Cells(NamedTuple):
    """The cells of a figure that are drawn, and (mark, name, count, numbers) of all of them."""

    cells: list[Cell]
    key: list[tuple[str, str, int, str]]


class Followed(NamedTuple):
    """A comparison over several sessions, oldest first, with the course of its first trend."""

    points: tuple[Point, ...]
    course: Course
    spark: Spark

    @property
    def plot(self) -> Plot:
        """The course, as it stands beside the headline."""
        return course_plot(self.course)


class MatrixRow(NamedTuple):
    """All gates of one test that has parameters: how many of each tone, and the gates."""

    name: str
    counts: list[tuple[Tone, int]]
    gates: list[Gate]


class Page:
    """What a page draws of a session: each figure when the template asks for it.

    Attributes
    ----------
    gates : list of Gate
        The worst first.
    axis : Axis
        Of all effects that are shares.
    followed : dict
        By name the comparisons that an earlier session made as well.
    shared : tuple of (str, str)
        Facts of many gates that are those of each, which none repeats.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.gates = session, session.worst_first
        self.rows = [row for gate in self.gates for row in gate.comparisons]
        effects = (row.card.effect for row in self.rows)
        self.axis = effect_axis(effect for effect in effects if effect is not None)
        self._names = session.names
        self.loud = [gate for gate in self.gates if not gate.is_quiet]
        self.quiet = [gate for gate in self.gates if gate.is_quiet]
        # What measured nothing is a row alone.
        judged = [gate for gate in self.loud if gate.comparisons]
        few = judged if len(judged) <= _MOST_OPEN else judged[:_FEW_OPEN]
        regressed = [gate for gate in judged if _is_regressed(gate)][:_MOST_OPEN]
        self._open = {gate.id for gate in (*few, *regressed)}
        self.folded = [gate for gate in self.loud if not self.is_open(gate)]
        points = ((row, session.history.points(row.name)) for row in self.rows)
        self.followed = {
            one.name: _followed(found, one.judgement.drift)
            for one, found in points
            if len(found) > 1 and found[-1].found.trends
        }
        self.is_dense = len(self.gates) >= MANY
        facts = [_facts(row, gate) for gate in self.gates for row in gate.comparisons]
        every = set.intersection(*map(set, facts)) if self.is_dense and facts else set()
        self.shared = tuple(fact for fact in facts[0] if fact in every) if every else ()

    @property
    def matrix(self) -> Iterator[MatrixRow]:
        """The gates of each test with parameters, in the order of their ids' first parts."""
        tests: dict[str, list[Gate]] = {}
        for gate in self.gates if self.is_dense else ():
            test, bracket, _ = gate.id.partition("[")
            if bracket:
                tests.setdefault(test, []).append(gate)
        for test, gates in tests.items():
            # In the order of collection, in which parameters stand beside their neighbours.
            gates.sort(key=lambda gate: gate.place)
            counts = Counter(map(tone_of, gates))
            counted = [(tone, counts[tone]) for tone in _TONES if counts[tone]]
            yield MatrixRow(test.rpartition("/")[2], counted, gates)

    def title(self, name: str) -> str:
        """Return the name of a gate or comparison, as short as it stays its own."""
        return self._names[name]

    def is_open(self, gate: Gate) -> bool:
        """Say whether a gate's section is open."""
        return gate.id in self._open

    def is_listed(self, gate: Gate) -> bool:
        """Say whether a gate's facts stand in the place of tables, lists and figures."""
        return self.is_dense and not self.is_open(gate)

    def bar(self, one: Comparison) -> Bar | None:
        """Return the bar of a comparison's effect."""
        return None if one.card.effect is None else bar(one.card.effect, self.axis)

    def strip(self, one: Comparison, gate: Gate) -> FilmStrip | None:
        """Return the strip of an open gate, if it shows anything: it is most of a page."""
        strip = one.judgement.strip if self.is_open(gate) else None
        return film_strip(strip) if strip and all(reel.frames for reel in strip.reels) else None

    def facts(self, one: Comparison, gate: Gate) -> list[tuple[str, str]]:
        """Return what a reader may look up; of one gate of many all its numbers."""
        facts, card = _facts(one, gate), one.card
        if not self.is_listed(gate):
            return facts
        numbers = [(row.name, ", ".join(filter(None, row.cells))) for row in card.table.rows]
        measures = card.cause.measures if card.cause is not None else ()
        measures_text = [(name, f"{number} {text}") for name, number, text in measures]
        return [fact for fact in (*numbers, *facts, *measures_text) if fact not in self.shared]

    def plots(self, one: Comparison, gate: Gate, part: str) -> list[Plot]:
        """Return the figures of one part: what shows "why", what stands "beside", "others"."""
        if one.is_quiet or self.is_listed(gate):
            return []
        card = one.card
        causes = card.cause.figures if card.cause is not None else ()
        plots = [
            figure for figure in (*causes, *card.figures) if figure.kind not in ("cells", "list")
        ]
        parts = {
            "why": plots[:1],
            "beside": [figure for figure in plots[1:] if figure not in causes],
            "others": [figure for figure in causes if figure not in plots[:1]],
        }
        return [draw(figure, "why" if part == "why" else "half") for figure in parts[part]]

    def cells(self, figure: Figure, one: Comparison, gate: Gate) -> Cells:
        """Return a figure's cells; those that were lost alone where there are many."""
        replay = next((command.text for command in commands_of(one) if command.picks), "")
        sets = list(zip(_MARKS, figure.series.items(), strict=False))
        is_long = sum(len(numbers) for _, (_, numbers) in sets) > _MOST_CELLS
        shown = sets[_LOST : _LOST + 1] if is_long else sets
        notes = {cell.number: cell for cell in figure.cells}
        drawn = []
        for mark, (name, numbers) in shown if self.is_open(gate) and not one.is_quiet else []:
            for number in numbers[:_MOST_CELLS]:
                note_of = notes.get(number)
                copies = "" if note_of is None else note_of.code
                if replay and mark == _MARKS[_LOST]:
                    copies = f"{replay}::{number}"
                note = f"{figure.axes[0]} {number}: {name}{f'; {note_of.note}' if note_of else ''}"
                drawn.append(Cell(number, mark, note, copies))
        key = [(mark, name, len(numbers), ranges(numbers)) for mark, (name, numbers) in sets]
        return Cells(sorted(drawn, key=lambda cell: cell.number), key)


def _is_regressed(gate: Gate) -> bool:
    drifts = (row.drift for row in gate.comparisons)
    return any(drift is not None and drift.label is Label.REGRESSED for drift in drifts)


def tone_of(one: Gate | Comparison) -> Tone:
    """Return how bad a result is: a gate that cannot see a model is none that judged it."""
    judgements = one.entry.judgements if isinstance(one, Gate) else (one.judgement,)
    severities = [judgement.ruling.severity for judgement in judgements]
    if Severity.BLIND in severities and Severity.BAD not in severities:
        return "blind"
    if one.state in FAILING:
        return "bad"
    if one.state in ("measured", "skipped"):
        return "none"
    # A marker may accept what is bad.
    is_good = one.state == "passed" and max(severities, default=Severity.GOOD) < Severity.BLIND
    return "good" if is_good else "unsure"


def reasons_of(one: Comparison) -> tuple[list[str], list[str]]:
    """Return paragraphs: why a result is as it is, and what to do."""
    cause = one.card.cause
    # The name of a cause is a heading, and what is not known is none.
    name = "" if cause is None else f"{cause.name}: "
    notes = [
        (kind, text.removeprefix(name))
        for kind, text in reasons(one.judgement)
        if not (cause is not None and text.startswith(name) and not cause.advice)
    ]
    why = [f"Note: {text}" if kind == "Note" else text for kind, text in notes if kind in _WHY]
    advice = [f"{kind}: {text}" if kind == "Accept" else text for kind, text in notes]
    return why, [text for text, (kind, _) in zip(advice, notes, strict=True) if kind not in _WHY]


def detail_of(gate: Gate) -> str:
    """Return why a gate ended so, or how it ended where nothing else is said of it."""
    is_told = bool(gate.comparisons or gate.entry.measurements)
    return gate.entry.detail or ("" if is_told else WORDS[gate.state])


def commands_of(one: Comparison) -> tuple[Command, ...]:
    """Return what to type where somebody has to look at it."""
    return () if one.is_quiet else one.judgement.commands


def _facts(one: Comparison, gate: Gate) -> list[tuple[str, str]]:
    attempt, seconds = gate.entry.attempt, gate.seconds
    facts = [("attempt", f"number {attempt}")] if attempt > 1 else []
    facts += [*one.card.table.below, *one.card.facts]
    # What was stored, or finished before an interruption, took its time in another one.
    took = [] if seconds is None else [("test took", f"{duration(seconds)} in this session")]
    return facts + took


def _followed(points: Sequence[Point], drift: Drift | None) -> Followed:
    commit = "" if drift is None else revision(drift.commit)
    accepted = [point for point in points[:-1] if commit and revision(point.commit) == commit]
    left = points[-_MOST_POINTS:]
    if accepted and accepted[0] not in left:
        left = (accepted[0], *left[1:])
    course = Course(
        trends=tuple(point.found.trends[0] for point in left),
        revisions=tuple(revision(point.commit) for point in left),
        is_hollow=tuple(point.is_other_design for point in left),
        accepted=left.index(accepted[0]) if accepted else None,
    )
    return Followed(tuple(left), course, spark(course))
