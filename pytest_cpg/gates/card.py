"""Card: all that any renderer shows of a gate's result, whatever the gate asks.

A gate's kind fills it in; `render` lays it out and knows nothing else of a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


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
    """What a gate says of a model.

    Attributes
    ----------
    label : str
        In the gate's own words, in capitals.
    severity : Severity
        A test fails where it is worse than what its marker accepts.
    reason : str
        Why the test fails where it does, in one sentence.
    doubt : str or None
        Why a verdict that may pass is not sure; --cpg-strict fails it for that.
    """

    label: str
    severity: Severity
    reason: str
    doubt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """An estimate and its interval, which a renderer may draw."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table.

    Attributes
    ----------
    name : str
    cells : tuple of str
        One for each column of the table.
    bound : Bound or None
        Drawn behind the cells, on the table's axis.
    """

    name: str
    cells: tuple[str, ...]
    bound: Bound | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What was measured, line by line.

    Attributes
    ----------
    name : str
        Heading of the first column.
    columns : tuple of str
        Headings of the others.
    rows : tuple of Row
    axis : (low, high)
        The scale that bounds are drawn on.
    below : tuple of (name, text)
        What follows from the rows, such as their difference.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    axis: tuple[float, float] = (0.0, 1.0)
    below: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the model loses, worse to the right: the one axis that all gates of a page share.

    Attributes
    ----------
    estimate, low, high : float
    unit : str
        Such as "of starts"; effects of one unit share a scale.
    margin : float or None
        The largest loss that is accepted as none.
    """

    estimate: float
    low: float
    high: float
    unit: str
    margin: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The data of a picture, and no pixels: a page, a terminal or nobody draws it.

    Attributes
    ----------
    kind : str
        How it is drawn: "curves", "cells", "steps".
    title : str
    reading : str
        How to read it, in a sentence.
    axes : (str, str)
        What is drawn across and upward, with units; empty where that is plain.
    series : mapping
        Name to values: numbers of a curve, words of cells.
    """

    kind: str
    title: str
    reading: str
    axes: tuple[str, str]
    series: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a result is as it is, from measurements.

    Attributes
    ----------
    name : str
        In capitals, as the documentation has it.
    text : str
        What was found, and what to do.
    source : str
        What it was measured on.
    measures : tuple of (name, numbers, text)
    figures : tuple of Figure
    """

    name: str
    text: str
    source: str
    measures: tuple[tuple[str, str, str], ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something to type next.

    Attributes
    ----------
    what : str
        What it does, in a few words.
    text : str
        The whole command line, quoted.
    """

    what: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A sentence below a gate's line of the summary.

    Attributes
    ----------
    text : str
    detail : int
        pytest's verbosity from which on it is shown: -1 always, 0 unless quiet, 1 under -v.
    """

    text: str
    detail: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a gate's result looks like, to anybody.

    Attributes
    ----------
    headline : str
        The result in at most 80 columns: the first line everywhere.
    cells : mapping
        Column to text, of the gate's line in summary and comment; names are shared by all gates
        of a kind.
    table : Table
    facts : tuple of (name, text)
        What a reader may look up.
    paragraphs : tuple of str
        What the ruling means, and what to do.
    cause : Cause or None
    effect : Effect or None
    figures : tuple of Figure
    commands : tuple of Command
        The most useful one first.
    remarks : tuple of Remark
    numbers : mapping
        Plain values by name, for JUnit and trackers.
    """

    headline: str
    cells: Mapping[str, str]
    table: Table
    facts: tuple[tuple[str, str], ...] = ()
    paragraphs: tuple[str, ...] = ()
    cause: Cause | None = None
    effect: Effect | None = None
    figures: tuple[Figure, ...] = ()
    commands: tuple[Command, ...] = ()
    remarks: tuple[Remark, ...] = ()
    numbers: Mapping[str, str | float] = field(default_factory=dict)
