"""Workers: blocks of work in other processes, and what these need, sent to each of them once.

Everything runs on the standard `concurrent.futures.Executor`. Calls must be idempotent: one whose
worker died is made again, and one that nobody waits for any more may still be running.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib
import io
import os
import pickle
import re
import sys
import threading
import traceback
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pytest_cpg.contracts import ComponentError, CpgError, WorldModelError
from pytest_cpg.machine.pool import WorkerPool
from pytest_cpg.machine.processors import SHARERS

# A call that is lost with its worker as often as this is what kills the workers.
_MOST_ATTEMPTS = 3
# Between two looks at the clock while nothing is finished.
_PATIENCE_SECONDS = 0.25
# Where every worker knows the categories of warnings from.
_WARNINGS = ("builtins", "warnings")


class Call(NamedTuple):
    """A call that may have to be made more than once."""

    name: str
    # Makes the call, with or without what its worker may already have.
    submit: Callable[[bool], Future[Any]]


def run_all(
    executor: Executor, calls: Sequence[Call], *, tick: Callable[[int], None]
) -> Iterator[tuple[int, Any]]:
    """Make every call, and give its place and result as soon as it is there.

    A worker that lacks what a call needs returns None, and the call is made again with it. Raises
    WorldModelError when a call ends its worker again and again, and ComponentError, naming the
    executor, when its futures are cancelled or give nothing as often. ``tick`` is told the number
    of finished calls several times a second; what it raises ends all.
    """
    lost, unanswered = Counter[int](), Counter[int]()
    done, equipped = 0, workers_of(executor)
    pending: dict[Future[Any], int] = {}
    try:
        for place, call in enumerate(calls):
            pending[_submitted(call, executor, equipped=place < equipped)] = place
        while pending:
            finished, others = wait(pending, timeout=_PATIENCE_SECONDS, return_when=FIRST_COMPLETED)
            # Nobody is told of a future that is cancelled before its call begins.
            for future in finished | {other for other in others if other.cancelled()}:
                place = pending.pop(future)
                deaths = lost[place]
                name, result = calls[place].name, None
                if not future.cancelled():
                    result = _result_of(future, name, lost, place)
                if result is None:
                    unanswered[place] += lost[place] == deaths
                    # Equipped the second time, a worker of our own lacks nothing.
                    if unanswered[place] == _MOST_ATTEMPTS:
                        did = "cancelled" if future.cancelled() else "gave None for"
                        raise ComponentError(
                            f"{executor!r} {did} {name}, {_MOST_ATTEMPTS} times. Let its futures "
                            f"give what the call returns."
                        )
                    pending[_submitted(calls[place], executor, equipped=True)] = place
                    continue
                done += 1
                yield place, result
            tick(done)
    finally:
        for future in pending:
            future.cancel()
        # Nobody wants what they are at, and one that hangs would never come back.
        if pending and isinstance(executor, WorkerPool):
            executor.shutdown(wait=False, cancel_futures=True)


def workers_of(executor: Executor) -> int:
    """Return how many calls an executor runs at once, as far as that is known."""
    workers = getattr(executor, "workers", None) or getattr(executor, "_max_workers", None)
    return workers if isinstance(workers, int) else 2


def _submitted(call: Call, executor: Executor, *, equipped: bool) -> Future[Any]:
    try:
        return call.submit(equipped)
    except CpgError:
        raise
    # An executor of a user's may raise anything.
    except Exception as error:
        why = str(error) or type(error).__name__
        raise ComponentError(
            f"{executor!r} takes no more calls ({why}). Give cpg_executor one that is open, or use "
            f"--cpg-workers, whose processes are replaced when they die."
        ) from error


def _result_of(future: Future[Any], name: str, lost: Counter[int], place: int) -> Any:
    """Return a call's result; None if its worker died, so that it has to be made again."""
    try:
        return future.result()
    except (BrokenExecutor, CancelledError):
        lost[place] += 1
        if lost[place] == _MOST_ATTEMPTS:
            raise WorldModelError(
                f"{name}: the process that ran them died {_MOST_ATTEMPTS} times. The model ends "
                f"its process or takes more memory than there is; run it without --cpg-workers to "
                f"see."
            ) from None
        return None
    except CpgError as error:
        # Where in the worker it was raised says no more than its notes.
        error.__cause__ = None
        raise
    except Exception as error:
        cause: Any = error.__cause__
        # Of a pool's worker, as text: pytest leaves out no frames of that.
        if isinstance(getattr(cause, "tb", None), str):
            cause.tb = _without_our_frames(cause.tb)
        raise


def _without_our_frames(text: str) -> str:
    """Leave frames of this package, and of what runs it in a worker, out of a traceback."""
    places = os.path.dirname(__file__), str(concurrent.futures.__file__)
    ours = tuple(f'  File "{os.path.dirname(place)}{os.sep}' for place in places)
    frames = re.split(r'^(?=  File ")', text, flags=re.MULTILINE)
    # What follows a frame's own lines, such as the exception, is not indented.
    return "".join(
        re.sub(r"\A(?: .*\n)+", "", frame) if frame.startswith(ours) else frame for frame in frames
    )


class Parcel(NamedTuple):
    """What a worker is to have, and where the sender finds modules."""

    paths: tuple[str, ...]
    content: bytes
    # Tells contents apart, with those of the parcels that they refer to.
    key: str


def dump(value: object, what: str, parts: Sequence[tuple[object, Parcel]] = ()) -> Parcel:
    """Pickle what a worker is to have, and refer to ``parts`` of it, which are sent by themselves.

    Functions that no module knows are sent as they are where cloudpickle is installed. Raises
    ComponentError, saying what cannot be sent, and what to do.
    """
    buffer = io.BytesIO()
    pickler: Any = pickle.Pickler
    with suppress(ImportError):
        pickler = importlib.import_module("cloudpickle").Pickler
    met: dict[int, str] = {}

    def refer(_: Any, met_value: object) -> int | None:
        for place, (other, parcel) in enumerate(parts):
            if met_value is other:
                met[place] = parcel.key
                return place
        return None

    referring = type("Referring", (pickler,), {"persistent_id": refer})
    try:
        referring(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    # Pickling runs the code of whatever it meets.
    except Exception as error:
        cure = "Make it without what cannot be pickled, such as locks, open files and generators"
        if pickler is pickle.Pickler:
            cure = "Define its classes and functions in a module, or install cloudpickle"
        raise ComponentError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error}). {cure}; "
            f"or run it in this process, without --cpg-workers."
        ) from error
    content = buffer.getvalue()
    digest = hashlib.sha256(content + repr(sorted(met.items())).encode()).hexdigest()
    return Parcel(tuple(sys.path), content, digest)


def load(parcel: Parcel, parts: Sequence[object] = ()) -> Any:
    """Return the value that `dump` was given; modules are looked for where it did, too.

    ``parts`` are what was sent by itself, in the same order. Raises ComponentError when a module
    that it needs is not found here, or is another one.
    """
    sys.path.extend(path for path in parcel.paths if path not in sys.path)
    try:
        # Written by `dump` in the session that sends it; no file is ever read.
        return _Unpickler(parcel.content, parts).load()
    except (ImportError, AttributeError) as error:
        raise ComponentError(
            f"a worker cannot load what it was sent ({error}). Keep task, planner and model in "
            f"modules that can be imported by their names from pytest's sys.path, as they can be "
            f"without --import-mode=importlib; or run them without --cpg-workers."
        ) from None


class _Unpickler(pickle.Unpickler):  # of `load`
    def __init__(self, content: bytes, parts: Sequence[object]) -> None:
        super().__init__(io.BytesIO(content))
        self._parts = parts

    def persistent_load(self, place: int) -> object:
        """Return what `dump` has referred to."""
        return self._parts[place]


class Workload(NamedTuple):
    """What blocks are run with, as workers get it."""

    # Such as a task and a model, which other workloads may have, too: sent to workers without them.
    parts: tuple[Parcel, ...]
    # All that is run, with references to these.
    whole: Parcel

    @classmethod
    def of(
        cls,
        parts: Sequence[tuple[object, str]],
        make: Callable[..., Any],
        values: tuple[Any, ...],
        *,
        name: str,
    ) -> Workload:
        """Return what ``make(*values)`` makes in a worker, with parts that are sent once.

        It has a method ``run(block)``, which never returns None. Raises ComponentError when it
        cannot be sent, by the name of the part or of the whole.
        """
        parcels: list[tuple[object, Parcel]] = []
        for part, called in parts:
            parcels.append((part, dump(part, called, parcels)))
        return cls(tuple(parcel for _, parcel in parcels), dump((make, *values), name, parcels))

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the parts, and of the whole."""
        return tuple(parcel.key for parcel in (*self.parts, self.whole))


class Sender(NamedTuple):
    """Who wants a block: its process, how many workers share its machine, its warning filters."""

    sharers: int
    process: int
    filters: list[Any]


class Answer(NamedTuple):
    """What a worker returns of a block."""

    result: Any


class Crew:
    """The workers of an executor, at one workload."""

    def __init__(self, executor: Executor, workload: Workload) -> None:
        self._executor, self._workload = executor, workload
        # What is an error here is one there; an executor of a user's has warnings of its own.
        filters = [entry for entry in warnings.filters if entry[2].__module__ in _WARNINGS]
        filters = filters if isinstance(executor, WorkerPool) else []
        self._sender = Sender(workers_of(executor), os.getpid(), filters)
        self._asked: set[str] = set()

    def run(
        self, blocks: Iterable[object], *, tick: Callable[[int], None]
    ) -> Iterator[tuple[int, Any]]:
        """Run blocks, each told from others by its text, as `run_all` makes calls."""
        calls = [Call(str(block), partial(self._submit, block)) for block in blocks]
        for place, answer in run_all(self._executor, calls, tick=tick):
            if not isinstance(answer, Answer):
                raise ComponentError(
                    f"{self._executor!r} gave {answer!r:.60} for {calls[place].name}. Let its "
                    f"futures give what the call returns, and nothing beside it."
                )
            yield place, answer.result
        # All have been run: workers have what they need.
        _sent_to(self._executor).update(self._workload.keys)

    def _submit(self, block: object, equipped: bool) -> Future[Any]:
        workload, sent = self._workload, _sent_to(self._executor)
        parcels = (*workload.parts, workload.whole) if equipped else ()
        if str(block) not in self._asked:
            # A worker that is new since then asks for them.
            parcels = tuple(parcel for parcel in parcels if parcel.key not in sent)
            self._asked.add(str(block))
        return self._executor.submit(run_block, workload.keys, parcels, self._sender, block)


# Keys of what has been sent to whom; a worker that has it no more asks again.
_SENT: WeakKeyDictionary[Executor, set[str]] = WeakKeyDictionary()


def _sent_to(executor: Executor) -> set[str]:
    try:
        return _SENT.setdefault(executor, set())
    # One of a user's, with slots alone or no hash: it is sent everything again.
    except TypeError:
        return set()


def run_block(
    keys: tuple[str, ...], parcels: tuple[Parcel, ...], sender: Sender, block: Any
) -> Answer | None:
    """Run a block in a worker; None if it needs more of what ``keys`` stand for."""
    try:
        # One at a time: dask has several threads in a process, and torch one state for all.
        with _LOCK, _warned_by(sender.filters):
            if keys[-1] not in _LOADED:
                if sender.process != os.getpid():
                    os.environ[SHARERS] = str(sender.sharers)
                if not _load_all(keys, {parcel.key: parcel for parcel in parcels}):
                    return None
            _LOADED.move_to_end(keys[-1])
            return Answer(_LOADED[keys[-1]].run(block))
    # What a model raises may be of any kind, and of one that cannot be sent.
    except Exception as error:
        # A cause is sent without its frames.
        if isinstance(error, CpgError) and error.lines:
            error.add_note(error.lines)
        if _can_be_sent(error):
            raise
        lost = WorldModelError(f"{type(error).__name__}: {error}")
        lost.add_note("".join(traceback.format_exception(error)))
        raise lost from None


def _load_all(keys: tuple[str, ...], sent: Mapping[str, Parcel]) -> bool:
    """Load the parts and the whole, the last, unless one is neither known here nor just sent."""
    parts: list[Any] = []
    for key in keys:
        if key not in _LOADED:
            if key not in sent:
                return False
            value = load(sent[key], parts)
            _LOADED[key] = value[0](*value[1:]) if key == keys[-1] else value
        _LOADED.move_to_end(key)
        parts.append(_LOADED[key])
    while len(_LOADED) > _MOST_LOADED:
        _LOADED.popitem(last=False)
    return True


# Tasks and models that a worker keeps, and what runs them: those of a gate and of some before.
_MOST_LOADED = 12
# Work by the keys of workloads, and its parts by theirs.
_LOADED: OrderedDict[str, Any] = OrderedDict()
_LOCK = threading.Lock()


@contextmanager
def _warned_by(filters: list[Any]) -> Iterator[None]:
    """Treat warnings by these filters; by those of this process where there are none."""
    if not filters:
        yield
        return
    with warnings.catch_warnings():
        warnings.filters[:] = filters  # type: ignore[index]  # a list, whatever its stub says
        yield


def _can_be_sent(error: Exception) -> bool:
    """Say whether an exception survives being sent: one that does not would break its pool."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  # written here
    # Whatever a user's exception does then.
    except Exception:
        return False
    return True
