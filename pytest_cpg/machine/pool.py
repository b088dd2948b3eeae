"""Pool: worker processes of this machine, replaced when they die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from tempfile import gettempdir
from typing import Any, TypeVar
from weakref import WeakSet

from pytest_cpg.machine.processors import SHARERS

if sys.platform == "linux":
    from multiprocessing.context import ForkServerProcess as _Forked
else:
    # Libraries of macOS do not survive a fork, and Windows has none.
    _Forked = SpawnProcess

T = TypeVar("T")

# For a pool to end by itself, before its processes are killed.
_LEAVE_SECONDS = 0.5
# What workers need, where this process does.
_ROOMS = "contracts", "stats", "machine", "tasks", "planners", "world_models", "episodes"
_LIBRARIES = "numpy.random", "pytest", "torch"
# Of a folder for temporary files: what forks workers listens at a path in it, which may have 107.
_MOST_BYTES = 75


class WorkerPool(Executor):
    """Processes of this machine, started with the first call and replaced when they die.

    No state of this process is theirs: on Linux they are forked from one that has loaded what they
    need, and elsewhere, or where it has no room to listen, spawned.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._context = _Context()
        self._pool: ProcessPoolExecutor | None = None
        self._given: WeakSet[Future[Any]] = WeakSet()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"WorkerPool({self.workers})"

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Schedule a call; a pool that is broken is replaced by a new one."""
        with self._lock:
            for _ in range(2):
                if self._pool is None:
                    self._context.set_forkserver_preload(_needed())
                    self._pool = ProcessPoolExecutor(
                        self.workers,
                        mp_context=self._context,
                        initializer=_begin_worker,
                        initargs=({**os.environ, SHARERS: str(self.workers)},),
                    )
                try:
                    future = self._pool.submit(fn, *args, **kwargs)
                except BrokenExecutor as error:
                    broken = error
                    self._retire(self._pool, error)
                    self._pool = None
                else:
                    self._given.add(future)
                    return future
            raise broken

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; what they are at is not waited for unless ``wait``."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            # Without this thread's leave, a pool whose processes are killed trips over calls that
            # were cancelled, and says so with a traceback (CPython before 3.13).
            manager = getattr(pool, "_executor_manager_thread", None)
            pool.shutdown(wait=wait, cancel_futures=cancel_futures or not wait)
            if manager is not None and not wait:
                manager.join(_LEAVE_SECONDS)
        if not wait:
            self._context.kill()

    def _retire(self, pool: ProcessPoolExecutor, error: BrokenExecutor) -> None:
        """Leave a broken pool, and say of what it does not answer that it was lost."""
        manager = getattr(pool, "_executor_manager_thread", None)
        pool.shutdown(wait=False)
        if manager is not None:
            manager.join(_LEAVE_SECONDS)
        # A call that came just while the pool broke is none that it knows of, and would never end.
        for future in [*self._given]:
            if not future.done():
                future.set_exception(error)
        self._given.clear()


class _Context(SpawnContext):
    """Starts processes, and knows them: a pool does not end one that hangs."""

    def __init__(self) -> None:
        self._started: list[BaseProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> BaseProcess:  # type: ignore[override]  # noqa: N802  # a class there
        has_room = len(os.fsencode(gettempdir())) <= _MOST_BYTES
        process = (_Forked if has_room else SpawnProcess)(*args, **kwargs)
        self._started.append(process)
        return process

    def kill(self) -> None:
        """End every process at once."""
        for process in self._started:
            # One that was never started has nothing to kill.
            with suppress(AttributeError, ValueError):
                process.kill()
        self._started.clear()


def _needed() -> list[str]:
    """Return the modules that a process is to have loaded before workers are forked from it."""
    ours = tuple(f"pytest_cpg.{room}" for room in _ROOMS)
    loaded = [name for name in list(sys.modules) if name in _LIBRARIES or name.startswith(ours)]
    return ["pytest_cpg.machine.ancestor", *loaded]


def _begin_worker(environment: dict[str, str]) -> None:
    # It was forked from one that may be older than what has been set here since.
    os.environ.clear()
    os.environ.update(environment)
    # Ctrl-C is for the process that waits, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End this process with its parent, however that ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
