"""Control: tasks of the DeepMind Control suite, with exact batched physics.

dm_control compiles the model and samples the starts; `Simulator` advances them, and `Formulas` says
what is observed and rewarded.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    ComponentError,
    FiniteActions,
    FloatArray,
    IntArray,
)
from pytest_cpg.machine.processors import own_share
from pytest_cpg.tasks.control.formulas import FORMULAS, Formulas
from pytest_cpg.tasks.control.repeats import Repeats
from pytest_cpg.tasks.control.suite import LARGEST_REWARD, Suite, suite_versions
from pytest_cpg.tasks.pictures import Frames, draw_control
from pytest_cpg.tasks.variants import check_least_return, check_threshold, titled

if TYPE_CHECKING:
    from pytest_cpg.tasks.control.simulator import Simulator

# Names that a task has for two sets of actions, see `ControlTask`.
LEVELS, BOX = "levels", "box"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlTask:
    """A task of the DeepMind Control suite; see `Task`.

    Attributes
    ----------
    simulator : Simulator
        The true dynamics.
    suite : Suite
        Where starts come from.
    formulas : Formulas
        What is observed and rewarded.
    name : str
        What is not as the task has it by itself is added in parentheses.
    actions : ActionSpace
        May be given as ``"levels"``, a few levels of each actuator, or ``"box"``, all that the
        actuators can do.
    budget : int
        Steps after which an episode has failed.
    action_repeat : int
        Control steps of the suite in one step of the task: rewards add up, and a step succeeds if
        any of them does. What is known of them stands in the last columns of the state.
    threshold : float or None
        Least reward of a control step that succeeds; None is that of the formulas.
    least_return : float or None
        As of `Task`.
    versions : mapping
        Of mujoco and dm-control.
    """

    simulator: Simulator = field(repr=False)
    suite: Suite = field(repr=False)
    formulas: Formulas = field(repr=False)
    name: str
    actions: ActionSpace
    budget: int
    action_repeat: int = 1
    threshold: float | None = None
    least_return: float | None = None
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise ValueError(f"budget must be at least 1 step, got {self.budget!r}")
        if self.action_repeat < 1:
            raise ValueError(f"action_repeat must be at least 1, got {self.action_repeat!r}")
        check_threshold(self.threshold, most=LARGEST_REWARD)
        check_least_return(self.least_return)
        object.__setattr__(self, "actions", self._space(self.actions))
        object.__setattr__(self, "name", self._title())

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what the task is built from; a simulator is large, and belongs to its process."""
        if self.cache_key is None:
            raise TypeError(f"{self.name} has formulas of its own, and cannot be built elsewhere")
        own = {name: getattr(self, name) for name in _SENT}
        formulas = self.formulas
        return _rebuilt, (formulas.domain, formulas.name, self.cache_key, dict(self.versions), own)

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's; None where the formulas are not ours.

        Starts are not in it: stored arms know theirs.
        """
        if not any(self.formulas is own for own in FORMULAS.values()):
            return None
        return f"{self.formulas.domain} {self.formulas.name} {self.simulator.model_digest()}"

    @property
    def observation_size(self) -> int:
        """Numbers in one observation, ``O``."""
        return self.formulas.observation_size

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
        return self._repeats.begin(self.suite.starts(seeds, self.formulas.context))

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

    def _space(self, given: Any) -> ActionSpace:
        """Return the actions that a word stands for, or the actions themselves."""
        if isinstance(given, (FiniteActions, BoxActions)):
            return given
        model = self.simulator.model
        if given == LEVELS:
            return FiniteActions(np.array(list(product(self.formulas.levels, repeat=model.nu))))
        if given == BOX:
            return BoxActions(*model.actuator_ctrlrange.T)
        raise ValueError(f'actions: need "levels" or "box", got {given!r}')

    def _title(self) -> str:
        """Return the name, with what is not as a task of that name has it by itself."""
        plain = self.name.partition(" (")[0]
        is_box = plain.startswith("dmc:") or self.formulas.is_box
        found = []
        if isinstance(self.actions, BoxActions) != is_box:
            found.append(f"actions={LEVELS if is_box else BOX}")
        if self.action_repeat > 1:
            found.append(f"action_repeat={self.action_repeat}")
        if self.threshold not in (None, self.formulas.threshold):
            found.append(f"threshold={self.threshold:g}")
        if self.least_return is not None:
            found.append(f"least_return={self.least_return:.12g}")
        return titled(plain, *found)


def acrobot_swingup(**options: Any) -> ControlTask:
    """Return acrobot-swingup: two links, one motor at the elbow, to be stood upright."""
    return control_task("acrobot", "swingup", **options)


def cartpole_swingup(**options: Any) -> ControlTask:
    """Return cartpole-swingup: a pole on a cart, to be swung up and kept near the middle."""
    return control_task("cartpole", "swingup", **options)


def reacher_easy(**options: Any) -> ControlTask:
    """Return reacher-easy: a two-link arm in the plane, to touch a target that stays in place."""
    return control_task("reacher", "easy", **options)


def pendulum_swingup(**options: Any) -> ControlTask:
    """Return pendulum-swingup: a pole whose motor is too weak to lift it at once."""
    return control_task("pendulum", "swingup", **options)


def ball_in_cup_catch(**options: Any) -> ControlTask:
    """Return ball-in-cup-catch: a ball on a string, to be swung into the cup it hangs from."""
    return control_task("ball_in_cup", "catch", **options)


def cheetah_run(**options: Any) -> ControlTask:
    """Return cheetah-run: two legs and six motors, to run as fast as they can."""
    return control_task("cheetah", "run", **options)


def control_task(
    domain: str,
    name: str,
    *,
    title: str = "",
    budget: int = 500,
    action_repeat: int = 1,
    actions: str = "",
    threshold: float | None = None,
    least_return: float | None = None,
    threads: int | None = None,
) -> ControlTask:
    """Return a task of the suite that there are formulas for; parameters as in `ControlTask`.

    It is called ``title`` instead of after domain and name, and ``actions`` of ``""`` are those
    that the formulas come with.
    """
    formulas = FORMULAS[domain, name]
    suite = Suite(domain, name)
    # Imported after the suite, whose errors say which extra is missing.
    from pytest_cpg.tasks.control.simulator import Simulator

    model = copy(_stripped_model(domain, name))
    threads = own_share() if threads is None else threads
    words: Any = actions or (BOX if formulas.is_box else LEVELS)
    return ControlTask(
        name=title or f"{domain}-{name}".replace("_", "-"),
        actions=words,
        budget=budget,
        action_repeat=action_repeat,
        threshold=threshold,
        least_return=least_return,
        versions=MappingProxyType(suite_versions()),
        formulas=formulas,
        simulator=Simulator(model, threads=threads, substeps=suite.substeps),
        suite=suite,
    )


@cache
def _stripped_model(domain: str, name: str) -> Any:
    """Return a model without what is only seen; to find one takes a third of a second."""
    from pytest_cpg.tasks.control.simulator import strip_visuals

    suite = Suite(domain, name)
    return strip_visuals(suite.model, *suite.source())


# Fields of a task that can be given other values; the rest is built where it is received.
_SENT = ("name", "actions", "budget", "action_repeat", "threshold", "least_return")


def _rebuilt(
    domain: str, name: str, key: str, versions: Mapping[str, str], own: Mapping[str, Any]
) -> ControlTask:
    """Return a task that another process has sent, or raise ComponentError if it is another."""
    task = _built_once(domain, name)
    if task.cache_key != key or task.versions != versions:
        raise ComponentError(
            f"{domain}-{name} is not the same here as where it was sent from: there "
            f"{_named_versions(versions)}, here {_named_versions(task.versions)}. Install the same "
            f"versions on every machine."
        )
    return replace(task, **own)


@cache
def _built_once(domain: str, name: str) -> ControlTask:
    """Return one task of a process: its simulator takes a while to build."""
    return control_task(domain, name)


def _named_versions(versions: Mapping[str, str]) -> str:
    return " with ".join(f"{package} {found}" for package, found in versions.items())
