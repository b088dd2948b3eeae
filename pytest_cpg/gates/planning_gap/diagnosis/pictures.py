"""Pictures: whether a model that sees them does not see, does not predict or does not rate.

It is asked along real steps of its own arm alone, as only these are drawn. What is seen is what a
probe, fitted on half of these episodes, reads from latents in the other half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pytest_cpg.contracts import CpgError, FloatArray, IncompleteError, IntArray, Task
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Purpose, Stream
from pytest_cpg.contracts.task import observed, seen
from pytest_cpg.contracts.world_model import OpaqueLatents
from pytest_cpg.episodes.decisions import evenly
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.probe import bound_to_starts
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis, Measure, Misreading
from pytest_cpg.gates.planning_gap.diagnosis import losses
from pytest_cpg.gates.planning_gap.diagnosis.conventions import PictureReading, picture_readings
from pytest_cpg.gates.planning_gap.diagnosis.frames import OtherPictures, share_outside
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.planners.search import objective_of, rate
from pytest_cpg.stats import Interval
from pytest_cpg.world_models import BoundModel, OracleDynamics, inference

# Episodes, and steps of each that follow one another: of 50 with 100 steps, one real step in 20.
_EPISODES, _STEPS = 16, 12
# Episodes that have to last as long as the steps that are taken of all.
_LONG = 8
# Of each episode, places where plans are ranked, and random plans there.
_PLACES, _PLANS = 3, 24
# Shares of what a column of observations varies by that a probe may leave, and of what steps change
# that predictions may be off by.
_MOST_UNSEEN, _MOST_OFF = 0.5, 0.7
# Kendall's tau by which another reading has to rank plans better, and that it has to reach.
_BETTER, _LEAST = 0.2, 0.3
# Share of what was seen that may be farther from frames of training than 99 % of these are.
_MOST_OUTSIDE = 0.5
# Of a probe: penalties that are tried, in units of a latent's variance.
_PENALTIES = 10.0 ** np.arange(-3, 4)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Walks:
    """Real steps of some episodes: states [E, T + 1, S], and the actions [E, T, A] between them."""

    episodes: IntArray
    states: FloatArray
    actions: FloatArray
    #: [E]: Steps taken before each.
    at: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RandomPlans:
    """Random plans [P, K, H, A] from places of walks, so many in each, and true costs [P, K]."""

    #: Steps of a walk before its places, which are the same in all.
    steps: IntArray
    plans: FloatArray
    true: FloatArray


def diagnosed(
    design: Design, learned: Any, starts: Starts, result: GateResult, *, training_data: Any = None
) -> Diagnosis:
    """Return why a model that sees pictures has its gap; see the top of this module.

    ``training_data`` are as of `share_outside`.
    """
    with inference(learned):
        model = bound_to_starts(learned, design, starts)
        if model.planner is not None:
            raise CpgError("a model that plans itself is not diagnosed; see --cpg-replay")
        walks = _walks(design.task, starts, result)
        latents = _latents_along(model, walks)
        plans = _random_plans(design, walks)
        ranks = _ranks(_model_costs(design, model, plans, latents), plans)
        measures = _Measures(ranking=losses.over_episodes(ranks))
        if not (has(learned, OpaqueLatents) and learned.has_opaque_latents):
            measures = replace(
                measures,
                unseen=losses.over_episodes(_unread_shares(design.task, walks, latents)),
                off=losses.over_episodes(_step_errors(design.task, model, walks, latents)),
                is_constant=not (latents.std(axis=(0, 1)) > 0).any(),
                is_blank=_is_blank(design.task, walks),
                is_probed=True,
            )
        if training_data is not None:
            share = share_outside(design, learned, starts, walks.states, training_data)
            if isinstance(share, str):
                measures = replace(measures, unread=share)
            else:
                measures = replace(measures, outside=losses.over_episodes(share))
        misreading = None
        if measures.ranking is None or measures.ranking.low < _LEAST:
            misreading = _misreading(design, learned, starts, walks, plans, ranks)
    diagnosis = _diagnosis_of(measures)
    return replace(
        diagnosis,
        misreading=misreading,
        measures=(*measures.table,),
        episodes=tuple(walks.episodes.tolist()),
        decisions=len(walks.episodes) * _PLACES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measures:
    """What is known of a model; None where there is nothing to measure by."""

    ranking: Interval | None
    unseen: Interval | None = None
    off: Interval | None = None
    is_constant: bool = False
    is_blank: bool = False
    #: Whether latents are anything that a probe could read from.
    is_probed: bool = False
    #: Share of what it saw that is farther from the frames of its training than they are from each
    #: other; and why that is not known, where frames were given.
    outside: Interval | None = None
    unread: str = ""

    @property
    def table(self) -> Iterator[Measure]:
        """The lines below a gate."""
        of_probe = f"of what is observed, not read from latents; bad above {_MOST_UNSEEN:g}"
        of_steps = f"error of imagined steps / what they change; bad above {_MOST_OFF:g}"
        if not self.is_probed:
            of_probe = of_steps = "not measured, as the model's latents tell nothing of what it saw"
        yield Measure.of("ranking", self.ranking, "Kendall tau of random plans")
        yield Measure.of("unseen", self.unseen, of_probe)
        yield Measure.of("imagined", self.off, of_steps)
        if self.outside is not None or self.unread:
            of_frames = f"of what it saw lies outside its training; bad above {_MOST_OUTSIDE:g}"
            yield Measure.of("frames", self.outside, self.unread or of_frames)


def _diagnosis_of(measures: _Measures) -> Diagnosis:
    """Return the cause that the measures show, in words."""
    unseen, off, outside = measures.unseen, measures.off, measures.outside
    on_frames = ""
    if outside is not None and outside.low > _MOST_OUTSIDE:
        on_frames = (
            f"{100 * outside.estimate:.0f} % of what it saw in these episodes is unlike its "
            f"training: train on frames from there first."
        )
    if measures.is_blank:
        return Diagnosis(
            cause=Cause.NOT_SEEN,
            summary="All pictures of these steps are the same: there is nothing to see.",
            recommendation="Look at a film with --cpg-replay, and at what the task renders.",
        )
    if measures.is_constant:
        cause, words = Cause.NOT_SEEN, {"unseen": "it encodes all pictures alike: constant latents"}
    elif measures.ranking is not None and measures.ranking.low > losses.MOST_CONFUSED:
        return Diagnosis(
            cause=Cause.NONE,
            summary=f"The model ranks plans as the truth does (tau {measures.ranking.estimate:.2f})"
            f": what it sees, predicts and rates does not explain the gap.",
            recommendation="Look at the planner: more samples, or fewer steps of each plan.",
        )
    elif unseen is not None and unseen.low > _MOST_UNSEEN:
        cause = Cause.NOT_SEEN
        share = f"{100 * unseen.estimate:.0f} %"
        words = {"unseen": f"{share} of what is observed, no probe reads from its latents"}
    elif off is not None and off.low > _MOST_OFF:
        share = "unknown" if unseen is None else f"{100 * max(0.0, 1 - unseen.estimate):.0f} %"
        cause, words = Cause.NOT_PREDICTED, {"seen": share, "off": f"{off.estimate:.2f}"}
    elif off is not None and off.high < 1 and unseen is not None:
        ranking = "unknown" if measures.ranking is None else f"{measures.ranking.estimate:.2f}"
        cause, words = Cause.NOT_RATED, {"off": f"{off.estimate:.2f}", "ranking": ranking}
    else:
        summary = "No single cause is shown to explain the gap."
        return Diagnosis(cause=Cause.NONE, summary=summary, recommendation=on_frames)
    return Diagnosis(
        cause=cause,
        summary=_sentence(cause.meaning.format(**words)),
        recommendation=f"{cause.advice} {on_frames}".rstrip(),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _walks(task: Task, starts: Starts, result: GateResult) -> _Walks:
    """Return some steps that the learned arm took, of lost episodes first.

    As many of each, of those that are as long: an episode that is solved at once has none to give.
    """
    arm = result.learned
    durations = np.array([len(arm.actions[episode]) for episode in arm.indices])
    length = int(min(_STEPS, np.sort(durations)[::-1][:_LONG][-1]))
    is_lost = np.isin(arm.indices, result.lost_episodes)
    lost, others = (arm.indices[part & (durations >= length)] for part in (is_lost, ~is_lost))
    episodes = evenly(lost, _EPISODES)
    episodes = np.sort(np.concatenate([episodes, evenly(others, _EPISODES - len(episodes))]))
    states, actions, at = [], [], []
    for number, episode in enumerate(episodes):
        taken = np.asarray(arm.actions[episode])
        begin = (len(taken) - length) * number // max(1, len(episodes) - 1)
        walk = [starts.take(np.array([episode])).states]
        for action in taken[: begin + length]:
            walk.append(task.step(walk[-1], action[None]))
        states.append(np.concatenate(walk[begin:]))
        actions.append(taken[begin : begin + length])
        at.append(begin)
    return _Walks(
        episodes=episodes, states=np.stack(states), actions=np.stack(actions), at=np.array(at)
    )


def _latents_along(model: BoundModel, walks: _Walks) -> FloatArray:
    """Return the model's latents along the walks [E, T + 1, Z], which a memory carries."""
    count, steps, size = walks.states.shape
    if model.update is None:
        return model.encode(walks.states.reshape(-1, size)).reshape(count, steps, -1)
    along = [model.encode(np.ascontiguousarray(walks.states[:, 0]))]
    for step in range(steps - 1):
        after = np.ascontiguousarray(walks.states[:, step + 1])
        along.append(model.update(along[-1], walks.actions[:, step], after))
    return np.stack(along, axis=1)


def _random_plans(design: Design, walks: _Walks) -> _RandomPlans:
    """Return random plans of every walk, and what they cost under the true dynamics."""
    task, horizon = design.task, int(design.planner.horizon)
    steps = evenly(np.arange(walks.states.shape[1]), _PLACES)
    states = np.ascontiguousarray(walks.states[:, steps]).reshape(-1, walks.states.shape[2])
    rngs = [
        Stream.DIAGNOSIS.of(design.seed, Purpose.RANDOM_PLANS, int(episode), int(step))
        for episode in walks.episodes
        for step in steps
    ]
    plans = task.actions.sample(rngs, (_PLANS, horizon))
    reached = task.rollout(np.repeat(states, _PLANS, axis=0), plans.reshape(-1, *plans.shape[2:]))
    true = _costs(design, OracleDynamics(task).score(reached), plans)
    return _RandomPlans(steps=steps, plans=plans, true=true)


def _costs(design: Design, scores: FloatArray, plans: FloatArray) -> FloatArray:
    """Return what the planner makes [P, K] of the scores of each step of plans."""
    remaining = np.full(len(plans), plans.shape[2])
    objective = objective_of(design.planner)
    return rate(scores.reshape(*plans.shape[:3]), remaining, objective=objective)[0]


def _model_costs(
    design: Design, model: BoundModel, plans: _RandomPlans, latents: FloatArray
) -> FloatArray:
    """Return what plans cost by a model [P, K] with latents along the walks [E, T + 1, Z]."""
    beginnings = latents[:, plans.steps].reshape(len(plans.plans), -1)
    if model.has_own_cost or not model.rates_steps:
        remaining = np.full(len(beginnings), plans.plans.shape[2])
        return model.plan_costs(beginnings, plans.plans, remaining)
    flat = plans.plans.reshape(-1, *plans.plans.shape[2:])
    scores = model.score(model.rollout(np.repeat(beginnings, _PLANS, axis=0), flat))
    return _costs(design, scores, plans.plans)


def _ranks(costs: FloatArray, plans: _RandomPlans) -> FloatArray:
    """Return how a model ranks random plans in each episode: mean tau over its places [E]."""
    differs = (plans.true != plans.true[:, :1]).any(axis=1)
    taus = losses.kendall_taus(costs, plans.true)
    # To call plans alike that are not is to rank them by chance.
    taus = np.where(np.isnan(taus) & differs, 0.0, taus).reshape(-1, len(plans.steps))
    return losses.mean(taus, axis=1)


def _is_blank(task: Task, walks: _Walks) -> bool:
    """Say whether what is seen at both ends of all walks is one and the same picture."""
    ends = walks.states[:, [0, -1]].reshape(-1, walks.states.shape[-1])
    pictures = seen(task, ends)
    return bool((pictures == pictures[:1]).all())


def _observed(task: Task, walks: _Walks) -> FloatArray:
    """Return what is observed along walks [E, T + 1, O]: columns that move, by their deviation."""
    columns = observed(task, walks.states)
    scale = columns.reshape(-1, columns.shape[2]).std(axis=0)
    moves = scale > 0
    return np.asarray(columns[..., moves] / scale[moves])


def _unread_shares(task: Task, walks: _Walks, latents: FloatArray) -> FloatArray:
    """Return the share of what is observed that a probe does not read [E]."""
    observations = _observed(task, walks)
    errors = (_probed(latents, observations) - observations) ** 2
    # A column that is not read at all leaves its whole variance, and no more.
    return np.asarray(np.minimum(errors.mean(axis=1), 1.0).mean(axis=1))


def _step_errors(task: Task, model: BoundModel, walks: _Walks, latents: FloatArray) -> FloatArray:
    """Return how far imagined steps are off, per what the true ones change [E].

    By the latents of what was seen, or by what a probe reads from both: by what is nearer.
    """
    numbers = slice(0, model.described(latents).shape[-1])
    imagined = model.rollout(latents[:, 0], walks.actions)[..., numbers]
    latents, observations = latents[..., numbers], _observed(task, walks)
    # Of a model whose imagined latents lie elsewhere than those of its encoder, a probe of these.
    readings = _probed(imagined, observations[:, 1:])
    pairs = (
        (imagined - latents[:, 1:], latents[:, 1:] - latents[:, :1]),
        (readings - observations[:, 1:], observations[:, 1:] - observations[:, :1]),
    )
    lengths = [[np.linalg.norm(part, axis=(1, 2)) for part in pair] for pair in pairs]
    return np.asarray(np.fmin(*(losses.ratio(error, change) for error, change in lengths)))


def _probed(latents: FloatArray, observations: FloatArray) -> FloatArray:
    """Return what a ridge reads from latents [E, T, Z] of observations [E, T, O].

    Fitted on every other episode and read in the rest, both ways round.
    """
    readings = np.empty(observations.shape)
    for side in (0, 1):
        fit, rest = slice(side, None, 2), slice(1 - side, None, 2)
        readings[rest] = _ridge(latents[fit], observations[fit], latents[rest])
    return readings


def _ridge(inputs: FloatArray, targets: FloatArray, queries: FloatArray) -> FloatArray:
    """Return what a ridge regression says of rows [..., Z]; leaving one out chooses its penalty."""
    inputs, targets = (part.reshape(-1, part.shape[-1]) for part in (inputs, targets))
    mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
    unit = np.where(scale > 0, scale, np.inf)
    u, s, vt = np.linalg.svd((inputs - mean) / unit, full_matrices=False)
    centre = targets.mean(axis=0)
    centred, rows = targets - centre, (queries - mean) / unit
    best = np.zeros((*queries.shape[:-1], targets.shape[1]))
    errors = np.full(targets.shape[1], np.inf)
    for penalty in _PENALTIES * len(inputs):
        shrunk = s**2 / (s**2 + penalty)
        fit = (u * shrunk) @ (u.T @ centred)
        leverage = ((u**2) * shrunk).sum(axis=1)
        left = ((centred - fit) / (1 - leverage + 1e-9)[:, None]) ** 2
        error = left.mean(axis=0)
        better = error < errors
        answer = rows @ (vt.T * (s / (s**2 + penalty))) @ (u.T @ centred)
        best[..., better], errors[better] = answer[..., better], error[better]
    return np.asarray(best + centre)


def _misreading(
    design: Design,
    learned: Any,
    starts: Starts,
    walks: _Walks,
    plans: _RandomPlans,
    ranks: FloatArray,
) -> Misreading | None:
    """Return the reading of pictures with which a model ranks plans much better, if one does."""
    candidates: list[tuple[float, PictureReading]] = []
    task: Any = design.task

    def read(reading: PictureReading, states: FloatArray) -> Any:
        return reading.read(task.pictures(states))

    for reading in picture_readings(task.picture_shape[0]):
        misread: Any = OtherPictures(task, partial(read, reading))
        costs = _costs_of_reader(replace(design, task=misread), learned, starts, walks, plans)
        new_ranks = np.full(ranks.shape, np.nan) if costs is None else _ranks(costs, plans)
        gain, mean = losses.over_episodes(new_ranks - ranks), float(np.nanmean(new_ranks))
        if gain is not None and gain.low > _BETTER and mean > _LEAST:
            candidates.append((mean, reading))
    if not candidates:
        return None
    mean, reading = max(candidates, key=lambda pair: pair[0])
    return Misreading(
        name=reading.name,
        summary=f"{_sentence(reading.meaning)}. With `encode({reading.code.split(', or')[0]})` it "
        f"ranks plans with a tau of {mean:.2f}, and as it is with {np.nanmean(ranks):.2f}.",
        recommendation=f"Let encode begin with `pictures = {reading.code}`.",
        is_decisive=True,
    )


def _costs_of_reader(
    design: Design, learned: Any, starts: Starts, walks: _Walks, plans: _RandomPlans
) -> FloatArray | None:
    """Return what plans cost by a model [P, K]; None where it does not take its pictures."""
    # Outside of what is caught, as it is ours: drawn already, it costs nothing.
    design.task.pictures(walks.states[0, :1])  # type: ignore[attr-defined]  # it sees
    try:
        model = bound_to_starts(learned, design, starts)
        return _model_costs(design, model, plans, _latents_along(model, walks))
    except IncompleteError:
        raise
    # A model may raise anything for pictures that it was never given.
    except Exception:
        return None
