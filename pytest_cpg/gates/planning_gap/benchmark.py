"""Benchmark: several comparisons and measurements in one test, with all but the models decided.

A ranking has several models under one setting, a sweep one model under several settings of one
thing; neither has a verdict.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, Literal, get_args

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.episodes import probe
from pytest_cpg.episodes.arm import Arm, Metric
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, replaced
from pytest_cpg.episodes.disturbance import changes_observations
from pytest_cpg.episodes.perturbation_names import (
    PERTURBATIONS,
    PerturbationFactory,
    parse_perturbation,
)
from pytest_cpg.episodes.perturbations import Perturbation
from pytest_cpg.episodes.stage import Stage
from pytest_cpg.gates.choices import as_trained
from pytest_cpg.gates.kind import Measuring, Run
from pytest_cpg.gates.notation import perturbation_name
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.result import GateResult, reached
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.stats import Interval
from pytest_cpg.stats.rankings import Ranking, kendall_interval, rank_models, spearman_interval
from pytest_cpg.world_models import OracleDynamics, inference

# The usual number; a stricter level needs more for its tails to hold any.
_RESAMPLES = 1000
# Columns of a sweep that is printed.
_WIDTH = 80
# A success rate that is this near to the best one is as good.
_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class ModelRanking:
    """World models from best to worst by what they plan, with ``arms`` and ``faults`` by name.

    All of them began at the same starts.
    """

    ranking: Ranking
    arms: Mapping[str, Arm]
    faults: Mapping[str, tuple[str, ...]]
    by: Metric = "success"

    def __str__(self) -> str:
        ranks = ", ".join(
            f"{rank}. {name} {reached(self.arms[name], self.by)} [{low}-{high}]"
            for name, rank, (low, high) in zip(
                self.ranking.names, self.ranking.ranks, self.ranking.rank_intervals, strict=True
            )
        )
        broken = (f"; {name}: {', '.join(found)}" for name, found in self.faults.items() if found)
        return f"by {self.by}: {ranks}{''.join(broken)}"

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
            [
                float(arm.returns.mean()) if self.by == "return" else arm.success_rate
                for arm in self.arms.values()
            ],
            level=self.ranking.level,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """One model under several settings of one thing, on the same starts.

    ``over`` is "perturbation" or "horizon", and ``sweep[setting]`` the result of a setting, such as
    ``"none"`` or 15. Intervals are not corrected for the number of results.
    """

    over: str
    results: Mapping[str, GateResult]

    def __getitem__(self, setting: object) -> GateResult:
        name = _name_of(setting)
        if name not in self.results:
            raise KeyError(f"{name}; the sweep has {', '.join(self.results)}")
        return self.results[name]

    def __str__(self) -> str:
        design = next(iter(self.results.values())).design
        is_shared = self.over != "perturbation" and design.perturbation
        under = f", under {design.perturbation}" if is_shared else ""
        lines = [f"sweep over {self.over}: {design.task}{under}", *self._lines()]
        filled = textwrap.TextWrapper(_WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        return "\n".join(map(filled.fill, lines))

    @property
    def line(self) -> str:
        """All results in one line for the summary."""
        return f"sweep over {self.over}: {'; '.join(self._lines())}"

    def effective_horizon(self, arm: str) -> int | None:
        """Return the smallest horizon whose success rate is at most 0.05 below the best one.

        None where no episode succeeded. Raises ValueError when the sweep is not over horizons, or
        there is no such arm.
        """
        if self.over != "horizon":
            raise ValueError(
                f"this sweep is over {self.over}. Write sweep(learned=..., horizons=[5, 10, 15])."
            )
        runs = [(int(at), run) for at, result in self.results.items() for run in result.arms]
        rates = {at: run.success_rate for at, run in runs if run.name == arm}
        if not rates:
            arms = dict.fromkeys(run.name for _, run in runs)
            raise ValueError(f"no arm is named {arm!r}. {did_you_mean(str(arm), arms)}")
        best = max(rates.values())
        # Rates of a few episodes differ by whole shares of them: rounding must not decide.
        good = (at for at, rate in rates.items() if rate >= best - _TOLERANCE - 1e-9)
        return min(good) if best else None

    def _lines(self) -> Iterator[str]:
        for setting, result in self.results.items():
            rates = ", ".join(f"{arm.name} {arm.success_rate:.2f}" for arm in result.arms)
            gap = result.interval
            ends = f"[{gap.low:+.2f},{gap.high:+.2f}]"
            name = perturbation_name(setting)
            yield f"{name}: {rates}, gap {gap.estimate:+.2f} {ends}"
        if self.over == "horizon":
            horizons = (f"{arm} {self.effective_horizon(arm)}" for arm in ("oracle", "learned"))
            best = f"smallest within {_TOLERANCE:g} of the best rate"
            yield f"effective horizon ({best}): {', '.join(horizons)}"


def _name_of(setting: object) -> str:
    return "none" if setting is None else str(getattr(setting, "name", setting))


def _designs(
    design: Design,
    settings: Mapping[str, Iterable[Any]],
    perturbations: Mapping[str, PerturbationFactory],
) -> tuple[str, dict[str, Design]]:
    """Return what is swept over, and the design of each setting by its name."""
    chosen = {}
    for over, values in settings.items():
        if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
            raise CpgError(
                f"{over}: need a list of what is swept over, got {values!r}. Write "
                f"sweep(learned=..., {over}s=[{values!r}])."
            )
        if listed := list(values):
            chosen[over] = listed
    if len(chosen) != 1:
        raise CpgError(
            f"a sweep is over one thing, got {' and '.join(chosen) or 'nothing'}. Write "
            f'sweep(learned=..., perturbations=["none", "drop-next-5"]), or horizons=.'
        )
    ((over, settings_of),) = chosen.items()
    is_horizon = over == "horizon"
    if not is_horizon and design.perturbation is not None:
        raise CpgError(
            f"perturbation: the marker has {design.perturbation.name!r}, and this sweep sets each "
            f"row's own. Take it out of the marker and name it in "
            f"sweep(perturbations=[..., {design.perturbation.name!r}])."
        )
    designs: dict[str, Design] = {}
    for value in settings_of:
        try:
            changed = (
                _with_horizon(design, value)
                if is_horizon
                else replace(design, perturbation=parse_perturbation(value, perturbations))
            )
        except ValueError as error:
            raise CpgError(str(error) if is_horizon else f"{over}: {error}") from None
        name = str(value) if is_horizon else _name_of(changed.perturbation)
        if not is_horizon and changes_observations(changed.perturbation):
            raise CpgError(
                f"{over}: under {name!r} models observe other numbers, and a sweep has one model. "
                f"Write a gate for it: perturbation={name!r}."
            )
        if name in designs:
            raise CpgError(f"the sweep has the {over} {name} twice. Leave one of them out.")
        designs[name] = changed
    return over, designs


def _with_horizon(design: Design, value: Any) -> Design:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise CpgError(f"horizon: need a whole number of at least 1, got {value!r}")
    return replace(design, planner=replaced("planner", design.planner, "horizon", int(value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """The value of the fixture `benchmark_runner`: what a marker and the options ask for.

    The gate is applied to each comparison after the test's body.
    """

    design: Design
    criteria: Criteria
    measuring: Measuring
    perturbations: Mapping[str, PerturbationFactory] = field(default_factory=lambda: PERTURBATIONS)

    def __repr__(self) -> str:
        return f"Benchmark({self.design.task.name}, {self.design.planner!r})"

    def compare(self, *, learned: Any, oracle: Any = None) -> GateResult:
        """Run the oracle, learned and chance arms on the same starts.

        ``learned`` is as of `pytest_cpg.world_models.bind`. The task's own dynamics, which the
        fixture `oracle_dynamics` gives, are the truth unless something else is to stand for it.
        """
        result: GateResult = self.measuring.measure(learned, oracle_dynamics=self._oracle(oracle))
        return result

    def rank(self, models: Mapping[str, Any], *, by: Metric = "success") -> ModelRanking:
        """Run the arm of two models or more, by name, on the same starts, and rank them.

        By their successes, which is by their gaps, too, as they share one oracle; or by "return".
        Nothing is gated. Raises CpgError for fewer models, and WorldModelError when one breaks its
        contract; what a model raises itself goes on unchanged.
        """
        with self.measuring.beside() as run:
            _check_names(models)
            if by not in get_args(Metric):
                raise CpgError(f'by: need "success" or "return", got {by!r}')
            # Whatever a gate of this design would judge.
            design = replace(self.design, metric=by)
            starts = probe.starts_of(design)
            arms: dict[str, Arm] = {}
            faults: dict[str, tuple[str, ...]] = {}
            for name, model in zip(map(str, models), models.values(), strict=True):
                with inference(model):
                    bound = probe.bound_to_starts(model, design, starts)
                    with probe.unchanged(f"the model {name!r}", bound, design, starts):
                        progress = partial(run.stage, name)
                        arm = ArmRun(f"{name!r}", design, bound, starts, progress=progress)
                        arms[name] = replace(arm.advance(design.episodes), name=name)
                        is_blind = probe.ignores_action(bound, design, starts, arms[name])
                faults[name] = tuple(probe.faults_of(replace(bound, ignores_action=is_blind)))
            ranking = rank_models(
                list(arms),
                [arm.returns if by == "return" else arm.successes for arm in arms.values()],
                rng=Stream.RANKING.of(design.seed),
                level=design.level,
                resamples=max(_RESAMPLES, math.ceil(2 / (1 - design.level))),
            )
            ranked = ModelRanking(ranking, arms, faults, by)
            self.measuring.note(f"ranking: {ranked}", models=len(models))
        return ranked

    def sweep(
        self,
        *,
        learned: Any,
        oracle: Any = None,
        perturbations: Iterable[Perturbation | str | None] = (),
        horizons: Iterable[int] = (),
    ) -> Sweep:
        """Run the three arms once for each setting of one thing; nothing is gated by it.

        Perturbations are of a marker without one, None or "none" for nothing; horizons stand in
        place of the planner's. Raises CpgError when there are none, or an impossible one; otherwise
        as `measure_gap`.
        """
        with self.measuring.beside() as run:
            design = as_trained(self.design, learned)
            settings = {"perturbation": perturbations, "horizon": horizons}
            over, designs = _designs(design, settings, self.perturbations)
            _check_sweep(design, over, learned)
            criteria = replace(self.criteria, stop="fixed", margin=None, family_size=1)
            results = {}
            for setting, of_setting in designs.items():
                results[setting] = measure_gap(
                    of_setting,
                    criteria,
                    oracle=self._oracle(oracle),
                    learned=learned,
                    progress=partial(_told, run, setting),
                    execution=run.execution,
                )
            sweep = Sweep(over=over, results=results)
            self.measuring.note(sweep.line, models=1)
        return sweep

    def _oracle(self, oracle: Any) -> Any:
        return OracleDynamics(self.design.task) if oracle is None else oracle


def _told(run: Run, setting: str, arm: str, stage: Stage) -> None:
    run.stage(f"{setting} {arm}", stage)


def _check_names(models: Mapping[str, Any]) -> None:
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


def _check_sweep(design: Design, over: str, learned: Any) -> None:
    if design.metric == "return":
        raise CpgError(
            'a sweep tells success rates, and this gate is judged by metric="return". Write '
            'metric="success" in the marker of a test that sweeps, or compare() once for each '
            "setting."
        )
    if over != "horizon":
        return
    with inference(learned):
        planner = probe.bound_to_starts(learned, design, probe.starts_of(design)).planner
    if planner is not None:
        raise CpgError(
            f"horizon: the learned arm is planned by the {planner.name}, which looks "
            f"{planner.horizon} steps ahead in every row. Leave that method out, and the gate's "
            f"planner plans; or make a model of each horizon, and write "
            f"benchmark_runner.rank({{...}})."
        )
