"""Bodies: MuJoCo bodies of gymnasium's registry, put into positions and velocities and stepped."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray
from pytest_cpg.tasks.gymnasium.environments import made


class Bodies:
    """Many copies of one body, advanced as its environment does it but for what is rewarded.

    Letters: ``S`` positions and velocities, ``P`` what it takes to go on from there exactly.

    Parameters
    ----------
    name : str
        An id of gymnasium's with a MuJoCo body, such as ``"Hopper-v4"``.
    """

    def __init__(self, name: str) -> None:
        with warnings.catch_warnings():
            # That there is a newer version: it is another world.
            warnings.simplefilter("ignore")
            bare = made(name).unwrapped
        if not hasattr(bare, "do_simulation"):
            raise ComponentError(f"gym:{name} has no MuJoCo body; take one such as Hopper-v4")
        # Not before the environment, whose error names what is missing.
        from pytest_cpg.tasks.control.simulator import Simulator, snapshot

        self._snapshot = snapshot
        self._model, self._data = bare.model, bare.data
        self._simulator = Simulator(bare.model, threads=1, substeps=bare.frame_skip)
        self.period = float(bare.dt)

    def begin(self, states: FloatArray) -> FloatArray:
        """Map positions and velocities [B, S] to what can be stepped from [B, P]."""
        import mujoco

        mujoco_: Any = mujoco
        positions = self._model.nq
        begun = np.empty((len(states), self._simulator.own_size))
        for row, state in zip(begun, np.asarray(states, dtype=np.float64), strict=True):
            mujoco_.mj_resetData(self._model, self._data)
            self._data.qpos[:], self._data.qvel[:] = state[:positions], state[positions:]
            mujoco_.mj_forward(self._model, self._data)
            row[:] = self._snapshot(self._model, self._data)
        return begun

    def states(self, inner: FloatArray) -> FloatArray:
        """Return the positions and velocities [B, S] of what can be stepped from [B, P]."""
        return inner[:, self._simulator.measured]

    def step(self, inner: FloatArray, actions: FloatArray) -> FloatArray:
        """Advance [B, P] by actions [B, A], each held for one step of the environment."""
        return self._simulator.step(inner, actions)
