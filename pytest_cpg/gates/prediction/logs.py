"""Logs: recorded transitions, of which a model is asked without a simulator."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    BoxActions,
    FloatArray,
    IntArray,
    WorldModelError,
)
from pytest_cpg.gates.policy_comparison.logs import Episodes, read_episodes
from pytest_cpg.world_models.transitions import Transitions

_FEWEST = 100
# Stretches that are asked about.
_FEWEST_STRETCHES, _MOST_STRETCHES = 20, 500
# Pieces of long episodes stand in for episodes where there are fewer: an interval needs so many.
_FEWEST_CLUSTERS = 50
_ENDS = ("terminals", "timeouts", "terminations", "truncations")
_WANTED = (
    "a file .npz with observations, actions and next_observations, one in D4RL's layout (.hdf5), "
    "these arrays by name, Transitions or Episodes"
)


@dataclass(frozen=True, slots=True, eq=False)
class Logs:
    """Recorded steps, the world as far as they know it: what was observed is its state.

    Attributes
    ----------
    episodes : array [T]
        Which steps are no independent evidence: of one episode, or of one piece of a long one.
    follows : array [T]
        Whether a step goes on where the one before it led to.
    """

    transitions: Transitions
    episodes: IntArray
    follows: BoolArray
    name: str

    def __str__(self) -> str:
        parts = (self.transitions.observations, self.transitions.actions)
        digest = sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:8]
        return f"{self.name} ({len(self.transitions)} steps, {digest})"

    @property
    def actions(self) -> ActionSpace:
        """All actions between the least and the largest that were taken."""
        low, high = (end(self.transitions.actions, axis=0) for end in (np.min, np.max))
        return BoxActions(low, np.where(high > low, high, low + 1))

    @property
    def observation_size(self) -> int:
        """Numbers in one observation."""
        return int(self.transitions.observations.shape[1])

    def observe(self, states: FloatArray) -> FloatArray:
        """Return observations, as which states are given."""
        return states

    def stretches(self, steps: int) -> IntArray:
        """Return the rows [N, H] of all stretches of so many steps in a row."""
        breaks = np.cumsum(~self.follows)
        rows = np.arange(max(0, len(breaks) - steps + 1))[:, None] + np.arange(steps)
        return np.asarray(rows[breaks[rows[:, 0]] == breaks[rows[:, -1]]])

    def drawn(self, steps: int, *, seed: int) -> IntArray:
        """Return the rows [N, H] of some stretches; raise WorldModelError where there are few."""
        rows = self.stretches(steps)
        if len(rows) < _FEWEST_STRETCHES:
            raise WorldModelError(
                f"transitions: {self.name} has {len(rows)} stretches of {steps} steps in a row, "
                f"and {_FEWEST_STRETCHES} are needed. Record more, or ask for a shorter horizon."
            )
        rng = np.random.default_rng([seed, 4])
        size = min(_MOST_STRETCHES, len(rows))
        return rows[np.sort(rng.choice(len(rows), size=size, replace=False))]


def read_logs(source: Any) -> Logs:
    """Return recorded transitions; raise ValueError, with what to give, for anything else."""
    title = "logs"
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        title = path.name
        if not path.is_file():
            raise ValueError(f"there is no file {os.fspath(source)!r}. Give {_WANTED}")
        source = _npz(path) if path.suffix == ".npz" else read_episodes(path)
    if isinstance(source, Episodes):
        source, title = source.transitions, source.name if title == "logs" else title
    ends: BoolArray | None = None
    if isinstance(source, Mapping):
        source, ends = _of_arrays(source)
    if not isinstance(source, Transitions):
        raise ValueError(f"need {_WANTED}, got {source!r:.60}")
    count = len(source)
    if count < _FEWEST:
        raise ValueError(f"{title} has {count} transitions, and {_FEWEST} are needed. Record more")
    if (source.actions == source.actions[0]).all():
        raise ValueError(
            f"all actions of {title} are {source.actions[0]}, so that nothing tells what others "
            f"do. Record steps whose actions vary"
        )
    follows = np.r_[False, (source.next_observations[:-1] == source.observations[1:]).all(axis=1)]
    if ends is None:
        ends = source.terminations
    if ends is not None:
        follows[1:] &= ~ends[:-1]
    episodes = np.cumsum(~follows) - 1
    clusters = int(episodes[-1]) + 1
    if clusters < _FEWEST_CLUSTERS:
        episodes = np.unique(
            episodes * count + np.arange(count) // -(-count // _FEWEST_CLUSTERS),
            return_inverse=True,
        )[1]
    return Logs(source, episodes, follows, title)


def _npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:
        raise ValueError(f"cannot read {path} as .npz: {error}") from None


def _of_arrays(arrays: Mapping[str, Any]) -> tuple[Transitions, BoolArray | None]:
    """Return transitions by the names of D4RL, of `Transitions` or of Minari, and which end one."""
    missing = [name for name in ("observations", "actions") if name not in arrays]
    if missing:
        names = ", ".join(sorted(arrays)) or "no arrays"
        raise ValueError(f"there is no {missing[0]!r} among {names}. Give {_WANTED}")
    flat = {
        name: np.asarray(arrays[name]).reshape(len(arrays[name]), -1)
        for name in ("observations", "actions", "next_observations")
        if name in arrays
    }
    marks = [np.asarray(arrays[name]).reshape(-1).astype(bool) for name in _ENDS if name in arrays]
    ends = np.logical_or.reduce(marks) if marks else None
    if "next_observations" not in flat:
        if ends is None:
            raise ValueError(
                "there are neither next_observations nor ends of episodes, so nobody can tell "
                "where a step led to. Give next_observations [T, O], or timeouts [T], true at the "
                "last step of each episode"
            )
        # Where an episode's last step led to was not recorded.
        is_known = np.r_[~ends[:-1], False]
        flat["next_observations"] = np.roll(flat["observations"], -1, axis=0)[is_known]
        flat |= {name: flat[name][is_known] for name in ("observations", "actions")}
        ends = None
    return Transitions(**flat), ends
