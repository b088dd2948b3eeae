"""Shown: what a renderer gets of a document's gates, whatever they asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.drift import Label
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.outcomes import WORDS, comparison_outcomes, gate_outcome

# Reads one comparison of a document.
ShownOf: TypeAlias = Callable[[Mapping[str, Any]], Judgement]


class ShownComparison(NamedTuple):
    """One of a document's comparisons, how it ended, and what is shown of it."""

    values: Mapping[str, Any]
    state: str
    shown: Judgement


# From worst to best: a gate that measured nothing says nothing of its model.
_ENDS = ("missing", "error", *(state for state in WORDS if state not in ("missing", "error")))


class ShownGate(NamedTuple):
    """One of a document's gates, and how it ended.

    Attributes
    ----------
    place : int
        In the document, from 1.
    """

    place: int
    values: Mapping[str, Any]
    state: str
    comparisons: tuple[ShownComparison, ...]


def worst_first(document: Mapping[str, Any], shown_of: ShownOf) -> list[ShownGate]:
    """Return the gates of a document in the order of `badness`."""
    gates = [_gate(place, gate, shown_of) for place, gate in enumerate(document["gates"], 1)]
    return sorted(gates, key=lambda gate: badness(gate.state, [o.shown for o in gate.comparisons]))


def badness(state: str, found: Sequence[Judgement]) -> tuple[float, ...]:
    """Return what puts the worst first: how it ended, how bad that is, how much it loses.

    Parameters
    ----------
    state : str
        One of `WORDS`.
    found : sequence of Judgement
        Of each comparison of a gate, or of one.
    """
    effects = [one.card.effect for one in found if one.card.effect is not None]
    losses = [effect.found.estimate for effect in effects if effect.is_share]
    is_regressed = any(one.drift and one.drift.label is Label.REGRESSED for one in found)
    return (
        _ENDS.index(state),
        bool(found),
        -max((one.ruling.severity for one in found), default=Severity.GOOD),
        not is_regressed,
        -max(losses, default=float("-inf")),
    )


def _gate(place: int, gate: Mapping[str, Any], shown_of: ShownOf) -> ShownGate:
    found = [shown_of(one) for one in gate["comparisons"]]
    states = comparison_outcomes(gate["outcome"], found)
    return ShownGate(
        place,
        gate,
        gate_outcome(gate["outcome"], [one.ruling.severity for one in found]),
        tuple(map(ShownComparison, gate["comparisons"], states, found)),
    )
