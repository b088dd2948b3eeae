"""Arm runs: the arms of a gate in the making, wherever they are run and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pytest_cpg.contracts import FloatArray
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import Restored
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_cache import ArmCache, UnkeyedError, arm_key, digest_of
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.kept_run import OF_THE_MODEL, Again, KeptRun
from pytest_cpg.episodes.probe import answers_digest, probe_of
from pytest_cpg.episodes.spread_run import SpreadRun, arm_workload
from pytest_cpg.episodes.stage import ArmProgress, Progress, Stage
from pytest_cpg.machine.pool import WorkerPool
from pytest_cpg.machine.processors import own_share
from pytest_cpg.planners import Chance
from pytest_cpg.world_models import BoundModel, OracleDynamics, learned_of
from pytest_cpg.world_models.binding.tiling import is_thread_safe

ARMS = ("oracle", "learned", "chance", "rescored")
_NOT_SPREAD = "not spread over workers"


class Execution(NamedTuple):
    """Where arms are run, and where finished ones are kept from session to session.

    With ``resumes`` they go on with what an interrupted session has kept, the learned one included,
    and ``tell`` is told in a few words of everything that was resumed.
    """

    cache: ArmCache | None = None
    executor: Executor | None = None
    resumes: bool = False
    tell: Callable[[str], None] | None = None


class ArmRuns:
    """The runs of a gate's arms, by name.

    ``models`` are those of the oracle and learned arms, and of a rescored one, as they were given,
    and ``bound`` as arms use them.
    """

    def __init__(
        self,
        design: Design,
        starts: Starts,
        models: Mapping[str, Any],
        bound: Mapping[str, BoundModel],
        *,
        progress: ArmProgress | None,
        execution: Execution,
    ) -> None:
        self._design, self._starts, self._progress = design, starts, progress
        self._models, self._bound, self._execution = models, bound, execution
        self._not_kept: list[str] = []
        self._notes: list[str] = []
        self.names = tuple(name for name in ARMS if _role(name) in bound)
        self._runs = {name: self._run_of(name) for name in self.names}
        if any(run.is_refuted for run in self._kept):
            # What one arm shows to have changed has changed for all, seen there or not.
            for run in self._kept:
                run.discard()
                self._notes += run.notes
            self._execution = execution._replace(resumes=False)
            self._runs = {name: self._run_of(name) for name in self.names}
        if self._execution.tell is not None:
            for text in filter(None, (run.resumed for run in self._kept)):
                self._execution.tell(text)

    def __getitem__(self, name: str) -> ArmRun | SpreadRun | KeptRun:
        return self._runs[name]

    @property
    def reuse(self) -> tuple[str, ...]:
        """How much of each arm was stored, or why nothing can be, and what was wrong with it."""
        not_kept = (f"not stored: {why}" for why in dict.fromkeys(self._not_kept))
        return (*map(str, self._kept), *not_kept, *self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was wrong with what was stored."""
        return (*self._notes, *(note for run in self._kept for note in run.notes))

    def keep(self) -> None:
        """Store what was run."""
        for run in self._kept:
            run.keep()

    @property
    def _kept(self) -> list[KeptRun]:
        return [run for run in self._runs.values() if isinstance(run, KeptRun)]

    def _run_of(self, name: str) -> ArmRun | SpreadRun | KeptRun:
        execution, is_here = self._execution, self._is_here(name)

        def begin(starts: Starts, progress: Progress | None = None) -> ArmRun | SpreadRun:
            if execution.executor is None or is_here:
                return self._here(name, starts, progress)
            return self._spread(name, starts, progress, execution.executor)

        def tell(stage: Stage) -> None:
            if self._progress:
                is_counted = self._design.metric == "success"
                note = stage.note or _NOT_SPREAD * is_here
                solved = stage.solved if is_counted else None
                self._progress(name, stage._replace(solved=solved, note=note))

        key = self._key_of(name)
        if execution.cache is None or key is None:
            return begin(self._starts, tell)
        return KeptRun(
            name,
            begin,
            self._starts,
            repeat=partial(self._here, name),
            replay=self._replay if self._is_replayed(name) else None,
            cache=execution.cache,
            key=key,
            level=self._design.level,
            progress=tell,
            resumes=execution.resumes,
        )

    def _here(self, name: str, starts: Starts, progress: Progress | None = None) -> ArmRun:
        model = self._bound[_role(name)]
        return ArmRun(name, self._design_of(name), model, starts, progress=progress)

    def _is_here(self, name: str) -> bool:
        """Say whether workers of this machine are left out, as they would save nothing.

        An arm's own threads have all processors busy, or it is over before a worker has started. A
        learned one has real steps, too, and those of a restored environment may be slow.
        """
        task, model = self._design.task, self._models[_role(name)]
        if not isinstance(self._execution.executor, WorkerPool):
            return False
        if isinstance(model, OracleDynamics):
            return getattr(task, "threads", 1) > 1
        if has(task, Restored):
            return False
        learned = learned_of(model)
        is_small = bool(getattr(learned, "is_small", False))
        return is_small or (own_share() > 1 and is_thread_safe(learned))

    def _is_replayed(self, name: str) -> bool:
        """Say whether what was executed says how an arm went: what is planned with is the truth."""
        is_true = isinstance(self._models[_role(name)], OracleDynamics)
        return name == "oracle" and is_true and self._design.perturbation is None

    def _replay(self, starts: Starts, actions: tuple[FloatArray, ...]) -> Arm:
        """Take what was executed in episodes of the oracle arm [T, A] again, and plan nothing."""
        again = Again(int(self._design.task.budget), actions)
        run = ArmRun("oracle", replace(self._design, planner=again), self._bound["oracle"], starts)
        return run.advance(len(actions))

    def _spread(
        self, name: str, starts: Starts, progress: Progress | None, executor: Executor
    ) -> SpreadRun:
        role, design = _role(name), self._design_of(name)
        probe = probe_of(design.task, self._starts, design.seed)
        workload = arm_workload(design, self._models[role], self._bound[role], probe)
        level = design.level
        return SpreadRun(name, workload, starts, executor=executor, level=level, progress=progress)

    def _key_of(self, name: str) -> str | None:
        """Return what an arm is kept under; None where it cannot be kept, or need not be."""
        if self._execution.cache is None:
            return None
        design, model = self._design_of(name), self._models[_role(name)]
        is_learned = name in OF_THE_MODEL
        try:
            key = arm_key(name, design, model, by_content=is_learned)
        except UnkeyedError as error:
            # Only whoever wants to resume has to know that a learned arm cannot be.
            if name != "rescored" and (not is_learned or self._execution.resumes):
                self._not_kept.append(str(error))
            return None
        if not is_learned:
            return key
        # What a model reads is not all in its content.
        answers = answers_digest(self._bound[name], design, self._starts)
        return digest_of({"key": key, "answers": answers})

    def _design_of(self, name: str) -> Design:
        return replace(self._design, planner=Chance()) if name == "chance" else self._design


def _role(name: str) -> str:
    """Return whose model an arm has: chance imagines nothing, and has the oracle's."""
    return "oracle" if name == "chance" else name
