"""Sample: some decisions of a gate, taken again to find why its gap is there."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from pytest_cpg.contracts import BrokenModelError, CpgError, FloatArray, Task
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import SlowPictures
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.decisions import Decision, Decisions, evenly
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.episodes.probe import bound_arms, bound_as_truth, starts_of
from pytest_cpg.episodes.stage import ArmProgress, Stage
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis, Misreading
from pytest_cpg.gates.planning_gap.diagnosis import pictures
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
        if has(design.task, SlowPictures) and result.verdict == Verdict.MODEL_BOTTLENECK:
            tell("diagnosis", Stage(0, 1, "decisions"))
            seen = pictures.diagnosed(
                design, learned, starts_of(design), result, training_data=training_data
            )
            return replace(seen, seconds=time.perf_counter() - begun)
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
    """Yield the episodes to ask about: first as few as tell something, and then more of them.

    Lost ones, and some that the model won beside them.
    """
    learned, lost = result.learned, np.array(result.lost_episodes, dtype=np.intp)
    won = learned.indices[learned.successes]
    # Of short episodes more are needed for as many decisions.
    steps = np.minimum(learned.steps, _DECISIONS).mean()
    fewest = max(_FEWEST, round(_SHARE * learned.episodes), math.ceil(_LEAST_DECISIONS / steps))
    sizes = [0]
    for count in (min(_MOST, fewest), _MOST):
        sample, beside = evenly(lost, count - min(len(won), round(_WON * count))), won
        if len(beside) < count - len(sample):
            beside = np.setdiff1d(learned.indices, lost)
        sample = np.concatenate([sample, evenly(beside, count - len(sample))])
        if len(sample) > sizes[-1]:
            yield tuple(np.sort(sample).tolist())
        sizes.append(len(sample))


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
        starts, bound = bound_arms(design, oracle=oracle, learned=learned)
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
        decisions = _decisions(
            (result.learned, result.oracle),
            design.task,
            starts.take(np.array(episodes)),
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


def _decisions(arms: Sequence[Arm], task: Task, starts: Starts, learned: Imagination) -> Decisions:
    """Return some of the places that each arm came to, from its first to its last.

    The actions that it executed lead there again, and lead a model with memory along; arms are
    numbered as in `Decision`.
    """
    walks = [(episode, arm) for episode in starts.episodes.tolist() for arm in range(len(arms))]
    actions = [arms[arm].actions[episode] for episode, arm in walks]
    counts, episodes = np.array([*map(len, actions)]), np.array([episode for episode, _ in walks])
    at = [evenly(np.arange(count), _DECISIONS).tolist() for count in counts]
    states = np.repeat(starts.states, len(arms), axis=0)
    learned.plans_for(episodes, np.zeros_like(episodes))
    latents = learned.encode(states) if learned.is_recurrent else states
    visited: list[list[tuple[Decision, FloatArray, FloatArray]]] = [[] for _ in walks]
    for step in range(counts.max()):
        for row, (episode, arm) in enumerate(walks):
            # Only what is asked for: all of them together can be large.
            if step in at[row]:
                place = Decision(episode, arm, step)
                visited[row].append((place, states[row].copy(), latents[row].copy()))
        going = np.flatnonzero(counts > step + 1)
        if not len(going):
            break
        taken = np.stack([actions[row][step] for row in going.tolist()])
        states[going] = task.step(states[going], taken)
        if learned.is_recurrent:
            learned.plans_for(episodes[going], np.full(len(going), step + 1))
            latents[going] = learned.update(latents[going], taken, states[going])
    rows, reached, remembered = zip(*chain.from_iterable(visited), strict=True)
    states, latents = np.stack(reached), np.stack(remembered)
    if not learned.is_recurrent:
        places = np.array(rows)
        learned.plans_for(places[:, 0], places[:, 2])
        latents = learned.encode(states)
    return Decisions(rows=rows, states=states, latents=latents)


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
            replace(design, planner=wider, metric="success"),
            bound_as_truth(oracle, design, starts),
            starts.take(evenly(failed, count)),
            progress=partial(progress, "wider"),
        )
        arm = run.advance(count)
    return Headroom(arm.success_count, arm.episodes)
