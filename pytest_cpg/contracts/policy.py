"""Policy: what acts on observations by itself, without searching a world for its actions."""

from __future__ import annotations

from typing import Protocol

from pytest_cpg.contracts.arrays import FloatArray


class Policy(Protocol):
    """A function from what is observed to what is done.

    It is deterministic and without memory: an observation has one action, whatever was asked
    before and whatever else is in the batch.
    """

    def act(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to actions [B, A], in the simulator's own units."""


class StochasticPolicy(Protocol):
    """A policy whose actions also depend on the step, or on noise that it is given.

    It draws nothing itself: the same step and noise have the same action.

    Attributes
    ----------
    noise_size : int
        How many numbers ``D`` it is given for each action; 0 for a policy that sees the step alone.
    """

    noise_size: int

    def act(self, observations: FloatArray, step: int, noise: FloatArray) -> FloatArray:
        """Map observations [B, O] at a step, from 0, and normal noise [B, D] to actions [B, A]."""
