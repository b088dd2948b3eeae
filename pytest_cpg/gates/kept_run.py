"""Kept run: an arm in the making whose first episodes may be known from an earlier session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pytest_cpg.contracts import IntArray
from pytest_cpg.episodes import ArmRun, Progress, Starts
from pytest_cpg.metrics import Arm
from pytest_cpg.oracle_cache import OracleCache, StoredArm, spot_check, start_digests

# Of a key, enough to tell what a reader may have to compare.
_DIGITS = 12


class Beginner(Protocol):
    """Gives a new run of an arm."""

    def __call__(self, starts: Starts, progress: Progress | None = None) -> ArmRun:
        """Return the run of the episodes with these starts."""
        ...


class KeptRun:
    """Runs an arm as `ArmRun` does, but for episodes that are stored, and stores the others.

    Two stored episodes are run again, others in every session: where they do not end as they did,
    the arm is run as if nothing were stored.

    Parameters
    ----------
    name : str
    begin : callable
        Gives the `ArmRun` of this arm from some starts; it may be told of progress.
    starts : Starts
    cache : OracleCache
    key : str
        From `arm_key`, for exactly this arm.
    level : float
        Coverage of the arm's interval, in (0, 1).
    progress : callable, optional
        Told how many episodes are done, stored ones included, and their number.

    Attributes
    ----------
    notes : list of str
        What is wrong with what was stored, or with storing.
    """

    def __init__(
        self,
        name: str,
        begin: Beginner,
        starts: Starts,
        *,
        cache: OracleCache,
        key: str,
        level: float,
        progress: Progress | None = None,
    ) -> None:
        self._name, self._cache, self._key, self._level = name, cache, key, level
        self.notes: list[str] = []
        self._kept = self._checked(starts, lambda rows: begin(starts.take(rows)).advance(len(rows)))
        total = len(starts.episodes)
        known = 0 if self._kept is None else min(self._kept.arm.episodes, total)
        self._known, self._whole = known, self._kept
        self._rest = starts.take(np.arange(known, total))
        self._run = begin(
            self._rest,
            progress and (lambda done, count: progress(known + done, known + count)),
        )

    def advance(self, until: int) -> Arm:
        """Run the episodes up to number ``until`` that are not stored, and return the arm so far.

        Raises
        ------
        WorldModelError, TaskError
            As `ArmRun.advance`.
        """
        if until > self._known or self._whole is None:
            arm = self._run.advance(until - self._known)
            new = StoredArm(
                arm=arm,
                plans=self._run.plans,
                model_steps=self._run.model_steps,
                starts=start_digests(self._rest.states[: arm.episodes]),
            )
            self._whole = new if self._kept is None else self._kept.followed_by(new)
        return self._whole.first(until, level=self._level)

    def keep(self) -> None:
        """Store what was run to its end."""
        note = self._cache.store(self._key, self._whole) if self._whole is not None else None
        if note:
            self.notes.append(note)

    def __str__(self) -> str:
        stored = f"{self._name}: {self._known} episodes stored (key {self._key[:_DIGITS]})"
        return f"{stored}, two run again and equal" if self._known else f"{self._name}: run anew"

    def _checked(self, starts: Starts, run: Callable[[IntArray], Arm]) -> StoredArm | None:
        """Return what is stored of this arm, if it can still be repeated."""
        kept, note = self._cache.load(self._key)
        if note:
            self.notes.append(note)
        if kept is None:
            return None
        known = kept.first(min(kept.arm.episodes, len(starts.episodes)), level=self._level)
        difference = (
            spot_check(known, rng=np.random.default_rng(), run=run)
            if kept.begins_at(starts.states)
            else f"the stored {self._name} arm began at other starts"
        )
        if difference is None:
            return kept
        self._cache.discard(self._key)
        self.notes.append(f"{difference}; it was discarded and run anew")
        return None
