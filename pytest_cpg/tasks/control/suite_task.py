"""Suite tasks: those without formulas of ours, with physics in batches and the rest row by row.

States are advanced by `Simulator`, on the model as the suite has it. What is observed and rewarded
is what dm_control's own code says, which looks at one state at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_cpg.contracts import BoolArray, BoxActions, ComponentError, FloatArray, IntArray
from pytest_cpg.machine.processors import own_share
from pytest_cpg.tasks.control.repeats import Repeats
from pytest_cpg.tasks.control.suite import LARGEST_REWARD, Suite, rebuilt, suite_versions
from pytest_cpg.tasks.options import BUDGET, OPTIONS, TaskOptions
from pytest_cpg.tasks.pictures import Frames, draw_control
from pytest_cpg.tasks.scores import check_score, rated

if TYPE_CHECKING:
    from pytest_cpg.tasks.control.reference import Reference
    from pytest_cpg.tasks.control.simulator import Simulator

# Least reward of a control step that succeeds, where nothing else is asked for.
THRESHOLD = 0.6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SuiteTask:
    """A task of the suite without formulas of ours; see `Task`.

    A state [S] is the simulator's (physics, warm start, sensors), the controls that led to it, and
    the seed of its episode, by which `Reference` knows what the episode changed in the model.

    Attributes
    ----------
    observation_keys : mapping
        How many numbers each observation has, in the order of dm_control's dict.
    score_of : callable or None
        The user's score of observations [..., O]; None rates states by dm_control's reward, and
        then there is none of observations.

    The others are those of `ControlTask`.
    """

    simulator: Simulator = field(repr=False)
    reference: Reference = field(repr=False)
    domain: str
    task: str
    name: str
    actions: BoxActions
    observation_size: int
    observation_keys: Mapping[str, int]
    budget: int = BUDGET
    action_repeat: int = 1
    threshold: float = THRESHOLD
    least_return: float | None = None
    score_of: Callable[[FloatArray], FloatArray] | None = None
    period: float
    key: str = field(repr=False)
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        options = TaskOptions.of(self)
        options.check(largest_reward=LARGEST_REWARD)
        check_score(self.score_of)
        if not isinstance(self.actions, BoxActions):
            raise ValueError(
                f'actions: {self.domain}-{self.task} has "box" only, got {self.actions!r}'
            )
        usual = TaskOptions(action_repeat=1, threshold=THRESHOLD)
        object.__setattr__(self, "name", options.named(self.name, usual=usual))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what the task is built from; a simulator is large, and belongs to its process."""
        fields = {name: getattr(self, name) for name in ("name", "score_of", *OPTIONS)}
        return rebuilt, (
            suite_task,
            (self.domain, self.task),
            self.key,
            dict(self.versions),
            fields,
        )

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's; None with a score of the user's."""
        return self.key if self.score_of is None else None

    @property
    def measured(self) -> IntArray:
        """Columns of a state that noise may be added to: positions and velocities."""
        return self.simulator.measured

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step."""
        return self.period * self.action_repeat

    def reset(self, seeds: IntArray) -> FloatArray:
        """Sample the suite's own start of each seed [N], in [0, 2**32): states [N, S]."""

        def read(physics: Any) -> FloatArray:
            sensors = np.array(physics.data.sensordata)
            state = self.simulator.snapshot(physics.model.ptr, physics.data.ptr)
            return np.concatenate([state, sensors])

        rows = [
            np.concatenate(
                [self.reference.start(int(seed), read), np.zeros(self.actions.size), [float(seed)]]
            )
            for seed in seeds
        ]
        return self._repeats.begin(np.array(rows, dtype=np.float64))

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        return self._repeats.step(self._step, states, actions)

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        return self._repeats.rollout(self._rollout, states, actions)

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O], in the order of dm_control's dict."""
        inner = self._repeats.inner(states)
        rows = inner.reshape(-1, inner.shape[-1])
        observed = np.full((len(rows), self.observation_size), np.nan)
        for seed, which, physics, sensors in self._episodes(rows):
            observed[which] = self.reference.observations(seed, physics, sensors)
        return observed.reshape(*inner.shape[:-1], self.observation_size)

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by the user's score; see `rated`."""
        call = f'dmc("{self.domain}-{self.task}"'
        return rated(self, observations, call=call, room="control")

    def score_states(self, states: FloatArray) -> FloatArray:
        """Rate states [..., S] by minus the reward of the step that led there: [...]."""
        if self.score_of is not None:
            return self.score(self.observe(states))
        inner = self._repeats.inner(states)
        size = self.actions.size
        return -self._repeats.reward_of(states, inner[..., -1 - size : -1])

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give dm_control's reward [...], summed over repeats, of steps that ended in states."""
        return self._repeats.reward_of(states, actions)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether the reward [...] of a control step reached the threshold."""
        return self._repeats.success(states, actions)

    def render(self, states: FloatArray) -> Frames:
        """Draw states [B, S] as the suite's first camera sees them: frames [B, H, W, 3]."""
        rows, model = self._repeats.inner(states), self.simulator.model
        size = self.simulator.own_size
        drawn: Any = [None] * len(rows)
        for seed, which, _, _ in self._episodes(rows):
            with self.reference.applied(self.reference.changes(seed), model):
                frames = draw_control(model, rows[which, :size])
            for row, frame in zip(which, frames, strict=True):
                drawn[row] = frame
        return np.stack(drawn)

    @property
    def _repeats(self) -> Repeats:
        return Repeats(self.action_repeat, reward=self._reward, threshold=self.threshold)

    def _reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give dm_control's reward [...] of control steps that ended in states [..., I]."""
        rows = states.reshape(-1, states.shape[-1])
        controls = np.broadcast_to(actions, (*states.shape[:-1], self.actions.size))
        controls = controls.reshape(-1, self.actions.size)
        rewards = np.full(len(rows), np.nan)
        for seed, which, physics, sensors in self._episodes(rows):
            rewards[which] = self.reference.rewards(seed, physics, sensors, controls[which])
        return rewards.reshape(states.shape[:-1])

    def _episodes(self, rows: FloatArray) -> Any:
        """Yield each episode's seed, rows [R], physics [R, P] and sensors [R, F]."""
        simulator = self.simulator
        for seed, which in _seeds_of(rows[:, -1]):
            sensed = rows[which, simulator.own_size : simulator.sensed_size]
            yield seed, which, rows[which, : simulator.physics_size], sensed

    def _step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        after = self._advance(self.simulator.step, states, actions, np.empty(states.shape))
        after[:, -1 - self.actions.size : -1] = actions
        return np.where(np.isnan(after[:, :1]), np.nan, after)

    def _rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        empty = np.empty((*actions.shape[:2], states.shape[1]))
        after = self._advance(self.simulator.rollout, states, actions, empty)
        after[..., -1 - self.actions.size : -1] = actions
        return np.where(np.isnan(after[..., :1]), np.nan, after)

    def _advance(
        self,
        simulate: Callable[[FloatArray, FloatArray], FloatArray],
        states: FloatArray,
        actions: FloatArray,
        after: FloatArray,
    ) -> FloatArray:
        """Fill ``after``, the episodes that change the model one by one, the others at once."""
        others = np.ones(len(states), dtype=bool)
        for seed, which in _seeds_of(states[:, -1]):
            changes = self.reference.changes(seed)
            if changes.fields:
                others[which] = False
                with self.reference.applied(changes, self.simulator.model):
                    after[which] = simulate(states[which], actions[which])
        if others.any():
            after[others] = simulate(states[others], actions[others])
        return after


def suite_task(domain: str, task: str, *, threads: int | None = None, **options: Any) -> SuiteTask:
    """Return a task of the suite, which has it in these two parts.

    Parameters
    ----------
    options
        Fields of `TaskOptions`, and ``score_of``.
    """
    if (domain, task) == ("quadruped", "escape"):
        raise ComponentError(
            "dmc:quadruped-escape makes a terrain for every episode, which it also draws on a "
            "display. Take dmc:quadruped-run, or bring it as a task of your own."
        )
    suite = Suite(domain, task)
    from pytest_cpg.tasks.control.reference import Reference
    from pytest_cpg.tasks.control.simulator import Simulator

    reference = Reference(suite)
    if not reference.model.actuator_ctrllimited.all():
        raise ComponentError(
            f"dmc:{domain}-{task} has actions without bounds, from which no planner can draw. "
            f"Bring it as a task of your own with BoxActions(low, high)."
        )
    simulator = Simulator(
        reference.model,
        threads=own_share() if threads is None else threads,
        substeps=suite.substeps,
        with_sensors=True,
    )
    size = simulator.own_size
    observed = suite.observation_keys()
    return SuiteTask(
        simulator=simulator,
        reference=reference,
        domain=domain,
        task=task,
        name=f"dmc:{domain}-{task}",
        actions=BoxActions(*reference.model.actuator_ctrlrange.T),
        observation_size=sum(observed.values()),
        observation_keys=observed,
        period=suite.control_period,
        key=f"dmc {domain} {task} {size} {simulator.model_digest()}",
        versions=MappingProxyType(suite_versions()),
        **options,
    )


def _seeds_of(column: FloatArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each seed of a column [B] and its rows; lost rows, without a seed, are no one's."""
    alive = np.flatnonzero(~np.isnan(column))
    for seed in np.unique(column[alive]):
        yield int(seed), alive[column[alive] == seed]
