"""Presets: for every built-in task a planner that solves it with the true dynamics, and its cost.

A gate sees a model only as far as its oracle arm succeeds. The planners that were published with
the gap do not solve acrobot-swingup from random starts, so no model can be told from another there;
these do. What each achieved is measured by `tests/calibration/test_preset_oracles.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pytest_cpg.contracts import ComponentError, Planner
from pytest_cpg.planners import CEM, ICEM, BeamSearch, RandomShooting
from pytest_cpg.stats import Interval, wilson_interval

# What a marker writes for its planner.
PRESET = "preset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A planner that solves a task with the true dynamics, and how the task is to be set for it.

    Attributes
    ----------
    planner : Planner
    options : mapping
        What a marker would say of the task: ``budget``, ``action_repeat``, ``actions``.
    description : str
        In one line, what it is and why it suits the task.
    solved, episodes : int
        How many random starts (of seed 0) the oracle arm solved, and of how many.
    rollout_steps : int
        Model steps imagined per decision.
    cpu_ms : float
        Processor time of one decision with the true dynamics, in milliseconds: the median on a
        2.5 GHz Xeon that others were using too.
    """

    planner: Planner
    options: Mapping[str, Any]
    description: str
    solved: int
    episodes: int = 100
    rollout_steps: int
    cpu_ms: float

    @property
    def oracle(self) -> Interval:
        """The oracle arm's success rate, with its Wilson interval at 95 %."""
        return wilson_interval(self.solved, self.episodes)


def _options(**of_task: Any) -> Mapping[str, Any]:
    return MappingProxyType(of_task)


def _swing(*, iterations: int, samples: int, horizon: int, execute: int) -> CEM:
    """Return the CEM of tasks that swing: pushes that last, and a sum over the whole plan."""
    return CEM(
        iterations=iterations,
        samples=samples,
        elites=4,
        horizon=horizon,
        smoothing=0.0,
        objective="sum",
        execute=execute,
        correlation=0.7,
        minimum_deviation=0.1,
        warm_start=True,
    )


def completed(marked: dict[str, Any]) -> dict[str, Any]:
    """Return a marker's arguments; of a preset, with what it says of the task and they do not."""
    if marked.get("planner") != PRESET:
        return marked
    task = marked["task"]
    if not isinstance(task, str):
        raise ComponentError(
            f"planner: presets are for tasks by name, got {task!r}. Write "
            f'task="reacher-easy", or a planner with settings of your own.'
        )
    options = _preset_of(task).options
    return {
        **marked,
        **{name: value for name, value in options.items() if marked.get(name) is None},
    }


def preset_planner(task: str, **changes: Any) -> Planner:
    """Return the planner of a task's preset, some of its fields changed."""
    planner: Any = _preset_of(task).planner
    changed: Planner = replace(planner, **changes)
    return changed


def _preset_of(task: str) -> Preset:
    """Return the preset of a task, or raise ComponentError that names those that have one."""
    if task in PRESETS:
        return PRESETS[task]
    raise ComponentError(
        f"planner: no preset for task {task!r}; these tasks have one: {', '.join(PRESETS)}. Write "
        f'planner="icem", or a planner with settings of your own.'
    )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "acrobot-swingup": Preset(
            planner=CEM(
                iterations=3,
                samples=64,
                elites=8,
                horizon=40,
                smoothing=0.0,
                objective="peak-and-tail",
                execute=4,
                correlation=0.7,
                warm_start=True,
            ),
            options=_options(budget=250, action_repeat=4, actions="box"),
            description=(
                "CEM with correlated noise and actions held for 0.04 s: plans of 1.6 s, chosen for "
                "how high they come and how high they end."
            ),
            solved=100,
            rollout_steps=7680,
            cpu_ms=159.5,
        ),
        "cartpole-swingup": Preset(
            planner=CEM(
                iterations=2,
                samples=32,
                elites=4,
                horizon=30,
                smoothing=0.0,
                objective="sum",
                execute=5,
                initial_deviation=0.8,
                minimum_deviation=0.1,
                warm_start=True,
            ),
            options=_options(budget=300, actions="box"),
            description="CEM for the height of the pole over 0.3 s, planned anew after 5 steps.",
            solved=100,
            rollout_steps=1920,
            cpu_ms=10.7,
        ),
        "reacher-easy": Preset(
            planner=RandomShooting(candidates=30, horizon=10),
            options=_options(budget=200),
            description="Random shooting, as published but for fewer and shorter plans.",
            solved=100,
            rollout_steps=300,
            cpu_ms=0.9,
        ),
        "pendulum-swingup": Preset(
            planner=_swing(iterations=2, samples=32, horizon=20, execute=4),
            options=_options(budget=125, action_repeat=4, actions="box"),
            description="CEM for the height of the pole over 1.6 s, actions held for 0.08 s.",
            solved=100,
            rollout_steps=1280,
            cpu_ms=6.1,
        ),
        "ball-in-cup-catch": Preset(
            planner=_swing(iterations=1, samples=24, horizon=15, execute=5),
            options=_options(budget=125, action_repeat=4, actions="box"),
            description="One round of CEM, warm started; plans of 1.2 s, actions held for 0.08 s.",
            solved=100,
            rollout_steps=360,
            cpu_ms=71.1,
        ),
        "cheetah-run": Preset(
            planner=ICEM(iterations=2, samples=32, elites=5, horizon=20, execute=2),
            options=_options(budget=250, action_repeat=2),
            description="iCEM for the speed over 0.4 s, actions held for 0.02 s.",
            solved=99,
            rollout_steps=1140,
            cpu_ms=22.6,
        ),
        "maze": Preset(
            planner=BeamSearch(),
            options=_options(),
            description="Beam search of 10 steps, which draws no random number.",
            solved=100,
            rollout_steps=1696,
            cpu_ms=0.5,
        ),
        "two-room": Preset(
            planner=BeamSearch(),
            options=_options(),
            description="Beam search of 10 steps, which draws no random number.",
            solved=100,
            rollout_steps=1696,
            cpu_ms=0.4,
        ),
    }
)
