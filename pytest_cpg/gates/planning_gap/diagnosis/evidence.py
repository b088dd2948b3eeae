"""Evidence: what a learned model and the truth say of the same plans from the same states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.gates.planning_gap.diagnosis.coverage import Coverage
from pytest_cpg.planners.search import Objective
from pytest_cpg.stats import Interval

# Rows of the candidates that planners chose; those behind them are random.
LEARNED, ORACLE, FIRST_RANDOM = 0, 1, 2
CHOSEN = slice(FIRST_RANDOM)
# Steps of a plan between the true states that a model is asked to resume it from: enough for an
# action to move what the score reads, by way of a speed.
WINDOW = 3

Memory: TypeAlias = Literal["none", "decoded", "opaque"]


class Headroom(NamedTuple):
    """Episodes that the oracle arm failed, run again with four times the search."""

    solved: int
    tried: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """What a model lacks: few numbers that remove most of its error on steps not fitted on.

    ``name`` is the constant that is wrong, ``claim`` what mends the error, ``advice`` where to look
    and ``left`` the share of the error that is left.
    """

    name: str
    claim: str
    advice: str
    left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStep:
    """Errors of one step, in units of what a step changes in each column.

    ``error`` is of true steps where plans lead, ``trained`` of the transitions of the training data
    that are nearest to these, ``ratio`` the first per second. ``term`` is what the error consists
    of, if it has a simple form, ``right`` the share of the steps in which anything is done and
    happens that are right. With transitions the other two would be known where it
    ``lacks_transitions``.
    """

    error: Interval | None
    trained: Interval | None = None
    ratio: Interval | None = None
    term: Term | None = None
    right: float = 0.0
    lacks_transitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Decisions taken again, with the model's answer and the truth.

    Shapes: ``N`` decisions, ``C`` candidate plans (that of the learned arm's planner, that of the
    oracle arm's, ``K`` random ones), ``H`` horizon, ``J`` windows of `WINDOW` steps in it. Scores
    are infinite past the budget, and where the truth diverges.

    - ``episodes`` [N], ``lost`` [E]: which episode each decision is from, and those that only the
      oracle solved.
    - ``resumed`` [N, J, C, H]: the score that the model is planned with, of what it predicts from
      the true state at the beginning of each window on, with a noise of 0. Infinite before it.
    - ``drawn`` [N, C, H]: the same of whole plans with the noise that the model draws; None for a
      deterministic one.
    - ``actual``, ``rescored`` [N, C, H]: the task's score of what is true, and the model's own;
      None where it plans with the task's.
    - ``observed`` [N, J, C, H]: as ``resumed``, by the task's score of what the model decodes; None
      where it decodes nothing or has no other score or reward.
    - ``afresh`` [N, 2, C, H]: of a model with memory, what is true as it encodes each observation
      without: by its own score, and by the task's of what it decodes. None where ``observed`` is.
    - ``is_idle`` [N, C, J]: windows in which a plan does nothing.
    - ``distances`` [N, 2, J]: how far chosen plans lead from the training data, as multiples of the
      threshold; None where that is not known.
    - ``remaining`` [N]: steps until the budget.
    - ``memory``: whether the model has one, and what it holds can be compared with what is
      observed.
    - ``coverage``: of the states that planners visit or imagine; a text says why it was not
      checked.
    - ``one_step``: None where answers cannot be compared with observations.
    """

    episodes: IntArray
    lost: IntArray
    resumed: FloatArray
    drawn: FloatArray | None
    actual: FloatArray
    rescored: FloatArray | None
    observed: FloatArray | None
    afresh: FloatArray | None
    is_idle: BoolArray
    distances: FloatArray | None
    objective: Objective
    remaining: IntArray
    memory: Memory
    coverage: Coverage | str
    one_step: OneStep | None = None

    @property
    def expected(self) -> FloatArray:
        """What the model predicts of whole plans with a noise of 0, [N, C, H]."""
        return self.resumed[:, 0]

    @property
    def predicted(self) -> FloatArray:
        """What plans are chosen by, [N, C, H]."""
        return self.expected if self.drawn is None else self.drawn

    @property
    def kept(self) -> FloatArray:
        """What plans come to, by the score that the model is planned with, [N, C, H]."""
        return self.actual if self.rescored is None else self.rescored
