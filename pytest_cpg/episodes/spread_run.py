"""Spread run: an arm whose episodes are run in blocks, by the workers of an executor."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.perturbations import parts_of
from pytest_cpg.episodes.probe import check_unchanged, imagined
from pytest_cpg.episodes.stage import Progress, Stage
from pytest_cpg.machine.fingerprint import fingerprint, source_of
from pytest_cpg.machine.workers import Crew, Workload, workers_of
from pytest_cpg.world_models import BoundModel, bind, inference, learned_of
from pytest_cpg.world_models.binding.conventions import describe

OTHER_ANSWER = (
    "the model answers otherwise in a worker than in this process. Keep all that it depends on in "
    "the model itself, and run it on machines that compute alike."
)
_OTHER_CONTENT = (
    "task, planner or model are not in a worker what they are in this process: they read values "
    "that are set when pytest starts, or the workers still have the code of before. Keep such "
    "values in the objects themselves, and restart the workers of a cluster when code has changed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Consecutive episodes of one arm."""

    name: str
    starts: Starts

    def __str__(self) -> str:
        episodes = self.starts.episodes
        return f"{self.name} arm, episodes {episodes[0]} to {episodes[-1]}"


def arm_workload(
    design: Design, model: Any, bound: BoundModel, probe: tuple[FloatArray, FloatArray]
) -> Workload:
    """Return a model with what it answers to a probe in this process, or raise ComponentError."""
    learned = learned_of(model)
    content = _content_of(design, model)
    brings_planner = bound.planner is not None
    wrong = [(part, f"the perturbation {part.name!r}") for part in parts_of(design.perturbation)]
    return Workload.of(
        ((design.task, f"the task {design.task.name!r}"), (learned, describe(learned)), *wrong),
        _Loaded,
        (design, model, brings_planner, probe, imagined(bound, probe), content),
        name=f"the planner {design.planner.name!r}",
    )


class _Loaded:
    """A model in a worker, bound to its task."""

    def __init__(
        self,
        design: Design,
        model: Any,
        brings_planner: bool,
        probe: tuple[FloatArray, FloatArray],
        answer: FloatArray,
        content: tuple[str, str],
    ) -> None:
        self._design, self._model = design, model
        self._probe, self._answer = probe, answer
        content_here = _content_of(design, model)
        # The code of what no module knows, such as a lambda, was sent with it; its file was not.
        if content_here[0] != content[0] or content_here[1] not in ("", content[1]):
            raise WorldModelError(_OTHER_CONTENT)
        states, actions = probe
        with inference(learned_of(model)):
            bound = bind(model, design.task, probe_states=states, probe_actions=actions)
            # What stands for the truth is planned as the gate plans, whatever it brings.
            self._bound = bound if brings_planner else replace(bound, planner=None)
            if not np.array_equal(imagined(self._bound, probe), answer, equal_nan=True):
                raise WorldModelError(OTHER_ANSWER)

    def run(self, block: Block) -> Arm | None:
        with inference(learned_of(self._model)):
            run = ArmRun(block.name, self._design, self._bound, block.starts)
            run.advance(len(block.starts.episodes))
            check_unchanged(
                f"the {block.name} model", self._answer, imagined(self._bound, self._probe)
            )
        return run.finished


def _content_of(design: Design, model: object) -> tuple[str, str]:
    """Return the fingerprint of task and planner, empty where it cannot be read, and model's code.

    What a model holds is checked by what it answers: it may count its calls, or keep a cache.
    """
    with suppress(ValueError):
        return fingerprint(design.task, design.planner), source_of(learned_of(model))
    return "", source_of(learned_of(model))


# Smaller blocks leave most of a learned model's tile empty, larger ones leave workers idle.
_FEWEST_EPISODES = 10
_BLOCKS_PER_WORKER = 4


def block_size(episodes: int, *, workers: int) -> int:
    """Return how many episodes each block has but the last, so that all workers end together.

    >>> [block_size(episodes, workers=2) for episodes in (5, 15, 50, 150)]
    [10, 10, 13, 19]
    """
    most = min(episodes // _FEWEST_EPISODES, _BLOCKS_PER_WORKER * workers)
    # As many for each worker; of too few there is one of the smallest for each.
    blocks = most - most % workers
    return -(-episodes // blocks) if blocks else _FEWEST_EPISODES


class SpreadRun:
    """Runs an arm as `ArmRun` does, in blocks on an executor, which changes no outcome."""

    def __init__(
        self,
        name: str,
        workload: Workload,
        starts: Starts,
        *,
        executor: Executor,
        level: float,
        progress: Progress | None = None,
    ) -> None:
        self._name, self._executor, self._progress = name, executor, progress
        self._starts, self._level = starts, level
        self._crew = Crew(executor, workload)
        self._finished: Arm | None = None
        self._seconds = 0.0

    @property
    def finished(self) -> Arm | None:
        """The first episodes, as many as have ended without one missing between them."""
        return self._finished and replace(self._finished, seconds=self._seconds)

    def advance(self, until: int) -> Arm:
        """Run the episodes up to number ``until``, and return the arm so far, as `ArmRun` does."""
        begun, done = time.perf_counter(), self._done
        size = block_size(until - done, workers=workers_of(self._executor))
        blocks = [
            Block(
                name=self._name,
                starts=self._starts.take(np.arange(first, min(first + size, until))),
            )
            for first in range(done, until, size)
        ]
        self._tell(done, until)
        results = self._crew.run(
            blocks, tick=lambda count: self._tell(min(done + count * size, until), until)
        )
        parts: dict[int, Arm] = {}
        joined = 0
        try:
            for place, part in results:
                parts[place] = part
                while joined in parts:
                    part = parts.pop(joined)
                    whole = self._finished
                    self._finished = part if whole is None else whole.followed_by(part)
                    joined += 1
        finally:
            self._seconds += time.perf_counter() - begun
        finished = self.finished
        if finished is None:
            raise ValueError(f"need at least 1 episode, got {until}")
        return finished.as_run(until, level=self._level)

    def _tell(self, done: int, until: int) -> None:
        if self._progress:
            finished = self._finished
            solved, frames = (finished.success_count, finished.frames) if finished else (0, 0)
            self._progress(Stage(done, until, "starts", solved, until, frames=frames))

    @property
    def _done(self) -> int:
        return 0 if self._finished is None else self._finished.episodes
