"""Sweeping: the runs of a sweep, one for each of its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import LeastReturn
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.episodes.design import Design, replaced
from pytest_cpg.episodes.perturbations import parse_perturbation
from pytest_cpg.episodes.probe import bound_to_starts, starts_of
from pytest_cpg.episodes.stage import ArmProgress
from pytest_cpg.gates.planning_gap.criteria import Criteria
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.stopping import gap_interval
from pytest_cpg.gates.planning_gap.sweep import Sweep, SweepRow, name_of
from pytest_cpg.world_models import inference


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

    Raises CpgError when there is nothing to sweep over, or a setting is impossible. Raises
    WorldModelError when a model breaks its contract; what a model raises itself goes on unchanged.
    ``settings`` are those of ``"perturbation"``, ``"horizon"`` and ``"budget"``, for one of them.
    """
    over, asked = _asked(settings)
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
    designs = _designs(design, over, asked)
    if over == "horizon":
        _check_horizon(design, learned)
    runs = {}
    for name, one in designs.items():
        result = measure_gap(
            one,
            criteria,
            oracle=oracle,
            learned=learned,
            progress=progress and _named(progress, name),
            execution=execution,
        )
        runs[name] = {arm.name: arm for arm in result.arms}
    if over == "budget":
        (arms,) = runs.values()
        rows = [_row(design, criteria, str(steps), arms, steps) for steps in asked]
    else:
        budget = int(design.task.budget)
        rows = [_row(design, criteria, name, arms, budget) for name, arms in runs.items()]
    own = design.perturbation
    return Sweep(
        over=over,
        rows=tuple(rows),
        task=str(design.task.name),
        planner=repr(design.planner),
        perturbation="" if own is None or over == "perturbation" else own.name,
    )


def _asked(settings: Mapping[str, Iterable[Any]]) -> tuple[str, list[Any]]:
    """Return what is swept over and its settings, each once."""
    listed = {over: _listed(over, values) for over, values in settings.items()}
    given = {over: values for over, values in listed.items() if values}
    if len(given) != 1:
        raise CpgError(
            f"a sweep is over one thing, got {' and '.join(given) or 'nothing'}. Write "
            f'sweep(learned=..., perturbations=["none", "drop-next-5"]), or horizons= or budgets=.'
        )
    ((over, asked),) = given.items()
    try:
        if over == "perturbation":
            asked = [parse_perturbation(one) for one in asked]
    except ValueError as error:
        raise CpgError(f"perturbation: {error}") from None
    names = [name_of(one) for one in asked]
    for name in names:
        if names.count(name) > 1:
            raise CpgError(f"the sweep has the {over} {name} twice. Leave one of them out.")
    for one in asked if over != "perturbation" else ():
        if isinstance(one, bool) or not isinstance(one, Integral) or one < 1:
            raise CpgError(f"{over}: need a whole number of at least 1, got {one!r}")
    return over, asked


def _listed(over: str, values: Any) -> list[Any]:
    """Return the settings of one kind, of whatever they are given in."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    raise CpgError(
        f"{over}: need a list of what is swept over, got {values!r}. Write "
        f"sweep(learned=..., {over}s=[{values!r}])."
    )


def _designs(design: Design, over: str, asked: Sequence[Any]) -> dict[str, Design]:
    """Return what is to be run, by name: for budgets it is one run."""
    if over == "perturbation":
        return {name_of(one): replace(design, perturbation=one) for one in asked}
    if over == "budget":
        longest, budget = max(asked), int(design.task.budget)
        if has(design.task, LeastReturn):
            raise CpgError(
                "budget: with least_return an episode succeeds at its end, whose return a shorter "
                "one says nothing of. Write a marker with each budget=."
            )
        if longest > budget:
            raise CpgError(
                f"budget: an episode has {budget} steps, got {longest}. Write budget={longest} in "
                f"the marker."
            )
        return {f"budget {budget}": design}
    try:
        planners = {
            str(one): replaced("planner", design.planner, "horizon", int(one)) for one in asked
        }
    except ValueError as error:
        raise CpgError(str(error)) from None
    return {name: replace(design, planner=planner) for name, planner in planners.items()}


def _check_horizon(design: Design, learned: Any) -> None:
    """Raise CpgError for a model that is not planned with the gate's planner."""
    with inference(learned):
        bound = bound_to_starts(learned, design, starts_of(design))
    if bound.planner is not None:
        raise CpgError(
            f"horizon: the learned arm is planned by the {bound.planner.name}, which looks "
            f"{bound.planner.horizon} steps ahead in every row. Leave that method out, and the "
            f"gate's planner plans; or make a model of each horizon, and write "
            f"benchmark_runner.rank({{...}})."
        )


def _row(
    design: Design, criteria: Criteria, setting: str, arms: Mapping[str, Arm], steps: int
) -> SweepRow:
    """Return what arms achieved within so many steps."""
    oracle, learned = (
        replace(arms[name], successes=arms[name].successes & (arms[name].steps <= steps))
        for name in ("oracle", "learned")
    )
    return SweepRow(
        setting=setting,
        success={name: arm.success_within(steps) for name, arm in arms.items()},
        gap=gap_interval(criteria.interval, oracle, learned, level=design.level),
        arms=arms,
    )


def _named(progress: ArmProgress, setting: str) -> ArmProgress:
    return lambda arm, stage: progress(f"{setting} {arm}", stage)
