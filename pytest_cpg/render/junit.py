"""JUnit: a gate's numbers as properties of its test case."""

from __future__ import annotations

from pytest_cpg.gates.card import Card, Ruling
from pytest_cpg.gates.notation import visible


def properties(card: Card, ruling: Ruling) -> list[tuple[str, str | float]]:
    """Return names and plain values, for ``user_properties``."""
    values = {"verdict": ruling.label, **card.numbers}
    return [
        (f"cpg_{name}", visible(value) if isinstance(value, str) else value)
        for name, value in values.items()
    ]
