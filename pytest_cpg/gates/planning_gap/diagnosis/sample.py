"""Sample: some decisions of a gate, taken again to find why its gap is there."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import BrokenModelError, CpgError, FloatArray, IntArray, Task
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.decisions import Decision, Decisions, evenly
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.episodes.probe import bound_as_truth, bound_to_starts, starts_of
from pytest_cpg.episodes.stage import ArmProgress, Stage
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis, Misreading
from pytest_cpg.gates.planning_gap.diagnosis.evidence import Evidence, Headroom, read_training_data
from pytest_cpg.gates.planning_gap.diagnosis.misreadings import misread
from pytest_cpg.gates.planning_gap.diagnosis.plan_scores import evidence_of
from pytest_cpg.gates.planning_gap.diagnosis.wording import diagnosis_of
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.planners import widened
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import inference

# One episode in ten is asked about, within these bounds: 5 are the fewest whose interval is narrow
# enough to name anything, and more than 10 make it little narrower. So many are asked about where
# fewer name nothing.
_SHARE, _FEWEST, _MOST = 0.1, 5, 10
# Of them, episodes that the learned arm won: there the model may be right.
_WON = 0.2
# Of each episode and arm; and of each arm at least, where episodes have but a few steps.
_DECISIONS, _LEAST_DECISIONS = 10, 8
# The search is so many times as wide for the headroom, only where half of the starts are failed.
_EFFORT, _WEAK_ORACLE = 4, 0.5
# Characters of an error; the frameworks' own can be pages.
_LONGEST = 300


def diagnose(
    design: Design,
    *,
    oracle: Any,
    learned: Any,
    result: GateResult,
    training_data: Any = None,
    progress: ArmProgress | None = None,
) -> Diagnosis:
    """Return why a gate that has just been run has its gap.

    Whatever goes wrong here, the gate's verdict stands: a model or planner that raises where only
    a diagnosis asks it, one that breaks its contract, and time that ran out are told by the
    diagnosis. ``training_data`` are as of `read_training_data`, the others as of `measure_gap`.
    """
    begun = time.perf_counter()
    episodes: tuple[int, ...] = ()
    tell = progress or (lambda *_: None)
    try:
        headroom = evidence = misreading = None
        if result.verdict != Verdict.MODEL_BOTTLENECK:
            headroom = _headroom(design, oracle, result, tell)
        for episodes in _samples(result):
            # Where both arms fail alike, only the planner can be at fault.
            if result.verdict != Verdict.PLANNER_BOTTLENECK:
                evidence, misreading = _evidence(
                    design, oracle, learned, result, episodes, training_data, tell
                )
            diagnosis = diagnosis_of(evidence, result, headroom=headroom, episodes=episodes)
            if result.verdict != Verdict.MODEL_BOTTLENECK or diagnosis.named or misreading:
                break
        if misreading is not None and diagnosis.cause == Cause.SCORE_HEAD:
            # Whatever the model predicts, its own score misleads.
            misreading = replace(misreading, is_decisive=False)
        diagnosis = replace(diagnosis, misreading=misreading)
        if evidence is not None:
            count = len(evidence.episodes)
            tell("diagnosis", Stage(count, count, "decisions", note=diagnosis.cause))
    # A model is asked here about states that no episode has led to: it may raise anything.
    except Exception as error:
        if isinstance(error, BrokenModelError):
            # There is a verdict, whatever the model predicts where it is asked again.
            why = f"the model was asked again, and {error.brief}"
        else:
            name = "" if isinstance(error, CpgError) else f"{type(error).__name__}: "
            why = textwrap.shorten(f"{name}{error}", _LONGEST, placeholder=" ...")
        diagnosis = Diagnosis(
            cause=Cause.NONE,
            summary=f"The diagnosis was broken off: {why}",
            recommendation="",
            episodes=episodes,
        )
    return replace(diagnosis, seconds=time.perf_counter() - begun)


def _samples(result: GateResult) -> Iterator[tuple[int, ...]]:
    learned = result.learned
    # Of short episodes more are needed for as many decisions.
    steps = np.minimum(learned.steps, _DECISIONS).mean()
    fewest = max(_FEWEST, round(_SHARE * learned.episodes), math.ceil(_LEAST_DECISIONS / steps))
    first, second = (_sample(result, count) for count in (min(_MOST, fewest), _MOST))
    yield first
    if len(second) > len(first):
        yield second


def _sample(result: GateResult, count: int) -> tuple[int, ...]:
    """Return the episodes to ask about: lost ones, and some that the model won beside them."""
    learned = result.learned
    lost = np.array(result.lost_episodes, dtype=np.intp)
    beside = learned.indices[learned.successes]
    sample = evenly(lost, count - min(len(beside), round(_WON * count)))
    if len(beside) < count - len(sample):
        beside = np.setdiff1d(learned.indices, lost)
    sample = np.concatenate([sample, evenly(beside, count - len(sample))])
    return tuple(int(episode) for episode in np.sort(sample))


def _evidence(
    design: Design,
    oracle: Any,
    learned: Any,
    result: GateResult,
    episodes: tuple[int, ...],
    training_data: Any,
    progress: ArmProgress,
) -> tuple[Evidence, Misreading | None]:
    """Return what all was asked for, and how the model is misread, if it is."""
    with inference(oracle, learned):
        starts, rows = starts_of(design), np.array(episodes)
        bound = {"learned": bound_to_starts(learned, design, starts)}
        learned_alone, witness = bound["learned"], bound["learned"].witness
        if learned_alone.planner is not None or witness is None:
            is_own = learned_alone.planner is not None
            whose = "plans itself" if is_own else "rates plans and no states"
            raise CpgError(f"a model that {whose} is not diagnosed; see --cpg-replay")
        if design.perturbation is not None:
            cure = "diagnose it without its perturbation"
            raise CpgError(f"a perturbed gate is not diagnosed; {cure}")
        bound["rescored"] = witness
        if witness.witness is not None:
            bound["afresh"] = witness.witness
        bound["oracle"] = bound_as_truth(oracle, design, starts)
        arms = [
            _walks(number, arm, design.task, starts.take(rows))
            for number, arm in enumerate((result.learned, result.oracle))
        ]
        decisions = _decisions(
            [walk for pair in zip(*arms, strict=True) for walk in pair],
            Imagination("learned", design.task.actions, bound["learned"]),
        )
        trained = read_training_data(
            training_data, size=design.task.observation_size, action_size=design.task.actions.size
        )
        count = len(decisions.rows)
        progress("diagnosis", Stage(0, count, "decisions"))
        misreading = misread(design, bound["learned"], decisions, trained=trained)
        evidence = evidence_of(
            design,
            bound,
            decisions,
            trained=trained,
            lost=result.lost_episodes,
            progress=lambda done: progress("diagnosis", Stage(done, count, "decisions")),
        )
        return evidence, misreading


class _Walk(NamedTuple):
    """What an arm did in an episode: states [T, S] before each step, and actions [T, A]."""

    episode: int
    arm: int
    states: FloatArray
    actions: FloatArray


def _walks(number: int, arm: Arm, task: Task, starts: Starts) -> list[_Walk]:
    """Return what an arm did from each start; arms are numbered as in `Decision`."""
    actions = [arm.actions[int(episode)] for episode in starts.episodes]
    counts, now = np.array([len(executed) for executed in actions]), starts.states.copy()
    states = [[start.copy()] for start in now]
    for step in range(counts.max() - 1):
        going = np.flatnonzero(counts > step + 1)
        now[going] = task.step(now[going], np.stack([actions[int(row)][step] for row in going]))
        for row in going:
            states[row].append(now[row].copy())
    return [
        _Walk(int(episode), number, np.stack(visited), executed)
        for episode, visited, executed in zip(starts.episodes, states, actions, strict=True)
    ]


def _decisions(walks: Sequence[_Walk], learned: Imagination) -> Decisions:
    """Return some of the places that each arm came to, from its first to its last."""
    at = [evenly(np.arange(count), _DECISIONS) for count in (len(walk.actions) for walk in walks)]
    return Decisions(
        rows=tuple(
            Decision(walk.episode, walk.arm, int(step))
            for walk, steps in zip(walks, at, strict=True)
            for step in steps
        ),
        states=np.concatenate([walk.states[steps] for walk, steps in zip(walks, at, strict=True)]),
        latents=_latents(walks, at, learned),
    )


def _latents(walks: Sequence[_Walk], at: Sequence[IntArray], learned: Imagination) -> FloatArray:
    """Return what the learned model knows at some steps of each arm, also of the oracle's."""
    episodes = np.array([walk.episode for walk in walks])
    if not learned.is_recurrent:
        learned.plans_for(np.repeat(episodes, [len(steps) for steps in at]), np.concatenate(at))
        states = [walk.states[steps] for walk, steps in zip(walks, at, strict=True)]
        return learned.encode(np.concatenate(states))
    learned.plans_for(episodes, np.zeros_like(episodes))
    last = np.array([steps[-1] for steps in at])
    latents = learned.encode(np.stack([walk.states[0] for walk in walks]))
    # Only what is asked for: all of them together can be large.
    latents_known = [[latents[row].copy()] if 0 in steps else [] for row, steps in enumerate(at)]
    for step in range(last.max()):
        rows = np.flatnonzero(last > step)
        learned.plans_for(episodes[rows], np.full(len(rows), step + 1))
        latents[rows] = learned.update(
            latents[rows],
            np.stack([walks[int(row)].actions[step] for row in rows]),
            np.stack([walks[int(row)].states[step + 1] for row in rows]),
        )
        for row in rows[[step + 1 in at[int(row)] for row in rows]]:
            latents_known[row].append(latents[row].copy())
    return np.concatenate([np.stack(visited) for visited in latents_known])


def _headroom(
    design: Design, oracle: Any, result: GateResult, progress: ArmProgress
) -> Headroom | None:
    """Run starts that the oracle failed with four times the search, where it fails most."""
    wider = widened(design.planner, _EFFORT)
    if result.oracle.success_rate > _WEAK_ORACLE or wider is None:
        return None
    failed = np.flatnonzero(~result.oracle.successes)
    count = min(_MOST, max(_FEWEST, round(_SHARE * result.oracle.episodes)), len(failed))
    with inference(oracle):
        starts = starts_of(design)
        run = ArmRun(
            "oracle",
            replace(design, planner=wider, metric="success", perturbation=None),
            bound_as_truth(oracle, design, starts),
            starts.take(evenly(failed, count)),
            progress=partial(progress, "wider"),
        )
        arm = run.advance(count)
    return Headroom(arm.success_count, arm.episodes)
