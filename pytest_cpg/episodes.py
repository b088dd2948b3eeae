"""Episodes: starts sampled for a gate, and arms collected on them in lockstep.

Episodes advance by planning rounds: all unfinished episodes plan together in one batch, each
executes its own plan up to that plan's length, then the next round begins. What happens in an
episode depends on its seed and index only: its start, its planner noise and its rows of every
batch belong to it alone, so that it ends the same in any batch, order, thread or process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    CpgError,
    FloatArray,
    IntArray,
    Planner,
    Plans,
    Task,
    TaskError,
    WorldModelError,
)
from pytest_cpg.metrics import Arm, Latency

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

# First spawn key of each random stream; the episode's index follows.
_START_STREAM, _PLANNER_STREAM = 0, 1
# A task whose starts are solved this often in a row is not one that needs planning.
_MOST_SKIPS = 100

Progress = Callable[[int, int], None]
StepObserver = Callable[[IntArray, FloatArray], None]


class ArmModel(Protocol):
    """A world as an arm uses it: `BoundModel` is one."""

    def encode(self, states: FloatArray) -> FloatArray:
        """Map simulator states [B, S] to latents [B, Z]."""
        ...

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to latents [B, H, Z]."""
        ...

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate latents [B, H, Z]: scores [B, H], lower is better."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Starts:
    """Where the episodes of a gate begin.

    Attributes
    ----------
    episodes : array [N], int
        Indices of the episodes.
    states : array [N, S]
    seeds : array [N], int
        What `Task.reset` was given for each.
    skipped : int
        Starts that were solved already and replaced.
    """

    episodes: IntArray
    states: FloatArray
    seeds: IntArray
    skipped: int

    def take(self, rows: IntArray) -> Starts:
        """Return the starts of these rows."""
        return Starts(
            episodes=self.episodes[rows],
            states=self.states[rows],
            seeds=self.seeds[rows],
            skipped=self.skipped,
        )


def sample_starts(task: Task, episodes: int, *, seed: int, fixed: bool = False) -> Starts:
    """Return one start per episode, none of which is solved already.

    A start counts as solved when one idle step from it succeeds: planning had no part in that.
    Such a start is replaced by the next one of the same episode's stream, and counted.

    Parameters
    ----------
    seed : int
        Together with an episode's index it decides that episode's start.
    fixed : bool
        Start every episode from the task's start number 0 instead.

    Raises
    ------
    TaskError
        When an episode finds no unsolved start in 100 tries.
    """
    indices = np.arange(episodes)
    seeds = np.zeros(episodes, dtype=np.int64)
    pending = indices
    states: FloatArray | None = None
    skipped = 0
    for attempt in range(_MOST_SKIPS):
        seeds[pending] = [attempt if fixed else _start_seed(seed, int(e), attempt) for e in pending]
        sampled = task.reset(seeds[pending])
        if states is None:
            states = np.array(sampled, dtype=np.float64)
        else:
            states[pending] = sampled
        pending = pending[_is_solved(task, states[pending])]
        if not pending.size:
            return Starts(episodes=indices, states=states, seeds=seeds, skipped=skipped)
        skipped += 1 if fixed else len(pending)
    raise TaskError(
        f"{task.name}: episode {pending[0]} found {_MOST_SKIPS} starts in a row that one idle step "
        f"solves; the task needs no planning. Start it farther from its goal."
    )


def run_arm(
    name: str,
    task: Task,
    planner: Planner,
    model: ArmModel,
    starts: Starts,
    *,
    seed: int,
    level: float,
    progress: Progress | None = None,
    on_step: StepObserver | None = None,
) -> Arm:
    """Run every episode to its success or the end of its budget, and return the arm.

    Parameters
    ----------
    name : str
        Printed in reports and errors: ``"oracle"``, ``"learned"`` or ``"chance"``.
    model : ArmModel
        What the planner imagines with. Real steps are always the task's own.
    progress : callable, optional
        Told after each round how many episodes are done, and of how many.
    on_step : callable, optional
        Told the episodes [B] and the actions [B, A] of each real step.

    Raises
    ------
    WorldModelError, TaskError
        Naming the episode and step: predictions that are not finite, a diverged simulator.
    """
    begun = time.perf_counter()
    count = len(starts.episodes)
    states, steps = starts.states.copy(), np.zeros(count, dtype=np.int64)
    successes = np.zeros(count, dtype=bool)
    rngs = [episode_stream(seed, int(episode)) for episode in starts.episodes]
    imagination = _Imagination(name, task.actions, model, steps)
    wall, cpu, decisions = [], [], 0
    active = np.arange(count)
    while active.size:
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        remaining = task.budget - steps[active]
        imagination.plans_for(starts.episodes[active], steps[active])
        latents = imagination.encode(states[active])
        plans = planner.plan(imagination, latents, [rngs[i] for i in active], remaining)
        _check_plans(planner, plans, task.actions, remaining)
        wall.append((time.perf_counter() - wall_start) / active.size)
        cpu.append((time.process_time() - cpu_start) / active.size)
        decisions += active.size
        _execute(task, plans, active, states, steps, successes, starts.episodes, on_step)
        active = active[~successes[active] & (steps[active] < task.budget)]
        if progress:
            progress(count - active.size, count)
    return Arm(
        name=name,
        successes=successes,
        steps=steps,
        level=level,
        decisions=decisions,
        rollout_steps=imagination.steps / decisions if decisions else 0.0,
        latency_ms=Latency.of(1e3 * np.array(wall)),
        cpu_ms=Latency.of(1e3 * np.array(cpu)),
        seconds=time.perf_counter() - begun,
    )


def episode_stream(seed: int, episode: int) -> np.random.Generator:
    """Return the planner's random stream in one episode: the same in every arm and batch."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PLANNER_STREAM, episode)))


def _start_seed(seed: int, episode: int, attempt: int) -> int:
    sequence = np.random.SeedSequence(seed, spawn_key=(_START_STREAM, episode, attempt))
    return int(sequence.generate_state(1)[0])


def _is_solved(task: Task, states: FloatArray) -> BoolArray:
    idle = np.broadcast_to(task.actions.idle, (len(states), task.actions.size))
    return task.success(task.step(states, idle), idle)


def _execute(
    task: Task,
    plans: Plans,
    active: IntArray,
    states: FloatArray,
    steps: IntArray,
    successes: BoolArray,
    episodes: IntArray,
    on_step: StepObserver | None,
) -> None:
    """Step each active episode through its own plan, until the plan or the episode ends."""
    for t in range(int(plans.lengths.max())):
        running = (plans.lengths > t) & ~successes[active]
        rows, actions = active[running], plans.actions[running, t]
        if not rows.size:
            return
        states[rows] = task.step(states[rows], actions)
        steps[rows] += 1
        diverged = ~np.isfinite(states[rows]).all(axis=1)
        if diverged.any():
            row = rows[diverged][0]
            raise TaskError(
                f"{task.name}: the simulator diverged in episode {episodes[row]} at step "
                f"{steps[row]}. Reduce the simulator's time step or the actions' range."
            )
        successes[rows] = task.success(states[rows], actions)
        if on_step:
            on_step(episodes[rows], actions)


def _check_plans(planner: Planner, plans: Plans, actions: ActionSpace, remaining: IntArray) -> None:
    """Raise CpgError unless the planner returned what its contract promises."""
    expected = (len(remaining), planner.horizon, actions.size)
    if np.shape(plans.actions) != expected or np.shape(plans.lengths) != expected[:1]:
        raise CpgError(
            f"planner {planner.name!r} returned actions {np.shape(plans.actions)} and lengths "
            f"{np.shape(plans.lengths)}; return actions {expected} and lengths {expected[:1]}."
        )
    if not actions.contains(plans.actions).all():
        raise CpgError(
            f"planner {planner.name!r} returned actions outside the task's: {actions}. Take them "
            f"from world_model.actions."
        )
    upper = np.minimum(remaining, planner.horizon)
    is_whole = np.issubdtype(np.asarray(plans.lengths).dtype, np.integer)
    if not is_whole or ((plans.lengths < 1) | (plans.lengths > upper)).any():
        raise CpgError(
            f"planner {planner.name!r} returned lengths {np.unique(plans.lengths)}; return whole "
            f"numbers from 1 to min(horizon, remaining)."
        )


class _Imagination:
    """The planning model given to a planner: it counts, checks, and says whose rows are whose."""

    def __init__(self, arm: str, actions: ActionSpace, model: ArmModel, steps: IntArray) -> None:
        self.actions = actions
        self.steps = 0
        self._arm = arm
        self._model = model
        self._episodes: IntArray = np.arange(0)
        self._taken: IntArray = steps

    def plans_for(self, episodes: IntArray, taken: IntArray) -> None:
        """Begin a round for these episodes [N], which have taken so many steps [N]."""
        self._episodes, self._taken = episodes, taken

    def encode(self, states: FloatArray) -> FloatArray:
        """Map simulator states [N, S] to latents [N, Z]."""
        return self._ask(self._model.encode, "encode", states)

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Imagine; see `PlanningModel.rollout`."""
        if len(actions) % len(self._episodes):
            raise CpgError(
                f"a planner asked for {len(actions)} rows, which is no multiple of the "
                f"{len(self._episodes)} episodes it plans for."
            )
        self.steps += actions.shape[0] * actions.shape[1]
        return self._ask(self._model.rollout, "rollout", latents, actions)

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate; see `PlanningModel.score`."""
        scores = self._ask(self._model.score, "score", latents)
        if np.isnan(scores).any():
            self._raise_broken("score", scores)
        return scores

    def _ask(
        self, method: Callable[..., FloatArray], what: str, *arguments: FloatArray
    ) -> FloatArray:
        """Call the model; its own exception goes on, with a note that says where it happened."""
        try:
            answer = method(*arguments)
        except WorldModelError as error:
            where = self._where(method, arguments)
            raise WorldModelError(f"{where}: {what}: {error}") from error.__cause__
        # Whatever a user's model raises goes on unchanged, once it is said where that was.
        except Exception as error:
            error.add_note(f"pytest-cpg: raised by {what} in {self._where(method, arguments)}.")
            raise
        if self._arm == "learned" and not np.isfinite(answer).all():
            self._raise_broken(what, answer)
        return answer

    def _raise_broken(self, what: str, answer: FloatArray) -> None:
        """Name the first episode and step whose numbers are not finite."""
        row, *inner = np.argwhere(~np.isfinite(answer))[0]
        index = row // max(1, len(answer) // len(self._episodes))
        ahead = f", {inner[0] + 1} steps ahead" if answer.ndim > 1 and what != "encode" else ""
        raise WorldModelError(
            f"{self._arm} arm: {what} gave {answer[(row, *inner)]} in episode "
            f"{self._episodes[index]} at step {self._taken[index]}{ahead}. A model that predicts "
            f"NaN or infinity cannot be planned with: look for diverged training or a missing "
            f"normalisation."
        )

    def _where(self, method: Callable[..., FloatArray], arguments: Sequence[FloatArray]) -> str:
        """Find the first episode whose own rows raise; a batch of them if none does alone."""
        rows = max(1, len(arguments[0]) // len(self._episodes))
        for index, episode in enumerate(self._episodes):
            own = slice(index * rows, (index + 1) * rows)
            try:
                method(*(argument[own] for argument in arguments))
            # Only asks whether this episode raises too; the batch's own exception goes on.
            except Exception:
                return f"the {self._arm} arm, episode {episode} at step {self._taken[index]}"
        return f"the {self._arm} arm, episodes {self._episodes[0]} to {self._episodes[-1]} together"
