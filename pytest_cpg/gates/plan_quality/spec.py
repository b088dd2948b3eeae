"""Specification: what a marker asks of plans, checked and complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
MOST_EXPLOITATION = 0.5
"""Of a limit: models that know nothing have more, see docs/plan-quality.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What plans are judged by: the marker's arguments.

    Attributes
    ----------
    level : float
        Coverage of the intervals, in (0, 1), corrected for the family.
    has_goal : bool
        Whether anything tells when an episode has succeeded.
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
    has_goal: bool = True
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
        has_goal=has_goal(values),
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


def has_goal(values: Mapping[str, Any]) -> bool:
    """Say whether anything tells when an episode has succeeded: of environments, the marker."""
    is_environment = isinstance(values["task"], str) and values["task"].startswith("gym:")
    return not is_environment or (
        values["threshold"] is not None or values["least_return"] is not None
    )


def _check_can_fail(asked: Asked, criteria: Criteria) -> None:
    """Refuse limits that no model misses, and episodes whose worst scores would miss none."""
    episodes = asked.values["episodes"]
    most, least = criteria.max_exploitation, criteria.min_score
    if most > MOST_EXPLOITATION:
        raise ValueError(
            f"max_exploitation={most:g} is a limit that hardly any model misses: random plans "
            f"score 0.1 to 0.5 in truth, so that a model that knows nothing has an exploitation of "
            f"0.5 to 0.9. Write max_exploitation=0.1, and at most {MOST_EXPLOITATION:g}."
        )
    fewest = next(few for few in count(FEWEST_EPISODES) if worst_exploitation(few, criteria) > most)
    if episodes < fewest:
        raise ValueError(
            f"a gate of {episodes} episode{'s'[: episodes != 1]} can never miss max_exploitation="
            f"{most:g} at confidence {criteria.level:.10g}, whatever the model does. Write "
            f"{asked.written('episodes', max(50, fewest))} ({fewest} is the least that can)."
        )
    lowest = 1 - worst_exploitation(episodes, criteria)
    if least is not None and least <= lowest:
        raise ValueError(
            f"{episodes} episodes can never miss min_score={least:g}, as scores of 0 leave up to "
            f"{lowest:.3f} possible. Write min_score={min(0.99, lowest + 0.1):.2f}, or "
            f"{asked.written('episodes', max(50, 2 * episodes))}."
        )


def worst_exploitation(episodes: int, criteria: Criteria) -> float:
    """Return the lower end of an exploitation that is 1 in each of so many episodes."""
    # Of `mean_interval`, as an episode of 0 may be unseen.
    return float(((1 - criteria.level) / 2) ** (1 / episodes))
