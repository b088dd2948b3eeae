"""Gate hooks: what pytest tells of a session that has gates, or may have to have some.

Loaded when the first gate is met, or something is asked of gates.
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.plugin.attempt import attempt_of, torn_down
from pytest_cpg.plugin.invocation import PROGRAM, WIDTH, program_of, width_of
from pytest_cpg.plugin.item import clean_errors, fail
from pytest_cpg.plugin.kinds import KINDS, had_gates
from pytest_cpg.plugin.outputs import SessionOutputs
from pytest_cpg.plugin.scope import SessionScope, check_session, check_will_run
from pytest_cpg.plugin.settings import read_settings

if TYPE_CHECKING:
    from pytest_cpg.gates.options import Option
    from pytest_cpg.plugin.kinds import Collected
    from pytest_cpg.plugin.session import GateSession

_CHANNEL = "pytest_cpg_channel"
# Tests that users run their components through, and where a failure without a traceback is raised.
_SHOWN = ("pytest_cpg.conformance", "pytest_cpg.plugin.item")
# What leaves a test without failing it.
_EXCUSES = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)


class GateHooks:
    """Follows the gates of one pytest session, in the controller or in one xdist worker."""

    def __init__(self, scope: SessionScope) -> None:
        self._scope, self._config, self._settings = scope, scope.config, scope.settings
        self._collected, self._replay = scope.collected, scope.replay
        self._has_begun = self._has_workers = self._is_accounted = False
        self._shared: list[dict[str, dict[str, Any]]] = []
        self._failed: set[str] = set()
        self._died: set[str] = set()
        self._gates: GateSession | None = None
        self._outputs = SessionOutputs(scope.config, scope.settings)
        self._process = os.getpid()
        self._session: pytest.Session | None = None
        self._kinds = scope.config.stash[KINDS]

    @property
    def gates(self) -> GateSession:
        """The session's gates."""
        if self._gates is None:
            # It brings numpy.
            from pytest_cpg.plugin.session import GateSession

            self._gates = GateSession(self._scope, self._outputs)
        return self._gates

    def check_will_run(self) -> None:
        """Refuse in CI what runs no gate, and is not typed."""
        check_will_run(self._config, self._settings)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Note the gates that will run; only say what they could find under --cpg-plan."""
        self._has_begun = True
        gates, is_plan = self._kinds.marked(session.items), "plan" in self._settings.switches
        if gates or self._collected.gates:
            self.gates.note_expected(gates, self._collected.gates)
        self._share()
        if session.testsfailed or not is_plan:
            return None
        self.gates.forecast(gates)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Any:
        """Hold back the verdict on what other gates find, until these are over."""
        if not (self._kinds.has_gate(item) and self._scope.has_run) or self._replay is not None:
            return None
        from pytest_cpg.gates.parts import is_held
        from pytest_cpg.plugin.held import run_held

        if not any(map(is_held, self._kinds.of(item))):
            return None
        run_held(item, nextitem, self.gates)
        return True

    # Within those of other plugins, whose teardown needs that their setup has been.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Check markers that were not seen while collecting; show our own errors without frames."""
        # Some plugins run a test in a process of its own.
        self._process = os.getpid()
        if not self._kinds.has_gate(item):
            return (yield)
        from pytest_cpg.plugin.judging import conclude

        with clean_errors():
            self.gates.begin(item)
            try:
                return (yield)
            except _EXCUSES as excuse:
                if self._hides(item, excuse):
                    conclude(item, self.gates.gate(item))
                raise

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Apply the gate to what the test measured, once its body has passed."""
        if not self._kinds.has_gate(item):
            return (yield)
        from pytest_cpg.plugin.judging import check_case, conclude

        with clean_errors():
            check_case(item, self.gates.gate(item).kind)
            try:
                yield
            except _EXCUSES as excuse:
                if not self._hides(item, excuse):
                    raise
            except AssertionError:
                if not (self.gates.gate(item).is_smoke and attempt_of(item).has_measured):
                    raise
            if self._replay is not None:
                # Whatever was replayed has left the test by now.
                fail(self._replay.lines[0].strip())
            conclude(item, self.gates.gate(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """Refuse comparisons that are made once the gate has been applied."""
        if not self._kinds.has_gate(item):
            return (yield)
        with torn_down(item, self.gates.ledger.late):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the gate's id and results on the report, as strings: xdist ships nothing else."""
        if self._collected.gates and os.getpid() != self._process:
            # Forked by a test or its model: it would report all again, over its parent's files.
            os._exit(1)
        if not self._kinds.has_gate(item):
            return (yield)
        with _own_frames_hidden() if call.excinfo else nullcontext():
            report = yield
        from pytest_cpg.plugin.item_report import put_on_report

        put_on_report(item, call, report, self.gates.gate)
        return report

    def _share(self) -> None:
        """Tell the controller, from a worker, what of the gates is in no report."""
        channel = getattr(self._config, "workerinput", {}).get(_CHANNEL)
        if channel is not None:
            channel.send(self._gates.ledger.share() if self._gates else {})

    def _hides(self, item: pytest.Item, excuse: BaseException) -> bool:
        """Say whether a skip would hide what was measured, or broke a comparison off."""
        if self._replay is not None:
            return False
        attempt = attempt_of(item)
        is_expected = isinstance(excuse, pytest.xfail.Exception)
        return bool(attempt.errors) or not (attempt.is_empty or is_expected)

    # Whoever shows a report first may fail it, for a subtest.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what a gate reported, here or on a worker, and which other tests failed."""
        if report.failed and not hasattr(report, "pytest_cpg_gate"):
            self._failed.add(report.nodeid)
        # The report of a subtest is a copy of its test's, which is still to come.
        if hasattr(report, "pytest_cpg_section"):
            from pytest_cpg.plugin.item_report import in_colour

            in_colour(report)
        if hasattr(report, "pytest_cpg_gate") and not hasattr(report, "context"):
            self.gates.note_report(report)
            if report.nodeid in self._died and not self._settings.allow_reruns:
                self.gates.ledger.died[report.pytest_cpg_gate] = None
        elif report.outcome not in ("passed", "failed", "skipped"):
            # It is run again, and of a gate its worker has died: else the report names the gate.
            self._died.add(report.nodeid)

    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
        """Show a passed gate that decided nothing as a yellow question mark, or as measured."""
        judgements = getattr(report, "pytest_cpg_judgements", None)
        if not judgements or not report.passed or hasattr(report, "wasxfail"):
            return None
        return self.gates.status_of(judgements)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Let an xdist worker say which gates it has before it can die in one of them."""
        channel = node.gateway.newchannel()
        # Called in a thread of execnet's.
        channel.setcallback(self._shared.append)
        node.workerinput[_CHANNEL] = channel
        node.workerinput[WIDTH] = width_of(self._config)
        node.workerinput[PROGRAM] = program_of(self._config)
        self._has_workers = True

    def finish(self, session: pytest.Session) -> None:
        """Fail a session in which an expected gate did not report, or the gates fail together."""
        self._account(session)
        # Last: what a slow report or a kind of gate is left by, the session fails for.
        self._is_accounted = True

    def _account(self, session: pytest.Session) -> None:
        self._share()
        if hasattr(self._config, "workerinput") or "plan" in self._settings.switches:
            return
        for shared in filter(None, tuple(self._shared)):
            self.gates.ledger.learn(shared)
        seen = self._collected
        if self._has_workers and not self._shared:
            seen.uncollected.add("silent")
        if seen.gates and not self._has_begun and session.exitstatus == pytest.ExitCode.OK:
            # Something said, before any test began, that the session is over and has passed.
            self.gates.note_expected(seen.gates, seen.gates)
        has_gates = self._gates is not None
        is_run = self._scope.has_run and self._replay is None
        writes = is_run and self._outputs.is_asked(with_gates=has_gates)
        kept = self._settings.of_session("baseline")
        if has_gates or writes or self._scope.owes_gates(had_gates=had_gates(self._config, kept)):
            self.gates.finish(session, writes=writes, failed=self._failed)
            self._session = session

    @property
    def fails(self) -> bool:
        """Whether the session has to fail for its gates."""
        if self._session is not None:
            return self.gates.ledger.fails
        # It was left before they were accounted for. Where workers run gates, nothing is collected.
        return self._has_begun and not self._is_accounted

    def end(self) -> int:
        """Set the exit code again, which other hooks may have changed, and return it."""
        if self._session is None:
            return 0
        from pytest_cpg.plugin.closing import hold_status
        from pytest_cpg.plugin.terminal import write_line
        from pytest_cpg.report.together import late_text

        hold_status(self.gates.ledger, self._session)
        said = {finding.text for finding in self.gates.ledger.findings}
        for text in map(late_text, self.gates.ledger.late):
            if text not in said:
                write_line(self._config, text)
        return int(self._session.exitstatus)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line per gate, and what they say together."""
        if self._gates:
            # What pytest does for tests that it counts as passed.
            for category in ("inconclusive", "measured"):
                terminalreporter.summary_passes_combined(category, category.upper(), "P")
            self._gates.summarise(terminalreporter)


@contextmanager
def _own_frames_hidden() -> Iterator[None]:
    """Leave the frames of this package out of what pytest shows of errors in a user's code."""
    # A thread of a model may import something meanwhile.
    own = [
        vars(module)
        for name, module in sys.modules.copy().items()
        if name.startswith("pytest_cpg.") and not name.startswith(_SHOWN)
    ]
    for names in own:
        names["__tracebackhide__"] = True
    try:
        yield
    finally:
        for names in own:
            names.pop("__tracebackhide__", None)


def follow(config: pytest.Config, options: Mapping[str, Option], collected: Collected) -> GateHooks:
    """Follow the gates of a session from now on, once its options are read and go together."""
    settings = read_settings(config, options)
    check_session(config, settings)
    replay = None
    if "replay" in settings.typed:
        from pytest_cpg.plugin.replay import SessionReplay

        is_filmed = "render" in settings.switches
        replay = SessionReplay(
            config,
            settings.typed["replay"],
            is_filmed=is_filmed,
            states=settings.typed.get("states", ""),
        )
        if replay.place and config.args_source is not config.ArgsSource.ARGS:
            config.args = [replay.place]
    hooks = GateHooks(SessionScope(config, settings, collected, replay))
    config.pluginmanager.register(hooks, "cpg-session")
    if replay is not None:
        config.pluginmanager.register(replay, "cpg-replay")
    return hooks
