"""Benchmark: several comparisons and measurements in one test, with all but the models decided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.perturbations import Perturbation
from pytest_cpg.episodes.probe import (
    bound_to_starts,
    faults_of,
    ignores_action,
    starts_of,
    unchanged,
)
from pytest_cpg.episodes.stage import ArmProgress
from pytest_cpg.gates.choices import as_trained
from pytest_cpg.gates.kind import Measuring
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.gates.planning_gap.sweep import Sweep, sweep_settings
from pytest_cpg.stats import Interval
from pytest_cpg.stats.rankings import Ranking, kendall_interval, rank_models, spearman_interval
from pytest_cpg.world_models import OracleDynamics, inference

# The usual number; a stricter level needs more for its tails to hold any.
_RESAMPLES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class ModelRanking:
    """World models from best to worst by what they plan, with ``arms`` and ``faults`` by name.

    All of them began at the same starts.
    """

    ranking: Ranking
    arms: Mapping[str, Arm]
    faults: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        ranks = ", ".join(
            f"{rank}. {name} {self.arms[name].success_count}/{self.arms[name].episodes} "
            f"[{low}-{high}]"
            for name, rank, (low, high) in zip(
                self.ranking.names, self.ranking.ranks, self.ranking.rank_intervals, strict=True
            )
        )
        broken = (f"; {name}: {', '.join(found)}" for name, found in self.faults.items() if found)
        return f"by success: {ranks}{''.join(broken)}"

    def correlation(
        self, metric: Mapping[str, float], *, method: Literal["spearman", "kendall"] = "spearman"
    ) -> Interval:
        """Return the rank correlation of planning success with an offline metric of each model.

        Raises ValueError when a model has no number, or when there are too few models or nothing to
        order.
        """
        if set(metric) != set(self.arms):
            raise ValueError(
                f"need a metric for each of {', '.join(self.arms)}, got {', '.join(metric)}"
            )
        interval = {"spearman": spearman_interval, "kendall": kendall_interval}[method]
        return interval(
            [metric[name] for name in self.arms],
            [arm.success_rate for arm in self.arms.values()],
            level=self.ranking.level,
        )


def rank_on_starts(
    design: Design, models: Mapping[str, Any], *, progress: ArmProgress | None = None
) -> ModelRanking:
    """Run the arm of every model on the same starts, each as of `measure_gap`, and rank them.

    Raises CpgError when there are fewer than two models. Raises WorldModelError when a model breaks
    its contract; what a model raises itself goes on unchanged.
    """
    if len(models) < 2:
        raise CpgError(
            f"a ranking needs at least two models, got {len(models)}. Write "
            f'benchmark_runner.rank({{"old": old_model, "new": new_model}}).'
        )
    if len({str(name) for name in models}) < len(models):
        raise CpgError(
            f"two models of the ranking have one name: {', '.join(map(repr, models))}. Give each "
            f"its own."
        )
    starts = starts_of(design)
    arms: dict[str, Arm] = {}
    faults: dict[str, tuple[str, ...]] = {}
    for name, model in models.items():
        with inference(model):
            bound = bound_to_starts(model, design, starts)
            with unchanged(f"the model {name!r}", bound, design, starts):
                run = ArmRun(
                    f"{name!r}",
                    # Ranks are of successes, whatever a gate of this design would judge.
                    replace(design, metric="success"),
                    bound,
                    starts,
                    progress=progress and partial(progress, str(name)),
                )
                arms[str(name)] = replace(run.advance(design.episodes), name=str(name))
                is_blind = ignores_action(bound, design, starts, arms[str(name)])
            faults[str(name)] = tuple(faults_of(replace(bound, ignores_action=is_blind)))
    ranking = rank_models(
        list(arms),
        [arm.successes for arm in arms.values()],
        rng=Stream.RANKING.of(design.seed),
        level=design.level,
        resamples=max(_RESAMPLES, math.ceil(2 / (1 - design.level))),
    )
    return ModelRanking(ranking, arms, faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The value of the fixture `benchmark_runner`: what a marker and the options ask for.

    The gate is applied to each comparison after the test's body.
    """

    design: Design
    criteria: Criteria
    measuring: Measuring

    def __repr__(self) -> str:
        return f"Benchmark({self.design.task.name}, {self.design.planner!r})"

    def compare(self, *, learned: Any, oracle: Any = None) -> GateResult:
        """Run the oracle, learned and chance arms on the same starts.

        ``learned`` is as of `pytest_cpg.world_models.bind`. The task's own dynamics, which the
        fixture `oracle_dynamics` gives, are the truth unless something else is to stand for it.
        """
        result: GateResult = self.measuring.measure(learned, oracle_dynamics=self._oracle(oracle))
        return result

    def rank(self, models: Mapping[str, Any]) -> ModelRanking:
        """Run two models or more, by name, on the same starts and rank them; nothing is gated."""
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

        Perturbations are of a marker without one, None or "none" for nothing; horizons stand in
        place of the planner's; budgets are at most the task's, and one run answers for all of them.
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
