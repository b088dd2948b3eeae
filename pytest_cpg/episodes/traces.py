"""Replay: a few episodes of a gate run again in both arms, with all that was done and imagined."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import CpgError, FloatArray, IntArray, Plans, Task
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.arms import ArmProgress
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.episodes.probe import (
    bound_as_truth,
    bound_to_starts,
    check_unchanged,
    imagined,
    probe_of,
    starts_of,
)
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.machine.files import replace_file
from pytest_cpg.world_models import BoundModel, OracleDynamics, inference

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeTrace:
    """What one arm did in one episode, and what its model promised.

    Shapes: ``T`` real steps, ``R`` planning rounds, ``H`` horizon, ``S`` state, ``A`` action.

    Attributes
    ----------
    success : bool
    steps : int
        To success, or the whole budget. It is below ``T`` where an episode goes on after that.
    states : array [T+1, S]
        Real states, the start first.
    actions : array [T, A]
        Executed, in the simulator's own units.
    scores : array [T+1]
        The task's score of the real states; lower is better.
    at : array [R], int
        Steps taken before each round.
    plans : array [R, H, A]
        What the planner chose.
    lengths : array [R], int
        Steps of each plan that were executed, 1 to ``H``.
    promised : array [R], int
        Steps of each plan, 1 to ``H``, after which its predicted score is best; steps past the
        budget do not count.
    predicted, actual : array [R, H]
        Score along each plan: what the arm's own model gives from its own view of the real state
        (a stochastic model with noise 0), and what the true dynamics give from that state. Both by
        the model's own score or rewards where it has them, which then rate the true states as the
        model sees them. Infinite where the true dynamics diverge.
    """

    success: bool
    steps: int
    states: FloatArray
    actions: FloatArray
    scores: FloatArray
    at: IntArray
    plans: FloatArray
    lengths: IntArray
    promised: IntArray
    predicted: FloatArray
    actual: FloatArray

    @property
    def optimism(self) -> FloatArray:
        """Predicted minus actual score at each plan's promised step, [R].

        Below 0 the model promised to come nearer to the goal than the plan does.
        """
        rounds = np.arange(len(self.at))
        predicted, actual = (s[rounds, self.promised - 1] for s in (self.predicted, self.actual))
        # Where both are infinite, their difference is not zero but no number.
        return np.subtract(predicted, actual, out=np.zeros(len(rounds)), where=predicted != actual)


class ArmTraces(NamedTuple):
    """One episode in both arms."""

    oracle: EpisodeTrace
    learned: EpisodeTrace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """Some episodes of a gate, run again.

    Attributes
    ----------
    task, planner, starts, metric, perturbation : str
        The task's name, the planner with all its settings, "sampled" or "fixed", "success" or
        "return", and what was perturbed, empty for nothing.
    seed, budget, horizon : int
        Of starts and planner noise; steps an episode may take, and a plan looks ahead.
    control_period : float
        Seconds of simulated time per step.
    swapped : tuple of str
        What the learned arm replaced: ``("dynamics",)`` unless the model brings more.
    traces : mapping
        Index of the episode, rising, to what happened in it.
    """

    task: str
    planner: str
    starts: str
    metric: str
    seed: int
    budget: int
    horizon: int
    control_period: float
    swapped: tuple[str, ...]
    traces: Mapping[int, ArmTraces]
    perturbation: str = ""

    @property
    def has_own_score(self) -> bool:
        """Whether the learned arm's predicted and actual scores are in units of the model's own."""
        return _has_own_score(self.swapped)

    def save(self, path: Path) -> None:
        """Write everything to a compressed ``.npz`` without pickles; parent folders are made.

        Names are ``schema``, ``episodes`` [N], those of the attributes but `traces`, and for each
        episode and arm those of `EpisodeTrace`, such as ``episode_0007/learned/predicted``.
        Whoever reads the file meanwhile finds the old one or the new one.

        Raises
        ------
        CpgError
            Naming the path and what the system says.
        """
        file = io.BytesIO()
        # The stub takes every name for allow_pickle.
        np.savez_compressed(file, **self._arrays())  # type: ignore[arg-type]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, file.getvalue())
        except OSError as error:
            raise CpgError(f"cannot write the replay {path}: {error.strerror or error}") from None

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        facts = [field.name for field in fields(self) if field.name not in ("swapped", "traces")]
        arrays = {name: np.array(getattr(self, name)) for name in facts}
        arrays.update(
            schema=np.array(SCHEMA),
            episodes=np.array(list(self.traces)),
            swapped=np.array(self.swapped, dtype=np.str_),
        )
        for episode, traces in self.traces.items():
            for arm, trace in zip(traces._fields, traces, strict=True):
                for field in fields(trace):
                    name = f"episode_{episode:04d}/{arm}/{field.name}"
                    arrays[name] = np.array(getattr(trace, field.name))
        return arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeOptimism:
    """How far a learned model's promises were off in one episode.

    Attributes
    ----------
    episode : int
    optimism : float
        Mean of the learned arm's `EpisodeTrace.optimism` over its rounds.
    worst_round : int
        The round whose optimism is largest in size, the first of them.
    worst_optimism : float
        Its optimism.
    oracle_score, learned_score : float
        The task's score of the last real state of each arm.
    """

    episode: int
    optimism: float
    worst_round: int
    worst_optimism: float
    oracle_score: float
    learned_score: float


def replay(
    design: Design,
    *,
    oracle: Any,
    learned: Any,
    episodes: Sequence[int],
    progress: ArmProgress | None = None,
) -> Replay:
    """Run the oracle and learned arms on some episodes of a gate, as `measure_gap` did.

    Parameters
    ----------
    episodes : sequence of int
        Indices; each episode ends as it does among all others.
    oracle, learned, progress
        As of `measure_gap`.

    Raises
    ------
    CpgError
        When there are no episodes, or one that the gate does not have.
    WorldModelError
        When a model breaks its contract; what a model raises itself goes on unchanged.
    """
    with inference(oracle, learned):
        starts = starts_of(design)
        models = {
            "oracle": bound_as_truth(oracle, design, starts),
            "learned": bound_to_starts(learned, design, starts),
        }
        rows = _rows(episodes, starts)
        probe = probe_of(design.task, starts, design.seed)
        answer = imagined(models["learned"], probe)
        arms = {
            name: _arm_traces(name, design, models[name], starts.take(rows), progress)
            for name in ("oracle", "learned")
        }
        check_unchanged("the learned model", answer, imagined(models["learned"], probe))
    pairs = zip(arms["oracle"], arms["learned"], strict=True)
    return Replay(
        task=str(design.task.name),
        planner=repr(design.planner),
        starts=design.starts,
        metric=design.metric,
        seed=int(design.seed),
        budget=int(design.task.budget),
        horizon=int(design.planner.horizon),
        control_period=float(design.task.control_period),
        swapped=models["learned"].swapped,
        perturbation="" if design.perturbation is None else design.perturbation.name,
        traces={int(row): ArmTraces(*pair) for row, pair in zip(rows, pairs, strict=True)},
    )


def optimism_of(replay: Replay) -> tuple[EpisodeOptimism, ...]:
    """Return how far off the promises of each episode were."""
    found = []
    for episode, (oracle, learned) in replay.traces.items():
        optimism = learned.optimism
        worst = int(np.abs(optimism).argmax())
        found.append(
            EpisodeOptimism(
                episode=episode,
                optimism=float(optimism.mean()),
                worst_round=worst,
                worst_optimism=float(optimism[worst]),
                oracle_score=float(oracle.scores[-1]),
                learned_score=float(learned.scores[-1]),
            )
        )
    return tuple(found)


class _Notes:
    """What an arm was seen to do in one episode so far."""

    def __init__(self, start: FloatArray) -> None:
        self.states = [start]
        self.actions: list[FloatArray] = []
        self.at: list[int] = []
        self.plans: list[FloatArray] = []
        self.lengths: list[int] = []
        self.latents: list[FloatArray] = []


def _rows(episodes: Sequence[int], starts: Starts) -> IntArray:
    """Return the episodes' rows, rising, each once."""
    if not len(episodes):
        raise CpgError("a replay needs at least one episode, got none.")
    rows = np.unique(episodes)
    for row in rows[(rows < 0) | (rows >= len(starts.episodes))]:
        raise CpgError(
            f"the gate has no episode {row}: it has {len(starts.episodes)}, from 0 on. Run it with "
            f"the episodes that it had."
        )
    return rows


def _arm_traces(
    name: str, design: Design, model: BoundModel, starts: Starts, progress: ArmProgress | None
) -> list[EpisodeTrace]:
    """Run one arm on all of these starts."""
    notes = [_Notes(state) for state in starts.states]
    rows = {int(episode): row for row, episode in enumerate(starts.episodes)}

    def tell(done: int, count: int) -> None:
        if progress:
            progress(name, done, count)

    def note_plans(episodes: IntArray, plans: Plans) -> None:
        latents = run.latents
        for episode, plan, length in zip(episodes, plans.actions, plans.lengths, strict=True):
            row = rows[int(episode)]
            note = notes[row]
            note.latents.append(latents[row])
            note.at.append(len(note.actions))
            # A planner may write to it again.
            note.plans.append(plan.copy())
            note.lengths.append(int(length))

    def note_step(episodes: IntArray, actions: FloatArray) -> None:
        states = run.states
        for episode, action in zip(episodes, actions, strict=True):
            row = rows[int(episode)]
            notes[row].actions.append(action)
            notes[row].states.append(states[row])

    run = ArmRun(
        name,
        design,
        model,
        starts,
        progress=tell,
        on_step=note_step,
        on_plan=note_plans,
    )
    tell(0, len(notes))
    arm = run.advance(len(notes))
    imagination = Imagination(name, design.task.actions, model)
    return [
        _trace(note, int(episode), design.task, model, imagination, (bool(success), int(steps)))
        for note, episode, success, steps in zip(
            notes, starts.episodes, arm.successes, arm.steps, strict=True
        )
    ]


def _trace(
    notes: _Notes,
    episode: int,
    task: Task,
    model: BoundModel,
    imagination: Imagination,
    outcome: tuple[bool, int],
) -> EpisodeTrace:
    """Return an episode's trace; all its plans are rated in one batch."""
    states, at, plans = np.stack(notes.states), np.array(notes.at), np.stack(notes.plans)
    # Whatever breaks is told with this episode and the step of its round.
    imagination.plans_for(np.full(len(at), episode), at)
    begun = states[at]
    latents = np.stack(notes.latents)
    predicted = imagination.score(imagination.rollout(latents, plans))
    within = np.arange(plans.shape[1]) < (task.budget - at)[:, None]
    truth = OracleDynamics(task)
    reached = truth.rollout(begun, plans)
    actual = truth.score(reached)
    if model.rescored is not None and _has_own_score(model.swapped):
        own = Imagination("rescored", task.actions, model.rescored)
        own.plans_for(np.full(len(at), episode), at)
        actual = own.score(own.rollout(np.concatenate([begun, latents], axis=1), plans))
    success, steps = outcome
    return EpisodeTrace(
        success=success,
        steps=steps,
        states=states,
        actions=np.stack(notes.actions),
        scores=truth.score(states),
        at=at,
        plans=plans,
        # The episode may have been over before its last plan was.
        lengths=np.minimum(notes.lengths, len(notes.actions) - at),
        promised=np.where(within, predicted, np.inf).argmin(axis=1) + 1,
        predicted=predicted,
        actual=actual,
    )


def _has_own_score(swapped: tuple[str, ...]) -> bool:
    return not {"score", "reward"}.isdisjoint(swapped)
