"""Specification: what a marker asks of plans, checked and complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from pytest_cpg.contracts import Task
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.as_trained import as_trained
from pytest_cpg.gates.choices import task_and_planner
from pytest_cpg.gates.kind import Asked, TaskChoice
from pytest_cpg.gates.plan_quality.search import Search
from pytest_cpg.gates.presets import completed
from pytest_cpg.world_models import AA_MODEL

# The fewest that have an interval.
FEWEST_EPISODES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What plans are judged by: the marker's arguments.

    Attributes
    ----------
    level : float
        Coverage of the intervals, in (0, 1), corrected for the family.
    is_aa : bool
        Whether the true dynamics stand for the model, so that none is judged.
    is_smoke : bool
        Whether only to show that everything runs.
    """

    k: int = 24
    neighbours: Search = "random"
    max_exploitation: float = 0.1
    min_score: float | None = None
    level: float = 0.95
    family_size: int = 1
    is_aa: bool = False
    is_smoke: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a test asks for.

    Attributes
    ----------
    design : callable
        Returns the episodes that are run, of the task once it is built.
    """

    task: TaskChoice
    design: Callable[[Task], Design]
    criteria: Criteria

    def planned(self, task: Task, model: Any) -> Design:
        """Return the episodes, planned as the model says where that is left to it."""
        return as_trained(self.design(task), model)


def spec_of(asked: Asked) -> Spec:
    """Return what a test asks for.

    Raises ValueError or ComponentError, naming the value and what to type instead.
    """
    values = completed(dict(asked.values))
    task, planner = task_and_planner(values, asked.components)
    episodes = FEWEST_EPISODES if asked.is_smoke else values["episodes"]
    criteria = Criteria(
        k=values["k"],
        neighbours=values["neighbours"],
        max_exploitation=values["max_exploitation"],
        min_score=values["min_score"],
        level=asked.shared(values["confidence"]),
        family_size=asked.family_size,
        is_aa=values["model"] == AA_MODEL,
        is_smoke=asked.is_smoke,
    )
    if not asked.is_smoke:
        _check_can_fail(asked, criteria)
    shared = partial(
        Design,
        planner=planner,
        episodes=episodes,
        seed=values["seed"],
        starts=values["starts"],
        level=values["confidence"],
    )
    return Spec(
        task=task,
        design=lambda built: shared(task=built),
        criteria=criteria,
    )


def _check_can_fail(asked: Asked, criteria: Criteria) -> None:
    """Refuse episodes whose worst scores would leave all criteria open."""
    episodes = asked.values["episodes"]
    least = next(few for few in count(FEWEST_EPISODES) if can_fail(few, criteria))
    if episodes < least:
        raise ValueError(
            f"a gate of {episodes} episode{'s'[: episodes != 1]} can never fail at confidence "
            f"{criteria.level:.10g}, whatever the model does. Write "
            f"{asked.written('episodes', max(50, least))} ({least} is the least that can fail)."
        )


def can_fail(episodes: int, criteria: Criteria) -> bool:
    """Say whether any scores of so many episodes would miss a criterion."""
    # The lower end of `mean_interval` where every score is 1, and 0 may be unseen.
    end = float(((1 - criteria.level) / 2) ** (1 / episodes))
    is_exploited, is_below_chance = end > criteria.max_exploitation, end >= 0.5
    return is_exploited or is_below_chance or 1 - end < (criteria.min_score or 0.0)
