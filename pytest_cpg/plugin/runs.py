"""Session runs: how the comparisons of a session are run: on what, how long, and what is kept."""

from __future__ import annotations

import math
import os
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pytest_cpg.contracts import Task
    from pytest_cpg.episodes.arm_cache import OracleCache
    from pytest_cpg.episodes.arms import ArmProgress
    from pytest_cpg.episodes.design import Design
    from pytest_cpg.gates.benchmark import Benchmark
    from pytest_cpg.gates.planning_gap.result import GateResult
    from pytest_cpg.machine.deadline import Deadline
    from pytest_cpg.plugin.marker import GateSpec
    from pytest_cpg.plugin.replay import SessionReplay

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

# Thousands of arms.
_MOST_ARM_BYTES = 100 * 2**20


class SessionRuns:
    """Runs the comparisons of one session.

    Parameters
    ----------
    begun : float
        When the session began, by `time.monotonic`.
    replay : SessionReplay or None
        What to do in place of comparing.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        *,
        begun: float,
        replay: SessionReplay | None,
    ) -> None:
        self._config, self._settings = config, settings
        self._begun, self._replay = begun, replay
        self._tasks: dict[tuple[Any, ...], Task] = {}
        self._executor: Executor | None = None

    def task(self, spec: GateSpec) -> Task:
        """Return a gate's task; simulators are built once per session."""
        from pytest_cpg.contracts import Task
        from pytest_cpg.contracts.lookup import check_complete

        key = (spec.task, spec.make_task, spec.task_options)
        if key not in self._tasks:
            task = spec.make_task(**dict(spec.task_options))
            self._tasks[key] = check_complete("task", spec.task, task, Task)
        return self._tasks[key]

    @property
    def executor(self) -> Executor | None:
        """Who runs blocks of episodes by the options, until the session ends; None for nobody.

        Raises
        ------
        ComponentError
            When there is no such cluster.
        """
        address, workers = (self._settings.of_session(name) for name in ("cluster", "workers"))
        if self._executor is None and (address or workers > 1):
            from pytest_cpg.machine.cluster import connect
            from pytest_cpg.machine.pool import WorkerPool

            self._executor = executor = connect(address) if address else WorkerPool(workers)
            self._config.add_cleanup(lambda: executor.shutdown(wait=False))
        return self._executor

    def benchmark(
        self,
        node: pytest.Item,
        spec: GateSpec,
        *,
        judge: Callable[[GateResult], None],
        running: dict[str, str],
        late: dict[str, None],
        executor: Executor | None,
        training_data: Any,
    ) -> Benchmark:
        """Return what compares models for a test.

        Parameters
        ----------
        judge : callable
            Told every result.
        running : dict
            Told by the gate's id what it is doing, for a session that is interrupted.
        late : dict
            Told the gate's id when its test compares after its end.
        training_data : array [T, O], path or None
            Observations that the learned model was trained on.
        """
        from pytest_cpg.episodes.arms import Execution
        from pytest_cpg.gates.benchmark import Benchmark
        from pytest_cpg.plugin.item import (
            ERRORS,
            IS_SWEPT,
            MEASUREMENTS,
            RUNNING,
            attempted,
            criteria_of,
            design_of,
            gate_id,
        )
        from pytest_cpg.plugin.terminal import watch_on

        gate, switches = gate_id(node), self._settings.switches
        begun = node.stash[RUNNING]
        # A replay leaves its test by a skip.
        errors = node.stash[ERRORS] if self._replay is None else []
        running[gate] = "interrupted before its first arm"

        def on_result(result: GateResult) -> None:
            # A replay has no verdict, nor what has to be run on the way to it.
            if self._replay is None:
                judge(result)
            running[gate] = "interrupted after its arms had run"

        def on_measurement(text: str, models: int) -> None:
            node.stash[MEASUREMENTS].append(text)
            node.stash[IS_SWEPT] |= models == 1

        return Benchmark(
            design=design_of(spec, self.task(spec)),
            criteria=criteria_of(spec),
            on_result=on_result,
            deadline=lambda: self._deadline(gate, spec),
            instead=self._replay.take if self._replay else None,
            afterwards=self._film(node) if "render" in switches and not self._replay else None,
            diagnosed="never" if self._replay else self._settings.of_session("diagnose"),
            training_data=training_data,
            execution=Execution(
                cache=None if spec.is_smoke else self._arms,
                executor=executor,
                resumes="resume" in switches,
            ),
            attempt=lambda: attempted(node, begun, errors=errors, late=late),
            on_measurement=on_measurement,
            watch=watch_on(
                self._config, lambda text: running.update({gate: f"interrupted in {text}"})
            ),
        )

    def _film(self, node: pytest.Item) -> Callable[[Design, Any, Any, ArmProgress], None]:
        """Return what films lost episodes of a comparison that has just failed its test."""
        from pytest_cpg.gates.card import comparison_name
        from pytest_cpg.plugin.item import RESULTS, gate_id
        from pytest_cpg.plugin.replay import film_lost

        def film(design: Design, oracle: Any, learned: Any, progress: ArmProgress) -> None:
            result, judgement = node.stash[RESULTS][-1]
            if judgement.reason is None or not result.lost_episodes:
                return
            paths, problem = film_lost(
                self._config,
                design,
                result,
                gate=comparison_name(gate_id(node), len(node.stash[RESULTS])),
                models=(oracle, learned),
                progress=progress,
            )
            filmed = replace(judgement, films=paths, film_problem=problem)
            node.stash[RESULTS][-1] = (result, filmed)

        return film

    @property
    def _arms(self) -> OracleCache | None:
        """Where arms are kept; None under --cpg-no-cache and -p no:cacheprovider."""
        cache = getattr(self._config, "cache", None)
        if cache is None or "no_cache" in self._settings.switches:
            return None
        from pytest_cpg.episodes.arm_cache import OracleCache

        try:
            folder = cache.mkdir("cpg-arms")
        except OSError:
            # As pytest's own plugins do without a cache that cannot be written.
            return None
        return OracleCache(folder, max_bytes=_MOST_ARM_BYTES)

    def _deadline(self, gate: str, spec: GateSpec) -> Deadline:
        """Return how long a comparison that begins now may take."""
        from pytest_cpg.machine.deadline import Deadline
        from pytest_cpg.plugin.terminal import write_line

        def give_up(text: str) -> None:
            try:
                write_line(self._config, "\n" + textwrap.fill(f"{gate}: {text}", 80))
            finally:
                os._exit(1)

        budget = self._settings.of_session("budget")
        left = budget + self._begun - time.monotonic() if budget else math.inf
        limit = spec.timeout or math.inf
        if limit <= left:
            return Deadline(limit, f"timeout={limit:g}", give_up)
        reason = f"of --cpg-budget={budget:g}, {max(left, 0):.0f} s were left"
        return Deadline(left, reason, give_up)
