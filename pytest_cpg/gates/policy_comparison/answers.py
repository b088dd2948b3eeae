"""Answers: what every member of an ensemble imagines of each side, and how sure that makes them.

Rows are imagined in blocks of one fixed size, so that neither memory nor the last bits of a float32
product depend on how many queries there are.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    CpgError,
    EnsembleRollout,
    FloatArray,
    ImaginationError,
    Imagined,
    WorldModelError,
)
from pytest_cpg.contracts.errors import CURE
from pytest_cpg.episodes.spread_run import OTHER_ANSWER
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.gates.rows import Block, Snapshot, Spread, filled
from pytest_cpg.machine.workers import Crew, Workload
from pytest_cpg.world_models.binding.conventions import describe
from pytest_cpg.world_models.ensembles.binding import BoundEnsemble, bind_ensemble

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_MOST_ROWS = 32
# Rows that a model is checked with before it is asked anything.
_PROBES = 4
# Of the observations that one block imagines.
_MOST_BYTES = 2**27
# Observations so many times as large as those of all starts are nowhere near them.
_FAR = 1e3


class SideReturns(NamedTuple):
    """Imagined returns [E, N] of each side."""

    a: FloatArray
    b: FloatArray


def bound_to(model: Any, queries: PolicyQueries, *, seed: int) -> BoundEnsemble:
    """Return the model as an ensemble whose episodes also end where the queries end them."""
    observations = queries.observations_a[:_PROBES]
    opening = queries.opening("a")
    if opening is None:
        actions = queries.act(int(queries.policy_a[0]), observations)
    else:
        actions = opening[:_PROBES, 0]
    return bind_ensemble(
        model,
        observations=observations,
        actions=actions,
        terminated=None if queries.terminated is None else queries.ended,
        seed=seed,
    )


def imagined_returns(
    ensemble: EnsembleRollout,
    queries: PolicyQueries,
    *,
    progress: Callable[[str, int, int], None],
    spread: Spread | None = None,
    snapshot: Snapshot | None = None,
) -> SideReturns:
    """Return what every member imagines of both sides of every query.

    Blocks are imagined by ``spread``, or else in this process. Raises WorldModelError when a
    prediction is no finite number, naming member, query and step.
    """
    asked = Asked(ensemble, queries)
    if snapshot is not None:
        snapshot.answered(map(asked.first_step, asked.blocks))
    return asked.filled(
        asked.run, progress=partial(progress, "queries"), spread=spread, snapshot=snapshot
    )


def frozen_returns(ensemble: EnsembleRollout, queries: PolicyQueries) -> SideReturns:
    """Return what a world would pay that stays where it starts.

    It pays what the model pays for its first step, for every step.
    """
    asked = Asked(ensemble, queries)
    return asked.filled(asked.frozen_returns, progress=lambda *_: None)


class Asked:
    """An ensemble that is asked queries, here or in a worker.

    A row is a query's side: a below the number of queries, and b from there on.
    """

    def __init__(self, ensemble: EnsembleRollout, queries: PolicyQueries) -> None:
        self._ensemble, self._queries = ensemble, queries
        self._starts = np.concatenate([queries.observations_a, queries.observations_b])
        self._policies = np.concatenate([queries.policy_a, queries.policy_b])
        self._horizons = np.tile(queries.horizons, 2)
        openings = [part for side in "ab" if (part := queries.opening(side)) is not None]
        self._opening = np.concatenate(openings) if openings else None

    @property
    def blocks(self) -> list[Block]:
        """All rows; those of a block have one policy and one horizon."""
        # The largest power of two, up to a limit, whose observations fit into memory.
        of_row, size = self._starts.shape[1] * int(self._horizons.max()), _MOST_ROWS
        while size > 1 and 8 * self._ensemble.members * of_row * size > _MOST_BYTES:
            size //= 2
        order = np.lexsort((self._policies, self._horizons))
        changes = [np.diff(part[order]).astype(bool) for part in (self._policies, self._horizons)]
        return [
            Block(alike[start : start + size], size)
            for alike in np.split(order, np.flatnonzero(changes[0] | changes[1]) + 1)
            for start in range(0, len(alike), size)
        ]

    def filled(self, answer: Callable[[Block], FloatArray], **how: Any) -> SideReturns:
        """Return the returns of all rows; ``how`` is as of `rows.filled`."""
        shape = (self._ensemble.members, len(self._starts))
        return SideReturns(*np.split(filled(shape, self.blocks, answer, **how), 2, axis=1))

    def run(self, block: Block) -> FloatArray:
        """Return the imagined returns [E, R] of a block."""
        horizon = int(self._horizons[block.rows[0]])
        rewards = self._imagined(block, horizon).rewards
        with np.errstate(over="ignore"):
            returns = np.asarray(rewards @ self._queries.discount ** np.arange(horizon))
        broken = np.argwhere(~np.isfinite(returns))
        if len(broken):
            member, row = broken[0]
            raise WorldModelError(
                f"member {member} predicted rewards up to {np.abs(rewards[member, row]).max():.3g} "
                f"in {self._query(block, int(row))} whose sum is no number. {CURE}"
            )
        return returns[:, : len(block.rows)]

    def frozen_returns(self, block: Block) -> FloatArray:
        """Return what a world pays [E, R] in which nothing moves."""
        steps = np.arange(1, int(self._horizons[block.rows[0]]))
        first = self._imagined(block, 1).rewards[..., 0]
        # Without policies nobody but the logged actions acts.
        later = self._imagined(block, 1, has_first=not self._queries.policies).rewards[..., 0]
        returns = np.asarray(first + later * (self._queries.discount**steps).sum())
        return returns[:, : len(block.rows)]

    def first_step(self, block: Block) -> bytes:
        """Return the bits of all that the first step of each row leads to."""
        answers = self._imagined(block, 1)
        return b"".join(np.ascontiguousarray(part).tobytes() for part in answers)

    def _imagined(self, block: Block, horizon: int, *, has_first: bool = True) -> Imagined:
        """Imagine the rows; the first action is the query's, or the policy's."""
        members, rows = self._ensemble.members, block.filled
        policy, begun_at = int(self._policies[rows[0]]), self._starts[rows]
        opening = self._opening[rows] if has_first and self._opening is not None else None
        begun = 0

        def act(step: int, observations: FloatArray) -> FloatArray:
            nonlocal begun
            begun = step + 1
            if opening is not None and step < opening.shape[1]:
                return np.repeat(opening[None, :, step], members, axis=0)
            flat = observations.reshape(-1, observations.shape[-1])
            try:
                actions = self._queries.act(policy, flat, step, begun_at)
                return actions.reshape(*observations.shape[:-1], -1)
            except CpgError:
                self._check_near(block, flat, policy, step)
                raise

        starts = np.repeat(begun_at.astype(np.float32)[None], members, axis=0)
        try:
            return self._ensemble.rollout(starts, act, horizon)
        except ImaginationError as error:
            raise WorldModelError(error.at(f"in {self._query(block, error.row)}")) from None
        except Exception as error:
            # Whatever a user's model raises: it knows nothing of queries.
            error.add_note(f"at imagined step {begun} of {self._block(block)}")
            raise

    def _check_near(self, block: Block, observations: FloatArray, policy: int, step: int) -> None:
        """Raise WorldModelError where a policy was asked about places far from all starts."""
        reached, usual = np.abs(observations).max(), np.abs(self._starts).max()
        if reached > _FAR * usual:
            raise WorldModelError(
                f"the model imagined observations up to {reached:.3g} by step {step} of "
                f"{self._block(block)}, where policy {policy} has no possible action; queries "
                f"start within {usual:.3g}. {CURE}"
            ) from None

    def _block(self, block: Block) -> str:
        more = f" and of {len(block.rows) - 1} more" if len(block.rows) > 1 else ""
        return f"{self._query(block, 0)}{more}"

    def _query(self, block: Block, row: int) -> str:
        side, query = divmod(int(block.filled[row]), len(self._queries))
        return f"query {query}, side {'ab'[side]},"


def spread_over(
    executor: Executor, model: Any, ensemble: BoundEnsemble, queries: PolicyQueries, *, seed: int
) -> Spread:
    """Return what imagines blocks on an executor, to the same bits as this process does.

    Workers bind the model anew, as it was given; ``ensemble`` is the same, bound here.
    """
    workload = Workload.of(
        ((model, describe(model)), (queries, "PolicyQueries")),
        _loaded,
        (model, queries, seed, Asked(ensemble, queries).frozen_returns(_PROBED)),
        name=describe(model),
    )
    return Crew(executor, workload).run


# What is paid from the first start, by which a model is known again.
_PROBED = Block(np.zeros(1, dtype=int), 2)


def _loaded(model: Any, queries: PolicyQueries, seed: int, answer: FloatArray) -> Asked:
    """Return what a worker asks, once it answers alike."""
    asked = Asked(bound_to(model, queries, seed=seed), queries)
    if not np.array_equal(asked.frozen_returns(_PROBED), answer, equal_nan=True):
        raise WorldModelError(OTHER_ANSWER)
    return asked


class Compared(NamedTuple):
    """What an ensemble answers to each query [N], True where side b has the higher return.

    Confidences are in [0, 1]. A tie is answered with False, and has 0.
    """

    answers: BoolArray
    confidences: FloatArray


def compared(values_a: ArrayLike, values_b: ArrayLike) -> Compared:
    """Return which side of each query has the higher return, and how sure the ensemble is.

    As sure as the paired confidence interval (PCI) of "Offline Policy Comparison with Confidence:
    Benchmarks and Baselines" (Koul, Phielipp and Fern 2022), in closed form: the largest level at
    which Student's interval of the members' mean difference leaves out 0.

    Where members do not differ at all, that is 1, or 0 if the sides are equal. Swapped sides have
    the opposite answers, ties aside, and the same confidences, to the last bit. Raises ValueError
    when there are fewer than two members, when shapes differ, or when a return is not finite.

    >>> compared([[10], [11], [12], [9], [8]], [[12], [10], [15], [11], [9]]).confidences.round(4)
    array([0.8921])

    Parameters
    ----------
    values_a, values_b : array [E, N]
        Return of each side, as each member imagines it.
    """
    # scipy.stats has the same number, and takes a second to import.
    from scipy.special import stdtr

    a, b = _checked(values_a, values_b)
    # A model that diverges imagines returns whose squares overflow; a power of two rounds nothing.
    _, exponent = np.frexp(np.maximum(np.abs(a).max(axis=0), np.abs(b).max(axis=0)))
    leads = np.ldexp(b, -exponent) - np.ldexp(a, -exponent)
    # The mean of equal numbers may differ from them in its last bit.
    beyond = leads - leads[0]
    lead, spread = leads[0] + beyond.mean(axis=0), beyond.std(axis=0, ddof=1)
    certain = np.where(lead == 0, 0.0, np.inf)
    with np.errstate(over="ignore"):
        errors = spread / np.sqrt(len(leads))
        ratio = np.divide(np.abs(lead), errors, out=certain, where=spread > 0)
    return Compared(lead > 0, np.asarray(1 - 2 * stdtr(len(leads) - 1, -ratio)))


def _checked(values_a: ArrayLike, values_b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(values_a, dtype=np.float64), np.asarray(values_b, dtype=np.float64)
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"need returns [members, queries] of both sides, got {a.shape}, {b.shape}")
    if len(a) < 2:
        raise ValueError(f"need two members or more to be sure or unsure, got {len(a)}")
    for side, values in (("a", a), ("b", b)):
        if not np.isfinite(values).all():
            member, query = np.argwhere(~np.isfinite(values))[0]
            raise ValueError(
                f"need finite returns, got {values[member, query]} from member {member} "
                f"on side {side} of query {query}"
            )
    return a, b
