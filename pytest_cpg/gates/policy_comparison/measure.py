"""Measuring: a model is asked every query, and its answers are graded.

Guards say what makes a model or its setup broken, whatever its answers are worth: each returns a
fault in a sentence or two, with what to do; empty where there is none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import (
    CpgError,
    FloatArray,
    ImaginationError,
    Imagined,
    IntArray,
    WorldModelError,
)
from pytest_cpg.gates.kind import Run
from pytest_cpg.gates.policy_comparison.answers import (
    SideReturns,
    bound_to,
    compared,
    frozen_returns,
    imagined_returns,
    spread_over,
)
from pytest_cpg.gates.policy_comparison.generate import acted
from pytest_cpg.gates.policy_comparison.queries import ARRAYS, PolicyQueries
from pytest_cpg.gates.policy_comparison.result import (
    FEWEST_ERRORS,
    ComparisonResult,
    Criteria,
    Design,
    OneStep,
    grade,
)
from pytest_cpg.gates.rows import Snapshot
from pytest_cpg.stats import GradedAnswers
from pytest_cpg.world_models.ensembles.binding import BoundEnsemble
from pytest_cpg.world_models.transitions import Transitions

# Observations by which a policy is known again.
_PROBES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a test asks for; ``name`` is what the queries are called."""

    name: str
    queries: PolicyQueries
    criteria: Criteria


def measure_comparison(spec: Spec, model: Any, run: Run) -> ComparisonResult:
    """Return what a model answers to the queries, and what that is worth.

    Of training data that are no `Transitions` no true steps are taken. Raises CpgError when the
    model cannot be asked, or predicts what is no finite number.
    """
    queries, seed, executor = spec.queries, spec.criteria.seed, run.execution.executor
    # Before the model is asked anything: its content may change with that.
    snapshot = Snapshot(
        run.execution,
        model if queries.terminated is None else (model, queries.terminated),
        lambda: {"queries": digest_of(queries), "policies": policies_digest(queries), "seed": seed},
    )
    ensemble = bound_to(model, queries, seed=seed)
    one_step = one_step_error(ensemble, queries, run.given["training_data"])
    spread = None
    if executor is not None:
        spread = spread_over(executor, model, ensemble, queries, seed=seed)
    learned = imagined_returns(
        ensemble, queries, progress=run.progress, spread=spread, snapshot=snapshot
    )
    seconds, labels = snapshot.seconds, queries.labels
    answers, confidences = compared(*learned)
    still, _ = compared(*frozen_returns(ensemble, queries))
    constant = bool(labels.mean() > 0.5)
    graded = GradedAnswers(
        wrong=answers != labels,
        confidences=confidences,
        stakes=np.abs(queries.returns_b - queries.returns_a),
        groups=queries.groups,
    )
    grades = grade(
        graded,
        spec.criteria,
        trivial=(labels != constant, labels != still),
        horizons=queries.horizons,
    )
    return ComparisonResult(
        design=Design(
            name=spec.name,
            environment=queries.environment,
            digest=digest_of(queries),
            discount=queries.discount,
            groups=int(queries.groups.max()) + 1,
            steps=2 * int(queries.horizons.sum()),
            members=ensemble.members,
        ),
        criteria=spec.criteria,
        grades=grades,
        answers=answers,
        labels=labels,
        confidences=confidences,
        imagined_a=_shortened(learned.a.mean(axis=0)),
        imagined_b=_shortened(learned.b.mean(axis=0)),
        returns_a=_shortened(queries.returns_a),
        returns_b=_shortened(queries.returns_b),
        horizons=queries.horizons,
        groups=queries.groups,
        constant_answer=constant,
        constant_loss=float((labels != constant).mean()),
        frozen_loss=float((labels != still).mean()),
        one_step=one_step,
        faults=tuple(_faults(ensemble, queries, learned, graded, one_step)),
        seconds=seconds,
    )


def _faults(
    ensemble: BoundEnsemble,
    queries: PolicyQueries,
    learned: SideReturns,
    graded: GradedAnswers,
    one_step: OneStep | None,
) -> list[str]:
    """Return what all guards say, but for what follows from another fault."""
    pushed, faults = held(ensemble, queries), [frozen_fault(one_step)]
    # Where nothing moves, nothing can leave the bounds of what was seen.
    clipped = "" if faults[0] else clip_fault(ensemble, queries)
    faults += [] if pushed is None else [action_fault(pushed), copies_fault(pushed)]
    faults.append(clipped)
    # Members that are all alike, or move nothing, are as sure of everything.
    faults += [] if any(faults) else [saturated_fault(graded)]
    return [*filter(None, faults), *filter(None, [flip_fault(ensemble, queries, learned)])]


def _shortened(returns: FloatArray) -> FloatArray:
    """Return returns [N] to six digits: a report has thousands of them."""
    return np.array([float(f"{value:.6g}") for value in returns])


def digest_of(queries: PolicyQueries) -> str:
    """Return 16 hexadecimal digits that are others for other queries, or other true returns."""
    digest = hashlib.sha256(f"{queries.environment} {queries.discount!r}".encode())
    for name in ARRAYS:
        array = getattr(queries, name)
        # Accepted results are of queries that had no such array.
        if array is not None or name != "episodes":
            digest.update(name.encode() if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def policies_digest(queries: PolicyQueries) -> str:
    """Return what tells policies apart: what they do on some observations."""
    probes = queries.observations_a[:_PROBES]
    acted = [queries.act(policy, probes) for policy in range(len(queries.policies))]
    return hashlib.sha256(b"".join(actions.tobytes() for actions in acted)).hexdigest()


# As many steps tell a model that moves from one that does not.
_MOST_STEPS = 512
# A network that learned s' = s is off by rounding, and so a hair better in one case of two.
_LEAST_BETTER = 0.01
_MOST_STARTS = 512
_MOST_SWAPPED = 100
# Steps for which an action is held: where places alone are observed, a push shows a step later.
_HELD = 3
# Of what moves, where actions differ as much as they are large. In the tasks of this package a
# push moves a third of it or more.
_LEAST_FELT = 0.01
# Members that differ by less, relatively, differ by rounding.
_ALIKE = 1e-6
# Returns that are nearly equal, and noise that a model draws for each row, turn fewer.
_MOST_UNFLIPPED = 0.25
_MOST_AT_TOP = 0.9
# Of numbers that no bounds would leave out.
_ANYTHING = 1e6


def one_step_error(
    ensemble: BoundEnsemble, queries: PolicyQueries, training_data: Any
) -> OneStep | None:
    """Return how far one step is off in the user's `Transitions`; None where there are none.

    Raises CpgError when they have observations or actions of another size.
    """
    if not isinstance(training_data, Transitions):
        return None
    _check_sizes(training_data, queries)
    steps, rows = training_data, _evenly(len(training_data), _MOST_STEPS)
    before, after = steps.observations[rows], steps.next_observations[rows]
    try:
        imagined = _pushed(ensemble, before, steps.actions[rows], 1)
    except ImaginationError as error:
        raise WorldModelError(error.at(f"in step {rows[error.row]} of training_data")) from None
    spread = steps.observations.std(axis=0)
    moves = spread > 0

    def size(off: FloatArray) -> float:
        """Return the root mean square of differences [T, O] in units of the spread [O]."""
        units = (off[:, moves] / spread[moves]) ** 2
        return float(np.sqrt(units.mean())) if moves.any() else 0.0

    predicted = imagined.observations[:, :, 0].mean(axis=0)
    return OneStep(learned=size(predicted - after), frozen=size(before - after), steps=len(rows))


def _pushed(
    ensemble: BoundEnsemble, starts: FloatArray, actions: FloatArray, steps: int
) -> Imagined:
    """Return what follows where actions [B, A] are held from starts [B, O] by all members."""
    begun, taken = (np.repeat(part[None], ensemble.members, axis=0) for part in (starts, actions))
    return ensemble.rollout(begun, lambda *_: taken, steps)


def _evenly(count: int, most: int) -> IntArray:
    """Return so many rows at most, from the first to the last."""
    return np.linspace(0, count - 1, min(count, most)).astype(int)


def _check_sizes(steps: Transitions, queries: PolicyQueries) -> None:
    pairs = {"observations": (steps.observations, queries.observations_a)}
    if queries.actions_a is not None:
        pairs["actions"] = (steps.actions, queries.actions_a)
    for what, (trained, wanted) in pairs.items():
        if trained.shape[1] != wanted.shape[-1]:
            raise CpgError(
                f"training_data has {what} of size {trained.shape[1]}, and the queries of size "
                f"{wanted.shape[-1]}: return the Transitions of {queries.environment}"
            )


def frozen_fault(found: OneStep | None) -> str:
    """Say that a step is predicted no better than by a world in which nothing moves."""
    if found is None:
        return ""
    if found.frozen == 0:
        return (
            f"Nothing moves in {found.steps} steps of training_data: each next observation is the "
            f"observation before it. A model trained on such steps learns to stand still."
        )
    if found.learned <= (1 - _LEAST_BETTER) * found.frozen:
        return ""
    return (
        f"One step is predicted no better than by leaving everything where it is: error "
        f"{found.learned:.3g}, and {found.frozen:.3g} without a model ({found.steps} steps of "
        f"training_data). Is the training target the next observation, and normalised alike in "
        f"training and in step()?"
    )


class Held(NamedTuple):
    """What follows where each of ``B`` starts has one action for a few steps, and another one.

    ``imagined`` [2, E, B, X] has observations, less the start's, and rewards of all steps, of the
    one and the other; ``size`` [X] how large they are; ``differ`` by how much the actions differ,
    in units of how large they are.
    """

    imagined: FloatArray
    size: FloatArray
    differ: float


def held(ensemble: BoundEnsemble, queries: PolicyQueries) -> Held | None:
    """Return what follows the actions of side a, and those of other starts, held from each start.

    None where all of them are the same, or where a number that is none would be imagined: that is
    an error where a query meets it.
    """
    rows = _evenly(len(queries), _MOST_STARTS)
    starts = queries.observations_a[rows].astype(np.float32)
    opening = queries.opening("a")
    if opening is None:
        first = acted(queries.act, queries.policy_a[rows], starts, 0, starts)
    else:
        first = opening[rows, 0]
    other = first[::-1]
    if np.array_equal(first, other):
        return None
    try:
        rollouts = [_pushed(ensemble, starts, taken, _HELD) for taken in (first, other)]
    except ImaginationError:
        return None
    shape = (2, ensemble.members, len(rows), -1)
    observations = np.stack([each.observations for each in rollouts]).astype(np.float64)
    rewards = np.stack([each.rewards for each in rollouts]).astype(np.float64)
    moved = (observations - starts[:, None]).reshape(shape)
    return Held(
        np.concatenate([moved, rewards - rewards.mean()], axis=3),
        _size(np.concatenate([observations.reshape(shape), rewards], axis=3)),
        float(_size(first - other).max() / _size(first).max()),
    )


def _size(values: FloatArray) -> FloatArray:
    """Return the root mean square of each column of values [..., X]."""
    return np.asarray(np.sqrt((values.reshape(-1, values.shape[-1]) ** 2).mean(axis=0)))


def action_fault(found: Held) -> str:
    """Say that other actions change nothing to speak of in what is imagined."""
    first, other = found.imagined
    moves, changes = _size(first), _size(first - other)
    if (changes > _LEAST_FELT * found.differ * moves).any():
        return ""
    if (moves <= _LEAST_FELT * found.size)[:-_HELD].all():
        return (
            f"Nothing moves in the model: from {first.shape[1]} starts it predicts the observation "
            f"itself, whatever is done. Is the training target the next observation, and "
            f"normalised alike in training and in step()?"
        )
    return (
        f"The model ignores the action: from {first.shape[1]} starts other ones change what it "
        f"predicts by less than {100 * _LEAST_FELT:g} % of what moves, so that all policies are "
        f"alike to it. Is the action an input of every member, and scaled as in training?"
    )


def copies_fault(found: Held) -> str:
    """Say that all members predict the same, so that they can never be unsure."""
    imagined = found.imagined[0]
    if (_size(imagined - imagined.mean(axis=0)) > _ALIKE * found.size).any():
        return ""
    return (
        f"All {len(imagined)} members predict the same from {imagined.shape[1]} starts, and "
        f"members that never disagree are always sure. Give each its own seed and its own "
        f"resampled data."
    )


def clip_fault(ensemble: BoundEnsemble, queries: PolicyQueries) -> str:
    """Say that predictions are clipped to where no episode can end, in a world where some do."""
    rule, bounds = queries.terminated, ensemble.clip_bounds
    if rule is None or bounds is None:
        return ""
    seen = queries.observations_a
    edge = np.full(seen.shape[1], _ANYTHING)
    may_end = replace(bounds, low=-edge, high=edge).admits(rule, seen)
    if not may_end or bounds.admits(rule, seen):
        return ""
    return (
        "Predictions are clipped to bounds within which no episode ends, so that nobody ever falls "
        "in this model. Take the bounds over observations and next observations: "
        "ClipBounds.of(transitions)."
    )


def saturated_fault(answers: GradedAnswers) -> str:
    """Say that confidence cannot tell wrong answers from right ones: they all have the highest.

    A good model is sure of nearly all its answers, and may be: only the wrong ones count here.
    """
    sure = answers.confidences[answers.wrong]
    if len(sure) < FEWEST_ERRORS:
        return ""
    at_top = float((sure >= answers.confidences.max() - 1e-9).mean())
    if at_top <= _MOST_AT_TOP:
        return ""
    return (
        f"{100 * at_top:.0f} % of the wrong answers have the highest confidence, so that no "
        f"threshold leaves mistakes out. Give each member its own seed and its own resampled data."
    )


def flip_fault(ensemble: BoundEnsemble, queries: PolicyQueries, learned: SideReturns) -> str:
    """Say that swapped sides do not get the opposite answer."""
    # Neighbours in this order share policies and horizon, and so are imagined in few blocks.
    alike = np.lexsort((queries.policy_b, queries.policy_a, queries.horizons))
    rows = alike[max(0, (len(alike) - _MOST_SWAPPED) // 2) :][:_MOST_SWAPPED]
    chosen = queries.take(rows)
    swapped = replace(
        chosen,
        **{
            f"{what}_{side}": getattr(chosen, f"{what}_{other}")
            for what in ("observations", "states", "actions", "policy", "returns")
            for side, other in ("ab", "ba")
        },
    )
    then = compared(*(side[:, rows] for side in learned))
    now = compared(*imagined_returns(ensemble, swapped, progress=lambda *_: None))
    # A tie has one answer, however it is asked.
    same = (now.answers == then.answers) & (then.confidences > 0)
    if same.mean() <= _MOST_UNFLIPPED:
        return ""
    return (
        f"With its sides swapped, {100 * same.mean():.0f} % of {len(rows)} queries get the same "
        f"answer again: what the model imagines depends on more than where it starts and what is "
        f"done. Does rollout() keep a state, draw noise, or mix its rows?"
    )
