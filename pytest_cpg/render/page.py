"""Page: what a page draws of a session, of whatever kinds its gates are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from pytest_cpg.gates.card import Command, Figure, Reel, Severity, Strip
from pytest_cpg.gates.drift import Drift, Label, revision
from pytest_cpg.gates.notation import duration, ranges
from pytest_cpg.render.axis import Axis, Bar, bar, effect_axis
from pytest_cpg.render.figures import Course, Plot, draw, spark
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
_LOST, _WON = 1, 2
# So many gates that do not pass are open; of more the first few, and as many that got worse.
_MOST_OPEN, _FEW_OPEN = 6, 3
# From so many gates on rows are dense, gates with parameters become a matrix, and what passes is a
# row alone.
MANY = 40
# More lines of marks would be no matrix.
_MOST_LINES_OF_MARKS = 8
# Of a frame of a film as it is defined once, and drawn in every layout.
FRAME_WIDTH, FRAME_HEIGHT = 112, 84
# Room above the frames of an arm for its name, below them for their steps, between two arms, and
# below all of them for the axis.
_NAME, _STEP, _BETWEEN_ARMS, _AXIS = 22, 16, 10, 40
# Frames stand so far apart at least, in pixels.
_GAP = 4


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
    spark: list[tuple[str, str]]


class Marks(NamedTuple):
    """Gates that share a parameter, in one line: that one, and the others of the first and last."""

    label: str
    gates: list[Gate]
    ends: str


class MatrixRow(NamedTuple):
    """All gates of one test that has parameters: how many of each tone, and the gates."""

    name: str
    counts: list[tuple[Tone, int]]
    marks: list[Marks]


class Lane(NamedTuple):
    """One arm of a film: the top of its frames, and (number, left edge) of those with room."""

    reel: Reel
    top: float
    frames: list[tuple[int, float]]


class Film(NamedTuple):
    """A strip as wide as a page or a telephone, each picture at its step on one axis."""

    name: str
    width: int
    foot: float
    scale: float
    lanes: list[Lane]
    ticks: list[tuple[float, str]]

    @property
    def height(self) -> float:
        """Of all of it."""
        return self.foot + _AXIS


class Page:
    """What a page draws of a session: each figure when the template asks for it.

    Its gates stand worst first, under names as short as they stay their own. ``followed`` are by
    name the comparisons that an earlier session made as well, ``shared`` the facts of every gate,
    which none repeats, and ``axis`` is of all effects that are shares.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.gates, self.names = session, session.worst_first, session.names
        self.rows = [row for gate in self.gates for row in gate.comparisons]
        self.axis = effect_axis(row.card.effect for row in self.rows if row.card.effect is not None)
        self.loud = [gate for gate in self.gates if not gate.is_quiet]
        self.quiet = [gate for gate in self.gates if gate.is_quiet]
        # What measured nothing is a row alone, unless there is nothing else to look at.
        judged = [gate for gate in self.loud if gate.comparisons] or self.loud
        few = judged if len(judged) <= _MOST_OPEN else judged[:_FEW_OPEN]
        regressed = [
            gate
            for gate in judged
            if any(row.drift and row.drift.label is Label.REGRESSED for row in gate.comparisons)
        ]
        self._open = {gate.id for gate in (*few, *regressed[:_MOST_OPEN])}
        self.folded = [gate for gate in self.loud if not self.is_open(gate)]
        self.followed = {
            row.name: _followed(points, row.drift)
            for row in self.rows
            for points in [session.history.points(row.name)]
            if len(points) > 1 and points[-1].found.trends
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
            yield MatrixRow(test.rpartition("/")[2], counted, _marks(gates))

    def is_open(self, gate: Gate) -> bool:
        """Say whether a gate's section is open."""
        return gate.id in self._open

    def is_listed(self, gate: Gate) -> bool:
        """Say whether a gate's facts stand in the place of tables, lists and figures."""
        return self.is_dense and not self.is_open(gate)

    def bar(self, row: Comparison) -> Bar | None:
        """Return the bar of a comparison's effect."""
        return None if row.card.effect is None else bar(row.card.effect, self.axis)

    def strip(self, row: Comparison, gate: Gate) -> Strip | None:
        """Return the strip of an open gate, if it shows anything: it is most of a page."""
        strip = row.judgement.strip
        is_shown = strip and self.is_open(gate) and all(reel.frames for reel in strip.reels)
        return strip if is_shown else None

    def facts(self, row: Comparison, gate: Gate) -> list[tuple[str, str]]:
        """Return what a reader may look up; of one gate of many all its numbers."""
        facts, card = _facts(row, gate), row.card
        if not self.is_listed(gate):
            return facts
        numbers = [(line.name, ", ".join(filter(None, line.cells))) for line in card.table.rows]
        measures = card.cause.measures if card.cause is not None else ()
        texts = [(name, f"{number} {text}") for name, number, text in measures]
        return [fact for fact in (*numbers, *facts, *texts) if fact not in self.shared]

    def plots(self, row: Comparison, gate: Gate, part: str) -> list[Plot]:
        """Return the figures of one part: what shows "why", what stands "beside", "others"."""
        if row.is_quiet or self.is_listed(gate):
            return []
        causes = row.card.cause.figures if row.card.cause is not None else ()
        figures = (*causes, *row.card.figures)
        plots = [figure for figure in figures if figure.kind not in ("cells", "list")]
        parts = {
            "why": plots[:1],
            "beside": [figure for figure in plots[1:] if figure not in causes],
            "others": [figure for figure in causes if figure not in plots[:1]],
        }
        return [draw(figure, "why" if part == "why" else "half") for figure in parts[part]]

    def cells(self, figure: Figure, row: Comparison, gate: Gate) -> Cells:
        """Return a figure's cells; those that were lost alone where there are many."""
        replay = next((command.text for command in commands_of(row) if command.picks), "")
        sets = list(zip(_MARKS, figure.series.items(), strict=False))
        is_long = sum(len(numbers) for _, (_, numbers) in sets) > _MOST_CELLS
        shown = sets[_LOST : _LOST + 1] if is_long else sets
        notes = {cell.number: cell for cell in figure.cells}
        drawn = []
        for mark, (name, numbers) in shown if self.is_open(gate) and not row.is_quiet else []:
            for number in numbers[:_MOST_CELLS]:
                cell = notes.get(number)
                copies = cell.code if cell else ""
                if replay and mark == _MARKS[_LOST]:
                    copies = f"{replay}::{number}"
                note = f"{figure.axes[0]} {number}: {name}{f'; {cell.note}' if cell else ''}"
                drawn.append(Cell(number, mark, note, copies))
        key = [(mark, name, len(numbers), ranges(numbers)) for mark, (name, numbers) in sets]
        if drift := row.drift:
            key += [
                (mark, f"{change} since {drift.since}", len(numbers), ranges(numbers))
                for mark, change, numbers in (
                    (_MARKS[_LOST], "lost", drift.worse),
                    (_MARKS[_WON], "gained", drift.better),
                )
                if numbers
            ]
        return Cells(sorted(drawn, key=lambda cell: cell.number), key)


def _marks(gates: Sequence[Gate]) -> list[Marks]:
    """Return the gates of a test in a line for each value of the parameter that has fewest."""
    parameters = [gate.id.partition("[")[2].removesuffix("]").split("-") for gate in gates]
    is_table = len({len(parts) for parts in parameters}) == 1 and len(parameters[0]) > 1
    columns = zip(*parameters, strict=True) if is_table else ()
    values = {at: len(set(column)) for at, column in enumerate(columns)}
    few = [at for at, count in values.items() if 1 < count <= _MOST_LINES_OF_MARKS]
    lines: dict[str, list[tuple[Gate, str]]] = {}
    for gate, parts in zip(gates, parameters, strict=True):
        label = parts.pop(min(few, key=values.__getitem__)) if few else ""
        lines.setdefault(label, []).append((gate, "-".join(parts)))
    return [
        Marks(
            label,
            [gate for gate, _ in line],
            " … ".join(dict.fromkeys([line[0][1], line[-1][1]])),
        )
        for label, line in lines.items()
    ]


def tone_of(result: Gate | Comparison) -> Tone:
    """Return how bad a result is: a gate that cannot see a model is none that judged it."""
    judgements = result.entry.judgements if isinstance(result, Gate) else (result.judgement,)
    severities = [judgement.ruling.severity for judgement in judgements]
    if Severity.BLIND in severities and Severity.BAD not in severities:
        return "blind"
    if result.state in FAILING:
        return "bad"
    if result.state in ("measured", "skipped"):
        return "none"
    # A marker may accept what is bad.
    is_good = result.state == "passed" and max(severities, default=Severity.GOOD) < Severity.BLIND
    return "good" if is_good else "unsure"


def reasons_of(row: Comparison) -> tuple[list[str], list[str]]:
    """Return paragraphs: why a result is as it is, and what to do."""
    cause = row.card.cause
    # The name of a cause is a heading, and what is not known is none.
    name = f"{cause.name}: " if cause else ""
    why: list[str] = []
    advice: list[str] = []
    for kind, text in reasons(row.judgement):
        if cause and not cause.advice and text.startswith(name):
            continue
        lead = f"{kind}: " * (kind in ("Note", "Accept"))
        (why if kind in ("Why", "Note") else advice).append(lead + text.removeprefix(name))
    return why, advice


def detail_of(gate: Gate) -> str:
    """Return why a gate ended so, or how it ended where nothing else is said of it."""
    says_more = bool(gate.comparisons or gate.entry.measurements)
    return gate.entry.detail or ("" if says_more else WORDS[gate.state])


def commands_of(row: Comparison) -> tuple[Command, ...]:
    """Return what to type where somebody has to look at it."""
    return () if row.is_quiet else row.judgement.commands


def films(strip: Strip) -> list[Film]:
    """Return where the pictures of a lost episode stand, in every layout."""
    return [_film(strip, "broad", 1120, 1.0), _film(strip, "narrow", 358, 0.67)]


def _film(strip: Strip, name: str, width: int, scale: float) -> Film:
    wide, high = FRAME_WIDTH * scale, FRAME_HEIGHT * scale
    last = max(reel.frames[-1][0] for reel in strip.reels)
    axis = Axis.across(0, last, length=round(width - wide))
    lanes = []
    for at, reel in enumerate(strip.reels):
        top = _NAME + at * (_NAME + high + _STEP + _BETWEEN_ARMS)
        places = [axis.at(step) for step, _ in reel.frames]
        lanes.append(Lane(reel, top, _with_room(places, wide + _GAP, width - wide)))
    ticks = [(axis.at(tick), f"{tick:g}") for tick in axis.ticks]
    return Film(name, width, lanes[-1].top + high + _STEP + 8, scale, lanes, ticks)


def _with_room(places: Sequence[float], wide: float, most: float) -> list[tuple[int, float]]:
    """Return the frames that are drawn, and where: begin, middle and end in any case.

    Of the others those that are clear of the last frame and of each other. Where the three are not,
    they stand side by side.
    """
    *others, end = enumerate(places)
    clear: list[tuple[int, float]] = []
    for number, x in others:
        if (not clear or x - clear[-1][1] >= wide) and end[1] - x >= wide:
            clear.append((number, x))
    kept = sorted({0, (len(places) - 1) // 2, end[0]})
    if len(clear) + 1 >= len(kept):
        return [*clear, end]
    left = min(places[0], most - wide * (len(kept) - 1))
    shown: list[tuple[int, float]] = []
    for number in kept:
        left = max(left, min(places[number], most - wide * (len(kept) - 1 - len(shown))))
        shown.append((number, left))
        left += wide
    return shown


def _facts(row: Comparison, gate: Gate) -> list[tuple[str, str]]:
    attempt, seconds = gate.entry.attempt, gate.seconds
    facts = [("attempt", f"number {attempt}")] if attempt > 1 else []
    facts += [*row.card.table.below, *row.card.facts]
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
