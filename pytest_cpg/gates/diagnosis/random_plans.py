"""Random plans: what a model loses in truth by those among them that it likes best."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.contracts.streams import Purpose
from pytest_cpg.episodes.decisions import Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.diagnosis.true_steps import Step
from pytest_cpg.planners.objective import objective_of, rate

# Random plans of each state that are chosen from.
_PLANS = 16


class RandomPlans:
    """Random plans at some decisions, and what they cost in truth.

    Shapes: ``B`` plans of all decisions, ``H`` horizon.

    Attributes
    ----------
    rows : array [B], int
        Which decision each plan is of.
    """

    def __init__(self, design: Design, decisions: Decisions) -> None:
        self._task, self._objective = design.task, objective_of(design.planner)
        self._remaining = design.task.budget - decisions.at
        self.rows = np.repeat(np.arange(len(decisions.rows)), _PLANS)
        streams = decisions.streams(design.seed, Purpose.PLANS)
        drawn = design.task.actions.sample(streams, (_PLANS, design.planner.horizon))
        self.plans: FloatArray = drawn.reshape(len(self.rows), *drawn.shape[2:])
        states = np.ascontiguousarray(decisions.states[self.rows])
        self._begun = design.task.observe(states)
        self._true = self._costs(design.task.observe(design.task.rollout(states, self.plans)))

    def followed(self, step: Step) -> FloatArray:
        """Return what a step predicts along the plans, one after the other: [B, H, O]."""
        reached = [self._begun]
        for at in range(self.plans.shape[1]):
            reached.append(step(reached[-1], self.plans[:, at]))
        return np.stack(reached[1:], axis=1)

    def regret(self, predicted: FloatArray) -> float:
        """Return what choices by predictions [B, H, O] lose, as a share of a random plan's loss."""
        liked = self._costs(predicted)
        is_known = np.isfinite(self._true).all(axis=1)
        liked, true = liked[is_known], self._true[is_known]
        best = true.min(axis=1, initial=np.inf)
        # Of plans that are liked alike, one at random would be taken.
        is_liked = liked == liked.min(axis=1, keepdims=True, initial=np.inf)
        chosen = (true * is_liked).sum(axis=1) / is_liked.sum(axis=1)
        chance = (true.mean(axis=1) - best).sum()
        # Rounding may leave a part in 1e16 below 0.
        return max(0.0, float((chosen - best).sum() / chance)) if chance > 0 else 0.0

    def _costs(self, observations: FloatArray) -> FloatArray:
        """Return what plans cost [N, K] by what is observed along them [B, H, O]."""
        known = np.asarray(np.isfinite(observations).all(axis=-1))
        scores = self._task.score(np.where(known[..., None], observations, 0.0))
        scores = np.where(known, scores, np.inf).reshape(-1, _PLANS, self.plans.shape[1])
        return rate(scores, self._remaining, objective=self._objective)[0]
