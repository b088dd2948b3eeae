"""Oracle: the true dynamics of a task, offered to a planner like any world model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_cpg.contracts import FloatArray, Task
from pytest_cpg.contracts.task import score_states


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
