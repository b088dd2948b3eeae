"""Networks that plan badly for a known reason: the one that mends the plan when it is changed.

A rung is a network trained with too little of something, or in a world with a wrong constant. Its
cures are tried: the same network with four times the transitions, four times the gradient steps,
four times the width, or the right constant, one at a time.
"""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from pytest_cpg.contracts import BoxActions
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import CEM
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import OracleDynamics, collect_transitions, train_mlp

EPISODES = 50
MORE = 4
# Of the starts that were lost: what wins fewer back does not mend the plan.
LEAST_MENDED = 1 / 3
CURES = {
    "TOO LITTLE DATA": {"data"},
    "COVERAGE": {"data"},
    "UNDERFIT": {"training", "width"},
    "DYNAMICS BIAS": {"constant"},
    "ACTION SCALE": {"constant"},
}


@dataclass(frozen=True)
class _Vehicle:
    """Something that is pushed to the origin; what it is, is in `step`. Constants may be wrong."""

    budget: int = 50
    control_period: float = 0.1
    versions: dict[str, str] = field(default_factory=dict)
    near: float = 0.5
    gain: float = 1.0
    drag: float = 0.15
    wind: float = 0.0
    actions = BoxActions(-np.ones(2), np.ones(2))

    @property
    def name(self):
        return type(self).__name__.lower()

    def rollout(self, states, actions):
        after = np.empty((*actions.shape[:2], states.shape[1]))
        for t in range(actions.shape[1]):
            states = after[:, t] = self.step(states, actions[:, t])
        return after

    def score(self, observations):
        places, speeds = observations[..., :2], observations[..., self.speeds]
        return np.hypot(*np.moveaxis(places, -1, 0)) + 0.4 * np.hypot(*np.moveaxis(speeds, -1, 0))

    def reward(self, states, actions):
        return (self.score(self.observe(states)) < self.near).astype(float)

    def success(self, states, actions):
        return self.reward(states, actions) > 0.5


def _around(seed, *, nearest, farthest):
    """Return a place around the origin, and a heading."""
    low, high = [0, nearest, 0], [2 * np.pi, farthest, 2 * np.pi]
    angle, radius, heading = np.random.default_rng(seed).uniform(low, high)
    return [radius * np.cos(angle), radius * np.sin(angle), heading]


@dataclass(frozen=True)
class Hills(_Vehicle):
    """A puck on hills: places and speeds, [4]."""

    drag: float = 0.4
    observation_size: int = 4
    speeds = slice(2, 4)

    def reset(self, seeds):
        starts = [_around(seed, nearest=3, farthest=5) for seed in seeds]
        return np.array([[x, y, 0, 0] for x, y, _ in starts])

    def step(self, states, actions):
        x, y = states[..., 0], states[..., 1]
        slope = [
            np.sin(0.5 * x + 0.5) * np.cos(0.3 * y),
            np.cos(0.4 * x) * np.sin(0.6 * y - 0.3),
        ]
        speeds = (1 - self.drag) * states[..., 2:] + 0.3 * self.gain * actions
        speeds = speeds + 0.09 * np.stack(slope, axis=-1) + [self.wind, 0]
        return np.concatenate([states[..., :2] + speeds, speeds], axis=-1)

    def observe(self, states):
        return states


@dataclass(frozen=True)
class Rocket(_Vehicle):
    """A rocket that is turned and pushed along its heading: [6], of which 7 are observed."""

    observation_size: int = 7
    speeds = slice(4, 6)

    def reset(self, seeds):
        starts = [_around(seed, nearest=2, farthest=4) for seed in seeds]
        return np.array([[*start, 0, 0, 0] for start in starts])

    def step(self, states, actions):
        heading, push = states[..., 2], 0.2 * self.gain * actions[..., 0]
        pushes = np.stack([push * np.cos(heading), push * np.sin(heading)], axis=-1)
        speeds = (1 - self.drag) * states[..., 3:5] + pushes + [self.wind, 0]
        turn = 0.7 * states[..., 5] + 0.25 * self.gain * actions[..., 1]
        places = states[..., :2] + speeds
        columns = [places, (heading + turn)[..., None], speeds, turn[..., None]]
        return np.concatenate(columns, axis=-1)

    def observe(self, states):
        heading = states[..., 2:3]
        return np.concatenate(
            [states[..., :2], np.cos(heading), np.sin(heading), states[..., 3:]], axis=-1
        )


@dataclass(frozen=True)
class Crane(_Vehicle):
    """A load that hangs from a cart: place, angle and speeds, [4], of which 5 are observed."""

    observation_size: int = 5
    near: float = 0.3
    actions = BoxActions(-np.ones(1), np.ones(1))

    def reset(self, seeds):
        rngs = map(np.random.default_rng, seeds)
        return np.array([[*rng.uniform([-3, -1], [3, 1]), 0, 0] for rng in rngs])

    def step(self, states, actions):
        x, angle, speed, turn = np.moveaxis(states, -1, 0)
        push = 0.2 * self.gain * actions[..., 0] + self.wind
        speed = (1 - self.drag) * speed + push
        turn = 0.98 * turn - 0.3 * np.sin(angle) - 1.5 * push * np.cos(angle)
        return np.stack([x + speed, angle + turn, speed, turn], axis=-1)

    def observe(self, states):
        x, angle, speed, turn = np.moveaxis(states, -1, 0)
        return np.stack([x, np.cos(angle), np.sin(angle), speed, turn], axis=-1)

    def score(self, observations):
        x, _, sine, speed, turn = np.moveaxis(observations, -1, 0)
        return np.abs(x) + 0.3 * np.hypot(sine, turn) + 0.3 * np.abs(speed)


@dataclass(frozen=True)
class Rung:
    """How a network is made: transitions, gradient steps, width, and which constant is wrong."""

    world: str
    rows: int
    steps: int
    hidden: int
    constant: str = ""

    def cures(self):
        """Return the same with one thing changed, by what that is."""
        found = {
            "data": replace(self, rows=MORE * self.rows),
            "training": replace(self, steps=MORE * self.steps),
            "width": replace(self, hidden=MORE * self.hidden),
        }
        return found | ({"constant": replace(self, constant="")} if self.constant else {})


# Wrong in the world that the transitions are from.
CONSTANTS = {
    "hills": {"gain": {"gain": 2.5}, "offset": {"wind": 0.3}},
    "rocket": {"gain": {"gain": 0.4}, "offset": {"wind": 0.12}},
    "crane": {"gain": {"gain": 0.4}, "offset": {"wind": 0.12}},
}
# Transitions, gradient steps, width: too few, too few, too narrow; then with a wrong constant.
_NETWORKS = {
    "hills": [(64, 600, 32), (100, 600, 32), (150, 600, 32), (4000, 300, 32), (8000, 300, 32)],
    "rocket": [(56, 600, 32), (80, 600, 32), (1000, 150, 32), (4000, 150, 32), (4000, 600, 4)],
    "crane": [(1000, 100, 32), (4000, 100, 32), (1000, 600, 4), (4000, 600, 4)],
}
RUNGS = tuple(
    Rung(world, *numbers)
    for world, networks in _NETWORKS.items()
    for numbers in [*networks, *((4000, 1200, 32, name) for name in CONSTANTS[world])]
)


@cache
def design_of(world):
    """Return the design of a gate in a world."""
    task = {"hills": Hills, "rocket": Rocket, "crane": Crane}[world]()
    planner = CEM(horizon=10, samples=48, elites=8, iterations=3)
    return Design(task=task, planner=planner, episodes=EPISODES, seed=0)


@cache
def trained(rung, seed):
    """Return the transitions of a rung, and its network."""
    task = replace(design_of(rung.world).task, **CONSTANTS[rung.world].get(rung.constant, {}))
    data = collect_transitions(task, count=rung.rows, seed=seed, episode_steps=25, policy="held-2")
    return data, train_mlp(data, seed=seed, epochs=10**6, steps=rung.steps, hidden=rung.hidden)


@cache
def judged(rung, seed):
    """Return the result of a rung's gate."""
    design = design_of(rung.world)
    oracle = OracleDynamics(design.task)
    return measure_gap(design, oracle=oracle, learned=trained(rung, seed)[1])


@cache
def advised(rung, seed):
    """Return the name of what a rung's gate says is to be mended first, and the diagnosis."""
    design, (data, model) = design_of(rung.world), trained(rung, seed)
    found = diagnose(
        design,
        oracle=OracleDynamics(design.task),
        learned=model,
        result=judged(rung, seed),
        training_data=data,
    )
    return found.misreading.name if found.is_misread else found.named, found


def has_gap(rung, seed):
    return judged(rung, seed).verdict == Verdict.MODEL_BOTTLENECK


def mends(rung, seed, cure):
    """Say whether a cure wins back a third of a rung's lost starts or more."""
    lost = len(judged(rung, seed).lost_episodes)
    left = len(judged(rung.cures()[cure], seed).lost_episodes)
    return 1 - left / lost >= LEAST_MENDED


def outcome(rung, seed):
    """Return what is advised, and whether that mends the plan; None where no cure does."""
    name, _ = advised(rung, seed)
    named = CURES.get(name, set()) & set(rung.cures())
    if any(mends(rung, seed, cure) for cure in sorted(named)):
        return name, True
    others = sorted(set(rung.cures()) - named)
    return name, False if any(mends(rung, seed, cure) for cure in others) else None
