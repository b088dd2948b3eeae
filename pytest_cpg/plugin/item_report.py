"""Item report: what pytest reports of one marked test, with what its gate has to say first."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_cpg.plugin.attempt import attempt_of
from pytest_cpg.plugin.item import fail, gate_id

_HIDDEN = "this test skipped itself after its gate had failed, which hides no verdict."
_FAILED_ALONE = "Above is what the gate measured. The test failed by itself:"
_FAILED_TOO = "The test failed by itself, too:"


def put_on_report(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
    whole: Callable[[], str],
) -> None:
    """Put a gate's id and results on its test's report, as strings: xdist ships nothing else.

    ``whole`` returns what the test measured, accepted or not, for one that fails by itself.
    """
    from pytest_cpg.gates.notation import disarmed
    from pytest_cpg.render.junit import properties
    from pytest_cpg.report.ledger import dump

    attempt = attempt_of(item)
    judgements = attempt.judgements
    is_last = call.when == "call" or (call.when == "setup" and not report.passed)
    if call.when == "call":
        _unhide(item, report)
    if is_last and judgements:
        measured = [one for found in judgements for one in properties(found.card, found.ruling)]
        for owner in (item, report):
            owner.user_properties.extend(measured)
        if report.failed and call.excinfo is not None:
            _lead_by_gate(item, call.excinfo, report, whole)
    if report.failed:
        if say_once(report, call.excinfo):
            _place(item, report)
        report.longrepr = disarmed(report.longrepr)
    values: dict[str, Any] = {"gate": gate_id(item), "attempt": attempt.number}
    if is_last:
        values["judgements"] = dump(judgements)
        values["measurements"] = json.dumps(attempt.measurements)
        values["is_refused"] = attempt.is_refused
    if hasattr(report, "wasxfail"):
        values["is_quarantined"] = _is_quarantined(item)
    for name, value in values.items():
        setattr(report, f"pytest_cpg_{name}", value)


def say_once(
    report: pytest.TestReport | pytest.CollectReport,
    caught: pytest.ExceptionInfo[BaseException] | None,
) -> bool:
    """Sum a message of ours up in the line that pytest shows of a failure beside all of it.

    In CI and under -vv pytest repeats a whole message there. Say whether it was one of ours.
    """
    from pytest_cpg.gates.notation import one_line

    crash: Any = getattr(report.longrepr, "reprcrash", None)
    if crash is None or caught is None or getattr(caught.value, "pytrace", True):
        return False
    crash.message = one_line(crash.message.removeprefix("Failed: ").partition("\n\n")[0])
    return True


def _place(item: pytest.Item, report: pytest.TestReport) -> None:
    """Place a failure of ours at its test: where it was raised is a place in the plugin."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    crash.path, crash.lineno = str(item.path), (item.location[1] or 0) + 1
    # pytest shows both, where it would show no more of any other failure.
    if item.config.getoption("tbstyle") == "line":
        failure: Any = report.longrepr
        failure.reprtraceback.reprentries = []


def _lead_by_gate(
    item: pytest.Item,
    caught: pytest.ExceptionInfo[BaseException],
    report: pytest.TestReport,
    whole: Callable[[], str],
) -> None:
    """Put the gate's section before a failure that is the test's own.

    In the failure's text: sections of a report are not shown under --show-capture=no.
    """
    from pytest_cpg.gates.notation import for_log

    attempt = attempt_of(item)
    text = for_log(attempt.first_failure or whole() if attempt.is_refused else whole())
    if attempt.is_refused and text in (str(caught.value), report.longrepr):
        return
    between = _FAILED_TOO if attempt.has_failed else _FAILED_ALONE
    # What a repetition is refused with.
    attempt.first_failure = f"{text}\n\n{between}\n\n{caught.exconly()}"
    failure: Any = report.longrepr
    # pytest prints exceptions that follow from each other like this, and xdist sends them.
    if hasattr(failure, "chain"):
        try:
            fail(text)
        except pytest.fail.Exception:
            gate: Any = pytest.ExceptionInfo.from_current().getrepr(style="value")
        failure.chain = [(gate.reprtraceback, gate.reprcrash, between), *failure.chain]
    else:
        report.longrepr = f"{text}\n\n{between}\n\n{report.longreprtext}"


def _unhide(item: pytest.Item, report: pytest.TestReport) -> None:
    """Fail the report of a test that skipped itself in a comparison, or after its gate had failed.

    unittest keeps what was skipped to itself, and pytest puts it in place of our failure.
    """
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


def _is_quarantined(item: pytest.Item) -> bool:
    """Say whether a test that fails as expected was run, and fails the day that it passes."""
    usual = item.config.getini("xfail_strict")
    # pytest 9 has one setting more, for what is strict by default.
    if usual is None:
        usual = item.config.getini("strict")
    markers = [mark.kwargs for mark in item.iter_markers("xfail") if _may_apply(mark)]
    are_strict = (usual if (own := mark.get("strict")) is None else own for mark in markers)
    return bool(markers) and all(are_strict) and all(mark.get("run", True) for mark in markers)


def _may_apply(mark: pytest.Mark) -> bool:
    """Say whether an xfail has no condition or one that may hold, as any text may."""
    return any(mark.args or (mark.kwargs.get("condition", True),))
