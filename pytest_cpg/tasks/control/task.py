"""Task: one of the DeepMind Control suite, with exact batched physics.

dm_control compiles the model and samples the starts, and `Simulator` advances them. What is
observed and rewarded is what `Formulas` of ours say, or dm_control's own code (`Reference`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from operator import attrgetter
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
from pytest_cpg.tasks.control.formulas import BOX, LEVELS, TITLES, Formulas, formulas_of, titled
from pytest_cpg.tasks.control.suite import LARGEST_REWARD, Suite, suite_parts, suite_versions
from pytest_cpg.tasks.options import BUDGET, OPTIONS, TaskOptions, check_score, rated
from pytest_cpg.tasks.pictures import FILM
from pytest_cpg.tasks.pixels import Drawing, Pixels
from pytest_cpg.tasks.renderer import Frames, View, check_camera, renderer_of

if TYPE_CHECKING:
    from pytest_cpg.tasks.control.reference import Reference
    from pytest_cpg.tasks.control.simulator import Simulator

# What only the control steps in between know of a step that is several of them: the sum of their
# rewards, and whether any of them succeeded.
_COLUMNS = 2


@dataclass(frozen=True, slots=True)
class FormulaWorld:
    """A world of `ControlTask` that there are formulas for.

    A state [I] is the simulator's, and the episode's context.
    """

    suite: Suite
    simulator: Simulator
    formulas: Formulas

    @property
    def key(self) -> str | None:
        """What tells it from others; None where the formulas are not ours."""
        title = self.formulas.title
        if title not in TITLES or self.formulas is not formulas_of(title):
            return None
        return f"{self.suite.domain} {self.suite.name} {self.simulator.model_digest()}"

    def begin(self, seeds: IntArray) -> FloatArray:
        """Sample the suite's own start of each seed [N]: states [N, I]."""
        rows = []
        for seed in map(int, seeds):
            with self.suite.begun(seed) as environment:
                physics = environment.physics
                state = self.simulator.snapshot(physics.model.ptr, physics.data.ptr)
                rows.append(np.concatenate([state, self.formulas.context(physics)]))
        return np.stack(rows)

    # As of every world, on states [..., I]; see `Reference`.
    step = property(attrgetter("simulator.step"))
    rollout = property(attrgetter("simulator.rollout"))
    observe = property(attrgetter("formulas.observe"))
    reward = property(attrgetter("formulas.reward"))
    threshold = property(attrgetter("formulas.threshold"))

    @property
    def drawn(self) -> Any:
        """The model that is drawn, which has all that is only seen."""
        return self.suite.model

    def draw(self, states: FloatArray, view: View) -> Frames:
        """Draw states [B, I]: frames [B, H, W, 3]."""
        return renderer_of(self.drawn, view).draw(states)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlTask:
    """A task of the DeepMind Control suite; see `Task`.

    A state [S] is its world's [I], and the columns of a step that is several control steps.
    """

    world: FormulaWorld | Reference = field(repr=False)
    # What is not as the task has it by itself is added in parentheses.
    name: str
    # May be given as one of the words of `TaskOptions`, as which the others are.
    actions: ActionSpace
    budget: int = BUDGET
    action_repeat: int = 1
    # None is that of the world.
    threshold: float | None = None
    least_return: float | None = None
    # The user's score of observations [..., O], of a task without formulas. None rates states by
    # dm_control's reward, and then there is none of observations.
    score_of: Callable[[FloatArray], FloatArray] | None = None
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        formulas, space = self.world.formulas, self._space(self.actions)
        options = TaskOptions.of(self, actions=BOX if isinstance(space, BoxActions) else LEVELS)
        options.check(largest_reward=LARGEST_REWARD)
        check_score(self.score_of)
        is_box = formulas is None or formulas.is_box or self.name.startswith("dmc:")
        usual = TaskOptions(
            actions=BOX if is_box else LEVELS, action_repeat=1, threshold=self.world.threshold
        )
        object.__setattr__(self, "actions", space)
        object.__setattr__(self, "name", options.named(self.name, usual=usual))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what the task is built from; a simulator is large, and belongs to its process."""
        suite, key = self.world.suite, self.world.key
        if key is None:
            raise TypeError(f"{self.name} has formulas of its own, and cannot be built elsewhere")
        parts = (suite.domain, suite.name, self.world.formulas is not None)
        fields = {name: getattr(self, name) for name in ("name", "score_of", *OPTIONS)}
        return _rebuilt, (parts, key, dict(self.versions), fields)

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's; None for code that no version stands for.

        Starts are not in it: stored arms know theirs.
        """
        return self.world.key if self.score_of is None else None

    @property
    def observation_size(self) -> int:
        """Numbers in one observation, ``O``."""
        return sum(self.observation_keys.values())

    # How many numbers each observation has, in the order of dm_control's dict.
    observation_keys = property(attrgetter("world.suite.observation_keys"))
    # Columns of a state that noise may be added to: positions and velocities.
    measured = property(attrgetter("world.simulator.measured"))

    @property
    def observed(self) -> Sequence[str] | None:
        """What each number of an observation is, with its unit; None without formulas."""
        return None if self.world.formulas is None else self.world.formulas.observed

    @property
    def with_physics(self) -> Callable[..., ControlTask] | None:
        """Makes the task with mass, friction or gravity times a factor; None without formulas."""
        world = self.world
        if world.formulas is None:
            return None
        scaled = world.simulator.scaled
        return lambda **scales: replace(self, world=replace(world, simulator=scaled(**scales)))

    @property
    def threads(self) -> int:
        """How many threads simulate plans; 1 where most of a step is dm_control's own Python."""
        return 1 if self.world.formulas is None else self.world.simulator.threads

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step."""
        return self.world.suite.control_period * self.action_repeat

    def reset(self, seeds: IntArray) -> FloatArray:
        """Sample the suite's own start of each seed [N], in [0, 2**32): states [N, S]."""
        states = self.world.begin(seeds)
        if self.action_repeat == 1:
            return states
        return np.concatenate([states, np.zeros((len(states), _COLUMNS))], axis=1)

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        if self.action_repeat == 1:
            return self.world.step(states, actions)
        states, passed = self._inner(states), []
        for _ in range(self.action_repeat):
            states = self.world.step(states, actions)
            passed.append(states)
        return self._ended(np.stack(passed, axis=1), actions)

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        count = self.action_repeat
        passed = self.world.rollout(self._inner(states), np.repeat(actions, count, axis=1))
        if count == 1:
            return passed
        return self._ended(passed.reshape(*actions.shape[:2], count, passed.shape[-1]), actions)

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O], in the order of dm_control's dict."""
        return self.world.observe(self._inner(states))

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by distance to the goal [...]; lower is better."""
        if self.world.formulas is not None:
            return self.world.formulas.score(observations)
        suite = self.world.suite
        call = f'dmc("{suite.domain}-{suite.name}"'
        return rated(self, observations, call=call, room="control")

    @property
    def score_states(self) -> Callable[[FloatArray], FloatArray] | None:
        """Rates states by minus the reward of the step that led there; None with formulas."""
        return self._score_states if self.world.formulas is None else None

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give dm_control's reward [...] of steps that ended in states [..., S].

        It is in [0, 1] for one control step, and the sum over those of a task's step.
        """
        if self.action_repeat == 1:
            return self.world.reward(states, actions)
        return np.array(states[..., -2])

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether the reward [...] of a control step reached the task's threshold."""
        if self.action_repeat == 1:
            return np.asarray(self.world.reward(states, actions) >= self._least_reward)
        return np.asarray(states[..., -1] == 1)

    def render(self, states: FloatArray) -> Frames:
        """Draw states [B, S] as the suite's first camera sees them: frames [B, H, W, 3]."""
        return self.world.draw(self._inner(states), FILM)

    def drawing(self, pixels: Pixels) -> Drawing:
        """Return what draws states [B, S] as dm_control does, or with what ``pixels`` changes."""
        world, view = self.world, pixels.view
        check_camera(world.drawn, view.camera)
        draws = partial(renderer_of, world.drawn, view)
        return Drawing(lambda states: world.draw(self._inner(states), view), lambda: draws().name)

    @property
    def _least_reward(self) -> float:
        return self.world.threshold if self.threshold is None else self.threshold

    def _space(self, actions: Any) -> ActionSpace:
        """Return the actions that a word stands for, or the actions themselves."""
        formulas, model = self.world.formulas, self.world.simulator.model
        if isinstance(actions, BoxActions) or (isinstance(actions, FiniteActions) and formulas):
            return actions
        if actions == BOX:
            return BoxActions(*model.actuator_ctrlrange.T)
        if formulas is None:
            raise ComponentError(
                f'actions: {self.name} has "box" only, got {actions!r}. Leave actions= out.'
            )
        if actions == LEVELS:
            return FiniteActions(np.array(list(product(formulas.levels, repeat=model.nu))))
        raise ValueError(f'actions: need "levels" or "box", got {actions!r}')

    def _inner(self, states: FloatArray) -> FloatArray:
        """Return the world's states [..., I] of a task's [..., S]."""
        return states if self.action_repeat == 1 else states[..., :-_COLUMNS]

    def _ended(self, passed: FloatArray, actions: FloatArray) -> FloatArray:
        """Return states [..., S] after control steps that ended in states [..., repeat, I]."""
        total, succeeded = np.zeros(passed.shape[:-2]), np.zeros(passed.shape[:-2], dtype=bool)
        # One after the other: numpy adds in an order that depends on the shape.
        for inner in np.moveaxis(passed, -2, 0):
            rewards = self.world.reward(inner, actions)
            total = total + rewards
            succeeded |= rewards >= self._least_reward
        # A diverged simulation has no reward, and all of its state is lost.
        lost = np.isnan(passed[..., -1, 0])
        outcome = np.where(lost[..., None], np.nan, np.stack([total, succeeded], axis=-1))
        return np.concatenate([passed[..., -1, :], outcome], axis=-1)

    def _score_states(self, states: FloatArray) -> FloatArray:
        if self.score_of is not None:
            return self.score(self.observe(states))
        controls = self._inner(states)[..., -1 - self.actions.size : -1]
        return -self.reward(states, controls)


def dmc(
    name: str,
    *,
    budget: int = BUDGET,
    action_repeat: int = 1,
    actions: str = "box",
    threshold: float | None = None,
    least_return: float | None = None,
    score: Callable[[FloatArray], FloatArray] | None = None,
    threads: int | None = None,
) -> ControlTask:
    """Return a task of the DeepMind Control suite by its name there: ``"cheetah-run"``.

    Raises ComponentError when there is no such task, or dm_control is not installed.

    Parameters
    ----------
    actions : str
        ``"box"``, or ``"levels"`` where there are formulas of ours.
    threshold : float, optional
        A control step with at least this reward counts as success, by default 0.6.
    score : callable, optional
        Rates observations [..., O], lower is better, for a task without formulas of ours.
    """
    domain, task = suite_parts(name)
    title, full = titled(domain, task), f"dmc:{domain}-{task}"
    options = TaskOptions(
        budget=budget,
        actions=actions,
        action_repeat=action_repeat,
        threshold=threshold,
        least_return=least_return,
    )
    if title in TITLES and score is None:
        return control_task(title, name=full, threads=threads, **options.given)
    return suite_task(domain, task, threads=threads, score_of=score, **options.given)


def control_task(
    title: str, *, name: str = "", threads: int | None = None, **options: Any
) -> ControlTask:
    """Return a task of the suite that there are formulas for, with fields of `TaskOptions`.

    The simulator has by default this process's share of the machine's threads.
    """
    formulas = formulas_of(title)
    suite = Suite(formulas.domain, formulas.name)
    # Imported after the suite, whose errors say which extra is missing.
    from pytest_cpg.tasks.control.simulator import Simulator

    simulator = Simulator(
        copy(_stripped_model(formulas.domain, formulas.name)),
        threads=own_share() if threads is None else threads,
        substeps=suite.substeps,
    )
    return ControlTask(
        name=name or title,
        world=FormulaWorld(suite, simulator, formulas),
        versions=MappingProxyType(suite_versions()),
        **{"actions": formulas.usual_actions, **options},
    )


def suite_task(
    domain: str, name: str, *, threads: int | None = None, **options: Any
) -> ControlTask:
    """Return a task of the suite as dm_control's own code has it; see `control_task`."""
    if (domain, name) == ("quadruped", "escape"):
        raise ComponentError(
            "dmc:quadruped-escape makes a terrain for every episode, which it also draws on a "
            "display. Take dmc:quadruped-run, or bring it as a task of your own."
        )
    suite = Suite(domain, name)
    from pytest_cpg.tasks.control.reference import Reference

    return ControlTask(
        name=f"dmc:{domain}-{name}",
        world=Reference(suite, threads=own_share() if threads is None else threads),
        versions=MappingProxyType(suite_versions()),
        **{"actions": BOX, "threshold": Reference.threshold, **options},
    )


@cache
def _stripped_model(domain: str, name: str) -> Any:
    """Return a model without what is only seen; to find one takes a third of a second."""
    from pytest_cpg.tasks.control.simulator import strip_visuals

    suite = Suite(domain, name)
    return strip_visuals(suite.model, *suite.source())


def _rebuilt(
    parts: tuple[str, str, bool], key: str, versions: dict[str, str], fields: Mapping[str, Any]
) -> ControlTask:
    """Return a task that another process has sent; raise ComponentError if it is another here."""
    task = _built_once(*parts)
    if (key, versions) != (task.world.key, task.versions):
        there, here = (
            " with ".join(f"{package} {version}" for package, version in each.items())
            for each in (versions, task.versions)
        )
        raise ComponentError(
            f"{task.name} is not the same here as where it was sent from: there {there}, here "
            f"{here}. Install the same versions on every machine."
        )
    return replace(task, **fields)


@cache
def _built_once(domain: str, name: str, has_formulas: bool) -> ControlTask:
    """Return a task; once in a process, as its simulator takes a while."""
    return control_task(titled(domain, name)) if has_formulas else suite_task(domain, name)
