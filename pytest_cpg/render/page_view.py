"""Page view: what a page shows of each gate of a session, worked out before anything is written.

A session comes as its JSON document, so that the page of an old one can be written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pytest_cpg.gates.card import Card
from pytest_cpg.gates.drift import Drift
from pytest_cpg.render.axis import Axis
from pytest_cpg.render.failure import is_drifted, paragraphs
from pytest_cpg.render.figures import Drawn, Plot, draw, trend
from pytest_cpg.render.forest import Bar, bar, effect_axis, effect_text
from pytest_cpg.report.document import comparisons_in
from pytest_cpg.report.history import NO_HISTORY, History, Point
from pytest_cpg.report.outcomes import FAILING, WORDS, comparison_outcome, gate_outcome
from pytest_cpg.report.shown import Shown, ShownOf

_SIGNS = {
    "failed": "\N{BALLOT X}",
    "error": "!",
    "missing": "\N{EMPTY SET}",
    "xfailed": "\N{MULTIPLICATION SIGN}",
    "inconclusive": "?",
    "skipped": "\N{EN DASH}",
    "passed": "\N{CHECK MARK}",
}
# How a gate can end, as words and as a sign, from worst to best.
STATES: Mapping[str, tuple[str, str]] = {
    outcome: (word, _SIGNS[outcome]) for outcome, word in WORDS.items()
}
# Nobody reads more at a glance, and each one costs the page some bytes.
_MOST_SESSIONS, _MOST_OPEN = 30, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """A comparison over several sessions, oldest first, and what is drawn of each trend."""

    points: tuple[Point, ...]
    plots: tuple[Plot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """One comparison of a gate.

    Attributes
    ----------
    path, name : str
        Its id in two parts: where the test is, and what it is called.
    state : str
        One of `STATES`; its test may have failed for another comparison.
    reason : str or None
        Why the test fails, where the comparison with the baseline does not say so already.
    effect : str
        With its interval; empty where the card has none.
    history : HistoryView or None
        None where no earlier session made this comparison.
    """

    path: str
    name: str
    state: str
    label: str
    reason: str | None
    max_verdict: str
    card: Card
    effect: str
    bar: Bar | None
    drift: Drift | None
    paragraphs: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    figures: tuple[Drawn, ...]
    causes: tuple[Drawn, ...]
    films: tuple[tuple[str, str], ...]
    history: HistoryView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """One gate."""

    anchor: str
    path: str
    name: str
    state: str
    detail: str
    earlier: tuple[str, ...]
    is_open: bool
    comparisons: tuple[ComparisonView, ...]
    measurements: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """All gates of a session.

    Attributes
    ----------
    axis : Axis
        Of all effects that are shares.
    columns : tuple of str
        Of the summary: those of every card's cells.
    check : str
        What was run in place of gates, such as a smoke test; empty where models were judged.
    """

    gates: tuple[GateView, ...]
    axis: Axis
    columns: tuple[str, ...]
    check: str


def page_view(
    document: Mapping[str, Any], shown_of: ShownOf, history: History = NO_HISTORY
) -> PageView:
    """Return what is shown of a session, which is the last of its history.

    Raises ValueError when a result was written by a newer pytest-cpg.
    """
    found = {one["name"]: shown_of(one) for one in comparisons_in(document)}
    cards = [one.card for one in found.values()]
    axis = effect_axis(card.effect for card in cards if card.effect is not None)
    gates = document["gates"]
    states = [_gate_state(gate, found) for gate in gates]
    few_are_bad = sum(state in FAILING for state in states) <= _MOST_OPEN
    views = []
    for place, (gate, state) in enumerate(zip(gates, states, strict=True), 1):
        path, name = _parts(gate["id"])
        comparisons = tuple(
            _comparison_view(
                one,
                found[one["name"]],
                state=_comparison_state(gate, one, found[one["name"]]),
                axis=axis,
                history=_history_view(history.points(one["name"])),
            )
            for one in gate["comparisons"]
        )
        views.append(
            GateView(
                anchor=f"gate-{place}",
                path=path,
                name=name,
                state=state,
                detail=gate["detail"],
                earlier=tuple(gate["earlier"]),
                is_open=few_are_bad and state in FAILING,
                comparisons=comparisons,
                measurements=tuple(gate["measurements"]),
            )
        )
    return PageView(
        gates=tuple(views),
        axis=axis,
        columns=tuple(dict.fromkeys(column for card in cards for column in card.cells)),
        check=next((one.ruling.check for one in found.values() if one.ruling.check), ""),
    )


def revision(commit: str) -> str:
    """Return a commit as a table has room for it."""
    name, dash, dirty = commit.partition("-")
    return f"{name[:7]}{dash}{dirty}" or "not known"


def _gate_state(gate: Mapping[str, Any], found: Mapping[str, Shown]) -> str:
    severities = [found[one["name"]].ruling.severity for one in gate["comparisons"]]
    return gate_outcome(gate["outcome"], severities)


def _comparison_state(gate: Mapping[str, Any], one: Mapping[str, Any], found: Shown) -> str:
    reasons = [other["reason"] for other in gate["comparisons"]]
    return comparison_outcome(
        gate["outcome"], reason=one["reason"], reasons=reasons, severity=found.ruling.severity
    )


def _parts(gate: str) -> tuple[str, str]:
    """Return where a test is and what it is called; its parameters belong to the name."""
    test, bracket, parameters = gate.partition("[")
    path, colons, name = test.rpartition("::")
    return path + colons, name + bracket + parameters


def _comparison_view(
    one: Mapping[str, Any], found: Shown, *, state: str, axis: Axis, history: HistoryView | None
) -> ComparisonView:
    path, name = _parts(one["name"])
    ruling, card, drift = found.ruling, found.card, found.drift
    reason = one["reason"]
    attempt = [("attempt", f"number {one['attempt']}")] * (one["attempt"] > 1)
    return ComparisonView(
        path=path,
        name=name,
        state=state,
        label=ruling.label,
        reason=None if is_drifted(drift, reason) else reason,
        max_verdict=one["max_verdict"],
        card=card,
        effect="" if card.effect is None else effect_text(card.effect),
        bar=None if card.effect is None else bar(card.effect, axis),
        drift=drift,
        paragraphs=tuple(paragraphs(card, ruling, reason=reason, drift=drift)),
        facts=(*attempt, *card.facts),
        figures=tuple(map(draw, card.figures)),
        causes=() if card.cause is None else tuple(map(draw, card.cause.figures)),
        films=tuple((PurePosixPath(film).stem, film) for film in one["films"]),
        history=history,
    )


def _history_view(points: Sequence[Point]) -> HistoryView | None:
    """Return what is shown of a comparison that an earlier session made as well."""
    points = points[-_MOST_SESSIONS:]
    if len(points) < 2:
        return None
    hollow = [point.is_other_design for point in points]
    followed = zip(*(point.found.trends for point in points), strict=True)
    return HistoryView(
        points=tuple(points),
        plots=tuple(trend(trends, is_hollow=hollow) for trends in followed),
    )
