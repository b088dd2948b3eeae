"""Kept runs: arms whose episodes are stored from session to session, checked and gone on with."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Plans
from pytest_cpg.episodes.arm import Arm, spot_check
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Starts
from pytest_cpg.episodes.spread_run import SpreadRun
from pytest_cpg.episodes.stage import Progress, Stage

# What changes with every model that is worked on.
OF_THE_MODEL = ("learned", "rescored")
# Of a key, enough to tell what a reader may have to compare.
_DIGITS = 12
# A session that is killed loses no more than what ended since.
SECONDS_BETWEEN_FILES = 10.0
# That run in lockstep in this process, and may all be lost when they are interrupted. Fewer leave
# most of a learned model's tile empty while the last ones end.
EPISODES_AT_ONCE = 100
# Episodes whose first plans are made again where a model's own arm is resumed: one planning round.
_FIRST_PLANS = 32
# Seconds of an episode.
_QUICK = 0.05
# Plans that are made again of each of two episodes where what was executed is taken again.
_PLANS_OF_TWO = 8


class _ReachedError(Exception):
    """Every episode has executed its first plans."""


@dataclass(frozen=True)
class Again:
    """A planner of actions that were executed, [T, A] of each episode; the last one is held on."""

    horizon: int
    executed: tuple[FloatArray, ...]
    name: ClassVar[str] = "again"

    def plan(self, world_model: Any, latents: FloatArray, rngs: Any, remaining: IntArray) -> Plans:
        """Return everything at once; see `Planner.plan`."""
        del world_model, latents, rngs
        left = [((0, self.horizon - len(row)), (0, 0)) for row in self.executed]
        rows = [np.pad(row, more, "edge") for row, more in zip(self.executed, left, strict=True)]
        return Plans(np.stack(rows), remaining)


class KeptRun:
    """Runs an arm as `ArmRun` does, but for episodes that are stored, and stores the others.

    Two stored episodes are checked, others in every session: with ``replay`` by their first plans
    and by taking what was executed again, else by running them again. Where an interrupted session
    is resumed the first plans of more are made again, too. Where anything does not go as it did, to
    the bits of each action, the arm is run as if nothing were stored. Of what is broken off, the
    first episodes are kept, as many as have ended.

    ``begin`` and ``repeat`` give a run of this arm from some starts; the latter in this process, of
    any of the episodes. ``replay`` maps starts and what was executed from each to an arm.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[..., ArmRun | SpreadRun],
        starts: Starts,
        *,
        repeat: Callable[[Starts, Progress | None], ArmRun],
        replay: Callable[[Starts, tuple[FloatArray, ...]], Arm] | None,
        cache: ArmCache,
        key: str,
        level: float,
        progress: Progress,
        resumes: bool,
    ) -> None:
        self._name, self._cache, self._key, self._level = name, cache, key, level
        self._progress, self._resumes = progress, resumes
        self._repeat, self._replay = repeat, replay
        self.notes: list[str] = []
        self.is_refuted = False
        self._stored_arm = None
        if name not in OF_THE_MODEL or resumes:
            self._stored_arm = self._checked(starts)
        else:
            # Of a model that is worked on, only what belongs to the same run is of use.
            cache.discard(key)
        total = len(starts.episodes)
        self._taken = 0 if self._stored_arm is None else min(self._stored_arm.episodes, total)
        self._rest = starts.take(np.arange(self._taken, total))
        self._run = begin(self._rest, self._tell)
        self._written = 0 if self._stored_arm is None else self._stored_arm.episodes
        self._next_file = time.monotonic() + SECONDS_BETWEEN_FILES
        # Which one is run, of how many.
        self._block = 0, 1

    def advance(self, until: int) -> Arm:
        """Run the episodes up to number ``until`` that are not stored, and return the arm so far.

        Raises WorldModelError or TaskError as `ArmRun.advance` does.
        """
        if until > self._taken:
            self._run_on(until - self._taken)
        else:
            self._progress(self._with_stored(Stage(until, until, "starts", 0, 0), until))
        whole = self._whole
        if whole is None:
            raise ValueError(f"need at least 1 episode, got {until}")
        return whole.as_run(until, level=self._level)

    def keep(self) -> None:
        """Store the episodes that have ended, unless they are stored already."""
        whole = self._whole
        if whole is None or whole.episodes == self._written:
            return
        note = self._cache.store(self._key, whole)
        self._written = whole.episodes
        if note and note not in self.notes:
            self.notes.append(note)

    def discard(self) -> None:
        """Remove what is stored of this arm."""
        self._cache.discard(self._key)

    def __str__(self) -> str:
        if not self._taken:
            return f"{self._name}: run anew"
        key = self._key[:_DIGITS]
        return f"{self._name}: {self._taken} episodes stored (key {key}), two checked and equal"

    @property
    def resumed(self) -> str:
        """What of an interrupted session is taken in place of being run; empty for nothing."""
        if not self._resumes or not self._taken:
            return ""
        total = self._taken + len(self._rest.episodes)
        return f"{self._name}: {self._taken} of {total} episodes"

    @property
    def _whole(self) -> Arm | None:
        new = self._run.finished
        if self._stored_arm is None or new is None:
            return new or self._stored_arm
        return self._stored_arm.followed_by(new)

    def _run_on(self, until: int) -> None:
        before = self._run.finished
        done = 0 if before is None else before.episodes
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
        number, count = self._block
        done, total = number * stage.total + stage.done, count * stage.total
        self._progress(self._with_stored(stage._replace(done=done, total=total), self._taken))

    def _with_stored(self, stage: Stage, taken: int) -> Stage:
        """Return what is told of the first episodes, which were stored, and others together."""
        if self._stored_arm is None:
            return stage
        return stage._replace(
            solved=(stage.solved or 0) + int(self._stored_arm.successes[:taken].sum()),
            starts=stage.starts + taken,
            note=f"{'from' if not stage.starts else f'{taken} from'} the cache, 2 checked",
        )

    def _checked(self, starts: Starts) -> Arm | None:
        """Return what is stored of this arm, if it can still be repeated."""
        stored, note = self._cache.load(self._key)
        if note:
            self.notes.append(note)
        if stored is None:
            return None
        used = stored.as_run(min(stored.episodes, len(starts.episodes)), level=self._level)
        difference = self._difference(stored, used, starts)
        if difference is None:
            return stored
        self.is_refuted = True
        self.notes.append(f"{difference}; it was discarded and run anew")
        return None

    def _difference(self, stored: Arm, used: Arm, starts: Starts) -> str | None:
        """Say what goes otherwise now than in a stored arm, as far as it is used, if anything."""
        if not stored.begins_at(starts.states):
            return f"the stored {self._name} arm began at other starts"
        rng = np.random.default_rng()
        difference = None
        if self._resumes:
            difference = self._other_plans(used, starts, rng, episodes=_FIRST_PLANS, plans=1)
        # What takes no time is run again, which shows most; and how sure a planner was of its plans
        # nothing else shows.
        is_slow = used.seconds / used.episodes > _QUICK and used.confidences is None
        is_replayed = self._replay is not None and is_slow
        if is_replayed:
            difference = difference or self._other_plans(
                used, starts, rng, episodes=2, plans=_PLANS_OF_TWO
            )
        again = partial(self._again, used, starts, is_replayed)
        return difference or spot_check(used, rng=rng, run=again)

    def _again(self, used: Arm, starts: Starts, is_replayed: bool, rows: IntArray) -> Arm:
        """Return some rows of a stored arm as they go now."""
        if self._replay is None or not is_replayed:
            return self._repeat(starts.take(rows), None).advance(len(rows))
        return self._replay(starts.take(rows), tuple(used.actions[row] for row in rows))

    def _other_plans(
        self, used: Arm, starts: Starts, rng: np.random.Generator, *, episodes: int, plans: int
    ) -> str | None:
        """Say which of some episodes goes otherwise in its first plans, if one does."""
        count = min(episodes, used.episodes)
        rows = np.sort(rng.choice(used.episodes, size=count, replace=False))
        calls = iter(range(plans))

        def stop(stage: Stage) -> None:
            # Told at first, and after each round of plans.
            del stage
            if next(calls, None) is None:
                raise _ReachedError

        run = self._repeat(starts.take(rows), stop)
        with suppress(_ReachedError):
            run.advance(count)
        for row, actions in zip(rows, run.actions, strict=True):
            if not np.array_equal(actions, used.actions[row][: len(actions)]):
                what = "first plan" if plans == 1 else f"first {plans} plans"
                return (
                    f"the stored {self._name} arm could not be repeated: the {what} of episode "
                    f"{used.indices[row]} {'is another one' if plans == 1 else 'are others'} now"
                )
        return None
