"""A gate of a kind that nobody has heard of, in a document: for tests of what shows any kind."""

from collections.abc import Mapping
from dataclasses import replace

from documents import gate

from pytest_cpg.contracts.codec import encode
from pytest_cpg.gates import GATES
from pytest_cpg.gates.at_most import AtMost, Measured
from pytest_cpg.gates.card import (
    Card,
    Cause,
    Effect,
    Figure,
    Note,
    Row,
    Ruling,
    Severity,
    Table,
    Trend,
)
from pytest_cpg.stats import Interval

LINE = ((1, 0.1), (2, 0.3), (3, 0.2))


def other_card(error, *, design="", unit="of error"):
    """Return the card of a kind of gate that nobody has heard of."""
    figures = (
        Figure(
            kind="curves",
            title="Error by step",
            reading="Lower is better.",
            axes=("steps", "error, m"),
            series={"model": LINE, "limit": ((1, 0.25), (3, 0.25))},
        ),
        Figure(
            kind="cells",
            title="Transitions",
            axes=("transition", ""),
            series={"below the limit": (0, 2), "above it": (1,)},
        ),
        Figure(
            kind="list",
            title="Worst transitions",
            series={"1": ("state 5", "error 0.9")},
        ),
    )
    bound = Interval(estimate=error, low=error - 0.1, high=error + 0.1, level=0.9, method="t")
    return Card(
        sentence=f"error {error:.2f}",
        size="n=3",
        cells={"error": f"{error:.2f}", "limit": "0.25"},
        table=Table(
            name="part",
            columns=("error",),
            rows=(Row(name="positions", cells=("0.11",)),),
            below=(("sum", "0.32 of both"),),
        ),
        facts=(("transitions", "3 of 1000"),),
        notes=(Note("why", "The model is wrong by more than its limit."),),
        cause=Cause(
            name="FRICTION",
            text="The floor is slippery.",
            source="3 transitions",
            measures=(("slip", "0.30 [0.20, 0.40]", "m"),),
            figures=(
                Figure(
                    kind="scatter",
                    title="Predicted over true",
                    axes=("true", ""),
                    series={"learned": LINE},
                ),
            ),
        ),
        effect=Effect(found=bound, unit=unit, is_share=False),
        figures=figures,
        trends=(Trend(name="Mean error", text=f"{error:.3f}", bound=bound),),
        design=design,
    )


def other_gate(error, **more):
    """Return a gate of that kind in a document, and all kinds by their markers."""

    class Other:
        marker, result = "other", Mapping[str, float]
        labels = {"ACCURATE": Severity.GOOD, "INACCURATE": Severity.BAD}  # noqa: RUF012

        def judge(self, result, max_verdict):
            return Ruling(label="INACCURATE", severity=Severity.BAD)

        def card(self, result, max_verdict):
            return other_card(result["error"], **more)

    kind, reason = Other(), "the error is above its limit"
    return _read("error", kind, {"error": error}, reason), {**GATES, "other": kind}


def _read(name, kind, result, reason):
    """Return a gate in a document, as it is read."""
    comparison = {
        "name": f"t.py::test_{name}",
        "kind": kind.marker,
        "reason": reason,
        "max_verdict": next(iter(kind.labels)),
        "attempt": 1,
        "drift": None,
        "result": result,
    }
    outcome = "failed" if reason else "passed"
    return {**gate(f"t.py::test_{name}", outcome=outcome), "comparisons": [comparison]}


class _Blind:
    """A kind of a user's own whose only ruling is that it could not have failed."""

    marker, result = "blind", Mapping[str, float]
    labels = {"SEEN": Severity.GOOD, "UNSEEN": Severity.BLIND}  # noqa: RUF012
    reason = "97 % of states name the right one without looking."

    def judge(self, result, max_verdict):
        return Ruling(label="UNSEEN", severity=Severity.BLIND, reason=self.reason)

    def card(self, result, max_verdict, *, model=""):
        return replace(other_card(result["error"]), gist="no model can miss it")


def blind_gate():
    """Return a gate that is blind for a reason which its card does not know."""
    return _read("blind", _Blind(), {"error": 0.0}, _Blind.reason)


blind_gate.kinds = {"blind": _Blind()}


def number_gate(label):
    """Return a gate on one number that is within its limit."""
    kind = number_gate.kinds["error_at_most"]
    bound = Interval(estimate=0.2, low=0.1, high=0.24, level=0.95, method="t")
    result = Measured(limit=0.25, size="500 steps", conditions={}, found=bound, p_value=0.5)
    assert kind.judge(result, None).label == label
    return _read("error_at_most", kind, encode(result), None)


number_gate.kinds = {
    "error_at_most": AtMost(
        marker="error_at_most",
        help="An error.",
        number="one-step error",
        sample=lambda *_: None,
        unit="of one step",
    )
}
