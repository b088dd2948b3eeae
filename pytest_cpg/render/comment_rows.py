"""Comment rows: the comparisons of a document, as comment and annotations list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_cpg.contracts.codec import decode
from pytest_cpg.gates.card import Cause, Command, Severity
from pytest_cpg.gates.drift import Label
from pytest_cpg.gates.notation import fitted_names
from pytest_cpg.render.failure import headline, reasons
from pytest_cpg.report.outcomes import FAILING, comparison_outcome, gist
from pytest_cpg.report.shown import Shown, ShownOf

# What stands in the place of a label.
_UNJUDGED = {"failed": "FAILED", "error": "ERROR", "missing": "NOT REPORTED"}
# Names are cut by whoever writes them.
_ANY_WIDTH = 10**9


class CommentRow(NamedTuple):
    """One comparison of a gate, or a gate that made none.

    Attributes
    ----------
    name : str
        Without the file, where all gates are told apart so.
    status : str
        The outcome of the comparison, or of the gate that made none.
    commands : tuple of Command
        What to type where it fails.
    number : int
        Of the comparison among those of its gate, from 1.
    """

    gate: Mapping[str, Any]
    name: str
    status: str
    reason: str | None = None
    shown: Shown | None = None
    commands: tuple[Command, ...] = ()
    number: int = 1

    @property
    def fails(self) -> bool:
        """Whether its gate fails for it."""
        return self.status in FAILING

    @property
    def why(self) -> str:
        """Why the gate ended so, as far as this tells; empty where it passed."""
        said = ". ".join(filter(None, (self.reason, self.gate["detail"])))
        return said or "the test failed by itself; its log says how" * (self.status == "failed")

    @property
    def sentence(self) -> str:
        """What was found, in a sentence that stands alone, its label first."""
        if self.shown is None:
            return f"{_UNJUDGED.get(self.status, self.status)}: {self.why or 'nothing is judged'}"
        return headline(self.shown, self.reason)

    @property
    def brief(self) -> CommentRow:
        """The same row where there is little room: of an error its first sentence."""
        return self._replace(gate={**self.gate, "detail": gist(self.gate["detail"])})

    @property
    def told(self) -> list[tuple[str, str]]:
        """Why it is so and what to do, each with its name."""
        if self.shown is None or self.reason is None:
            return []
        return reasons(self.shown, self.reason)

    @property
    def cause(self) -> Cause | None:
        """What was measured of why it is so."""
        return None if self.shown is None else self.shown.card.cause

    @property
    def is_regressed(self) -> bool:
        """Whether it is worse than the accepted result."""
        drift = None if self.shown is None else self.shown.drift
        return drift is not None and drift.label is Label.REGRESSED

    @property
    def badness(self) -> tuple[int, ...]:
        """By which rows are sorted, worst first."""
        severity = Severity.BROKEN if self.shown is None else self.shown.ruling.severity
        effect = None if self.shown is None else self.shown.card.effect
        loss = effect.found.estimate if effect is not None and effect.is_share else 0.0
        open_or_not = self.status == "inconclusive"
        ranks = (self.fails, open_or_not, severity, self.is_regressed)
        return (*(-int(rank) for rank in ranks), -round(1000 * loss))


def rows_by_gate(document: Mapping[str, Any], shown_of: ShownOf) -> list[list[CommentRow]]:
    """Return the comparisons of each gate, the worst gate first."""
    names = fitted_names(tuple(gate["id"] for gate in document["gates"]), _ANY_WIDTH).of
    rows = [_rows(gate, names[gate["id"]], shown_of) for gate in document["gates"]]
    return sorted(rows, key=lambda own: min(row.badness for row in own))


def _rows(gate: Mapping[str, Any], name: str, shown_of: ShownOf) -> list[CommentRow]:
    """Return the comparisons of one of a document's gates, or a row for the gate alone."""
    comparisons: Sequence[Mapping[str, Any]] = gate["comparisons"]
    if not comparisons:
        return [CommentRow(gate, name, gate["outcome"])]
    blamed = [one["reason"] for one in comparisons]
    rows = []
    for number, one in enumerate(comparisons, 1):
        shown = shown_of(one)
        status = comparison_outcome(
            gate["outcome"], reason=one["reason"], reasons=blamed, severity=shown.ruling.severity
        )
        own = name + one["name"].removeprefix(gate["id"])
        commands = decode(tuple[Command, ...], one.get("commands", []))
        rows.append(CommentRow(gate, own, status, one["reason"], shown, commands, number))
    return rows
