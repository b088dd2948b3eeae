"""Specification: what a marker asks of a comparison of policies, checked and complete."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError
from pytest_cpg.gates.kind import Asked
from pytest_cpg.gates.policy_comparison.queries import ARRAYS, PolicyQueries
from pytest_cpg.stats import wilson_interval

# Observations by which a policy is known again.
_PROBES = 8
# Published worlds that end, by a rule that came with earlier versions.
_ENDING = ("hopper", "walker2d")
# An end of an interval rests on this many resamples or more.
_BEYOND_AN_END = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What the answers are judged by: the marker's arguments.

    Attributes
    ----------
    level : float
        Coverage of the intervals, in (0, 1), corrected for the family.
    seed : int
        Of the resamples.
    """

    confidence: str
    min_auroc: float
    max_risk: float
    min_coverage: float
    max_loss: float | None
    resamples: int
    level: float
    family_size: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a test asks for; ``name`` is what the queries are called."""

    name: str
    queries: PolicyQueries
    criteria: Criteria


def spec_of(asked: Asked) -> Spec:
    """Return what a test asks for.

    Raises ValueError or CpgError when there are no such queries, too few of them, or all have
    one start or one answer.
    """
    values = asked.values
    queries = _queries_at(values["queries"])
    is_file = queries is not values["queries"]
    name = Path(values["queries"]).name if is_file else queries.environment
    if values["terminated"] is not None:
        queries = replace(queries, terminated=values["terminated"])
    elif is_file and queries.environment in _ENDING:
        raise ValueError(
            f"queries: {name} is about {queries.environment}, whose episodes end where it falls, "
            f"and no file says so: write terminated=..., as in examples/experiments/opcc/worlds.py"
        )
    _check_queries(queries, name, least=values["min_queries"])
    level = asked.shared(values["level"])
    for limit, count in (("max_loss", 1.0), ("max_risk", values["min_coverage"])):
        _check_can_be_missed(limit, values[limit], len(queries) * count, level)
    return Spec(
        name=name,
        queries=queries,
        criteria=Criteria(
            confidence=values["confidence"],
            min_auroc=values["min_auroc"],
            max_risk=values["max_risk"],
            min_coverage=values["min_coverage"],
            max_loss=values["max_loss"],
            # The far tails that a large family judges by need more of them.
            resamples=max(values["resamples"], round(2 * _BEYOND_AN_END / (1 - level))),
            level=level,
            family_size=asked.family_size,
            seed=values["seed"],
        ),
    )


def digest_of(queries: PolicyQueries) -> str:
    """Return 16 hexadecimal digits that are others for other queries, or other true returns."""
    found = hashlib.sha256(f"{queries.environment} {queries.discount!r}".encode())
    for name in ARRAYS:
        array = getattr(queries, name)
        # Accepted results are of queries that had no such array.
        if array is not None or name != "episodes":
            found.update(name.encode() if array is None else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def policies_digest(queries: PolicyQueries) -> str:
    """Return what tells policies apart: what they do on some observations."""
    probes = queries.observations_a[:_PROBES]
    acted = [queries.act(policy, probes) for policy in range(len(queries.policies))]
    return hashlib.sha256(b"".join(one.tobytes() for one in acted)).hexdigest()


def _check_can_be_missed(name: str, limit: float | None, answers: float, level: float) -> None:
    """Raise ValueError for a limit that a model keeps which is wrong in every answer."""
    surely = wilson_interval(int(answers), int(answers), level=level).low
    if limit is not None and limit >= surely:
        raise ValueError(
            f"{name}={limit:g} is kept by every model: one whose {answers:.0f} answers are all "
            f"wrong is surely above {surely:.2f} only. Write a limit below that."
        )


def _queries_at(given: Any) -> PolicyQueries:
    """Return queries as they are, or those of a file; raise CpgError where there is none."""
    if isinstance(given, PolicyQueries):
        return given
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise ComponentError(
            f"queries: need the path of an .npz, or PolicyQueries, got {given!r:.60}"
        )
    path = Path(given)
    if path.suffix != ".npz" and not path.exists():
        raise ComponentError(
            f"queries: there is no file {os.fspath(given)!r}. Give the path of an .npz that "
            f"PolicyQueries.save wrote, or the queries themselves. Published ones, such as "
            f"'maze-umaze', do not come with the package: examples/experiments/opcc has them."
        )
    return PolicyQueries.load(path)


def _check_queries(queries: PolicyQueries, name: str, *, least: int) -> None:
    """Raise ValueError for queries from which nothing can be learned."""
    if len(queries) < least:
        raise ValueError(
            f"queries: {name} has {len(queries)} queries, and the intervals of fewer than "
            f"{least} are too wide to judge a model. Give more of them, or write "
            f"min_queries={len(queries)}."
        )
    if not queries.groups.any():
        raise ValueError(
            f"queries: all {len(queries)} queries of {name} begin at one start, and nothing can be "
            f"said of others. Ask from more starts."
        )
    trues = int(queries.labels.sum())
    if trues in (0, len(queries)):
        side = "b" if trues else "a"
        raise ValueError(
            f"queries: side {side} is better in all {len(queries)} queries of {name}, so that a "
            f"constant answer is always right. Swap the sides of half of them."
        )
