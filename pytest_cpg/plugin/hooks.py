"""Session hooks: what is done in every session, and who looks out for its first gate.

What a session with gates needs is in `gate_hooks`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.gates import BASELINE, HISTORY, PREFIX
from pytest_cpg.machine.exits import is_refused, is_success, left_by, refuse_success
from pytest_cpg.plugin.kinds import (
    EXTENSION_POINTS,
    KINDS,
    Collected,
    GateKinds,
    had_gates,
    is_hook,
)

if TYPE_CHECKING:
    from pytest_cpg.plugin.gate_hooks import GateHooks

_ENDED_AS_PASSED = (
    "pytest was ended with exit code 0, and a gate has failed or was not accounted for: it is 1 "
    "instead"
)
_LEFT = (
    "pytest.exit ended the session with exit code 0 before any gate was judged: it is 1 instead. A "
    "job without gates takes -p no:cpg"
)


class SessionHooks:
    """Follows one pytest session, in the controller or in one xdist worker."""

    def __init__(self, parser: pytest.Parser, measured: Callable[..., Any]) -> None:
        self.kinds = GateKinds(parser, measured)
        self._collected = Collected()
        self._has_begun = self._is_left = self._is_over = self._is_typed = False
        self._is_collected = False
        self._config: pytest.Config = None  # type: ignore[assignment]  # until it is parsed
        self._followed: GateHooks | None = None
        self._put_exits_back: Callable[[int], None] | None = None

    def pytest_plugin_registered(self, plugin: object, manager: pytest.PytestPluginManager) -> None:
        """Take the kinds of gate that a plugin or a conftest file contributes."""
        # No plugin is read until one has any of these hooks: most sessions have none. A hook may
        # have any name that pytest's do, and then pluggy alone knows of it.
        hooks = (getattr(manager.hook, name) for name in EXTENSION_POINTS)
        if not any(map(is_hook, dir(plugin))) and not any(hook.get_hookimpls() for hook in hooks):
            return
        try:
            self.kinds.take(plugin)
        except pytest.UsageError as error:
            if not self._has_begun:
                raise
            # Pytest would end for a hook that nobody knows, and say nothing else.
            manager.unregister(plugin)
            from pytest_cpg.plugin.item import fail

            fail(str(error))

    @pytest.hookimpl(wrapper=True)
    def pytest_load_initial_conftests(
        self, early_config: pytest.Config, parser: pytest.Parser, args: Sequence[str]
    ) -> Generator[None, object, object]:
        """Guard exits where gates may be; refuse options that no gate or conftest file has."""
        self._is_typed = any(word.startswith("--cpg-") for word in args)
        self._open(early_config)
        try:
            loaded = yield
        except SystemExit as error:
            if not (is_success(error) and self._may_hide_gates):
                raise
            raise pytest.UsageError(left_by(error)) from None
        if self._is_typed:
            from pytest_cpg.plugin.settings import check_names

            _, unknown = parser.parse_known_and_unknown_args([*args])
            check_names(unknown, "--cpg-", self.kinds.options.table)
        return loaded

    def pytest_configure(self, config: pytest.Config) -> None:
        """Check the options, and follow a session of which something is asked."""
        self._open(config)
        config.stash[HOOKS], config.stash[KINDS] = self, self.kinds
        # Where workers collect, they say what.
        self._is_collected = _is_shared(config)
        try:
            self.kinds.open(config)
            if _is_shared(config) or _is_asked(config):
                self.follow()
        except pytest.UsageError as error:
            from pytest_cpg.gates.notation import for_log

            raise pytest.UsageError(*(for_log(str(text)) for text in error.args)) from None

    def follow(self) -> GateHooks:
        """Follow the session as one that has gates, or may have to have some, from now on."""
        if self._followed is None:
            from pytest_cpg.plugin.gate_hooks import follow

            self._followed = follow(self._config, self.kinds.options.table, self._collected)
        return self._followed

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Refuse settings of the ini file that mean nothing, before workers are started."""
        # Conftest files of folders are loaded from now on, as these are collected.
        self._has_begun = True
        if unknown := self.kinds.options.unknown_in_ini(self._config):
            from pytest_cpg.plugin.settings import check_names

            written = self._config.getoption("override_ini") or ()
            is_typed = any(
                setting.startswith(f"{name}=") for name in unknown for setting in written
            )
            place = "of -o" if is_typed else f"in {self._config.inipath}"
            check_names(unknown, "cpg_", self.kinds.options.table, place)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Note a bad marker, which its file is refused for with all others of it."""
        test = metafunc.definition
        try:
            if self.kinds.has_gate(test):
                self.follow().gates.check_definition(test)
            elif unknown := self.kinds.unknown_of(test):
                from pytest_cpg.plugin.item import check_unknown

                check_unknown(test, unknown)
        except pytest.fail.Exception as error:
            self._collected.refused.append(str(error))

    @pytest.hookimpl(tryfirst=True)
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note a gate before anybody can drop it, or take its marker away."""
        if self.kinds.has_gate(item):
            self._collected.gates.append(item)
            self._guard()
            self.follow()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note the gates that were collected and will not run."""
        gates = self.kinds.marked(items)
        if gates:
            self.follow().gates.note_deselected(gates)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Refuse a file for its bad markers, while collecting: so also under --co and xdist."""
        self._collected.refused = []
        try:
            report = yield
        except SystemExit as error:
            # Any other is an error to pytest, whatever its code.
            if not is_refused(error):
                raise
            from pytest_cpg.plugin.item import refused

            report = refused(collector, [left_by(error)])
        if self._collected.refused and report.passed:
            from pytest_cpg.plugin.item import refused

            report = refused(collector, self._collected.refused)
        # Which a plugin that makes reports itself may leave out.
        call = getattr(report, "call", None)
        if report.failed and call is not None:
            from pytest_cpg.plugin.item import say_once

            say_once(report, call.excinfo)
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note that a file was skipped or could not be imported, here or on a worker."""
        if not report.passed:
            self._collected.uncollected.add(report.outcome)
        if report.failed:
            self._collected.errors[report.nodeid] = report.longreprtext
        elif report.skipped and self.kinds.are_named_in(self._config.rootpath / report.nodeid):
            self.follow().gates.ledger.skipped[report.nodeid] = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note gates that were marked since; refuse in CI what runs none, and is not typed."""
        self._is_collected = True
        gates, known = self.kinds.marked(session.items), {*self._collected.gates}
        if gates:
            self._collected.gates += (gate for gate in gates if gate not in known)
            self.follow().check_will_run()
        self._guard()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Refuse a marker that came too late for anybody to follow its test."""
        if self._followed is None and self.kinds.has_gate(item):
            self.follow().gates.refuse_late(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Account for the gates, and in CI for those that there were before."""
        try:
            if self._followed or self._is_missed:
                self.follow().finish(session)
        except KeyboardInterrupt:
            # By now pytest itself would show a traceback of it.
            pytest.exit("interrupted while gates were accounted for", pytest.ExitCode.INTERRUPTED)
        finally:
            # Left before, nobody knows which gates there are.
            self._is_over = self._is_collected or not self._is_left

    @pytest.hookimpl(tryfirst=True, wrapper=True)
    def pytest_cmdline_main(self) -> Generator[None, int, int]:
        """End with the exit code that the gates call for, whatever other hooks end with."""
        try:
            code = yield
        except SystemExit as error:
            if not (is_success(error) and self._fails):
                raise
            code = pytest.ExitCode.OK
        # Whoever waits for the process sees eight bits of it.
        if code & 0xFF or not self._fails:
            return code
        self._show(_ENDED_AS_PASSED if self._is_over else _LEFT)
        return pytest.ExitCode.TESTS_FAILED

    def pytest_keyboard_interrupt(self) -> None:
        """Note that the session is left, maybe by `pytest.exit`, which may say that it passed."""
        self._is_left = True

    @property
    def _fails(self) -> bool:
        if self._is_left and not self._is_over:
            return self._may_hide_gates
        return self._followed is not None and self._followed.fails

    @property
    def _is_missed(self) -> bool:
        """Whether a session of which nothing is asked may have lost the gates that it had."""
        # Not by the history, which jobs of unit tests alone may have of the others.
        return bool(os.environ.get("CI")) and had_gates(self._config, BASELINE)

    @property
    def _may_hide_gates(self) -> bool:
        """Whether gates may be lost where the process ends now, and says that all has passed."""
        if self._is_over:
            return self._fails
        if self._collected.gates or self._is_typed or _is_asked(self._config):
            return True
        # Until files are collected, nobody knows whether there are any. What counts is CI.
        is_open = not self._is_collected and bool(os.environ.get("CI"))
        return is_open or had_gates(self._config, BASELINE, HISTORY)

    def _open(self, config: pytest.Config) -> None:
        """Follow a session before any conftest file or module of it is imported."""
        if self._config is None:
            self._config = config
            # Whoever is added first comes last, when pytest has only the exit code left to give.
            config.add_cleanup(self._end)
            self._guard()

    def _guard(self) -> None:
        """Guard the exits of this process while gates may be lost by them, and no longer."""
        if not self._may_hide_gates:
            if self._put_exits_back:
                self._put_exits_back(0)
                self._put_exits_back = None
        elif self._put_exits_back is None:
            self._put_exits_back = refuse_success(lambda: self._may_hide_gates, self._show)

    def _end(self) -> None:
        """Have the last word on the exit code, which other hooks may have changed."""
        code = self._followed.end() if self._followed else 0
        if self._put_exits_back:
            self._put_exits_back(code)

    def _show(self, text: str) -> None:
        from pytest_cpg.plugin.terminal import write_line

        write_line(self._config, text)


HOOKS: pytest.StashKey[SessionHooks] = pytest.StashKey()


def _is_asked(config: pytest.Config) -> bool:
    """Say whether anything is asked of the gates of a session, or may be."""
    typed = (value for name, value in vars(config.option).items() if name.startswith("cpg_"))
    return (
        any(value is not None and value is not False for value in typed)
        or any(name.startswith(PREFIX) for name in os.environ)
        or any("cpg_" in setting for setting in config.getoption("override_ini", None) or ())
        or (config.inipath is not None and b"cpg_" in config.inipath.read_bytes())
    )


def _is_shared(config: pytest.Config) -> bool:
    """Say whether workers collect for this session, or it is one of theirs."""
    return config.getoption("dist", "no") != "no" or hasattr(config, "workerinput")
