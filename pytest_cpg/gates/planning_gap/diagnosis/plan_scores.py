"""Plan scores: what a learned model and the truth make of the same plans at the same decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray
from pytest_cpg.contracts.streams import Purpose
from pytest_cpg.contracts.task import observed
from pytest_cpg.episodes.decisions import Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.gates.planning_gap.diagnosis import evidence
from pytest_cpg.gates.planning_gap.diagnosis.one_step import one_step_of
from pytest_cpg.planners.search import objective_of
from pytest_cpg.world_models import BoundModel, OracleDynamics

# Random plans of each decision; Kendall's tau of one decision then has a deviation of 0.15.
_CANDIDATES = 24


def evidence_of(
    design: Design,
    bound: Mapping[str, BoundModel],
    decisions: Decisions,
    *,
    trained: evidence.TrainingStates | str,
    lost: Sequence[int],
    progress: Callable[[int], None] = lambda _: None,
) -> evidence.Evidence:
    """Return what the models ``"learned"`` and ``"oracle"`` answer at these decisions.

    ``"rescored"`` is the first one's witness, and ``"afresh"`` that without memory, where it has
    one; ``trained`` are the observations of the training data, or why they are not known; ``lost``
    episodes are those of the learned model alone; ``progress`` is told how many are done.
    """
    learned, answers = bound["learned"], []
    size = decisions.states.shape[1] + decisions.latents.shape[1] + learned.noise_size
    for rows in decisions.parts(
        (evidence.FIRST_RANDOM + _CANDIDATES) * design.planner.horizon * size
    ):
        answers.append(PlanScores(design, bound, decisions.take(rows)).answers(trained))
        progress(int(rows[-1]) + 1)
    unknown = ("drawn", "rescored", "observed", "afresh", "distances")
    parts: dict[str, Any] = dict.fromkeys(unknown)
    parts |= {name: np.concatenate([part[name] for part in answers]) for name in answers[0]}
    imagined, remaining = parts.pop("imagined"), design.task.budget - decisions.at
    coverage: evidence.Coverage | str = trained if isinstance(trained, str) else ""
    if not isinstance(trained, str):
        # What is visited, and what chosen plans are imagined to lead through: only where the model
        # gives nothing but dynamics are latents observations.
        planned, episodes = [observed(design.task, decisions.states)], [decisions.episodes]
        if learned.swapped == ("dynamics",):
            is_within = np.arange(imagined.shape[1]) < remaining[:, None]
            planned.append(imagined[is_within])
            episodes.append(np.repeat(decisions.episodes, is_within.sum(axis=1)))
        coverage = trained.coverage(np.concatenate(planned), np.concatenate(episodes))
    memory: evidence.Memory = "none"
    if learned.update is not None:
        memory = "opaque" if learned.observe is None else "decoded"
    return evidence.Evidence(
        **parts,
        objective=objective_of(design.planner),
        remaining=remaining,
        memory=memory,
        episodes=decisions.episodes,
        lost=np.array(lost, dtype=np.intp),
        coverage=coverage,
        one_step=one_step_of(design, learned, decisions, trained=trained),
    )


class PlanScores:
    """What is asked of the model and of the truth at some decisions, all at once."""

    def __init__(
        self, design: Design, bound: Mapping[str, BoundModel], decisions: Decisions
    ) -> None:
        self._design, self._task, self._bound = design, design.task, bound
        self._decisions, self._remaining = decisions, design.task.budget - decisions.at
        self._imagination = self._ask("learned")

    def answers(self, trained: evidence.TrainingStates | str) -> dict[str, FloatArray]:
        """Return some fields of `Evidence`, and the learned arm's ``"imagined"`` [N, H, Z]."""
        model, plans, latents = self._bound["learned"], self._candidates(), self._decisions.latents
        witness, size = self._ask("rescored"), self._decisions.states.shape[1]
        begun = np.concatenate([self._decisions.states, latents], axis=1)
        followed = _rolled(witness, begun, plans)
        # Simulators take whole rows.
        truth = np.ascontiguousarray(followed[..., :size])
        imagined = _rolled(self._imagination, latents, plans)
        moves = (plans != self._task.actions.idle).any(axis=-1)
        windows = np.arange(0, plans.shape[2], evidence.WINDOW)
        answers = {
            "actual": self._within(OracleDynamics(self._task).score(truth)),
            "is_idle": ~np.logical_or.reduceat(moves, windows, axis=2),
            # A view would keep all of them.
            "imagined": imagined[:, evidence.LEARNED].copy(),
        }
        # As it plans, and as the task rates what it decodes.
        rated: dict[str, Callable[[FloatArray], FloatArray]] = {
            "resumed": lambda latents: _rated(latents, self._imagination.score)
        }
        if model.observe and model.rates and "decoder" not in model.swapped:
            rated["observed"] = self._seen
        scores: dict[str, list[FloatArray]] = {name: [] for name in rated}
        for reached in chain([imagined], self._resumed(followed[..., size:], plans)):
            for name, rate in rated.items():
                scores[name].append(self._within(rate(reached), horizon=plans.shape[2]))
        answers |= {name: np.stack(parts, axis=1) for name, parts in scores.items()}
        if model.noise_size:
            # As the planner sees them.
            drawn = _rolled(self._ask("learned", Purpose.NOISE_OF_SCORES), latents, plans)
            answers["drawn"] = self._within(rated["resumed"](drawn))
        # What is decoded of a memory tells what it remembers, and not how that is rated.
        if model.rates and not (model.update and model.swapped[1:] == ("decoder",)):
            answers["rescored"] = self._within(_scored(witness, followed))
        if "afresh" in self._bound and "observed" in rated:
            afresh = self._ask("afresh")
            anew = _rolled(afresh, afresh.encode(self._decisions.states), plans)
            both = (_scored(afresh, anew), self._seen(anew[..., size:]))
            answers["afresh"] = np.stack([self._within(part) for part in both], axis=1)
        if not isinstance(trained, str):
            answers["distances"] = self._distances(trained, truth[:, evidence.CHOSEN])
        return answers

    def _resumed(self, truth: FloatArray, plans: FloatArray) -> Iterator[FloatArray]:
        """Yield what is left of plans [N, C, H', Z], resumed from the truth; nan where lost."""
        for done in range(evidence.WINDOW, plans.shape[2], evidence.WINDOW):
            begun = truth[:, :, done - 1]
            is_known = _are_numbers(begun)[..., None]
            # A model is not asked about states that are no numbers.
            begun = np.where(is_known, begun, self._decisions.latents[:, None])
            rest = plans[:, :, done:]
            reached = self._imagination.rollout(
                begun.reshape(-1, begun.shape[2]), rest.reshape(-1, *rest.shape[2:])
            )
            yield np.where(is_known[..., None], reached.reshape(*rest.shape[:3], -1), np.nan)

    def _distances(self, trained: evidence.TrainingStates, truth: FloatArray) -> FloatArray:
        """Return how far plans [N, C, H, S] lead from the training data in each window."""
        seen = observed(self._task, truth)
        is_known = _are_numbers(seen)
        begun = observed(self._task, self._decisions.states)[:, None, None]
        distances = trained.distances(np.where(is_known[..., None], seen, begun))
        distances = np.where(is_known, distances, np.inf)
        begins = np.arange(0, truth.shape[2], evidence.WINDOW)
        return np.asarray(np.maximum.reduceat(distances, begins, axis=2))

    def _ask(self, arm: str, noise: Purpose | None = None) -> Imagination:
        """Return a world to ask about all decisions, with noise from a stream of each or none."""
        decisions = self._decisions
        imagination = Imagination(arm, self._task.actions, self._bound[arm])
        streams = () if noise is None else decisions.streams(self._design.seed, noise)
        imagination.plans_for(decisions.episodes, decisions.at, streams)
        return imagination

    def _candidates(self) -> FloatArray:
        """Return the plans of both arms' planners and random ones [N, C, H, A]."""
        chosen = [
            self._decisions.planned(self._design, arm, self._bound[arm])[:, None]
            for arm in ("learned", "oracle")
        ]
        rngs = self._decisions.streams(self._design.seed, Purpose.CANDIDATES)
        random = self._task.actions.sample(rngs, (_CANDIDATES, self._design.planner.horizon))
        return np.concatenate([*chosen, random], axis=1)

    def _seen(self, latents: FloatArray) -> FloatArray:
        observe: Any = self._imagination.observe
        return _rated(latents, lambda finite: self._task.score(observe(finite)))

    def _within(self, scores: FloatArray, *, horizon: int | None = None) -> FloatArray:
        """Leave steps past the budget out, and fill up to the horizon before the first ones."""
        missing = 0 if horizon is None else horizon - scores.shape[2]
        whole = np.pad(scores, ((0, 0), (0, 0), (missing, 0)), constant_values=np.inf)
        steps = np.arange(whole.shape[2])
        return np.where(steps < self._remaining[:, None, None], whole, np.inf)


def _rolled(model: Imagination, latents: FloatArray, plans: FloatArray) -> FloatArray:
    """Imagine plans [N, C, H, A] from latents [N, Z]: latents [N, C, H, Z]."""
    flat = plans.reshape(-1, *plans.shape[2:])
    imagined = model.rollout(np.repeat(latents, plans.shape[1], axis=0), flat)
    return imagined.reshape(len(latents), -1, *imagined.shape[1:])


def _scored(model: Imagination, latents: FloatArray) -> FloatArray:
    """Rate latents [N, C, H, Z] as a model does: [N, C, H]."""
    return model.score(latents.reshape(-1, *latents.shape[2:])).reshape(latents.shape[:-1])


def _are_numbers(rows: FloatArray) -> BoolArray:
    return np.asarray(np.isfinite(rows).all(axis=-1))


def _rated(latents: FloatArray, score: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Rate latents [N, C, H, Z] by what rates [B, H, Z]; what is unknown is infinite."""
    is_known = _are_numbers(latents)
    finite = np.where(is_known[..., None], latents, 0.0)
    scores = score(finite.reshape(-1, *finite.shape[2:]))
    return np.where(is_known, scores.reshape(is_known.shape), np.inf)
