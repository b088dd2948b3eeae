"""True steps: what a model's answers are read against, and how near a reading of them comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    BoxActions,
    FiniteActions,
    FloatArray,
    IncompleteError,
    IntArray,
    Task,
)
from pytest_cpg.contracts.streams import Purpose
from pytest_cpg.contracts.task import observed
from pytest_cpg.episodes.decisions import Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.diagnosis.evidence import TrainingStates
from pytest_cpg.world_models import BoundModel

# A column that changes less than this in a step, of what it varies by, is not asked for more.
_STILL = 0.01
# Random actions in each state; of a finite set all, if they are not more than these.
_ACTIONS, _MOST_ACTIONS = 4, 16
# A step of a model may be so many of the task, or the other way round.
_HELD = 10
# Rounding alone makes a constant differ by a few parts in 1e16.
_NEGLIGIBLE = 1e-9

# Maps observations [B, O] and actions [B, A] to what is observed next, or answered [B, O].
Step: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrueSteps:
    """True steps of a task, from states that the arms of a gate came to.

    Shapes: ``N`` states, ``J`` actions tried in each, ``K`` steps, ``O``, ``A``.
    """

    observations: FloatArray
    #: [N, J, A] and [N, J, O]: All actions of a small set, in its order, or random ones, and what
    #: each leads to.
    actions: FloatArray
    after: FloatArray
    #: [N, 2, A]: Two random actions, others in each state: of one pair for all, some other reading
    #: fits by chance.
    pair: FloatArray
    #: [N, K, O]: Where the first of them leads, held for 1 to ``K`` steps.
    held: FloatArray
    #: [N, O]: Where the first leads and the second then; the idle action and the first then.
    second: FloatArray
    delayed: FloatArray
    #: [A]: The idle action, and half of the range of each number in one.
    idle: FloatArray
    reach: FloatArray
    #: Whether ``actions`` are all that there are.
    is_complete: bool
    #: Seconds of a step.
    period: float
    #: [O]: Of the training data's observations, where they are known, or of these.
    mean: FloatArray
    deviation: FloatArray

    @property
    def fitted(self) -> IntArray:
        """States that readings are fitted on."""
        return np.arange(0, len(self.observations), 2)

    @property
    def checked(self) -> IntArray:
        """States that readings are checked on."""
        return np.arange(1, len(self.observations), 2)

    @property
    def begun(self) -> FloatArray:
        """The observation before each step, [N, 1, O]."""
        return self.observations[:, None]

    @property
    def moves(self) -> BoolArray:
        """Which steps to check on change anything, [N, J]; all where none does."""
        moves: BoolArray = (self.after != self.begun).any(axis=-1)[self.checked]
        return moves if moves.any() else ~moves

    @property
    def change(self) -> FloatArray:
        """The unit of each column [O]: what a step changes; infinite where nothing does."""
        change = _size(self.after - self.begun)
        deviation = self.observations.std(axis=0)
        unit = np.maximum(change, _STILL * deviation)
        negligible = _NEGLIGIBLE * np.abs(self.observations).max(axis=0)
        return np.where(unit > negligible, unit, np.inf)

    @property
    def effect(self) -> FloatArray:
        """The unit of each column [O]: what the choice of an action changes; infinite if none."""
        effect = _size(centred(self.after))
        return np.where(effect > _STILL * self.change, effect, np.inf)

    def errors(self, *answers: FloatArray) -> list[float]:
        """Return how far each of some answers [N, J, O] is off, in states to check on."""
        rows, moves = self.checked, self.moves
        true, unit = self.after[rows][moves], self.change
        wide = (np.broadcast_to(answer, self.after.shape) for answer in answers)
        return [error(answer[rows][moves], true, unit) for answer in wide]


class AskedModel(NamedTuple):
    """A model as it is asked about true steps.

    ``answers`` maps rows [B] of the states and plans [B, H, A] to what the model predicts to be
    observed after each action [B, H, O]. It may be given other observations [B, O] in place of its
    own where it ``takes_observations``, as its latents are just these.
    """

    answers: Callable[..., FloatArray]
    takes_observations: bool


def centred(values: FloatArray) -> FloatArray:
    """Return how answers [N, J, O] to several actions differ from their mean."""
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def error(predicted: FloatArray, true: FloatArray, unit: FloatArray) -> float:
    """Return how far predictions [..., O] are off at most in three rows of four, in these units.

    Half of them may be right by chance: a move into a wall is none. Columns with an infinite unit
    do not count. An answer that is no number is infinitely far off.
    """
    counts: BoolArray = np.isfinite(unit)
    if not counts.any():
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        off = ((predicted - true)[..., counts] / unit[counts]) ** 2
        lengths = np.sqrt(off.mean(axis=-1)).ravel()
    return float(np.sort(np.where(np.isfinite(lengths), lengths, np.inf))[len(lengths) * 3 // 4])


def _size(values: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt((values**2).mean(axis=tuple(range(values.ndim - 1)))))


def true_steps_at(
    design: Design, decisions: Decisions, trained: TrainingStates | str
) -> tuple[TrueSteps, IntArray]:
    """Return true steps, and from which decisions they are: where none of them diverges."""
    task, states, space = design.task, decisions.states, design.task.actions
    actions = actions_to_try(task, decisions.streams(design.seed, Purpose.ACTIONS))
    pair = space.sample(decisions.streams(design.seed, Purpose.PAIRS_OF_ACTIONS), (2,))
    held = [task.step(states, pair[:, 0])]
    for _ in range(1, _HELD):
        held.append(task.step(held[-1], pair[:, 0]))
    idled = task.step(states, np.tile(space.idle, (len(states), 1)))
    seen = {
        "observations": observed(task, states),
        "after": observed_after(task, states, actions),
        "held": observed(task, np.stack(held, axis=1)),
        "second": observed(task, task.step(held[0], pair[:, 1])),
        "delayed": observed(task, task.step(idled, pair[:, 0])),
    }
    rows = rows_of_numbers(*seen.values())
    arrays = {name: np.array(part[rows], dtype=np.float64) for name, part in seen.items()}
    # Where the training data is not known, what is visited has to stand for it.
    visited = arrays["observations"].mean(axis=0), arrays["observations"].std(axis=0)
    mean, deviation = visited if isinstance(trained, str) else (trained.centre, trained.scale)
    limits = [space.low, space.high] if isinstance(space, BoxActions) else space.values
    steps = TrueSteps(
        **arrays,
        actions=actions[rows],
        pair=pair[rows],
        idle=space.idle,
        reach=np.asarray(np.ptp(limits, axis=0) / 2),
        is_complete=actions.shape[1] == len(getattr(space, "values", ())),
        period=task.control_period,
        mean=mean,
        deviation=deviation,
    )
    return steps, rows


def actions_to_try(task: Task, streams: list[np.random.Generator]) -> FloatArray:
    """Return actions to try in each state [N, J, A]: all of a small set, or random ones."""
    actions = task.actions
    if isinstance(actions, FiniteActions) and len(actions.values) <= _MOST_ACTIONS:
        return np.tile(actions.values, (len(streams), 1, 1))
    return actions.sample(streams, (_ACTIONS,))


def observed_after(task: Task, states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return what is observed after actions [N, J, A] in each of the states: [N, J, O]."""
    count, tried = actions.shape[:2]
    after = task.step(np.repeat(states, tried, axis=0), actions.reshape(count * tried, -1))
    return np.asarray(observed(task, after.reshape(count, tried, -1)), dtype=np.float64)


def rows_of_numbers(*parts: FloatArray) -> IntArray:
    """Return the rows in which all of some arrays [N, ...] are finite."""
    are_known = [np.isfinite(part).reshape(len(part), -1).all(axis=1) for part in parts]
    return np.flatnonzero(np.all(are_known, axis=0))


def asked_model(
    learned: BoundModel, latents: FloatArray, observations: FloatArray
) -> AskedModel | None:
    """Return how a model is asked at these latents [N, Z]; None if it predicts no observations."""
    described = learned.described(latents)
    takes_observations = learned.update is None and np.array_equal(described, observations)
    read = learned.described if takes_observations else learned.observe
    if read is None:
        return None
    size = observations.shape[1]

    def answers(
        rows: IntArray, plans: FloatArray, replaced: FloatArray | None = None
    ) -> FloatArray:
        begun = latents[rows]
        if replaced is not None:
            begun = np.concatenate([replaced, begun[:, size:]], axis=1)
        try:
            answered = read(learned.rollout(begun, plans))
        except IncompleteError:
            raise
        # A model may raise anything for what it was never meant to be asked.
        except Exception:
            return np.full((*plans.shape[:2], size), np.nan)
        return np.asarray(answered, dtype=np.float64)

    return AskedModel(answers, takes_observations)
