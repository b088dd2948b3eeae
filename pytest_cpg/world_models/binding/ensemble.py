"""Ensembles: several learned dynamics planned with as one, their mean or a member of each plan."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import NormalDist
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, WorldModelError
from pytest_cpg.contracts.arrays import rolled_out
from pytest_cpg.world_models.binding.callables import BatchedDynamics, adapt_dynamics
from pytest_cpg.world_models.binding.conventions import ArrayFunction, describe
from pytest_cpg.world_models.binding.tiling import tile_of, tiled, tiled_for

Combine: TypeAlias = Literal["mean", "sampled"]
Propagation: TypeAlias = Literal["TS1", "TSinf"]


class Ensemble:
    """Several dynamics of one world, as one world model.

    Raises ValueError when members are no sequence or none, or the way to combine them is unknown.

    Parameters
    ----------
    members : sequence
        Each is called ``dynamics(observations [B, O], actions [B, A]) -> [B, O]``; functions on
        numpy arrays, functions on tensors and torch modules may be mixed.
    combine : "mean" or "sampled"
        Predict the mean of the members' predictions at every step; or imagine each plan with one
        of the members, drawn from the episode's own stream (as TS-infinity of Chua et al. 2018).
    reward : callable, optional
        Called ``reward(observations [B, O], actions [B, A], next_observations [B, O]) -> [B]``, by
        gates that ask for returns, in place of the members' own rewards. The planning gap rates
        by the task.
    """

    def __init__(
        self,
        members: Sequence[Any],
        combine: Combine = "mean",
        *,
        reward: Callable[..., Any] | None = None,
    ) -> None:
        if combine not in get_args(Combine):
            raise ValueError(f"combine must be one of {get_args(Combine)}, got {combine!r}")
        if not isinstance(members, Iterable):
            raise ValueError(
                f"an Ensemble needs a list of dynamics, got {describe(members)}. Write "
                f"Ensemble([...])."
            )
        self.members, self.combine, self.reward = tuple(members), combine, reward
        if not self.members:
            raise ValueError("an Ensemble needs at least one member, got none")

    def __repr__(self) -> str:
        return f"Ensemble({len(self.members)} members, combine={self.combine!r})"

    @property
    def noise_size(self) -> int:
        """One number a step where members are drawn, and the first one of a plan draws."""
        return int(self.combine == "sampled")


def ensemble_rollout(
    ensemble: Ensemble, observations: FloatArray, actions: FloatArray, plans: FloatArray
) -> tuple[ArrayFunction, float | None]:
    """Return the rollout of an ensemble, and what a row costs where members take one at a time.

    Plans [P, H, A] are some to try it with. Raises WorldModelError, naming the member that is not
    usable.
    """
    members = []
    for number, member in enumerate(ensemble.members):
        if not callable(member) or isinstance(member, type | Ensemble):
            raise WorldModelError(
                f"member {number} of the Ensemble is {describe(member)}, which cannot be called as "
                f"dynamics(observations [B, O], actions [B, A])."
            )
        try:
            members.append(adapt_dynamics(member, observations, actions))
        except WorldModelError as error:
            raise WorldModelError(f"member {number} of the Ensemble: {error}") from error.__cause__
    costs = [member.seconds_per_row for member in members if member.seconds_per_row is not None]
    cost, probe = sum(costs) if costs else None, (observations, plans)
    if ensemble.combine == "mean":
        rollout = _mean_rollout(members)
        return (rollout if costs else tiled_for(ensemble, rollout, probe)), cost
    rollouts = [
        tiled_for(member, _mean_rollout([dynamics]), probe)
        if dynamics.seconds_per_row is None
        else _mean_rollout([dynamics])
        for member, dynamics in zip(ensemble.members, members, strict=True)
    ]
    return _sampled(rollouts), cost


def members_alone(
    model: Any, observations: FloatArray, actions: FloatArray
) -> tuple[ArrayFunction, ...]:
    """Return the rollout of each member of an ensemble; none of a single model."""
    alone = []
    for member in members_of(model):
        dynamics = adapt_dynamics(member, observations, actions)
        rollout = _mean_rollout([dynamics])
        # Few rows are asked for: which sizes give the same bits is not worth a trial.
        is_batched = dynamics.seconds_per_row is None
        alone.append(tiled(rollout, rows=tile_of(member)) if is_batched else rollout)
    return tuple(alone)


def _mean_rollout(members: Sequence[BatchedDynamics]) -> ArrayFunction:
    """Return the rollout that goes on from the mean of all predictions."""

    def step(observations: FloatArray, actions: FloatArray) -> FloatArray:
        predicted = [member.step(observations, actions) for member in members]
        # One after the other: the order of numpy's sums depends on the shape.
        return sum(predicted[1:], start=predicted[0]) / len(members)

    return partial(rolled_out, step)


def _equal_parts(count: int) -> list[float]:
    """Return what divides normal numbers into so many parts that are drawn equally often."""
    return [NormalDist().inv_cdf(part / count) for part in range(1, count)]


def _sampled(rollouts: Sequence[ArrayFunction]) -> ArrayFunction:
    """Return the rollout that imagines each row with the member its first noise stands for."""
    bounds = _equal_parts(len(rollouts))

    def rollout(observations: FloatArray, plans: FloatArray, noise: FloatArray) -> FloatArray:
        imagined = np.empty((*plans.shape[:2], observations.shape[1]))
        drawn: IntArray = np.searchsorted(bounds, noise[:, 0, 0])
        for member in np.unique(drawn):
            rows = np.flatnonzero(drawn == member)
            imagined[rows] = rollouts[member](observations[rows], plans[rows])
        return imagined

    return rollout


class SampledEnsemble:
    """A vectorised ensemble with means and variances, as one stochastic world model.

    A row goes on from a draw of one member's Gaussian (Chua et al. 2018, section 5). All that is
    random is noise from the episode's own stream.

    Parameters
    ----------
    predict : callable
        Maps observations [B, O] and actions [B, A] to means and variances of the next observations,
        [E, B, O] each, for ``E`` members; numpy arrays or torch tensors.
    members : int
        How many there are.
    observation_size : int
        Numbers in one observation, ``O``.
    propagation : "TS1" or "TSinf"
        Draw the member anew at every step, or once for a whole plan.
    """

    def __init__(
        self,
        predict: Callable[[Any, Any], tuple[Any, Any]],
        *,
        members: int,
        observation_size: int,
        propagation: Propagation = "TSinf",
    ) -> None:
        if propagation not in get_args(Propagation):
            raise ValueError(
                f"propagation must be one of {get_args(Propagation)}, got {propagation!r}"
            )
        if not callable(predict):
            raise ValueError(
                f"predict must map observations and actions to means and variances, got {predict!r}"
            )
        for name, count in (("members", members), ("observation_size", observation_size)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {count!r}")
        self.predict, self.members, self.propagation = predict, members, propagation
        self.observation_size = observation_size
        self._bounds = np.array(_equal_parts(members))

    def __repr__(self) -> str:
        return f"SampledEnsemble({self.members} members, {self.propagation})"

    @property
    def noise_size(self) -> int:
        """Numbers that it reads in each step: one for the member, the others for its Gaussian."""
        return 1 + self.observation_size

    def rollout(self, latents: Any, actions: Any, noise: Any) -> Any:
        """Map observations [B, O], actions [B, H, A] and noise to those after each action."""
        torch = sys.modules.get("torch")
        is_tensor = torch is not None and isinstance(latents, torch.Tensor)
        # A tensor's numbers are found by numpy on a processor alone.
        drawn = np.asarray(noise[..., 0].cpu() if is_tensor else noise[..., 0])
        if self.propagation == "TSinf":
            drawn = np.repeat(drawn[:, :1], drawn.shape[1], axis=1)
        chosen, rows = np.searchsorted(self._bounds, drawn), np.arange(len(drawn))
        reached = []
        for step in range(drawn.shape[1]):
            means, variances = self._predicted(latents, actions[:, step])
            places = (chosen[:, step], rows)
            latents = means[places] + variances[places] ** 0.5 * noise[:, step, 1:]
            reached.append(latents)
        return torch.stack(reached, 1) if torch and is_tensor else np.stack(reached, axis=1)

    def _predicted(self, observations: Any, actions: Any) -> tuple[Any, Any]:
        """Return means and variances [E, B, O], or raise WorldModelError."""
        answer = self.predict(observations, actions)
        expected = (self.members, *observations.shape)
        is_pair = isinstance(answer, tuple | list) and len(answer) == 2
        came = [tuple(np.shape(part)) for part in answer] if is_pair else type(answer).__name__
        if came != [expected, expected]:
            raise WorldModelError(
                f"{describe(self.predict)} gave {came}: return means and variances, {expected} each"
            )
        return answer[0], answer[1]


def members_of(model: Any) -> tuple[Any, ...]:
    """Return the dynamics that a model is made of, each as one by itself; none of a single one."""
    if isinstance(model, Ensemble):
        return model.members
    if isinstance(model, SampledEnsemble):
        return tuple(partial(_mean_of, model.predict, member) for member in range(model.members))
    return ()


def _mean_of(predict: Callable[[Any, Any], Any], member: int, states: Any, actions: Any) -> Any:
    return predict(states, actions)[0][member]
