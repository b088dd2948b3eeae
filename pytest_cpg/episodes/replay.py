"""Replay: a few episodes of a gate run again, with all that both arms did and imagined in them."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import CpgError, FloatArray, IntArray, Plans, Task
from pytest_cpg.contracts.task import goals_of
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, DesignRecord, Starts
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.episodes.probe import bound_arms, unchanged
from pytest_cpg.episodes.stage import ArmProgress
from pytest_cpg.machine.files import write_bytes
from pytest_cpg.world_models import BoundModel, OracleDynamics, inference

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeTrace:
    """What one arm did in one episode, and what its model promised.

    Shapes: ``T`` real steps, ``R`` planning rounds, ``H`` horizon, ``S`` state, ``A`` action.
    """

    success: bool
    #: To success, or the whole budget; below ``T`` where an episode goes on after that.
    steps: int
    #: [T+1, S]: Real states, the start first.
    states: FloatArray
    #: [T, A]: Executed, in the simulator's own units.
    actions: FloatArray
    #: [T+1]: The task's score of each state; lower is better.
    scores: FloatArray
    #: [R]: Steps taken before each round.
    at: IntArray
    #: [R, H, A] and [R]: What the planner chose, and how many steps of it were executed.
    plans: FloatArray
    lengths: IntArray
    #: [R]: Steps of each plan, 1 to ``H``, after which its predicted score is best; steps past the
    #: budget do not count.
    promised: IntArray
    #: [R, H]: Score along each plan: what the arm's own model gives from its own view of the real
    #: state (a stochastic model with noise 0), and what the true dynamics give from that state. By
    #: the model's own score or rewards where it has them; infinite where the truth diverges.
    predicted: FloatArray
    actual: FloatArray
    #: [G]: What the episode is to reach, where starts have goals of their own.
    goal: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def ending(self) -> str:
        """How it ended, in a few words."""
        return f"{'solved at step' if self.success else 'not solved in'} {self.steps}" + (
            " steps" * (not self.success)
        )

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

    @property
    def worst_round(self) -> int:
        """The round of the learned arm whose optimism is largest in size, the first of them."""
        return int(np.abs(self.learned.optimism).argmax())

    @property
    def worst_optimism(self) -> float:
        """The optimism of that round."""
        return float(self.learned.optimism[self.worst_round])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """Some episodes of a gate, run again, by their indices.

    The learned arm ``swapped`` the dynamics alone, unless the model brings more; what ``changed``
    since the episodes were run before is not written.
    """

    design: DesignRecord
    seed: int
    swapped: tuple[str, ...]
    traces: Mapping[int, ArmTraces]
    changed: tuple[str, ...] = ()

    @property
    def has_own_score(self) -> bool:
        """Whether the learned arm's predicted and actual scores are in units of the model's own."""
        return has_own_score(self.swapped)

    @property
    def has_whole_costs(self) -> bool:
        """Whether each plan of the learned arm has one number of the model's own at all steps."""
        predicted = [learned.predicted for _, learned in self.traces.values()]
        return self.has_own_score and all((p == p[:, :1]).all() for p in predicted)

    def broken_promises(self, share: float = 0.25) -> dict[str, npt.NDArray[Any]]:
        """Return where the learned arm's plans broke their promise most, the worst first.

        ``states`` [N, S] are those in which they were made, each once, with its worst promise:
        ``episodes`` and ``steps`` [N] say where that was, and ``optimism`` [N] how much nearer to
        the goal it promised to come. It is a share of all states whose plans promised too much,
        and at least one of these.
        """
        rounds = [
            (float(optimism), episode, int(at), learned.states[at])
            for episode, (_, learned) in self.traces.items()
            for optimism, at in zip(learned.optimism, learned.at, strict=True)
            if optimism < 0
        ]
        rounds.sort(key=lambda one: one[:3])
        distinct: dict[tuple[float, ...], tuple[float, int, int, FloatArray]] = {}
        for broken in rounds:
            distinct.setdefault(tuple(broken[3].tolist()), broken)
        worst = list(distinct.values())[: max(1, round(share * len(distinct)))]
        optimism, episodes, steps, states = zip(*worst, strict=True) if worst else ([],) * 4
        return {
            "states": np.array(states, dtype=np.float64),
            "episodes": np.array(episodes, dtype=np.int64),
            "steps": np.array(steps, dtype=np.int64),
            "optimism": np.array(optimism, dtype=np.float64),
        }

    def save_broken_promises(self, path: Path) -> int:
        """Write `broken_promises` to an ``.npz``, and return how many there are; of none nothing.

        Raises CpgError, naming the path and what the system says.
        """
        broken = self.broken_promises()
        if len(broken["states"]):
            file = io.BytesIO()
            np.savez(file, **broken)  # type: ignore[arg-type]  # as below
            write_bytes(path, file.getvalue(), what="the states")
        return len(broken["states"])

    def save(self, path: Path) -> None:
        """Write everything to a compressed ``.npz`` without pickles; parent folders are made.

        Names are ``schema``, ``episodes`` [N], ``swapped``, those of the design but ``versions``,
        ``seed``, and for each episode and arm those of `EpisodeTrace`, such as
        ``episode_0007/learned/predicted``. Raises CpgError, naming the path and what the system
        says.
        """
        file = io.BytesIO()
        # The stub takes every name for allow_pickle.
        np.savez_compressed(file, **self._arrays())  # type: ignore[arg-type]
        write_bytes(path, file.getvalue(), what="the replay")

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        names = [part.name for part in fields(self.design) if part.name != "versions"]
        arrays = {name: np.array(getattr(self.design, name)) for name in names}
        arrays.update(
            schema=np.array(SCHEMA),
            seed=np.array(self.seed),
            episodes=np.array(list(self.traces)),
            swapped=np.array(self.swapped, dtype=np.str_),
        )
        for episode, traces in self.traces.items():
            for arm, trace in zip(traces._fields, traces, strict=True):
                for part in fields(trace):
                    name = f"episode_{episode:04d}/{arm}/{part.name}"
                    arrays[name] = np.array(getattr(trace, part.name))
        return arrays


def has_own_score(swapped: tuple[str, ...]) -> bool:
    """Say whether an arm that replaces this rates plans in units of its own."""
    return not {"score", "reward"}.isdisjoint(swapped)


def replay(
    design: Design,
    *,
    oracle: Any,
    learned: Any,
    episodes: Sequence[int],
    progress: ArmProgress | None = None,
) -> Replay:
    """Run the oracle and learned arms on some episodes of a gate, as `measure_gap` did.

    Raises CpgError when there are no episodes, or one that the gate does not have, and
    WorldModelError when a model breaks its contract; what a model raises itself goes on unchanged.
    """
    with inference(oracle, learned):
        starts, models = bound_arms(design, oracle=oracle, learned=learned)
        rows = _rows(episodes, starts)
        with unchanged("the learned model", models["learned"], design, starts):
            arms = {
                name: _arm_traces(name, design, models[name], starts.take(rows), progress)
                for name in ("oracle", "learned")
            }
    pairs = zip(arms["oracle"], arms["learned"], strict=True)
    return Replay(
        design=design.record,
        seed=int(design.seed),
        swapped=models["learned"].swapped,
        traces={int(row): ArmTraces(*pair) for row, pair in zip(rows, pairs, strict=True)},
    )


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
    # What the arm was seen to do in each episode so far.
    notes = [defaultdict[str, list[Any]](list, states=[state]) for state in starts.states]
    rows = {int(episode): row for row, episode in enumerate(starts.episodes)}

    def note_plans(episodes: IntArray, plans: Plans) -> None:
        latents = run.latents
        for episode, plan, length in zip(episodes, plans.actions, plans.lengths, strict=True):
            row = rows[int(episode)]
            note = notes[row]
            note["latents"].append(latents[row])
            note["at"].append(len(note["actions"]))
            # A planner may write to it again.
            note["plans"].append(plan.copy())
            note["lengths"].append(int(length))

    def note_step(episodes: IntArray, actions: FloatArray) -> None:
        states = run.states
        for episode, action in zip(episodes, actions, strict=True):
            row = rows[int(episode)]
            notes[row]["actions"].append(action)
            notes[row]["states"].append(states[row])

    run = ArmRun(
        name,
        design,
        model,
        starts,
        progress=progress and partial(progress, name),
        on_step=note_step,
        on_plan=note_plans,
    )
    arm = run.advance(len(notes))
    imagination = Imagination(name, design.task.actions, model)
    return [
        _trace(note, int(episode), design.task, model, imagination, (bool(success), int(steps)))
        for note, episode, success, steps in zip(
            notes, starts.episodes, arm.successes, arm.steps, strict=True
        )
    ]


def _trace(
    notes: Mapping[str, list[Any]],
    episode: int,
    task: Task,
    model: BoundModel,
    imagination: Imagination,
    outcome: tuple[bool, int],
) -> EpisodeTrace:
    """Return an episode's trace; all its plans are rated in one batch."""
    states, actions, plans = (np.stack(notes[name]) for name in ("states", "actions", "plans"))
    at = np.array(notes["at"])
    # Whatever breaks is told with this episode and the step of its round.
    imagination.plans_for(np.full(len(at), episode), at)
    begun = states[at]
    latents = np.stack(notes["latents"])
    if model.rates_steps:
        predicted = imagination.score(imagination.rollout(latents, plans))
    else:
        # The cost of the whole plan, at each of its steps.
        lengths = np.minimum(plans.shape[1], int(task.budget) - at)
        costs = imagination.plan_costs(latents, plans[:, None], lengths)
        predicted = np.repeat(costs, plans.shape[1], axis=1)
    within = np.arange(plans.shape[1]) < (int(task.budget) - at)[:, None]
    truth = OracleDynamics(task)
    reached = truth.rollout(begun, plans)
    actual = truth.score(reached)
    if model.rescored is not None and has_own_score(model.swapped):
        rescored = Imagination("rescored", task.actions, model.rescored)
        rescored.plans_for(np.full(len(at), episode), at)
        actual = rescored.score(rescored.rollout(np.concatenate([begun, latents], axis=1), plans))
    success, steps = outcome
    return EpisodeTrace(
        success=success,
        steps=steps,
        states=states,
        actions=actions,
        scores=truth.score(states),
        at=at,
        plans=plans,
        # The episode may have been over before its last plan was.
        lengths=np.minimum(notes["lengths"], len(actions) - at),
        promised=np.where(within, predicted, np.inf).argmin(axis=1) + 1,
        predicted=predicted,
        actual=actual,
        goal=np.array(next(iter(goals_of(task, states[:1])), ())),
    )
