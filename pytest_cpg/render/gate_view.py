"""Gate view: what a page shows of one gate and its comparisons, of whatever kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from pytest_cpg.gates.card import Card, Command, Figure, Severity
from pytest_cpg.gates.drift import Drift, Label, revision
from pytest_cpg.gates.notation import duration, ranges
from pytest_cpg.gates.strip import Strip
from pytest_cpg.render.axis import Axis
from pytest_cpg.render.failure import judged, reasons, verdict_of
from pytest_cpg.render.figures import Course, Plot, Spark, course_plot, draw, spark
from pytest_cpg.render.film_strip import FilmStrip, film_strip
from pytest_cpg.render.forest import Bar, bar, bound_bar, effect_text
from pytest_cpg.report.history import History, Point
from pytest_cpg.report.session import FAILING, WORDS, Comparison, Gate

# How bad a result is, as the page shows it by shape and colour.
Tone: TypeAlias = Literal["bad", "blind", "unsure", "good", "none"]
# Nobody reads more at a glance, and each one costs the page some bytes.
_MOST_SESSIONS = 30
# More cells than that would not be told apart.
_MOST_CELLS = 200
# The marks of the sets of cells, in their order.
_MARKS = ("both", "lost", "won", "neither")
_LOST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CellView:
    """One cell: its number, the mark it bears, what is known of it and what it copies."""

    number: int
    mark: str
    note: str
    copies: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsView:
    """A row of cells.

    Attributes
    ----------
    cells : tuple of CellView
        All of them, or those that were lost where they are many.
    key : tuple of (mark, name, count, numbers)
    """

    title: str
    reading: str
    what: str
    cells: tuple[CellView, ...]
    key: tuple[tuple[str, str, int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """A comparison over several sessions, oldest first, with the course of its first trend."""

    points: tuple[Point, ...]
    course: Course
    spark: Spark

    @property
    def plot(self) -> Plot:
        """The course, as it stands beside the headline."""
        return course_plot(self.course)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """One comparison of a gate.

    Attributes
    ----------
    title : str
        Its name, as short as it stays its own.
    path : str
        Its whole id.
    state : str
        One of `WORDS`; its test may have failed for another comparison.
    label, short : str
        What its ruling is called, and the same in a table.
    judged : str
        By which number it is judged, and what its test accepts.
    why, advice : tuple of str
        Paragraphs: why it is as it is, and what to do.
    effect : str
        With its interval; empty where the card has none.
    main : Plot or None
        The figure that shows why.
    history : HistoryView or None
        None where no earlier session made this comparison.
    is_listed : bool
        Whether its facts stand in the place of tables, lists and figures.
    """

    anchor: str
    title: str
    path: str
    state: str
    tone: Tone
    label: str
    short: str
    judged: str
    card: Card
    effect: str
    bar: Bar | None
    bounds: tuple[Bar | None, ...]
    drift: Drift | None
    why: tuple[str, ...]
    advice: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    main: Plot | None
    plots: tuple[Plot, ...]
    others: tuple[Plot, ...]
    cells: tuple[CellsView, ...]
    lists: tuple[Figure, ...]
    strip: FilmStrip | None
    films: tuple[str, ...]
    commands: tuple[Command, ...]
    history: HistoryView | None
    is_listed: bool = False

    @property
    def is_news(self) -> bool:
        """Whether it became better or worse, or nothing can be said."""
        is_same = (Label.UNCHANGED, Label.UNRESOLVED, Label.NEW)
        return self.drift is not None and self.drift.label not in is_same


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """One gate.

    Attributes
    ----------
    is_open : bool
        Whether its section is.
    """

    anchor: str
    title: str
    path: str
    state: str
    tone: Tone
    detail: str
    earlier: tuple[str, ...]
    is_open: bool
    comparisons: tuple[ComparisonView, ...]
    measurements: tuple[str, ...]

    @property
    def is_quiet(self) -> bool:
        """Whether nobody has to look at it."""
        return self.state in ("passed", "measured", "skipped")


def tone_of(state: str, severities: Sequence[Severity]) -> Tone:
    """Return how bad a result is: a gate that cannot see a model is none that judged it."""
    if Severity.BLIND in severities and Severity.BAD not in severities:
        return "blind"
    if state in FAILING:
        return "bad"
    if state in ("measured", "skipped"):
        return "none"
    # A marker may accept what is bad.
    is_good = state == "passed" and max(severities, default=Severity.GOOD) < Severity.BLIND
    return "good" if is_good else "unsure"


def gate_view(gate: Gate, titles: Mapping[str, str], axis: Axis, history: History) -> GateView:
    """Return what a page shows of a gate, with the title of each name."""
    entry, anchor = gate.entry, f"gate-{gate.place}"
    severities = [one.ruling.severity for one in entry.judgements]
    is_told = bool(gate.comparisons or entry.measurements)
    return GateView(
        anchor=anchor,
        title=titles[gate.id],
        path=gate.id,
        state=gate.state,
        tone=tone_of(gate.state, severities),
        detail=entry.detail or ("" if is_told else WORDS[gate.state]),
        earlier=entry.earlier,
        is_open=False,
        comparisons=tuple(
            _comparison_view(one, titles[one.name], gate, axis, history) for one in gate.comparisons
        ),
        measurements=entry.measurements,
    )


def folded(
    view: GateView, *, is_one_of_many: bool, said: Sequence[tuple[str, str]] = ()
) -> GateView:
    """Return a gate whose section is shut, without film and with its starts counted.

    Both are most of a page. One of many has its numbers in one list, without figures, and repeats
    no fact that is ``said`` elsewhere.
    """
    comparisons = tuple(
        replace(one, strip=None, cells=tuple(_counted(cell) for cell in one.cells))
        for one in view.comparisons
    )
    if is_one_of_many:
        comparisons = tuple(
            replace(
                one,
                main=None,
                plots=(),
                others=(),
                bounds=(None,) * len(one.bounds),
                cells=(),
                lists=(),
                facts=tuple(fact for fact in _numbers(one) if fact not in said),
                is_listed=True,
            )
            for one in comparisons
        )
    return replace(view, comparisons=comparisons)


def _numbers(one: ComparisonView) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a comparison's tables as facts."""
    yield from ((row.name, ", ".join(filter(None, row.cells))) for row in one.card.table.rows)
    yield from one.facts
    if one.card.cause is not None:
        yield from ((name, f"{found} {text}") for name, found, text in one.card.cause.measures)


def _counted(drawn: CellsView) -> CellsView:
    """Return a figure without its cells."""
    return replace(drawn, cells=())


def _comparison_view(
    one: Comparison, title: str, gate: Gate, axis: Axis, history: History
) -> ComparisonView:
    state, found, seconds = one.state, one.judgement, gate.seconds
    ruling, card, drift = found.ruling, found.card, found.drift
    is_quiet, label = state in ("passed", "skipped"), verdict_of(ruling)
    commands = () if is_quiet else found.commands
    # The name of a cause is a heading, and what is not known is none.
    named = f"{card.cause.name}: " if card.cause is not None else None
    told = [
        (name, text.removeprefix(named or ""))
        for name, text in reasons(found)
        if not (named and text.startswith(named) and card.cause and not card.cause.advice)
    ]
    attempt = [("attempt", f"number {gate.entry.attempt}")] * (gate.entry.attempt > 1)
    # What was stored, or finished before an interruption, took its time in another one.
    took = [] if seconds is None else [("test took", f"{duration(seconds)} in this session")]
    causes = card.cause.figures if card.cause is not None else ()
    plots = [figure for figure in (*causes, *card.figures) if figure.kind not in ("cells", "list")]
    main, beside = plots[:1], [figure for figure in plots[1:] if figure not in causes]
    if is_quiet:
        main, beside, causes = [], [], ()
    return ComparisonView(
        anchor=f"gate-{gate.place}",
        title=title,
        path=one.name,
        state=state,
        tone=tone_of(state, [ruling.severity]),
        label=label,
        short=(card.verdict or label) if label == ruling.label else label,
        judged=judged(found),
        card=card,
        effect="" if card.effect is None else effect_text(card.effect),
        bar=None if card.effect is None else bar(card.effect, axis),
        bounds=tuple(
            None if row.bound is None else bound_bar(row.bound, card.table.axis)
            for row in card.table.rows
        ),
        drift=drift,
        why=tuple(
            f"Note: {text}" if name == "Note" else text
            for name, text in told
            if name in ("Why", "Note")
        ),
        advice=tuple(
            f"Accept: {text}" if name == "Accept" else text
            for name, text in told
            if name in ("Do", "Accept")
        ),
        facts=(*attempt, *card.table.below, *card.facts, *took),
        main=next((draw(figure, "why") for figure in main), None),
        plots=tuple(draw(figure, "half") for figure in beside),
        others=tuple(draw(figure, "half") for figure in causes if figure not in main),
        cells=tuple(
            _cells_view(figure, commands, is_quiet=is_quiet)
            for figure in card.figures
            if figure.kind == "cells"
        ),
        lists=tuple(figure for figure in card.figures if figure.kind == "list"),
        strip=_strip(found.strip),
        films=found.films,
        commands=commands,
        history=_history_view(history.points(one.name), drift),
    )


def _strip(strip: Strip | None) -> FilmStrip | None:
    """Return a strip as the page has it, if it shows anything."""
    return film_strip(strip) if strip and all(one.frames for one in strip.reels) else None


def _cells_view(figure: Figure, commands: Sequence[Command], *, is_quiet: bool) -> CellsView:
    """Return a figure's cells; those that were lost alone where there are many."""
    replay = next((one.text for one in commands if one.picks), "")
    sets = list(zip(_MARKS, figure.series.items(), strict=False))
    is_long = sum(len(numbers) for _, (_, numbers) in sets) > _MOST_CELLS
    shown = sets[_LOST : _LOST + 1] if is_long else sets
    told = {cell.number: cell for cell in figure.cells}
    found = []
    for mark, (name, numbers) in [] if is_quiet else shown:
        for number in numbers[:_MOST_CELLS]:
            known = told.get(number)
            copies = "" if known is None else known.code
            if replay and mark == _MARKS[_LOST]:
                copies = f"{replay}::{number}"
            said = f"{figure.axes[0]} {number}: {name}{f'; {known.note}' if known else ''}"
            found.append(CellView(number=number, mark=mark, note=said, copies=copies))
    return CellsView(
        title=figure.title,
        reading=figure.reading,
        what=figure.axes[0],
        cells=tuple(sorted(found, key=lambda cell: cell.number)),
        key=tuple((mark, name, len(numbers), ranges(numbers)) for mark, (name, numbers) in sets),
    )


def _history_view(points: Sequence[Point], drift: Drift | None) -> HistoryView | None:
    """Return what is shown of a comparison that an earlier session made as well."""
    if len(points) < 2 or not points[-1].found.trends:
        return None
    commit = "" if drift is None else drift.commit
    left_out = max(0, len(points) - _MOST_SESSIONS)
    # Sessions that follow at the same commit were not accepted.
    accepted = next(
        (
            at - left_out
            for at, point in enumerate(points[:-1])
            if commit and revision(commit) == revision(point.commit)
        ),
        -1,
    )
    points = points[left_out:]
    course = Course(
        trends=tuple(point.found.trends[0] for point in points),
        revisions=tuple(revision(point.commit) for point in points),
        is_hollow=tuple(point.is_other_design for point in points),
        accepted=accepted if accepted >= 0 else None,
    )
    return HistoryView(points=tuple(points), course=course, spark=spark(course))
