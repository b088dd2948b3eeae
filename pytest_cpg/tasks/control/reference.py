"""Reference: dm_control's own code, asked what it observes and rewards in states of any episode.

What an episode changes in the model (a target's place, a motor's gear) or keeps in the task's
attributes is known by the episode's seed, and put back before any of its states is looked at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.control.suite import Suite

_PHYSICS = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
# Only seen, and most of a model's size.
_IGNORED = {"tex_data"}
_PLAIN = (bool, int, float, str, tuple, list, np.ndarray, np.generic, type(None))


@dataclass(frozen=True, slots=True)
class Changes:
    """What an episode changes in dm_control's model and task.

    Attributes
    ----------
    fields : mapping
        Arrays of the model, by name, that are not as in the episode of seed 0.
    attributes : mapping
        Plain attributes of dm_control's task.
    """

    fields: Mapping[str, FloatArray]
    attributes: Mapping[str, Any]


class Reference:
    """One environment of the suite, and what each seed's episode changes in it.

    Letters: ``P`` full physics state, ``F`` sensors, ``A`` controls.
    """

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        with suite.begun(0) as environment:
            model = environment.physics.model.ptr
            self._base = {name: array.copy() for name, array in _arrays(model)}
            self.model = copy.copy(model)
        self._known: dict[int, Changes] = {}

    def start(self, seed: int, read: Callable[[Any], FloatArray]) -> FloatArray:
        """Return what ``read`` finds in dm_control's physics at the start of a seed's episode."""
        with self._suite.begun(seed) as environment:
            self._known[seed] = self._found(environment)
            return read(environment.physics)

    def changes(self, seed: int) -> Changes:
        """Return what the episode of a seed changes."""
        if seed not in self._known:
            with self._suite.begun(seed) as environment:
                self._known[seed] = self._found(environment)
        return self._known[seed]

    @contextmanager
    def applied(self, changes: Changes, model: Any) -> Iterator[None]:
        """Give a model the fields of an episode while the context lasts."""
        try:
            for name, values in changes.fields.items():
                getattr(model, name)[...] = values
            yield
        finally:
            for name in changes.fields:
                getattr(model, name)[...] = self._base[name]

    def observations(self, seed: int, states: FloatArray, sensors: FloatArray) -> FloatArray:
        """Return what is observed in states [B, P] with sensors [B, F] of one episode: [B, O]."""
        controls = np.zeros((len(states), self.model.nu))
        return self._told(seed, states, sensors, controls, _observation)

    def rewards(
        self, seed: int, states: FloatArray, sensors: FloatArray, controls: FloatArray
    ) -> FloatArray:
        """Return dm_control's rewards [B] for reaching states [B, P] by controls [B, A]."""
        return self._told(seed, states, sensors, controls, _reward)

    def _told(
        self,
        seed: int,
        states: FloatArray,
        sensors: FloatArray,
        controls: FloatArray,
        ask: Callable[[Any], Any],
    ) -> FloatArray:
        changes = self.changes(seed)
        rows = []
        with self._suite.lent() as environment:
            physics = environment.physics
            model, data = physics.model.ptr, physics.data.ptr
            # The last reset left the fields of its own episode.
            for name, values in {**self._base, **changes.fields}.items():
                if name in changes.fields or name in self._touched:
                    getattr(model, name)[...] = values
            vars(environment.task).update(copy.deepcopy(dict(changes.attributes)))
            for state, sensed, control in zip(states, sensors, controls, strict=True):
                mujoco.mj_setState(model, data, state, _PHYSICS)
                data.ctrl[:] = control
                # Sensors of forces stay as they are: dm_control reads them before the last step.
                data.sensordata[:] = sensed
                mujoco.mj_step1(model, data)
                rows.append(ask(environment))
        return np.array(rows, dtype=np.float64)

    @property
    def _touched(self) -> set[str]:
        """Names of the fields that any known episode changes."""
        return {name for changes in self._known.values() for name in changes.fields}

    def _found(self, environment: Any) -> Changes:
        arrays = dict(_arrays(environment.physics.model.ptr))
        changed = {
            name: array.copy()
            for name, array in arrays.items()
            if not np.array_equal(array, self._base[name], equal_nan=array.dtype.kind == "f")
        }
        plain = {name: v for name, v in vars(environment.task).items() if isinstance(v, _PLAIN)}
        return Changes(changed, copy.deepcopy(plain))


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
