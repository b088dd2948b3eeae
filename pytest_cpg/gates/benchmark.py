"""Benchmark: the comparison that a test asks for, with everything but the models decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pytest_cpg.episodes.arms import ArmProgress, Execution
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.perturbations import Perturbation
from pytest_cpg.gates.diagnosis.sample import diagnose
from pytest_cpg.gates.model_ranking import ModelRanking, rank_on_starts
from pytest_cpg.gates.planning_gap.criteria import Criteria
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.sweep import Sweep, sweep_settings
from pytest_cpg.machine.deadline import Deadline
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import OracleDynamics

__tracebackhide__ = True

# Verdicts that something is to be done about.
_DIAGNOSED = (Verdict.MODEL_BOTTLENECK, Verdict.PLANNER_BOTTLENECK)


class Watcher(Protocol):
    """Somebody who is told how a comparison goes on."""

    def __call__(self, arm: str, done: int, count: int) -> None:
        """Hear that so many of an arm's episodes are done."""
        ...

    def clear(self) -> None:
        """Hear that the comparison is over, finished or not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The value of the fixture `benchmark_runner`.

    Attributes
    ----------
    design : Design
    criteria : Criteria
        What is run, and what the gap is judged by, from the marker and the options.
    on_result : callable
        Told every result; the gate is applied to it after the test's body.
    on_measurement : callable
        Told every ranking and sweep as text, for the summary, and how many models it is about.
    attempt : callable
        Gives a context in which each comparison and measurement is made, to its last callback. It
        sees what breaks one off, which goes on to the test, and refuses those that come too late.
    watch : Watcher
    deadline : callable
        Starts the time that a comparison or measurement has.
    execution : Execution
        Where arms are run and kept.
    instead : callable, optional
        Given design, oracle, learned model and progress before a comparison; to take its place,
        it leaves the test.
    afterwards : callable, optional
        Given the same once a comparison is over.
    diagnosed : "auto", "always" or "never"
        Which results are asked why: those of MODEL or PLANNER BOTTLENECK, all, or none.
    training_data : array [T, O], path or None
        Observations that the learned model was trained on.
    """

    design: Design
    criteria: Criteria
    on_result: Callable[[GateResult], None]
    on_measurement: Callable[[str, int], None]
    attempt: Callable[[], AbstractContextManager[None]]
    watch: Watcher
    deadline: Callable[[], Deadline]
    execution: Execution
    instead: Callable[[Design, Any, Any, ArmProgress], None] | None = None
    afterwards: Callable[[Design, Any, Any, ArmProgress], None] | None = None
    diagnosed: str = "never"
    training_data: Any = None

    def __repr__(self) -> str:
        return f"Benchmark({self.design.task.name}, {self.design.planner!r})"

    def compare(self, *, learned: Any, oracle: Any = None) -> GateResult:
        """Run the oracle, learned and chance arms on the same starts.

        Parameters
        ----------
        learned : dynamics callable, torch module or world model
            See `pytest_cpg.world_models.bind`.
        oracle : optional
            What stands for the true dynamics; by default the task's own, which is what the
            fixture `oracle_dynamics` gives.

        Returns
        -------
        GateResult
            Judged by the marker once the test's body has ended.
        """
        if oracle is None:
            oracle = OracleDynamics(self.design.task)
        with self.attempt():
            with self._followed() as progress:
                if self.instead is not None:
                    self.instead(self.design, oracle, learned, progress)
                result = measure_gap(
                    self.design,
                    self.criteria,
                    oracle=oracle,
                    learned=learned,
                    progress=progress,
                    execution=self.execution,
                )
                if self._is_diagnosed(result):
                    found = diagnose(
                        self.design,
                        oracle=oracle,
                        learned=learned,
                        result=result,
                        training_data=self.training_data,
                        progress=progress,
                    )
                    result = replace(result, diagnosis=found)
            self.on_result(result)
            if self.afterwards is not None:
                with self._followed() as progress:
                    self.afterwards(self.design, oracle, learned, progress)
        return result

    def rank(self, models: Mapping[str, Any]) -> ModelRanking:
        """Run several models on the same starts and rank them; nothing is gated by it.

        Parameters
        ----------
        models : mapping
            What `compare` takes as ``learned``, by name; at least two.

        Returns
        -------
        ModelRanking
            To assert on.
        """
        with self.attempt():
            with self._followed() as progress:
                ranking = rank_on_starts(self.design, models, progress=progress)
            self.on_measurement(f"ranking: {ranking}", len(models))
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
        learned, oracle
            As of `compare`.
        perturbations : iterable
            What goes wrong, of a marker without ``perturbation``; None or "none" for nothing.
        horizons : iterable of int
            Steps that a plan looks ahead, in place of the planner's.
        budgets : iterable of int
            Steps within which an episode has to succeed, at most the task's budget. One run
            answers for all of them.

        Returns
        -------
        Sweep
            To assert on, and to print.
        """
        with self.attempt():
            with self._followed() as progress:
                found = sweep_settings(
                    self.design,
                    self.criteria,
                    oracle=OracleDynamics(self.design.task) if oracle is None else oracle,
                    learned=learned,
                    settings={
                        "perturbation": perturbations,
                        "horizon": horizons,
                        "budget": budgets,
                    },
                    progress=progress,
                    execution=self.execution,
                )
            self.on_measurement(found.line, 1)
        return found

    def _is_diagnosed(self, result: GateResult) -> bool:
        if result.is_smoke or result.is_aa or self.diagnosed == "never":
            return False
        return self.diagnosed == "always" or result.verdict in _DIAGNOSED

    @contextmanager
    def _followed(self) -> Iterator[ArmProgress]:
        """Give what is told of every plan; it shows it, and breaks off when the time is over."""
        deadline = self.deadline()

        def progress(arm: str, done: int, count: int) -> None:
            self.watch(arm, done, count)
            deadline.check()

        try:
            with deadline.guard():
                yield progress
        finally:
            self.watch.clear()
