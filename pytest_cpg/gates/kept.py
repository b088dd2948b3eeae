"""Kept result: what a baseline keeps of an accepted result, in the words of its kind of gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cpg.contracts.codec import decode

# Of files that name no kind, as there was one when they were written.
FIRST_KIND = "cpg"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """The last accepted result of one gate, of any kind that has no form of its own.

    Attributes
    ----------
    id : str
        The gate, or one of its comparisons.
    kind : str
        The kind's marker.
    commit : str
        Where it was accepted; empty when not known.
    values : mapping
        The kind's entry, as plain values.
    """

    id: str
    kind: str
    commit: str
    values: Mapping[str, Any]

    def to_plain(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return what is written: all but the id, which the file has as a name."""
        return {name: value for name, value in values.items() if name != "id"}

    @classmethod
    def read(cls, gate: str, values: Mapping[str, Any]) -> KeptResult:
        """Rebuild it from a gate's id and JSON form.

        Raises
        ------
        ValueError
            When a value is missing or unknown.
        """
        return decode(cls, {**values, "id": gate})


def entry_for(kind: Any, kept: Any) -> Any:
    """Return what a kind is to compare with; None where nothing of this kind is kept."""
    marker = kept.kind if isinstance(kept, KeptResult) else FIRST_KIND
    if kept is None or marker != kind.marker:
        return None
    return kept.values if isinstance(kept, KeptResult) else kept
