"""A gate of a kind that nobody has heard of, in a document: for tests of what shows any kind."""

from collections.abc import Mapping

from documents import gate

from pytest_cpg.gates import GATES
from pytest_cpg.gates.card import (
    Card,
    Cause,
    Effect,
    Figure,
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
        headline=f"error {error:.2f}",
        size="n=3",
        cells={"error": f"{error:.2f}", "limit": "0.25"},
        table=Table(
            name="part",
            columns=("error",),
            rows=(Row(name="positions", cells=("0.11",)),),
            below=(("sum", "0.32 of both"),),
        ),
        facts=(("transitions", "3 of 1000"),),
        meaning=("The model is wrong by more than its limit.",),
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

    comparison = {
        "name": "t.py::test_error",
        "kind": "other",
        "reason": "the error is above its limit",
        "max_verdict": "ACCURATE",
        "attempt": 1,
        "drift": None,
        "films": [],
        "result": {"error": error},
    }
    found = {**gate("t.py::test_error", outcome="failed"), "comparisons": [comparison]}
    return found, {**GATES, "other": Other()}
