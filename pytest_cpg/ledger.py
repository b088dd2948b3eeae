"""Ledger: which gates a session planned, and what each of them reported.

Runs in the process that prints the summary. What a test measured arrives as one JSON string, so
that it survives the way from an xdist worker; nothing else crosses that border.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pytest_cpg.gates.result import GateResult

Outcome: TypeAlias = Literal["passed", "failed", "error", "skipped", "xfailed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One comparison of a gate and what it means for the test.

    Attributes
    ----------
    result : str
        `GateResult.to_json`.
    reason : str or None
        Why the test fails; None when the result is accepted.
    """

    result: str
    reason: str | None

    def read(self) -> GateResult:
        """Return the result."""
        from pytest_cpg.gates.result import GateResult

        return GateResult.from_json(self.result)


def dump(judgements: Iterable[Judgement]) -> str:
    """Return one JSON string for a report."""
    return json.dumps([[judgement.result, judgement.reason] for judgement in judgements])


def load(text: str) -> tuple[Judgement, ...]:
    """Rebuild judgements from `dump`."""
    return tuple(Judgement(result=result, reason=reason) for result, reason in json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What became of one gate."""

    outcome: Outcome
    judgements: tuple[Judgement, ...] = ()
    detail: str = ""


@dataclass(slots=True)
class Ledger:
    """Every gate of the session, in the order of collection.

    Attributes
    ----------
    planned : dict
        Gate id of every collected gate; the order counts, values are unused.
    entries : dict
        What was reported, by gate id.
    running : str
        What the gate that runs now is doing; shown when the session is interrupted.
    """

    planned: dict[str, None] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)

    def plan(self, gates: Iterable[str]) -> None:
        """Note gates that the session has to report on."""
        self.planned.update(dict.fromkeys(gates))

    def report(self, gate: str, entry: Entry) -> None:
        """Note what a phase of a gate's test reported; the worst phase decides the outcome."""
        before = self.entries.get(gate)
        if before is None:
            self.entries[gate] = entry
        elif entry.outcome in ("failed", "error"):
            self.entries[gate] = Entry(
                outcome=entry.outcome,
                judgements=entry.judgements or before.judgements,
                detail=entry.detail,
            )
        self.running.pop(gate, None)

    @property
    def gates(self) -> tuple[str, ...]:
        """Ids of all gates, planned or reported."""
        return tuple({**self.planned, **dict.fromkeys(self.entries)})

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of gates that were planned and did not report."""
        return tuple(gate for gate in self.planned if gate not in self.entries)
