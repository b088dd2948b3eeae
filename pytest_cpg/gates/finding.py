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

    Attributes
    ----------
    text : str
        Of any length; wrapped where it is printed.
    warns : bool
        Whether a reader has to know it before a verdict is believed.
    answers : bool
        Whether it says that what was asked for has been done, which quiet sessions say, too.
    """

    text: str
    fails: bool = False
    warns: bool = False
    answers: bool = False


class Compared(NamedTuple):
    """One comparison of one gate.

    Attributes
    ----------
    gate, name : str
        The gate's id, and the comparison's own name.
    max_verdict : MaxVerdict
        The worst ruling that the test accepts.
    """

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
