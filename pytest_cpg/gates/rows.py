"""Rows: what a model answers to many questions, in blocks, spread over workers and resumed.

For kinds of gate whose measurement is no arm: `filled` runs the blocks, here or by `Crew.run`, and
a `Snapshot` keeps what is there for --cpg-resume.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.episodes.arm_key import digest_of, model_key
from pytest_cpg.episodes.arms import Execution

# A killed session loses no more than what was answered since.
SECONDS_BETWEEN_FILES = 10.0
# As `Crew.run`.
Spread: TypeAlias = Callable[..., Iterable[tuple[int, FloatArray]]]


class Block(Protocol):
    """Questions that are answered together."""

    @property
    def rows(self) -> IntArray:
        """Their numbers, from 0."""
        ...


B = TypeVar("B", bound=Block)


class Snapshot:
    """Values of one model in pytest's cache, to be made before the model is asked anything.

    Nothing is kept without a cache, nor of a model whose content cannot be read.

    Parameters
    ----------
    asked : callable
        Returns what the values depend on beside the model, by name: texts and whole numbers.
    """

    def __init__(
        self, execution: Execution, model: Any, asked: Callable[[], Mapping[str, str | int]]
    ) -> None:
        self._cache, self._resumes = execution.cache, execution.resumes
        self._tell = execution.tell
        self._key: str | None = None
        self._begun = self._next_file = time.monotonic()
        if self._cache is not None:
            self._key = model_key(model, **asked())

    def answered(self, answers: Iterable[bytes]) -> None:
        """Tell the model from others by some of its answers as well; not asked for without a cache.

        What a model reads is not all in its content.
        """
        if self._key is not None:
            digest = hashlib.sha256(b"".join(answers)).hexdigest()
            self._key = digest_of({"key": self._key, "answers": digest})

    @property
    def seconds(self) -> float:
        """How long answering has taken, in all sessions together."""
        return time.monotonic() - self._begun

    def take_up(
        self, found: FloatArray, blocks: Sequence[B], answer: Callable[[B], FloatArray]
    ) -> None:
        """Write what is kept into values [E, R], if a block of it is answered alike again."""
        self._begun = time.monotonic()
        self._next_file = self._begun + SECONDS_BETWEEN_FILES
        if self._cache is None or self._key is None or not self._resumes:
            return
        snapshot = self._cache.load_snapshot(self._key)
        if snapshot is None or snapshot["values"].shape != found.shape:
            return
        kept = snapshot["values"]
        done = [one for one in blocks if not np.isnan(kept[:, one.rows]).any()]
        if not done:
            return
        # Another one in every session, so that no change stays unseen for long.
        again = done[np.random.default_rng().integers(len(done))]
        if np.array_equal(answer(again), kept[:, again.rows]):
            found[:] = kept
            self._begun -= float(snapshot["seconds"])
            if self._tell is not None:
                there = int((~np.isnan(kept).any(axis=0)).sum())
                self._tell(f"{there} of {kept.shape[1]} answers")

    def now_and_then(self, found: FloatArray) -> None:
        """Keep values [E, R], NaN where nothing was answered yet, if it is time to."""
        if time.monotonic() >= self._next_file:
            self.keep(found)

    def keep(self, found: FloatArray) -> None:
        """Keep values [E, R], NaN where nothing was answered yet."""
        if self._cache is None or self._key is None:
            return
        values = {"values": found, "seconds": np.array(self.seconds)}
        self._cache.store_snapshot(self._key, values)
        self._next_file = time.monotonic() + SECONDS_BETWEEN_FILES


def filled(
    shape: tuple[int, int],
    blocks: Sequence[B],
    answer: Callable[[B], FloatArray],
    *,
    progress: Callable[[int, int], None],
    spread: Spread | None = None,
    snapshot: Snapshot | None = None,
) -> FloatArray:
    """Return the values [E, R] of all rows, each of which is in one block.

    Parameters
    ----------
    answer : callable
        Returns the values [E, B] of a block's rows, in this process.
    progress : callable
        Told how many rows there are of how many, and what it raises ends all.
    spread : callable, optional
        ``run`` of the `Crew` whose workers answer the blocks; by default they are answered here.
    """
    found = np.full(shape, np.nan)
    if snapshot is not None:
        snapshot.take_up(found, blocks, answer)
    left = [one for one in blocks if np.isnan(found[:, one.rows]).any()]
    count = shape[1]

    def tell() -> None:
        progress(count - int(np.isnan(found[0]).sum()), count)

    try:
        tell()
        here = ((place, answer(block)) for place, block in enumerate(left))
        for place, values in here if spread is None else spread(left, tick=lambda _: tell()):
            found[:, left[place].rows] = values
            tell()
            if snapshot is not None:
                snapshot.now_and_then(found)
    finally:
        if snapshot is not None:
            snapshot.keep(found)
    return found
