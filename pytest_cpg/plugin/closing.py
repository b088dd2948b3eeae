"""Closing: what a session's gates come to once it is over, beside what was accepted before."""

from __future__ import annotations

import os
import time
from collections.abc import Set
from datetime import UTC, datetime
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_cpg.gates import HISTORY
from pytest_cpg.gates.answer import ask_at_end
from pytest_cpg.gates.kind import Finding
from pytest_cpg.gates.parts import offers
from pytest_cpg.machine.files import FileError
from pytest_cpg.machine.provenance import collect, git_state
from pytest_cpg.plugin.kinds import KINDS, remember_costs
from pytest_cpg.plugin.outputs import SessionOutputs, path_of
from pytest_cpg.plugin.scope import SessionScope
from pytest_cpg.plugin.settings import Settings
from pytest_cpg.report.baseline import Baseline, baseline_findings, load
from pytest_cpg.report.document import append, found_in, read_history
from pytest_cpg.report.history import History
from pytest_cpg.report.ledger import Ledger
from pytest_cpg.report.session import Session, SessionEnd, error_in
from pytest_cpg.report.together import (
    resumed,
    together,
    unjudged_findings,
    without_effect,
)


class SessionBaseline:
    """The baseline of one session."""

    def __init__(self, scope: SessionScope) -> None:
        self._scope, self._settings = scope, scope.settings
        self.path = Path(scope.config.rootpath, scope.settings.of_session("baseline"))
        self.is_corrected = bool(scope.settings.of_session("correction") == "holm")

    @cached_property
    def accepted(self) -> Baseline | None:
        """The last accepted results, None where there are none; FileError if they are no use."""
        if not self.path.exists():
            return None
        return load(self.path, self._scope.config.stash[KINDS].table)

    @property
    def is_used(self) -> bool:
        """Whether the session has to do with it at all."""
        is_updated = "update_baseline" in self._settings.switches
        is_compared = self._settings.of_session("drift") != "off" or self._scope.required == "all"
        return is_updated or self.is_corrected or is_compared

    @property
    def family_size(self) -> int:
        """Gates of the family by the settings or the baseline, never by what was selected."""
        typed = int(self._settings.of_session("family_size"))
        accepted = self.accepted if self.is_used and not typed else None
        return typed or (accepted.family_size if accepted else 0)


class Closing(NamedTuple):
    """The end of one session, in the process that prints the summary."""

    scope: SessionScope
    baseline: SessionBaseline
    outputs: SessionOutputs
    ledger: Ledger

    def close(self, session: pytest.Session, *, writes: bool, failed: Set[str]) -> None:
        """Fail a session for what its gates come to; those that ``failed`` are other tests."""
        ledger, collected, config = self.ledger, self.scope.collected, self.scope.config
        # Before a baseline is written, which is a change to the tree.
        provenance = collect(config.rootpath) if writes else None
        ledger.findings += self._findings()
        # Workers do not say what they are doing.
        is_cut = session.exitstatus == pytest.ExitCode.INTERRUPTED and not collected.errors
        ledger.are_workers_cut = is_cut and config.pluginmanager.hasplugin("dsession")
        self._remember()
        hold_status(ledger, session)
        if self.scope.has_run and self.scope.judges:
            _add_to_history(config, self.scope.settings, ledger)
        if provenance is not None:
            end = SessionEnd(
                exit_code=int(session.exitstatus),
                # A gate whose worker died is reported by xdist, which does not know that it is one.
                failed_tests=len(failed - ledger.expected.keys()),
                uncollected={name: error_in(text) for name, text in collected.errors.items()},
                seconds=time.monotonic() - collected.begun,
            )
            ledger.findings += self.outputs.write(Session.of(ledger, provenance, end))
            hold_status(ledger, session)

    def _findings(self) -> tuple[Finding, ...]:
        ledger, scope, baseline = self.ledger, self.scope, self.baseline
        config, settings = scope.config, scope.settings
        try:
            family_size = baseline.family_size
            accepted = baseline.accepted if baseline.is_used else None
        except FileError as error:
            return (Finding(str(error), fails=True),)
        findings = resumed(ledger)
        if scope.judges:
            findings += together(
                ledger,
                is_corrected=baseline.is_corrected,
                family_size=family_size,
                is_cut=bool(getattr(config.option, "lf", False)),
            )
            findings += without_effect(ledger, settings.of_some_gates)
        if not scope.has_run:
            return tuple(findings)
        findings += unjudged_findings(
            ledger,
            required=scope.required,
            is_strict="strict" in settings.switches and scope.judges,
            leaves_passed_out=scope.leaves_passed_out,
            is_silent="silent" in scope.uncollected,
            accepted=accepted.gates if accepted else (),
        )
        if baseline.is_used and scope.judges:
            findings += baseline_findings(
                ledger,
                baseline.path,
                settings.switches,
                kinds=config.stash[KINDS].table,
                root=config.rootpath,
                in_ci=scope.is_in_ci,
                asked=scope.asked,
                is_ignored=scope.is_ignored if scope.ignores else None,
                all_collected=not scope.uncollected,
                # A gate that was renamed has nothing to be compared with.
                missing_fails=scope.required == "all" or settings.of_session("drift") == "fail",
            )
        return tuple(findings)

    def _remember(self) -> None:
        """Keep what every gate cost, for the next --cpg-plan, and which gates there are."""
        if not self.scope.judges:
            return
        ledger, faults = self.ledger, [*self.ledger.findings]
        costs = {
            comparison.name: ask_at_end(
                faults, comparison.judgement.kind, "cost", comparison.judgement.result
            )
            if offers(comparison.judgement.kind, "cost")
            else {}
            for comparison in Session.of(ledger).comparisons
        }
        ledger.findings = tuple(faults)
        remember_costs(self.scope.config, costs)


def hold_status(ledger: Ledger, session: pytest.Session) -> None:
    """Fail a session in which a gate failed, whatever else was made of it."""
    # Whoever waits for the process sees eight bits of it.
    if ledger.fails and not session.exitstatus & 0xFF:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _add_to_history(config: pytest.Config, settings: Settings, ledger: Ledger) -> None:
    """Give the ledger what sessions found, this one last, and write it; no gate fails for it."""
    pattern = path_of(config, settings, "history")
    if pattern is None:
        return
    # A baseline that was just accepted is no change of what was measured.
    state = git_state(config.rootpath, besides=config.rootpath / settings.of_session("baseline"))
    date = datetime.now(UTC).isoformat(timespec="microseconds")
    session = found_in(Session.of(ledger), commit=state.commit, date=date)
    # Of the true dynamics nothing is followed, nor that they could not be run.
    if not session.comparisons or settings.typed.get("model") == "oracle":
        return
    # A file's own name may have brackets.
    paths = [str(pattern)] if os.path.exists(pattern) else sorted(glob(str(pattern)))
    history, faults = read_history(map(Path, paths), config.stash[KINDS].table)
    if "history" in settings.typed and not paths:
        faults.append(f"nothing matches --cpg-history={settings.typed['history']}")
    ledger.history = History((*history.sessions, session))
    try:
        append(config.rootpath / HISTORY, session)
    except FileError as error:
        faults.append(str(error))
    # A file that can neither be read nor written is said once.
    ledger.findings += tuple(map(Finding, dict.fromkeys(faults)))
