"""Cluster: the workers of a dask cluster, as an executor."""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from pytest_cpg.contracts import ComponentError

T = TypeVar("T")

_CLUSTER_RETRIES = 3
_SECONDS_TO_CONNECT = 5.0
# A cluster that is restarted, or grows by need, may have nobody for a while.
_SECONDS_BETWEEN_CHECKS, _LONGEST_ABSENCE = 2.0, 20.0


class Cluster(Executor):
    """The workers of a dask cluster: how many, and at most how many on one machine (sharers)."""

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

    Raises ComponentError when dask is not installed, or there is nobody to work.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise ComponentError(
            'a dask scheduler needs the extra cluster: pip install "pytest-cpg[cluster]"'
        ) from None
    try:
        client: Any = distributed.Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
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
