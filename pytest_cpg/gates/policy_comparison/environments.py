"""Environments: the worlds of the published queries, as far as they are formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import numpy as np

from pytest_cpg.contracts import BoolArray, BoxActions, ComponentError, FloatArray
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates.policy_comparison.point_maze import MAZES, PointMaze

# Beyond this a body of MuJoCo's counts as lost (gym's Hopper-v2).
_LOST = 100.0
# How the observed speeds of Hopper and Walker2d are limited.
_FASTEST = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is known of a world by name.

    Attributes
    ----------
    state_size, observation_size : int
        Numbers in a state, which is positions and velocities, and in an observation.
    observe : callable
        Maps states [..., S] to observations [..., O].
    terminated : callable
        Says of observations [..., O] where an episode ends: bool [...]. The reward of the step
        that led there counts.
    maze : PointMaze or None
        The world itself where plain numpy is enough for it.
    body : str
        Its id in gymnasium, of the version that is nearest to the one published; empty for a maze.
    alive, effort : float
        Of a body's reward, which is its speed: what each step adds, and what each squared action
        takes.
    """

    name: str
    state_size: int
    observation_size: int
    actions: BoxActions = field(repr=False)
    observe: Callable[[FloatArray], FloatArray] = field(repr=False)
    terminated: Callable[[FloatArray], BoolArray] = field(repr=False)
    maze: PointMaze | None = field(default=None, repr=False)
    body: str = ""
    alive: float = 0.0
    effort: float = 0.0


def environment(name: str) -> Environment:
    """Return what is known of a published environment, or raise ComponentError with its names."""
    if name not in ENVIRONMENTS:
        raise ComponentError(
            f"no published environment is named {name!r}. {did_you_mean(name, ENVIRONMENTS)}"
        )
    return ENVIRONMENTS[name]


def _without_place(fastest: float, states: FloatArray) -> FloatArray:
    """Leave the place along the track out of states [..., S], and limit velocities."""
    size = states.shape[-1] // 2
    velocities = np.clip(states[..., size:], -fastest, fastest)
    return np.concatenate([states[..., 1:size], velocities], axis=-1)


def _never(observations: FloatArray) -> BoolArray:
    return np.zeros(observations.shape[:-1], dtype=np.bool_)


def _hopper_fell(observations: FloatArray) -> BoolArray:
    """Say where Hopper-v2 ends: too low, too far tilted, or lost."""
    height, angle = observations[..., 0], observations[..., 1]
    # NaN fails every comparison, and so it ends an episode too.
    stands = (height > 0.7) & (np.abs(angle) < 0.2)
    return np.asarray(~(stands & (np.abs(observations[..., 1:]) < _LOST).all(axis=-1)))


def _walker_fell(observations: FloatArray) -> BoolArray:
    """Say where Walker2d-v2 ends: too low, too high or too far tilted."""
    height, angle = observations[..., 0], observations[..., 1]
    return np.asarray(~((height > 0.8) & (height < 2.0) & (np.abs(angle) < 1.0)))


def _unit(size: int) -> BoxActions:
    return BoxActions(-np.ones(size), np.ones(size))


def _maze(name: str) -> Environment:
    return Environment(
        name=f"maze-{name}",
        state_size=4,
        observation_size=4,
        actions=_unit(2),
        observe=partial(np.array, dtype=np.float64),
        terminated=_never,
        maze=PointMaze(layout=MAZES[name]),
    )


_BODIES = (
    Environment(
        name="hopper",
        state_size=12,
        observation_size=11,
        actions=_unit(3),
        observe=partial(_without_place, _FASTEST),
        terminated=_hopper_fell,
        body="Hopper-v4",
        alive=1.0,
        effort=1e-3,
    ),
    Environment(
        name="halfcheetah",
        state_size=18,
        observation_size=17,
        actions=_unit(6),
        observe=partial(_without_place, np.inf),
        terminated=_never,
        body="HalfCheetah-v4",
        effort=0.1,
    ),
    Environment(
        name="walker2d",
        state_size=18,
        observation_size=17,
        actions=_unit(6),
        observe=partial(_without_place, _FASTEST),
        terminated=_walker_fell,
        body="Walker2d-v4",
        alive=1.0,
        effort=1e-3,
    ),
)
ENVIRONMENTS: Mapping[str, Environment] = MappingProxyType(
    {one.name: one for one in (*_BODIES, *map(_maze, MAZES))}
)
"""The published environments by name."""
