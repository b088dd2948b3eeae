"""Answer snapshot: what a session has imagined, which one that resumes goes on from."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.episodes.arm_key import model_key
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.gates.policy_comparison.spec import digest_of

# A killed session loses no more than what was imagined since.
SECONDS_BETWEEN_FILES = 10.0
# Observations by which a policy is known again.
_PROBES = 8


class AnswerSnapshot:
    """Imagined returns of one model to one set of queries, in pytest's cache.

    Nothing is kept without a cache, nor of a model whose content cannot be read.
    """

    def __init__(
        self, execution: Execution, model: Any, queries: PolicyQueries, *, seed: int
    ) -> None:
        self._cache, self._resumes = execution.cache, execution.resumes
        self._key: str | None = None
        self._begun = self._next_file = time.monotonic()
        if self._cache is not None:
            asked = {"queries": digest_of(queries), "policies": _policies_digest(queries)}
            self._key = model_key(model, seed=seed, **asked)

    @property
    def seconds(self) -> float:
        """How long imagining has taken, in all sessions together."""
        return time.monotonic() - self._begun

    def take_up(
        self,
        found: FloatArray,
        parts: Sequence[IntArray],
        imagine: Callable[[int], FloatArray],
    ) -> None:
        """Write what is kept into returns [E, R], if a part of it is imagined alike again.

        ``parts`` are rows that are imagined together; ``imagine`` returns what one earns [E, B].
        """
        self._begun = time.monotonic()
        self._next_file = self._begun + SECONDS_BETWEEN_FILES
        if self._cache is None or self._key is None or not self._resumes:
            return
        snapshot, _ = self._cache.load_snapshot(self._key)
        if snapshot is None or snapshot["returns"].shape != found.shape:
            return
        kept = snapshot["returns"]
        done = [place for place, rows in enumerate(parts) if not np.isnan(kept[:, rows]).any()]
        if not done:
            return
        # Another one in every session, so that no change stays unseen for long.
        place = int(np.random.default_rng().choice(done))
        if np.array_equal(imagine(place), kept[:, parts[place]]):
            found[:] = kept
            self._begun -= float(snapshot["seconds"])

    def now_and_then(self, found: FloatArray) -> None:
        """Keep returns [E, R], NaN where nothing was imagined yet, if it is time to."""
        if time.monotonic() >= self._next_file:
            self.keep(found)

    def keep(self, found: FloatArray) -> None:
        """Keep returns [E, R], NaN where nothing was imagined yet."""
        if self._cache is None or self._key is None:
            return
        values = {"returns": found, "seconds": np.array(self.seconds)}
        self._cache.store_snapshot(self._key, values)
        self._next_file = time.monotonic() + SECONDS_BETWEEN_FILES


def _policies_digest(queries: PolicyQueries) -> str:
    """Return what tells policies apart: what they do on some observations."""
    probes = queries.observations_a[:_PROBES]
    acted = [queries.act(policy, probes) for policy in range(len(queries.policies))]
    return hashlib.sha256(np.concatenate(acted).tobytes()).hexdigest()
