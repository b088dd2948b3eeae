"""Confidence: how sure a search is of the plans that it has chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    ComponentError,
    FloatArray,
    IntArray,
    PlanningModel,
    Plans,
)
from pytest_cpg.planners.search import choice_of, rate

_FEWEST_MEMBERS = 2
_NO_ENSEMBLE = (
    'confidence="disagreement" asks every member of an ensemble, and this model has {count}. Give '
    "an Ensemble([...]) or a SampledEnsemble of pytest_cpg.world_models with two members or more, "
    'or write confidence="elite-spread".'
)


def with_confidences(
    planner: Any,
    world_model: PlanningModel,
    latents: FloatArray,
    remaining: IntArray,
    plans: Plans,
    *,
    costs: FloatArray,
    elites: FloatArray,
) -> Plans:
    """Return plans with how sure their search is of them, where its ``confidence`` says by what.

    - "elite-spread": minus the standard deviation of the best plans' first actions, in units of the
      actions' range: whether what it likes best agrees on what to do now.
    - "value-gap": by how many standard deviations of the candidates' costs the best lies below
      their mean.
    - "disagreement": minus the standard deviation of what the members of an ensemble say that the
      chosen plan costs, in standard deviations of the candidates' costs. The true dynamics never
      disagree, and have 0. Raises ComponentError for a learned model with fewer than two members.

    Parameters
    ----------
    costs : array [N, K]
        Of the candidates of the first round, which nothing has drawn together yet.
    elites : array [N, E, H, A]
        The best of the last round.
    """
    if planner.confidence is None:
        return plans
    if planner.confidence == "elite-spread":
        return plans._replace(confidences=-_spread_of(elites[:, :, 0], world_model.actions))
    # A diverged plan says nothing of the others.
    finite = np.where(np.isfinite(costs), costs, np.nan)
    finite[np.isnan(finite).all(axis=1)] = 0.0
    deviation = np.nanstd(finite, axis=1)
    unit = np.where(deviation > 0, deviation, 1.0)
    if planner.confidence == "value-gap":
        lead = np.nanmean(finite, axis=1) - np.nanmin(finite, axis=1)
        return plans._replace(confidences=lead / unit)
    answers = _answers(planner, world_model, latents, plans.actions, remaining)
    return plans._replace(confidences=-answers.std(axis=0) / unit)


def _spread_of(firsts: FloatArray, actions: ActionSpace) -> FloatArray:
    """Return how far first actions [N, E, A] lie apart in their ranges [N]."""
    span = np.where(actions.high > actions.low, actions.high - actions.low, 1.0)
    return np.asarray((firsts / span).std(axis=1).mean(axis=-1))


def _answers(
    planner: Any,
    world_model: PlanningModel,
    latents: FloatArray,
    plans: FloatArray,
    remaining: IntArray,
) -> FloatArray:
    """Return what each member says that plans [N, H, A] cost [E, N]; one number of the truth."""
    rated = world_model.score
    members = getattr(world_model, "members", ())
    if members is None:
        return np.zeros((1, len(plans)))
    if len(members) < _FEWEST_MEMBERS:
        raise ComponentError(_NO_ENSEMBLE.format(count=len(members) or "none"))
    choice = choice_of(planner)
    scores = (rated(member(latents, plans)) for member in members)
    costs = [rate(score[:, None], remaining, **choice)[0][:, 0] for score in scores]
    return np.stack(costs)
