"""Arm runs: the arms of a gate in the making, wherever they are run and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arm_key import UnkeyedError, arm_key, digest_of
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.kept_run import KeptRun
from pytest_cpg.episodes.probe import answers_digest, probe_of
from pytest_cpg.episodes.spread_run import SpreadRun, arm_workload
from pytest_cpg.episodes.stage import ArmProgress, Progress, Stage
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.machine.workers import Workload
from pytest_cpg.planners import Chance
from pytest_cpg.world_models import BoundModel

ARMS = ("oracle", "learned", "chance", "rescored")
# What changes with every model that is worked on.
_OF_THE_MODEL = ("learned", "rescored")


class Execution(NamedTuple):
    """Where arms are run, and where they are kept.

    Attributes
    ----------
    cache : ArmCache or None
        Where finished arms are kept from session to session.
    resumes : bool
        Whether to go on with what an interrupted session has kept of arms, the learned one
        included.
    tell : callable, optional
        Told in a few words of everything that was resumed.
    """

    cache: ArmCache | None = None
    executor: Executor | None = None
    resumes: bool = False
    tell: Callable[[str], None] | None = None


class Reuse(NamedTuple):
    """What was known of arms that do not change with the model.

    Attributes
    ----------
    known : tuple of str
        How much of each arm was stored, or why nothing can be.
    notes : tuple of str
        What was wrong with it.
    """

    known: tuple[str, ...]
    notes: tuple[str, ...]


class ArmRuns:
    """The runs of a gate's arms, by name.

    Parameters
    ----------
    models, bound : mapping
        Models of the oracle and learned arms, as they were given and as arms use them; where
        there is a rescored arm, its own as well.
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
        self._workloads: dict[str, Workload] = {}
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
    def reuse(self) -> Reuse:
        """What was known of these arms before."""
        runs = self._kept
        stored = (*map(str, runs), *(f"not stored: {why}" for why in dict.fromkeys(self._not_kept)))
        return Reuse(stored, (*self._notes, *(note for run in runs for note in run.notes)))

    def keep(self) -> None:
        """Store what was run."""
        for run in self._kept:
            run.keep()

    @property
    def _kept(self) -> list[KeptRun]:
        return [run for run in self._runs.values() if isinstance(run, KeptRun)]

    def _run_of(self, name: str) -> ArmRun | SpreadRun | KeptRun:
        execution = self._execution

        def begin(starts: Starts, progress: Progress | None = None) -> ArmRun | SpreadRun:
            if execution.executor is None:
                return self._here(name, starts, progress)
            return self._spread(name, starts, progress, execution.executor)

        def tell(stage: Stage) -> None:
            if self._progress:
                is_counted = self._design.metric == "success"
                self._progress(name, stage if is_counted else stage._replace(solved=None))

        key = self._key_of(name)
        if execution.cache is None or key is None:
            return begin(self._starts, tell)
        return KeptRun(
            name,
            begin,
            self._starts,
            repeat=partial(self._here, name),
            cache=execution.cache,
            key=key,
            level=self._design.level,
            progress=tell,
            # Of a model that is worked on, only what belongs to the same run is of use.
            uses_stored=name not in _OF_THE_MODEL or execution.resumes,
            resumes=execution.resumes,
        )

    def _here(self, name: str, starts: Starts, progress: Progress | None = None) -> ArmRun:
        """Return a run of some episodes of an arm in this process."""
        model = self._bound[_role(name)]
        return ArmRun(name, self._design_of(name), model, starts, progress=progress)

    def _spread(
        self, name: str, starts: Starts, progress: Progress | None, executor: Executor
    ) -> SpreadRun:
        """Return a run of some episodes of an arm on an executor."""
        role, design = _role(name), self._design_of(name)
        if name not in self._workloads:
            probe = probe_of(design.task, self._starts, design.seed)
            self._workloads[name] = arm_workload(
                design, self._models[role], self._bound[role], probe
            )
        return SpreadRun(
            name,
            self._workloads[name],
            starts,
            executor=executor,
            level=design.level,
            progress=progress,
        )

    def _key_of(self, name: str) -> str | None:
        """Return what an arm is kept under; None where it cannot be kept, or need not be."""
        if self._execution.cache is None:
            return None
        design, model = self._design_of(name), self._models[_role(name)]
        is_learned = name in _OF_THE_MODEL
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
