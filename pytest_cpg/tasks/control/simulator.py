"""Simulator: exact batched MuJoCo, a pure function of full physics states and controls.

It runs without MuJoCo's clock, and a model without what is only seen moves alike in it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, NoReturn

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray


class Clock:
    """MuJoCo's C global ``mjcb_time``, which ``mujoco.set_mjcb_time(None)`` does not clear.

    Its Python package installs one that takes nearly half of a small model's step.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._saved: int | None = None
        # Looking through the bindings finds the library that they use; there may be others.
        library = "mujoco.dll" if sys.platform == "win32" else mujoco._functions.__file__
        try:
            self._pointer = ctypes.c_void_p.in_dll(ctypes.CDLL(library), "mjcb_time")
        except (OSError, ValueError):
            self._pointer = ctypes.c_void_p()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Switch the clock off, in the whole process, while the context lasts.

        Nothing else changes. Contexts may be nested; a clock that cannot be found stays on.
        """
        with self._lock:
            if not self._users:
                self._saved, self._pointer.value = self._pointer.value, None
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._pointer.value = self._saved


CLOCK = Clock()

_MASSES = ("body_mass", "body_inertia")
_FRICTIONS = (
    "geom_friction",
    "pair_friction",
    "dof_frictionloss",
    "dof_damping",
    "dof_dampingpoly",
    "tendon_frictionloss",
    "tendon_damping",
    "tendon_dampingpoly",
)
_PHYSICS = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
_WARMSTART = int(mujoco.mjtState.mjSTATE_WARMSTART)
_CONTROL = int(mujoco.mjtState.mjSTATE_CTRL)
# MuJoCo resets a simulation with a larger position, velocity or acceleration (mjMAXVAL).
_LARGEST = 1e10
# Every simulation starts at this time, in seconds: a reset takes it back to 0, which a simulation
# that truly starts at 0 could not be told from.
_EPOCH = 1.0
# Numbers that MuJoCo may hand back at once: 64 MB.
_LARGEST_PART = 8_000_000


class Simulator:
    """One MuJoCo model, advanced for ``B`` states at once.

    A state ``[S]`` is MuJoCo's full physics state (time, positions, velocities, activations), the
    solver's warm start, the sensors if asked for, and any context of the episode, which is carried
    along. Rows do not know of each other: their bits depend neither on ``B`` nor on their order nor
    on the threads. The model's forces must not depend on the time of day or of the simulation.
    One control is held for so many substeps. Sensors are what they read just before the last of
    them, as those of forces cannot be read anew.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        threads: int,
        substeps: int = 1,
        with_sensors: bool = False,
    ) -> None:
        if threads < 1:
            raise ValueError(f"need at least 1 thread, got {threads!r}")
        if substeps < 1:
            raise ValueError(f"need at least 1 substep, got {substeps!r}")
        if model.npluginstate:
            # Their state follows the controls in MuJoCo's order: the columns would be others.
            raise ValueError("a model with stateful plugins cannot be simulated in batches")
        self.model = model
        self.threads = threads
        self.substeps = substeps
        # Numbers of a state's physics, of that and the warm start, of these and the sensors.
        self.physics_size: int = mujoco.mj_stateSize(model, _PHYSICS)
        self.own_size: int = self.physics_size + model.nv
        self.sensed_size: int = self.own_size + (model.nsensordata if with_sensors else 0)
        self._workers: _Workers | None = None

    @staticmethod
    def snapshot(model: mujoco.MjModel, data: mujoco.MjData) -> FloatArray:
        """Return physics state and warm start of a simulation, which a state begins with."""
        state = np.empty(mujoco.mj_stateSize(model, _PHYSICS | _WARMSTART))
        mujoco.mj_getState(model, data, state, _PHYSICS | _WARMSTART)
        return state

    def step(self, states: FloatArray, controls: FloatArray) -> FloatArray:
        """Map states [B, S] and controls [B, A] to next states [B, S]; a diverged row is NaN."""
        self._check(states, controls[:, None])
        inputs = np.concatenate([states[:, : self.own_size], controls], axis=1, dtype=np.float64)
        inputs[:, 0] = _EPOCH
        after = np.array(states, dtype=np.float64)
        numbers = np.empty((len(states), self.own_size))
        sensors = after[:, self.own_size : self.sensed_size]
        workers = self._workforce()
        model, data = self.model, workers.datas[0]
        with workers.lock, CLOCK.stopped():
            for row, result, sensed in zip(inputs, numbers, sensors, strict=True):
                mujoco.mj_setState(model, data, row, _PHYSICS | _WARMSTART | _CONTROL)
                mujoco.mj_step(model, data, self.substeps)
                mujoco.mj_getState(model, data, result, _PHYSICS | _WARMSTART)
                if sensed.size:
                    sensed[:] = data.sensordata
        after[:, : self.own_size] = numbers
        self._finish(after[:, None], states[:, 0])
        return after

    def rollout(self, states: FloatArray, controls: FloatArray) -> FloatArray:
        """Map states [B, S] and controls [B, H, A] to the states after each control [B, H, S].

        Physics and context equal repeated `step` bit for bit. The warm start is NaN, as MuJoCo does
        not tell it: do not step from the result. A diverged row is NaN from that step on.
        """
        self._check(states, controls)
        after = np.empty((*controls.shape[:2], states.shape[1]))
        if not after.size:
            return after
        # Every substep is handed back: many rows of many substeps are worked off in parts.
        size = max(1, _LARGEST_PART // (controls.shape[1] * self.substeps * self.physics_size))
        for first in range(0, len(states), size):
            part = slice(first, first + size)
            physics, sensors = self._advanced(states[part], controls[part])
            after[part, :, : self.physics_size] = physics
            after[part, :, self.own_size : self.sensed_size] = sensors
        after[..., self.physics_size : self.own_size] = np.nan
        after[..., self.sensed_size :] = states[:, None, self.sensed_size :]
        self._finish(after, states[:, 0])
        return after

    def _advanced(self, states: FloatArray, controls: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return physics [B, H, P] after each control, by our own clock, and sensors [B, H, F]."""
        batch, horizon = len(states), controls.shape[1] * self.substeps
        initial = np.array(states[:, : self.physics_size], dtype=np.float64, order="C")
        initial[:, 0] = _EPOCH
        physics = np.empty((batch, horizon, self.physics_size))
        sensors = np.empty((batch, horizon, self.sensed_size - self.own_size))
        workers = self._workforce()
        with workers.lock, CLOCK.stopped():
            workers.pool.rollout(
                workers.models(batch),
                workers.datas,
                initial,
                np.repeat(np.asarray(controls, dtype=np.float64), self.substeps, axis=1),
                nstep=horizon,
                initial_warmstart=np.array(
                    states[:, self.physics_size : self.own_size], dtype=np.float64, order="C"
                ),
                state=physics,
                sensordata=sensors if sensors.size else None,
                skip_checks=True,
            )
        last = slice(self.substeps - 1, None, self.substeps)
        return physics[:, last], sensors[:, last]

    def model_digest(self) -> str:
        """Return 64 hexadecimal digits that tell apart models that may move differently."""
        buffer = np.empty(mujoco.mj_sizeModel(self.model), dtype=np.uint8)
        mujoco.mj_saveModel(self.model, None, buffer)
        return hashlib.sha256(buffer.tobytes()).hexdigest()

    @property
    def measured(self) -> IntArray:
        """Columns of a state with positions and velocities."""
        # The time is the first one.
        return np.arange(1, 1 + self.model.nq + self.model.nv)

    def scaled(
        self, *, mass: float = 1.0, friction: float = 1.0, gravity: float = 1.0
    ) -> Simulator:
        """Return another simulator, of one thread, of the same model with some of it scaled.

        Bodies have their mass and inertia times ``mass``. ``friction`` scales that of contacts, and
        the dry and viscous friction of joints and tendons.
        """
        model = copy(self.model)
        for names, scale in ((_MASSES, mass), (_FRICTIONS, friction)):
            for name in names:
                getattr(model, name)[:] *= scale
        model.opt.gravity[:] *= gravity
        if mass != 1:
            # What MuJoCo has computed from the masses, for its solver.
            mujoco.mj_setConst(model, mujoco.MjData(model))
        return Simulator(model, threads=1, substeps=self.substeps)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a simulator cannot be pickled or copied: send the task's name and build it there"
        )

    def _workforce(self) -> _Workers:
        """Return this process's threads; those of a parent do not survive a fork."""
        if self._workers is None or self._workers.process != os.getpid():
            self._workers = _Workers(self.model, self.threads)
        return self._workers

    def _check(self, states: FloatArray, controls: FloatArray) -> None:
        if states.ndim != 2 or states.shape[1] < self.sensed_size:
            raise ValueError(
                f"need states of shape [B, {self.sensed_size} or more], got shape {states.shape}"
            )
        if controls.ndim != 3 or controls.shape[::2] != (len(states), self.model.nu):
            raise ValueError(
                f"need {self.model.nu} controls for each of {len(states)} states, got shape "
                f"{controls.shape}"
            )
        # MuJoCo takes NaN for zero and goes on.
        if np.isnan(controls).any():
            raise ValueError("controls must not be NaN")

    def _finish(self, after: FloatArray, begun: FloatArray) -> None:
        """Set the true time of ``after`` [B, H, S] in place, and NaN from a divergence on.

        MuJoCo resets a diverged simulation, which then looks healthy but for its time; one that
        diverges in its very last step is not reset.
        """
        batch, horizon = after.shape[:2]
        period, substeps = self.model.opt.timestep, self.substeps
        due = _EPOCH + period * substeps * np.arange(1, horizon + 1)
        times = np.full((batch, horizon * substeps + 1), period)
        times[:, 0] = begun
        # Adds one period after the other, as MuJoCo does.
        clock = np.add.accumulate(times, axis=1)[:, substeps::substeps]
        diverged = np.flatnonzero(~self._is_healthy(after[:, -1], due[-1]))
        if diverged.size:
            healthy = np.logical_and.accumulate(self._is_healthy(after[diverged], due), axis=1)
            after[diverged] = np.where(healthy[..., None], after[diverged], np.nan)
            clock[diverged] = np.where(healthy, clock[diverged], np.nan)
        after[..., 0] = clock

    def _is_healthy(self, states: FloatArray, due: FloatArray) -> BoolArray:
        """Say whether states [..., S] are at the time due and within MuJoCo's bounds."""
        on_time = np.abs(states[..., 0] - due) < self.model.opt.timestep / 2
        bounded = np.abs(states[..., : self.physics_size]) <= _LARGEST
        healthy: BoolArray = on_time & bounded.all(axis=-1)
        return healthy


class _Workers:
    """Threads and their scratch memory, of use in the process that made them."""

    def __init__(self, model: mujoco.MjModel, threads: int) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.datas = [mujoco.MjData(model) for _ in range(threads)]
        # Without a pool the calling thread does the work itself.
        self.pool = Rollout(nthread=threads if threads > 1 else 0)
        self.stop = weakref.finalize(self, _stop, self.pool, self.process)
        self._models = [model]

    def models(self, batch: int) -> list[mujoco.MjModel]:
        """Return the model once per row, as MuJoCo wants it."""
        if len(self._models) < batch:
            self._models = self._models[:1] * batch
        return self._models[:batch]


def _stop(pool: Rollout, process: int) -> None:
    """Join the threads, unless this is a fork, which has none to wait for."""
    if process == os.getpid():
        pool.close()
    else:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))


def strip_visuals(model: mujoco.MjModel, xml: str, includes: Mapping[str, bytes]) -> mujoco.MjModel:
    """Return a faster model with the same motion to the last bit, or the model itself.

    What is only seen, and geoms where nothing can touch, cost a quarter of a small model's step.
    ``includes`` has the content of the files that the XML includes, by name.
    """
    untouchable = mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    if not model.opt.disableflags & untouchable:
        return model
    try:
        lean = _compile_lean(model, xml, includes)
    except (ValueError, TypeError, KeyError, AttributeError, mujoco.FatalError):
        return model
    return lean if _moves_alike(model, lean) else model


def _compile_lean(model: mujoco.MjModel, xml: str, includes: Mapping[str, bytes]) -> mujoco.MjModel:
    spec: Any = mujoco.MjSpec.from_string(xml, include=dict(includes))
    for body in spec.bodies[1:]:
        index = model.body(body.name).id
        body.explicitinertial = True
        body.mass, body.inertia = model.body_mass[index], model.body_inertia[index]
        body.ipos, body.iquat = model.body_ipos[index], model.body_iquat[index]
        body.fullinertia = np.full(6, np.nan)
    for elements in (spec.lights, spec.cameras, spec.sites, spec.geoms):
        for element in list(elements):
            spec.delete(element)
    lean = spec.compile()
    lean.opt.disableflags = model.opt.disableflags
    # The energy is only reported.
    lean.opt.enableflags = model.opt.enableflags & ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    return lean


def _moves_alike(model: mujoco.MjModel, other: mujoco.MjModel) -> bool:
    """Compare two models bit for bit from random states, many of them beyond joint limits."""
    sizes = [(m.nq, m.nv, m.na, m.nu, m.npluginstate, m.opt.timestep) for m in (model, other)]
    if sizes[0] != sizes[1] or model.npluginstate:
        return False
    rng = np.random.default_rng(0)
    simulators = [Simulator(m, threads=1) for m in (model, other)]
    states: FloatArray = np.zeros((8, simulators[0].own_size))
    states[:, 1:] = rng.uniform(-np.pi, np.pi, (len(states), states.shape[1] - 1))
    for _ in range(25):
        controls = rng.uniform(-1.5, 1.5, (len(states), model.nu))
        states, others = (simulator.step(states, controls) for simulator in simulators)
        if not np.array_equal(states, others):
            return False
    return True
