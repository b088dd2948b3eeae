"""Kept run: an arm whose episodes are kept, and may be known from an earlier session."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.spread_run import SpreadRun
from pytest_cpg.episodes.stage import Progress, Stage
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.episodes.stored_arm import StoredArm, spot_check

# Of a key, enough to tell what a reader may have to compare.
_DIGITS = 12
# A session that is killed loses no more than what ended since.
SECONDS_BETWEEN_FILES = 10.0
# That run in lockstep in this process, and may all be lost when they are interrupted. Fewer leave
# most of a learned model's tile empty while the last ones end.
EPISODES_AT_ONCE = 100
# Episodes whose first plans are made again where a model's own arm is resumed: one planning round.
_FIRST_PLANS = 32


class _ReachedError(Exception):
    """Every episode has executed its first plan."""


class KeptRun:
    """Runs an arm as `ArmRun` does, but for episodes that are stored, and stores the others.

    Two stored episodes are run again, others in every session, and where an interrupted session is
    resumed the first plans of more: where they do not go as they did, to the bits of each action,
    the arm is run as if nothing were stored. Of what is broken off, the first episodes are kept, as
    many as have ended.

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
        Take what an interrupted session has kept.

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
        self._stored_arm = self._checked(starts) if uses_stored else None
        total = len(starts.episodes)
        self._taken = 0 if self._stored_arm is None else min(self._stored_arm.arm.episodes, total)
        self._rest = starts.take(np.arange(self._taken, total))
        self._run = begin(self._rest, self._tell)
        self._written = 0 if self._stored_arm is None else self._stored_arm.arm.episodes
        self._next_file = time.monotonic() + SECONDS_BETWEEN_FILES
        # Which one is run, of how many.
        self._block = 0, 1

    def advance(self, until: int) -> Arm:
        """Run the episodes up to number ``until`` that are not stored, and return the arm so far.

        Raises WorldModelError or TaskError as `ArmRun.advance` does.
        """
        if until > self._taken:
            self._run_on(until - self._taken)
        elif self._progress:
            self._progress(self._with_stored(Stage(until, until, "starts", 0, 0), until))
        whole = self._whole
        if whole is None:
            raise ValueError(f"need at least 1 episode, got {until}")
        return whole.first(until, level=self._level)

    def keep(self) -> None:
        """Store the episodes that have ended, unless they are stored already."""
        whole = self._whole
        if whole is None or whole.arm.episodes == self._written:
            return
        note = self._cache.store(self._key, whole)
        self._written = whole.arm.episodes
        if note and note not in self.notes:
            self.notes.append(note)

    def discard(self) -> None:
        """Remove what is stored of this arm."""
        self._cache.discard(self._key)

    def __str__(self) -> str:
        if not self._taken:
            return f"{self._name}: run anew"
        key = self._key[:_DIGITS]
        return f"{self._name}: {self._taken} episodes stored (key {key}), two run again and equal"

    @property
    def resumed(self) -> str:
        """What of an interrupted session is taken in place of being run; empty for nothing."""
        if not self._resumes or not self._taken:
            return ""
        total = self._taken + len(self._rest.episodes)
        return f"{self._name}: {self._taken} of {total} episodes"

    @property
    def _whole(self) -> StoredArm | None:
        """Stored and new episodes together."""
        new = self._run.finished
        if self._stored_arm is None or new is None:
            return new or self._stored_arm
        return self._stored_arm.followed_by(new)

    def _run_on(self, until: int) -> None:
        """Run new episodes up to number ``until``, and store them."""
        before = self._run.finished
        done = 0 if before is None else before.arm.episodes
        # An executor has blocks of its own.
        size = EPISODES_AT_ONCE if isinstance(self._run, ArmRun) else until
        ends = (*range(done + size, until, size), until)
        for number, end in enumerate(ends):
            self._block = number, len(ends)
            self._run.advance(end)
            self.keep()

    def _tell(self, stage: Stage) -> None:
        """Pass progress on, which may break off; store what has ended now and then."""
        now = time.monotonic()
        if now >= self._next_file:
            self._next_file = now + SECONDS_BETWEEN_FILES
            self.keep()
        if self._progress:
            number, count = self._block
            done, total = number * stage.total + stage.done, count * stage.total
            self._progress(self._with_stored(stage._replace(done=done, total=total), self._taken))

    def _with_stored(self, stage: Stage, taken: int) -> Stage:
        """Return what is told of the first episodes, which were stored, and others together."""
        if self._stored_arm is None:
            return stage
        return stage._replace(
            solved=(stage.solved or 0) + int(self._stored_arm.arm.successes[:taken].sum()),
            starts=stage.starts + taken,
            note=f"{'from' if not stage.starts else f'{taken} from'} the cache, 2 run again",
        )

    def _checked(self, starts: Starts) -> StoredArm | None:
        """Return what is stored of this arm, if it can still be repeated."""
        stored, note = self._cache.load(self._key)
        if note:
            self.notes.append(note)
        if stored is None:
            return None
        used = stored.first(min(stored.arm.episodes, len(starts.episodes)), level=self._level)
        difference = self._difference(stored, used, starts)
        if difference is None:
            return stored
        self.is_refuted = True
        self.notes.append(f"{difference}; it was discarded and run anew")
        return None

    def _difference(self, stored: StoredArm, used: Arm, starts: Starts) -> str | None:
        """Say what goes otherwise now than in a stored arm, as far as it is used; None if nothing.

        Not all episodes feel what has changed in a model, and two may miss those that do.
        """
        if not stored.begins_at(starts.states):
            return f"the stored {self._name} arm began at other starts"
        rng = np.random.default_rng()
        if self._resumes:
            count = min(_FIRST_PLANS, used.episodes)
            rows = np.sort(rng.choice(used.episodes, size=count, replace=False))
            for row, actions in zip(rows, self._first_actions(starts.take(rows)), strict=True):
                if not np.array_equal(actions, used.actions[row][: len(actions)]):
                    return (
                        f"the stored {self._name} arm could not be repeated: the first plan of "
                        f"episode {used.indices[row]} is another one now"
                    )
        return spot_check(
            used,
            rng=rng,
            run=lambda rows: self._repeat(starts.take(rows), None).advance(len(rows)),
        )

    def _first_actions(self, starts: Starts) -> tuple[FloatArray, ...]:
        """Return what is executed of the first plan from each start, [T, A]."""

        def stop(stage: Stage) -> None:
            if stage.done:
                raise _ReachedError

        run = self._repeat(starts, stop)
        with suppress(_ReachedError):
            run.advance(len(starts.episodes))
        return run.actions
