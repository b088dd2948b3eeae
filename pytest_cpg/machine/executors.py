"""Executors: where blocks of episodes run, and what becomes of them when a worker dies.

Everything runs on the standard `concurrent.futures.Executor`. Calls must be idempotent: one whose
worker died is made again, and one that nobody waits for any more may still be running.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from typing import Any, NamedTuple

from pytest_cpg.contracts import ComponentError, CpgError, WorldModelError
from pytest_cpg.machine.pool import WorkerPool

# A call that is lost with its worker as often as this is what kills the workers.
_MOST_ATTEMPTS = 3
# Between two looks at the clock while nothing is finished.
_PATIENCE_SECONDS = 0.25


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
    executor, when its futures are cancelled or give nothing as often.

    Parameters
    ----------
    tick : callable
        Told the number of finished calls, several times a second; what it raises ends all.
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


def sharers_of(executor: Executor) -> int:
    """Return how many workers share the processors of one machine."""
    return int(getattr(executor, "sharers", workers_of(executor)))


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
    folders = (
        os.path.dirname(os.path.dirname(__file__)),
        os.path.dirname(str(concurrent.futures.__file__)),
    )
    ours = tuple(f'  File "{folder}{os.sep}' for folder in folders)
    frames = re.split(r'^(?=  File ")', text, flags=re.MULTILINE)
    # What follows a frame's own lines, such as the exception, is not indented.
    return "".join(
        re.sub(r"\A(?: .*\n)+", "", frame) if frame.startswith(ours) else frame for frame in frames
    )
