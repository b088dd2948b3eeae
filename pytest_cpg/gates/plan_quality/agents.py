"""Agents: plans of discrete actions, scored in an environment that can be cloned."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates.plan_quality.formulas import PlanScore, Search, explore
from pytest_cpg.stats import Interval
from pytest_cpg.stats.intervals import check_count
from pytest_cpg.stats.returns import fieller_interval

# Of a stochastic environment: at first, and at most.
_ROLLOUTS, _MOST_ROLLOUTS = 16, 4096


class ShortOfErrorWarning(UserWarning):
    """A score is less sure than was asked: there were no more rollouts."""


class _Edited(NamedTuple):
    """A neighbour of a plan, and what was changed."""

    plan: Plan
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """What a domain says may be changed in a plan.

    Neighbours differ from the plan by one edit, from each other, and are drawn in equal shares of
    the kinds of edits as far as there are so many: substitutions of one action, uniformly of all
    pairs of a place and a substitute; prefixes, uniformly of all lengths from 0; swaps.

    ``substitutes`` returns what may stand at a place, called with the plan (a tuple) and the index;
    what is listed twice is as likely as two. ``truncates`` ends a plan early: a prefix is worth its
    own rewards. ``swaps`` returns pairs of parts of a plan that are independent, each of two slices
    that do not overlap.
    """

    substitutes: Callable[[Plan, int], Sequence[Hashable]]
    truncates: bool = True
    swaps: Callable[[Plan], Sequence[tuple[slice, slice]]] | None = None

    @classmethod
    def among(cls, actions: Sequence[Hashable]) -> Edits:
        """Return edits that put any of these actions anywhere, and swap nothing."""
        return cls(substitutes=lambda plan, at: actions)  # noqa: ARG005  # the same everywhere

    def draw(self, plan: Plan, rng: np.random.Generator) -> Iterator[_Edited]:
        """Yield neighbours in random order; some may come twice, or equal the plan."""
        kinds = (self._substituted(plan), self._truncated(plan), self._swapped(plan))
        queues = []
        for kind in kinds:
            edits = list(kind)
            queues.append([edits[at] for at in rng.permutation(len(edits))])
        for row in zip_longest(*queues):
            yield from filter(None, row)

    def _substituted(self, plan: Plan) -> Iterator[_Edited]:
        for at, old in enumerate(plan):
            for new in self.substitutes(plan, at):
                if new == old:
                    continue
                yield _Edited((*plan[:at], new, *plan[at + 1 :]), f"{old!r} -> {new!r} at {at}")

    def _truncated(self, plan: Plan) -> Iterator[_Edited]:
        for length in range(len(plan) if self.truncates else 0):
            yield _Edited(plan[:length], f"only the first {length}")

    def _swapped(self, plan: Plan) -> Iterator[_Edited]:
        for pair in self.swaps(plan) if self.swaps else ():
            first, second = sorted(pair, key=lambda part: part.indices(len(plan))[0])
            (a, b, _), (c, d, _) = (part.indices(len(plan)) for part in (first, second))
            if not a < b <= c < d:
                raise ValueError(
                    f"need two parts of a plan of {len(plan)} actions that do not overlap, got "
                    f"{first} and {second}"
                )
            swapped = (*plan[:a], *plan[c:d], *plan[b:c], *plan[a:b], *plan[d:])
            yield _Edited(swapped, f"{a}:{b} and {c}:{d} swapped")


def score(
    plan: Sequence[Hashable],
    environment: Environment,
    *,
    edits: Edits,
    seed: int,
    k: int = 64,
    search: Search = "random",
    error: float | None = None,
    level: float = 0.95,
) -> PlanScore:
    """Return what would be better than a plan, by how much, and how it stands among its neighbours.

    Plans are simulated in an environment, which itself is only cloned. A plan, of at least one
    action, is worth the sum of its rewards, up to its last action or the end of the episode.
    Neighbours are ``k``, of which 24 and 64 are published; of 24 random ones often none is better,
    and some random ones flatter a long plan: ``search="adversarial"`` is for these (`explore`).

    A stochastic environment needs ``error``, half of the interval of the score: rollouts are
    doubled from 16 until it is as narrow, or there are 4096, which a `ShortOfErrorWarning` says.
    Plan and neighbours share their seeds. The interval is Fieller's, between the worst and the best
    neighbour as they were found (docs/plan-quality.md says how often it held).

    Raises ValueError for an argument that is none of these, a plan without neighbours, methods that
    the environment lacks or that return something else, clones that share something, and a
    stochastic environment without ``error``, as far as 8 seeds show.
    """
    actions = _checked(plan)
    if not isinstance(edits, Edits):
        raise ValueError(f"edits must be Edits, such as Edits.among(actions), got {edits!r:.60}")
    seed, k = check_count("seed", seed), check_count("k", k, least=1)
    if search not in get_args(Search):
        close = did_you_mean(str(search), get_args(Search))
        raise ValueError(f"search must be one of {get_args(Search)}, got {search!r}. {close}")
    if error is not None and not error > 0:
        raise ValueError(f"error must be above 0, got {error!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, such as 0.95, got {level!r}")
    check_environment(environment)
    # Gymnasium takes no larger ones everywhere.
    states = np.random.SeedSequence(seed).generate_state(_MOST_ROLLOUTS) >> 1
    rng, seeds = np.random.default_rng(seed), [int(state) for state in states]
    simulated = partial(_returns, environment, actions)
    if error is None:
        _check_deterministic(simulated([actions], seeds[:_TRIALS]))
    first = seeds[: 1 if error is None else _ROLLOUTS]
    edited: dict[Plan, str] = {}

    def draw(plans: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        drawn: list[Plan] = []
        # What has no edits left of its own leaves the others to the plan.
        near = ((base, one) for base in (plans[0], actions) for one in edits.draw(base, rng))
        for base, one in near:
            if len(drawn) == count:
                break
            if one.plan == actions or one.plan in edited:
                continue
            edited[one.plan] = f"{edited[base]}, {one.text}" if base in edited else one.text
            drawn.append(one.plan)
        return _array(drawn)[None]

    parts = [simulated([actions], first)]

    def evaluate(plans: npt.NDArray[Any]) -> FloatArray:
        parts.append(simulated(list(plans[0]), first))
        return np.asarray(parts[-1].mean(axis=0)[None])

    value = parts[0].mean(axis=0)
    explore(_array([actions]), value, draw=draw, evaluate=evaluate, k=k, search=search)
    table = np.concatenate(parts, axis=1)
    _check_clones(environment, list(edited), first[0], table[0, 1:])
    interval = None
    if error is not None:
        while not _is_known(table, error, level) and len(table) < len(seeds):
            more = simulated([actions, *edited], seeds[len(table) : 2 * len(table)])
            table = np.concatenate([table, more])
        interval = _interval(table, level)
        if not _is_known(table, error, level):
            _warn_of_error(error, len(table), interval)
    means = table.mean(axis=0)
    return PlanScore(
        value=float(means[0]),
        neighbours=means[1:],
        plans=tuple(edited),
        edits=tuple(edited.values()),
        rollouts=len(table),
        interval=interval,
    )


def _checked(plan: Sequence[Hashable]) -> Plan:
    if isinstance(plan, str) or not isinstance(plan, Iterable):
        raise ValueError(f"need a list of actions, got {plan!r}")
    actions = tuple(plan)
    if not actions:
        raise ValueError("need a plan of at least one action, got none")
    if any(not isinstance(action, Hashable) for action in actions):
        raise ValueError(f"need actions that can be hashed, such as texts and tuples, got {plan!r}")
    return actions


def _array(plans: Sequence[Plan]) -> npt.NDArray[Any]:
    """Return plans as the elements of an array [C], whatever their lengths."""
    array: npt.NDArray[Any] = np.empty(len(plans), dtype=object)
    for at, plan in enumerate(plans):
        array[at] = plan
    return array


def _is_known(table: FloatArray, error: float, level: float) -> bool:
    interval = _interval(table, level)
    if interval is None:
        # Nothing that more rollouts could tell apart.
        return not np.ptp(table, axis=1).any()
    return (interval.high - interval.low) / 2 <= error


def _warn_of_error(error: float, rollouts: int, interval: Interval | None) -> None:
    """Say that rollouts ended before a score was as sure as was asked."""
    reached = "do not tell the best neighbour from the worst"
    if interval is not None:
        reached = f"bound the score to within {(interval.high - interval.low) / 2:.2g}"
    warnings.warn(
        f"{rollouts} rollouts {reached}, and error={error:g} was asked for. Judge by regret and "
        f"better, or ask for a larger error.",
        ShortOfErrorWarning,
        stacklevel=3,
    )


def _interval(table: FloatArray, level: float) -> Interval | None:
    """Bound the score of returns [R, 1 + K], the plan's own first."""
    means = table[:, 1:].mean(axis=0)
    worst, best = table[:, 1 + means.argmin()], table[:, 1 + means.argmax()]
    try:
        return fieller_interval(table[:, 0] - worst, best - worst, level=level)
    except ValueError:
        return None


Plan: TypeAlias = tuple[Hashable, ...]

# Seeds that show whether it is stochastic, and plans that show whether clones share something.
_TRIALS = 8
_STEP = "observation, reward, terminated, truncated and info, as Gymnasium's"
_WANTED = {
    "reset": "Write reset(*, seed), which goes to where the plan begins.",
    "step": f"Write step(action), which returns {_STEP}.",
    "clone": "Write one that returns a copy that shares nothing, such as copy.deepcopy(self).",
}


class Environment(Protocol):
    """A world of discrete actions, real or learned, as Gymnasium has them, that can be cloned."""

    def reset(self, *, seed: int) -> Any:
        """Go to where the plan begins; all that is random from now on follows from the seed."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        """Return observation, reward, whether it is terminated, or truncated, and anything."""

    def clone(self) -> Environment:
        """Return a copy that goes on exactly as this one would, and shares nothing with it."""


def check_environment(environment: Any) -> None:
    """Raise ValueError where something is no environment, with what to write."""
    if isinstance(environment, type):
        raise ValueError(f"the environment is a class. Write {environment.__name__}(...).")
    name = type(environment).__name__
    for method, wanted in _WANTED.items():
        if not callable(getattr(environment, method, None)):
            raise ValueError(f"the environment, a {name!r}, has no {method}(). {wanted}")
    try:
        signature = inspect.signature(environment.reset)
    # Of what is written in C.
    except (TypeError, ValueError):
        return
    try:
        signature.bind(seed=0)
    except TypeError:
        raise ValueError(
            f"reset{signature} of the environment, a {name!r}, takes no seed. {_WANTED['reset']}"
        ) from None


def _returns(
    environment: Environment, plan: Plan, plans: Sequence[Plan], seeds: Sequence[int]
) -> FloatArray:
    """Return the sum of rewards of each plan under each seed [R, K].

    They share much with one plan, whose states are kept.
    """
    table = np.empty((len(seeds), len(plans)))
    for row, seed in enumerate(seeds):
        passed = [_begun(environment, seed)]
        for action in plan:
            passed.append(passed[-1].after((action,)))
        for column, other in enumerate(plans):
            differs = (at for at, (a, b) in enumerate(zip(other, plan, strict=False)) if a != b)
            shared = next(differs, min(len(other), len(plan)))
            table[row, column] = passed[shared].after(other[shared:]).total
    return table


def _begun(environment: Environment, seed: int) -> Reached:
    world = _cloned(environment)
    world.reset(seed=seed)
    return Reached(world, 0.0, is_over=False)


def _check_deterministic(returns: FloatArray) -> None:
    """Raise ValueError where some seeds make a plan worth more or less."""
    if np.ptp(returns):
        raise ValueError(
            f"the environment is stochastic: from {_TRIALS} seeds the plan is worth "
            f"{returns.min():g} to {returns.max():g}. Write error=0.05 for as many rollouts as "
            f"bound the score so closely."
        )


def _check_clones(
    environment: Environment, plans: Sequence[Plan], seed: int, returns: FloatArray
) -> None:
    """Raise ValueError where plans are worth something else without what clones share."""
    for plan, worth in list(zip(plans, returns, strict=True))[:_TRIALS]:
        alone = _begun(environment, seed).after(plan).total
        if alone != worth:
            raise ValueError(
                f"the plan {plan!r:.60} is worth {worth:g} by clones of the environment, and "
                f"{alone:g} from its start. Let clone() return a copy that shares nothing, and "
                f"reset(seed=...) decide all that is random."
            )


class Reached(NamedTuple):
    """Where some actions led, and what they were rewarded with."""

    world: Environment
    total: float
    is_over: bool

    def after(self, actions: Plan) -> Reached:
        """Return where further actions lead; this stays as it is."""
        if self.is_over or not actions:
            return self
        world, total, is_over = _cloned(self.world), self.total, False
        for action in actions:
            reward, is_over = _stepped(world, action)
            total += reward
            if is_over:
                break
        return Reached(world, total, is_over)


def _cloned(world: Environment) -> Environment:
    """Return a clone, or raise ValueError where it is none."""
    clone: Any = world.clone()
    if not callable(getattr(clone, "step", None)) or not callable(getattr(clone, "clone", None)):
        raise ValueError(
            f"clone() returned {clone!r:.60}. Return a copy of the environment that shares "
            f"nothing, such as copy.deepcopy(self)."
        )
    return cast("Environment", clone)


def _stepped(world: Environment, action: Any) -> tuple[float, bool]:
    """Take a step; return its reward, and whether the episode is over."""
    answer: Any = world.step(action)
    if not isinstance(answer, tuple | list) or len(answer) != 5:
        raise ValueError(f"step({action!r}) returned {answer!r:.60}. Return {_STEP}.")
    _, reward, terminated, truncated, _ = answer
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"action {action!r} was rewarded with {reward!r:.60}. Let step() return a finite "
            f"number."
        )
    return number, bool(terminated or truncated)
