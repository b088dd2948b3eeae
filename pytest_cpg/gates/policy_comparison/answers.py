"""Answers: what every member of an ensemble imagines of each side, and how sure that makes them.

Rows are imagined in blocks of one fixed size, so that neither memory nor the last bits of a float32
product depend on how many queries there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import (
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
    asked, blocks = Asked(ensemble, queries), [*_blocks(queries, members=ensemble.members)]
    if snapshot is not None:
        snapshot.answered(map(asked.first_step, blocks))
    returns = filled(
        (ensemble.members, 2 * len(queries)),
        blocks,
        asked.run,
        progress=partial(progress, "queries"),
        spread=spread,
        snapshot=snapshot,
    )
    return SideReturns(*np.split(returns, 2, axis=1))


def frozen_returns(ensemble: EnsembleRollout, queries: PolicyQueries) -> SideReturns:
    """Return what a world would pay that stays where it starts.

    It pays what the model pays for its first step, for every step.
    """
    asked, returns = Asked(ensemble, queries), np.empty((ensemble.members, 2 * len(queries)))
    for block in _blocks(queries, members=ensemble.members):
        returns[:, block.rows] = asked.frozen_returns(block)[:, : len(block.rows)]
    return SideReturns(*np.split(returns, 2, axis=1))


def _blocks(queries: PolicyQueries, *, members: int) -> Iterator[Block]:
    """Yield all rows; those of a block have one policy and one horizon."""
    policies = np.concatenate([queries.policy_a, queries.policy_b])
    horizons = np.concatenate([queries.horizons, queries.horizons])
    size = _block_size(queries, members=members)
    order = np.lexsort((policies, horizons))
    changes = np.diff(policies[order]).astype(bool) | np.diff(horizons[order]).astype(bool)
    for alike in np.split(order, np.flatnonzero(changes) + 1):
        for start in range(0, len(alike), size):
            yield Block(alike[start : start + size], size)


def _block_size(queries: PolicyQueries, *, members: int) -> int:
    """Return the largest power of two, up to a limit, whose observations fit into memory."""
    of_row = 8 * members * int(queries.horizons.max()) * queries.observations_a.shape[1]
    rows = _MOST_ROWS
    while rows > 1 and rows * of_row > _MOST_BYTES:
        rows //= 2
    return rows


class Asked:
    """An ensemble that is asked queries, here or in a worker."""

    def __init__(self, ensemble: EnsembleRollout, queries: PolicyQueries) -> None:
        self._ensemble, self._queries = ensemble, queries

    def run(self, block: Block) -> FloatArray:
        """Return the imagined returns [E, R] of a block."""
        horizon = int(self._queries.horizons[block.rows[0] % len(self._queries)])
        rewards = self._imagined(block, horizon, has_first=True).rewards
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
        """Return what a world pays [E, B] in which nothing moves."""
        horizon = int(self._queries.horizons[block.rows[0] % len(self._queries)])
        first = self._imagined(block, 1, has_first=True).rewards[..., 0]
        # Without policies nobody but the logged actions acts.
        is_logged = not self._queries.policies
        later = self._imagined(block, 1, has_first=is_logged).rewards[..., 0]
        return np.asarray(first + later * (self._queries.discount ** np.arange(1, horizon)).sum())

    def first_step(self, block: Block) -> bytes:
        """Return the bits of all that the first step of each row leads to."""
        answers = self._imagined(block, 1, has_first=True)
        return b"".join(np.ascontiguousarray(part).tobytes() for part in answers)

    def _imagined(self, block: Block, horizon: int, *, has_first: bool) -> Imagined:
        """Imagine the rows; the first action is the query's, or the policy's."""
        queries, members = self._queries, self._ensemble.members
        policy = int(self._of_rows(block, "policy")[0])
        opening = None
        if has_first and queries.actions_a is not None:
            opening = np.concatenate([queries.opening(side) for side in "ab"])[block.filled]
        begun, begun_at = 0, self._of_rows(block, "observations")

        def act(step: int, observations: FloatArray) -> FloatArray:
            nonlocal begun
            begun = step + 1
            if opening is not None and step < opening.shape[1]:
                return np.repeat(opening[None, :, step], members, axis=0)
            flat = observations.reshape(-1, observations.shape[-1])
            try:
                actions = queries.act(policy, flat, step, begun_at)
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
        starts = np.concatenate([self._queries.observations_a, self._queries.observations_b])
        reached, usual = np.abs(observations).max(), np.abs(starts).max()
        if reached > _FAR * usual:
            raise WorldModelError(
                f"the model imagined observations up to {reached:.3g} by step {step} of "
                f"{self._block(block)}, where policy {policy} has no possible action; queries "
                f"start within {usual:.3g}. {CURE}"
            ) from None

    def _of_rows(self, block: Block, what: str) -> FloatArray:
        """Return one array of each side [B, ...], the last row repeated to the block's size."""
        a, b = (getattr(self._queries, f"{what}_{side}") for side in "ab")
        return np.asarray(np.concatenate([a, b])[block.filled])

    def _block(self, block: Block) -> str:
        more = f" and of {len(block.rows) - 1} more" if len(block.rows) > 1 else ""
        return f"{self._query(block, 0)}{more}"

    def _query(self, block: Block, row: int) -> str:
        at = int(block.rows[min(row, len(block.rows) - 1)])
        return f"query {at % len(self._queries)}, side {'ab'[at // len(self._queries)]},"


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


if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CONFIDENCES = ("ev", "pci", "u-pci")
"""Ensemble voting; paired and unpaired confidence intervals of the members' mean return."""


class Compared(NamedTuple):
    """What an ensemble answers to each query [N], True where side b has the higher return.

    Confidences are in [0, 1]. A tie is answered with False, and has 0.
    """

    answers: NDArray[np.bool_]
    confidences: NDArray[np.float64]


def compared(values_a: ArrayLike, values_b: ArrayLike, method: str = "pci") -> Compared:
    """Return which side of each query has the higher return, and how sure the ensemble is.

    Closed forms of what "Evaluation of offline policy comparison with confidence" (Koul, Phielipp
    and Fern 2022) finds on a grid:

    - ``"ev"``: the share of members that vote for the answer, less the share that vote against it.
      A member to which both sides are equal votes for neither.
    - ``"pci"``: the largest level at which Student's interval of the members' mean difference
      leaves out 0.
    - ``"u-pci"``: the largest level at which the intervals of the two means do not overlap.

    Where members do not differ at all, the last two are 1, or 0 if the sides are equal. Swapped
    sides have the opposite answers, ties aside, and the same confidences, to the last bit. Raises
    ValueError when there are fewer than two members, when shapes differ, when a return is not
    finite, or when there is no such method.

    >>> a, b = [[10], [11], [12], [9], [8]], [[12], [10], [15], [11], [9]]
    >>> [round(float(compared(a, b, method).confidences[0]), 4) for method in CONFIDENCES]
    [0.6, 0.8921, 0.5346]

    Parameters
    ----------
    values_a, values_b : array [E, N]
        Return of each side, as each member imagines it.
    """
    if method not in _METHODS:
        raise ValueError(f"no confidence named {method!r}. Known: {', '.join(CONFIDENCES)}.")
    a, b = _checked(values_a, values_b)
    # A model that diverges imagines returns whose squares overflow; a power of two rounds nothing.
    _, exponent = np.frexp(np.maximum(np.abs(a).max(axis=0), np.abs(b).max(axis=0)))
    lead, confidences = _METHODS[method](np.ldexp(a, -exponent), np.ldexp(b, -exponent))
    return Compared(lead > 0, confidences)


def _checked(
    values_a: ArrayLike, values_b: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


_Lead = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def _by_votes(a: NDArray[np.float64], b: NDArray[np.float64]) -> _Lead:
    # Votes are whole: a sum of shares would tear equal confidences apart.
    lead = (a < b).sum(axis=0) - (a > b).sum(axis=0)
    return lead.astype(np.float64), np.abs(lead) / len(a)


def _by_paired_interval(a: NDArray[np.float64], b: NDArray[np.float64]) -> _Lead:
    lead, spread = _mean_and_spread(b - a)
    return lead, _largest_level(lead, spread, members=len(a))


def _by_two_intervals(a: NDArray[np.float64], b: NDArray[np.float64]) -> _Lead:
    lead, _ = _mean_and_spread(b - a)
    spread = _mean_and_spread(a)[1] + _mean_and_spread(b)[1]
    return lead, _largest_level(lead, spread, members=len(a))


_METHODS = dict(zip(CONFIDENCES, (_by_votes, _by_paired_interval, _by_two_intervals), strict=True))


def _mean_and_spread(values: NDArray[np.float64]) -> _Lead:
    """Return mean and standard deviation [N] over members, whose spread is 0 if all are equal."""
    # The mean of equal numbers may differ from them in its last bit.
    beyond = values - values[0]
    return values[0] + beyond.mean(axis=0), beyond.std(axis=0, ddof=1)


def _largest_level(
    lead: NDArray[np.float64], spread: NDArray[np.float64], *, members: int
) -> NDArray[np.float64]:
    """Return the level of Student's interval that ends at 0."""
    # scipy.stats has the same number, and takes a second to import.
    from scipy.special import stdtr

    certain = np.where(lead == 0, 0.0, np.inf)
    errors = spread / np.sqrt(members)
    with np.errstate(over="ignore"):
        ratio = np.divide(np.abs(lead), errors, out=certain, where=spread > 0)
    return np.asarray(1 - 2 * stdtr(members - 1, -ratio))
