"""Rows: what a model answers to many questions, in blocks, spread over workers and resumed.

For kinds of gate whose measurement is no arm: `filled` runs the blocks, here or by `Crew.run`, and
a `Snapshot` keeps what is there for --cpg-resume.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Task, WorldModelError
from pytest_cpg.episodes.arm_cache import digest_of, model_key
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.episodes.design import Starts, starts_from
from pytest_cpg.episodes.probe import probe_of
from pytest_cpg.episodes.spread_run import OTHER_ANSWER
from pytest_cpg.gates.kind import Run
from pytest_cpg.machine.workers import Crew, Workload
from pytest_cpg.world_models import bind, inference, learned_of
from pytest_cpg.world_models.binding.conventions import describe

# A killed session loses no more than what was answered since.
SECONDS_BETWEEN_FILES = 10.0
# Questions that are asked together.
_ROWS = 64
# Questions by whose answers a model is known again.
_PROBES = 4
# As `Crew.run`.
Spread: TypeAlias = Callable[..., Iterable[tuple[int, FloatArray]]]


class Snapshot:
    """Values of one model in pytest's cache, to be made before the model is asked anything.

    ``asked`` returns what they depend on beside the model, by name: texts and whole numbers.
    Nothing is kept without a cache, nor of a model whose content cannot be read.
    """

    def __init__(
        self, execution: Execution, model: Any, asked: Callable[[], Mapping[str, str | int]]
    ) -> None:
        self._cache, self._resumes = execution.cache, execution.resumes
        self._tell = execution.tell
        self._key: str | None = None
        self._begun = self._next_file = time.monotonic()
        if self._cache is not None:
            self._key = model_key(model, **asked())

    def answered(self, answers: Iterable[bytes]) -> None:
        """Tell the model from others by some of its answers as well; not asked for without a cache.

        What a model reads is not all in its content.
        """
        if self._key is not None:
            digest = hashlib.sha256(b"".join(answers)).hexdigest()
            self._key = digest_of({"key": self._key, "answers": digest})

    @property
    def seconds(self) -> float:
        """How long answering has taken, in all sessions together."""
        return time.monotonic() - self._begun

    def take_up(
        self, found: FloatArray, blocks: Sequence[Block], answer: Callable[[Block], FloatArray]
    ) -> None:
        """Write what is kept into values [E, R], if a block of it is answered alike again."""
        self._begun = time.monotonic()
        self._next_file = self._begun + SECONDS_BETWEEN_FILES
        if self._cache is None or self._key is None or not self._resumes:
            return
        snapshot = self._cache.load_snapshot(self._key)
        if snapshot is None or snapshot["values"].shape != found.shape:
            return
        values = snapshot["values"]
        done = [block for block in blocks if not np.isnan(values[:, block.rows]).any()]
        if not done:
            return
        # Another one in every session, so that no change stays unseen for long.
        again = done[np.random.default_rng().integers(len(done))]
        if np.array_equal(answer(again), values[:, again.rows]):
            found[:] = values
            self._begun -= float(snapshot["seconds"])
            if self._tell is not None:
                there = int((~np.isnan(values).any(axis=0)).sum())
                self._tell(f"{there} of {values.shape[1]} answers")

    def now_and_then(self, found: FloatArray) -> None:
        """Keep values [E, R], NaN where nothing was answered yet, if it is time to."""
        if time.monotonic() >= self._next_file:
            self.keep(found)

    def keep(self, found: FloatArray) -> None:
        """Keep values [E, R], NaN where nothing was answered yet."""
        if self._cache is None or self._key is None:
            return
        values = {"values": found, "seconds": np.array(self.seconds)}
        self._cache.store_snapshot(self._key, values)
        self._next_file = time.monotonic() + SECONDS_BETWEEN_FILES


def filled(
    shape: tuple[int, int],
    blocks: Sequence[Block],
    answer: Callable[[Block], FloatArray],
    *,
    progress: Callable[[int, int], None],
    spread: Spread | None = None,
    snapshot: Snapshot | None = None,
) -> FloatArray:
    """Return the values [E, R] of all rows, each of which is in one block.

    ``answer`` returns the values [E, B] of a block's rows, in this process, or workers do:
    ``spread`` is ``run`` of their `Crew`. ``progress`` is told how many rows there are of how many,
    and what it raises ends all.
    """
    answers = np.full(shape, np.nan)
    if snapshot is not None:
        snapshot.take_up(answers, blocks, answer)
    left = [row for row in blocks if np.isnan(answers[:, row.rows]).any()]
    count = shape[1]

    def tell() -> None:
        progress(count - int(np.isnan(answers[0]).sum()), count)

    try:
        tell()
        here = ((place, answer(block)) for place, block in enumerate(left))
        for place, values in here if spread is None else spread(left, tick=lambda _: tell()):
            answers[:, left[place].rows] = values
            tell()
            if snapshot is not None:
                snapshot.now_and_then(answers)
    finally:
        if snapshot is not None:
            snapshot.keep(answers)
    return answers


class Block(NamedTuple):
    """Rows [R] that are answered together, filled up to ``size`` by the last of them.

    Of policies that are compared a row is a query's side: a below the number of queries, and b
    from there on.
    """

    rows: IntArray
    size: int = 0

    def __str__(self) -> str:
        return f"the questions from number {self.rows[0]} on"

    @property
    def filled(self) -> IntArray:
        """As many rows as every block has."""
        return np.pad(self.rows, (0, self.size - len(self.rows)), mode="edge")


class Questions(NamedTuple):
    """What a model is asked, one question a row of arrays [N, ...].

    ``answer`` maps the model, bound to the task, and rows of the arrays to numbers [B], or [B, E].
    The model rates no plans, so that it needs no score. It stands in a module, so that a worker
    finds it by its name. Rows with the same number in ``clusters`` [N], as of one episode, are no
    independent evidence. ``probe``, states [P, S] and actions [P, A], is what the model is checked
    with; by default it is near starts of the task.
    """

    task: Task
    answer: Callable[..., FloatArray]
    arrays: tuple[FloatArray, ...]
    clusters: IntArray | None = None
    probe: tuple[FloatArray, FloatArray] | None = None


def answered(run: Run, model: Any, questions: Questions, *, what: str) -> FloatArray:
    """Return the numbers [N], or [N, E], that a model answers: spread, and kept for --cpg-resume.

    The model may be anything that `world_models.bind` takes. ``what`` names the stage.
    """
    count = len(questions.arrays[0])
    digest = hashlib.sha256()
    for array in questions.arrays:
        digest.update(np.ascontiguousarray(array).data)
    snapshot = Snapshot(
        run.execution,
        model,
        lambda: {"what": what, "task": questions.task.name, "questions": digest.hexdigest()},
    )
    bound = _Asked(model, questions, None)
    first = bound.run(Block(np.arange(min(_PROBES, count))))
    snapshot.answered([first.tobytes()])
    blocks = [Block(rows) for rows in np.array_split(np.arange(count), -(-count // _ROWS))]
    spread = None
    if run.execution.executor is not None:
        workload = Workload.of(
            ((questions.task, f"the task {questions.task.name!r}"), (model, describe(model))),
            _Asked,
            (model, questions, first),
            name=describe(model),
        )
        spread = Crew(run.execution.executor, workload).run
    answers = filled(
        (len(first), count),
        blocks,
        bound.run,
        progress=lambda done, total: run.progress(what, done, total),
        spread=spread,
        snapshot=snapshot,
    )
    return np.asarray(answers[0] if len(answers) == 1 else answers.T)


def _near_starts(task: Task) -> tuple[FloatArray, FloatArray]:
    """Return states near starts and an action for each, also where every start is solved."""
    seeds = np.arange(2)
    starts = Starts(episodes=seeds, states=starts_from(task, seeds), seeds=seeds, skipped=0)
    return probe_of(task, starts, 0)


class _Asked:
    """A model bound to its task, here or in a worker, and what it is asked."""

    def __init__(self, model: Any, questions: Questions, answer: FloatArray | None) -> None:
        self._model, self._questions = model, questions
        task = questions.task
        # A log, which brings a probe, has no starts.
        states, actions = questions.probe or _near_starts(task)
        with inference(learned_of(model)):
            self._bound = bind(model, task, probe_states=states, probe_actions=actions, rates=False)
        if answer is not None:
            first = np.arange(answer.shape[1])
            if not np.array_equal(self.run(Block(first)), answer, equal_nan=True):
                raise WorldModelError(OTHER_ANSWER)

    def run(self, block: Block) -> FloatArray:
        """Return the answers [E, B] to a block."""
        questions = self._questions
        with inference(learned_of(self._model)):
            answers = questions.answer(self._bound, *(one[block.rows] for one in questions.arrays))
        return np.asarray(answers, dtype=np.float64).reshape(len(block.rows), -1).T
