"""Finding: a statement about several gates, and what it is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_cpg.gates.kind import MaxVerdict

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about several gates, or about the baseline.

    One that ``warns`` has to be known before a verdict is believed; one that ``answers`` says that
    what was asked for has been done, which quiet sessions say, too.
    """

    text: str
    fails: bool = False
    warns: bool = False
    answers: bool = False


class Compared(NamedTuple):
    """One comparison of one gate, by its own name, and the worst ruling that its test accepts."""

    gate: str
    name: str
    result: Any
    max_verdict: MaxVerdict
    is_excused: bool = False


def named(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{shown}{more}"
