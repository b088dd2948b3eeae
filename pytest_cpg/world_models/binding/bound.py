"""Bound models: a world model as the episode loop calls it, and the truth rated as it rates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    FloatArray,
    IntArray,
    Planner,
    Task,
    WorldModelError,
)
from pytest_cpg.contracts.task import observed, score_states
from pytest_cpg.world_models.binding.conventions import ArrayFunction, binds
from pytest_cpg.world_models.binding.gradients import PlanGradient
from pytest_cpg.world_models.binding.rating import Rating, behind, by_rows
from pytest_cpg.world_models.binding.tiling import method_of, tile_of
from pytest_cpg.world_models.binding.torch_state import is_elsewhere

# Rows of a policy's call on a processor: a planner asks for a few plans of each episode, and step
# by step.
_TILE = 32


@dataclass(frozen=True, slots=True)
class OracleDynamics:
    """The true dynamics of a task: the value of the fixture `oracle_dynamics`.

    Its latents are full simulator states, so that nothing has to be reconstructed from
    observations and every imagined step is bit for bit what the environment would do.
    """

    task: Task

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states [B, S]."""
        return self.task.step(states, actions)

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to the states after each action [B, H, S]."""
        return self.task.rollout(states, actions)

    def score(self, states: FloatArray) -> FloatArray:
        """Rate states [..., S] by distance to the goal [...]; lower is better.

        A diverged state rates as plus infinity: the plan that led there is only never chosen.
        """
        scores = score_states(self.task, states).astype(np.float64)
        return np.where(np.isnan(scores), np.inf, scores)


class Acting:
    """A model's policy, and one step of its dynamics to follow it by, in the model's own latents.

    Both are checked on these rows when they are first asked: most planners ask neither.
    """

    def __init__(
        self, learned: Any, task: Task, latents: FloatArray, actions: FloatArray, noise_size: int
    ) -> None:
        self._learned, self._space, self._noise_size = learned, task.actions, noise_size
        self._latents, self._actions = latents, actions
        self.is_noisy = binds(learned.policy, 1) is False
        self._rows = tile_of(learned) if is_elsewhere(learned) else _TILE

    @cached_property
    def _act(self) -> ArrayFunction:
        """What maps latents [B, Z] and noise [B, A] to actions [B, A]."""
        size = self._space.size
        names = f", noise [B, {size}]" if self.is_noisy else ""
        drawn = [np.random.default_rng(0).standard_normal(self._actions.shape)] * self.is_noisy
        promise = f"policy(latents [B, Z]{names}) -> actions [B, {size}]"
        return method_of(self._learned, promise, self._latents, *drawn, rows=self._rows)

    @cached_property
    def _rollout(self) -> ArrayFunction:
        names = f", noise [B, 1, {self._noise_size}]" if self._noise_size else ""
        promise = f"rollout(latents [B, Z], actions [B, 1, A]{names}) -> latents [B, 1, Z]"
        probe = (self._latents, self._actions[:, None], *self._still(len(self._latents)))
        return method_of(self._learned, promise, *probe, rows=self._rows)

    def _still(self, count: int) -> list[FloatArray]:
        """Return the noise 0, of which a stochastic model imagines what is most likely."""
        return [np.zeros((count, 1, self._noise_size))] if self._noise_size else []

    def chosen(self, own: FloatArray, noise: FloatArray) -> FloatArray:
        """Return the possible actions [B, A] nearest to what the policy does in latents [B, Z]."""
        return self._space.nearest(self._act(own, *[noise] * self.is_noisy))

    def followed(self, own: FloatArray, noise: FloatArray) -> FloatArray:
        """Return what the policy does from latents [B, Z] on, with noise [B, H, A]: [B, H, A]."""
        plans = np.empty(noise.shape)
        for step in range(noise.shape[1]):
            if step:
                taken = plans[:, step - 1 : step]
                own = self._rollout(own, taken, *self._still(len(own)))[:, 0]
            plans[:, step] = self.chosen(own, noise[:, step])
        return plans


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentModel:
    """The functions of a model in its own latents, in tiles; states are the simulator's."""

    # Maps states [B, S] to latents [B, Z].
    encode: ArrayFunction
    # Maps latents [B, Z], the actions [B, A] executed there and the states [B, S] they led to.
    update: ArrayFunction | None
    # Maps latents [B, Z], actions [B, H, A] and, for a stochastic model, noise to [B, H, Z].
    rollout: ArrayFunction
    rating: Rating
    # Maps the planner's latents [..., Z] to observations [..., O].
    observe: ArrayFunction | None
    # Does what `rollout` and the rating do, at once, from the planner's latents to such latents.
    journey: ArrayFunction | None = None
    # Does what `rollout` and the rating of a plan's end do, at once; see `BoundModel.costs`.
    whole: ArrayFunction | None = None
    # So many are imagined and rated before the next ones, while they are in the cache; 0 for all.
    rows: int = 0
    acting: Acting | None = None
    # Of an ensemble: what `rollout` would be of each member alone.
    members: tuple[ArrayFunction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundModel:
    """A world model, learned or oracle, bound to a task.

    Every row's result is the same bits in any batch, order or position.
    """

    actions: ActionSpace
    #: Maps simulator states [B, S] to latents [B, Z].
    encode: ArrayFunction = field(repr=False)
    #: What `rollout` calls, with noise where the model draws it.
    imagine: ArrayFunction = field(repr=False)
    #: Rates latents [B, H, Z] by distance to the goal [B, H], float64; lower is better.
    score: ArrayFunction = field(repr=False)
    #: Maps latents [N, Z], plans [N, K, H, A], lengths [N] and noise to the scores [N, K] of the
    #: last of so many steps, or to the model's own costs. None for a world that rates any step.
    costs: ArrayFunction | None = field(default=None, repr=False)
    #: Whether costs are the model's own, of whole plans; whether `score` can be asked.
    has_own_cost: bool = False
    rates_steps: bool = True
    #: Maps latents [B, Z], the actions [B, A] executed there and the simulator states [B, S] they
    #: led to, to latents [B, Z]. None for a model without memory.
    update: ArrayFunction | None = field(default=None, repr=False)
    #: Maps latents [..., Z] to observations [..., O].
    observe: ArrayFunction | None = field(default=None, repr=False)
    #: What differs from the oracle arm: ``"dynamics"``, then ``"decoder"``, ``"score"`` or
    #: ``"reward"`` and ``"value"``, then ``"planner"``.
    swapped: tuple[str, ...] = ()
    #: Measured cost of one row and step of a model that takes one row at a time, else None.
    seconds_per_row: float | None = None
    #: Whether predictions never depend on actions though the task does; set by whoever asked.
    ignores_action: bool = False
    #: Normal numbers that a model draws in each imagined step; 0 for a deterministic one.
    noise_size: int = 0
    #: Whether states may be NaN without anything being wrong, as the true dynamics' may.
    may_diverge: bool = False
    #: What a reader of its verdict should know, a clause each.
    notes: tuple[str, ...] = ()
    #: The model's own, which plans in place of the gate's.
    planner: Planner | None = None
    #: The true dynamics, as this model sees and rates them: latents are simulator states with the
    #: model's own behind them. None for the truth itself, and where it rates plans alone. That of
    #: a witness with memory is the same without, which encodes every observation anew.
    witness: BoundModel | None = field(default=None, repr=False)
    #: Maps latents [B, Z] and standard normal noise [B, H, A], which counts where
    #: ``has_noisy_policy``, to what the model would do itself [B, H, A].
    policy_plans: ArrayFunction | None = field(default=None, repr=False)
    has_noisy_policy: bool = False
    #: What each member of an ensemble imagines alone, without noise: latents [B, Z] and actions
    #: [B, H, A] to latents [B, H, Z]. None of the true dynamics, which never disagree.
    members: tuple[ArrayFunction, ...] | None = field(default=(), repr=False)
    #: How its plans are differentiated, where that can be asked for.
    gradient: PlanGradient | None = field(default=None, repr=False)

    @property
    def rates(self) -> bool:
        """Whether it brings anything that rates, or that what is rated is read with."""
        return not {"score", "decoder", "reward", "value"}.isdisjoint(self.swapped)

    @property
    def rescored(self) -> BoundModel | None:
        """The true dynamics rated by this model, where that differs from the oracle."""
        return self.witness if self.rates else None

    @property
    def rates_plans_alone(self) -> bool:
        """Whether it has a rating of its own that true states cannot be given."""
        return self.rates and self.witness is None

    def described(self, latents: FloatArray) -> FloatArray:
        """Return what latents [..., Z] say of the world, without the rewards of a plan so far."""
        return latents[..., : latents.shape[-1] - behind(self.swapped)]

    @property
    def plan_gradient(self) -> ArrayFunction | None:
        """What differentiates plans, see `PlanGradient.function`; None where nothing does."""
        return self.gradient.function if self.gradient else None

    def rollout(
        self, latents: FloatArray, actions: FloatArray, noise: FloatArray | None = None
    ) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z].

        A stochastic model also reads standard normal ``noise`` [B, H, noise_size], by default 0.
        """
        return self.imagine(latents, actions, *self._noise(actions, noise))

    def plan_costs(
        self,
        latents: FloatArray,
        plans: FloatArray,
        lengths: IntArray,
        noise: FloatArray | None = None,
    ) -> FloatArray:
        """Return costs [N, K] of plans [N, K, H, A]; see `PlanCosts.plan_costs`.

        A stochastic model also reads noise [N, K, H, noise_size], by default 0.
        """
        drawn = self._noise(plans, noise)
        if self.costs is not None:
            return self.costs(latents, plans, lengths, *drawn)

        def last(
            latents: FloatArray, plans: FloatArray, lengths: IntArray, *noise: FloatArray
        ) -> FloatArray:
            ends = self.imagine(latents, plans, *noise)[np.arange(len(lengths)), lengths - 1]
            return self.score(ends[:, None])

        return by_rows(last)(latents, plans, lengths, *drawn)

    def _noise(self, actions: FloatArray, noise: FloatArray | None) -> list[FloatArray]:
        """Return what goes with actions [..., A]."""
        if not self.noise_size:
            return []
        return [np.zeros((*actions.shape[:-1], self.noise_size)) if noise is None else noise]


@dataclass(frozen=True, slots=True)
class Rescored:
    """Stands for the true dynamics, rated as a learned model rates: `bind` makes them of it.

    What is lost against the oracle is lost by its encoder and score; the rest by its dynamics.
    """

    learned: Any


def learned_of(model: Any) -> Any:
    """Return the learned model behind a `Rescored`, or the model itself."""
    return model.learned if isinstance(model, Rescored) else model


def witness(model: LatentModel, task: Task, state_size: int) -> BoundModel:
    """Return the true dynamics of a task, seen and rated as a model does what it imagines.

    Latents are simulator states with the model's own behind them. The model encodes every true
    observation on the way; one with memory carries it along. A diverged state rates as infinity.
    """
    rating = model.rating

    def joined(states: FloatArray, own: FloatArray) -> FloatArray:
        return np.concatenate([states, rating.begun(own)], axis=1)

    def update(latents: FloatArray, actions: FloatArray, states: FloatArray) -> FloatArray:
        own = rating.own(latents[:, state_size:])
        return joined(states, model.update(own, actions, states))  # type: ignore[misc]

    def imagined(
        latents: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return states [B, H, S], those that a model can be asked about, and which cannot."""
        states = np.ascontiguousarray(latents[:, :state_size])
        reached = task.rollout(states, actions)
        finite = np.isfinite(task.observe(reached)).all(axis=-1)
        lost = ~np.logical_and.accumulate(finite, axis=1)
        return reached, np.where(lost[..., None], states[:, None], reached), lost

    def followed(own: FloatArray, actions: FloatArray, states: FloatArray) -> FloatArray:
        """Return the model's latents [B, H, Z] along true states [B, H, S], from its own [B, Z]."""
        if model.update is None:
            flat = model.encode(states.reshape(-1, states.shape[-1]))
            reached = flat.reshape(*states.shape[:2], -1)
        else:
            reached = np.empty((*states.shape[:2], own.shape[1]))
            for step in range(states.shape[1]):
                own = model.update(own, actions[:, step], np.ascontiguousarray(states[:, step]))
                reached[:, step] = own
        _check(reached, "the model's encode" if model.update is None else "the model's update")
        return reached

    def rollout(latents: FloatArray, actions: FloatArray) -> FloatArray:
        reached, askable, lost = imagined(latents, actions)
        rated = latents[:, state_size:]
        own = followed(rating.own(rated), actions, askable)
        along = np.where(lost[..., None], np.nan, rating.along(rated, actions, own))
        return np.concatenate([reached, along], axis=2)

    def costs(latents: FloatArray, actions: FloatArray, lengths: IntArray) -> FloatArray:
        _, askable, lost = imagined(latents, actions)
        rows, rated = np.arange(len(lengths)), latents[:, state_size:]
        own, is_lost = rating.own(rated), lost[rows, lengths - 1]
        if model.update is None and rating.reward is None:
            # Nothing on the way is seen or rated.
            askable, lengths = askable[rows, lengths - 1][:, None], np.ones_like(lengths)
        scores = rating.costs(rated, actions, followed(own, actions, askable), lengths)
        _check(np.where(is_lost, 0.0, scores), "the model's rating")
        return np.where(is_lost, np.inf, scores)

    def policy_plans(latents: FloatArray, noise: FloatArray) -> FloatArray:
        begun, plans = rating.own(latents[:, state_size:]), np.empty(noise.shape)
        own = begun
        for step in range(noise.shape[1]):
            if step:
                # From the start each time: see `Task.rollout` on what can be gone on from.
                _, askable, _ = imagined(latents, plans[:, :step])
                own = followed(begun, plans[:, :step], askable)[:, -1]
            plans[:, step] = model.acting.chosen(own, noise[:, step])  # type: ignore[union-attr]
        _check(plans, "the model's policy")
        return plans

    def score(latents: FloatArray) -> FloatArray:
        rated = latents[..., state_size:]
        lost = np.isnan(rated).any(axis=-1)
        scores = rating.scores(np.where(np.expand_dims(lost, -1), 0.0, rated))
        _check(np.where(lost, 0.0, scores), "the model's rating")
        return np.where(lost, np.inf, scores)

    return BoundModel(
        actions=task.actions,
        swapped=rating.swapped,
        may_diverge=True,
        members=None,
        encode=lambda states: joined(states, model.encode(states)),
        imagine=rollout,
        score=score,
        costs=by_rows(costs),
        update=update if model.update else None,
        policy_plans=policy_plans if model.acting else None,
        has_noisy_policy=model.acting is not None and model.acting.is_noisy,
        observe=lambda latents: observed(task, np.ascontiguousarray(latents[..., :state_size])),
        witness=witness(replace(model, update=None), task, state_size) if model.update else None,
    )


def _check(values: FloatArray, what: str) -> None:
    """Raise WorldModelError for numbers that a model made of true states and that are none."""
    broken = ~np.isfinite(values)
    if broken.any():
        raise WorldModelError(
            f"{what} gave {values[broken][0]} for observations of the true dynamics. A model that "
            f"gives NaN or infinity cannot be planned with: look for diverged training or a "
            f"missing normalisation."
        )
