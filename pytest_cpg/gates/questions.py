"""Questions: what a learned model and the truth answer at the same decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    FiniteActions,
    FloatArray,
    IntArray,
    Planner,
    Plans,
    Task,
)
from pytest_cpg.diagnosis import Coverage, Evidence, Headroom, TrainingStates, coverage_of
from pytest_cpg.diagnosis.evidence import FIRST_RANDOM, LEARNED, Memory
from pytest_cpg.gates.decisions import STREAM, Decisions
from pytest_cpg.gates.design import Design
from pytest_cpg.imagination import Imagination
from pytest_cpg.planners.objective import Objective
from pytest_cpg.world_models import BoundModel, OracleDynamics

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

# Random plans of each decision; Kendall's tau of one decision then has a deviation of 0.15.
_CANDIDATES = 24
# Plans that are stepped through for places to probe: the two chosen ones, and as many random ones.
_WALKED = 4
# Places of each decision where one step is probed, and actions tried there.
_PLACES, _ACTIONS = 16, 8
# Second spawn keys of the streams here.
_PLANS, _RANDOM, _PROBES, _PARTS, _PLANNED_NOISE, _ASKED_NOISE = range(6)
# In one array of imagined or true states, of which there are a handful at a time: 32 MiB.
_MOST_NUMBERS = 2**22


def evidence_of(
    design: Design,
    bound: Mapping[str, BoundModel],
    decisions: Decisions,
    *,
    trained: TrainingStates | str,
    headroom: Headroom | None,
) -> Evidence:
    """Return what the models ``"learned"`` and ``"oracle"`` answer at these decisions.

    ``"rescored"`` is the first one's witness; ``trained`` are the observations of the training
    data, or why they are not known.
    """
    scale, parts = None, _parts(design, decisions, bound["learned"].noise_size)
    answers = []
    for rows in parts:
        part = Questions(design, bound, decisions.take(rows)).answers(scale, trained)
        scale = part.scale
        answers.append(part)
    order = np.argsort(np.concatenate(parts))
    found: dict[str, Any] = {
        name: np.concatenate([part.found[name] for part in answers])[order]
        for name in answers[0].found
    }
    if not isinstance(trained, str):
        imagined = np.concatenate([part.imagined for part in answers])[order]
        # Only then are latents observations.
        is_observed = bound["learned"].swapped == ("dynamics",)
        coverage = _coverage(design.task, decisions, trained, imagined if is_observed else None)
    return Evidence(
        **{"expected": None, "rescored": None, "probe_distances": None, **found},
        objective=_objective(design.planner),
        remaining=design.task.budget - decisions.at,
        memory=_memory(bound["learned"]),
        episodes=decisions.episodes,
        coverage=trained if isinstance(trained, str) else coverage,
        headroom=headroom,
    )


def _objective(planner: Planner) -> Objective:
    """Return what a planner chooses plans for, as far as we know."""
    given: Any = getattr(planner, "objective", "best")
    return given if given in get_args(Objective) else "best"


def _memory(learned: BoundModel) -> Memory:
    if learned.update is None:
        return "none"
    return "opaque" if learned.observe is None else "decoded"


def _parts(design: Design, decisions: Decisions, noise_size: int) -> list[IntArray]:
    """Divide decisions at random into as few parts as memory allows: rows of each."""
    count = len(decisions.rows)
    size = decisions.states.shape[1] + decisions.latents.shape[1] + noise_size
    numbers = count * (FIRST_RANDOM + _CANDIDATES) * design.planner.horizon * size
    parts = min(count, -(-numbers // _MOST_NUMBERS))
    if parts == 1:
        return [np.arange(count)]
    # The first of them also sets the scale: it is to be a fair sample.
    stream = np.random.SeedSequence(design.seed, spawn_key=(STREAM, _PARTS))
    return np.array_split(np.random.default_rng(stream).permutation(count), parts)


def _coverage(
    task: Task, decisions: Decisions, trained: TrainingStates, imagined: FloatArray | None
) -> Coverage:
    """Compare what is visited, and what the chosen plans are imagined to lead through [N, H, O]."""
    planned, episodes = [task.observe(decisions.states)], [decisions.episodes]
    if imagined is not None:
        is_within = np.arange(imagined.shape[1]) < (task.budget - decisions.at)[:, None]
        planned.append(imagined[is_within])
        episodes.append(np.repeat(decisions.episodes, is_within.sum(axis=1)))
    return coverage_of(trained, np.concatenate(planned), np.concatenate(episodes))


class _Answers(NamedTuple):
    """Some fields of `Evidence`, imagined latents of the learned arm's plans [N, H, Z], a unit."""

    found: Mapping[str, FloatArray]
    imagined: FloatArray
    scale: FloatArray


class Questions:
    """What is asked of the model and of the truth at some decisions, all at once."""

    def __init__(
        self, design: Design, bound: Mapping[str, BoundModel], decisions: Decisions
    ) -> None:
        self._task, self._planner, self._seed = design.task, design.planner, design.seed
        self._bound, self._decisions = bound, decisions
        self._remaining = design.task.budget - decisions.at
        self._imagination = self._ask("learned")
        self._witness = self._ask("rescored")
        # What a memory holds need not be read from what is true, so it is compared from outside.
        self._observe = self._imagination.observe if self._imagination.is_recurrent else None

    def answers(self, scale: FloatArray | None, trained: TrainingStates | str) -> _Answers:
        """Ask; lengths are in units of ``scale`` [Z], by default of what is found here."""
        model, plans = self._bound["learned"], self._candidates()
        predicted = self._rolled(self._imagination, self._decisions.latents, plans)
        followed = self._followed(self._decisions.states, self._decisions.latents, plans)
        truth, seen = self._parted(followed)
        imagined = self._described(predicted)
        scale = _scale(seen) if scale is None else scale
        random = slice(FIRST_RANDOM, None)
        probes = self._probed(plans, scale)
        found = {
            "predicted": self._within(self._scored(predicted)),
            "actual": self._within(OracleDynamics(self._task).score(truth)),
            "errors": _length(imagined - seen, scale),
            "spreads": _spread(seen[:, random], scale),
            "responses": _spread(imagined[:, random], scale),
            "probe_errors": probes.errors,
            "probe_spreads": probes.spreads,
            "probe_gains": probes.gains,
        }
        if model.noise_size:
            # As the planner sees them; all lengths are of what is expected.
            drawing = self._ask("learned", noise=self._decisions.streams(self._seed, _ASKED_NOISE))
            found["expected"] = found["predicted"]
            drawn = self._rolled(drawing, self._decisions.latents, plans)
            found["predicted"] = self._within(self._scored(drawn))
        if model.rates:
            scores = self._witness.score(followed.reshape(-1, *followed.shape[2:]))
            found["rescored"] = self._within(scores.reshape(truth.shape[:-1]))
        if not isinstance(trained, str):
            found["probe_distances"] = trained.distances(self._task.observe(probes.states))
        # A view would keep all of them.
        return _Answers(found, imagined[:, LEARNED].copy(), scale)

    def _ask(self, arm: str, noise: Sequence[np.random.Generator] = ()) -> Imagination:
        """Return a world to ask about all decisions, with noise from a stream of each or none."""
        imagination = Imagination(arm, self._task.actions, self._bound[arm])
        imagination.plans_for(self._decisions.episodes, self._decisions.at, noise)
        return imagination

    def _candidates(self) -> FloatArray:
        """Return the plans of both arms' planners and random ones [N, C, H, A]."""
        chosen = []
        for number, arm in enumerate(("learned", "oracle")):
            plans = self._decisions.plans.copy()
            others = [i for i, row in enumerate(self._decisions.rows) if row.arm != number]
            if others:
                plans[others] = self._planned(arm, np.array(others))
            chosen.append(plans[:, None])
        rngs = self._decisions.streams(self._seed, _RANDOM)
        random = self._task.actions.sample(rngs, (_CANDIDATES, self._planner.horizon))
        return np.concatenate([*chosen, random], axis=1)

    def _planned(self, arm: str, rows: IntArray) -> FloatArray:
        """Return what an arm's planner chooses [M, H, A] at some decisions of the other arm."""
        decisions, imagination = self._decisions, self._ask(arm)
        rngs = decisions.streams(self._seed, _PLANS)
        draws = decisions.streams(self._seed, _PLANNED_NOISE)
        noise = [draws[row] for row in rows]
        imagination.plans_for(decisions.episodes[rows], decisions.at[rows], noise)
        # It was never there before.
        is_warm_started = getattr(self._planner, "is_warm_started", False)
        memory: dict[str, Any] = {"memory": None} if is_warm_started else {}
        is_known = arm == "learned"
        found = self._planner.plan(
            imagination,
            decisions.latents[rows] if is_known else imagination.encode(decisions.states[rows]),
            [rngs[row] for row in rows],
            self._remaining[rows],
            **memory,
        )
        return Plans(*found).actions

    def _rolled(self, model: Imagination, latents: FloatArray, plans: FloatArray) -> FloatArray:
        """Imagine plans [N, C, H, A] from latents [N, Z]: latents [N, C, H, Z]."""
        flat = plans.reshape(-1, *plans.shape[2:])
        imagined = model.rollout(np.repeat(latents, plans.shape[1], axis=0), flat)
        return _stacked(imagined, len(latents))

    def _scored(self, latents: FloatArray) -> FloatArray:
        """Rate latents [N, C, H, Z] as the model is planned with; what is unknown is infinite."""
        is_known = _are_numbers(latents)
        known = np.where(is_known[..., None], latents, 0.0)
        scores = self._imagination.score(known.reshape(-1, *known.shape[2:]))
        return np.where(is_known, scores.reshape(is_known.shape), np.inf)

    def _within(self, scores: FloatArray) -> FloatArray:
        """Leave steps past the budget out."""
        steps = np.arange(scores.shape[-1])
        return np.where(steps < self._remaining[:, None, None], scores, np.inf)

    def _followed(self, states: FloatArray, latents: FloatArray, plans: FloatArray) -> FloatArray:
        """Follow plans [N, C, H, A] in truth from states [N, S] that the model knows as [N, Z].

        Returns the witness's latents [N, C, H, S + Z]: from where a state is no number, the
        model's part is none either.
        """
        both = np.concatenate([states, latents], axis=1)
        return self._rolled(self._witness, both, plans)

    def _parted(self, followed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what is true [..., S], and what the model makes of it."""
        size = self._decisions.states.shape[1]
        # Simulators take whole rows.
        truth = np.ascontiguousarray(followed[..., :size])
        if self._observe is None:
            return truth, self._bound["learned"].described(followed[..., size:])
        observed = self._task.observe(truth)
        return truth, np.where(_are_numbers(observed)[..., None], observed, np.nan)

    def _described(self, latents: FloatArray) -> FloatArray:
        """Return what latents [..., H, Z] say of the world, in what lengths are measured in."""
        if self._observe is None:
            return self._bound["learned"].described(latents)
        seen = self._observe(latents.reshape(-1, *latents.shape[-2:]))
        return seen.reshape(*latents.shape[:-1], -1)

    def _probed(self, plans: FloatArray, scale: FloatArray) -> _Probes:
        """Try one step from places that plans lead through."""
        walked, known = self._walked(plans[:, :_WALKED])
        count, candidates, horizon, size = walked.shape
        rngs = self._decisions.streams(self._seed, _PROBES)
        within = np.minimum(self._remaining, horizon)
        places = np.stack(
            [
                rng.integers(candidates, size=_PLACES) * horizon + rng.integers(until, size=_PLACES)
                for rng, until in zip(rngs, within, strict=True)
            ]
        )

        def at_places(rows: FloatArray) -> FloatArray:
            flat = rows.reshape(count, candidates * horizon, -1)
            return np.take_along_axis(flat, places[..., None], axis=1)

        # The place of the decision itself is one of them, and stands for those that are lost.
        states = at_places(walked)
        is_kept = (_are_numbers(self._task.observe(states)) & (np.arange(_PLACES) > 0))[..., None]
        states = np.where(is_kept, states, self._decisions.states[:, None])
        if known is None:
            latents = self._imagination.encode(states.reshape(-1, size))
        else:
            latents = np.where(is_kept, at_places(known), self._decisions.latents[:, None])
        actions = _tried(self._task, rngs)
        plans = actions.reshape(count * _PLACES, -1, 1, actions.shape[-1])
        rows = states.reshape(-1, size), latents.reshape(count * _PLACES, -1)
        predicted = self._rolled(self._imagination, rows[1], plans)
        _, true = self._parted(self._followed(*rows, plans))
        shape = (count, _PLACES, actions.shape[2], -1)
        return _Probes.of(
            states,
            self._described(predicted).reshape(shape) / scale,
            true.reshape(shape) / scale,
        )

    def _walked(self, plans: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the states [N, C, H, S] along plans [N, C, H, A], fit to go on from.

        And what a model with memory knows of them [N, C, H, Z], None for another.
        """
        count, candidates, horizon, size = plans.shape
        begun = states = np.repeat(self._decisions.states, candidates, axis=0)
        latents = np.repeat(self._decisions.latents, candidates, axis=0)
        walked, known = [], []
        for step in range(horizon):
            actions = plans[:, :, step].reshape(-1, size)
            # A rollout would be faster, and leave out what only a step reads.
            states = self._task.step(states, actions)
            walked.append(states)
            if self._imagination.is_recurrent:
                is_known = _are_numbers(self._task.observe(states))[:, None]
                # A model is not asked about states that are no numbers.
                there = np.where(is_known, states, begun)
                latents = self._imagination.update(latents, actions, there)
                known.append(latents)

        def stacked(rows: list[FloatArray]) -> FloatArray:
            return np.stack(rows, axis=1).reshape(count, candidates, horizon, -1)

        return stacked(walked), stacked(known) if known else None


class _Probes(NamedTuple):
    """Single steps from states [N, J, S]; see `Evidence`."""

    states: FloatArray
    errors: FloatArray
    spreads: FloatArray
    gains: FloatArray

    @classmethod
    def of(cls, states: FloatArray, predicted: FloatArray, true: FloatArray) -> _Probes:
        """Compare answers [N, J, A, Z] to the same actions."""
        answered, effect = (x - x.mean(axis=2, keepdims=True) for x in (predicted, true))
        power = (effect**2).sum(axis=(2, 3))
        gains = np.full(power.shape, np.nan)
        np.divide((answered * effect).sum(axis=(2, 3)), power, out=gains, where=power > 0)
        errors, spreads = (
            np.sqrt((x**2).sum(axis=3).mean(axis=2)) for x in (predicted - true, effect)
        )
        return cls(states, errors, spreads, gains)


def _tried(task: Task, rngs: Sequence[np.random.Generator]) -> FloatArray:
    """Return actions to try at every place [N, J, A', A]: all of a small set, or random ones."""
    actions = task.actions
    if isinstance(actions, FiniteActions) and len(actions.values) <= _ACTIONS:
        shape = (len(rngs), _PLACES, *actions.values.shape)
        return np.broadcast_to(actions.values, shape)
    return actions.sample(rngs, (_PLACES, _ACTIONS))


def _stacked(rows: FloatArray, count: int) -> FloatArray:
    return rows.reshape(count, -1, *rows.shape[1:])


def _scale(latents: FloatArray) -> FloatArray:
    """Return the unit of each dimension [Z]; one that never changes is infinitely long."""
    known = latents.reshape(-1, latents.shape[-1])
    known = known[_are_numbers(known)]
    deviations = known.std(axis=0) if len(known) else np.zeros(latents.shape[-1])
    # Rounding alone makes a constant differ by a few parts in 1e16.
    negligible = 1e-9 * np.abs(known).max(axis=0, initial=0.0)
    return np.where(deviations > negligible, deviations, np.inf)


def _are_numbers(rows: FloatArray) -> BoolArray:
    return np.asarray(np.isfinite(rows).all(axis=-1))


def _length(differences: FloatArray, scale: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(((differences / scale) ** 2).sum(axis=-1)))


def _spread(latents: FloatArray, scale: FloatArray) -> FloatArray:
    """Return how far plans [N, K, H, Z] lie apart after each step [N, H]; nan where one is lost."""
    differences = latents - latents.mean(axis=1, keepdims=True)
    return np.asarray(np.sqrt((_length(differences, scale) ** 2).mean(axis=1)))
