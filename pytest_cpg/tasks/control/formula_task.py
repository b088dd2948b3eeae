"""Formula task: one of the DeepMind Control suite, with exact batched physics.

dm_control compiles the model and samples the starts; `Simulator` advances them, and `Formulas` says
what is observed and rewarded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    BoxActions,
    FiniteActions,
    FloatArray,
    IntArray,
)
from pytest_cpg.machine.processors import own_share
from pytest_cpg.tasks.control.formulas import BOX, LEVELS, TITLES, Formulas, formulas_of
from pytest_cpg.tasks.control.repeats import Repeats
from pytest_cpg.tasks.control.suite import LARGEST_REWARD, Suite, rebuilt, suite_versions
from pytest_cpg.tasks.options import BUDGET, OPTIONS, TaskOptions
from pytest_cpg.tasks.pictures import Frames, draw_control

if TYPE_CHECKING:
    from pytest_cpg.tasks.control.simulator import Simulator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlTask:
    """A task of the DeepMind Control suite; see `Task`.

    Attributes
    ----------
    name : str
        What is not as the task has it by itself is added in parentheses.
    actions : ActionSpace
        May be given as one of the words of `TaskOptions`, as which the others are.
    budget, action_repeat, threshold, least_return
        What is known of repeated control steps stands in the last columns of the state. A threshold
        of None is that of the formulas.
    """

    simulator: Simulator = field(repr=False)
    suite: Suite = field(repr=False)
    formulas: Formulas = field(repr=False)
    name: str
    actions: ActionSpace
    budget: int = BUDGET
    action_repeat: int = 1
    threshold: float | None = None
    least_return: float | None = None
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        space = self._space(self.actions)
        options = TaskOptions.of(self, actions=BOX if isinstance(space, BoxActions) else LEVELS)
        options.check(largest_reward=LARGEST_REWARD)
        usual = TaskOptions(
            actions=BOX if self.name.startswith("dmc:") else self.formulas.usual_actions,
            action_repeat=1,
            threshold=self.formulas.threshold,
        )
        object.__setattr__(self, "actions", space)
        object.__setattr__(self, "name", options.named(self.name, usual=usual))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what the task is built from; a simulator is large, and belongs to its process."""
        if self.cache_key is None:
            raise TypeError(f"{self.name} has formulas of its own, and cannot be built elsewhere")
        fields = {name: getattr(self, name) for name in ("name", *OPTIONS)}
        return rebuilt, (
            control_task,
            (self.formulas.title,),
            self.cache_key,
            dict(self.versions),
            fields,
        )

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's; None where the formulas are not ours.

        Starts are not in it: stored arms know theirs.
        """
        title = self.formulas.title
        if title not in TITLES or self.formulas is not formulas_of(title):
            return None
        return f"{self.formulas.domain} {self.formulas.name} {self.simulator.model_digest()}"

    @property
    def observation_size(self) -> int:
        """Numbers in one observation, ``O``."""
        return len(self.formulas.observed)

    @property
    def observed(self) -> Sequence[str]:
        """What each number of an observation is, with its unit."""
        return self.formulas.observed

    @property
    def measured(self) -> IntArray:
        """Columns of a state that noise may be added to: positions and velocities."""
        return self.simulator.measured

    def with_physics(self, **scales: float) -> ControlTask:
        """Return the task with mass, friction or gravity times a factor, and the same starts."""
        return replace(self, simulator=self.simulator.scaled(**scales))

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step."""
        return self.suite.control_period * self.action_repeat

    @property
    def observation_keys(self) -> dict[str, int]:
        """How many numbers each observation has, in the order of dm_control's dict."""
        return self.suite.observation_keys()

    def reset(self, seeds: IntArray) -> FloatArray:
        """Sample the suite's own start of each seed [N], in [0, 2**32): states [N, S]."""

        def read(physics: Any) -> FloatArray:
            state = self.simulator.snapshot(physics.model.ptr, physics.data.ptr)
            return np.concatenate([state, self.formulas.context(physics)])

        return self._repeats.begin(self.suite.starts(seeds, read))

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        return self._repeats.step(self.simulator.step, states, actions)

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        return self._repeats.rollout(self.simulator.rollout, states, actions)

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O], in the order of dm_control's dict."""
        return self.formulas.observe(self._repeats.inner(states))

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by distance to the goal [...]; lower is better."""
        return self.formulas.score(observations)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give dm_control's reward [...] of steps that ended in states [..., S].

        It is in [0, 1] for one control step, and the sum over those of a task's step.
        """
        return self._repeats.reward_of(states, actions)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether the reward [...] of a control step reached the task's threshold."""
        return self._repeats.success(states, actions)

    def render(self, states: FloatArray) -> Frames:
        """Draw states [B, S] as the suite's first camera sees them: frames [B, H, W, 3]."""
        return draw_control(self.suite.model, self._repeats.inner(states))

    @property
    def _repeats(self) -> Repeats:
        threshold = self.formulas.threshold if self.threshold is None else self.threshold
        return Repeats(self.action_repeat, reward=self.formulas.reward, threshold=threshold)

    def _space(self, actions: Any) -> ActionSpace:
        """Return the actions that a word stands for, or the actions themselves."""
        if isinstance(actions, (FiniteActions, BoxActions)):
            return actions
        model = self.simulator.model
        if actions == LEVELS:
            return FiniteActions(np.array(list(product(self.formulas.levels, repeat=model.nu))))
        if actions == BOX:
            return BoxActions(*model.actuator_ctrlrange.T)
        raise ValueError(f'actions: need "levels" or "box", got {actions!r}')


def control_task(
    title: str, *, name: str = "", threads: int | None = None, **options: Any
) -> ControlTask:
    """Return a task of the suite that there are formulas for.

    Parameters
    ----------
    threads : int, optional
        Of the simulator; by default this process's share of the machine.
    options
        Fields of `TaskOptions`; actions are by default those that the formulas come with.
    """
    formulas = formulas_of(title)
    suite = Suite(formulas.domain, formulas.name)
    # Imported after the suite, whose errors say which extra is missing.
    from pytest_cpg.tasks.control.simulator import Simulator

    return ControlTask(
        name=name or title,
        versions=MappingProxyType(suite_versions()),
        formulas=formulas,
        simulator=Simulator(
            copy(_stripped_model(formulas.domain, formulas.name)),
            threads=own_share() if threads is None else threads,
            substeps=suite.substeps,
        ),
        suite=suite,
        **{"actions": formulas.usual_actions, **options},
    )


@cache
def _stripped_model(domain: str, name: str) -> Any:
    """Return a model without what is only seen; to find one takes a third of a second."""
    from pytest_cpg.tasks.control.simulator import strip_visuals

    suite = Suite(domain, name)
    return strip_visuals(suite.model, *suite.source())
