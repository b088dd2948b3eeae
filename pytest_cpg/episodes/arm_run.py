"""Arm run: the episodes of an arm, collected in lockstep.

Episodes advance by planning rounds: all unfinished episodes plan together in one batch, each
executes its own plan up to that plan's length, then the next round begins. What happens in an
episode depends on its seed and index only: its start, its planner noise and its rows of every
batch belong to it alone, so that it ends the same in any batch, order, thread or process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    CpgError,
    FloatArray,
    IntArray,
    Planner,
    Plans,
    TaskError,
)
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import is_warm_started
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import LeastReturn, Restored
from pytest_cpg.episodes.arm import Arm, Latency, median_interval, start_digests
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.disturbance import Disturbance
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.episodes.repeats import Repeats
from pytest_cpg.episodes.stage import Progress, Stage
from pytest_cpg.world_models import BoundModel

StepObserver = Callable[[IntArray, FloatArray], None]
PlanObserver = Callable[[IntArray, Plans], None]


class ArmRun:
    """An arm in the making: its episodes are run in the order of their indices, some at a time.

    How they are divided into calls of `advance` changes no outcome, and the design's number of
    episodes says nothing here. With ``metric="return"`` an episode goes on after a success until
    the budget is spent. The planner imagines with the model, which may bring a planner of its own;
    real steps are always the task's own. ``progress`` is told at first and after each round at
    which step the slowest episode is, ``on_step`` the episodes [B] and the actions [B, A] of each
    real step, ``on_plan`` the episodes [N] and plans of each round, before any of it is executed.
    """

    def __init__(
        self,
        name: str,
        design: Design,
        model: BoundModel,
        starts: Starts,
        *,
        progress: Progress | None = None,
        on_step: StepObserver | None = None,
        on_plan: PlanObserver | None = None,
    ) -> None:
        count, task, seed = len(starts.episodes), design.task, design.seed
        self._name, self._task = name, task
        self._episodes, self._level = starts.episodes, design.level
        self._budget = int(task.budget)
        self._least_return = task.least_return if has(task, LeastReturn) else None
        self._to_the_end = design.metric == "return" or self._least_return is not None
        self._progress, self._on_step, self._on_plan = progress, on_step, on_plan
        self._starts, self._states = starts.states, starts.states.copy()
        self._steps = np.zeros(count, dtype=np.int64)
        self._successes, self._returns = np.zeros(count, dtype=bool), np.zeros(count)
        self._solved_at = np.zeros(count, dtype=np.int64)
        # Memory is taken only for what is written.
        try:
            self._actions = np.zeros((count, self._budget, task.actions.size))
        except (MemoryError, ValueError) as error:
            raise TaskError(
                f"{task.name}: the actions of {count} episodes of {self._budget} steps do not fit "
                f"into memory ({error}). Lower budget, or episodes."
            ) from None
        observes = name not in ("oracle", "chance")
        self._disturbance = Disturbance(
            design.perturbation, task, starts.episodes, seed=seed, observes=observes
        )
        self._planning = Planning(name, design, model, starts.episodes)
        self._seconds, self._done = 0.0, 0
        self._frames, self._drawn_before = 0, 0
        # Disturbed steps are not what their actions lead to.
        is_checked = name == "oracle" and has(task, Restored) and design.perturbation is None
        self._repeats = Repeats(task, starts) if is_checked else None

    def advance(self, until: int) -> Arm:
        """Run the episodes up to number ``until``, and return the arm so far.

        Of each call two episodes of an oracle arm in a restored environment are played again.
        Raises WorldModelError or TaskError, naming the episode and step: predictions that are not
        finite, a diverged simulator.
        """
        begun = time.perf_counter()
        begin, active = self._done, np.arange(self._done, until)
        self._drawn_before = getattr(self._task, "frames_drawn", 0) - self._frames
        self._tell(active, until)
        try:
            with self._disturbance.named():
                while active.size:
                    for rows in self._planning.groups(active):
                        plans = self._planning.plan(rows, self._steps, self._seen)
                        if self._on_plan:
                            self._on_plan(self._episodes[rows], plans)
                        self._execute(plans, rows)
                    active = active[~self._is_over(active)]
                    # Only here: in the middle of a round nothing fits together.
                    self._done = int(active[0]) if active.size else until
                    self._tell(active, until)
            self._disturbance.check()
            if self._repeats:
                self._repeats.check(self._farthest(begin, until), self.actions)
        finally:
            self._seconds += time.perf_counter() - begun
        return self._arm()

    def _farthest(self, begin: int, until: int) -> IntArray:
        """Return rows, first those that went where random actions do not: solved ones."""
        rows = np.arange(begin, until)
        return rows[np.argsort(~self._successes[rows], kind="stable")]

    def _tell(self, active: IntArray, until: int) -> None:
        self._frames = getattr(self._task, "frames_drawn", 0) - self._drawn_before
        if self._progress:
            step = int(self._steps[active].min()) if active.size else self._budget
            solved = int(self._successes[:until].sum())
            stage = Stage(step, self._budget, "step", solved, until, frames=self._frames)
            self._progress(stage)

    @property
    def states(self) -> FloatArray:
        """Where each episode is, or ended, [N, S]."""
        return self._states.copy()

    @property
    def actions(self) -> tuple[FloatArray, ...]:
        """What was executed in each episode so far, [T, A]."""
        return tuple(row[:taken] for row, taken in zip(self._actions, self._steps, strict=True))

    @property
    def latents(self) -> FloatArray:
        """What each episode was last planned from, or has been carried to since, [N, Z]."""
        return self._planning.latents

    @property
    def finished(self) -> Arm | None:
        """The first episodes, as many as have ended without a broken one between them, if any."""
        # An arm that was broken off has made plans in other episodes, too.
        return self._arm().as_run(self._done, level=self._level) if self._done else None

    def _seen(self, rows: IntArray) -> FloatArray:
        return self._disturbance.seen(
            rows, self._states[rows], self._steps[rows], counts=~self._successes[rows]
        )

    def _execute(self, plans: Plans, active: IntArray) -> None:
        """Step each active episode through its own plan, until the plan or the episode ends."""
        task, at = self._task, np.zeros(active.size, dtype=np.int64)
        while True:
            running = (plans.lengths > at) & ~self._is_over(active)
            rows = active[running]
            at[running] += self._disturbance.skipped(
                rows, self._steps[rows], counts=~self._successes[rows]
            )
            running &= plans.lengths > at
            rows, planned = active[running], plans.actions[running, at[running]]
            at[running] += 1
            if not rows.size:
                return
            actions, states = self._disturbance.step(
                rows, self._states[rows], planned, self._steps[rows], counts=~self._successes[rows]
            )
            self._states[rows] = states
            self._actions[rows, self._steps[rows]] = actions
            self._steps[rows] += 1
            rewards = np.asarray(task.reward(states, actions))
            self._check_step(rows, states, rewards)
            solved = rows[self._has_succeeded(rows, states, actions, rewards)]
            self._successes[solved], self._solved_at[solved] = True, self._steps[solved]
            # A goal that ends an episode is one that could be kept.
            left = np.where(self._is_over(rows), self._budget - self._steps[rows], 0)
            self._returns[rows] += rewards * (1 + left)
            # As little as the planner is a model told what became of its action.
            going = ~self._is_over(rows)
            self._planning.carry(rows[going], planned[going], self._steps, self._seen)
            if self._repeats:
                self._repeats.note(rows, states, actions)
            if self._on_step:
                self._on_step(self._episodes[rows], actions)

    def _has_succeeded(
        self, rows: IntArray, states: FloatArray, actions: FloatArray, rewards: FloatArray
    ) -> BoolArray:
        """Say which of these rows have just succeeded, by a step that was rewarded like this."""
        if self._least_return is None:
            has_solved: BoolArray = np.asarray(self._task.success(states, actions))
            return has_solved & ~self._successes[rows]
        is_enough: BoolArray = self._returns[rows] + rewards >= self._least_return
        return np.asarray(is_enough & (self._steps[rows] == self._budget))

    def _is_over(self, rows: IntArray) -> BoolArray:
        spent = self._steps[rows] >= self._budget
        return spent if self._to_the_end else spent | self._successes[rows]

    def _check_step(self, rows: IntArray, states: FloatArray, rewards: FloatArray) -> None:
        for values, what, cure in (
            (states, "the simulator diverged", "Reduce its time step or the actions' range."),
            (rewards[:, None], "the reward is not finite", "Mend the task's reward."),
        ):
            broken = ~np.isfinite(values).all(axis=1)
            if broken.any():
                row = rows[broken][0]
                raise TaskError(
                    f"{self._task.name}: {what} in episode {self._episodes[row]} at step "
                    f"{self._steps[row]}. {cure}"
                )

    def _arm(self) -> Arm:
        done, confidences = slice(self._done), self._planning.confidences
        successes, perturbed = self._successes[done], self._disturbance.perturbed
        return Arm(
            name=self._name,
            successes=successes,
            steps=np.where(successes, self._solved_at[done], self._steps[done]),
            indices=self._episodes[done],
            returns=self._returns[done],
            confidences=None if confidences is None else confidences[done],
            perturbed=None if perturbed is None else perturbed[done],
            # What is finished is not written to again.
            actions=self.actions[done],
            level=self._level,
            **self._planning.costs,
            compute=int(self._planning.model_steps[done].sum())
            / max(1, int(self._steps[done].sum())),
            seconds=self._seconds,
            plans=self._planning.plans[done],
            model_steps=self._planning.model_steps[done],
            starts=start_digests(self._starts[done]),
            frames=self._frames,
        )


# The states [B, S] of some rows [B], as the planner sees them.
Sight: TypeAlias = Callable[[IntArray], FloatArray]


class Planning:
    """Asks a planner for the plans of an arm's episodes [N], with what they know and remember."""

    def __init__(self, name: str, design: Design, model: BoundModel, episodes: IntArray) -> None:
        self._task, self._episodes = design.task, episodes
        self._imagination = Imagination(name, design.task.actions, model)
        self._planner = model.planner or design.planner
        self._rngs = [Stream.PLANNER.of(design.seed, episode) for episode in episodes]
        self._noise = [
            Stream.MODEL.of(design.seed, episode)
            for episode in (episodes if self._imagination.noise_size else ())
        ]
        self._latents: FloatArray | None = None
        self._confidences: FloatArray | None = None
        self.plans, self.model_steps = (np.zeros(len(episodes), dtype=np.int64) for _ in range(2))
        # What the next plan of each begins from, [N, ...]: None until a first plan, and always of
        # a planner that is not warm started.
        self._memory: FloatArray | None = None
        self._is_warm_started = is_warm_started(self._planner)
        self._wall: list[float] = []
        self._cpu: list[float] = []

    def groups(self, active: IntArray) -> list[IntArray]:
        """Divide rows into those that plan at once: first plans have nothing to begin from."""
        if not self._is_warm_started:
            return [active]
        is_first = self.plans[active] == 0
        return [rows for rows in (active[is_first], active[~is_first]) if rows.size]

    def plan(self, active: IntArray, steps: IntArray, see: Sight) -> Plans:
        """Plan for these rows, timed and checked; episodes have taken so many steps [N]."""
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        remaining, imagined = int(self._task.budget) - steps[active], self._imagination.steps
        latents = self._latents_of(active, steps, see)
        noise = [self._noise[row] for row in active] if self._noise else []
        self._imagination.plans_for(self._episodes[active], steps[active], noise)
        rngs = [self._rngs[row] for row in active]
        warm: dict[str, Any] = {}
        if self._is_warm_started:
            begun = None if not self.plans[active[0]] else self._memory
            warm["memory"] = None if begun is None else np.take(begun, active, axis=0)
        plan = self._planner.plan(self._imagination, latents, rngs, remaining, **warm)
        plans = Plans(*plan)
        _check_plans(self._planner, plans, self._task.actions, remaining)
        if self._is_warm_started:
            self._keep(plans.memory, active)
        self._wall.append((time.perf_counter() - wall_start) / active.size)
        self._cpu.append((time.process_time() - cpu_start) / active.size)
        self.plans[active] += 1
        # Every call imagines as many rows for each of them.
        self.model_steps[active] += (self._imagination.steps - imagined) // active.size
        if plans.confidences is not None:
            if self._confidences is None:
                self._confidences = np.zeros(len(self._episodes))
            self._confidences[active] += plans.confidences
        return plans

    def carry(self, rows: IntArray, actions: FloatArray, steps: IntArray, see: Sight) -> None:
        """Let a recurrent model see the real step [B, A] that these rows [B] have just taken."""
        if self._latents is None or not self._imagination.is_recurrent or not rows.size:
            return
        self._imagination.plans_for(self._episodes[rows], steps[rows])
        self._latents[rows] = self._imagination.update(self._latents[rows], actions, see(rows))

    @property
    def latents(self) -> FloatArray:
        """What each episode was last planned from, or has been carried to since, [N, Z]."""
        return np.empty((len(self._episodes), 0)) if self._latents is None else self._latents.copy()

    @property
    def confidences(self) -> FloatArray | None:
        """What the planner said of each episode that has plans: the mean over them [N]."""
        return None if self._confidences is None else self._confidences / np.maximum(self.plans, 1)

    @property
    def costs(self) -> dict[str, Any]:
        """What planning took so far, by the names of `Arm`."""
        decisions = int(self.plans.sum())
        return {
            "decisions": decisions,
            "rollout_steps": self._imagination.steps / decisions if decisions else 0.0,
            "latency_ms": Latency.of(1e3 * np.array(self._wall)),
            "latency_interval": median_interval(1e3 * np.array(self._wall)),
            "cpu_ms": Latency.of(1e3 * np.array(self._cpu)),
        }

    def _keep(self, memory: FloatArray | None, rows: IntArray) -> None:
        """Keep what was returned for these rows, or raise CpgError for what cannot be kept."""
        shape = () if memory is None else np.shape(memory)
        row = shape[1:] if self._memory is None else self._memory.shape[1:]
        if memory is None or shape != (len(rows), *row):
            raise CpgError(
                f"planner {self._planner.name!r} is warm started and returned memory of shape "
                f"{shape} for {len(rows)} episodes; return one row an episode, of one shape in "
                f"every plan, in Plans(..., memory=)."
            )
        if not np.isfinite(memory).all():
            raise CpgError(
                f"planner {self._planner.name!r} returned memory that is not finite; keep only "
                f"what its next plan can begin from."
            )
        if self._memory is None:
            self._memory = np.zeros((len(self._episodes), *row))
        self._memory[rows] = memory

    def _latents_of(self, active: IntArray, steps: IntArray, see: Sight) -> FloatArray:
        """Encode these rows, but for those whose latents are carried from step to step."""
        fresh = active
        if self._imagination.is_recurrent:
            fresh = active[self.plans[active] == 0]
        if fresh.size:
            self._imagination.plans_for(self._episodes[fresh], steps[fresh])
            encoded = self._imagination.encode(see(fresh))
            if self._latents is None:
                self._latents = np.zeros((len(self._episodes), encoded.shape[1]))
            self._latents[fresh] = encoded
        return self._latents[active]  # type: ignore[index]  # set with the first plan


def _check_plans(planner: Planner, plans: Plans, actions: ActionSpace, remaining: IntArray) -> None:
    expected = (len(remaining), planner.horizon, actions.size)
    if np.shape(plans.actions) != expected or np.shape(plans.lengths) != expected[:1]:
        raise CpgError(
            f"planner {planner.name!r} returned actions {np.shape(plans.actions)} and lengths "
            f"{np.shape(plans.lengths)}; return actions {expected} and lengths {expected[:1]}."
        )
    confidences, episodes = plans.confidences, len(remaining)
    if confidences is not None and not (
        np.shape(confidences) == (episodes,) and np.isfinite(confidences).all()
    ):
        raise CpgError(
            f"planner {planner.name!r} returned confidences {confidences!r}; return one finite "
            f"number for each of {episodes} episodes, or None."
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
