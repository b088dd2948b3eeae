"""Restorers: what it takes to put an environment back into a state that it was in, as numbers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray, TaskError
from pytest_cpg.tasks.gymnasium.pickles import Pickles

# Bytes of a pickle in one number: whole numbers below 2**48 are exact.
_BYTES = 6


class PhysicsRestorer:
    """Keeps a MuJoCo environment by the physics before its last step, which is done again.

    That brings all back that its code may read, such as positions of bodies, which MuJoCo computes
    before it moves them. What is not physics is as `reset` leaves it for the episode's seed.
    """

    def __init__(self, environment: Any) -> None:
        # With gymnasium's own message where it is missing.
        import mujoco

        self._mujoco, self.environment = mujoco, environment
        bare = environment.unwrapped
        self._model, self._data = bare.model, bare.data
        self._kind = int(mujoco.mjtState.mjSTATE_FULLPHYSICS | mujoco.mjtState.mjSTATE_WARMSTART)
        self._physics = mujoco.mj_stateSize(self._model, self._kind)
        self.size = 2 + self._physics + self._model.nu
        self._seed = -1

    def begin(self, seed: int) -> tuple[FloatArray, Any]:
        """Reset to a seed's start; return what puts it back there [size], and what it observes."""
        observation, _ = self.environment.reset(seed=seed)
        self._seed = seed
        return np.concatenate([[seed], np.zeros(self.size - 1)]), observation

    def load(self, saved: FloatArray) -> None:
        """Put the environment back, by what was saved of it [size]."""
        seed = int(saved[0])
        if self._seed != seed or not saved[1]:
            self.begin(seed)
        if saved[1]:
            physics, controls = saved[2 : 2 + self._physics], saved[2 + self._physics :]
            self._mujoco.mj_setState(self._model, self._data, physics, self._kind)
            bare = self.environment.unwrapped
            bare.do_simulation(controls, bare.frame_skip)

    def step(self, action: Any, saved: FloatArray | None) -> Any:
        """Take a step; put what puts it back after it into ``saved`` [size], unless it is None."""
        physics = np.empty(self._physics)
        if saved is not None:
            self._mujoco.mj_getState(self._model, self._data, physics, self._kind)
        result = self.environment.step(action)
        if saved is not None:
            saved[1:] = np.concatenate([[1], physics, self._data.ctrl])
        return result


class PickleRestorer:
    """Keeps any environment by its pickle, six bytes to a number.

    Every episode begins with the environment as it was made: neither what was played before nor
    which process it is then has a part in the bits of a state. Its spaces, whose generators are in
    the pickle, are seeded like the environment.
    """

    def __init__(self, environment: Any) -> None:
        # As it was last put back.
        self.environment, self._pickles = environment, Pickles()
        _seed_spaces(environment, 0)
        self._made = self._pickles.know(environment)
        self._reset(0)
        for _ in range(3):
            self.environment.step(self.environment.action_space.sample())
        data = self._pickles.know(self.environment)
        # Room for what more steps may add, and the same where a number takes another byte.
        most = 1 << (2 * len(data) + 255).bit_length()
        self.size = 1 + -(-most // _BYTES)

    def begin(self, seed: int) -> tuple[FloatArray, Any]:
        """Reset; see `PhysicsRestorer`, as for the others."""
        observation = self._reset(seed)
        return self._pickled(), observation

    def load(self, saved: FloatArray) -> None:
        """Put the environment back."""
        digits = saved[1:].astype("<u8").reshape(-1, 1).view(np.uint8)[:, :_BYTES]
        # States are arrays that anybody may have written, so nothing is called that this
        # environment did not name when it was made.
        self.environment = self._pickles.read(digits.tobytes()[: int(saved[0])])

    def step(self, action: Any, saved: FloatArray | None) -> Any:
        """Take a step."""
        result = self.environment.step(action)
        if saved is not None:
            saved[:] = self._pickled()
        return result

    def _pickled(self) -> FloatArray:
        data = self._pickles.write(self.environment)
        room = (self.size - 1) * _BYTES
        if len(data) > room:
            raise TaskError(
                f"the pickle of {self.environment} grew to {len(data)} bytes, and there is room "
                f"for {room}. Keep no history in the environment."
            )
        digits = np.zeros((self.size - 1, 8), dtype=np.uint8)
        digits[:, :_BYTES] = np.frombuffer(data.ljust(room, b"\0"), np.uint8).reshape(-1, _BYTES)
        return np.concatenate([[len(data)], digits.view("<u8")[:, 0].astype(np.float64)])

    def _reset(self, seed: int) -> Any:
        """Reset the environment as it was made; return what it observes."""
        self.environment = self._pickles.read(self._made)
        _seed_spaces(self.environment, seed)
        observation, _ = self.environment.reset(seed=seed)
        return observation


def restorer_of(environment: Any) -> PhysicsRestorer | PickleRestorer:
    """Return how an environment is put back, or raise ComponentError if it cannot be."""
    if hasattr(environment.unwrapped, "do_simulation"):
        return PhysicsRestorer(environment)
    try:
        return PickleRestorer(environment)
    except (TypeError, AttributeError, RecursionError, pickle.PicklingError) as error:
        raise ComponentError(
            f"{environment} cannot be pickled ({error}), so that it cannot be put back into a "
            f"state. Give what cannot be a __getstate__, or write a task of your own "
            f"(pytest_cpg.Task)."
        ) from error


def _seed_spaces(environment: Any, seed: int) -> None:
    """Seed the spaces of an environment, and of all that it wraps."""
    while True:
        environment.action_space.seed(seed)
        environment.observation_space.seed(seed)
        if environment is environment.unwrapped:
            return
        environment = environment.env
