"""Outcomes: how a comparison, a gate and a whole session ended, as every report says it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_cpg.gates.card import Severity

if TYPE_CHECKING:
    from pytest_cpg.report.ledger import Judgement

# Every way in which a gate can end, as it is written everywhere, from worst to best.
WORDS: Mapping[str, str] = {
    "failed": "failed",
    "error": "in error",
    "missing": "not reported",
    "xfailed": "failed as expected",
    "inconclusive": "inconclusive",
    "skipped": "skipped",
    "measured": "measured",
    "passed": "passed",
}
# For these the session fails.
FAILING = ("failed", "error", "missing")
# pytest's own words for the exit codes that do not depend on any test.
_STOPPED = {2: "interrupted", 3: "internal error", 4: "usage error"}
# pytest's exit code where no test was collected.
_EMPTY = 5
_ERROR = re.compile(r"^E +([\w.]+(?:: .*)?)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """How a session ended, besides what its gates found.

    Attributes
    ----------
    exit_code : int
        pytest's: 0 where everything passed.
    uncollected : mapping
        What went wrong in one line, by the id of the file or test that was not collected.
    seconds : float or None
        How long it took; None where nobody measured it.
    """

    exit_code: int
    failed_tests: int = 0
    seconds: float | None = None
    uncollected: Mapping[str, str] = field(default_factory=dict)


def comparison_outcomes(outcome: str, judgements: Sequence[Judgement]) -> list[str]:
    """Return how each comparison of a gate ended: as its test, unless another one is to blame."""
    is_blamed = outcome == "failed" and any(one.reason is not None for one in judgements)
    return [
        gate_outcome(
            "passed" if is_blamed and one.reason is None else outcome, [one.ruling.severity]
        )
        for one in judgements
    ]


def gate_outcome(outcome: str, severities: Iterable[Severity]) -> str:
    """Return how a gate ended: as its test, but for a passed one that judged or settled nothing.

    >>> gate_outcome("passed", [Severity.GOOD, Severity.UNSURE]), gate_outcome("passed", [])
    ('inconclusive', 'measured')
    """
    severities = [*severities]
    if outcome != "passed" or not severities:
        return "measured" if outcome == "passed" else outcome
    is_open = any(one in (Severity.UNSURE, Severity.BLIND) for one in severities)
    return "inconclusive" if is_open else outcome


def is_cut_short(exit_code: int) -> bool:
    """Return whether pytest ended the session before every test was run."""
    return exit_code in _STOPPED


def session_outcome(
    exit_code: int, gates: Iterable[Mapping[str, Any]], findings: Iterable[Mapping[str, Any]]
) -> str:
    """Return how a session ended: "passed" only where pytest says so and a gate measured."""
    gates = list(gates)
    if is_cut_short(exit_code):
        return _STOPPED[exit_code]
    is_failing = any(gate["outcome"] in FAILING for gate in gates)
    if is_failing or any(found["fails"] for found in findings) or exit_code not in (0, _EMPTY):
        return "failed"
    is_measured = any(gate["comparisons"] or gate["measurements"] for gate in gates)
    return "passed" if is_measured and exit_code == 0 else "nothing measured"


def besides_gates(session: Mapping[str, Any]) -> list[str]:
    """Return what a document's session had besides its gates, for the line that counts those.

    >>> besides_gates({"exit_code": 1, "failed_tests": 2, "uncollected": {}})
    ['2 other tests failed', 'exit code 1']
    """
    failed, uncollected, code = (
        session[name] for name in ("failed_tests", "uncollected", "exit_code")
    )
    said = [f"{failed} other test{'s'[: failed != 1]} failed"] if failed else []
    said += [f"{len(uncollected)} not collected"] if uncollected else []
    return said + ([f"exit code {code}"] if code else [])


def error_in(text: str) -> str:
    r"""Return the line of a failure's text that names the error; of a message its first part.

    >>> error_in("ImportError while importing:\n  import x\nE   ImportError: no x\n")
    'ImportError: no x'
    >>> error_in("test_a.py: no task named\n'pukc'.\n\nMore of it.")
    "test_a.py: no task named 'pukc'."
    """
    found = _ERROR.search(text)
    message = " ".join(text.strip().partition("\n\n")[0].split())
    return found[1] if found else message or "no reason was given"


def gist(detail: str) -> str:
    """Return the first sentence of why a gate ended so, for where all of it has no room.

    >>> gist("error in setup: TaskError: no task is named 'pukc'. Built in: puck, track.")
    "TaskError: no task is named 'pukc'"
    """
    return detail.removeprefix("error in setup: ").partition(". ")[0].rstrip(".")
