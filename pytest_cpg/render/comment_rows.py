"""Comment rows: the comparisons of a document, as comment and annotations list them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pytest_cpg.gates.card import Cause, Command
from pytest_cpg.gates.notation import fitted_names
from pytest_cpg.render.failure import headline, reasons
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.outcomes import FAILING, gist
from pytest_cpg.report.shown import ShownGate, ShownOf, worst_first

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
    ended : str
        How its gate ended, one of `WORDS`.
    status : str
        The outcome of the comparison, or of the gate that made none.
    number : int
        Of the comparison among those of its gate, from 1.
    """

    gate: Mapping[str, Any]
    name: str
    ended: str
    status: str
    shown: Judgement | None = None
    number: int = 1

    @property
    def reason(self) -> str | None:
        """Why the test fails for it."""
        return None if self.shown is None else self.shown.reason

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
        return headline(self.shown)

    @property
    def brief(self) -> CommentRow:
        """The same row where there is little room: of an error its first sentence."""
        return self._replace(gate={**self.gate, "detail": gist(self.gate["detail"])})

    @property
    def told(self) -> list[tuple[str, str]]:
        """Why it is so and what to do, each with its name."""
        return [] if self.shown is None or self.reason is None else reasons(self.shown)

    @property
    def cause(self) -> Cause | None:
        """What was measured of why it is so."""
        return None if self.shown is None else self.shown.card.cause

    @property
    def commands(self) -> tuple[Command, ...]:
        """What to type where it fails."""
        return () if self.shown is None else self.shown.commands


def rows_by_gate(document: Mapping[str, Any], shown_of: ShownOf) -> list[list[CommentRow]]:
    """Return the comparisons of each gate, the worst gate first."""
    gates = tuple(gate["id"] for gate in document["gates"])
    names = fitted_names(gates, _ANY_WIDTH, shares=False).of
    return [list(_rows(gate, names[gate.values["id"]])) for gate in worst_first(document, shown_of)]


def _rows(gate: ShownGate, name: str) -> Iterator[CommentRow]:
    if not gate.comparisons:
        yield CommentRow(gate.values, name, gate.state, gate.state)
    for number, (one, state, shown) in enumerate(gate.comparisons, 1):
        own = name + one["name"].removeprefix(gate.values["id"])
        yield CommentRow(gate.values, own, gate.state, state, shown, number)
