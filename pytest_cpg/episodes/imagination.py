"""Imagination: what a planner asks of a world in one arm, counted and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BrokenModelError,
    CpgError,
    FloatArray,
    IntArray,
    WorldModelError,
)
from pytest_cpg.world_models import BoundModel

# What is not asked of a state some steps ahead.
_NOW = ("encode", "update", "the cost of a plan")
_NUMBERS = {"nan": "NaN", "inf": "infinity", "-inf": "minus infinity"}
_BROKEN = "Often diverged weights or a missing normalisation."
# Predictions that are so many times as large as what they began with have left what is known.
_GROWN = 10.0


class Imagination:
    """The planning model given to a planner: it counts, checks, and says whose rows are whose."""

    def __init__(self, arm: str, actions: ActionSpace, model: BoundModel) -> None:
        self.actions = actions
        self.steps = 0
        self._arm = arm
        self._model = model
        self._episodes: IntArray = np.arange(0)
        self._taken: IntArray = np.arange(0)
        self._noise: Sequence[np.random.Generator] = ()
        self._update = model.update
        self.noise_size = model.noise_size
        self._may_diverge = model.may_diverge
        self.has_noisy_policy = model.has_noisy_policy

    @property
    def is_recurrent(self) -> bool:
        """Whether latents are carried across real steps."""
        return self._update is not None

    def plans_for(
        self, episodes: IntArray, taken: IntArray, noise: Sequence[np.random.Generator] = ()
    ) -> None:
        """Begin a round for these episodes [N], which have taken so many steps [N].

        A stochastic model draws from the stream of each; without them it imagines the noise 0.
        """
        self._episodes, self._taken, self._noise = episodes, taken, noise

    def update(self, latents: FloatArray, actions: FloatArray, states: FloatArray) -> FloatArray:
        """Carry latents [N, Z] across real steps by actions [N, A] to states [N, S]."""
        if self._update is None:
            raise ValueError("need a recurrent model to carry latents")
        return self._ask(self._update, "update", latents, actions, states)

    def encode(self, states: FloatArray) -> FloatArray:
        """Map simulator states [N, S] to latents [N, Z]."""
        return self._ask(self._model.encode, "encode", states)

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Imagine; see `PlanningModel.rollout`."""
        if len(actions) % len(self._episodes):
            raise CpgError(
                f"a planner asked for {len(actions)} rows, which is no multiple of the "
                f"{len(self._episodes)} episodes it plans for."
            )
        self.steps += actions.shape[0] * actions.shape[1]
        return self._ask(self._model.rollout, "rollout", latents, actions, *self._drawn(actions))

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate; see `PlanningModel.score`."""
        scores = self._ask(self._model.score, "score", latents)
        if np.isnan(scores).any():
            self._raise_broken("score", scores)
        return scores

    def plan_costs(self, latents: FloatArray, plans: FloatArray, lengths: IntArray) -> FloatArray:
        """Imagine and rate; see `PlanCosts.plan_costs`."""
        model, flat = self._model, plans.reshape(-1, *plans.shape[2:])
        self.steps += flat.shape[0] * flat.shape[1]
        drawn = self._drawn(flat)
        noise = [part.reshape(*plans.shape[:3], -1) for part in drawn]
        costs = self._call(model.plan_costs, "the rating of plans", latents, plans, lengths, *noise)
        if np.isnan(costs).any() or not (self._may_diverge or np.isfinite(costs).all()):
            if not model.has_own_cost:
                # Asked for every step, to say how far ahead.
                begun = np.repeat(latents, plans.shape[1], axis=0)
                self.score(self._ask(model.rollout, "rollout", begun, flat, *drawn))
            self._raise_broken("the cost of a plan", costs)
        return costs

    @property
    def observe(self) -> Callable[..., FloatArray] | None:
        """See `PlanningModel`."""
        method = self._model.observe
        return None if method is None else lambda latents: self._ask(method, "decode", latents)

    @property
    def policy_plans(self) -> Callable[..., FloatArray] | None:
        """See `Actor`; a plan of the policy counts as imagined up to its last action."""
        return self._counted(self._model.policy_plans, "policy", last=1)

    @property
    def plan_gradient(self) -> Callable[..., FloatArray] | None:
        """See `PlanningModel`; a plan that is differentiated counts as imagined once."""
        return self._counted(self._model.plan_gradient, "plan_gradient")

    @property
    def members(self) -> Sequence[Callable[..., FloatArray]] | None:
        """See `Members`; None of the true dynamics. Every member's plan counts as imagined."""
        if self._model.members is None:
            return None
        members = [self._counted(member, "rollout of a member") for member in self._model.members]
        return [*filter(None, members)]

    def _counted(
        self, method: Callable[..., FloatArray] | None, what: str, *, last: int = 0
    ) -> Callable[..., FloatArray] | None:
        if method is None:
            return None

        def ask(latents: FloatArray, plans: FloatArray, *more: FloatArray) -> FloatArray:
            self.steps += plans.shape[0] * (plans.shape[1] - last)
            return self._ask(method, what, latents, plans, *more)

        return ask

    def _drawn(self, actions: FloatArray) -> list[FloatArray]:
        """Return the noise of rows of plans [B, H, A], each episode's from its own stream."""
        if not self._noise or not self.noise_size:
            return []
        rows = len(actions) // len(self._episodes)
        shape = (rows, actions.shape[1], self.noise_size)
        return [np.concatenate([stream.standard_normal(shape) for stream in self._noise])]

    def _ask(
        self, method: Callable[..., FloatArray], what: str, *arguments: FloatArray
    ) -> FloatArray:
        """Call the model for numbers that are finite, unless it may diverge."""
        answer = self._call(method, what, *arguments)
        if not self._may_diverge and not np.isfinite(answer).all():
            self._raise_broken(what, answer, begun=arguments[0])
        return answer

    def _call(
        self, method: Callable[..., FloatArray], what: str, *arguments: FloatArray | IntArray
    ) -> FloatArray:
        """Call the model; its own exception goes on, with a note that says where it happened."""
        try:
            return method(*arguments)
        except WorldModelError as error:
            where = self._where(method, arguments, WorldModelError)
            raise WorldModelError(f"{where}: {what}: {error}") from error.__cause__
        # Whatever a user's model raises goes on unchanged, once it is said where that was.
        except Exception as error:
            error.add_note(
                f"pytest-cpg: raised by {what} in {self._where(method, arguments, type(error))}."
            )
            raise

    def _raise_broken(
        self, what: str, answer: FloatArray, begun: FloatArray | None = None
    ) -> NoReturn:
        """Name the first episode and step whose numbers are not finite, and what led there."""
        row, *inner = (int(place) for place in np.argwhere(~np.isfinite(answer))[0])
        index = row // max(1, len(answer) // len(self._episodes))
        episode, taken = int(self._episodes[index]), int(self._taken[index])
        value = _NUMBERS[str(answer[(row, *inner)])]
        has_steps = answer.ndim > 1 and what not in _NOW
        ahead = f", imagined step {inner[0] + 1} of {answer.shape[1]}" if has_steps else ""
        who = "The model" if self._arm == "learned" else f"The model of the arm {self._arm}"
        did, first, why = f"gave {value} for {what}", "", _BROKEN
        if what == "rollout":
            first = f" First {value}: number {inner[1] + 1} of {answer.shape[2]}."
            did = f"predicted {value}"
            if begun is not None:
                why = _why(begun[row], answer[row, : inner[0]])
        raise BrokenModelError(
            f"{who} {did}, so there is no verdict: episode {episode}, step {taken}{ahead}.{first}",
            why,
            f"{'it' if self._arm == 'learned' else who} {did} (episode {episode}, step {taken})",
            episode,
        )

    def _where(
        self,
        method: Callable[..., FloatArray],
        arguments: Sequence[FloatArray | IntArray],
        raised: type[Exception],
    ) -> str:
        """Find the first episode whose own rows raise the same; all of them if none does alone."""
        rows = max(1, len(arguments[0]) // len(self._episodes))
        for index, episode in enumerate(self._episodes):
            part = slice(index * rows, (index + 1) * rows)
            try:
                method(*(argument[part] for argument in arguments))
            # Only asks whether this episode raises too; the batch's own exception goes on.
            except raised:
                return f"the {self._arm} arm, episode {episode} at step {self._taken[index]}"
        return f"the {self._arm} arm, episodes {self._episodes[0]} to {self._episodes[-1]} together"


def _why(begun: FloatArray, before: FloatArray) -> str:
    """Say by the size of what went into a step, after others [T, Z], if predictions grew."""
    first = float(np.abs(begun).max(initial=0.0))
    if not len(before):
        return (
            f"{_BROKEN} It was the first step of a plan, from numbers up to {first:.3g}: suspect "
            f"the weights."
        )
    last = float(np.abs(before[-1]).max(initial=0.0))
    if last > _GROWN * max(first, 1.0):
        return (
            f"Predictions grew: the plan began with numbers up to {first:.3g}, and numbers up to "
            f"{last:.3g} went into that step."
        )
    sizes = f"numbers up to {last:.3g} went into that step, and the plan began with {first:.3g}"
    return f"{_BROKEN} Predictions had not grown: {sizes}."
