"""Spread run: an arm whose episodes are run in blocks, by the workers of an executor."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.blocks import Block
from pytest_cpg.episodes.stage import Progress, Stage
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.episodes.stored_arm import StoredArm
from pytest_cpg.machine.executors import workers_of
from pytest_cpg.machine.workers import Crew, Workload

# Smaller blocks leave most of a learned model's tile empty, larger ones leave workers idle.
_FEWEST_EPISODES = 10
_BLOCKS_PER_WORKER = 4


class SpreadRun:
    """Runs an arm as `ArmRun` does, in blocks on an executor.

    Which worker runs what, and when, changes no outcome.
    """

    def __init__(
        self,
        name: str,
        workload: Workload,
        starts: Starts,
        *,
        executor: Executor,
        level: float,
        progress: Progress | None = None,
    ) -> None:
        self._name, self._executor, self._progress = name, executor, progress
        self._starts, self._level = starts, level
        self._crew = Crew(executor, workload)
        self._finished: StoredArm | None = None
        self._seconds = 0.0

    @property
    def finished(self) -> StoredArm | None:
        """The first episodes, as many as have ended without one missing between them."""
        stored = self._finished
        return stored and replace(stored, arm=replace(stored.arm, seconds=self._seconds))

    def advance(self, until: int) -> Arm:
        """Run the episodes up to number ``until``, and return the arm so far.

        Raises WorldModelError or TaskError as `ArmRun.advance` does, and for a model that ends its
        process.
        """
        begun, done = time.perf_counter(), self._done
        share = -(-(until - done) // (_BLOCKS_PER_WORKER * workers_of(self._executor)))
        size = max(share, _FEWEST_EPISODES)
        blocks = [
            Block(
                name=self._name,
                starts=self._starts.take(np.arange(first, min(first + size, until))),
            )
            for first in range(done, until, size)
        ]
        self._tell(done, until)
        results = self._crew.run(
            blocks, tick=lambda count: self._tell(min(done + count * size, until), until)
        )
        parts: dict[int, StoredArm] = {}
        joined = 0
        try:
            for place, part in results:
                parts[place] = part
                while joined in parts:
                    part = parts.pop(joined)
                    whole = self._finished
                    self._finished = part if whole is None else whole.followed_by(part)
                    joined += 1
        finally:
            self._seconds += time.perf_counter() - begun
        finished = self.finished
        if finished is None:
            raise ValueError(f"need at least 1 episode, got {until}")
        return finished.first(until, level=self._level)

    def _tell(self, done: int, until: int) -> None:
        if self._progress:
            finished = self._finished
            solved = 0 if finished is None else finished.arm.success_count
            self._progress(Stage(done, until, "starts", solved, until))

    @property
    def _done(self) -> int:
        return 0 if self._finished is None else self._finished.arm.episodes
