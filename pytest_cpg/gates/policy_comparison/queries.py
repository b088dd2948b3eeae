"""Queries: which of two policies is better from here, with the true answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import ActionSpace, BoolArray, FloatArray, IntArray
from pytest_cpg.contracts.planner import Policy
from pytest_cpg.gates.policy_comparison.query_files import load_queries, save_queries
from pytest_cpg.planners.policies import (
    check_policy,
    check_possible,
    check_repeats,
    checked_actions,
)
from pytest_cpg.world_models.ensembles.rollout import Terminated

# Observations that every policy is asked about before anything is measured.
_TRIALS = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyQueries:
    """Questions about pairs of policies, each from two starts, and the returns that answer them.

    Letters: ``N`` queries, ``O`` observation, ``S`` state, ``A`` action, ``K`` steps. Side a is a
    start, what is done first, and who acts from then on; so is side b. The two starts may be one.

    Attributes
    ----------
    environment : str
        The name of the world, such as a task's.
    policies : tuple of Policy
        May be empty where the actions of all steps are given.
    observations_a, observations_b : array [N, O]
    policy_a, policy_b : array [N], int
        Indices of ``policies``.
    horizons : array [N], int
        Steps that are counted, the first action's among them.
    returns_a, returns_b : array [N]
        The true returns, never equal: a tie has no answer.
    discount : float
        In [0, 1]: the reward of step ``t``, from 0, counts its power ``t``.
    states_a, states_b : array [N, S], optional
        What a simulator starts from.
    actions_a, actions_b : array [N, A] or [N, K, A], optional
        What is done first, in one step or in ``K``; None where the policy acts at once.
    action_space : ActionSpace, optional
        What is possible; None where nobody knows.
    terminated : callable, optional
        Maps observations [B, O] to whether an episode ends there, bool [B]; the reward of the step
        that led there counts. None leaves it to what a model says.
    episodes : array [N], int, optional
        Which episode the start of side a is from: queries of one are no independent evidence.
    """

    environment: str
    policies: Sequence[Policy]
    observations_a: FloatArray
    observations_b: FloatArray
    policy_a: IntArray
    policy_b: IntArray
    horizons: IntArray
    returns_a: FloatArray
    returns_b: FloatArray
    discount: float = 1.0
    states_a: FloatArray | None = None
    states_b: FloatArray | None = None
    actions_a: FloatArray | None = None
    actions_b: FloatArray | None = None
    action_space: ActionSpace | None = None
    terminated: Terminated | None = None
    episodes: IntArray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.environment, str) or not self.environment:
            raise ValueError(f"environment must be a name, got {self.environment!r:.60}")
        needs_none = not self.policies and self.actions_a is not None
        self._set("policies", () if needs_none else policies_of(self.policies))
        for pair in ("observations", "states", "actions"):
            self._set_pair(pair)
        count = len(self.observations_a)
        for name in ("returns_a", "returns_b"):
            self._set(name, _numbers(name, getattr(self, name), (count,)))
        for name, least, most in (
            ("policy_a", 0, max(len(self.policies) - 1, 0)),
            ("policy_b", 0, max(len(self.policies) - 1, 0)),
            ("horizons", 1, None),
            ("episodes", 0, None),
        ):
            if getattr(self, name) is not None:
                self._set(name, _whole(name, getattr(self, name), count, least, most))
        self._check_answers()
        self._check_actions()
        self._check_starts()
        self._check_policies()

    def __len__(self) -> int:
        return len(self.horizons)

    @property
    def labels(self) -> BoolArray:
        """Whether side b is better: ``returns_a < returns_b``, bool [N]."""
        return np.asarray(self.returns_a < self.returns_b)

    @property
    def groups(self) -> IntArray:
        """Which queries share the start of side a, or its episode: numbers from 0, int [N].

        Those are no independent evidence. Starts of side b are left out: by both sides, two thirds
        of a published set hang together in one group, and no resampling is left.
        """
        if self.episodes is not None:
            return np.asarray(np.unique(self.episodes, return_inverse=True)[1].reshape(-1))
        starts = self.observations_a if self.states_a is None else self.states_a
        return np.asarray(np.unique(starts, axis=0, return_inverse=True)[1].reshape(-1))

    def opening(self, side: str) -> FloatArray | None:
        """Return what is done first on side a or b [N, K, A]; None where a policy acts at once."""
        actions = self.actions_a if side == "a" else self.actions_b
        return actions[:, None] if actions is not None and actions.ndim == 2 else actions

    def take(self, indices: npt.ArrayLike) -> PolicyQueries:
        """Return the queries at these indices [K], or where a mask [N] is true."""
        chosen = np.asarray(indices)
        if not chosen.size:
            raise ValueError("no query is taken: give at least one index")
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return replace(
            self, **{name: array[chosen] for name, array in arrays.items() if array is not None}
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an .npz without pickles; see `query_files.save_queries`."""
        save_queries(self, ARRAYS, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        policies: Sequence[Policy] | None = None,
        terminated: Terminated | None = None,
    ) -> PolicyQueries:
        """Read what `save` wrote; see `query_files.load_queries`. No file holds ``terminated``."""
        queries = load_queries(cls, ARRAYS, path, policies)
        return queries if terminated is None else replace(queries, terminated=terminated)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _set_pair(self, pair: str) -> None:
        """Freeze the two arrays [N, size] of a pair, which may both be None but observations."""
        a, b = (getattr(self, f"{pair}_{side}") for side in "ab")
        if pair != "observations" and (a is None) != (b is None):
            side = "a" if a is None else "b"
            raise ValueError(f"{pair}_{side} is missing: give both sides, or neither")
        if a is None and pair != "observations":
            return
        first = _numbers(f"{pair}_a", a, None)
        if not len(first):
            raise ValueError(f"{pair}_a has no rows: give at least one query")
        count = len(first) if pair == "observations" else len(self.observations_a)
        shape: tuple[int, ...] = (count, first.shape[1] if first.ndim == 2 else 1)
        if pair == "actions" and first.ndim == 3:
            shape = (count, *first.shape[1:])
        for side, values in zip("ab", (a, b), strict=True):
            self._set(f"{pair}_{side}", _numbers(f"{pair}_{side}", values, shape))

    def _check_answers(self) -> None:
        """Raise ValueError for an impossible discount, or for a query without an answer."""
        if not isinstance(self.discount, Real) or not 0 <= self.discount <= 1:
            raise ValueError(f"discount must be from 0 to 1, got {self.discount!r}")
        self._set("discount", float(self.discount))
        ties = np.flatnonzero(self.returns_a == self.returns_b)
        if len(ties):
            raise ValueError(
                f"query {ties[0]} has the return {self.returns_a[ties[0]]} on both sides"
                f"{f', and so have {len(ties) - 1} more' if len(ties) > 1 else ''}: neither "
                f"policy is better. Leave out where returns_a == returns_b"
            )

    def _check_actions(self) -> None:
        """Raise ValueError where first actions are not possible."""
        for side in "ab":
            first = getattr(self, f"actions_{side}")
            if first is None or self.action_space is None:
                continue
            if first.shape[-1] != self.action_space.size:
                raise ValueError(
                    f"actions_{side} must have shape [N, {self.action_space.size}], got "
                    f"{first.shape}"
                )
            flat = first.reshape(-1, first.shape[-1])
            check_possible(flat, self.action_space, f"actions_{side}")

    def _check_starts(self) -> None:
        """Raise ValueError where a query starts from where its episode is over."""
        if self.terminated is None:
            return
        is_over = self.ended(self.observations_a) | self.ended(self.observations_b)
        if is_over.any():
            raise ValueError(
                f"query {int(is_over.argmax())} starts where terminated() says that its episode is "
                f"over, and so do {int(is_over.sum()) - 1} more: leave them out, or mend the rule"
            )

    def ended(self, observations: FloatArray) -> BoolArray:
        """Say by the rule of ``terminated`` of observations [..., O] where an episode ends: [...].

        Raises ValueError when the rule does not give a bool for each.
        """
        rule: Any = self.terminated
        rows = np.asarray(observations).reshape(-1, observations.shape[-1])
        ends = np.asarray(rule(rows))
        if ends.shape != (len(rows),) or ends.dtype != np.bool_:
            raise ValueError(
                f"terminated gave {ends.dtype} of shape {ends.shape} for observations "
                f"{list(rows.shape)}: return a bool for each row"
            )
        return ends.reshape(observations.shape[:-1])

    def _check_policies(self) -> None:
        """Raise CpgError unless each policy can answer the first of its observations, alike.

        Raises ValueError where nobody acts in the last steps.
        """
        opening, longest = self.opening("a"), int(self.horizons.max())
        openings = 0 if opening is None else opening.shape[1]
        if not self.policies and openings < longest:
            raise ValueError(
                f"there are no policies, and actions of {openings} of {longest} steps: give "
                f"policies, or actions_a and actions_b [N, {longest}, A]"
            )
        for policy in range(len(self.policies)):
            observed = np.concatenate(
                [
                    self.observations_a[self.policy_a == policy][:_TRIALS],
                    self.observations_b[self.policy_b == policy][:_TRIALS],
                ]
            )
            if len(observed):
                acted = self.act(policy, observed)
                check_repeats(self.policies[policy], f"policy {policy}", observed, acted)

    def act(
        self, policy: int, observations: FloatArray, step: int = 0, starts: FloatArray | None = None
    ) -> FloatArray:
        """Return the actions [B, A] of a policy, by its index, on observations [B, O].

        Of a policy that draws, at a step of rows that began at ``starts`` [K, O].
        Raises CpgError when it leaves the action space, or gives no actions of that shape.
        """
        return checked_actions(
            self.policies[policy],
            f"policy {policy}",
            observations,
            self.action_space,
            step=step,
            starts=starts,
        )


ARRAYS = {
    field.name: field.default is MISSING
    for field in fields(PolicyQueries)
    if "Array" in str(field.type)
}
"""Names of the fields that have a row for each query, and whether queries need it."""


def policies_of(given: object) -> tuple[Policy, ...]:
    """Return policies as a tuple, or raise ValueError for what is no sequence of them."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ValueError(f"policies must be a sequence of at least one policy, got {given!r:.60}")
    for number, policy in enumerate(given):
        check_policy(policy, f"policies[{number}]")
    return tuple(given)


def _numbers(name: str, given: object, shape: tuple[int, ...] | None) -> FloatArray:
    """Return a frozen array of finite numbers, or raise ValueError; None takes any shape."""
    if given is None:
        raise ValueError(f"{name} is missing: give an array")
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers, got {given!r:.60}") from None
    if shape is not None and values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}")
    if not np.isfinite(values).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"{name} must be finite, and query {where[0]} has {values[where]}: leave it out, or "
            f"compute it again"
        )
    values.flags.writeable = False
    return values


def _whole(name: str, given: object, count: int, least: int, most: int | None) -> IntArray:
    """Return a frozen array [N] of whole numbers in a range, or raise ValueError."""
    values = np.array(given)
    if values.shape != (count,) or values.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be whole numbers of shape ({count},), got {values.dtype} of shape "
            f"{values.shape}"
        )
    outside = values < least if most is None else (values < least) | (values > most)
    if outside.any():
        row = int(outside.argmax())
        span = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be {span}, and query {row} has {values[row]}")
    values = values.astype(np.int64)
    values.flags.writeable = False
    return values
