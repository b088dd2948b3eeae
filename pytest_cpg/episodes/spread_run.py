"""Spread run: an arm whose episodes are run in blocks, by the workers of an executor."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import Progress
from pytest_cpg.episodes.blocks import Block, Workload, run_block
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.episodes.stored_arm import StoredArm
from pytest_cpg.machine.executors import Call, run_all, sharers_of, workers_of
from pytest_cpg.machine.pool import WorkerPool

# Smaller blocks leave most of a learned model's tile empty, larger ones leave workers idle.
_FEWEST_EPISODES = 10
_BLOCKS_PER_WORKER = 4

# What has been sent to whom, by the executor's id; a worker that has it no more asks again.
_SENT: dict[int, tuple[Callable[[], Executor | None], set[str]]] = {}


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
        self._workload, self._executor, self._progress = workload, executor, progress
        self._starts, self._level = starts, level
        self._block = partial(
            Block,
            name=name,
            sharers=sharers_of(executor),
            sender=os.getpid(),
            # Workers of a cluster have others to serve, and warnings of their own.
            filters=_filters() if isinstance(executor, WorkerPool) else [],
        )
        self._finished: StoredArm | None = None
        self._seconds = 0.0
        self._asked: set[str] = set()

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
            self._block(starts=self._starts.take(np.arange(first, min(first + size, until))))
            for first in range(done, until, size)
        ]
        results = run_all(
            self._executor,
            [Call(str(block), partial(self._submit, block)) for block in blocks],
            tick=lambda count: (
                self._progress and self._progress(min(done + count * size, until), until)
            ),
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
            _sent_to(self._executor).update(self._workload.keys)
        finally:
            self._seconds += time.perf_counter() - begun
        finished = self.finished
        if finished is None:
            raise ValueError(f"need at least 1 episode, got {until}")
        return finished.first(until, level=self._level)

    @property
    def _done(self) -> int:
        return 0 if self._finished is None else self._finished.arm.episodes

    def _submit(self, block: Block, equipped: bool) -> Future[StoredArm | None]:
        workload, sent = self._workload, _sent_to(self._executor)
        parcels = (*workload.parts, workload.whole) if equipped else ()
        if str(block) not in self._asked:
            # A worker that is new since then asks for them.
            parcels = tuple(parcel for parcel in parcels if parcel.key not in sent)
            self._asked.add(str(block))
        return self._executor.submit(run_block, workload.keys, parcels, block)


def _sent_to(executor: Executor) -> set[str]:
    """Return the keys of what an executor's workers have been sent, to be added to."""
    known = _SENT.get(id(executor))
    if known is None or known[0]() is not executor:
        try:
            known = ref(executor), set[str]()
        # One of a user's, with slots alone: it is sent everything again.
        except TypeError:
            return set()
        _SENT[id(executor)] = known
    return known[1]


def _filters() -> list[Any]:
    """Return this process's warning filters, as far as every worker knows their categories."""
    return [one for one in warnings.filters if one[2].__module__ in ("builtins", "warnings")]
