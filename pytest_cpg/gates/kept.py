"""Kept result: what outlives a session of a result, in the words of its kind of gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.parts import offers

T = TypeVar("T")

# Of files that name no kind, as there was one when they were written.
FIRST_KIND = "cpg"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """The last accepted result of one gate, or of one comparison; the commit may be empty."""

    id: str
    kind: str
    commit: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, gate: str, kind: Any, entry: Any, *, commit: str) -> KeptResult:
        """Return what is kept of an entry, which a kind has made of a result."""
        return cls(id=gate, kind=kind.marker, commit=commit, values=encode(entry))

    def to_plain(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return what is written: all but the id, which the file has as a name.

        The first kind's values stand beside the commit, as they did when there was no other.
        """
        if self.kind == FIRST_KIND:
            return {**values["values"], "commit": self.commit}
        return {name: value for name, value in values.items() if name != "id"}

    @classmethod
    def read(cls, gate: str, values: Mapping[str, Any]) -> KeptResult:
        """Rebuild it from a gate's id and JSON form; its kind reads the values.

        Raises ValueError when a value is missing or unknown.
        """
        if "kind" not in values:
            entry = {name: value for name, value in values.items() if name != "commit"}
            commit = {name: values[name] for name in values if name == "commit"}
            values = {"kind": FIRST_KIND, "values": entry, **commit}
        return decode(cls, {**values, "id": gate})


def entry_for(kind: Any, kept: KeptResult | None) -> Any:
    """Return what a kind is to compare with; None where nothing of this kind is kept.

    Raises ValueError or KindError when the kind cannot read it.
    """
    if kept is None or kept.kind != kind.marker:
        return None
    if not offers(kind, "read_entry"):
        return kept.values
    return ask(kind, "read_entry", kept.values, commit=kept.commit)


def drift_of(kind: Any, kept: KeptResult | None, result: Any) -> Drift:
    """Return how a result stands beside what is kept of its gate, and since which commit.

    Raises ValueError or KindError when the kind cannot read it.
    """
    accepted = entry_for(kind, kept)
    drift: Drift = ask(kind, "compare", accepted, result)
    if accepted is None or kept is None or drift.commit:
        return drift
    return replace(drift, commit=kept.commit)


def reading(entry: type[T]) -> Callable[..., T]:
    """Return the ``read_entry`` of a kind whose entries are this dataclass.

    It raises ValueError for plain values that are none.
    """

    def read_entry(values: Mapping[str, Any], *, commit: str) -> T:  # noqa: ARG001
        return decode(entry, values)

    return read_entry


def read_cost(known: type[T], cost: Any) -> T | None:
    """Return what a kind's ``cost`` gave; None for what another version has written, or an editor.

    The dataclass ``known`` raises ValueError for what is impossible.
    """
    try:
        return decode(known, cost)
    except ValueError:
        return None
