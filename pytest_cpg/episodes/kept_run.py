"""Kept run: an arm whose episodes are kept, and may be known from an earlier session."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import IntArray
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.spread_run import SpreadRun
from pytest_cpg.episodes.stage import Progress, Stage
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.episodes.stored_arm import StoredArm, spot_check

# Of a key, enough to tell what a reader may have to compare.
_DIGITS = 12
# Of one that is kept for Ctrl-C, and of one that is written for worse.
SECONDS_BETWEEN_SNAPSHOTS = 0.25
SECONDS_BETWEEN_FILES = 10.0
# Episodes whose first plans are made again where a model's own arm is resumed: one planning round.
_FIRST_PLANS = 32

# Of a snapshot, what has to be the same when an episode is run again.
_REPEATED = {
    "states",
    "steps",
    "successes",
    "returns",
    "plans",
    "streams",
    "noise",
    "latents",
    "memory",
    "perturbed",
}


class _ReachedError(Exception):
    """An episode has come as far as it was."""


class KeptRun:
    """Runs an arm as `ArmRun` does, but for episodes that are stored, and stores the others.

    Two stored episodes are run again, others in every session, and where an interrupted session is
    resumed the first plans of more: where they do not go as they did, to the bits of each action,
    the arm is run as if nothing were stored.

    Parameters
    ----------
    begin : callable
        Gives a run of this arm from some starts; it may be told of progress.
    repeat : callable
        Gives a run in this process of episodes whose indices only have to rise.
    progress : callable, optional
        Told what its run tells, with stored episodes among the solved ones.
    uses_stored : bool
        Take what is stored. Otherwise it is only kept for a session that does.
    resumes : bool
        Go on in the middle of the episodes at which an interrupted session was.

    Attributes
    ----------
    notes : list of str
        What is wrong with what was stored, or with storing.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[..., ArmRun | SpreadRun],
        starts: Starts,
        *,
        repeat: Callable[[Starts, Progress | None], ArmRun],
        cache: ArmCache,
        key: str,
        level: float,
        progress: Progress | None = None,
        uses_stored: bool = True,
        resumes: bool = False,
    ) -> None:
        self._name, self._cache, self._key, self._level = name, cache, key, level
        self._progress, self._repeat, self._resumes = progress, repeat, resumes
        self.notes: list[str] = []
        self.is_refuted = False
        if not uses_stored:
            # What is run anew takes its place.
            cache.discard(key)
        self._kept = self._checked(starts) if uses_stored else None
        total = len(starts.episodes)
        self._known = 0 if self._kept is None else min(self._kept.arm.episodes, total)
        self._rest = starts.take(np.arange(self._known, total))
        self._run = begin(self._rest, self._tell)
        self._is_advancing = False
        self._is_in_the_middle = resumes and self._goes_on()
        self._snapshot: dict[str, npt.NDArray[Any]] | None = None
        self._next_snapshot = time.monotonic() + SECONDS_BETWEEN_SNAPSHOTS
        self._next_file = time.monotonic() + SECONDS_BETWEEN_FILES

    def advance(self, until: int) -> Arm:
        """Run the episodes up to number ``until`` that are not stored, and return the arm so far.

        Raises WorldModelError or TaskError as `ArmRun.advance` does.
        """
        if until > self._known:
            self._is_advancing = True
            self._run.advance(until - self._known)
            self._is_advancing = False
            self._cache.drop_snapshot(self._key)
            self._store()
        elif self._progress:
            self._progress(self._with_known(Stage(until, until, "starts", 0, 0), until))
        whole = self._whole
        if whole is None:
            raise ValueError(f"need at least 1 episode, got {until}")
        return whole.first(until, level=self._level)

    def keep(self) -> None:
        """Store what was run of an arm that was broken off; one that was not is stored already."""
        if self._is_advancing:
            self._store()
            if self._snapshot is not None:
                # The last one between two rounds: in the middle of one nothing fits together.
                self._cache.store_snapshot(self._key, self._snapshot)

    def discard(self) -> None:
        """Remove what is stored of this arm."""
        self._cache.discard(self._key)
        self._cache.drop_snapshot(self._key)

    def __str__(self) -> str:
        key = f"key {self._key[:_DIGITS]}"
        stored = f"{self._known} episodes stored ({key}), two run again and equal"
        if self._is_in_the_middle:
            before = f"{stored}, the others " if self._known else ""
            return f"{self._name}: {before}resumed where they were interrupted ({key})"
        return f"{self._name}: {stored if self._known else 'run anew'}"

    @property
    def resumed(self) -> str:
        """What of an interrupted session is taken in place of being run; empty for nothing."""
        if not self._resumes or not (self._known or self._is_in_the_middle):
            return ""
        total = self._known + len(self._rest.episodes)
        parts = [f"{self._known} of {total} episodes"] * bool(self._known)
        if self._is_in_the_middle:
            parts.append(f"the {'others' if parts else 'episodes'} from their middle on")
        return f"{self._name}: {', '.join(parts)}"

    @property
    def _whole(self) -> StoredArm | None:
        """Stored and new episodes together."""
        new = self._run.finished
        if self._kept is None or new is None:
            return new or self._kept
        return self._kept.followed_by(new)

    def _store(self) -> None:
        whole = self._whole
        note = self._cache.store(self._key, whole) if whole is not None else None
        if note and note not in self.notes:
            self.notes.append(note)

    def _tell(self, stage: Stage) -> None:
        """Pass progress on, which may break off; keep what there is now and then, for worse."""
        now = time.monotonic()
        if isinstance(self._run, ArmRun) and now >= self._next_snapshot:
            self._snapshot = self._run.snapshot()
            self._next_snapshot = now + SECONDS_BETWEEN_SNAPSHOTS
        if now >= self._next_file:
            self._next_file = now + SECONDS_BETWEEN_FILES
            if self._snapshot is not None:
                self._cache.store_snapshot(self._key, self._snapshot)
            elif not isinstance(self._run, ArmRun):
                self._store()
        if self._progress:
            self._progress(self._with_known(stage, self._known))

    def _with_known(self, stage: Stage, known: int) -> Stage:
        """Return what is told of the first episodes, which are known, and others together."""
        if self._kept is None:
            return stage
        return stage._replace(
            solved=(stage.solved or 0) + int(self._kept.arm.successes[:known].sum()),
            starts=stage.starts + known,
            note=f"{'from' if not stage.starts else f'{known} from'} the cache, 2 run again",
        )

    def _goes_on(self) -> bool:
        """Take up an interrupted run, if there is one of these episodes and it can be repeated."""
        snapshot, note = self._cache.load_snapshot(self._key)
        if note:
            self.notes.append(note)
        if snapshot is None or not isinstance(self._run, ArmRun):
            return False
        if not self._run.restore(snapshot):
            return False
        then = self._run.snapshot()
        # All that are under way have gone on together since they began.
        begun = int(then["done"]) + np.flatnonzero(then["plans"][int(then["done"]) :])
        rng = np.random.default_rng()
        rows = np.sort(rng.choice(begun, size=min(2, len(begun)), replace=False))
        if len(rows) and not self._are_repeated(then, rows):
            self.is_refuted = True
            self.notes.append(
                f"the interrupted {self._name} arm could not be repeated: episodes "
                f"{self._rest.episodes[rows]} go otherwise now; it was discarded and run anew"
            )
            return False
        return True

    def _are_repeated(self, then: dict[str, npt.NDArray[Any]], rows: IntArray) -> bool:
        """Run some episodes of a snapshot again, as far as they were; say if all is the same."""
        now = self._run_again(self._rest.take(rows), int(then["plans"][rows].max())).snapshot()
        names = _REPEATED & set(then)
        return all(np.array_equal(now[name], then[name][rows]) for name in names)

    def _run_again(self, starts: Starts, plans: int) -> ArmRun:
        """Return a run of some episodes that has gone until one of them has made so many plans."""

        def tell(_: Stage) -> None:
            if run.snapshot()["plans"].max() >= plans:
                raise _ReachedError

        run = self._repeat(starts, tell)
        with suppress(_ReachedError):
            run.advance(len(starts.episodes))
        return run

    def _checked(self, starts: Starts) -> StoredArm | None:
        """Return what is stored of this arm, if it can still be repeated."""
        kept, note = self._cache.load(self._key)
        if note:
            self.notes.append(note)
        if kept is None:
            return None
        known = kept.first(min(kept.arm.episodes, len(starts.episodes)), level=self._level)
        difference = self._difference(kept, known, starts)
        if difference is None:
            return kept
        self.is_refuted = True
        self.notes.append(f"{difference}; it was discarded and run anew")
        return None

    def _difference(self, kept: StoredArm, known: Arm, starts: Starts) -> str | None:
        """Say what goes otherwise now than in a stored arm, as far as it is used; None if nothing.

        Not all episodes feel what has changed in a model, and two may miss those that do.
        """
        if not kept.begins_at(starts.states):
            return f"the stored {self._name} arm began at other starts"
        rng = np.random.default_rng()
        if self._resumes:
            count = min(_FIRST_PLANS, known.episodes)
            rows = np.sort(rng.choice(known.episodes, size=count, replace=False))
            now = self._run_again(starts.take(rows), 1).snapshot()
            for row, actions, steps in zip(rows, now["actions"], now["steps"], strict=True):
                if not np.array_equal(actions[:steps], known.actions[row][:steps]):
                    return (
                        f"the stored {self._name} arm could not be repeated: the first plan of "
                        f"episode {known.indices[row]} is another one now"
                    )
        return spot_check(
            known,
            rng=rng,
            run=lambda rows: self._repeat(starts.take(rows), None).advance(len(rows)),
        )
