"""Stored arm: finished episodes with all it takes to join them to others, or to give fewer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes.arm import Arm

# Per episode: of the arm itself, and what is counted beside it.
OUTCOMES = ("indices", "successes", "steps", "returns", "confidences", "perturbed")
COUNTS = ("plans", "model_steps", "starts")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredArm:
    """A finished arm with what it takes to give any number of its first episodes.

    Attributes
    ----------
    arm : Arm
        Episodes of consecutive indices, at least one.
    plans, model_steps : array [N], int
        Plans made, at least 1, and model steps imagined in each episode.
    starts : array [N], int
        `start_digests` of where they began.
    """

    arm: Arm
    plans: IntArray
    model_steps: IntArray
    starts: IntArray

    def __post_init__(self) -> None:
        for name in COUNTS:
            values = np.array(getattr(self, name), dtype=np.int64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
            if values.shape != self.arm.successes.shape:
                raise ValueError(f"need {name} of every episode, got shape {values.shape}")
        if (
            not self.arm.episodes
            or (np.diff(self.arm.indices) != 1).any()
            or (self.plans < 1).any()
        ):
            raise ValueError(f"need plans in consecutive episodes, got {self.arm.indices}")

    def first(self, episodes: int, *, level: float) -> Arm:
        """Return the arm of the first 1 to ``N`` episodes, as a run of so many would have ended.

        Its times are those of the stored run: latencies are of all its decisions, seconds in
        proportion to the episodes. ``level`` is the coverage of its interval, in (0, 1).
        """
        arm = self.arm
        if not 1 <= episodes <= arm.episodes:
            raise ValueError(f"need 1 to {arm.episodes} episodes, got {episodes}")
        columns = {name: values[:episodes] for name, values in _columns(arm).items()}
        decisions, imagined = (int(c[:episodes].sum()) for c in (self.plans, self.model_steps))
        columns.update(level=level, decisions=decisions, rollout_steps=imagined / decisions)
        return replace(arm, **columns, seconds=arm.seconds * episodes / arm.episodes)

    def begins_at(self, states: FloatArray) -> bool:
        """Say whether the episodes began at these starts [M, S], as far as both go."""
        common = min(self.arm.episodes, len(states))
        return np.array_equal(self.starts[:common], start_digests(states[:common]))

    def followed_by(self, more: StoredArm) -> StoredArm:
        """Return these episodes and the next ones, or raise ValueError if ``more`` are others.

        Latencies are those of the part with more episodes; seconds add up.
        """
        columns = _columns(self.arm, more.arm)
        counts = {n: np.concatenate([getattr(self, n), getattr(more, n)]) for n in COUNTS}
        longer = max(self.arm, more.arm, key=lambda arm: arm.episodes)
        seconds = self.arm.seconds + more.arm.seconds
        joined = StoredArm(arm=replace(longer, **columns, seconds=seconds), **counts)
        # The decisions are still those of one part.
        return replace(joined, arm=joined.first(joined.arm.episodes, level=self.arm.level))


def spot_check(arm: Arm, *, rng: np.random.Generator, run: Callable[[IntArray], Arm]) -> str | None:
    """Run two episodes again; say in one line what differs from a stored arm, None if nothing.

    ``arm`` is as much of the stored one as is to be used, and ``run`` maps one or two of its rows,
    rising, to an arm of these episodes alone. Give another ``rng`` each time: it picks the rows.
    """
    rows = np.sort(rng.choice(arm.episodes, size=min(2, arm.episodes), replace=False))
    again = run(rows)
    before, now = encode(arm), encode(again)
    for place, row in enumerate(rows):
        for name in OUTCOMES:
            old, new = before[name] and before[name][row], now[name] and now[name][place]
            if old != new:
                return (
                    f"the stored {arm.name} arm could not be repeated: {name} of episode "
                    f"{arm.indices[row]} was {old!r} and is now {new!r}"
                )
        if arm.actions and not np.array_equal(arm.actions[row], again.actions[place]):
            return (
                f"the stored {arm.name} arm could not be repeated: episode {arm.indices[row]} ends "
                f"as it did, by other actions"
            )
    return None


def start_digests(states: FloatArray) -> IntArray:
    """Return a number [N] for each start [N, S], of its exact bits."""
    rows = np.asarray(states, dtype=np.float64)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=7).digest() for row in rows]
    return np.array([int.from_bytes(digest) for digest in digests], dtype=np.int64)


def _columns(*arms: Arm) -> dict[str, Any]:
    names = [name for name in OUTCOMES if getattr(arms[0], name) is not None]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(arm, name) for arm in arms]) for name in names
    }
    has_actions = all(arm.actions for arm in arms)
    columns["actions"] = (
        tuple(chain.from_iterable(arm.actions for arm in arms)) if has_actions else ()
    )
    return columns
