"""Measuring: a model is asked every query, and its answers are graded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.gates.kind import Run
from pytest_cpg.gates.policy_comparison.answers import (
    bound_to,
    frozen_returns,
    imagined_returns,
    spread_over,
)
from pytest_cpg.gates.policy_comparison.confidences import compared
from pytest_cpg.gates.policy_comparison.guards import (
    action_fault,
    clip_fault,
    copies_fault,
    flip_fault,
    frozen_fault,
    held,
    one_step_error,
    saturated_fault,
)
from pytest_cpg.gates.policy_comparison.queries import ARRAYS, PolicyQueries
from pytest_cpg.gates.policy_comparison.result import ComparisonResult, Criteria, Design, grade
from pytest_cpg.gates.rows import Snapshot
from pytest_cpg.stats import GradedAnswers

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
    queries, method = spec.queries, spec.criteria.confidence
    seed = spec.criteria.seed
    # Before the model is asked anything: its content may change with that.
    snapshot = Snapshot(
        run.execution,
        model if queries.terminated is None else (model, queries.terminated),
        lambda: {"queries": digest_of(queries), "policies": policies_digest(queries), "seed": seed},
    )
    ensemble = bound_to(model, queries, seed=seed)
    one_step = one_step_error(ensemble, queries, run.given["training_data"])
    spread, executor = None, run.execution.executor
    if executor is not None:
        spread = spread_over(executor, model, ensemble, queries, seed=seed)
    learned = imagined_returns(
        ensemble, queries, progress=run.progress, spread=spread, snapshot=snapshot
    )
    seconds = snapshot.seconds
    answers, confidences = compared(learned.a, learned.b, method)
    frozen = frozen_returns(ensemble, queries)
    still, _ = compared(frozen.a, frozen.b, method)
    labels = queries.labels
    constant = bool(labels.mean() > 0.5)
    graded = GradedAnswers(
        wrong=answers != labels,
        confidences=confidences,
        stakes=np.abs(queries.returns_b - queries.returns_a),
        groups=queries.groups,
    )
    pushed, frozen_world = held(ensemble, queries), frozen_fault(one_step)
    faults = [
        frozen_world,
        *([] if pushed is None else [action_fault(pushed), copies_fault(pushed)]),
        # Where nothing moves, nothing can leave the bounds of what was seen.
        "" if frozen_world else clip_fault(ensemble, queries),
    ]
    # Members that are all alike, or move nothing, are as sure of everything.
    faults += [] if any(faults) else [saturated_fault(graded)]
    faults.append(flip_fault(ensemble, queries, learned, method))
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
        faults=tuple(filter(None, faults)),
        seconds=seconds,
    )


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
