"""Card: all that any renderer shows of a gate's result, whatever the gate asks.

A gate's kind fills it in; `render` lays it out and knows nothing else of a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from pytest_cpg.stats import Interval

# How a figure is drawn; `Figure` says what each is.
FigureKind: TypeAlias = Literal["curves", "steps", "histogram", "scatter", "cells", "list"]
NoteKind: TypeAlias = Literal["judged", "why", "do", "note"]
# More marks of a cell would not be told apart.
_MOST_SETS = 4


USUAL_LEVEL = 0.95
"""The option's default, which need not be typed; a test holds them equal."""
# A cell of this name is compared with the accepted result; without one, the first cell is.
NOW = "now"
# What a ruling says was run where no model was judged; the second has the oracle in both arms.
SMOKE_TEST, AA_CHECK = "smoke test", "A/A check"


class Severity(IntEnum):
    """How bad a ruling is, from best to worst; all kinds of gate share it."""

    GOOD = 0
    UNSURE = 1
    # The gate could not have failed, and so says nothing of the model.
    BLIND = 2
    BAD = 3
    # The model broke its contract; nothing accepts that.
    BROKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a gate says of a model, by a label of its own, in capitals.

    ``reason`` is why the test fails, in one sentence; None leaves that to the severity. ``doubt``
    is why a verdict that may pass is not sure, for which --cpg-strict fails it. ``check`` is what
    was run in place of a gate, such as "smoke test"; empty where a model was judged.
    """

    label: str
    severity: Severity
    reason: str | None = None
    doubt: str | None = None
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table, a cell for each column.

    The estimate of ``bound`` is drawn as a bar behind the first cell, on the table's axis.
    """

    name: str
    cells: tuple[str, ...]
    bound: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What was measured, line by line; its name heads the first column.

    Bounds are drawn on the scale ``axis``. What follows from the rows, such as their difference,
    stands ``below`` by name.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    axis: tuple[float, float] = (0.0, 1.0)
    below: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        model: str,
        cells: Mapping[str, str],
        bound: Interval,
        axis: tuple[float, float] = (0.0, 1.0),
    ) -> Table:
        """Return the table of one number of a model; without a name, it is the learned one."""
        row = Row(name=model or "learned", cells=tuple(cells.values()), bound=bound)
        return cls(name="model", columns=tuple(cells), rows=(row,), axis=axis)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"the row {row.name!r} has {len(row.cells)} cells, and its table the columns "
                    f"{', '.join(self.columns) or 'none'}"
                )
        low, high = self.axis
        if not low < high:
            raise ValueError(f"the axis of the table {self.name!r} goes from {low!r} to {high!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the model loses, worse to the right: the one axis that all gates of a page share.

    The unit is such as "of starts". A share lies in [-1, 1]; anything else is drawn on a scale of
    its own. ``margin`` is the largest loss that is accepted as none; a difference may fall below 0,
    and is written with its sign.
    """

    found: Interval
    unit: str
    is_share: bool = True
    margin: float | None = None
    is_difference: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A number followed over sessions: cards with trends of the same names make one history.

    Where a gate has a share of which 1 is right, it is its card's first trend. The text is as a
    table has it; without an axis the numbers decide on one around zero.
    """

    name: str
    text: str
    bound: Interval
    axis: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.axis is not None and not self.axis[0] < self.axis[1]:
            low, high = self.axis
            raise ValueError(f"the axis of the trend {self.name!r} goes from {low!r} to {high!r}")


class Cell(NamedTuple):
    """What is to know of one cell, and the code that leads to it; both may be empty."""

    number: int
    note: str
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The data of a picture, and no pixels: a page, a terminal or nobody draws it.

    Kinds: "curves" are lines through points, "steps" stairs that turn at each point, a "histogram"
    stairs as well, the first as bars, a "scatter" dots; "cells" are at most four sets of places, in
    this order: as it should be, worse, better, and neither; a "list" is lines of text.

    ``series`` maps names to points (x, y) with x increasing, in a band and back along its other
    side; to the whole numbers of cells; to the texts that follow the name of a list's line. Series
    called oracle, learned, chance and limit look the same in all figures; a limit is a line in each
    of them, and a band an area. Others are told apart by their order.

    ``reading`` says how to read it, ``finding`` what it shows of this result, in a few words;
    either may be empty. ``axes`` are what is drawn across and upward, with units; ``scale`` the
    ends of the upward one, where not the points decide; ``across`` how many cells are in a row, 0
    for as many as there is room for.
    """

    kind: FigureKind
    title: str
    reading: str = ""
    finding: str = ""
    axes: tuple[str, str] = ("", "")
    series: Mapping[str, tuple[Any, ...]]
    cells: tuple[Cell, ...] = ()
    across: int = 0
    scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        kinds = get_args(FigureKind)
        if self.kind not in kinds:
            raise ValueError(f"no figure of kind {self.kind!r}: there are {', '.join(kinds)}")
        if self.kind == "cells" and len(self.series) > _MOST_SETS:
            raise ValueError(
                f"need at most {_MOST_SETS} sets of cells, got {len(self.series)} in {self.title!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a result is as it is, from measurements; the title is the question that it answers.

    The name is in capitals, as the documentation has it; the source is what was measured. Measures
    are (name, numbers, text); a terminal has room for the ``main`` ones. The clearest figure is
    first.
    """

    name: str
    text: str
    source: str
    advice: str = ""
    title: str = "Why"
    measures: tuple[tuple[str, str, str], ...] = ()
    main: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def heading(self) -> str:
        """The question and its answer."""
        return f"{self.title}: {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something to type next: its effect in a few words, and the whole command line, quoted.

    It begins with ``program``, as pytest is typed for the same project. ``picks`` says that ``::7``
    behind it runs episode 7 alone.
    """

    what: str
    text: str
    program: str = "pytest"
    picks: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A text beside the sentence of a result.

    Of kind "judged" it is the number that is judged, as "gap 0.28 [0.14, 0.40]"; "why" is what the
    ruling means, "do" what to do about it, and "note" what else to know before trusting it. The
    summary shows it from pytest's verbosity ``level`` on: -1 always, 0 unless quiet, 1 under -v
    alone.
    """

    kind: NoteKind
    text: str
    level: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a gate's result looks like, to anybody.

    ``kind`` is what the gate asks, in a word or two, ``subject`` the task or the queries that it
    asks about. ``sentence`` says what was found, without a full stop, to stand behind the ruling's
    label; ``gist`` what the label means, in at most 55 columns; ``size`` how much was measured, in
    at most 12.

    ``cells`` map columns of summary and comment, which all gates of a kind share, to text. The one
    called "now", or else the first, is beside the accepted one; "n" is what ``size`` says.
    ``facts`` are what a reader may look up, ``numbers`` plain values for JUnit and trackers.

    ``design`` is what two sessions share whose numbers may be compared. ``drop`` is the loss from
    which on such a gate fails 4 times in 5. ``settle`` maps options to what settles a ruling that
    is not sure, on other starts where a seed is among them. Each is empty where nothing is known.
    """

    sentence: str
    size: str
    cells: Mapping[str, str]
    table: Table
    kind: str = ""
    subject: str = ""
    gist: str = ""
    notes: tuple[Note, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    cause: Cause | None = None
    effect: Effect | None = None
    figures: tuple[Figure, ...] = ()
    trends: tuple[Trend, ...] = ()
    design: str = ""
    drop: float | None = None
    settle: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, str | float] = field(default_factory=dict)

    def texts(self, kind: NoteKind, *, level: int = 0) -> list[str]:
        """Return the notes of a kind, as far as they are for this verbosity."""
        return [note.text for note in self.notes if note.kind == kind and note.level <= level]

    def because(self, reason: str, *, is_blind: bool) -> Card:
        """Return the card with the reason of its ruling, which no reader of a card can drop.

        A blind gate says it in place of the sentence.
        """
        if is_blind:
            return replace(self, sentence=reason.rstrip("."))
        texts = (self.sentence, *self.texts("why"))
        if reason.rstrip(".") in (text.rstrip(".") for text in texts):
            return self
        end = "" if reason.endswith((".", "?")) else "."
        return replace(self, notes=(Note("why", f"{reason}{end}"), *self.notes))


def numbers_of(intervals: Mapping[str, Interval | None]) -> dict[str, float]:
    """Return what intervals are as plain values, by their names; of None there is nothing."""
    numbers: dict[str, float] = {}
    for name, interval in intervals.items():
        if interval is not None:
            numbers |= {
                name: interval.estimate,
                f"{name}_low": interval.low,
                f"{name}_high": interval.high,
            }
    return numbers


def comparison_name(gate: str, number: int) -> str:
    """Return the name of a gate's comparison ``number``, counted from 1."""
    return gate if number == 1 else f"{gate} #{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reel:
    """One arm's episode, and how it ended: "solved at step 204".

    Frames are steps, rising, and what was seen there: WebP of 4 to 3 as base64.
    """

    arm: str
    ending: str
    is_solved: bool
    frames: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A lost episode in both arms, the oracle first, and how many were lost.

    The period is the seconds of a step; 0 where a step has no time. The goal is that of the start,
    in words; empty where starts have none of their own.
    """

    episode: int
    lost: int
    period: float
    reels: tuple[Reel, ...]
    goal: str = ""
