"""Gymnasium: environments of users and of the registry.

The only room that imports gymnasium, and not before a task is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_cpg.contracts import ActionSpace, BoolArray, FloatArray, IntArray
from pytest_cpg.contracts.lookup import unknown_name
from pytest_cpg.tasks.options import BUDGET, TaskOptions, check_score, rated
from pytest_cpg.tasks.pixels import Drawing, Pixels, check_plain, resized
from pytest_cpg.tasks.renderer import Frames

__all__ = ["gym_task"]


if TYPE_CHECKING:
    from pytest_cpg.tasks.gymnasium.world import World
    from pytest_cpg.tasks.recordings import Recording

# Steps beyond the budget, which are tried where a gate asks why starts were lost.
_BEYOND = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GymnasiumTask:
    """An environment of gymnasium's; see `Task`.

    Attributes
    ----------
    budget, action_repeat, threshold, least_return
        See `TaskOptions`. With a threshold of None no step succeeds, and returns are what can be
        compared.
    score_of : callable or None
        The user's score of observations [..., O]; None rates states by their distance to the goal
        where there is one, else by the reward.
    success_of : callable or None
        The user's success of observations [..., O]; None takes the threshold or, without, what the
        environment tells.
    """

    world: World = field(repr=False)
    name: str
    actions: ActionSpace
    observation_size: int
    budget: int = BUDGET
    action_repeat: int = 1
    threshold: float | None = None
    least_return: float | None = None
    score_of: Callable[[FloatArray], FloatArray] | None = None
    success_of: Callable[[FloatArray], BoolArray] | None = None
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        options = TaskOptions.of(self)
        options.check()
        check_score(self.score_of)
        usual = TaskOptions(action_repeat=1)
        object.__setattr__(self, "name", options.named(self.name, usual=usual))

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's; None for code that no version stands for."""
        is_own = self.score_of is None and self.success_of is None
        return self.world.cache_key if is_own else None

    @property
    def tells_success(self) -> bool:
        """Whether anything tells when an episode has succeeded."""
        goals = (self.threshold, self.least_return, self.success_of)
        return self.world.info_tells or any(goal is not None for goal in goals)

    @property
    def succeeds_by(self) -> str | None:
        """What tells success; None where it is a reward or a return."""
        if self.threshold is not None or self.least_return is not None:
            return None
        key = self.world.success_key
        told = key if key in (None, "terminated") else f"info[{key!r}]"
        return "your function success=" if self.success_of is not None else told or "info"

    @property
    def observation_keys(self) -> Mapping[str, int] | None:
        """How many numbers each part of an observation has; None where it has but one."""
        return self.world.observation_keys if len(self.world.observation_keys) > 1 else None

    @property
    def has_goal(self) -> bool:
        """Whether observations hold a goal that states are rated by their distance to."""
        return self.score_of is None and self._goal_and_reached is not None

    @property
    def goal(self) -> Callable[[FloatArray], FloatArray] | None:
        """Returns the goals [..., G] of states [..., S], where they have any."""
        pair = self._goal_and_reached
        return None if pair is None else lambda states: self.observe(states)[..., pair[0]]

    @property
    def restored_by(self) -> str:
        """The way in which the environment is put back into a state."""
        return self.world.restored_by

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step; 1 where the environment does not tell."""
        return self.world.period * self.action_repeat

    def beginning_in(self, recording: Recording) -> GymnasiumTask:
        """Return the task each of whose starts is the recorded step that its seed stands for."""
        return replace(self, world=self.world.beginning_in(recording))

    def recorded(self, states: FloatArray, rows: IntArray) -> FloatArray:
        """Return observations [N, O] at recorded steps [N] of the episodes of starts [N, S].

        What an episode has of its own, such as a goal, is the start's.
        """
        observed, columns = self.observe(states), self.world.recorded_columns
        if (recording := self.world.recording) is not None:
            observed[:, columns] = recording.arrays["observations"][rows[:, None], columns]
        return observed

    @property
    def hides_goal(self) -> bool:
        """Whether frames show nothing of the environment's goal, which is drawn by itself."""
        return self.world.hides_goal

    def recorded_goals(self, states: FloatArray) -> FloatArray:
        """Return states [N, S] of goals, recorded or its own, of episodes with starts [N, S]."""
        goals = np.zeros_like(states)
        goals[:, 0] = -1 - states[:, 0]
        return goals

    def reset(self, seeds: IntArray) -> FloatArray:
        """Return the start of each seed [N], as `reset(seed=...)` gives it: states [N, S]."""
        steps = (self.budget + _BEYOND) * self.action_repeat
        return np.stack([self.world.begin(int(seed), steps) for seed in seeds])

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        after = np.empty(states.shape)
        for row, (state, action) in enumerate(zip(states, actions, strict=True)):
            after[row] = self.world.step(state, action, self.action_repeat)
        return after

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        # What is not written to takes no memory: the steps that led to imagined states are many.
        after = np.zeros((*actions.shape[:2], states.shape[1]))
        if not len(states):
            return after
        # Plans from one state follow one another.
        bits = np.ascontiguousarray(states).view(np.int64)
        is_new = np.append(True, (bits[1:] != bits[:-1]).any(axis=1))
        first = np.append(np.flatnonzero(is_new), len(states))
        for begin, end in pairwise(first.tolist()):
            if self.world.is_lost(states[begin]):
                after[begin:end] = np.nan
            else:
                imagined = self.world.imagine(states[begin], actions[begin:end], self.action_repeat)
                after[begin:end, :, -self.world.tail :] = imagined
        return after

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O]."""
        return np.array(states[..., self.world.seen])

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by the user's score, or by distance to the goal."""
        if self.score_of is None and (pair := self._goal_and_reached) is not None:
            away = observations[..., pair[0]] - observations[..., pair[1]]
            return np.asarray(np.linalg.norm(away, axis=-1))
        call = f"gym_task({self.world.title!r}" if self.world.spec else "gym_task(make"
        return rated(self, observations, call=call, room="gymnasium")

    def score_states(self, states: FloatArray) -> FloatArray:
        """Rate states [..., S]: by distance to the goal, or minus the reward of the last step."""
        if self.score_of is not None or self.has_goal:
            return self.score(self.observe(states))
        return np.asarray(-states[..., -4])

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the reward [...], summed over repeats, of steps that ended in states [..., S]."""
        del actions
        return np.array(states[..., -4])

    def terminated(self, states: FloatArray) -> BoolArray:
        """Say of states [..., S] whether the environment has terminated: bool [...]."""
        return np.asarray(states[..., -1] == 1)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether steps succeeded [...]: by reward, by observations, or as info tells."""
        del actions
        if self.threshold is not None:
            return np.asarray(states[..., -3] >= self.threshold)
        if self.success_of is not None:
            return np.asarray(self.success_of(self.observe(states)))
        return np.asarray(states[..., -2] == 1)

    def drawing(self, pixels: Pixels) -> Drawing:
        """Return what draws states [B, S] by the environment's own render, resized."""
        check_plain(self, pixels)
        world = self.world.to_draw(pixels.size)

        def draw(states: FloatArray) -> Frames:
            return resized(self, [world.draw(state) for state in states], pixels)

        return Drawing(draw, lambda: "the environment's own")

    @property
    def _goal_and_reached(self) -> tuple[slice, slice] | None:
        """Where an observation [O] has the goal, and what is to become equal to it."""
        at: dict[str, slice] = {}
        begin = 0
        for name, size in self.world.observation_keys.items():
            at[name], begin = slice(begin, begin + size), begin + size
        for goal, reached in (("desired_goal", "achieved_goal"), ("goal", "observation")):
            if goal in at and reached in at:
                sizes = [at[name].stop - at[name].start for name in (goal, reached)]
                return (at[goal], at[reached]) if sizes[0] == sizes[1] else None
        return None


def gym_task(
    make: str | Callable[[], Any],
    *,
    name: str = "",
    budget: int | None = None,
    action_repeat: int = 1,
    threshold: float | None = None,
    least_return: float | None = None,
    score: str | Callable[[FloatArray], FloatArray] | None = None,
    success: str | Callable[[FloatArray], BoolArray] | None = None,
    options: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None = None,
) -> GymnasiumTask:
    """Return an environment as a task.

    Raises ComponentError when it is unknown, has spaces that are no flat boxes or lists, or cannot
    be put back.

    Parameters
    ----------
    make : str or callable
        An id of gymnasium's, ``"Hopper-v5"``, with a module that registers it in front,
        ``"ogbench:cube-single-v0"``, or what makes an environment, without a time limit.
    name : str, optional
        Printed in reports; by default ``gym:`` and the id.
    budget : int, optional
        Steps of an episode; by default the id's ``max_episode_steps``, or 500.

    success : str or callable, optional
        What a success is: ``"terminated"``, a key of info, or a function of observations [..., O].
        By default what ``info["is_success"]`` or ``info["success"]`` says, if there is one.
    score : str or callable, optional
        How near to its goal a state is, lower is nearer: ``"path"``, the length of the shortest
        path on the map that the environment shows, ``"carry"``, for a cube of OGBench's, or a
        function of observations [..., O].
    options : mapping or callable, optional
        What every start is reset with, ``{"task_id": 1}``, or a function of its seed.

    All others are options of `GymnasiumTask`.
    """
    from pytest_cpg.tasks.gymnasium.scores import SCORES
    from pytest_cpg.tasks.gymnasium.world import world_of

    if not (success is None or isinstance(success, str) or callable(success)):
        raise ValueError(
            f'success: need "terminated", a key of info, or a function of observations [..., O], '
            f"got {success!r}"
        )
    if not (options is None or isinstance(options, Mapping) or callable(options)):
        raise ValueError(
            f'options: need what reset(options=) takes, such as {{"task_id": 1}}, or a function '
            f"of the seed, got {options!r}"
        )
    word = score if isinstance(score, str) else None
    if word is not None and word not in SCORES:
        raise unknown_name("score", "", word, SCORES)
    key = success if isinstance(success, str) else None
    world = world_of(make, options, key)
    of_resets = dict(options) if isinstance(options, Mapping) else {}
    settings = {"success": key, "score": word} | of_resets
    settled = "".join(f",{name}={value}" for name, value in settings.items() if value is not None)
    limit = None if world.spec is None else world.spec.max_episode_steps
    return GymnasiumTask(
        world=world,
        name=name or f"gym:{world.title}{settled}",
        actions=world.actions,
        observation_size=world.observed,
        budget=(limit or BUDGET) if budget is None else budget,
        action_repeat=action_repeat,
        threshold=threshold,
        least_return=least_return,
        score_of=score if word is None else world.score_by(word),  # type: ignore[arg-type]
        success_of=success if callable(success) else None,
        versions=world.versions,
    )
