"""Gate session: the gates of one pytest session, in the controller or in one xdist worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.plugin.outputs import SessionOutputs
from pytest_cpg.plugin.runs import SessionRuns
from pytest_cpg.plugin.scope import SessionScope
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pytest_cpg.gates.benchmark import Benchmark
    from pytest_cpg.gates.planning_gap.compare import Baseline
    from pytest_cpg.plugin.marker import GateSpec
    from pytest_cpg.plugin.replay import SessionReplay
    from pytest_cpg.report.ledger import Finding, Ledger

_SPEC: pytest.StashKey[GateSpec] = pytest.StashKey()

_CLASH = (
    "two gates have the id {id!r}, and one would hide the other. Give each its own: "
    "@pytest.mark.cpg(..., id=...)."
)

_NO_BASELINE = (
    "drift='fail' compares with a baseline, and there is none at {path}. Run pytest "
    "--cpg-update-baseline where the model is known to be good, and commit the file."
)

_LATE_MARKER = (
    "the marker cpg was added after the test had begun. Add it while tests are collected, in "
    "pytest_collection_modifyitems."
)

_NO_FAMILY = (
    "--cpg-correction=holm shares one error rate among all gates of the project, and needs to know "
    "how many they are. Set cpg_family_size in the ini file, or keep a baseline."
)


class GateSession:
    """The gates of one pytest session.

    Parameters
    ----------
    begun : float
        When the session began, by `time.monotonic`.
    uncollected : set of str
        Filled with why something was not collected, as in `SessionScope`.
    replay : SessionReplay or None
        What to do in place of comparing.

    Attributes
    ----------
    runs : SessionRuns
        How its comparisons are run.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        *,
        begun: float,
        uncollected: set[str],
        replay: SessionReplay | None,
    ) -> None:
        self._config = config
        self._settings = settings
        self._ledger: Ledger | None = None
        self._baseline: Baseline | None = None
        self._has_read_baseline = False
        self._plan: list[str] = []
        self._outputs = SessionOutputs(config, settings)
        self.runs = SessionRuns(config, settings, begun=begun, replay=replay)
        self._replay = replay
        self._scope = SessionScope(config, settings, uncollected)

    @property
    def ledger(self) -> Ledger:
        """What the session's gates reported."""
        if self._ledger is None:
            from pytest_cpg.report.ledger import Ledger

            self._ledger = Ledger()
        return self._ledger

    @property
    def baseline(self) -> Baseline | None:
        """The last accepted results; None when there are none.

        Raises
        ------
        FileError
            When the file cannot be used.
        """
        if not self._has_read_baseline:
            if self._baseline_path.exists():
                from pytest_cpg.report.baseline import load

                self._baseline = load(self._baseline_path)
            self._has_read_baseline = True
        return self._baseline

    def spec(self, node: pytest.Item) -> GateSpec:
        """Return the gate that a test's markers ask for, or fail with what to write instead."""
        if _SPEC not in node.stash:
            node.stash[_SPEC] = self._parsed(node)
        return node.stash[_SPEC]

    def benchmark(
        self, node: pytest.Item, executor: Executor | None, training_data: Any
    ) -> Benchmark:
        """Return what compares models for this test, on an executor or in this process."""
        from pytest_cpg.plugin.item import RESULTS, fail, judge_into

        spec = self.spec(node)
        if RESULTS not in node.stash:
            fail(_LATE_MARKER)
        is_updated = self._is_on("update_baseline")
        is_compared = spec.drift == "fail" and not (is_updated or spec.is_smoke)
        if is_compared and self.baseline is None:
            fail(_NO_BASELINE.format(path=self._baseline_path))
        judge = judge_into(
            node,
            spec,
            None if spec.drift == "off" or spec.is_smoke else self.baseline,
            # Whoever accepts new results knows that they differ from the old ones.
            drift_fails=spec.drift == "fail" and not is_updated,
            is_strict=self._is_on("strict"),
        )
        return self.runs.benchmark(
            node,
            spec,
            judge=judge,
            running=self.ledger.running,
            late=self.ledger.late,
            executor=executor,
            training_data=training_data,
        )

    def check_definition(self, definition: pytest.Item) -> None:
        """Refuse a bad marker of a test function, once it can be known."""
        from pytest_cpg.plugin.item import has_marked_parameters

        # What its parameters say closer is known only once there is a test for each.
        if not has_marked_parameters(definition):
            self._parsed(definition)

    def note_deselected(self, gates: Sequence[pytest.Item]) -> None:
        """Note gates that were collected and will not run."""
        from pytest_cpg.plugin.item import gate_id, groups_of

        self.ledger.deselected.update(dict.fromkeys(map(gate_id, gates)))
        self.ledger.groups.update(groups_of(gates))

    def note_planned(self, gates: Sequence[pytest.Item], collected: Sequence[pytest.Item]) -> None:
        """Note gates that will run, if anything does, of those that were collected."""
        from pytest_cpg.plugin.item import gate_id, groups_of

        if self._scope.has_run:
            self.ledger.plan(map(gate_id, gates))
            self.ledger.collected.update(dict.fromkeys(map(gate_id, collected)))
            self.ledger.groups.update(groups_of([*collected, *gates]))

    def begin(self, item: pytest.Item) -> None:
        """Check a gate that is about to run."""
        from pytest_cpg.plugin.item import begin_attempt, fail, gate_id

        self.spec(item)
        if gate_id(item) in self.ledger.clashes:
            fail(_CLASH.format(id=gate_id(item)))
        begin_attempt(item, allow_reruns=self._settings.allow_reruns)

    def note_report(self, report: pytest.TestReport) -> None:
        """Collect what a gate reported, here or on a worker."""
        from pytest_cpg.report.ledger import entry_of

        gate: str = report.pytest_cpg_gate
        self._outputs.locations[gate] = report.location
        entry = entry_of(report)
        if entry:
            self.ledger.report(gate, entry)

    def status_of(self, judgements: str) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
        """Return how pytest shows a gate that passed and decided nothing."""
        from pytest_cpg.report.ledger import load
        from pytest_cpg.report.outcomes import gate_outcome

        labels = [judgement.read().label for judgement in load(judgements)]
        if gate_outcome("passed", labels) == "passed":
            return None
        return "passed", "?", ("INCONCLUSIVE", {"yellow": True})

    def finish(
        self, session: pytest.Session, *, failed: Set[str], errors: Mapping[str, str]
    ) -> None:
        """Fail a session in which a planned gate did not report, or the gates fail together.

        Parameters
        ----------
        failed : set of str
            Node ids of the tests that failed and are no gates.
        errors : mapping
            What went wrong, by the node id of what was not collected.
        """
        is_run = self._scope.has_run and self._replay is None
        writes = is_run and self._outputs.is_asked(with_gates=self._ledger is not None)
        has_gates = self._ledger is not None
        if not (has_gates or writes or self._scope.owes_gates(had_gates=self._had_gates)):
            return
        # Before a baseline is written, which is a change to the tree.
        provenance = self._outputs.provenance() if writes else None
        self.ledger.findings = self._findings()
        # Workers do not say what they are doing.
        is_cut = session.exitstatus == pytest.ExitCode.INTERRUPTED and not errors
        self.ledger.are_workers_cut = is_cut and self._config.pluginmanager.hasplugin("dsession")
        self._remember()
        self.hold_status(session)
        if provenance is not None:
            from pytest_cpg.report.outcomes import SessionEnd, error_in

            end = SessionEnd(
                exit_code=int(session.exitstatus),
                # A gate whose worker died is reported by xdist, which does not know that it is one.
                failed_tests=len(failed - self.ledger.planned.keys()),
                uncollected={name: error_in(text) for name, text in errors.items()},
            )
            self.ledger.findings += self._outputs.write(self.ledger, provenance, end)
            self.hold_status(session)

    def hold_status(self, session: pytest.Session) -> None:
        """Fail a session in which a gate failed, whatever else was made of it."""
        # Whoever waits for the process sees eight bits of it.
        if self.ledger.fails and not session.exitstatus & 0xFF:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def summarise(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line per gate, and what they say together."""
        if self._is_on("plan"):
            terminalreporter.write_sep("-", "cpg: plan, nothing was run")
            for text in self._plan:
                terminalreporter.write_line(text)
            return
        if self._ledger is None:
            return
        for command in self._outputs.annotations:
            terminalreporter.write_line(command)
        if self._config.option.no_summary:
            return
        from pytest_cpg.render import summary

        lines = summary.summary_lines(
            self._ledger,
            width=self._config.get_terminal_writer().fullwidth,
            verbosity=self._config.get_verbosity(),
        )
        if self._replay and self._scope.has_run:
            terminalreporter.write_sep("-", "cpg: replay, no verdict")
            for text in self._replay.lines:
                terminalreporter.write_line(text)
            return
        if lines:
            terminalreporter.write_sep("-", summary.title(self._ledger))
        for line in lines:
            terminalreporter.write_line(line.text, **line.markup)

    def forecast(self, gates: Sequence[pytest.Item]) -> None:
        """Keep the lines of --cpg-plan for the summary."""
        from pytest_cpg.contracts import CpgError
        from pytest_cpg.gates.planning_gap.forecast import forecast
        from pytest_cpg.plugin.item import criteria_of, design_of, gate_id
        from pytest_cpg.plugin.selection import COSTS, remembered
        from pytest_cpg.render.plan import plan_lines

        costs = remembered(self._config, COSTS)
        try:
            baseline = self.baseline if self._uses_baseline else None
            specs = {gate_id(item): self.spec(item) for item in gates}
            forecasts = [
                forecast(
                    gate,
                    design_of(spec, self.runs.task(spec)),
                    criteria_of(spec),
                    costs,
                    baseline,
                )
                for gate, spec in specs.items()
            ]
        except (CpgError, pytest.fail.Exception) as error:
            raise pytest.UsageError(str(error)) from None
        if self._config.pluginmanager.hasplugin("terminalreporter"):
            width = self._config.get_terminal_writer().fullwidth
            self._plan = plan_lines(forecasts, width=width)

    @property
    def _baseline_path(self) -> Path:
        return Path(self._config.rootpath, self._settings.of_session("baseline"))

    @property
    def _had_gates(self) -> bool:
        """Whether an earlier session had gates, as far as is remembered."""
        from pytest_cpg.plugin.selection import LAST, remembered

        return self._baseline_path.exists() or bool(remembered(self._config, LAST))

    @property
    def _uses_baseline(self) -> bool:
        is_asked = self._is_on("update_baseline") or self._is_on("prune_baseline")
        is_compared = self._settings.of_session("drift") != "off" or self._scope.required == "all"
        return is_asked or self._is_corrected or is_compared

    @property
    def _family_size(self) -> int:
        """Gates of the family by the settings or the baseline, never by what was selected."""
        typed = int(self._settings.of_session("family_size"))
        baseline = self.baseline if self._uses_baseline and not typed else None
        return typed or (baseline.family_size if baseline else 0)

    @property
    def _is_corrected(self) -> bool:
        return bool(self._settings.of_session("correction") == "holm")

    def _parsed(self, node: pytest.Item) -> GateSpec:
        from pytest_cpg.plugin.item import clean_errors, fail, parse_item

        with clean_errors():
            if self._is_corrected and not self._family_size:
                fail(_NO_FAMILY)
            family_size = self._family_size if self._is_corrected else 1
            return parse_item(node, self._settings, family_size=family_size)

    def _findings(self) -> tuple[Finding, ...]:
        """Return what the gates say together, and beside the baseline."""
        from pytest_cpg.machine.files import FileError
        from pytest_cpg.report.acceptance import baseline_findings
        from pytest_cpg.report.accounting import accounting_findings
        from pytest_cpg.report.findings import findings, without_effect
        from pytest_cpg.report.ledger import Finding

        try:
            family_size = self._family_size
        except FileError as error:
            return (Finding(str(error), fails=True),)
        is_smoke = self._is_on("quick") or self._replay is not None
        found: list[Finding] = []
        if not is_smoke:
            found += findings(
                self.ledger,
                is_corrected=self._is_corrected,
                family_size=family_size,
                is_cut=bool(getattr(self._config.option, "lf", False)),
            )
            found += without_effect(self.ledger, self._settings.typed)
        scope = self._scope
        if not scope.has_run:
            return tuple(found)
        found += accounting_findings(
            self.ledger,
            required=scope.required,
            is_strict=self._is_on("strict") and not is_smoke,
            leaves_passed_out=scope.leaves_passed_out,
            is_silent="silent" in scope.uncollected,
        )
        if self._uses_baseline and not is_smoke:
            found += baseline_findings(
                self.ledger,
                self._baseline_path,
                self._settings.switches,
                root=self._config.rootpath,
                in_ci=scope.is_in_ci,
                asked=scope.asked,
                is_ignored=scope.is_ignored if scope.ignores else None,
                all_collected=not scope.uncollected,
                # A gate that was renamed has nothing to be compared with.
                missing_fails=scope.required == "all"
                or self._settings.of_session("drift") == "fail",
            )
        return tuple(found)

    def _remember(self) -> None:
        """Keep what every gate cost, for the next --cpg-plan, and said, for --cpg-last."""
        from pytest_cpg.gates.planning_gap.forecast import costs_of
        from pytest_cpg.plugin.selection import COSTS, LAST, remember

        if self._is_on("quick") or self._replay:
            return
        said = {
            gate: [judgement.read().label for judgement in entry.judgements]
            for gate, entry in self.ledger.entries.items()
            if entry.judgements
        }
        results = {name: judgement.read() for _, name, judgement in self.ledger.comparisons}
        remember(self._config, COSTS, costs_of(results))
        remember(self._config, LAST, said)

    def _is_on(self, switch: str) -> bool:
        return switch in self._settings.switches
