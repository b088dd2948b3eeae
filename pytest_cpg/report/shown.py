"""Shown: what a renderer gets of one of a document's comparisons, whatever the gate asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pytest_cpg.gates.card import Card, Drift, Ruling
from pytest_cpg.gates.planning_gap.card import card_of
from pytest_cpg.gates.planning_gap.ruling import ruling_of
from pytest_cpg.report.document import drift_of, result_of
from pytest_cpg.stats import parse_verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A ruling and its card.

    Attributes
    ----------
    drift : Drift or None
        How the result stands to the baseline, if that was asked.
    """

    ruling: Ruling
    card: Card
    drift: Drift | None = None


# Reads one comparison of a document.
ShownOf: TypeAlias = Callable[[Mapping[str, Any]], Shown]


def shown_of(comparison: Mapping[str, Any]) -> Shown:
    """Return what is shown of one of a document's comparisons.

    Raises
    ------
    ValueError
        When it was written by a newer pytest-cpg.
    """
    result, accepts = result_of(comparison), parse_verdict(comparison["max_verdict"])
    return Shown(
        ruling=ruling_of(result, accepts),
        card=card_of(result, accepts),
        drift=drift_of(comparison),
    )
