"""Measure: both arms of a planning gap on the same starts, and the verdict."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_cpg.contracts import IncompleteError, TaskError, WorldModelError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import (
    ListedGoals,
    NoteOnStarts,
    Restored,
    SuccessSource,
    goals_of,
    tells_success,
)
from pytest_cpg.episodes import probe
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arms import ArmRuns, Execution
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.disturbance import disturbs_episodes
from pytest_cpg.episodes.stage import ArmProgress
from pytest_cpg.gates.planning_gap import stopping
from pytest_cpg.gates.planning_gap.diagnosis.dead_ends import dead_ends
from pytest_cpg.gates.planning_gap.result import GateResult, Look, is_too_weak, pairs_of
from pytest_cpg.machine.processors import kernels, processor_name
from pytest_cpg.planners import rollout_steps_per_plan
from pytest_cpg.stats import Verdict
from pytest_cpg.stats.paired import PAIRED_METHODS
from pytest_cpg.stats.sequential import paired_statistic
from pytest_cpg.stats.verdicts import Weighed
from pytest_cpg.world_models import (
    BoundModel,
    OracleDynamics,
    Rescored,
    devices,
    inference,
    weights_digest,
)

_USUAL = stopping.Criteria()
# Chance this near to the oracle leaves little of the oracle's success to planning.
_CHANCE_SHARE = 0.5


class LoopFallbackWarning(UserWarning):
    """A world model that takes one row at a time makes its gate slow."""


def measure_gap(
    design: Design,
    criteria: stopping.Criteria = _USUAL,
    *,
    oracle: Any,
    learned: Any,
    progress: ArmProgress | None = None,
    execution: Execution | None = None,
) -> GateResult:
    """Run the oracle, learned and chance arms on the same starts and judge the gap.

    Where the model brings a score of its own, the true dynamics are run with that as well. Raises
    WorldModelError when a model breaks its contract; what a model raises itself goes on unchanged.

    Models are as of `pytest_cpg.world_models.bind`. ``progress`` is told the arm's name and how far
    it is: when it begins, and after every planning round. Without an execution arms are run in this
    process, and kept nowhere.
    """
    _check_roles(oracle, learned, is_aa=criteria.is_aa)
    with inference(oracle, learned):
        check_tells_success(design)
        starts, models = probe.bound_arms(design, oracle=oracle, learned=learned)
        if _begins_from_policy(design, models["learned"]):
            swapped = (*models["learned"].swapped, "policy")
            models["learned"] = replace(models["learned"], swapped=swapped)
        _warn_of_loops(models["learned"], design)
        components = {"oracle": oracle, "learned": learned, "rescored": Rescored(learned)}
        rescored = models["learned"].rescored
        # Beside a surrogate it would not tell what the score loses.
        if rescored is not None and isinstance(oracle, OracleDynamics):
            models["rescored"] = rescored
        with probe.unchanged("the learned model", models["learned"], design, starts):
            execution = execution or Execution()
            runs = ArmRuns(
                design, starts, components, models, progress=progress, execution=execution
            )
            begun = time.perf_counter()
            arms, weighed, looks = _run_arms(design, criteria, runs)
            seconds = time.perf_counter() - begun
            sooner = stopping.sooner(design, criteria, arms, seconds=seconds)
            # What two episodes do not show, the whole gate may.
            is_blind = not criteria.is_smoke and probe.ignores_action(
                models["learned"],
                design,
                starts,
                arms["learned"],
                progress=progress and partial(progress, "learned again"),
            )
    models["learned"] = replace(models["learned"], ignores_action=is_blind)
    result = gate_result(design, criteria, models, starts, **arms, weighed=weighed, looks=looks)
    stuck, is_true = None, isinstance(oracle, OracleDynamics) and design.perturbation is None
    # Where no step ever succeeds, that is what is to be told, unless nothing leads to one.
    succeeded = arms["oracle"].success_count + arms["chance"].success_count
    is_seen = succeeded > 0 or not has(design.task, SuccessSource)
    if design.metric == "success" and not criteria.is_smoke and is_true:
        found = dead_ends(design, starts, arms["oracle"])
        stuck = found if is_seen or (found is not None and found.is_flat) else None
    return replace(
        result,
        dead_ends=stuck,
        weights=weights_digest(learned),
        device=devices(learned),
        restored_by=design.task.restored_by if has(design.task, Restored) else "",
        reuse=runs.reuse,
        sooner=sooner,
        about_starts=design.task.note_on_starts or "" if has(design.task, NoteOnStarts) else "",
        notes=(*result.notes, *runs.notes),
    )


def _run_arms(
    design: Design, criteria: stopping.Criteria, runs: ArmRuns
) -> tuple[dict[str, Arm], dict[str, stopping.WeighedArm], tuple[Look, ...]]:
    """Run arms from look to look until the verdict is settled, then all as far as the learned one.

    Chance is judged at the same looks as the learned arm, and may need more of them: until it is
    settled, a verdict that would pass does not say that a model without any knowledge would not.
    """
    done: dict[str, Arm] = {}
    weighed: dict[str, stopping.WeighedArm] = {}
    boundary, open_arms = criteria.boundary(design), ["learned", "chance"]
    looks: list[Look] = []
    try:
        for number, size in enumerate(boundary.looks if boundary else [design.episodes]):
            done["oracle"] = runs["oracle"].advance(size)
            for name in open_arms:
                done[name] = runs[name].advance(size)
            for name in open_arms:
                weighed[name] = stopping.weigh_arm(design, criteria, number, done, name)
            if boundary and "learned" in open_arms:
                pairs = pairs_of(done["oracle"], done["learned"])
                statistic = paired_statistic(
                    wins=pairs.oracle_only,
                    losses=pairs.learned_only,
                    pairs=size,
                    margin=boundary.margin,
                )
                looks.append(Look(size, statistic, boundary.critical_values[number]))
            open_arms = [
                name for name in open_arms if not stopping.is_settled(weighed[name], criteria)
            ]
            is_bad = weighed["learned"][1].verdict is Verdict.MODEL_BOTTLENECK
            if "learned" not in open_arms and (is_bad or not open_arms):
                break
        size = done["learned"].episodes
        # The gap is about the starts that its interval is about.
        done["oracle"] = done["oracle"].first(size)
        for name in runs.names:
            if name not in done or done[name].episodes < size:
                done[name] = runs[name].advance(size)
    except IncompleteError as error:
        arms = ", ".join(f"{a.name} solved {a.success_count}/{a.episodes}" for a in done.values())
        raise IncompleteError(
            f"{error}. {f'Finished: {arms}' if done else 'No arm was finished'}; without the "
            f"others there is no verdict. Use fewer episodes or more time (pytest --cpg-plan says "
            f"what a gate takes), or go on from here with --cpg-resume."
        ) from None
    finally:
        runs.keep()
    return done, weighed, tuple(looks)


def gate_result(
    design: Design,
    criteria: stopping.Criteria,
    models: Mapping[str, BoundModel],
    starts: Starts,
    *,
    oracle: Arm,
    learned: Arm,
    chance: Arm,
    weighed: Mapping[str, stopping.WeighedArm],
    rescored: Arm | None = None,
    looks: tuple[Look, ...] = (),
) -> GateResult:
    """Return the result of finished arms, of which ``weighed`` are learned and chance."""
    interval, verdict = weighed["learned"]
    in_place = None if criteria.is_smoke else weighed["chance"][1].verdict
    if is_too_weak(oracle, criteria.min_oracle):
        verdict = Weighed(Verdict.PLANNER_BOTTLENECK, f"min_oracle={criteria.min_oracle:g}")
    if criteria.is_aa:
        verdict = Weighed(Verdict.INCONCLUSIVE, "nothing: this is an A/A check")
    if criteria.is_smoke:
        verdict = Weighed(Verdict.INCONCLUSIVE, "nothing: this is a smoke test")
    beside = criteria.interval if criteria.interval in PAIRED_METHODS else "bonett-price"
    paired = stopping.gap_interval(beside, oracle, learned, level=criteria.gap_level(design))
    if design.metric == "success" and criteria.stop == "fixed" and criteria.interval == beside:
        paired = interval
    names = ("tolerance", "min_oracle", "margin", "stop", "method", "family_size", "group")
    judged_by = {name: getattr(criteria, name) for name in (*names, "is_aa", "is_smoke")}
    return GateResult(
        **judged_by,
        verdict=verdict.verdict,
        evidence=verdict.evidence,
        is_weak=verdict.is_weak,
        chance_verdict=in_place,
        interval=interval,
        paired_interval=paired,
        oracle=oracle,
        learned=learned,
        chance=chance,
        rescored=rescored,
        design=design.record,
        seed=int(design.seed),
        level=design.level,
        max_episodes=design.episodes,
        looks=looks,
        starts_skipped=starts.skipped,
        start_seeds=tuple(int(seed) for seed in starts.seeds[: oracle.episodes]),
        start_goals=goals_of(design.task, starts.states[: oracle.episodes]),
        swapped=models["learned"].swapped,
        processor=processor_name(),
        kernels=kernels(),
        notes=()
        if criteria.is_smoke
        else tuple(_notes_on(design, models, in_place, oracle, chance)),
        faults=(
            *probe.faults_of(models["learned"]),
            *(_differences_of(design, oracle, learned) if criteria.is_aa else ()),
        ),
    )


def _check_roles(oracle: Any, learned: Any, *, is_aa: bool) -> None:
    if isinstance(oracle, OracleDynamics):
        if isinstance(learned, OracleDynamics) and not is_aa:
            raise WorldModelError(
                "the learned arm was given the true dynamics, so that no model would be judged. "
                "Give your model; for the A/A check, which runs the true dynamics in both arms, "
                'write model="oracle" or --cpg-model=oracle.'
            )
        return
    if isinstance(learned, OracleDynamics):
        raise WorldModelError(
            "the learned arm was given the true dynamics and the oracle arm something else. Write "
            "compare(oracle=oracle_dynamics, learned=my_model)."
        )
    if oracle is learned:
        raise WorldModelError(
            "both arms were given the same model, which has no gap to itself. Leave oracle= out, "
            "and the task's true dynamics are taken."
        )


def _warn_of_loops(model: BoundModel, design: Design) -> None:
    if model.seconds_per_row is None:
        return
    steps = rollout_steps_per_plan(design.planner, design.task.actions, budget=design.task.budget)
    per_plan = steps * model.seconds_per_row
    most = per_plan * design.episodes * design.task.budget
    warnings.warn(
        f"the learned dynamics takes one row at a time: {1e6 * model.seconds_per_row:.1f} us per "
        f"model step, {1e3 * per_plan:.0f} ms per plan of {steps} steps, up to {most:.0f} s for "
        f"the learned arm if every step is planned anew. Accept observations [B, O] and actions "
        f"[B, A] at once to make this gate fast.",
        LoopFallbackWarning,
        stacklevel=6,
    )


def check_tells_success(design: Design) -> None:
    """Raise TaskError where nothing of the task tells which episodes succeed."""
    if design.metric == "success" and not tells_success(design.task):
        raise TaskError(
            f"{design.task.name}: nothing tells when an episode has succeeded. Write goal=1 with "
            f'the reward of a step that succeeds, metric="return", or ,success=terminated behind '
            f"the name of the task where it ends as it succeeds."
        )


def _notes_on(
    design: Design,
    models: Mapping[str, BoundModel],
    chance_verdict: Verdict | None,
    oracle: Arm,
    chance: Arm,
) -> list[str]:
    learned, notes = models["learned"], []
    if models["oracle"].swapped:
        notes.append("the oracle arm was run with a surrogate, not with the task's true dynamics")
    if design.planner.horizon > design.task.budget:
        notes.append(
            f"plans look {design.planner.horizon} steps ahead, and an episode has only "
            f"{design.task.budget}"
        )
    is_disturbed = oracle.perturbed is None or oracle.perturbed.any()
    if disturbs_episodes(design.perturbation) and not is_disturbed:
        notes.append(
            f"the perturbation took effect in none of the oracle's {oracle.episodes} episodes: "
            f"nothing was judged but the undisturbed task"
        )
    if design.starts == "fixed":
        notes.append(
            'starts="fixed": every episode begins in one state, so the gap is about that state '
            "and not about the task"
        )
    is_never = design.metric == "success" and not oracle.success_count + chance.success_count
    if is_never and has(design.task, SuccessSource):
        other = "raise within=" if has(design.task, ListedGoals) else "name another success="
        notes.append(
            f"no step of any episode succeeded by {design.task.succeeds_by}, neither with the true "
            f"dynamics nor with random actions. If it never holds, {other}"
        )
    if has(design.task, NoteOnStarts):
        notes.append(design.task.note_on_starts)
    # Where chance is not told from the oracle, the gate is blind and says so itself.
    is_told_apart = chance_verdict is Verdict.MODEL_BOTTLENECK
    if is_told_apart and chance.success_rate >= _CHANCE_SHARE * oracle.success_rate > 0:
        notes.append(
            f"random actions succeed in {chance.success_count}/{chance.episodes} episodes: "
            f"success on this task is weak evidence of planning"
        )
    if getattr(design.planner, "gradients", None) == "auto":
        notes += _notes_on_gradients(models)
    if _begins_from_policy(design, learned):
        notes.append(
            "the model's policy proposes plans in the learned arm; the oracle arm knows no model, "
            "and draws them like the others"
        )
    elif _policy_plans(design) and learned.planner is None:
        notes.append(
            f"the planner takes {_policy_plans(design)} plans from a model's policy, and this "
            f"model has none: they are drawn like the others"
        )
    extra = [part for part in learned.swapped if part != "dynamics"]
    if extra:
        notes.append(
            f"the model also gives {', '.join(extra)}: the gap is not about dynamics alone"
        )
    if learned.rates_plans_alone:
        notes.append(
            "the model rates plans and no true states: how much of the gap its rating loses is not "
            "known"
        )
    return [*notes, *learned.notes]


def _notes_on_gradients(models: Mapping[str, BoundModel]) -> list[str]:
    # Asked of planners that read gradients alone: to find out takes a second of imports.
    oracle, learned = (
        "finite differences" if models[name].plan_gradient is None else "torch"
        for name in ("oracle", "learned")
    )
    if oracle == learned:
        return []
    return [
        f"plans follow gradients by {oracle} in the oracle arm and by {learned} in the learned "
        f'arm; GradientMPC(gradients="finite-differences") treats both alike'
    ]


def _begins_from_policy(design: Design, learned: BoundModel) -> bool:
    is_asked = _policy_plans(design) > 0 and learned.planner is None
    return is_asked and learned.policy_plans is not None


def _policy_plans(design: Design) -> int:
    return int(getattr(design.planner, "policy_plans", 0))


def _differences_of(design: Design, oracle: Arm, learned: Arm) -> list[str]:
    """Return what an A/A check finds wrong: episodes that one model ended in two ways."""
    shared = slice(learned.episodes)
    is_other = (
        (oracle.successes[shared] != learned.successes)
        | (oracle.steps[shared] != learned.steps)
        | (oracle.returns[shared] != learned.returns)
    )
    if not is_other.any():
        return []
    first = int(learned.indices[is_other][0])
    wrong = design.record.perturbation
    parts = f"task, planner or perturbation {wrong!r}" if wrong else "task or planner"
    return [
        f"the true dynamics ended {is_other.sum()} of {learned.episodes} episodes otherwise when "
        f"they were run again, episode {first} first: {parts} keep a state, or draw from elsewhere "
        f"than their streams"
    ]
