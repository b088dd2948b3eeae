"""Plugin: the hooks, the marker and the fixtures; everything else is decided elsewhere.

Nothing heavier than pytest is imported before the first gate is collected.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_cpg import hookspecs
from pytest_cpg.settings import Settings, add_options, read_settings

if TYPE_CHECKING:
    from pytest_cpg.contracts import PlannerFactory, Task, TaskFactory, WorldModelFactory
    from pytest_cpg.gates.benchmark import Benchmark
    from pytest_cpg.gates.result import GateResult
    from pytest_cpg.ledger import Judgement, Ledger
    from pytest_cpg.marker import Components, GateSpec
    from pytest_cpg.render.progress import LiveLine, LogLines, Watch
    from pytest_cpg.world_models import OracleDynamics

_MARKER = "cpg"
_MARKER_LINE = (
    "cpg(task, planner='random-shooting', max_verdict='INCONCLUSIVE', episodes, seed, confidence, "
    "tolerance, starts='sampled', horizon, budget, min_oracle, model, id): gate this test on the "
    "planning gap between the true dynamics and a learned world model."
)
_PLANNED = "pytest_cpg_planned"


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the extension points."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Check the options and follow the session."""
    config.addinivalue_line("markers", _MARKER_LINE)
    gates = GateSession(config, read_settings(config))
    config.stash[_SESSION] = gates
    config.pluginmanager.register(gates, "cpg-session")


def pytest_cpg_tasks() -> Mapping[str, TaskFactory]:
    """Contribute the built-in tasks through the public hook."""
    from pytest_cpg.tasks import TASKS

    return TASKS


def pytest_cpg_planners() -> Mapping[str, PlannerFactory]:
    """Contribute the built-in planners through the public hook."""
    from pytest_cpg.planners import PLANNERS

    return PLANNERS


def pytest_cpg_world_models() -> Mapping[str, WorldModelFactory]:
    """Contribute the built-in world models through the public hook."""
    from pytest_cpg.world_models import WORLD_MODELS

    return WORLD_MODELS


@pytest.fixture
def oracle_dynamics(request: pytest.FixtureRequest) -> OracleDynamics:
    """Give the true dynamics of the marker's task; override it to use a surrogate."""
    from pytest_cpg.world_models import OracleDynamics

    return OracleDynamics(_gates(request).task(_gates(request).spec(request.node)))


@pytest.fixture
def learned_dynamics(request: pytest.FixtureRequest) -> Any:
    """Give the learned world model; override it, or name a registered one with ``model=``."""
    gates = _gates(request)
    spec = gates.spec(request.node)
    if spec.make_model is None:
        _fail(_NO_MODEL)
    request.node.stash[_NAMED_MODEL] = True
    return spec.make_model(gates.task(spec))


@pytest.fixture
def benchmark_runner(request: pytest.FixtureRequest) -> Benchmark:
    """Compare models on the marker's task; the gate is applied to each result after the body."""
    return _gates(request).benchmark(request.node)


@pytest.fixture
def cpg(
    benchmark_runner: Benchmark, oracle_dynamics: OracleDynamics, learned_dynamics: Any
) -> GateResult:
    """Give the gate's result: all arms have run before the test's body."""
    __tracebackhide__ = True
    return benchmark_runner.compare(oracle=oracle_dynamics, learned=learned_dynamics)


_NO_MODEL = """\
this gate has no learned world model. Write the fixture, for example in conftest.py:

    @pytest.fixture(scope="session")
    def learned_dynamics():
        return my_model  # maps observations [B, O] and actions [B, A] to next observations [B, O]

or name a registered model in the marker: @pytest.mark.cpg(..., model="mlp")."""

_TWO_MODELS = (
    "the marker names model={model!r}, and this test judged another one: its own learned_dynamics "
    "fixture hides the named model, or compare(learned=...) was given something else. Drop one of "
    "the two."
)

_CLASH = (
    "two gates have the id {id!r}, and one would hide the other. Give each its own: "
    "@pytest.mark.cpg(..., id=...)."
)

_NO_GATE = (
    "this test is marked cpg but ran no gate. Take the `cpg` fixture as an argument, or call "
    "benchmark_runner.compare(learned=...) in the test."
)


class GateSession:
    """The gates of one pytest session, in the controller or in one xdist worker."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._ledger: Ledger | None = None
        self._tasks: dict[tuple[Any, ...], Task] = {}

    @property
    def ledger(self) -> Ledger:
        """What the session's gates reported."""
        if self._ledger is None:
            from pytest_cpg.ledger import Ledger

            self._ledger = Ledger()
        return self._ledger

    def spec(self, node: pytest.Item) -> GateSpec:
        """Return the gate that a test's markers ask for, or fail with what to write instead."""
        if _SPEC not in node.stash:
            node.stash[_SPEC] = self._parsed(node)
        return node.stash[_SPEC]

    def task(self, spec: GateSpec) -> Task:
        """Return a gate's task; simulators are built once per session."""
        from pytest_cpg.contracts import Task
        from pytest_cpg.registry import check_complete

        key = (spec.task, spec.make_task, spec.budget)
        if key not in self._tasks:
            budget = {} if spec.budget is None else {"budget": spec.budget}
            task = spec.make_task(**budget)
            self._tasks[key] = check_complete("task", spec.task, task, Task)
        return self._tasks[key]

    def benchmark(self, node: pytest.Item) -> Benchmark:
        """Return what compares models for this test."""
        from pytest_cpg.gates.benchmark import Benchmark
        from pytest_cpg.gates.planning_gap import Design, failure_reason
        from pytest_cpg.ledger import Judgement

        spec = self.spec(node)
        design = Design(
            task=self.task(spec),
            planner=spec.planner,
            episodes=spec.episodes,
            seed=spec.seed,
            starts=spec.starts,
            level=spec.level,
            tolerance=spec.tolerance,
            min_oracle=spec.min_oracle,
        )
        measured = node.stash.setdefault(_RESULTS, [])

        def judge(result: GateResult) -> None:
            reason = failure_reason(result, spec.max_verdict)
            measured.append((result, Judgement(result=result.to_json(), reason=reason)))

        return Benchmark(design=design, on_result=judge, watch=self._watch(node))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Refuse a bad marker while collecting: the error stays clean under --co and xdist."""
        if metafunc.definition.get_closest_marker(_MARKER):
            self._parsed(metafunc.definition)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Note the gates that will run."""
        gates = [_gate_id(item) for item in session.items if item.get_closest_marker(_MARKER)]
        option = self._config.option
        if gates and not (option.collectonly or option.setuponly or option.setupplan):
            self.ledger.plan(gates)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Check markers that were not seen while collecting; show our own errors without frames."""
        __tracebackhide__ = True
        with _clean_errors():
            if item.get_closest_marker(_MARKER):
                self.spec(item)
                if _gate_id(item) in self.ledger.clashes:
                    _fail(_CLASH.format(id=_gate_id(item)))
            yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Apply the gate to what the test measured, once its body has passed."""
        __tracebackhide__ = True
        with _clean_errors():
            try:
                yield
            except pytest.skip.Exception:
                # Skipping what was not measured is fine; what was measured counts.
                if not item.stash.get(_RESULTS, []):
                    raise
            if not item.get_closest_marker(_MARKER):
                return
            if not item.stash.get(_RESULTS, []):
                _fail(_NO_GATE)
            if self.spec(item).model and not item.stash.get(_NAMED_MODEL, False):
                _fail(_TWO_MODELS.format(model=self.spec(item).model))
            failures = self._failures(item)
            if failures:
                _fail("\n\n".join(failures))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the gate's id and results on the report, as strings: xdist ships nothing else."""
        report = yield
        if item.get_closest_marker(_MARKER):
            report.pytest_cpg_gate = _gate_id(item)  # type: ignore[attr-defined]  # ours to add
            if call.when == "call":
                from pytest_cpg.ledger import dump

                measured = [judgement for _, judgement in item.stash.get(_RESULTS, [])]
                report.pytest_cpg_judgements = dump(measured)  # type: ignore[attr-defined]  # ours
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what a gate reported, here or on a worker."""
        gate = getattr(report, "pytest_cpg_gate", None)
        # The report of a subtest is a copy of its test's, which is still to come.
        if gate is None or hasattr(report, "context"):
            return
        from pytest_cpg.ledger import entry_of

        entry = entry_of(report)
        if entry:
            self.ledger.report(gate, entry)

    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
        """Show a passed gate whose verdict is INCONCLUSIVE as a yellow question mark."""
        judgements = getattr(report, "pytest_cpg_judgements", None)
        if not judgements or not report.passed or hasattr(report, "wasxfail"):
            return None
        from pytest_cpg.ledger import load
        from pytest_cpg.stats import Verdict

        verdicts = [judgement.read().verdict for judgement in load(judgements)]
        if Verdict.INCONCLUSIVE not in verdicts:
            return None
        return "passed", "?", ("INCONCLUSIVE", {"yellow": True})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Learn from an xdist worker which gates it had collected."""
        planned = getattr(node, "workeroutput", {}).get(_PLANNED)
        if planned:
            self.ledger.plan(planned)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a session in which a planned gate did not report."""
        if self._ledger is None:
            return
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_PLANNED] = list(self._ledger.planned)
        elif self._ledger.missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line per gate."""
        if self._ledger is None or self._config.option.no_summary:
            return
        from pytest_cpg.render import summary

        lines = summary.summary_lines(
            self._ledger,
            width=self._config.get_terminal_writer().fullwidth,
            verbosity=self._config.get_verbosity(),
        )
        if lines:
            terminalreporter.write_sep("-", summary.title(self._ledger))
        for line in lines:
            terminalreporter.write_line(line.text, **line.markup)

    def _parsed(self, node: pytest.Item) -> GateSpec:
        from pytest_cpg.contracts import ComponentError
        from pytest_cpg.marker import parse_gate

        markers = list(node.iter_markers(_MARKER))
        if not markers:
            _fail(
                "the fixtures of pytest-cpg need a marked test. Write "
                '@pytest.mark.cpg(task="acrobot-swingup") above it.'
            )
        try:
            return parse_gate(markers, self._settings, _components(node), nodeid=node.nodeid)
        except (ValueError, ComponentError) as error:
            _fail(f"{node.nodeid}: {error}")

    def _failures(self, item: pytest.Item) -> list[str]:
        """Return the failure section of every result that the marker does not accept."""
        from pytest_cpg.render.failure import failure_text
        from pytest_cpg.render.junit import properties

        spec = self.spec(item)
        failures = []
        for result, judgement in item.stash[_RESULTS]:
            item.user_properties.extend(properties(result))
            if judgement.reason is not None:
                failures.append(
                    failure_text(
                        result,
                        reason=judgement.reason,
                        max_verdict=spec.max_verdict,
                        model=spec.model,
                        nodeid=item.nodeid,
                    )
                )
        return failures

    def _watch(self, item: pytest.Item) -> Watch:
        """Return what shows a running gate: live on a terminal, line by line in a verbose log."""
        from pytest_cpg.render.progress import LiveLine, LogLines, Watch

        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        show: LiveLine | LogLines | None = None
        if reporter is not None and reporter.isatty and self._config.get_verbosity() >= 0:
            show = LiveLine(self._write_raw, self._free_columns)
        elif reporter is not None and self._config.get_verbosity() > 0:
            show = LogLines(self._write_line)
        gate, running = _gate_id(item), self.ledger.running
        running[gate] = "interrupted before its first arm"
        return Watch(lambda text: running.update({gate: f"interrupted in {text}"}), show)

    def _write_raw(self, text: str) -> None:
        # Past the terminal writer, which would count escape codes as columns.
        with self._uncaptured():
            sys.stdout.write(text)
            sys.stdout.flush()

    def _write_line(self, text: str) -> None:
        with self._uncaptured():
            self._config.get_terminal_writer().line(text)

    def _free_columns(self) -> int:
        terminal = self._config.get_terminal_writer()
        return terminal.fullwidth - terminal.width_of_current_line - 1

    def _uncaptured(self) -> AbstractContextManager[None]:
        capture = self._config.pluginmanager.getplugin("capturemanager")
        return capture.global_and_fixture_disabled() if capture else nullcontext()


_SESSION: pytest.StashKey[GateSession] = pytest.StashKey()
_SPEC: pytest.StashKey[GateSpec] = pytest.StashKey()
_NAMED_MODEL: pytest.StashKey[bool] = pytest.StashKey()
_RESULTS: pytest.StashKey[list[tuple[GateResult, Judgement]]] = pytest.StashKey()


def _gates(request: pytest.FixtureRequest) -> GateSession:
    return request.config.stash[_SESSION]


def _gate_id(item: pytest.Item) -> str:
    """Return the marker's ``id`` as written, even of a marker that is wrong elsewhere.

    A parametrised test has one gate for each set of parameters.
    """
    for marker in item.iter_markers(_MARKER):
        given = marker.kwargs.get("id")
        if isinstance(given, str):
            parameters = getattr(item, "callspec", None)
            return f"{given}[{parameters.id}]" if parameters else given
    return item.nodeid


def _components(node: pytest.Item) -> Components:
    """Return what the hooks contribute that are in reach of this test."""
    from pytest_cpg.marker import Components
    from pytest_cpg.registry import merge

    return Components(
        tasks=merge("task", node.ihook.pytest_cpg_tasks()),
        planners=merge("planner", node.ihook.pytest_cpg_planners()),
        world_models=merge("world model", node.ihook.pytest_cpg_world_models()),
    )


def _fail(message: str) -> NoReturn:
    """Fail a test or its collection with a message alone.

    This frame must stay visible: where all are hidden, pytest says so below the message.
    """
    raise pytest.fail.Exception(message, pytrace=False) from None


@contextmanager
def _clean_errors() -> Iterator[None]:
    """Fail with the message alone of an error that names its own cure."""
    __tracebackhide__ = True
    try:
        yield
    except Exception as error:
        # Not imported here: a test that has nothing to do with gates may fail, too.
        contracts = sys.modules.get("pytest_cpg.contracts")
        if contracts is None or not isinstance(error, contracts.CpgError):
            raise
        # This one came from the user's model, whose traceback is what helps.
        if isinstance(error, contracts.WorldModelError) and error.__cause__ is not None:
            raise
        _fail(str(error))
