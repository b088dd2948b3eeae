"""World model: a learned world, and what it may have beside its rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pytest_cpg.contracts.arrays import FloatArray
from pytest_cpg.contracts.task import Task


@runtime_checkable
class Dynamics(Protocol):
    """One step of a learned world, for ``B`` observations at once.

    Takes and returns numpy arrays or torch tensors.
    """

    def __call__(self, observations: Any, actions: Any) -> Any:
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""
        ...


@runtime_checkable
class WorldModel(Protocol):
    """A learned world that plans may be imagined in.

    Only `rollout` is needed. Latents are float arrays or tensors, or a dict or tuple of them with
    a row for each observation. A model may also have

    ``update(latents [B, Z], actions [B, A], observations [B, O]) -> latents [B, Z]``
        A memory: `encode` is asked at an episode's start only, and this once after every real
        step, also between two plans. Without it the model is encoded anew whenever it is planned.
    ``noise_size``, a whole number
        Of a stochastic model: `rollout` then takes a third argument, standard normal noise
        [B, H, noise_size] from a stream of each episode's own, and draws nothing itself. Zeros
        stand for what is most likely where one prediction is wanted.
    ``decode(latents [..., Z]) -> [..., O]``, in place of `score`
        The task's own score is then used on what it decodes.
    ``reward(latents [..., Z], actions [..., A]) -> [...]``, in place of `score`
        Of the actions taken in these latents; one that needs a third argument gets the latents
        they led to. The score of a step is then minus its reward, with a ``discount`` in (0, 1],
        by default 1, of each step that a plan has behind it.
    ``terminal_value(latents [B, Z]) -> [B]``, beside `reward`
        The score of a step is then minus the return of a plan that ends there: all rewards up to
        it, and this value of where it is by then.
    ``rates_states = False``
        It can only rate what a plan led to, not what `encode` gives: there is no third arm then.
    ``plan(latents [N, Z], rngs, remaining [N]) -> (actions [N, H, A], lengths [N])``
        A planner of its own, which replaces the gate's in the learned arm; it is asked for one
        episode at a time. See `Planner.plan`.
    """

    def encode(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to latents [B, Z]."""
        ...

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        ...

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate latents [..., Z] by distance to the goal [...]; lower is better."""
        ...


WorldModelFactory: TypeAlias = Callable[[Task], Any]
