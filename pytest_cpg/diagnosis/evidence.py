"""Evidence: what a learned model and the truth say of the same plans from the same states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.diagnosis.coverage import Coverage
from pytest_cpg.planners.objective import Objective

# Rows of the candidates that planners chose; those behind them are random.
LEARNED, ORACLE, FIRST_RANDOM = 0, 1, 2

Memory: TypeAlias = Literal["none", "decoded", "opaque"]


class Headroom(NamedTuple):
    """Episodes that the oracle arm failed, run again with four times the search.

    Attributes
    ----------
    solved, tried : int
    """

    solved: int
    tried: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Decisions taken again, with the model's answer and the truth.

    Shapes: ``N`` decisions, ``C`` candidate plans (that of the learned arm's planner, that of the
    oracle arm's, ``K`` random ones), ``H`` horizon, ``J`` places where one step is probed. Errors
    and spreads are lengths in the model's latents, each dimension in units of its own deviation;
    nan where the truth diverges.

    Attributes
    ----------
    episodes : array [N], int
        Which episode each decision is from.
    predicted : array [N, C, H]
        The score that the model is planned with, of what it predicts. Infinite past the budget.
    expected : array [N, C, H] or None
        The same of a model that draws noise, with a noise of 0, as all lengths are; None for a
        deterministic one.
    actual : array [N, C, H]
        The task's score of what is true. Infinite past the budget, and where the truth diverges.
    rescored : array [N, C, H] or None
        The model's own score of what is true; None where it plans with the task's.
    errors : array [N, C, H]
        How far the predicted state is off.
    spreads, responses : array [N, H]
        How far random plans lead apart, in truth and as the model predicts.
    probe_errors, probe_spreads : array [N, J]
        How far a step is off, and how far apart actions lead in one step, from states that plans
        lead through.
    probe_gains : array [N, J]
        Predicted effect of the action per true effect, by least squares.
    probe_distances : array [N, J] or None
        How far these states are from the training data, as multiples of the threshold.
    objective : Objective
        What the planner chooses plans for.
    remaining : array [N], int
        Steps until the budget.
    memory : "none", "decoded" or "opaque"
        Whether the model has a memory, and what it holds can be compared with what is observed.
        Where it is decoded, lengths are those of observations.
    coverage : Coverage or str
        Of the states that planners visit or imagine; a text says why it was not checked.
    headroom : Headroom or None
        None where it was not asked for.
    """

    episodes: IntArray
    predicted: FloatArray
    expected: FloatArray | None
    actual: FloatArray
    rescored: FloatArray | None
    errors: FloatArray
    spreads: FloatArray
    responses: FloatArray
    probe_errors: FloatArray
    probe_spreads: FloatArray
    probe_gains: FloatArray
    probe_distances: FloatArray | None
    objective: Objective
    remaining: IntArray
    memory: Memory
    coverage: Coverage | str
    headroom: Headroom | None
