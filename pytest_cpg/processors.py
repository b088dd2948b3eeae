"""Processors: how many this process may keep busy."""

from __future__ import annotations

import os

# In the environment of a worker process: how many share the processors of its machine.
SHARERS = "PYTEST_CPG_SHARERS"


def processors() -> int:
    """Return those this process may use; a container may have fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def own_share() -> int:
    """Return how many threads this process may keep busy, next to others that share the work."""
    others = os.environ.get(SHARERS) or os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return max(1, processors() // int(others))
