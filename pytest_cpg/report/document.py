"""Report: what the gates of a session found, as one versioned document that machines read.

``report.schema.json`` beside this module describes the document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypedDict

from pytest_cpg.contracts.codec import decode
from pytest_cpg.gates.card import comparison_name
from pytest_cpg.gates.planning_gap.compare import Comparison
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.machine.files import FileError, FileKind, write_text
from pytest_cpg.report.ledger import Judgement, Ledger, Outcome
from pytest_cpg.report.outcomes import SessionEnd, session_outcome
from pytest_cpg.report.provenance import Provenance
from pytest_cpg.stats import Verdict

SCHEMA = 1
_FILE = FileKind(name="the report", schema=SCHEMA, cure="Write it again: pytest --cpg-json={path}")


# What a document has to hold before anything in it is rendered.
class _Generator(TypedDict):
    name: str
    version: str | None


class _Known(TypedDict):
    revision: str | None
    dirty: bool | None
    python: str
    platform: str
    processor: str
    processors: int
    packages: dict[str, str]


class _Provenance(_Known, total=False):
    # Reports from before they were recorded have none.
    kernels: dict[str, str]


class _Session(TypedDict):
    outcome: str
    exit_code: int
    failed_tests: int
    uncollected: dict[str, str]


class _Comparison(TypedDict):
    name: str
    reason: str | None
    max_verdict: Verdict
    attempt: int
    drift: Comparison | None
    films: list[str]
    result: GateResult


class _Gate(TypedDict):
    id: str
    outcome: Literal[Outcome, "missing"]
    detail: str
    earlier: list[str]
    comparisons: list[_Comparison]
    measurements: list[str]


class _Finding(TypedDict):
    text: str
    fails: bool


class _Document(TypedDict):
    generator: _Generator
    provenance: _Provenance
    session: _Session
    gates: list[_Gate]
    deselected: list[str]
    findings: list[_Finding]


def document(ledger: Ledger, provenance: Provenance, end: SessionEnd) -> dict[str, Any]:
    """Return the report of a session: plain values, the gates in the ledger's order."""
    gates = [_gate(gate, ledger) for gate in ledger.gates]
    findings = [asdict(finding) for finding in ledger.findings]
    return {
        "schema": SCHEMA,
        "generator": {"name": "pytest-cpg", "version": provenance.packages.get("pytest-cpg")},
        "provenance": provenance.to_dict(),
        "session": {
            "outcome": session_outcome(end.exit_code, gates, findings),
            "exit_code": end.exit_code,
            "failed_tests": end.failed_tests,
            "uncollected": dict(sorted(end.uncollected.items())),
        },
        "gates": gates,
        "deselected": list(ledger.deselected),
        "findings": findings,
    }


def result_of(comparison: Mapping[str, Any]) -> GateResult:
    """Return the result of one of a document's comparisons."""
    return decode(GateResult, comparison["result"])


def drift_of(comparison: Mapping[str, Any]) -> Comparison | None:
    """Return how one of a document's comparisons stands to the baseline, if that was asked."""
    drift = comparison["drift"]
    return None if drift is None else decode(Comparison, drift)


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as one line of JSON, as `write_text` does."""
    text = json.dumps(document, allow_nan=False, sort_keys=True)
    write_text(path, f"{text}\n", what="the report")


def read(path: Path) -> dict[str, Any]:
    """Return the document that `write` has put into a file, with every result in it readable.

    Raises
    ------
    FileError
        Naming the file, what is wrong with it and the next step.
    """
    text = _FILE.text_in(path)
    if text is None:
        raise FileError(f"there is no report {path}. Write one: pytest --cpg-json={path}")
    found = _FILE.values_of(path, text)
    _FILE.check_schema(path, found.get("schema") if isinstance(found, dict) else None)
    try:
        decode(_Document, found)
    except ValueError as error:
        _FILE.refuse(path, str(error))
    return dict(found)


def _gate(gate: str, ledger: Ledger) -> dict[str, Any]:
    entry = ledger.entries.get(gate)
    return {
        "id": gate,
        "outcome": entry.outcome if entry else "missing",
        "detail": entry.detail if entry else ledger.running.get(gate, "did not report"),
        "earlier": list(entry.earlier) if entry else [],
        "comparisons": [
            _comparison(comparison_name(gate, number), judgement, entry.attempt)
            for number, judgement in enumerate(entry.judgements, 1)
        ]
        if entry
        else [],
        "measurements": list(entry.measurements) if entry else [],
    }


def _comparison(name: str, judgement: Judgement, attempt: int) -> dict[str, Any]:
    return {
        "name": name,
        "reason": judgement.reason,
        "max_verdict": judgement.max_verdict,
        "attempt": attempt,
        "drift": None if judgement.drift is None else json.loads(judgement.drift),
        "films": list(judgement.films),
        "result": json.loads(judgement.result),
    }
