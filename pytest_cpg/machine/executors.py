"""Executors: where blocks of episodes run, and what becomes of them when a worker dies.

Everything runs on the standard `concurrent.futures.Executor`. Calls must be idempotent: one whose
worker died is made again, and one that nobody waits for any more may still be running.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib
import io
import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, NamedTuple, TypeVar

from pytest_cpg.contracts import ComponentError, CpgError, IncompleteError, WorldModelError
from pytest_cpg.machine import processors

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

T = TypeVar("T")

# A call that is lost with its worker as often as this is what kills the workers.
_MOST_ATTEMPTS = 3
# Between two looks at the clock while nothing is finished.
_PATIENCE_SECONDS = 0.25
_CLUSTER_RETRIES = 3
# For a pool to end by itself, before its processes are killed.
_LEAVE_SECONDS = 0.5
# A cluster that is restarted, or grows by need, may have nobody for a while.
_SECONDS_BETWEEN_CHECKS, _LONGEST_ABSENCE = 2.0, 20.0


class WorkerPool(Executor):
    """Processes of this machine, started with the first call and replaced when they die.

    Parameters
    ----------
    workers : int
        How many, at least 1. They are spawned, so that no state of this process is theirs.

    Attributes
    ----------
    workers, sharers : int
        How many there are, and on one machine.
    """

    def __init__(self, workers: int) -> None:
        self.workers = self.sharers = workers
        self._context = _Context()
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"WorkerPool({self.workers})"

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Schedule a call; a pool that is broken is replaced by a new one."""
        with self._lock:
            for _ in range(2):
                if self._pool is None:
                    self._pool = ProcessPoolExecutor(
                        self.workers,
                        mp_context=self._context,
                        initializer=_begin_worker,
                        initargs=(self.workers,),
                    )
                try:
                    return self._pool.submit(fn, *args, **kwargs)
                except BrokenExecutor as error:
                    broken = error
                    self._pool.shutdown(wait=False)
                    self._pool = None
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


class Cluster(Executor):
    """The workers of a dask cluster.

    Parameters
    ----------
    client : distributed.Client

    Attributes
    ----------
    workers, sharers : int
        How many there are, and at most on one machine.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor = client.get_executor(retries=_CLUSTER_RETRIES, pure=False)
        hosts = Counter(worker["host"] for worker in client.scheduler_info(-1)["workers"].values())
        self.workers, self.sharers = sum(hosts.values()), max(hosts.values(), default=0)
        self._last_seen = self._next_check = time.monotonic()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Schedule a call; dask makes it again when its worker dies."""
        future: Future[T] = self._executor.submit(fn, *args, **kwargs)
        return future

    def check(self) -> None:
        """Raise ComponentError once nobody has been there to work for a while."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _SECONDS_BETWEEN_CHECKS
        is_there = self._client.status == "running" and self._client.scheduler_info(-1)["workers"]
        if is_there:
            self._last_seen = time.monotonic()
        elif now - self._last_seen > _LONGEST_ABSENCE:
            raise ComponentError(
                f"the dask cluster {self._client.scheduler} has had no workers for "
                f"{now - self._last_seen:.0f} s. Start some, or its scheduler, and run again; "
                f"--cpg-resume goes on with what was finished."
            )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Leave the cluster, which goes on without us."""
        self._executor.shutdown(wait=wait)
        self._client.close()


def connect(address: str) -> Cluster:
    """Return the workers of the dask cluster whose scheduler is at ``address``.

    Raises
    ------
    ComponentError
        When dask is not installed, or there is nobody to work.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise ComponentError(
            '--cpg-cluster needs the extra cluster: pip install "pytest-cpg[cluster]"'
        ) from None
    try:
        client: Any = distributed.Client(address, timeout="5s", set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ComponentError(
            f"no dask scheduler answers at {address!r} ({type(error).__name__}: {error}). Start "
            f"one with `dask scheduler`, and give the address that it prints."
        ) from None
    cluster = Cluster(client)
    if not cluster.workers:
        cluster.shutdown(wait=False)
        raise ComponentError(
            f"the dask cluster at {address} has no workers. Start some: dask worker {address}"
        )
    return cluster


class Call(NamedTuple):
    """A call that may have to be made more than once.

    Attributes
    ----------
    name : str
        What is done, for messages.
    submit : callable
        Makes the call, with or without what its worker may already have.
    """

    name: str
    submit: Callable[[bool], Future[Any]]


def run_all(
    executor: Executor, calls: Sequence[Call], *, tick: Callable[[int], None]
) -> Iterator[tuple[int, Any]]:
    """Make every call, and give its place and result as soon as it is there.

    A worker that lacks what a call needs returns None, and the call is made again with it.

    Parameters
    ----------
    tick : callable
        Told the number of finished calls, several times a second; what it raises ends all.

    Raises
    ------
    WorldModelError
        When a call ends its worker again and again.
    """
    lost = Counter[int]()
    done, equipped = 0, workers_of(executor)
    pending: dict[Future[Any], int] = {}
    try:
        for place, call in enumerate(calls):
            pending[_submitted(call, executor, equipped=place < equipped)] = place
        while pending:
            finished, _ = wait(pending, timeout=_PATIENCE_SECONDS, return_when=FIRST_COMPLETED)
            for future in finished:
                place = pending.pop(future)
                result = _result_of(future, calls[place].name, lost, place)
                if result is None:
                    pending[_submitted(calls[place], executor, equipped=True)] = place
                    continue
                done += 1
                yield place, result
            if isinstance(executor, Cluster):
                executor.check()
            tick(done)
    except IncompleteError as error:
        if not isinstance(executor, Cluster):
            raise
        raise IncompleteError(
            f"{error}. A call that hangs keeps its dask worker: restart the workers if gates after "
            f"this one do not go on"
        ) from None
    finally:
        for future in pending:
            future.cancel()
        # Nobody wants what they are at, and one that hangs would never come back.
        if pending and isinstance(executor, WorkerPool):
            executor.shutdown(wait=False, cancel_futures=True)


class Parcel(NamedTuple):
    """What a worker is to have.

    Attributes
    ----------
    paths : tuple of str
        Where the sender finds modules.
    content : bytes
        The value, pickled.
    key : str
        Tells contents apart, with those of the parcels that they refer to.
    """

    paths: tuple[str, ...]
    content: bytes
    key: str


def dump(value: object, what: str, known: Sequence[tuple[object, Parcel]] = ()) -> Parcel:
    """Pickle what a worker is to have.

    Functions that no module knows are sent as they are where cloudpickle is installed.

    Parameters
    ----------
    what : str
        What it is called in errors.
    known : sequence of (object, Parcel)
        What is sent by itself, and referred to where it is met.

    Raises
    ------
    ComponentError
        Saying what cannot be sent, and what to do.
    """
    buffer = io.BytesIO()
    pickler: Any = pickle.Pickler
    with suppress(ImportError):
        pickler = importlib.import_module("cloudpickle").Pickler
    met: dict[int, str] = {}

    def refer(_: Any, one: object) -> int | None:
        for place, (other, parcel) in enumerate(known):
            if one is other:
                met[place] = parcel.key
                return place
        return None

    referring = type("Referring", (pickler,), {"persistent_id": refer})
    try:
        referring(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    # Pickling runs the code of whatever it meets.
    except Exception as error:
        install = ", or install cloudpickle" if pickler is pickle.Pickler else ""
        raise ComponentError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error}). Define "
            f"its classes and functions in a module{install}; or run it in this process, without "
            f"--cpg-workers and --cpg-cluster."
        ) from error
    content = buffer.getvalue()
    digest = hashlib.sha256(content + repr(sorted(met.items())).encode()).hexdigest()
    return Parcel(tuple(sys.path), content, digest)


def load(parcel: Parcel, known: Sequence[object] = ()) -> Any:
    """Return the value that `dump` was given; modules are looked for where it did, too.

    ``known`` are what was sent by itself, in the same order.

    Raises
    ------
    ComponentError
        When a module that it needs is not found here, or is another one.
    """
    sys.path.extend(path for path in parcel.paths if path not in sys.path)
    try:
        # Written by `dump` in the session that sends it; no file is ever read.
        return _Unpickler(parcel.content, known).load()
    except (ImportError, AttributeError) as error:
        raise ComponentError(
            f"a worker cannot load what it was sent ({error}). Keep task, planner and model in "
            f"modules that can be imported by their names from pytest's sys.path, as they can be "
            f"without --import-mode=importlib; or run them without --cpg-workers and --cpg-cluster."
        ) from None


class _Unpickler(pickle.Unpickler):  # of `load`
    def __init__(self, content: bytes, known: Sequence[object]) -> None:
        super().__init__(io.BytesIO(content))
        self._known = known

    def persistent_load(self, place: int) -> object:
        """Return what `dump` has referred to."""
        return self._known[place]


def workers_of(executor: Executor) -> int:
    """Return how many calls an executor runs at once, as far as that is known."""
    known = getattr(executor, "workers", None) or getattr(executor, "_max_workers", None)
    return known if isinstance(known, int) else 2


def sharers_of(executor: Executor) -> int:
    """Return how many workers share the processors of one machine."""
    return int(getattr(executor, "sharers", workers_of(executor)))


def _submitted(call: Call, executor: Executor, *, equipped: bool) -> Future[Any]:
    try:
        return call.submit(equipped)
    except (BrokenExecutor, RuntimeError) as error:
        if not isinstance(error, BrokenExecutor) and "shutdown" not in str(error):
            raise
        raise ComponentError(
            f"{executor!r} takes no more calls ({error}). Give cpg_executor one that is open, or "
            f"use --cpg-workers, whose processes are replaced when they die."
        ) from error


def _result_of(future: Future[Any], name: str, lost: Counter[int], place: int) -> Any:
    """Return a call's result; None if its worker died, so that it has to be made again."""
    try:
        return future.result()
    except (BrokenExecutor, CancelledError):
        lost[place] += 1
        if lost[place] == _MOST_ATTEMPTS:
            raise _killer(name) from None
        return None
    except CpgError as error:
        # Where in the worker it was raised says nothing more.
        if not hasattr(error, "__notes__"):
            error.__cause__ = None
        raise
    except Exception as error:
        # Dask has made the call again and again itself.
        if type(error).__name__ == "KilledWorker":
            raise _killer(name) from None
        cause: Any = error.__cause__
        # Of a pool's worker, as text: pytest leaves out no frames of that.
        if isinstance(getattr(cause, "tb", None), str):
            cause.tb = _without_our_frames(cause.tb)
        raise


def _without_our_frames(text: str) -> str:
    """Leave frames of this package, and of what runs it in a worker, out of a traceback."""
    folders = (
        os.path.dirname(os.path.dirname(str(processors.__file__))),
        os.path.dirname(str(concurrent.futures.__file__)),
    )
    ours = tuple(f'  File "{folder}{os.sep}' for folder in folders)
    frames = re.split(r'^(?=  File ")', text, flags=re.MULTILINE)
    # What follows a frame's own lines, such as the exception, is not indented.
    return "".join(
        re.sub(r"\A(?: .*\n)+", "", frame) if frame.startswith(ours) else frame for frame in frames
    )


def _killer(name: str) -> WorldModelError:
    return WorldModelError(
        f"{name}: the process that ran them died {_MOST_ATTEMPTS} times. The model ends its "
        f"process or takes more memory than there is; run it without --cpg-workers or "
        f"--cpg-cluster to see."
    )


class _Context(SpawnContext):
    """Spawns processes, and knows them: a pool does not end one that hangs."""

    def __init__(self) -> None:
        self._spawned: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802  # a class there
        process = SpawnProcess(*args, **kwargs)
        self._spawned.append(process)
        return process

    def kill(self) -> None:
        """End every process at once."""
        for process in self._spawned:
            # One that was never started has nothing to kill.
            with suppress(AttributeError, ValueError):
                process.kill()
        self._spawned.clear()


def _begin_worker(workers: int) -> None:
    """Prepare a process of a pool."""
    # Ctrl-C is for the process that waits, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ[processors.SHARERS] = str(workers)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End this process with its parent, however that ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
