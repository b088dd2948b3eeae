"""Held: tests whose gate judges what others found, and whose report waits until these are over.

The process that runs such a test sends all that it reports with its first phase. The one that
prints the summary, where all results are, completes the gate and gives out the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest

from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.kind import MaxVerdict
from pytest_cpg.gates.notation import one_line
from pytest_cpg.plugin.invocation import width_of
from pytest_cpg.plugin.item import refuse
from pytest_cpg.plugin.item_report import properties
from pytest_cpg.plugin.marker import Gate
from pytest_cpg.render.section import section
from pytest_cpg.render.words import crash_line
from pytest_cpg.report.baseline import Baseline, missing
from pytest_cpg.report.ledger import Judgement, Ledger, dump
from pytest_cpg.report.session import Session

_LATE = ("call", "teardown")


def run_held(item: pytest.Item, nextitem: pytest.Item | None, gates: Any) -> None:
    """Run a test without its verdict; what it reports is given out later where nothing failed."""
    hook = item.ihook
    reports: dict[str, Any] = {}
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for when in ("setup", *_LATE):
        if when == "call" and not reports["setup"].passed:
            continue
        more = {"nextitem": nextitem} if when == "teardown" else {}
        phase = partial(getattr(hook, f"pytest_runtest_{when}"), item=item, **more)
        ends = (pytest.exit.Exception, KeyboardInterrupt)
        call = pytest.CallInfo.from_call(phase, when=when, reraise=ends)  # type: ignore[arg-type]  # one of three
        reports[when] = hook.pytest_runtest_makereport(item=item, call=call)
    # As of any gate: what skips itself once all is over hides no verdict.
    if reports["setup"].passed and not reports["teardown"].failed and reports["call"].passed:
        gate, write = (
            gates.gate(item),
            partial(hook.pytest_report_to_serializable, config=item.config),
        )
        held = {
            "marker": gate.kind.marker,
            "result": encode(ask(gate.kind, "opened", gate.spec)),
            "max_verdict": encode(gate.max_verdict),
            "drift": gate.drift,
            "is_smoke": gate.is_smoke,
            "reports": [write(report=reports.pop(when)) for when in _LATE],
        }
        # Of properties that a test records, reports show the text.
        reports["setup"].pytest_cpg_held = json.dumps(held, default=str)
    for report in reports.values():
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


class Held(NamedTuple):
    """What a test has sent: its gate, what it asks, and the reports of its other phases."""

    gate: Gate
    opened: Any
    reports: tuple[pytest.TestReport, ...]

    @classmethod
    def read(cls, name: str, text: str, config: pytest.Config, kinds: Mapping[str, Any]) -> Held:
        """Read what `run_held` has sent of the gate of this name."""
        values = json.loads(text)
        kind = kinds[values["marker"]]
        gate = Gate(
            kind=kind,
            spec=None,
            task=None,
            id=name,
            max_verdict=decode(MaxVerdict, values["max_verdict"]),
            drift=values["drift"],
            timeout=0.0,
            model="",
            is_model_typed=False,
            make_model=None,
            is_smoke=values["is_smoke"],
        )
        read = partial(config.hook.pytest_report_from_serializable, config=config)
        reports = tuple(read(data=data) for data in values["reports"])
        return cls(gate, decode(kind.result, values["result"]), reports)

    def completed(self, ledger: Ledger, *, is_cut: bool, accepted: Baseline | None) -> Any:
        """Return the kind's result, of all gates of the session that it is about.

        ``is_cut`` says that files were not even collected, as what is in them passed before. Of
        ``accepted`` results, gates that were not collected count as left out.
        """
        kind: Any = self.gate.kind
        session = Session.of(ledger)
        about = [row for row in session.comparisons if row.judgement.kind.marker == kind.judges]
        judged = {row.gate for row in about}
        unjudged = {
            gate: _outcome(ledger, gate)
            for gate, marker in ledger.markers.items()
            if marker == kind.judges and gate not in judged
        }
        for gate in missing(accepted, ledger.markers) if accepted else ():
            if accepted and accepted.gates[gate].kind == kind.judges:
                unjudged[gate] = "not collected"
        unjudged |= dict.fromkeys(ledger.skipped, "skipped as a whole")
        unjudged |= {"what passed before": "left out by --lf"} if is_cut else {}
        return ask(kind, "completed", self.opened, [row.compared for row in about], unjudged)


def _outcome(ledger: Ledger, gate: str) -> str:
    """Return in a word why a gate was not judged."""
    entry = ledger.entries.get(gate)
    if entry is not None:
        return {"error": "in error", "xfailed": "failed as expected"}.get(
            entry.outcome, entry.outcome
        )
    if gate in ledger.deselected:
        return "not selected"
    return "dropped" if gate in ledger.dropped else "did not report"


def put_judgement(report: pytest.TestReport, judgement: Judgement, config: pytest.Config) -> None:
    """Put a judgement on the report of a test that has passed, and fail it for a reason."""
    report.user_properties += properties(judgement.card, judgement.ruling)
    values: dict[str, Any] = {"judgements": dump([judgement])}
    if judgement.reason is not None:
        lines = section(judgement, verbosity=config.get_verbosity(), width=width_of(config))
        parts = json.dumps([line.parts for line in lines])
        values |= {"is_refused": True, "section": parts, "told": ""}
        text = "\n".join(line.text for line in lines)
        failed_with(report, text, one_line(crash_line(judgement)), config)
    for name, value in values.items():
        setattr(report, f"pytest_cpg_{name}", value)


def failed_with(report: pytest.TestReport, text: str, brief: str, config: pytest.Config) -> None:
    """Fail a report by a text, at its test, as `pytest.fail` does."""
    try:
        refuse(text)
    except pytest.fail.Exception:
        failure: Any = pytest.ExceptionInfo.from_current().getrepr(style="value")
    file, line, _ = report.location
    crash = failure.reprcrash
    crash.message, crash.path = brief, str(config.rootpath / file)
    crash.lineno = (line or 0) + 1
    report.outcome, report.longrepr = "failed", failure
