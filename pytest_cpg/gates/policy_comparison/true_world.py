"""True world: what recorded steps, or the queries' own simulator, say of a model and of labels.

A fault is a sentence or two, with what to do; empty where there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    ComponentError,
    CpgError,
    FloatArray,
    ImaginationError,
    WorldModelError,
)
from pytest_cpg.gates.policy_comparison.labels import verify_labels
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.gates.policy_comparison.result import LabelCheck, OneStep
from pytest_cpg.gates.policy_comparison.simulators import simulator_of
from pytest_cpg.world_models.ensembles.binding import BoundEnsemble
from pytest_cpg.world_models.transitions import Transitions

# As many steps tell a model that moves from one that does not.
_MOST_STEPS = 512
# A network that learned s' = s is off by rounding, and so a hair better in one case of two.
_LEAST_BETTER = 0.01
_MOST_SIMULATED = 100
# Of HalfCheetah's labels today's simulator confirms 94 %.
_LEAST_AGREEING = 0.75


def one_step_error(
    ensemble: BoundEnsemble, queries: PolicyQueries, training_data: Any
) -> OneStep | None:
    """Return how far one step is off; None where no true steps are known.

    They are the user's `Transitions`, or else of the queries' own simulator, where that is known.

    Raises CpgError when the user's steps have observations or actions of another size.
    """
    if isinstance(training_data, Transitions):
        steps, source = training_data, "training_data"
    else:
        simulated = _simulated(queries)
        if simulated is None:
            return None
        steps, source = simulated, "the queries' simulator"
    if source == "training_data":
        _check_sizes(steps, queries)
    rows = np.linspace(0, len(steps) - 1, min(len(steps), _MOST_STEPS)).astype(int)
    before, after = steps.observations[rows], steps.next_observations[rows]
    actions = np.repeat(steps.actions[rows][None], ensemble.members, axis=0)
    given = np.repeat(before[None], ensemble.members, axis=0)
    try:
        imagined = ensemble.rollout(given, lambda *_: actions, 1)
    except ImaginationError as error:
        place = f"in step {rows[error.row]} of {source}"
        raise WorldModelError(error.at(place)) from None
    predicted = imagined.observations[:, :, 0].mean(axis=0)
    spread = steps.observations.std(axis=0)
    return OneStep(
        learned=_error(predicted - after, spread),
        frozen=_error(before - after, spread),
        steps=len(rows),
        source=source,
    )


def _simulated(queries: PolicyQueries) -> Transitions | None:
    """Return the first step of some queries, where their simulator is known and installed."""
    opening = queries.opening("a")
    if queries.states_a is None or opening is None:
        return None
    try:
        simulator = simulator_of(queries.environment)
    except ComponentError:
        return None
    rows = np.linspace(0, len(queries) - 1, min(len(queries), _MOST_STEPS)).astype(int)
    inner, actions = simulator.begin(queries.states_a[rows]), opening[rows, 0]
    after, _, _ = simulator.step(inner, actions)
    return Transitions(
        observations=simulator.observe(inner),
        actions=actions,
        next_observations=simulator.observe(after),
    )


def _check_sizes(steps: Transitions, queries: PolicyQueries) -> None:
    pairs = {"observations": (steps.observations, queries.observations_a)}
    if queries.actions_a is not None:
        pairs["actions"] = (steps.actions, queries.actions_a)
    for what, (given, wanted) in pairs.items():
        if given.shape[1] != wanted.shape[-1]:
            raise CpgError(
                f"training_data has {what} of size {given.shape[1]}, and the queries of size "
                f"{wanted.shape[-1]}: return the Transitions of {queries.environment}"
            )


def _error(off: FloatArray, spread: FloatArray) -> float:
    """Return the root mean square of differences [T, O] in units of the spread [O]."""
    moves = spread > 0
    return float(np.sqrt(((off[:, moves] / spread[moves]) ** 2).mean())) if moves.any() else 0.0


def frozen_fault(found: OneStep | None) -> str:
    """Say that a step is predicted no better than by a world in which nothing moves."""
    if found is None:
        return ""
    if found.frozen == 0:
        return (
            f"Nothing moves in {found.steps} steps of {found.source}: each next observation is the "
            f"observation before it. A model trained on such steps learns to stand still."
        )
    if found.learned <= (1 - _LEAST_BETTER) * found.frozen:
        return ""
    return (
        f"One step is predicted no better than by leaving everything where it is: error "
        f"{found.learned:.3g}, and {found.frozen:.3g} without a model ({found.steps} steps of "
        f"{found.source}). Is the training target the next observation, and normalised alike in "
        f"training and in step()?"
    )


def label_check(queries: PolicyQueries) -> LabelCheck | None:
    """Simulate some queries again; None where they have no states, or there is no simulator."""
    if queries.states_a is None:
        return None
    try:
        found = verify_labels(queries, count=min(_MOST_SIMULATED, len(queries)))
    except ComponentError:
        return None
    return LabelCheck(agreeing=int((~found.flipped).sum()), simulated=len(found.rows))


def label_fault(found: LabelCheck | None) -> str:
    """Say that the true returns are none of this world."""
    if found is None or found.agreeing >= _LEAST_AGREEING * found.simulated:
        return ""
    return (
        f"Only {found.agreeing} of {found.simulated} labels are those of the queries' own "
        f"simulator, so that a right answer counts as wrong. Are the returns of sides a and b "
        f"swapped? verify_labels(queries) says which differ, relabelled(queries) mends them."
    )
