"""Options: what a task may be asked to do otherwise, checked, and told by its name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_cpg.contracts import FloatArray, TaskError, WorldModelError

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task, TaskFactory

# Steps of an episode, where nothing else is asked for.
BUDGET = 500
# Numbers of an observation in a message.
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What a marker may say of its task; None leaves it as the task has it."""

    # Steps after which an episode has failed.
    budget: int | None = None
    # ``"levels"``, a few levels of each actuator, or ``"box"``, all that the actuators can do.
    actions: Any = None
    # Steps of the simulator in one step of the task: rewards add up, and a step succeeds if any of
    # them does.
    action_repeat: int | None = None
    # Least reward of a step of the simulator that succeeds.
    threshold: float | None = None
    least_return: float | None = None

    @classmethod
    def of(cls, task: Any, *, actions: str | None = None) -> TaskOptions:
        """Return the options of a task, but for a word for its actions, which is given."""
        values: dict[str, Any] = {name: getattr(task, name, None) for name in OPTIONS}
        return cls(**{**values, "actions": actions})

    @property
    def given(self) -> dict[str, Any]:
        """Those that are not None, by name."""
        values = {name: getattr(self, name) for name in OPTIONS}
        return {name: value for name, value in values.items() if value is not None}

    def check(self, *, largest_reward: float = math.inf) -> None:
        """Raise ValueError for what no task can do; rewards of a simulator's step are bounded."""
        if self.budget is not None and self.budget < 1:
            raise ValueError(f"budget must be at least 1 step, got {self.budget!r}")
        if self.action_repeat is not None and self.action_repeat < 1:
            raise ValueError(f"action_repeat must be at least 1, got {self.action_repeat!r}")
        _check_number("threshold", self.threshold, "the least reward of a step that succeeds")
        if self.threshold is not None and self.threshold > largest_reward:
            raise ValueError(
                f"threshold={self.threshold:g} is never reached: the reward of a control step is "
                f"{largest_reward:g} at most, also where action_repeat adds them up. Give less, "
                f"such as threshold=0.6."
            )
        check_least_return(self.least_return)

    def named(self, name: str, *, usual: TaskOptions) -> str:
        """Return a task's name, with what differs from the usual in parentheses.

        What an earlier name says in parentheses is left out, and so is the budget.

        >>> TaskOptions(action_repeat=4).named("maze (threshold=1)", usual=TaskOptions())
        'maze (action_repeat=4)'
        """
        plain = name.partition(" (")[0]
        changes = [
            f"{key}={value if isinstance(value, str) else format(value, '.12g')}"
            for key, value in self.given.items()
            if key != "budget" and value != getattr(usual, key)
        ]
        return f"{plain} ({', '.join(changes)})" if changes else plain


OPTIONS = tuple(field.name for field in fields(TaskOptions))


def factory(make: Callable[..., Task], *names: str) -> TaskFactory:
    """Return a factory that knows some of `TaskOptions`; ``make`` gets those that are not None."""
    taken = Signature([Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in names])

    def made(**options: Any) -> Task:
        return make(**TaskOptions(**taken.bind(**options).arguments).given)

    described: Any = made
    described.__signature__ = taken
    return made


def check_least_return(least: Any) -> None:
    """Raise ValueError unless a goal for returns is None, or a number."""
    _check_number("least_return", least, "what the rewards of an episode have to add up to")


def _check_number(name: str, value: Any, meaning: str) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if value is not None and not is_number:
        raise ValueError(f"{name}: need a number, {meaning}, got {value!r}")


def check_score(score: Any) -> None:
    """Raise ValueError unless a score is None, or something to call."""
    if score is not None and not callable(score):
        raise ValueError(
            f"score: need a function of observations [..., O], lower is better, such as "
            f"score=lambda observations: abs(observations[..., 0]), got {score!r}"
        )


def rated(task: Any, observations: FloatArray, *, call: str, room: str) -> FloatArray:
    """Rate observations [..., O] by ``score_of``, which a user has given a task: [...].

    Raises WorldModelError when there is none; ``call`` and ``room`` say how one is given.
    """
    if task.score_of is None:
        raise WorldModelError(
            f"{task.name} is rated by its reward, which observations do not tell. Pass the task as "
            f"{call}, score=lambda observations: ...) from pytest_cpg.tasks.{room}, lower is "
            f"better; or give the model rollout(latents [B, Z], actions [B, H, A]) -> [B, H, Z], "
            f"and beside it score(latents [..., Z]) -> [...] or reward(latents, actions) -> [...]."
        )
    scores = np.asarray(task.score_of(observations), dtype=np.float64)
    if np.isnan(scores).any() and scores.shape == observations.shape[:-1]:
        # A diverged state has no score, nor any number.
        broken = np.isnan(scores) & np.isfinite(observations).all(axis=-1)
        if broken.any():
            row = ", ".join(f"{value:.4g}" for value in observations[broken][0][:_SHOWN])
            more = ", ..." * (observations.shape[-1] > _SHOWN)
            raise TaskError(
                f"{task.name}: its score= gives nan for an observation of numbers, [{row}{more}]. "
                f"Return a number for each, such as np.inf where nothing can be reached."
            )
    return scores
