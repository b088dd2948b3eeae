"""Model ranking: several world models on the same starts, ordered by what they plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import (
    bound_to_starts,
    faults_of,
    ignores_action,
    starts_of,
    unchanged,
)
from pytest_cpg.episodes.stage import ArmProgress
from pytest_cpg.stats import Interval
from pytest_cpg.stats.rankings import Ranking, kendall_interval, rank_models, spearman_interval
from pytest_cpg.world_models import inference

# The usual number; a stricter level needs more for its tails to hold any.
_RESAMPLES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class ModelRanking:
    """World models in the order of what they plan.

    Attributes
    ----------
    ranking : Ranking
        Names from best to worst, their ranks and the intervals of those.
    arms : mapping
        Outcomes of each model, by name; all of them began at the same starts.
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
        """Return the rank correlation of an offline metric with planning success.

        Raises ValueError when a model has no number, or when there are too few models or nothing to
        order.

        Parameters
        ----------
        metric : mapping
            One number for each model, by name, such as its validation error.
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
