"""Shown: what a renderer gets of one of a document's comparisons, whatever the gate asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pytest_cpg.contracts.codec import decode
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import Card, Ruling
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.kind import MaxVerdict, max_verdict_of
from pytest_cpg.report.document import drift_of
from pytest_cpg.report.ledger import Judgement, Kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A ruling and its card, and what the test accepts."""

    ruling: Ruling
    card: Card
    max_verdict: MaxVerdict
    drift: Drift | None = None


# Reads one comparison of a document.
ShownOf: TypeAlias = Callable[[Mapping[str, Any]], Shown]


def shown_in(judgement: Judgement) -> Shown:
    """Return what is shown of a comparison of this session."""
    return Shown(
        ruling=judgement.ruling,
        card=judgement.card,
        max_verdict=judgement.max_verdict,
        drift=judgement.drift,
    )


def shown_of(comparison: Mapping[str, Any], kinds: Kinds) -> Shown:
    """Return what is shown of one of a document's comparisons, by its kind of gate."""
    kind = kinds[comparison["kind"]]
    result = decode(kind.result, comparison["result"])
    max_verdict = max_verdict_of(comparison["max_verdict"], kind.labels)
    return Shown(
        ruling=ask(kind, "judge", result, max_verdict),
        card=ask(kind, "card", result, max_verdict),
        max_verdict=max_verdict,
        drift=drift_of(comparison),
    )
