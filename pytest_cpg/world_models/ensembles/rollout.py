"""Rollout: an ensemble's steps taken one after the other, every member on its own way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, ImaginationError
from pytest_cpg.contracts.world_model import Act, Imagined
from pytest_cpg.world_models.transitions import Transitions

Terminated: TypeAlias = Callable[[FloatArray], BoolArray]


class Stepped(NamedTuple):
    """One step of every member: [E, B, O], [E, B] and, where it is predicted, [E, B]."""

    observations: FloatArray
    rewards: FloatArray
    terminated: BoolArray | None = None


# Maps observations [E, B, O], actions [E, B, A] and, for a model that draws, noise to one step.
Step: TypeAlias = Callable[..., Stepped]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClipBounds:
    """What predictions are clipped to: observations [O] and rewards.

    A model asked far from its data says anything.
    """

    low: FloatArray
    high: FloatArray
    lowest_reward: float = -np.inf
    highest_reward: float = np.inf

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = np.array(getattr(self, name), dtype=np.float64)
            bound.flags.writeable = False
            object.__setattr__(self, name, bound)
        if self.low.ndim != 1 or self.low.shape != self.high.shape:
            raise ValueError(f"need two bounds [O], got {self.low.shape} and {self.high.shape}")
        if not (self.low <= self.high).all() or not self.lowest_reward <= self.highest_reward:
            raise ValueError(
                f"need low <= high, got {self.low} and {self.high}, rewards "
                f"{self.lowest_reward} and {self.highest_reward}"
            )

    @classmethod
    def of(cls, transitions: Transitions) -> ClipBounds:
        """Return the least and the largest observations, before a step and after it.

        Without those that ended an episode, bounds would clip every fall away.
        """
        seen = np.concatenate([transitions.observations, transitions.next_observations])
        rewards = transitions.rewards
        return cls(
            low=seen.min(axis=0),
            high=seen.max(axis=0),
            lowest_reward=-np.inf if rewards is None else float(rewards.min()),
            highest_reward=np.inf if rewards is None else float(rewards.max()),
        )

    def admits(self, terminated: Terminated, observations: FloatArray) -> bool:
        """Say whether any observation [B, O] can end an episode within these bounds.

        Each is moved to either bound in each column alone.
        """
        inside = np.clip(observations, self.low, self.high)
        tried = [inside]
        for column in range(inside.shape[1]):
            for bound in (self.low, self.high):
                moved = inside.copy()
                moved[:, column] = bound[column]
                tried.append(moved)
        return bool(np.asarray(terminated(np.concatenate(tried))).any())


def imagine(
    step: Step,
    observations: FloatArray,
    act: Act,
    horizon: int,
    *,
    terminated: Terminated | None = None,
    clip_bounds: ClipBounds | None = None,
    draw: Callable[[], FloatArray] | None = None,
) -> Imagined:
    """Return what every member imagines from observations [E, B, O].

    A row that has ended stays where it did, and earns nothing more; the reward of the step that
    ended it counts, as in a simulator. It ends where the step says so, or ``terminated`` of its
    observation. ``draw`` gives the noise [E, B, noise_size] of one step. Raises WorldModelError
    when a member predicts what is not finite, naming member, row and step.
    """
    current = np.array(observations)
    shape = (*current.shape[:2], horizon)
    rewards = np.zeros(shape, dtype=current.dtype)
    after = np.empty((*shape, current.shape[2]), dtype=current.dtype)
    ended = np.zeros(shape, dtype=bool)
    over = np.zeros(shape[:2], dtype=bool)
    for t in range(horizon):
        actions = np.asarray(act(t, current))
        stepped = step(current, actions, *(() if draw is None else (draw(),)))
        observations, earned = stepped.observations, stepped.rewards
        if clip_bounds is not None:
            observations = np.clip(observations, clip_bounds.low, clip_bounds.high)
            earned = np.clip(earned, clip_bounds.lowest_reward, clip_bounds.highest_reward)
        # What is too large for the model's kind of numbers is none there.
        with np.errstate(over="ignore"):
            stepped = stepped._replace(
                observations=observations.astype(current.dtype),
                rewards=earned.astype(current.dtype),
            )
        _check_finite(stepped, over, t)
        rewards[:, :, t] = np.where(over, 0.0, stepped.rewards)
        current = np.where(over[..., None], current, stepped.observations)
        if stepped.terminated is not None:
            over = over | stepped.terminated
        if terminated is not None:
            over = over | np.asarray(terminated(current), dtype=bool)
        after[:, :, t], ended[:, :, t] = current, over
    return Imagined(rewards, after, ended)


def _check_finite(stepped: Stepped, over: BoolArray, t: int) -> None:
    """Raise WorldModelError for a number that is none, in a row that has not ended."""
    finite = np.isfinite(stepped.observations).all(axis=-1) & np.isfinite(stepped.rewards)
    broken = np.argwhere(~finite & ~over)
    if not len(broken):
        return
    member, row = broken[0]
    observation = stepped.observations[member, row]
    what = f"reward {stepped.rewards[member, row]}"
    if not np.isfinite(observation).all():
        column = int(np.flatnonzero(~np.isfinite(observation))[0])
        what = f"{observation[column]} as number {column} of the next observation"
    raise ImaginationError(what, member=int(member), row=int(row), step=t + 1)
