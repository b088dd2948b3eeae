"""The planning gap: both arms on the same starts, the verdict, and whether a test may pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from pytest_cpg.contracts import FloatArray, Planner, Task, WorldModelError
from pytest_cpg.episodes import Starts, run_arm, sample_starts
from pytest_cpg.gates.result import GateResult, Pairs
from pytest_cpg.metrics import Arm
from pytest_cpg.planners import Chance, rollout_steps_per_plan
from pytest_cpg.stats import (
    Verdict,
    agresti_caffo_interval,
    bonett_price_interval,
    judge_gap,
    smallest_detectable_gap,
)
from pytest_cpg.world_models import BoundModel, OracleDynamics, bind, inference

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

StartMode: TypeAlias = Literal["sampled", "fixed"]
ArmProgress: TypeAlias = Callable[[str, int, int], None]

ARMS = ("oracle", "learned", "chance")

# Streams of the probe that checks a model before it is trusted; episodes use 0 and 1.
_PROBE_STREAM = 2
_PROBES = 8
# Chance this near to the oracle leaves little of the oracle's success to planning.
_CHANCE_SHARE = 0.5


class LoopFallbackWarning(UserWarning):
    """A world model that takes one row at a time makes its gate slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Everything but the dynamics: what both arms of a gate share.

    Attributes
    ----------
    episodes : int
        Episodes per arm.
    seed : int
        Decides starts and planner noise.
    starts : "sampled" or "fixed"
        From the task's own distribution, or all from one state.
    level : float
        Coverage of the intervals, in (0, 1).
    tolerance : float
        How near to 0 or 1 a rate counts as such, in [0, 0.5].
    min_oracle : float or None
        Oracle success rate below which the planner is the bottleneck, whatever the interval says.
    """

    task: Task
    planner: Planner
    episodes: int
    seed: int
    starts: StartMode
    level: float
    tolerance: float
    min_oracle: float | None = None


def measure_gap(
    design: Design, *, oracle: Any, learned: Any, progress: ArmProgress | None = None
) -> GateResult:
    """Run the oracle, learned and chance arms on the same starts and judge the gap.

    Parameters
    ----------
    oracle, learned : OracleDynamics, world model or dynamics callable
        See `pytest_cpg.world_models.bind`.
    progress : callable, optional
        Told the arm's name, the episodes done and their number: when an arm begins, and after
        every planning round.

    Raises
    ------
    WorldModelError
        When a model breaks its contract; what a model raises itself goes on unchanged.
    """
    _check_roles(oracle, learned)
    task, planner = design.task, design.planner
    with inference(oracle, learned):
        starts = sample_starts(
            task, design.episodes, seed=design.seed, fixed=design.starts == "fixed"
        )
        probe = _probe(task, starts, design.seed)
        models = {
            "oracle": bind(oracle, task, probe_states=probe[0], probe_actions=probe[1]),
            "learned": bind(learned, task, probe_states=probe[0], probe_actions=probe[1]),
        }
        _warn_of_loops(models["learned"], design)

        def arm(name: str, planner: Planner) -> Arm:
            if progress:
                progress(name, 0, design.episodes)
            return run_arm(
                name,
                task,
                planner,
                models.get(name, models["oracle"]),
                starts,
                seed=design.seed,
                level=design.level,
                progress=progress and (lambda done, count: progress(name, done, count)),
            )

        answer = _imagined(models["learned"], probe)
        arms = {
            "oracle": arm("oracle", planner),
            "learned": arm("learned", planner),
            "chance": arm("chance", Chance()),
        }
        if not np.array_equal(answer, _imagined(models["learned"], probe), equal_nan=True):
            raise WorldModelError(
                "the learned model answers otherwise than before its arm was run, so no verdict on "
                "it could be repeated. Keep no state between calls."
            )
    return judge(design, models, starts, **arms)


def judge(
    design: Design,
    models: Mapping[str, BoundModel],
    starts: Starts,
    *,
    oracle: Arm,
    learned: Arm,
    chance: Arm,
) -> GateResult:
    """Return the result of three finished arms; ``models`` are those of oracle and learned."""
    counts = (oracle.success_count, oracle.episodes, learned.success_count, learned.episodes)
    verdict = judge_gap(*counts, level=design.level, tolerance=design.tolerance)
    if design.min_oracle is not None and oracle.success_rate < design.min_oracle:
        verdict = Verdict.PLANNER_BOTTLENECK
    return GateResult(
        verdict=verdict,
        interval=agresti_caffo_interval(*counts, level=design.level),
        paired_interval=bonett_price_interval(
            **asdict(Pairs.of(oracle, learned)), level=design.level
        ),
        oracle=oracle,
        learned=learned,
        chance=chance,
        # Tasks and planners of users may give numpy's numbers, which JSON does not know.
        task=str(design.task.name),
        planner=repr(design.planner),
        starts=design.starts,
        budget=int(design.task.budget),
        horizon=int(design.planner.horizon),
        control_period=float(design.task.control_period),
        level=design.level,
        tolerance=design.tolerance,
        min_oracle=design.min_oracle,
        seed=design.seed,
        starts_skipped=starts.skipped,
        start_seeds=tuple(int(seed) for seed in starts.seeds),
        swapped=models["learned"].swapped,
        versions={str(name): str(found) for name, found in design.task.versions.items()},
        notes=tuple(_notes(design, models, verdict, oracle, chance)),
        faults=tuple(_faults(models["learned"])),
    )


def failure_reason(result: GateResult, max_verdict: Verdict) -> str | None:
    """Say in one line why a test that accepts ``max_verdict`` fails; None when it passes."""
    if result.is_oracle_too_weak:
        return (
            f"the oracle solves {result.oracle.success_count}/{result.oracle.episodes}, and "
            f"min_oracle asks for a rate of {result.min_oracle:g}"
        )
    if result.verdict.severity > max_verdict.severity:
        return f"the verdict is worse than {max_verdict}"
    if result.faults:
        return result.faults[0]
    return None


def _check_roles(oracle: Any, learned: Any) -> None:
    """Raise WorldModelError for models that cannot have been meant as these two arms."""
    if isinstance(oracle, OracleDynamics):
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


def _notes(
    design: Design, models: Mapping[str, BoundModel], verdict: Verdict, oracle: Arm, chance: Arm
) -> list[str]:
    notes = []
    if models["oracle"].swapped:
        notes.append("the oracle arm was run with a surrogate, not with the task's true dynamics")
    if not models["learned"].swapped:
        notes.append("the learned arm was run with the true dynamics: nothing was judged")
    drop = smallest_detectable_gap(oracle.success_count, oracle.episodes, level=design.level)
    if drop is None and verdict is not Verdict.PLANNER_BOTTLENECK:
        notes.append(
            f"the oracle solves only {oracle.success_count}/{oracle.episodes}: no model could fail "
            f"this gate; use a stronger planner, more episodes, or min_oracle="
        )
    if design.planner.horizon > design.task.budget:
        notes.append(
            f"plans look {design.planner.horizon} steps ahead, and an episode has only "
            f"{design.task.budget}"
        )
    if design.starts == "fixed":
        notes.append(
            'starts="fixed": every episode begins in one state, so the gap is about that state '
            "and not about the task"
        )
    if oracle.success_count and chance.success_rate >= _CHANCE_SHARE * oracle.success_rate:
        notes.append(
            f"random actions succeed in {chance.success_count}/{chance.episodes} episodes: "
            f"success on this task is weak evidence of planning"
        )
    extra = [part for part in models["learned"].swapped if part != "dynamics"]
    if extra:
        notes.append(
            f"the learned arm also swaps {', '.join(extra)}: the gap is not about dynamics alone"
        )
    return notes


def _faults(model: BoundModel) -> list[str]:
    if not model.ignores_action:
        return []
    return [
        "the learned dynamics ignores the action: different actions from the same states gave "
        "identical predictions, so every plan looks the same to the planner"
    ]


def _probe(task: Task, starts: Starts, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return states [P, S] a few random steps from the starts, and an action [P, A] for each."""
    rngs = [
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PROBE_STREAM, row)))
        for row in range(_PROBES)
    ]
    states = starts.states[np.arange(_PROBES) % len(starts.states)]
    actions = task.actions.sample(rngs, (3,))
    for step in range(2):
        states = task.step(states, actions[:, step])
    return states, actions[:, 2]


def _imagined(model: BoundModel, probe: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return what a model imagines one step ahead of the probe."""
    states, actions = probe
    return model.rollout(model.encode(states), actions[:, None])


def _warn_of_loops(model: BoundModel, design: Design) -> None:
    """Warn once, with measured costs, of a model that is called row by row."""
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
        stacklevel=4,
    )
