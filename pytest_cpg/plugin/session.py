"""Gate session: the gates of one pytest session, in the controller or in one xdist worker."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Executor
from functools import cached_property, partial
from typing import Any, NoReturn

import pytest

from pytest_cpg.contracts import CpgError
from pytest_cpg.gates.answer import ask_at_end
from pytest_cpg.gates.kept import entry_for
from pytest_cpg.gates.kind import Finding, ForecastLine, GateKind
from pytest_cpg.gates.notation import one_line, wrapped
from pytest_cpg.gates.parts import is_held, offers
from pytest_cpg.plugin.attempt import ATTEMPT, begin_attempt
from pytest_cpg.plugin.closing import Closing, SessionBaseline
from pytest_cpg.plugin.held import Held, failed_with, put_judgement
from pytest_cpg.plugin.item import clean_errors, fail, gate_id, groups_of, markers_of, read_gate
from pytest_cpg.plugin.judging import judge, judged
from pytest_cpg.plugin.kinds import KINDS, remembered_costs
from pytest_cpg.plugin.marker import Gate
from pytest_cpg.plugin.measuring import ItemMeasuring, SessionRuns
from pytest_cpg.plugin.outputs import SessionOutputs
from pytest_cpg.plugin.scope import SessionScope
from pytest_cpg.plugin.settings import Settings
from pytest_cpg.plugin.terminal import write_lines
from pytest_cpg.render import summary
from pytest_cpg.render.line import forecast_table
from pytest_cpg.report.baseline import Baseline
from pytest_cpg.report.ledger import EMPTY_SET, Entry, Kinds, Ledger, Outcome, labels_in, load
from pytest_cpg.report.session import Session, state_of

_GATE: pytest.StashKey[Gate] = pytest.StashKey()

_CLASH = (
    "two gates have the id {id!r}, and one would hide the other. Give each its own: "
    "@pytest.mark.{marker}(..., id=...)."
)

_NO_BASELINE = (
    "drift='fail' compares with a baseline, and there is none at {path}. Run pytest "
    "--cpg-update-baseline where the model is known to be good, and commit the file."
)

_LATE_MARKER = (
    "the marker {marker} was added after the test had begun. Add it while tests are collected, in "
    "pytest_collection_modifyitems."
)

_NO_XFAIL = (
    "a test marked {marker} is judged once it is over, where no xfail counts. Leave xfail out, and "
    'say which verdict it accepts: max_verdict="ABOVE LIMIT".'
)

_TURNED = {
    "skipped": (
        "nothing skipped it, and a hook made its report a skipped one. Skip in the test, or by a "
        "marker"
    ),
    "xfailed": (
        "nothing expected it to fail, and a hook made its report an expected failure. Mark it "
        "xfail(strict=True)"
    ),
}

_PARTIAL = (
    "{gate} knows the gates of this run alone, as no baseline says which there are in files that "
    "were left out. Run all, or accept results with --cpg-update-baseline"
)

_NO_FAMILY = (
    "--cpg-correction=holm shares one error rate among all gates of the project, and needs to know "
    "how many they are. Set cpg_family_size in the ini file, or keep a baseline."
)


# What a kind needs for it, and what it says where that is missing.
_NEEDS: Mapping[str, tuple[str, str]] = {
    "plan": ("forecast", "says nothing before it is run"),
    "quick": ("has_smoke_test", "has no smoke test"),
    "replay": ("replay", "has no episodes to run again"),
    "update_baseline": ("compare", "has nothing to keep in a baseline"),
    "correction": ("alarm", "has no p-value, and shares no error rate"),
}


class GateSession:
    """The gates of one pytest session, and in its ``ledger`` what they reported."""

    def __init__(self, scope: SessionScope, outputs: SessionOutputs) -> None:
        self._config, self._settings, self._replay = scope.config, scope.settings, scope.replay
        self.ledger = Ledger()
        self._plan: list[str] = []
        self._outputs, self._scope, self._baseline = outputs, scope, SessionBaseline(scope)

    @cached_property
    def runs(self) -> SessionRuns:
        """What measurements are made with."""
        return SessionRuns(self._config, self._settings)

    def gate(self, node: pytest.Item) -> Gate:
        """Return the gate that a test's markers ask for, or fail with what to write instead."""
        if _GATE not in node.stash:
            node.stash[_GATE] = self._read(node)
        return node.stash[_GATE]

    def measuring(
        self, node: pytest.Item, executor: Executor | None, given: Mapping[str, Any]
    ) -> ItemMeasuring:
        """Return how this test measures, on an executor or in this process."""
        gate = self.gate(node)
        if ATTEMPT not in node.stash:
            self.refuse_late(node)
        accepted = self._accepted(gate)
        return ItemMeasuring(
            node,
            gate,
            self.runs,
            given=given,
            executor=executor,
            judge=partial(judge, node, gate, accepted, self._settings),
            ledger=self.ledger,
            replay=self._replay,
        )

    def _accepted(self, gate: Gate) -> Baseline | None:
        """Return what a gate's result is compared with; fail where that has to be and is not."""
        is_updated = "update_baseline" in self._settings.switches
        is_compared = gate.drift == "fail" and not (is_updated or gate.is_smoke)
        if is_compared and self._baseline.accepted is None:
            fail(_NO_BASELINE.format(path=self._baseline.path))
        return None if gate.drift == "off" or gate.is_smoke else self._baseline.accepted

    def refuse_late(self, node: pytest.Item) -> NoReturn:
        """Fail a test that was marked when nobody could follow it any more."""
        fail(_LATE_MARKER.format(marker=self.gate(node).kind.marker))

    def check_definition(self, definition: pytest.Item) -> None:
        """Refuse a bad marker of a test function, once it can be known."""
        # What its parameters say closer is known only once there is a test for each.
        if not _has_marked_parameters(definition):
            self._read(definition)

    def note_deselected(self, gates: Sequence[pytest.Item]) -> None:
        """Note gates that were collected and will not run."""
        self.ledger.deselected.update(dict.fromkeys(map(gate_id, gates)))
        self.ledger.groups.update(groups_of(gates))
        self.ledger.markers.update(markers_of(gates))

    def note_expected(self, gates: Sequence[pytest.Item], collected: Sequence[pytest.Item]) -> None:
        """Note gates that will run, if anything does, of those that were collected."""
        if self._scope.has_run:
            self.ledger.expect(map(gate_id, gates))
            self.ledger.collected.update(dict.fromkeys(map(gate_id, collected)))
            self.ledger.groups.update(groups_of([*collected, *gates]))
            self.ledger.markers.update(markers_of([*collected, *gates]))

    def begin(self, item: pytest.Item) -> None:
        """Check a gate that is about to run."""
        gate, name = self.gate(item), gate_id(item)
        if name in self.ledger.clashes:
            fail(_CLASH.format(id=name, marker=gate.kind.marker))
        begin_attempt(item, allow_reruns=self._settings.allow_reruns)
        if is_held(gate.kind) and item.get_closest_marker("xfail"):
            fail(_NO_XFAIL.format(marker=gate.kind.marker))
        _check_gate(gate, self._settings)

    def note_report(self, report: pytest.TestReport) -> None:
        """Collect what a gate reported, here or on a worker."""
        gate: str = report.pytest_cpg_gate
        self._outputs.locations[gate] = report.location
        if held := getattr(report, "pytest_cpg_held", ""):
            self.ledger.held[gate] = held, getattr(report, "node", None)
        seconds = self.ledger.seconds
        seconds[gate] = seconds.get(gate, 0.0) + report.duration
        try:
            entry = _entry_of(report, self._config.stash[KINDS].table)
        except CpgError as error:
            entry = Entry(outcome="error", detail=str(error))
            fault = Finding(str(error), fails=True)
            self.ledger.findings = tuple({**dict.fromkeys(self.ledger.findings), fault: None})
        if entry:
            self.ledger.note(gate, entry)

    def status_of(self, judgements: str) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
        """Return how pytest shows a gate that passed, and judged or settled nothing."""
        labels = labels_in(judgements)
        outcome = state_of("passed", labels.values())
        if outcome == "passed":
            return None
        if outcome == "measured":
            return outcome, ".", ("MEASURED", {"green": True})
        worst = max(labels, key=labels.__getitem__)
        return outcome, "?", (worst, {"yellow": True})

    def finish(self, session: pytest.Session, *, writes: bool, failed: Set[str]) -> None:
        """Account for all gates, and fail the session where they call for it."""
        writer = self._config.get_terminal_writer()
        if self.ledger.held and writer.width_of_current_line:
            # Behind the share of tests that are over, a late letter would look like a part of it.
            writer.line()
        for name, (text, node) in self.ledger.held.items():
            self._complete(name, text, node)
        closing = Closing(self._scope, self._baseline, self._outputs, self.ledger)
        closing.close(session, writes=writes, failed=failed)

    def _complete(self, name: str, text: str, node: Any) -> None:
        """Judge a gate by what the others found, and give out the reports that its test held."""
        config, scope = self._config, self._scope
        held = Held.read(name, text, config, config.stash[KINDS].table)
        first, *rest = held.reports
        try:
            # Of the whole project, what is gone is told beside the baseline.
            is_partial = scope.asked is not None or scope.ignores
            accepted = self._baseline.accepted if is_partial else None
            if is_partial and self._baseline.accepted is None:
                self.ledger.findings += (Finding(_PARTIAL.format(gate=name)),)
            result = held.completed(self.ledger, is_cut=scope.leaves_passed_out, accepted=accepted)
            judgement = judged(
                held.gate,
                result,
                name=name,
                # By itself it has nothing to judge: all are run again.
                nodeid="",
                baseline=self._accepted(held.gate),
                settings=self._settings,
                config=config,
            )
        except (CpgError, pytest.fail.Exception) as error:
            message = getattr(error, "whole", str(error))
            failed_with(first, wrapped(message), one_line(message), config)
        else:
            put_judgement(first, judgement, config)
        for report in (first, *rest):
            # By its worker, plugins know that it is of the same test.
            vars(report).update({"node": node} if node else {})
            config.hook.pytest_runtest_logreport(report=report)

    def forecast(self, gates: Sequence[pytest.Item]) -> None:
        """Keep the lines of --cpg-plan for the summary."""
        costs, config = remembered_costs(self._config), self._config
        forecasts: dict[str, ForecastLine] = {}
        faults: list[Finding] = []
        try:
            accepted = self._baseline.accepted if self._baseline.is_used else None
            for item in gates:
                gate, name = self.gate(item), gate_id(item)
                _check_supports(gate.kind, "plan")
                kind: Any = gate.kind
                forecast = ask_at_end(
                    faults,
                    kind,
                    "forecast",
                    gate.spec,
                    self.runs.task(gate.task) if gate.task else None,
                    cost=costs.get(name) or None,
                    accepted=entry_for(kind, accepted.gates.get(name)) if accepted else None,
                )
                if forecast is not None:
                    forecasts[name] = forecast
        except (CpgError, pytest.fail.Exception) as error:
            raise pytest.UsageError(str(error)) from None
        if config.pluginmanager.hasplugin("terminalreporter") and (forecasts or not faults):
            self._plan = forecast_table(forecasts, width=config.get_terminal_writer().fullwidth)
        if faults:
            raise pytest.UsageError("\n".join(fault.text for fault in faults))

    def summarise(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line per gate, and what they say together."""
        if "plan" in self._settings.switches:
            count = len(self.ledger.expected)
            gates = f"{count} gate{'s'[: count != 1]}"
            terminalreporter.write_sep("-", f"cpg: forecast of {gates}, nothing run")
            for text in self._plan:
                terminalreporter.write_line(text)
            return
        for command in self._outputs.annotations:
            terminalreporter.write_line(command)
        if self._config.option.no_summary:
            return
        if self._replay and self._scope.has_run:
            terminalreporter.write_sep("-", "cpg: replay, no verdict")
            for text in self._replay.lines:
                terminalreporter.write_line(text)
            return
        session = Session.of(self.ledger)
        width = self._config.get_terminal_writer().fullwidth
        verbosity = self._config.get_verbosity()
        lines = summary.summary_lines(session, width=width, verbosity=verbosity)
        if not (lines or session.gates):
            return
        title = summary.title(session, verbosity=verbosity)
        markup = summary.title_markup(session)
        if verbosity < 0:
            terminalreporter.write_line(title, **markup)
        else:
            terminalreporter.write_sep("-", title, **markup)
        write_lines(lines, terminalreporter)

    def _read(self, node: pytest.Item) -> Gate:
        with clean_errors():
            baseline = self._baseline
            if baseline.is_corrected and not baseline.family_size:
                fail(_NO_FAMILY)
            family_size = baseline.family_size if baseline.is_corrected else 1
            return read_gate(node, self._settings, family_size=family_size)


def _entry_of(report: pytest.TestReport, kinds: Kinds) -> Entry | None:
    """Return what this report of a gate's test says about the gate, if anything."""
    measured: dict[str, Any] = {
        "judgements": load(getattr(report, "pytest_cpg_judgements", "[]"), kinds),
        "measurements": tuple(json.loads(getattr(report, "pytest_cpg_measurements", "[]"))),
        "resumed": tuple(json.loads(getattr(report, "pytest_cpg_resumed", "[]"))),
        "is_refused": getattr(report, "pytest_cpg_is_refused", False),
        "is_quarantined": getattr(report, "pytest_cpg_is_quarantined", False),
        "attempt": getattr(report, "pytest_cpg_attempt", 1),
    }
    if report.skipped:
        outcome: Outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        is_real = getattr(report, f"pytest_cpg_is_{outcome}", False)
        # A failing gate that is said to be skipped is told with its failure.
        if not (is_real or (outcome == "skipped" and measured["is_refused"])):
            detail = f"error in {report.when}: {_TURNED[outcome]}"
            # Beside what was measured nobody would read it.
            return Entry(outcome="error", detail=detail, attempt=measured["attempt"])
        why = getattr(report, "wasxfail", str(report.longrepr))
        return Entry(outcome=outcome, detail=EMPTY_SET if EMPTY_SET in why else "", **measured)
    if report.when == "call":
        if report.passed:
            return Entry(outcome="passed", **measured)
        # What a comparison failed for, it says itself.
        is_said = any(judgement.reason for judgement in measured["judgements"])
        return Entry(outcome="failed", detail="" if is_said else _first_line(report), **measured)
    if report.failed:
        detail = f"error in {report.when}: {_first_line(report)}"
        return Entry(outcome="error", detail=detail, **measured)
    return None


def _first_line(report: pytest.TestReport) -> str:
    """Return what went wrong, as pytest's own short summary would say it, or all that is told."""
    if told := getattr(report, "pytest_cpg_told", ""):
        return str(told)
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
    # A class's module says nothing in a line that must be short, nor does pytest's own "Failed".
    return (
        re.sub(r"^(?:[\w.]*\.)?(\w+: )", r"\1", lines[0]).removeprefix("Failed: ") if lines else ""
    )


def _has_marked_parameters(definition: pytest.Item) -> bool:
    """Say whether some parameters of a test bring markers of their own."""
    values = (
        value
        for mark in definition.iter_markers("parametrize")
        for given in (*mark.args[1:2], mark.kwargs.get("argvalues"))
        if isinstance(given, list | tuple)
        for value in given
    )
    table = definition.config.stash[KINDS].table
    return any(mark.name in table for value in values for mark in getattr(value, "marks", ()))


def _check_supports(kind: GateKind[Any, Any], option: str) -> None:
    """Fail where an option asks a kind for what it does not have."""
    part, why = _NEEDS[option]
    if not offers(kind, part):
        _refuse(kind, option, why)


def _refuse(kind: GateKind[Any, Any], option: str, why: str) -> NoReturn:
    fail(
        f"--cpg-{option.replace('_', '-')}: a gate marked {kind.marker} {why}. Leave such gates "
        f"out: -m 'not {kind.marker}'."
    )


def _check_gate(gate: Gate, settings: Settings) -> None:
    """Fail where the session or the marker asks a gate for what its kind does not have."""
    asked = {*settings.switches, *settings.typed} & {"quick", "replay", "update_baseline"}
    if settings.of_session("correction") == "holm":
        asked.add("correction")
    for option in sorted(asked):
        _check_supports(gate.kind, option)
        if option == "replay" and gate.task is None:
            _refuse(gate.kind, option, "has no task to run episodes on")
    if gate.drift == "fail" and not offers(gate.kind, "compare"):
        fail(
            f"drift='fail': a gate marked {gate.kind.marker} keeps nothing to compare with. Leave "
            f"drift out of its marker, or such gates: -m 'not {gate.kind.marker}'."
        )
