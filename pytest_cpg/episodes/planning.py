"""Planning: what the episodes of one arm imagine, and choose."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import ActionSpace, CpgError, FloatArray, IntArray, Planner, Plans
from pytest_cpg.contracts.planner import is_warm_started
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.episodes.arm import Latency
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.world_models import BoundModel

# The states [B, S] of some rows [B], as the planner sees them.
Sight: TypeAlias = Callable[[IntArray], FloatArray]


class Planning:
    """Asks a planner for the plans of an arm's episodes, with what they know and remember.

    Parameters
    ----------
    episodes : array [N], int
        Indices. Methods take their rows.

    Attributes
    ----------
    plans, model_steps : array [N], int
        Plans made, and model steps imagined in each episode.
    """

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
    """Raise CpgError unless the planner returned what its contract promises."""
    expected = (len(remaining), planner.horizon, actions.size)
    if np.shape(plans.actions) != expected or np.shape(plans.lengths) != expected[:1]:
        raise CpgError(
            f"planner {planner.name!r} returned actions {np.shape(plans.actions)} and lengths "
            f"{np.shape(plans.lengths)}; return actions {expected} and lengths {expected[:1]}."
        )
    if plans.confidences is not None:
        _check_confidences(planner, plans.confidences, len(remaining))
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


def _check_confidences(planner: Planner, confidences: FloatArray, episodes: int) -> None:
    if np.shape(confidences) != (episodes,) or not np.isfinite(confidences).all():
        raise CpgError(
            f"planner {planner.name!r} returned confidences {confidences!r}; return one finite "
            f"number for each of {episodes} episodes, or None."
        )
