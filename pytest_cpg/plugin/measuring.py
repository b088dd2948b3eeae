"""Measuring: how a test measures: on what, how long, watched by whom, and what is kept of it."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest

from pytest_cpg.contracts import BrokenModelError, IncompleteError, Task
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.gates.answer import check_marker
from pytest_cpg.gates.kind import Run, TaskChoice
from pytest_cpg.gates.parts import offers
from pytest_cpg.machine.deadline import Deadline
from pytest_cpg.machine.pool import WorkerPool
from pytest_cpg.plugin.attempt import ATTEMPT, attempted
from pytest_cpg.plugin.item import gate_id
from pytest_cpg.plugin.marker import Gate
from pytest_cpg.plugin.replay import SessionReplay, keep_broken, strip_lost
from pytest_cpg.plugin.settings import Settings
from pytest_cpg.plugin.terminal import watch_on, write_line
from pytest_cpg.render.progress import followed
from pytest_cpg.report.ledger import Ledger


class SessionRuns:
    """What the measurements of one session are made with."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.settings = settings
        self._config = config
        self._tasks: dict[TaskChoice, Task] = {}

    def task(self, choice: TaskChoice) -> Task:
        """Return a gate's task; simulators are built once per session."""
        if choice not in self._tasks:
            self._tasks[choice] = choice.build()
        return self._tasks[choice]

    @cached_property
    def executor(self) -> Executor | None:
        """Who runs blocks of episodes by the options, until the session ends; None for nobody."""
        workers = self.settings.of_session("workers")
        if workers == 1:
            return None
        executor = WorkerPool(workers)
        self._config.add_cleanup(lambda: executor.shutdown(wait=False))
        return executor

    def deadline(self, gate: str, timeout: float) -> Deadline:
        """Return how long a measurement that begins now may take."""

        def give_up(text: str) -> None:
            try:
                write_line(self._config, "\n" + textwrap.fill(f"{gate}: {text}", 80))
            finally:
                os._exit(1)

        limit = timeout or math.inf
        return Deadline(limit, f"timeout={limit:g}", give_up)

    @property
    def arms(self) -> ArmCache | None:
        """Where arms are kept; None under --cpg-no-cache and -p no:cacheprovider."""
        cache = getattr(self._config, "cache", None)
        if cache is None or "no_cache" in self.settings.switches:
            return None
        try:
            folder = cache.mkdir("cpg-arms")
        except OSError:
            # As pytest's own plugins do without a cache that cannot be written.
            return None
        return ArmCache(folder)


class ItemMeasuring:
    """How one test measures."""

    def __init__(
        self,
        item: pytest.Item,
        gate: Gate,
        runs: SessionRuns,
        *,
        given: Mapping[str, Any],
        executor: Executor | None,
        judge: Callable[[Any, Any], None],
        ledger: Ledger,
        replay: SessionReplay | None,
    ) -> None:
        self._item, self._gate, self._runs = item, gate, runs
        self._given, self._judge, self._ledger = given, judge, ledger
        self._replay, self._settings = replay, runs.settings
        self._attempt = item.stash[ATTEMPT]
        self._id = gate_id(item)
        self._execution = execution = Execution(
            cache=None if gate.is_smoke else runs.arms,
            executor=executor,
            resumes="resume" in runs.settings.switches,
            tell=self._attempt.resumed.append,
        )
        self._say("interrupted before it measured")
        is_kept = execution.cache is not None and offers(gate.kind, "resumes")
        lead = "interrupted in" if is_kept else "interrupted, nothing kept:"

        def follow(text: str) -> None:
            self._say(f"{lead} {text}")
            if is_kept:
                ledger.resumable.add(self._id)

        self._watch = watch_on(item.config, self._id, follow)

    def task(self, choice: TaskChoice) -> Task:
        """Return a gate's task, built once a session."""
        return self._runs.task(choice)

    def measure(self, model: Any, **given: Any) -> Any:
        """Return the kind's result for a model, judged after the test's body."""
        # Of the measurement, of what a kind makes of it and of what is drawn of it.
        deadline = self._runs.deadline(self._id, self._gate.timeout)
        with self._attempted():
            with self._followed(given, deadline) as run:
                run.progress("starting: checks of the model", 0, 0)
                if self._replay is not None:
                    self._replay.take(self._gate, model, run)
                result = self._result(model, run)
                # A replay has no verdict, nor what has to be run on the way to it.
                if self._replay is None:
                    self._judge(result, model)
            self._say("interrupted after it had measured")
            self._ledger.resumable.discard(self._id)
            if self._replay is None and self._attempt.judgements[-1].reason is not None:
                self._draw(model, given, deadline)
        return result

    def _result(self, model: Any, run: Run) -> Any:
        kind, marker = self._gate.kind, self._gate.kind.marker
        try:
            result = kind.measure(self._gate.spec, model, run)
            check_marker(kind, marker, "measure")
            return result
        except BrokenModelError as error:
            # A replay is of an episode that is kept already.
            if self._replay is None:
                deciding = self._settings.deciding
                keep_broken(self._item, self._gate, error, model=model, run=run, deciding=deciding)
            raise

    @contextmanager
    def beside(self) -> Iterator[Run]:
        """Give what something that is not judged is measured with."""
        deadline = self._runs.deadline(self._id, self._gate.timeout)
        with self._attempted(), self._followed({}, deadline) as run:
            yield run

    def note(self, text: str, *, models: int) -> None:
        """Put something that is not judged into the summary, and say how many models it is of."""
        self._attempt.measurements.append(text)
        self._attempt.is_swept |= models == 1

    def _attempted(self) -> AbstractContextManager[None]:
        may_leave = self._replay is not None
        return attempted(self._item, self._attempt, self._ledger.late, may_leave=may_leave)

    @contextmanager
    def _followed(self, given: Mapping[str, Any], deadline: Deadline) -> Iterator[Run]:
        """Give what a kind measures with."""
        with followed(self._watch, deadline) as progress:
            yield Run(
                given={**self._given, **given},
                execution=self._execution,
                task=self._runs.task,
                progress=progress,
            )

    def _draw(self, model: Any, given: Mapping[str, Any], deadline: Deadline) -> None:
        """Draw a lost episode of a result that has just failed its test, for a page."""
        gate, judgements = self._gate, self._attempt.judgements
        if not (self._settings.of_session("html") and gate.can_replay):
            return
        # Nobody asked for it: a gate whose time is over has its verdict all the same.
        with suppress(IncompleteError), self._followed(given, deadline) as run:
            strip, problem = strip_lost(
                self._item.config, gate, judgements[-1].result, model=model, run=run
            )
            judgements[-1] = replace(judgements[-1], strip=strip, strip_problem=problem)

    def _say(self, text: str) -> None:
        self._ledger.running[self._id] = text
