"""Benchmark: several comparisons and measurements in one test, with all but the models decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.perturbations import Perturbation
from pytest_cpg.gates.as_trained import as_trained
from pytest_cpg.gates.kind import Measuring
from pytest_cpg.gates.model_ranking import ModelRanking, rank_on_starts
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.gates.planning_gap.sweep import Sweep, sweep_settings
from pytest_cpg.world_models import OracleDynamics


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The value of the fixture `benchmark_runner`.

    Attributes
    ----------
    criteria : Criteria
        What is run, and what the gap is judged by, from the marker and the options.
    measuring : Measuring
        How the test measures; the gate is applied to each comparison after the test's body.
    """

    design: Design
    criteria: Criteria
    measuring: Measuring

    def __repr__(self) -> str:
        return f"Benchmark({self.design.task.name}, {self.design.planner!r})"

    def compare(self, *, learned: Any, oracle: Any = None) -> GateResult:
        """Run the oracle, learned and chance arms on the same starts.

        The marker judges the result once the test's body has ended.

        Parameters
        ----------
        learned : dynamics callable, torch module or world model
            See `pytest_cpg.world_models.bind`.
        oracle : optional
            What stands for the true dynamics; by default the task's own, which is what the
            fixture `oracle_dynamics` gives.
        """
        result: GateResult = self.measuring.measure(learned, oracle_dynamics=self._oracle(oracle))
        return result

    def rank(self, models: Mapping[str, Any]) -> ModelRanking:
        """Run several models on the same starts and rank them; nothing is gated by it.

        Parameters
        ----------
        models : mapping
            What `compare` takes as ``learned``, by name; at least two.
        """
        with self.measuring.beside() as run:
            ranking = rank_on_starts(self.design, models, progress=run.stage)
            self.measuring.note(f"ranking: {ranking}", models=len(models))
        return ranking

    def sweep(
        self,
        *,
        learned: Any,
        oracle: Any = None,
        perturbations: Iterable[Perturbation | str | None] = (),
        horizons: Iterable[int] = (),
        budgets: Iterable[int] = (),
    ) -> Sweep:
        """Run the three arms once for each setting of one thing; nothing is gated by it.

        Parameters
        ----------
        perturbations : iterable
            What goes wrong, of a marker without ``perturbation``; None or "none" for nothing.
        horizons : iterable of int
            Steps that a plan looks ahead, in place of the planner's.
        budgets : iterable of int
            Steps within which an episode has to succeed, at most the task's budget. One run
            answers for all of them.
        """
        with self.measuring.beside() as run:
            sweep = sweep_settings(
                as_trained(self.design, learned),
                self.criteria,
                oracle=self._oracle(oracle),
                learned=learned,
                settings={"perturbation": perturbations, "horizon": horizons, "budget": budgets},
                progress=run.stage,
                execution=run.execution,
            )
            self.measuring.note(sweep.line, models=1)
        return sweep

    def _oracle(self, oracle: Any) -> Any:
        return OracleDynamics(self.design.task) if oracle is None else oracle
