"""Rating: how good a plan is in a model's own latents, by score, decoder, rewards or a cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray, IntArray, Task, WorldModelError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import StateScore
from pytest_cpg.contracts.world_model import (
    Cost,
    Decoder,
    Discount,
    Encoder,
    Reward,
    Score,
    TerminalValue,
)
from pytest_cpg.world_models.binding.callables import agree
from pytest_cpg.world_models.binding.conventions import ArrayFunction, binds, describe
from pytest_cpg.world_models.binding.tiling import method_of, tiled, together

NO_STEPS = (
    "scores of the steps of a plan were asked for, and the model has a cost of whole plans alone. "
    'Write planner=MPPI(objective="terminal") (from pytest_cpg.planners import MPPI), or add '
    "score(latents [..., Z]) -> [...] to the model."
)


# Steps whose rewards are asked for at once: what a network makes of more leaves the cache.
_STEPS = 4


class Rating(NamedTuple):
    """How latents are rated: by `score`, or by the rewards on the way there.

    A step's score is minus its reward, so that every objective means what it means with a task's
    score. With a value behind it, it is minus the return of a plan that ends there: all rewards
    and the value. Then a planner's latents are the model's own with two or three numbers behind
    them: what was earned, the discount of what comes next, and the value, if there is one. So the
    score of a step needs nothing but its latents, and a plan may be imagined in several pieces.
    """

    # What a model brings with it: nothing, "score", "decoder", "reward", "value".
    swapped: tuple[str, ...]
    # Maps the model's latents [B, H, Z] to distances [B, H]; None where `reward` rates.
    score: ArrayFunction | None = None
    # Maps latents [B, H, Z], actions [B, H, A] from there and latents after them to rewards [B, H].
    reward: ArrayFunction | None = None
    # Maps latents [B, H, Z] to the rewards expected from there on [B, H].
    value: ArrayFunction | None = None
    # Of a reward one step later, in (0, 1].
    discount: float = 1.0

    @property
    def rates_steps(self) -> bool:
        """Whether there is anything but a cost of whole plans."""
        return self.score is not None or self.reward is not None

    def begun(self, own: FloatArray) -> FloatArray:
        """Return the latents that a plan begins with, from the model's own [B, Z]."""
        # Nothing is earned yet, and no plan has led here whose end has a value.
        behind = [0.0, 1.0, 0.0][: self._behind]
        return np.concatenate([own, np.tile(behind, (len(own), 1))], axis=1) if behind else own

    def own(self, latents: FloatArray) -> FloatArray:
        """Return the model's own part of a planner's latents [..., Z]."""
        size = latents.shape[-1] - self._behind
        return np.ascontiguousarray(latents[..., :size]) if self._behind else latents

    def along(self, latents: FloatArray, actions: FloatArray, reached: FloatArray) -> FloatArray:
        """Return the planner's latents on a way from some of them [B, Z].

        ``reached`` [B, H, Z] are the model's own after each of the actions [B, H, A].
        """
        if self.reward is None:
            return reached
        before = np.concatenate([self.own(latents)[:, None], reached[:, :-1]], axis=1)
        rated = [self.reward(before, actions, reached)]
        if self.value is not None:
            rated.append(self.value(reached))
        return self.joined(latents, reached, *rated)

    def joined(
        self, latents: FloatArray, reached: FloatArray, rewards: FloatArray, *values: FloatArray
    ) -> FloatArray:
        """Return the planner's latents on a way that was rated: rewards, and values, [B, H]."""
        columns = self._columns(latents, rewards, *values)
        return np.concatenate([reached, *(column[..., None] for column in columns)], axis=2)

    def costs(
        self, latents: FloatArray, actions: FloatArray, reached: FloatArray, lengths: IntArray
    ) -> FloatArray:
        """Return the scores [B] of the last of so many steps [B], rating no more than they need.

        The other arguments are those of `along`.
        """
        rows, last = np.arange(len(reached)), lengths - 1
        ends = reached[rows, last][:, None]
        if self.reward is None:
            return np.asarray(self.scores(ends)[:, 0])
        begun = self.own(latents)
        if self.value is None:
            rewards = np.zeros(actions.shape[:2])
            before = np.where((last == 0)[:, None], begun, reached[rows, last - 1])[:, None]
            # The discount of each is made of all before it.
            rewards[rows, last] = self.reward(before, actions[rows, last][:, None], ends)[:, 0]
            return self.earned(latents, lengths, rewards)
        before = np.concatenate([begun[:, None], reached[:, :-1]], axis=1)
        parts = [slice(first, first + _STEPS) for first in range(0, actions.shape[1], _STEPS)]
        rated = [self.reward(before[:, p], actions[:, p], reached[:, p]) for p in parts]
        rewards = np.concatenate(rated, axis=1)
        return self.earned(latents, lengths, rewards, self.value(ends)[:, 0])

    def earned(
        self, latents: FloatArray, lengths: IntArray, rewards: FloatArray, *ends: FloatArray
    ) -> FloatArray:
        """Return the scores [B] of the last of so many steps [B] of plans from some latents [B, Z].

        By their rewards [B, H], and by the value of that last step [B] where there is one.
        """
        rows, last = np.arange(len(rewards)), lengths - 1
        values = [np.zeros(rewards.shape) for _ in ends]
        for value, end in zip(values, ends, strict=True):
            value[rows, last] = end
        columns = self._columns(latents, rewards, *values)
        earned, discount, *worth = (column[rows, last] for column in columns)
        return np.asarray(-(earned + discount * worth[0]) if worth else -earned)

    def _columns(
        self, latents: FloatArray, rewards: FloatArray, *values: FloatArray
    ) -> list[FloatArray]:
        """Return what stands behind the model's own latents after each step, [B, H] each."""
        earned, discount = (latents[:, -self._behind + place, None] for place in (0, 1))
        # Of each step's reward; the last is of what comes after all of them.
        weights = np.cumprod(
            np.concatenate([discount, np.full(rewards.shape, self.discount)], axis=1), axis=1
        )
        rewards = weights[:, :-1] * rewards
        # Without a value, what a short plan and a long one earned cannot be compared.
        earned = earned + np.cumsum(rewards, axis=1) if values else rewards
        return [earned, weights[:, 1:], *values]

    @property
    def _behind(self) -> int:
        """How many numbers stand behind the model's own latents."""
        return behind(self.swapped)

    def scores(self, latents: FloatArray) -> FloatArray:
        """Rate a planner's latents [B, H, Z]: scores [B, H], lower is better."""
        if self.score is not None:
            return self.score(latents)
        if self.reward is None:
            raise ComponentError(NO_STEPS)
        if self.value is None:
            return np.asarray(-latents[..., -2])
        earned, discount, value = np.moveaxis(latents[..., -3:], -1, 0)
        return np.asarray(-(earned + discount * value))


def behind(swapped: Sequence[str]) -> int:
    """Return how many numbers stand behind the own latents of a model with such a rating."""
    return ("reward" in swapped) * 2 + ("value" in swapped)


def rating_of(
    learned: Any, task: Task, latents: FloatArray, plans: FloatArray, imagined: FloatArray
) -> Rating:
    """Return how a model's plans are rated, checked on what it imagines.

    Raises WorldModelError when one of its functions breaks its contract, or there is nothing to
    rate latents by.
    """
    if has(learned, Score):
        return by_score(learned, imagined)
    if has(learned, Reward):
        before = np.concatenate([latents[:, None], imagined[:, :-1]], axis=1)
        return _by_rewards(learned, before, plans, imagined)
    if has(learned, TerminalValue):
        raise WorldModelError(
            f"{describe(learned)} has a terminal_value and no reward that leads there. Add "
            f"reward(latents [..., Z], actions [..., A]) -> [...], or rate by the value alone: "
            f"score(latents) that returns minus the value."
        )
    if has(learned, Decoder):
        promise = f"decode(latents [..., Z]) -> observations [..., {task.observation_size}]"
        decode = method_of(learned, promise, imagined)
        rate = task_score(task, decode(imagined))
        return Rating(("decoder",), lambda latents: rate(decode(latents)))
    if has(learned, Cost):
        return Rating(("score",))
    if imagined.shape[-1] != task.observation_size:
        raise WorldModelError(
            f"{describe(learned)} has neither a score, a reward nor a decode, so its latents must "
            f"be observations of size {task.observation_size}; they have size "
            f"{imagined.shape[-1]}. Add score(latents [..., {imagined.shape[-1]}]) -> [...] or "
            f"decode(latents) -> [..., {task.observation_size}]."
        )
    return Rating((), task_score(task, imagined))


def unrated(learned: Any, task: Task, imagined: FloatArray) -> Rating:
    """Return the rating of a model that is asked for predictions alone: it rates nothing.

    Latents of another size than observations, or of an encoder beside which something reads them,
    are the model's own.
    """
    reads = any(has(learned, part) for part in (Score, Reward, TerminalValue, Decoder, Cost))
    is_own = imagined.shape[-1] != task.observation_size or (reads and has(learned, Encoder))
    return Rating(("score",) if is_own else ())


def by_score(learned: Any, imagined: FloatArray) -> Rating:
    """Return the rating by a model's own score, checked on what it imagines [P, H, Z]."""
    promise = (
        "score(latents [..., Z]) -> distances to the goal [...]; what rates no plans needs another "
        "name"
    )
    return Rating(("score",), method_of(learned, promise, imagined))


def task_score(task: Task, probe: FloatArray) -> ArrayFunction:
    """Return the task's score of observations [B, H, O], such as these [P, H, O].

    A task without one raises its error.
    """
    is_rated_by_states = has(task, StateScore)
    if is_rated_by_states:
        # Said now, and not after the oracle arm has run.
        task.score(np.zeros((1, task.observation_size)))
    return tiled(
        lambda observations: np.asarray(task.score(observations), dtype=np.float64), probe=(probe,)
    )


def reads_both_ends(reward: Callable[..., Any]) -> bool:
    """Say whether a reward takes the latents after the actions, too: a third argument it needs."""
    return binds(reward, 2) is False


def _by_rewards(learned: Any, before: FloatArray, plans: FloatArray, after: FloatArray) -> Rating:
    """Return the rating by a model's own rewards, and by its value where it has one."""
    takes_both = reads_both_ends(learned.reward)
    names = ", reached [..., Z]" if takes_both else ""
    probe = (before, plans, after) if takes_both else (before, plans)
    promise = f"reward(latents [..., Z], actions [..., A]{names}) -> [...]"
    head = method_of(learned, promise, *probe)
    reward = head if takes_both else lambda before, actions, _: head(before, actions)
    rating = Rating(("reward",), reward=reward, discount=discount_of(learned))
    if not has(learned, TerminalValue):
        return rating
    rows = after.reshape(-1, after.shape[-1])
    worth = method_of(learned, "terminal_value(latents [B, Z]) -> [B]", rows)

    def value(latents: FloatArray) -> FloatArray:
        return worth(latents.reshape(-1, latents.shape[-1])).reshape(latents.shape[:-1])

    return rating._replace(swapped=("reward", "value"), value=value)


def discount_of(learned: Any) -> float:
    """Return what a reward one step later is worth, in (0, 1]."""
    stated = learned.discount if has(learned, Discount) else 1.0
    try:
        discount = float(stated)
    except (TypeError, ValueError):
        discount = float("nan")
    if not 0 < discount <= 1:
        raise WorldModelError(
            f"{describe(learned)} has the discount {stated!r}; give a number above 0 and at most "
            f"1, such as 0.99."
        )
    return discount


def cost_of(
    learned: Any, latents: FloatArray, plans: FloatArray, *noise: FloatArray
) -> ArrayFunction | None:
    """Return what maps latents [N, Z], plans [N, K, H, A], lengths [N] and noise to costs [N, K].

    Checked on latents [P, Z] and plans [P, H, A]. None for a model that has no cost.
    """
    # Of an adapter of our own, which is asked for the plans of an episode at once.
    episode_costs = getattr(learned, "episode_costs", None)
    if episode_costs is not None:
        whole = together(episode_costs, (latents, plans[:, None]))
        return _of_lengths(lambda latents, plans, _: whole(latents, plans))
    if not has(learned, Cost):
        return None
    names = f", noise [B, H, {noise[0].shape[-1]}]" if noise else ""
    promise = f"cost(latents [B, Z], plans [B, H, A]{names}) -> costs [B]"
    method = method_of(learned, promise, latents, plans, *noise)
    rows = by_rows(lambda latents, plans, _, *noise: method(latents, plans, *noise))
    return _of_lengths(rows)


def differs(
    cost: ArrayFunction,
    rating: Rating,
    latents: FloatArray,
    plans: FloatArray,
    imagined: FloatArray,
    *noise: FloatArray,
) -> bool:
    """Say whether a cost is another one than the score of a plan's last step."""
    if not rating.rates_steps:
        return True
    lengths = np.full(len(plans), plans.shape[1])
    drawn = (part[:, None] for part in noise)
    costs = cost(latents, plans[:, None], lengths, *drawn)
    return not agree(costs, rating.costs(rating.begun(latents), plans, imagined, lengths)[:, None])


def is_blind(
    cost: ArrayFunction, latents: FloatArray, plans: FloatArray, *noise: FloatArray
) -> bool:
    """Say whether a cost is one and the same for all of these plans [P, H, A], from any latent."""
    lengths, shape = np.full(len(latents), plans.shape[1]), (len(latents), len(plans))
    every = np.broadcast_to(plans, (len(latents), *plans.shape))
    drawn = (np.broadcast_to(part[:, None], (*shape, *part.shape[1:])) for part in noise)
    costs = cost(latents, np.ascontiguousarray(every), lengths, *drawn)
    return bool((costs == costs[:, :1]).all())


def _of_lengths(cost: Callable[..., FloatArray]) -> ArrayFunction:
    """Return a cost of plans that end after some of their actions."""

    def costs(
        latents: FloatArray, plans: FloatArray, lengths: IntArray, *noise: FloatArray
    ) -> FloatArray:
        scores = np.empty(plans.shape[:2])
        for length in np.unique(lengths):
            rows = lengths == length
            ended, *drawn = (part[rows][:, :, :length] for part in (plans, *noise))
            scores[rows] = cost(latents[rows], ended, lengths[rows], *drawn)
        return scores

    return costs


def by_rows(function: ArrayFunction) -> ArrayFunction:
    """Return what maps latents [N, Z], plans [N, K, H, A], lengths [N] and noise to [N, K].

    ``function`` is asked for all plans as rows, [N * K, ...].
    """

    def costs(
        latents: FloatArray, plans: FloatArray, lengths: IntArray, *noise: FloatArray
    ) -> FloatArray:
        count = plans.shape[1]
        rows = (part.reshape(-1, *part.shape[2:]) for part in (plans, *noise))
        begun, last = np.repeat(latents, count, axis=0), np.repeat(lengths, count)
        flat, *drawn = rows
        return function(begun, flat, last, *drawn).reshape(plans.shape[:2])

    return costs
