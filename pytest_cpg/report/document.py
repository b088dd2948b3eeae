"""Document: what the gates of a session found, as one versioned document that machines read.

``report.schema.json`` beside this module describes the document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import Command, Ruling, comparison_name
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.finding import Finding
from pytest_cpg.gates.kept import FIRST_KIND
from pytest_cpg.gates.kind import max_verdict_of
from pytest_cpg.gates.strip import Strip
from pytest_cpg.machine.files import FileError, FileKind, write_text
from pytest_cpg.report.ledger import Entry, Judgement, Kinds, Ledger, Outcome
from pytest_cpg.report.outcomes import SessionEnd, session_outcome
from pytest_cpg.report.provenance import Provenance

SCHEMA = 1
_FILE = FileKind(
    name="the report", schema=SCHEMA, cure="Write a report: pytest --cpg-json=report.json"
)


class UnknownKindError(ValueError):
    """A report of a kind of gate that neither this package nor a plugin contributes."""


# What a document has to hold before anything in it is rendered.
class _Generator(TypedDict):
    name: str
    version: str | None


class _Ended(TypedDict):
    outcome: str
    exit_code: int
    failed_tests: int
    uncollected: dict[str, str]


class _Session(_Ended, total=False):
    # Reports from before they were recorded have none, here and of a gate.
    seconds: float | None


class _Compared(TypedDict):
    name: str
    reason: str | None
    max_verdict: str
    attempt: int
    drift: Drift | None
    films: list[str]
    result: Any


class _Comparison(_Compared, total=False):
    # Reports from when there was one kind of gate have none of these.
    kind: str
    label: str
    severity: Literal["good", "unsure", "blind", "bad", "broken"]
    # Nor reports from before the page had any.
    commands: list[Command]
    strip: Strip | None


class _Asked(TypedDict):
    id: str
    outcome: Literal[Outcome, "missing"]
    detail: str
    earlier: list[str]
    comparisons: list[_Comparison]
    measurements: list[str]


class _Gate(_Asked, total=False):
    seconds: float | None
    resumed: list[str]


class _Finding(TypedDict):
    text: str
    fails: bool


class _Document(TypedDict):
    generator: _Generator
    provenance: Provenance
    session: _Session
    gates: list[_Gate]
    deselected: list[str]
    findings: list[_Finding]


def document(ledger: Ledger, provenance: Provenance, end: SessionEnd) -> dict[str, Any]:
    """Return the report of a session: plain values, the gates in the ledger's order."""
    gates = [_gate(gate, ledger) for gate in ledger.gates]
    findings = encode(ledger.findings)
    return {
        "schema": SCHEMA,
        "generator": {"name": "pytest-cpg", "version": provenance.packages.get("pytest-cpg")},
        "provenance": encode(provenance),
        "session": {
            "outcome": session_outcome(end.exit_code, gates, findings),
            "exit_code": end.exit_code,
            "failed_tests": end.failed_tests,
            "uncollected": dict(sorted(end.uncollected.items())),
            "seconds": _tenths(end.seconds),
        },
        "gates": gates,
        "deselected": list(ledger.deselected),
        "findings": findings,
    }


def drift_of(comparison: Mapping[str, Any]) -> Drift | None:
    """Return how one of a document's comparisons stands to the baseline, if that was asked."""
    drift = comparison["drift"]
    return None if drift is None else decode(Drift, drift)


def commit_of(document: Mapping[str, Any]) -> str:
    """Return the commit that a document's session measured, as the baseline keeps it."""
    found = document["provenance"]
    return f"{found['revision'] or ''}{'-dirty' * bool(found['dirty'])}"


def ledger_of(document: Mapping[str, Any], kinds: Kinds) -> Ledger:
    """Return the ledger of the session that a document is the report of, as `read` returns it."""
    ledger = Ledger(findings=decode(tuple[Finding, ...], document["findings"]))
    ledger.deselected.update(dict.fromkeys(document["deselected"]))
    for gate in document["gates"]:
        ledger.expect([gate["id"]])
        if gate.get("seconds") is not None:
            ledger.seconds[gate["id"]] = gate["seconds"]
        if gate["outcome"] == "missing":
            ledger.running[gate["id"]] = gate["detail"]
            continue
        judgements = tuple(judgement_of(one, kinds) for one in gate["comparisons"])
        ledger.note(
            gate["id"],
            Entry(
                outcome=gate["outcome"],
                judgements=judgements,
                measurements=tuple(gate["measurements"]),
                resumed=tuple(gate.get("resumed", ())),
                detail=gate["detail"],
                attempt=max([one["attempt"] for one in gate["comparisons"]], default=1),
                earlier=tuple(gate["earlier"]),
            ),
        )
    return ledger


def judgement_of(comparison: Mapping[str, Any], kinds: Kinds) -> Judgement:
    """Return one of a document's comparisons, judged by its kind of gate."""
    kind = kinds[comparison["kind"]]
    result = decode(kind.result, comparison["result"])
    max_verdict = max_verdict_of(comparison["max_verdict"], kind.labels, is_read=True)
    drift, reason = drift_of(comparison), comparison["reason"]
    return Judgement(
        kind=kind,
        result=result,
        ruling=ask(kind, "judge", result, max_verdict),
        max_verdict=max_verdict,
        reason=reason,
        drift=drift,
        drift_fails=drift is not None and reason == drift.text,
        films=tuple(comparison["films"]),
        commands=decode(tuple[Command, ...], comparison.get("commands", [])),
        shown=ask(kind, "card", result, max_verdict),
    )


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as one line of JSON, as `write_text` does."""
    text = json.dumps(document, allow_nan=False, sort_keys=True)
    write_text(path, f"{text}\n", what="the report")


def read(path: Path, kinds: Kinds) -> dict[str, Any]:
    """Return the document that `write` has put into a file, with every result in it readable.

    Raises FileError, naming the file, what is wrong with it and the next step.
    """
    text = _FILE.text_in(path)
    if text is None:
        raise FileError(f"there is no report {path}. Write one: pytest --cpg-json={path}")
    found = _FILE.values_of(path, text)
    if isinstance(found, list):
        _FILE.refuse(path, "it is an array, as a baseline is, and a report is an object")
    _FILE.check_schema(path, found.get("schema") if isinstance(found, dict) else None)
    try:
        return checked(found, kinds)
    except UnknownKindError as error:
        _FILE.refuse(path, str(error), "Name the conftest.py or module that does: -p conftest.py")
    except ValueError as error:
        _FILE.refuse(path, str(error))


def checked(values: Any, kinds: Kinds) -> dict[str, Any]:
    """Return a document of plain values, with every result in it readable.

    Raises ValueError, naming the place of the first value that is wrong.
    """
    decode(_Document, values)
    return _complete(values, kinds)


def _gate(gate: str, ledger: Ledger) -> dict[str, Any]:
    entry = ledger.entries.get(gate)
    if entry is None:
        entry = Entry(outcome="error", detail=ledger.running.get(gate, "did not report"))
        outcome = "missing"
    else:
        outcome = entry.outcome
    return {
        "id": gate,
        "outcome": outcome,
        "detail": entry.detail,
        "earlier": list(entry.earlier),
        "comparisons": [
            {
                "name": comparison_name(gate, number),
                "attempt": entry.attempt,
                **_judged(judgement),
            }
            for number, judgement in enumerate(entry.judgements, 1)
        ],
        "measurements": list(entry.measurements),
        "seconds": _tenths(ledger.seconds.get(gate)),
        "resumed": list(entry.resumed),
    }


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _judged(judgement: Judgement) -> dict[str, Any]:
    return {
        **_said(judgement.kind.marker, judgement.ruling),
        "reason": judgement.reason,
        "max_verdict": judgement.max_verdict.label,
        "drift": encode(judgement.drift),
        "films": list(judgement.films),
        "strip": encode(judgement.strip),
        "commands": encode(judgement.commands),
        "result": encode(judgement.result),
    }


def _complete(found: dict[str, Any], kinds: Kinds) -> dict[str, Any]:
    """Return a document with its results checked, and with what earlier ones did not say of them.

    Reports from when there was one kind of gate name none, nor label and severity.
    """
    gates = [
        {
            **gate,
            "comparisons": [
                _completed(one, kinds, at=f"gates[{place}].comparisons[{number}]")
                for number, one in enumerate(gate["comparisons"])
            ],
        }
        for place, gate in enumerate(found["gates"])
    ]
    return {**found, "gates": gates}


def _completed(comparison: Mapping[str, Any], kinds: Kinds, *, at: str) -> dict[str, Any]:
    marker = comparison.get("kind", FIRST_KIND)
    if marker not in kinds:
        raise UnknownKindError(f"{at}.kind is {marker!r}, and nobody here contributes it")
    result = decode(kinds[marker].result, comparison["result"], at=f"{at}.result")
    try:
        max_verdict = max_verdict_of(comparison["max_verdict"], kinds[marker].labels, is_read=True)
    except ValueError as error:
        raise ValueError(f"{at}.max_verdict: {error}") from None
    try:
        ruling = kinds[marker].judge(result, max_verdict)
        # What follows from numbers that no measurement gives has no card, either.
        kinds[marker].card(result, max_verdict)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{at}.result is damaged: {error}") from None
    return {**_said(marker, ruling), **comparison}


def _said(kind: str, ruling: Ruling) -> dict[str, str]:
    return {"kind": kind, "label": ruling.label, "severity": ruling.severity.name.lower()}
