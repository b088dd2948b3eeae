"""Finding: a statement about several gates, and what it is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_cpg.gates.kind import Accepted


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about several gates, or about the baseline.

    Attributes
    ----------
    text : str
        Of any length; wrapped where it is printed.
    fails : bool
        Whether the session fails for it.
    """

    text: str
    fails: bool = False


class Compared(NamedTuple):
    """One comparison of one gate.

    Attributes
    ----------
    gate, name : str
        The gate's id, and the comparison's own name.
    result : object
        Of the kind's own type.
    accepted : Accepted
        The worst ruling that the test accepts.
    is_excused : bool
        Whether the test failed as expected.
    """

    gate: str
    name: str
    result: Any
    accepted: Accepted
    is_excused: bool = False
