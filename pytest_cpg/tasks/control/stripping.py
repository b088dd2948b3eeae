"""Stripping: a model without what is only seen, whose motion is the same to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.control.simulator import Simulator


def strip_visuals(model: mujoco.MjModel, xml: str, includes: Mapping[str, bytes]) -> mujoco.MjModel:
    """Return a faster model with the same motion to the last bit, or the model itself.

    What is only seen, and geoms where nothing can touch, cost a quarter of a small model's step.

    Parameters
    ----------
    includes : mapping
        Content of the files that the XML includes, by name.
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
