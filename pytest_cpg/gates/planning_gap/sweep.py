"""Sweep: gaps of one model under several settings of one thing, run by run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import LeastReturn
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.episodes.design import Design, replaced
from pytest_cpg.episodes.perturbations import parse_perturbation
from pytest_cpg.episodes.probe import bound_to_starts, starts_of
from pytest_cpg.episodes.stage import ArmProgress
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.stopping import Criteria, gap_interval
from pytest_cpg.stats import Interval
from pytest_cpg.world_models import inference

_WIDTH = 80
# A success rate that is this near to the best one is as good.
_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepRow:
    """What was measured under one setting: a perturbation's name, ``"none"``, or a number of steps.

    ``success`` are Wilson intervals of the success rate, and ``arms`` what was run, by arm:
    ``"oracle"``, ``"learned"``, ``"chance"``, and ``"rescored"`` where the model has a score of its
    own. Rows of a sweep over budgets share one run, of the longest budget there is. ``gap`` is the
    oracle's minus the learned success rate, in [-1, 1].
    """

    setting: str
    success: Mapping[str, Interval]
    gap: Interval
    arms: Mapping[str, Arm]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """The three arms under several settings, on the same starts.

    ``sweep[setting]`` is a setting's row. ``over`` is "perturbation", "horizon" or "budget": what
    is another in each row; ``perturbation`` is what goes wrong in all of them.
    """

    over: str
    rows: tuple[SweepRow, ...]
    task: str
    perturbation: str = ""

    def __getitem__(self, setting: object) -> SweepRow:
        name, rows = _name_of(setting), {row.setting: row for row in self.rows}
        if name not in rows:
            raise KeyError(f"{name}; the sweep has {', '.join(rows)}")
        return rows[name]

    def __str__(self) -> str:
        under = f", under {self.perturbation}" if self.perturbation else ""
        lines = [f"sweep over {self.over}: {self.task}{under}", *self._lines()]
        return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ") for line in lines)

    @property
    def line(self) -> str:
        """All rows in one line for the summary."""
        return f"sweep over {self.over}: {'; '.join(self._lines())}"

    def effective_horizon(self, arm: str, *, tolerance: float = _TOLERANCE) -> int | None:
        """Return the smallest horizon of the sweep whose success rate is as good as the best.

        As good is what lies at most ``tolerance`` in [0, 1] below it. None where no episode
        succeeded. Raises ValueError when the sweep is not over horizons, or there is no such arm or
        tolerance.
        """
        if self.over != "horizon":
            raise ValueError(
                f"this sweep is over {self.over}. Write sweep(learned=..., horizons=[5, 10, 15])."
            )
        arms = list(self.rows[0].success)
        if arm not in arms:
            raise ValueError(f"no arm is named {arm!r}. {did_you_mean(str(arm), arms)}")
        is_number = isinstance(tolerance, Real) and not isinstance(tolerance, bool)
        if not is_number or not 0 <= tolerance <= 1:
            raise ValueError(f"tolerance: need a number from 0 to 1, got {tolerance!r}")
        rates = {int(row.setting): row.success[arm].estimate for row in self.rows}
        best = max(rates.values())
        # Rates of a few episodes differ by whole shares of them: rounding must not decide.
        good = (at for at, rate in rates.items() if rate >= best - tolerance - 1e-9)
        return min(good) if best else None

    def _lines(self) -> Iterator[str]:
        for row in self.rows:
            rates = (f"{name} {rate.estimate:.2f}" for name, rate in row.success.items())
            gap = f"{row.gap.estimate:+.2f} [{row.gap.low:+.2f},{row.gap.high:+.2f}]"
            yield f"{row.setting}: {', '.join(rates)}, gap {gap}"
        if self.over == "horizon":
            horizons = (f"{arm} {self.effective_horizon(arm)}" for arm in ("oracle", "learned"))
            best = f"smallest within {_TOLERANCE:g} of the best rate"
            yield f"effective horizon ({best}): {', '.join(horizons)}"


def _name_of(setting: object) -> str:
    return "none" if setting is None else str(getattr(setting, "name", setting))


def sweep_settings(
    design: Design,
    criteria: Criteria,
    *,
    oracle: Any,
    learned: Any,
    settings: Mapping[str, Iterable[Any]],
    progress: ArmProgress | None = None,
    execution: Execution | None = None,
) -> Sweep:
    """Run the three arms under each setting, all episodes of the design, on the same starts.

    ``settings`` are those of ``"perturbation"``, ``"horizon"`` and ``"budget"``, for one of them.
    Raises CpgError when there are none, or an impossible one; otherwise as `measure_gap`.
    """
    over, values = _chosen(settings)
    if design.metric == "return":
        raise CpgError(
            'a sweep tells success rates, and this gate is judged by metric="return". Write '
            'metric="success" in the marker of a test that sweeps, or compare() once for each '
            "setting."
        )
    if over == "perturbation" and design.perturbation is not None:
        raise CpgError(
            f"perturbation: the marker has {design.perturbation.name!r}, and this sweep sets each "
            f"row's own. Take it out of the marker and name it in "
            f"sweep(perturbations=[..., {design.perturbation.name!r}])."
        )
    criteria = replace(criteria, stop="fixed")
    designs = _designs(design, over, values)
    if over == "horizon":
        _check_horizon(design, learned)
    rows: list[SweepRow] = []
    for name, setting in designs.items():
        result = measure_gap(
            setting,
            criteria,
            oracle=oracle,
            learned=learned,
            progress=progress and _named(progress, name),
            execution=execution,
        )
        arms = {arm.name: arm for arm in result.arms}
        for steps in values if over == "budget" else [int(design.task.budget)]:
            within = {
                arm.name: replace(arm, successes=arm.successes & (arm.steps <= steps))
                for arm in result.arms
            }
            pair, level = (within["oracle"], within["learned"]), design.level
            row = SweepRow(
                setting=str(steps) if over == "budget" else name,
                success={arm: outcome.interval for arm, outcome in within.items()},
                gap=gap_interval(criteria.interval, *pair, level=level),
                arms=arms,
            )
            rows.append(row)
    perturbation = design.perturbation
    return Sweep(
        over=over,
        rows=tuple(rows),
        task=str(design.task.name),
        perturbation="" if perturbation is None or over == "perturbation" else perturbation.name,
    )


def _chosen(settings: Mapping[str, Iterable[Any]]) -> tuple[str, list[Any]]:
    chosen = {}
    for over, values in settings.items():
        if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
            raise CpgError(
                f"{over}: need a list of what is swept over, got {values!r}. Write "
                f"sweep(learned=..., {over}s=[{values!r}])."
            )
        listed = list(values)
        if listed:
            chosen[over] = listed
    if len(chosen) != 1:
        raise CpgError(
            f"a sweep is over one thing, got {' and '.join(chosen) or 'nothing'}. Write "
            f'sweep(learned=..., perturbations=["none", "drop-next-5"]), or horizons= or budgets=.'
        )
    ((over, values),) = chosen.items()
    try:
        if over == "perturbation":
            values = [parse_perturbation(setting) for setting in values]
    except ValueError as error:
        raise CpgError(f"perturbation: {error}") from None
    names = [_name_of(setting) for setting in values]
    for name in names:
        if names.count(name) > 1:
            raise CpgError(f"the sweep has the {over} {name} twice. Leave one of them out.")
    for setting in values if over != "perturbation" else ():
        if isinstance(setting, bool) or not isinstance(setting, Integral) or setting < 1:
            raise CpgError(f"{over}: need a whole number of at least 1, got {setting!r}")
    return over, values


def _designs(design: Design, over: str, values: Sequence[Any]) -> dict[str, Design]:
    """Return what is to be run, by name: for budgets it is one run."""
    if over == "perturbation":
        return {_name_of(value): replace(design, perturbation=value) for value in values}
    if over == "budget":
        longest, budget = max(values), int(design.task.budget)
        if has(design.task, LeastReturn):
            raise CpgError(
                "budget: with a return as its goal an episode succeeds at its end, whose return a "
                "shorter one says nothing of. Write a marker with each budget=."
            )
        if longest > budget:
            raise CpgError(
                f"budget: an episode has {budget} steps, got {longest}. Write budget={longest} in "
                f"the marker."
            )
        return {f"budget {budget}": design}
    try:
        return {
            str(value): replace(
                design, planner=replaced("planner", design.planner, "horizon", int(value))
            )
            for value in values
        }
    except ValueError as error:
        raise CpgError(str(error)) from None


def _check_horizon(design: Design, learned: Any) -> None:
    with inference(learned):
        bound = bound_to_starts(learned, design, starts_of(design))
    if bound.planner is not None:
        raise CpgError(
            f"horizon: the learned arm is planned by the {bound.planner.name}, which looks "
            f"{bound.planner.horizon} steps ahead in every row. Leave that method out, and the "
            f"gate's planner plans; or make a model of each horizon, and write "
            f"benchmark_runner.rank({{...}})."
        )


def _named(progress: ArmProgress, setting: str) -> ArmProgress:
    return lambda arm, stage: progress(f"{setting} {arm}", stage)
