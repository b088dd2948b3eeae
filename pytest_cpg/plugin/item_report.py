"""Item report: what pytest reports of one marked test, with what its gate has to say first."""

from __future__ import annotations

import json
import re
import unittest
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.gates.notation import disarmed, for_log, one_line, visible
from pytest_cpg.plugin.attempt import Attempt, attempt_of
from pytest_cpg.plugin.invocation import width_of
from pytest_cpg.plugin.item import gate_id, refuse, say_once
from pytest_cpg.plugin.judging import sections
from pytest_cpg.plugin.terminal import write_lines
from pytest_cpg.render.line import Line, wrapped
from pytest_cpg.render.words import crash_line
from pytest_cpg.report.ledger import Judgement, dump

if TYPE_CHECKING:
    from pytest_cpg.gates.card import Card, Ruling
    from pytest_cpg.plugin.marker import Gate

# What skips a test.
_SKIPS = (pytest.skip.Exception, unittest.SkipTest)
_MOST_IN_LINE = 300
# What pytest says of a name in an assertion that failed.
_WHERE = re.compile(r"E? +\+ +where ")
_HIDDEN = "this test skipped itself after its gate had failed, which hides no verdict."


def put_on_report(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    gate_of: Callable[[pytest.Item], Gate],
) -> None:
    """Put a gate's id and results on its test's report, as strings: xdist ships nothing else."""
    attempt = attempt_of(item)
    judgements = attempt.judgements
    is_last = call.when == "call" or (call.when == "setup" and not report.passed)
    if call.when == "call":
        _unhide(item, report)
        _excuse(report, judgements)
    if is_last and judgements:
        measured = [
            one for judgement in judgements for one in properties(judgement.card, judgement.ruling)
        ]
        for owner in (item, report):
            owner.user_properties.extend(measured)
        if report.failed and call.excinfo is not None:
            if not attempt.is_refused:
                attempt.section = sections(item, gate_of(item), is_failing=True)
            _lead_by_gate(item, call.excinfo, report)
    if report.failed:
        if call.excinfo is not None and say_once(report, call.excinfo):
            _place(item, report, _brief(attempt, str(call.excinfo.value)))
        report.longrepr = disarmed(report.longrepr)
    values: dict[str, Any] = {"gate": gate_id(item), "attempt": attempt.number}
    # Of what hooks of others make of the report, these tell.
    values["is_skipped"] = call.excinfo is not None and call.excinfo.errisinstance(_SKIPS)
    values["is_xfailed"] = item.get_closest_marker("xfail") is not None or (
        call.excinfo is not None and call.excinfo.errisinstance(pytest.xfail.Exception)
    )
    if is_last:
        values["judgements"] = dump(judgements)
        values["measurements"] = json.dumps(attempt.measurements)
        values["resumed"] = json.dumps(attempt.resumed)
        values["is_refused"] = attempt.is_refused
    if report.failed and attempt.section:
        values["section"] = json.dumps([line.parts for line in attempt.section])
        values["told"] = attempt.told if attempt.section is attempt.broken else ""
    if hasattr(report, "wasxfail"):
        values["is_quarantined"] = _is_quarantined(item)
    for name, value in values.items():
        setattr(report, f"pytest_cpg_{name}", value)


def properties(card: Card, ruling: Ruling) -> list[tuple[str, str | float]]:
    """Return a gate's numbers as names and plain values, for ``user_properties``."""
    values = {"verdict": ruling.label, **card.numbers}
    return [
        (f"cpg_{name}", visible(value) if isinstance(value, str) else value)
        for name, value in values.items()
    ]


def _place(item: pytest.Item, report: pytest.TestReport, message: str) -> None:
    """Place a failure of ours at its test, in one line where it is a gate's."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    crash.message = message or crash.message
    crash.path, crash.lineno = str(item.path), (item.location[1] or 0) + 1
    # pytest shows both, where it would show no more of any other failure.
    if item.config.getoption("tbstyle", "auto") == "line":
        failure: Any = report.longrepr
        failure.reprtraceback.reprentries = []


def _lead_by_gate(
    item: pytest.Item,
    caught: pytest.ExceptionInfo[BaseException],
    report: pytest.TestReport,
) -> None:
    """Put the gate's section before the text of a failure that is the test's own."""
    attempt = attempt_of(item)
    own = f"The test's own {'assertion' if caught.errisinstance(AssertionError) else 'code'} failed"
    if not (attempt.is_refused or attempt.has_failed):
        error = one_line(caught.exconly(tryshort=True).partition("\n")[0], _MOST_IN_LINE)
        passed = wrapped(f"{own}: {error}. The gate itself passed.", width_of(item.config))
        attempt.section[:0] = [Line.of(text, bold=True) for text in passed]
    text = attempt.first_failure if attempt.is_refused else None
    text = for_log(text or "\n".join(line.text for line in attempt.section))
    if attempt.is_refused and text in (str(caught.value), report.longrepr):
        return
    between = f"{own}, too:" if attempt.has_failed else f"{own}:"
    # What a repetition is refused with.
    attempt.first_failure = f"{text}\n\n{between}\n\n{caught.exconly()}"
    failure: Any = report.longrepr
    crash = getattr(failure, "reprcrash", None)
    if crash is not None:
        # Whose value it was stands in the traceback.
        first = crash.message.partition("\n")[0]
        is_gates = attempt.has_failed and not attempt.is_refused
        crash.message = f"{_crash_line(attempt)}; {first}" if is_gates else first
    if hasattr(failure, "chain"):
        _leave_out_results(attempt, failure.reprtraceback)
    if item.config.getoption("tbstyle", "auto") == "line":
        return
    # pytest prints exceptions that follow from each other like this, and xdist sends them.
    if hasattr(failure, "chain"):
        try:
            refuse(text)
        except pytest.fail.Exception:
            gate: Any = pytest.ExceptionInfo.from_current().getrepr(style="value")
        failure.chain = [(gate.reprtraceback, gate.reprcrash, between), *failure.chain]
    else:
        report.longrepr = f"{text}\n\n{between}\n\n{report.longreprtext}"


def _leave_out_results(attempt: Attempt, traceback: Any) -> None:
    """Leave out of a traceback what its section has just said of the gate's result."""
    fixtures = {judgement.kind.fixture for judgement in attempt.judgements}
    results = tuple(f"{type(judgement.result).__name__}(" for judgement in attempt.judgements)
    for entry in traceback.reprentries:
        entry.lines = [
            line
            for line in entry.lines
            if not (_WHERE.match(line) and any(result in line for result in results))
        ]
        shown = getattr(entry, "reprfuncargs", None)
        if shown is not None:
            shown.args = [(name, text) for name, text in shown.args if name not in fixtures]
            entry.reprfuncargs = shown if shown.args else None


def _brief(attempt: Attempt, said: str) -> str:
    """Return for one line what a gate said; empty where the test says something else."""
    if attempt.broken and said == "\n".join(line.text for line in attempt.broken):
        attempt.section = attempt.broken
        return one_line(attempt.brief)
    is_gates = attempt.is_refused and said == attempt.first_failure
    return _crash_line(attempt) if is_gates and attempt.section else ""


def _crash_line(attempt: Attempt) -> str:
    worse = [judgement for judgement in attempt.judgements if judgement.reason is not None]
    more = f" (and {len(worse) - 1} more)" * (len(worse) > 1)
    return one_line(crash_line(worse[0])) + more


def in_colour(report: pytest.TestReport) -> None:
    """Let the terminal show the section of a failing gate in its colours."""
    shown = [Line(tuple(map(tuple, parts))) for parts in json.loads(report.pytest_cpg_section)]
    failure: Any = report.longrepr
    chain = getattr(failure, "chain", None)
    traceback = chain[0][0] if chain else getattr(failure, "reprtraceback", None)
    for entry in getattr(traceback, "reprentries", [])[:1]:
        # What a terminal or a log would obey has been changed, and stays without colours.
        if entry.lines == [line.text for line in shown]:
            entry.toterminal = partial(write_lines, shown)


def _unhide(item: pytest.Item, report: pytest.TestReport) -> None:
    """Fail the report of a test that skipped itself in a comparison, or after its gate failed."""
    is_expected = hasattr(report, "wasxfail")
    # Whoever marks a test as one that fails may have any failure.
    if not report.skipped or (is_expected and item.get_closest_marker("xfail")):
        return
    attempt = attempt_of(item)
    if attempt.errors or (attempt.has_failed and not is_expected):
        report.outcome = "failed"
        report.longrepr = attempt.first_failure or _HIDDEN
        if is_expected:
            del report.wasxfail


def _excuse(report: pytest.TestReport, judgements: Sequence[Judgement]) -> None:
    """Let a test pass whose model is expected to fail, where no model was judged."""
    said, strict, reason = str(report.longrepr).partition("[XPASS(strict)] ")
    if strict and not said and judgements and all(one.ruling.check for one in judgements):
        report.outcome, report.longrepr, report.wasxfail = "passed", None, reason


def _is_quarantined(item: pytest.Item) -> bool:
    """Say whether a test that fails as expected was run, and fails the day that it passes."""
    usual = item.config.getini("xfail_strict")
    # pytest 9 has one setting more, for what is strict by default.
    if usual is None:
        usual = item.config.getini("strict")
    # One that has no condition, or one that may hold, as any text may.
    markers = [
        mark.kwargs
        for mark in item.iter_markers("xfail")
        if any(mark.args or (mark.kwargs.get("condition", True),))
    ]
    are_strict = (usual if (own := mark.get("strict")) is None else own for mark in markers)
    return bool(markers) and all(are_strict) and all(mark.get("run", True) for mark in markers)
