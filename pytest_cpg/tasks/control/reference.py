"""Reference: a task of the suite as dm_control's own code has it, asked row by row.

What an episode changes in the model (a target's place, a motor's gear) or keeps in the task's
attributes is known by the episode's seed, and put back before any of its states is looked at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import mujoco
import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray, IntArray
from pytest_cpg.tasks.control.simulator import Simulator
from pytest_cpg.tasks.control.suite import Suite
from pytest_cpg.tasks.renderer import Frames, View, renderer_of

_PHYSICS = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
# Only seen, and most of a model's size.
_IGNORED = {"tex_data"}
_PLAIN = (bool, int, float, str, tuple, list, np.ndarray, np.generic, type(None))


class _Changes(NamedTuple):
    """What an episode changes: arrays of the model, and plain attributes of dm_control's task."""

    fields: Mapping[str, FloatArray]
    attributes: Mapping[str, Any]


class Reference:
    """A world of `ControlTask` without formulas: its physics in batches, and the rest row by row.

    A state [I] is the simulator's (physics, warm start, sensors), the controls that led to it, and
    the seed of its episode.
    """

    # Least reward of a control step that succeeds, where nothing else is asked for.
    threshold = 0.6
    formulas = None

    def __init__(self, suite: Suite, *, threads: int) -> None:
        self.suite = suite
        with suite.begun(0) as environment:
            model = environment.physics.model.ptr
            self._base = {name: array.copy() for name, array in _arrays(model)}
            model = copy.copy(model)
        if not model.actuator_ctrllimited.all():
            raise ComponentError(
                f"dmc:{suite.domain}-{suite.name} has actions without bounds, from which no "
                f"planner can draw. Bring it as a task of your own with BoxActions(low, high)."
            )
        self.simulator = Simulator(
            model, threads=threads, substeps=suite.substeps, with_sensors=True
        )
        size, digest = self.simulator.own_size, self.simulator.model_digest()
        self.key = f"dmc {suite.domain} {suite.name} {size} {digest}"
        self._observation_size = sum(suite.observation_keys.values())
        self._changes: dict[int, _Changes] = {}

    def begin(self, seeds: IntArray) -> FloatArray:
        """Sample the suite's own start of each seed [N]: states [N, I]."""
        rows, controls = [], np.zeros(self.simulator.model.nu)
        for seed in map(int, seeds):
            with self.suite.begun(seed) as environment:
                self._changes[seed] = self._changes_in(environment)
                model, data = environment.physics.model.ptr, environment.physics.data.ptr
                state = self.simulator.snapshot(model, data)
                rows.append(np.concatenate([state, data.sensordata, controls, [float(seed)]]))
        return np.array(rows, dtype=np.float64)

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, I] and actions [B, A] to next states [B, I]."""
        return self._advanced(self.simulator.step, states, actions, np.empty(states.shape))

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, I] and actions [B, H, A] to states [B, H, I]."""
        after = np.empty((*actions.shape[:2], states.shape[1]))
        return self._advanced(self.simulator.rollout, states, actions, after)

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., I] to observations [..., O]."""
        controls = np.zeros(self.simulator.model.nu)
        return self._answers(_observation, states, controls, self._observation_size)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give dm_control's reward [...] of control steps that ended in states [..., I]."""
        return self._answers(_reward, states, actions)

    @property
    def drawn(self) -> Any:
        """The model that is drawn."""
        return self.simulator.model

    def draw(self, states: FloatArray, view: View) -> Frames:
        """Draw states [B, I]: frames [B, H, W, 3]."""
        renderer, size = renderer_of(self.drawn, view), self.simulator.own_size
        frames = np.zeros((len(states), view.height, view.width, 3), dtype=np.uint8)
        for seed, rows in _seeds_of(states[:, -1]):
            frames[rows] = renderer.draw(states[rows, :size], self._changes_of(seed).fields)
        return frames

    def _advanced(
        self,
        simulate: Callable[[FloatArray, FloatArray], FloatArray],
        states: FloatArray,
        actions: FloatArray,
        after: FloatArray,
    ) -> FloatArray:
        """Fill ``after``, the episodes that change the model one by one, the others at once."""
        others = np.ones(len(states), dtype=bool)
        for seed, rows in _seeds_of(states[:, -1]):
            changes = self._changes_of(seed)
            if changes.fields:
                others[rows] = False
                with self._applied(changes):
                    after[rows] = simulate(states[rows], actions[rows])
        if others.any():
            after[others] = simulate(states[others], actions[others])
        after[..., -1 - actions.shape[-1] : -1] = actions
        return np.where(np.isnan(after[..., :1]), np.nan, after)

    def _answers(
        self,
        ask: Callable[[Any], Any],
        states: FloatArray,
        controls: FloatArray,
        *shape: int,
    ) -> FloatArray:
        """Return what dm_control says of states [..., I] reached by controls: [..., *shape]."""
        simulator, rows = self.simulator, states.reshape(-1, states.shape[-1])
        controls = np.broadcast_to(controls, (*states.shape[:-1], simulator.model.nu))
        controls = controls.reshape(-1, simulator.model.nu)
        answers = np.full((len(rows), *shape), np.nan)
        for seed, numbers in _seeds_of(rows[:, -1]):
            changes = self._changes_of(seed)
            with self.suite.lent() as environment:
                model, data = environment.physics.model.ptr, environment.physics.data.ptr
                # The last reset left the fields of its own episode.
                for name in {name for other in self._changes.values() for name in other.fields}:
                    getattr(model, name)[...] = changes.fields.get(name, self._base[name])
                vars(environment.task).update(copy.deepcopy(dict(changes.attributes)))
                for number in numbers:
                    row = rows[number]
                    mujoco.mj_setState(model, data, row[: simulator.physics_size], _PHYSICS)
                    data.ctrl[:] = controls[number]
                    # Sensors of forces stay: dm_control reads them before the last step.
                    data.sensordata[:] = row[simulator.own_size : simulator.sensed_size]
                    mujoco.mj_step1(model, data)
                    answers[number] = ask(environment)
        return answers.reshape((*states.shape[:-1], *shape))

    def _changes_of(self, seed: int) -> _Changes:
        if seed not in self._changes:
            with self.suite.begun(seed) as environment:
                self._changes[seed] = self._changes_in(environment)
        return self._changes[seed]

    def _changes_in(self, environment: Any) -> _Changes:
        fields = {
            name: array.copy()
            for name, array in _arrays(environment.physics.model.ptr)
            if not np.array_equal(array, self._base[name], equal_nan=array.dtype.kind == "f")
        }
        plain = {name: v for name, v in vars(environment.task).items() if isinstance(v, _PLAIN)}
        return _Changes(fields, copy.deepcopy(plain))

    @contextmanager
    def _applied(self, changes: _Changes) -> Iterator[None]:
        """Give our model the fields of an episode while the context lasts."""
        model = self.simulator.model
        try:
            for name, values in changes.fields.items():
                getattr(model, name)[...] = values
            yield
        finally:
            for name in changes.fields:
                getattr(model, name)[...] = self._base[name]


def _arrays(model: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(model):
        if name.startswith("_") or name in _IGNORED:
            continue
        value = getattr(model, name)
        if isinstance(value, np.ndarray) and value.size:
            yield name, value


def _observation(environment: Any) -> FloatArray:
    observed = environment.task.get_observation(environment.physics)
    return np.concatenate([np.ravel(values) for values in observed.values()])


def _reward(environment: Any) -> float:
    return float(environment.task.get_reward(environment.physics))


def _seeds_of(column: FloatArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each seed of a column [B] and its rows; lost rows, without a seed, are no one's."""
    alive = np.flatnonzero(~np.isnan(column))
    for seed in np.unique(column[alive]):
        yield int(seed), alive[column[alive] == seed]
