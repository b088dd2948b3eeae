"""Report: what the gates of a session found, as one versioned document that machines read.

``report.schema.json`` beside this module describes the document.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

from pytest_cpg.gates.card import comparison_name
from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.report.ledger import Judgement, Ledger, Outcome
from pytest_cpg.report.outcomes import SessionEnd, session_outcome
from pytest_cpg.report.provenance import Provenance

if TYPE_CHECKING:
    from pytest_cpg.gates.planning_gap.compare import Comparison
    from pytest_cpg.gates.planning_gap.result import GateResult

SCHEMA = 1
_OUTCOMES = (*get_args(Outcome), "missing")
# What a document has to hold before anything in it is rendered.
_Kinds: TypeAlias = Mapping[str, type | UnionType]
_DOCUMENT: _Kinds = {
    "generator": dict,
    "provenance": dict,
    "session": dict,
    "gates": list,
    "deselected": list,
    "findings": list,
}
_GENERATOR: _Kinds = {"name": str, "version": str | None}
_PROVENANCE: _Kinds = {
    "revision": str | None,
    "dirty": bool | None,
    "python": str,
    "platform": str,
    "processor": str,
    "processors": int,
    "kernels": dict,
    "packages": dict,
}
_SESSION: _Kinds = {
    "outcome": str,
    "exit_code": int,
    "failed_tests": int,
    "uncollected": dict,
}
_GATE: _Kinds = {
    "id": str,
    "outcome": str,
    "detail": str,
    "earlier": list,
    "comparisons": list,
    "measurements": list,
}
_COMPARISON: _Kinds = {
    "name": str,
    "reason": str | None,
    "max_verdict": str,
    "attempt": int,
    "drift": dict | None,
    "films": list,
    "result": dict,
}
_FINDING: _Kinds = {"text": str, "fails": bool}


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
    """Return the result of one of a document's comparisons.

    Raises
    ------
    ValueError
        When it was written by a newer pytest-cpg.
    """
    from pytest_cpg.gates.planning_gap.result import GateResult

    return GateResult.from_json(json.dumps(comparison["result"]))


def drift_of(comparison: Mapping[str, Any]) -> Comparison | None:
    """Return how one of a document's comparisons stands to the baseline, if that was asked."""
    from pytest_cpg.gates.planning_gap.compare import Comparison

    drift = comparison["drift"]
    return None if drift is None else Comparison.from_json(json.dumps(drift))


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
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except FileNotFoundError:
        raise FileError(f"there is no report {path}. Write one: pytest --cpg-json={path}") from None
    except OSError as error:
        raise FileError(f"cannot read the report {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        _refuse(path, f"it is no JSON ({error})")
    schema = found.get("schema") if isinstance(found, dict) else None
    if type(schema) is not int or schema < 1:
        _refuse(path, "it is no report of pytest-cpg, as it has no schema")
    if schema > SCHEMA:
        _refuse(
            path,
            f"it has schema {schema}, and this pytest-cpg reads up to {SCHEMA}",
            "Upgrade: pip install -U pytest-cpg",
        )
    try:
        _check(found)
    except ValueError as error:
        _refuse(path, str(error))
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


def _check(found: Mapping[str, Any]) -> None:
    """Raise ValueError unless everything that is rendered from a document is there."""
    _need(found, _DOCUMENT, "the report")
    _need(found["generator"], _GENERATOR, "its generator")
    # Reports from before they were recorded have no kernels.
    provenance = {"kernels": {}, **found["provenance"]}
    _need(provenance, _PROVENANCE, "its provenance")
    _need_texts(provenance["packages"].values(), "its packages")
    _need_texts(provenance["kernels"].values(), "its kernels")
    _need(found["session"], _SESSION, "its session")
    _need_texts(found["session"]["uncollected"].values(), "its session")
    for finding in found["findings"]:
        _need(finding, _FINDING, "a finding")
    for number, gate in enumerate(found["gates"], 1):
        _need(gate, _GATE, f"gate {number}")
        if gate["outcome"] not in _OUTCOMES:
            raise ValueError(f"gate {number} has the outcome {gate['outcome']!r}")
        _need_texts([*gate["earlier"], *gate["measurements"]], f"gate {number}")
        for comparison in gate["comparisons"]:
            _need(comparison, _COMPARISON, f"a comparison of gate {number}")
            _need_texts(comparison["films"], f"a comparison of gate {number}")
            try:
                _check_measured(comparison)
            except (
                ArithmeticError,
                AttributeError,
                LookupError,
                TypeError,
                ValueError,
            ) as error:
                raise ValueError(f"a comparison of gate {number} is damaged: {error}") from None


def _check_measured(comparison: Mapping[str, Any]) -> None:
    """Raise an error of some kind unless a comparison's result and drift can be worked with."""
    from pytest_cpg.gates.planning_gap.result import Pairs
    from pytest_cpg.stats import parse_verdict

    result, drift = result_of(comparison), drift_of(comparison)
    _need_types(result, "its result")
    if drift is not None:
        _need_types(drift, "its drift")
    if result.budget < 1:
        raise ValueError(f"its result has {result.budget} as its budget")
    parse_verdict(comparison["max_verdict"])
    Pairs.of(result.oracle, result.learned)
    Pairs.of(result.oracle, result.chance)
    for arm in result.arms:
        if not 0 < arm.level < 1:
            raise ValueError(f"its arm {arm.name} has {arm.level} as its level")


def _need(values: Any, kinds: _Kinds, what: str) -> None:
    for name, kind in kinds.items():
        if not isinstance(values, dict) or name not in values:
            raise ValueError(f"{what} has no {name}")
        if not isinstance(values[name], kind):
            raise ValueError(f"{what} has {values[name]!r:.40} as its {name}")


def _need_types(value: Any, what: str) -> None:
    """Raise ValueError unless every attribute of a dataclass is what its annotation says."""
    for name, hint in get_type_hints(type(value)).items():
        found = getattr(value, name)
        if not _is_of(found, hint):
            raise ValueError(f"{what} has {found!r:.40} as its {name}")
        if is_dataclass(found):
            _need_types(found, f"{what}, in its {name},")


def _is_of(value: Any, hint: Any) -> bool:
    """Say whether a value is of an annotated type; true and false are no numbers here."""
    kind: Any = get_origin(hint) or hint
    inner = get_args(hint)
    if kind is UnionType:
        return any(_is_of(value, one) for one in inner)
    if isinstance(value, bool):
        return kind is bool
    if kind is Literal:
        return value in inner
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    if not isinstance(value, kind):
        return False
    if kind is tuple:
        hints = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return len(hints) == len(value) and all(map(_is_of, value, hints))
    if issubclass(kind, tuple):
        return all(map(_is_of, value, get_type_hints(kind).values()))
    return kind is not Mapping or all(_is_of(one, inner[1]) for one in value.values())


def _need_texts(values: Iterable[Any], what: str) -> None:
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{what}: {value!r:.40} is no text")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _refuse(path: Path, wrong: str, cure: str = "") -> NoReturn:
    again = f"Write it again: pytest --cpg-json={path}"
    raise FileError(f"cannot use the report {path}: {wrong}. {cure or again}") from None
