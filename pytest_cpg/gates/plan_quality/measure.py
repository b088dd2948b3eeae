"""Measuring: episodes are planned with a model, and all their plans are scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    CpgError,
    FloatArray,
    IntArray,
    Plans,
    Task,
    WorldModelError,
)
from pytest_cpg.episodes import probe
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.decisions import Decision, Decisions, evenly
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.stage import Progress
from pytest_cpg.gates.choices import as_trained
from pytest_cpg.gates.kind import Run, TaskChoice
from pytest_cpg.gates.plan_quality.result import (
    Counts,
    Criteria,
    Pairs,
    Place,
    PlanQualityResult,
    Scores,
)
from pytest_cpg.gates.plan_quality.scoring import Standings, standings_of
from pytest_cpg.stats import Interval
from pytest_cpg.world_models import BoundModel, OracleDynamics, inference

_MOST_PLACES = 10
# Of an episode, evenly from its first to its last.
_MOST_DECISIONS = 10
_DIFFERS = (
    "the true dynamics stand for the model, and plans are worth more or less in it than in truth"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a test asks for; ``design`` returns the episodes to run, of the task once built."""

    task: TaskChoice
    design: Callable[[Task], Design]
    criteria: Criteria


def measure_plans(spec: Spec, model: Any, run: Run) -> PlanQualityResult:
    """Run the episodes of a model, and score some decisions of each in the model and in truth.

    Raises CpgError when the model breaks its contract, or cannot be asked about other plans.
    """
    design, criteria = as_trained(spec.design(run.task(spec.task)), model), spec.criteria
    oracle = run.given["oracle_dynamics"]
    if isinstance(model, OracleDynamics) and not criteria.is_aa:
        raise WorldModelError(
            "the model given is the true dynamics, so that no model would be judged. Give your "
            'model; for the A/A check write model="oracle".'
        )
    with inference(oracle, model):
        starts, bound = probe.bound_arms(design, oracle=oracle, learned=model)
        learned = bound["learned"]
        if learned.planner is not None:
            raise CpgError(
                "a model that plans itself (plan) chooses by more than its rating of plans, and "
                "cpg_plan_quality scores by that rating. Leave plan out of the model, and name a "
                'planner: planner="cem".'
            )
        with probe.unchanged("the learned model", learned, design, starts):
            decided, standings = _scored(
                design, criteria, bound, starts, partial(run.progress, "planning"), run.progress
            )
            # What a few episodes do not show, the whole gate may.
            is_blind = not criteria.is_smoke and probe.ignores_action(
                learned, design, starts, decided.arm
            )
    if is_blind:
        learned = replace(learned, ignores_action=True)
    differs = criteria.is_aa and not np.array_equal(
        standings.imagined.scores, standings.true.scores
    )
    return result_of(
        design,
        criteria,
        decided,
        standings,
        faults=(*probe.faults_of(learned), *((_DIFFERS,) if differs else ())),
        seconds=run.seconds,
    )


def exploitation_of(
    design: Design,
    episodes: tuple[int, ...],
    *,
    oracle: Any,
    learned: Any,
    progress: Callable[..., None],
) -> Interval | None:
    """Return how much plans of some episodes, run again, score in the model beyond that in truth.

    None where nothing can be compared, and where it was broken off: as of a diagnosis, the verdict
    stands whatever the model or the planner does here, or its time is over.
    """
    criteria = Criteria(level=design.level)
    try:
        with inference(oracle, learned):
            starts, bound = probe.bound_arms(design, oracle=oracle, learned=learned)
            chosen = starts.take(np.array(episodes))
            again = partial(progress, "planning again")
            decided, standings = _scored(design, criteria, bound, chosen, again, progress)
    # A model may raise anything.
    except Exception:
        return None
    return result_of(design, criteria, decided, standings).exploitation


def _scored(
    design: Design,
    criteria: Criteria,
    bound: Mapping[str, BoundModel],
    starts: Starts,
    planning: Callable[..., None],
    progress: Callable[..., None],
) -> tuple[Decided, Standings]:
    """Run the episodes of the learned model, and score some decisions of each in both worlds."""
    decided = decide(
        design, bound["learned"], starts, progress=lambda stage: planning(*stage)
    ).sampled()
    standings = standings_of(
        design,
        bound,
        decided.decisions,
        decided.plans,
        k=criteria.k,
        search=criteria.neighbours,
        progress=progress,
    )
    return decided, standings


def result_of(
    design: Design,
    criteria: Criteria,
    decided: Decided,
    standings: Standings,
    *,
    faults: tuple[str, ...] = (),
    seconds: float = 0.0,
) -> PlanQualityResult:
    """Return what the standings of all that was decided come to."""
    decisions, (imagined, true, random) = decided.decisions, standings
    episodes, matters = decisions.episodes, ~true.flat
    in_both = matters & ~imagined.flat
    return PlanQualityResult(
        design=design.record,
        seed=int(design.seed),
        episodes=design.episodes,
        criteria=criteria,
        worlds=Pairs(*_by_episode(episodes, in_both, imagined.scores, true.scores)),
        truth=Scores(*_by_episode(episodes, matters, true.scores)),
        chance=Pairs(*_by_episode(episodes, matters & ~random.flat, true.scores, random.scores)),
        counts=Counts(
            decisions=len(episodes),
            flat_imagined=int(imagined.flat.sum()),
            flat_true=int(true.flat.sum()),
            beats_imagined=int(imagined.beats_all.sum()),
            beats_true=int(true.beats_all.sum()),
        ),
        regret=float(true.regrets.mean()),
        worst=_worst(decisions.rows, in_both, standings),
        solved=decided.arm.success_count,
        faults=faults,
        seconds=seconds,
    )


def _by_episode(episodes: IntArray, counts: BoolArray, *scores: FloatArray) -> list[Any]:
    """Return the episodes [E] of which decisions count, and the mean of their scores in each.

    To six digits: a report has many of them.
    """
    scored = np.unique(episodes[counts])
    rows = [counts & (episodes == episode) for episode in scored]
    means = [[round(float(part[of].mean()), 6) for of in rows] for part in scores]
    return [scored, *(np.array(part, dtype=np.float64) for part in means)]


def _worst(
    rows: tuple[Decision, ...], matters: BoolArray, standings: Standings
) -> tuple[Place, ...]:
    imagined, (true, regrets, *_) = standings.imagined.scores, standings.true
    # Of equal ones the earlier episode, whatever was planned together.
    order = sorted(
        np.flatnonzero(matters & (imagined > true)),
        key=lambda row: (true[row] - imagined[row], -regrets[row], rows[row].episode, rows[row].at),
    )
    return tuple(
        Place(
            episode=rows[row].episode,
            at=rows[row].at,
            imagined=round(float(imagined[row]), 6),
            true=round(float(true[row]), 6),
            regret=float(f"{regrets[row]:.6g}"),
        )
        for row in order[:_MOST_PLACES]
    )


class Decided(NamedTuple):
    """Decisions of an arm, the plans [N, H, A] that were chosen, and what became of it."""

    decisions: Decisions
    plans: FloatArray
    arm: Arm

    def sampled(self) -> Decided:
        """Return up to ten decisions of each episode, from its first to its last."""
        episodes, at = self.decisions.episodes, self.decisions.at
        of_each = (np.flatnonzero(episodes == episode) for episode in np.unique(episodes))
        rows = [evenly(rows[np.argsort(at[rows])], _MOST_DECISIONS) for rows in of_each]
        chosen = np.concatenate(rows)
        return Decided(self.decisions.take(chosen), self.plans[chosen], self.arm)


def decide(design: Design, learned: BoundModel, starts: Starts, *, progress: Progress) -> Decided:
    """Run the episodes of a learned model, and return all that was decided in them.

    ``progress`` is told what an `ArmRun` tells.
    """
    taken = np.zeros(len(starts.episodes), dtype=np.int64)
    rows: list[Decision] = []
    arrays: list[tuple[FloatArray, ...]] = []

    def note(episodes: IntArray, chosen: Plans) -> None:
        places = np.searchsorted(starts.episodes, episodes)
        begun = zip(episodes.tolist(), taken[places].tolist(), strict=True)
        rows.extend(Decision(episode, 0, at) for episode, at in begun)
        arrays.append((run.states[places], run.latents[places], chosen.actions.copy()))
        taken[places] += chosen.lengths

    run = ArmRun("learned", design, learned, starts, progress=progress, on_plan=note)
    arm = run.advance(len(starts.episodes))
    states, latents, plans = map(np.concatenate, zip(*arrays, strict=True))
    return Decided(Decisions(rows=tuple(rows), states=states, latents=latents), plans, arm)
