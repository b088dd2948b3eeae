"""A puck that must be brought to rest at the origin, and models of it with a known fault."""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from pytest_cpg.contracts import BoxActions
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.world_models import OracleDynamics

WHIRL_RADIUS = 2.5


def _length(vectors):
    """Return `numpy.linalg.norm` of pairs along the last axis, in a quarter of its time."""
    x, y = vectors[..., 0], vectors[..., 1]
    return np.sqrt(x * x + y * y)


def _after(states, actions, *, whirl=0.25, gain=1.0):
    """Return where a push leads: a whirl near the origin turns the puck aside."""
    x, y = states[..., 0], states[..., 1]
    radius = np.maximum(_length(states), 1e-9)
    is_near = radius < WHIRL_RADIUS
    pushed = 0.85 * states[..., 2:] + 0.3 * gain * actions
    pushed[..., 0] += whirl * (-y / radius) * is_near
    pushed[..., 1] += whirl * (x / radius) * is_near
    return np.concatenate([states[..., :2] + pushed, pushed], axis=-1)


@dataclass(frozen=True)
class Puck:
    """Bring a puck to rest at the origin. A state is what is observed: place and speed, [4]."""

    budget: int = 40
    name: str = "puck"
    observation_size: int = 4
    control_period: float = 0.1
    versions: dict[str, str] = field(default_factory=dict)
    actions = BoxActions(np.array([-1.0, -1.0]), np.array([1.0, 1.0]))

    def reset(self, seeds):
        states = []
        for seed in seeds:
            angle, radius = np.random.default_rng(seed).uniform([0.0, 4.0], [2 * np.pi, 6.0])
            states.append([radius * np.cos(angle), radius * np.sin(angle), 0.0, 0.0])
        return np.array(states)

    def step(self, states, actions):
        return _after(states, actions)

    def rollout(self, states, actions):
        after = np.empty((*actions.shape[:2], 4))
        for t in range(actions.shape[1]):
            states = after[:, t] = _after(states, actions[:, t])
        return after

    def observe(self, states):
        return states

    def score(self, observations):
        return _length(observations) + _length(observations[..., 2:])

    def reward(self, states, actions):
        return (self.score(states) < 0.7).astype(float)

    def success(self, states, actions):
        return self.reward(states, actions) > 0.5


def noise(values):
    """Return numbers that look random, within (-1, 1), of the numbers they are made from."""
    return (
        2 * np.modf(np.abs(np.sin(values * 12.9898 + values[..., ::-1] * 78.233) * 43758.5453))[0]
        - 1
    )


def perfect(observations, actions):
    return _after(observations, actions)


def slightly_noisy(observations, actions):
    return _after(observations, actions) + 0.01 * noise(observations)


def slightly_weak(observations, actions):
    return _after(observations, actions, gain=0.95)


def noisy_near_the_goal(observations, actions):
    after = _after(observations, actions)
    is_near = _length(observations)[:, None] < WHIRL_RADIUS
    return after + 1.5 * is_near * noise(after)


def far_from_the_goal(count=4000, seed=0):
    """Return observations [T, 4] of which none is within the whirl."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, count), rng.uniform(WHIRL_RADIUS + 0.1, 7, count)
    speeds = rng.uniform(-1.6, 1.6, (count, 2))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), speeds])


def everywhere(count=6000, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(-7, 7, (count, 2)), rng.uniform(-1.6, 1.6, (count, 2))])


def fitted_far_from_the_goal():
    """Return a linear model of transitions that never saw the whirl."""
    observations = far_from_the_goal()
    actions = np.random.default_rng(1).uniform(-1, 1, (len(observations), 2))
    inputs = np.column_stack([observations, actions])
    weights, *_ = np.linalg.lstsq(inputs, _after(observations, actions), rcond=None)
    return lambda observations, actions: np.column_stack([observations, actions]) @ weights


def heavy(observations, actions):
    return _after(observations, actions, gain=0.15)


def light(observations, actions):
    return _after(observations, actions, gain=5.0)


def mirrored(observations, actions):
    return _after(observations, actions, gain=-1.0)


def deaf(observations, actions):
    return _after(observations, np.zeros_like(actions))


def nearly_deaf(observations, actions):
    return _after(observations, 0.02 * actions)


def drifting(observations, actions):
    return _after(observations, actions) + np.array([0.0, 0.0, 0.35, -0.35])


class Late:
    """Every action acts some steps late, and nothing acts before."""

    def __init__(self, delay=3):
        self.delay = delay

    def rollout(self, latents, actions):
        late = np.zeros_like(actions)
        late[:, self.delay :] = actions[:, : -self.delay]
        return Puck().rollout(latents, late)


class Growing:
    """Hidden dimensions [2] of the latents begin at nothing and double at every step."""

    def encode(self, observations):
        return np.concatenate([observations, np.zeros((len(observations), 2))], axis=-1)

    def rollout(self, latents, actions):
        true = Puck().rollout(latents[:, :4], actions)
        error = np.zeros((len(latents), 2))
        imagined = np.empty((*actions.shape[:2], 6))
        for t in range(actions.shape[1]):
            error = 1.9 * error + 0.02 * noise(true[:, t, :2] + actions[:, t])
            imagined[:, t] = np.concatenate([true[:, t], error], axis=-1)
            imagined[:, t, :2] += error
        return imagined

    def decode(self, latents):
        return latents[..., :4]


def bewitched(observations, actions):
    """Return the truth but for a corner of the actions, where the goal seems to be reached."""
    is_corner = (actions > 0.95).all(axis=-1, keepdims=True)
    return np.where(is_corner, 0.0, _after(observations, actions))


def wormhole(observations, actions):
    """Return the truth but for a hole far from the goal, which seems to lead there."""
    after = _after(observations, actions)
    is_hole = _length(after[..., :2] - [4.0, 0.0])[..., None] < 1.0
    return np.where(is_hole, 0.0, after)


class OwnScore:
    """The true dynamics with a score of their own."""

    def __init__(self, goal=(0.0, 0.0), sign=1.0):
        self.goal, self.sign = np.array(goal), sign

    def rollout(self, latents, actions):
        return Puck().rollout(latents, actions)

    def score(self, latents):
        places = _length(latents[..., :2] - self.goal)
        return self.sign * (places + _length(latents[..., 2:]))


class Bonus(OwnScore):
    """The true dynamics with a score that likes a region away from the goal."""

    def score(self, latents):
        away = _length(latents[..., :2] - [3.0, 3.0])
        return super().score(latents) - 8 * np.maximum(0, 1 - away / 1.5)


class OwnReward:
    """Dynamics with a reward of their own, of nearness to a goal."""

    discount = 0.99

    def __init__(self, dynamics=_after, goal=(0.0, 0.0)):
        self.dynamics, self._distance = dynamics, OwnScore(goal=goal).score

    def rollout(self, latents, actions):
        after = np.empty((*actions.shape[:2], 4))
        for t in range(actions.shape[1]):
            latents = after[:, t] = self.dynamics(latents, actions[:, t])
        return after

    def reward(self, latents, actions, reached):
        return np.exp(-self._distance(reached))


class Remembering:
    """Reads places alone, and knows speeds by what it remembers of the last place."""

    def __init__(self, dynamics=_after):
        self.dynamics = dynamics

    def encode(self, observations):
        return np.concatenate([observations[:, :2], np.zeros((len(observations), 2))], axis=1)

    def update(self, latents, actions, observations):
        places = observations[:, :2]
        return np.concatenate([places, places - latents[:, :2]], axis=1)

    def rollout(self, latents, actions):
        return OwnReward(self.dynamics).rollout(latents, actions)


class RememberingReward(Remembering):
    """The same, with rewards."""

    discount = 0.99

    def reward(self, latents, actions, reached):
        return OwnReward().reward(latents, actions, reached)


class Drawing:
    """Dynamics with noise drawn for every step."""

    noise_size = 4

    def __init__(self, deviation, dynamics=_after):
        self.deviation, self.dynamics = deviation, dynamics

    def __call__(self, observations, actions, noise):
        return self.dynamics(observations, actions) + self.deviation * noise


@dataclass(frozen=True, eq=False)
class Fault:
    """A model, what it was trained on, and the cause to name; ``beside`` is acceptable."""

    learned: object
    cause: str
    trained_on: object = None
    planner: object = None
    is_harmless: bool = False
    beside: str = "NONE"


@cache
def faults():
    """Return every constructed fault, and models without one, by what is wrong with them."""
    weak = RandomShooting(candidates=4, horizon=8)
    by_return = CEM(horizon=10, samples=48, elites=8, iterations=3, objective="sum", execute=1)
    return {
        "noise beyond a region": Fault(noisy_near_the_goal, "COVERAGE", far_from_the_goal()),
        "truncated training data": Fault(
            fitted_far_from_the_goal(), "COVERAGE", far_from_the_goal(), beside="LOCAL ERROR"
        ),
        "noise beyond a region, without the data": Fault(noisy_near_the_goal, "LOCAL ERROR"),
        "truncated training data, without it": Fault(fitted_far_from_the_goal(), "LOCAL ERROR"),
        "a region wrong in spite of data there": Fault(
            noisy_near_the_goal, "LOCAL ERROR", everywhere()
        ),
        "mass too large": Fault(heavy, "DYNAMICS BIAS", everywhere()),
        "mass too small": Fault(light, "DYNAMICS BIAS", everywhere()),
        "mirrored actions": Fault(mirrored, "DYNAMICS BIAS", everywhere()),
        "constant drift": Fault(drifting, "DYNAMICS BIAS"),
        "actions 3 steps late": Fault(Late(), "DYNAMICS BIAS"),
        "ignored actions": Fault(deaf, "ACTION BLIND", everywhere()),
        "actions at a fiftieth": Fault(nearly_deaf, "ACTION BLIND"),
        "growing hidden error": Fault(Growing(), "COMPOUNDING ERROR"),
        "a corner of actions that seems to win": Fault(bewitched, "EXPLOITATION", everywhere()),
        "score with a goal elsewhere": Fault(OwnScore(goal=(3.0, 0.0)), "SCORE HEAD"),
        "score with the wrong sign": Fault(OwnScore(sign=-1.0), "SCORE HEAD"),
        "rewards for a goal elsewhere": Fault(
            OwnReward(goal=(3.0, 0.0)), "SCORE HEAD", planner=by_return
        ),
        "mirrored actions, with rewards": Fault(
            OwnReward(mirrored), "DYNAMICS BIAS", planner=by_return
        ),
        "constant drift, with a memory": Fault(Remembering(drifting), "DYNAMICS BIAS"),
        "ignored actions, memory and rewards": Fault(
            RememberingReward(deaf), "ACTION BLIND", planner=by_return
        ),
        "noise as large as three pushes": Fault(Drawing(0.9), "NOISE", everywhere()),
        "mirrored actions, with some noise": Fault(
            Drawing(0.05, mirrored), "DYNAMICS BIAS", everywhere()
        ),
        "ignored actions, with noise": Fault(Drawing(0.3, deaf), "ACTION BLIND", beside="NOISE"),
        "planner with 4 short plans": Fault(perfect, "PLANNER", planner=weak),
        "none: perfect": Fault(perfect, "NONE", everywhere(), is_harmless=True),
        "none: perfect with its own score": Fault(OwnScore(), "NONE", is_harmless=True),
        "none: perfect with rewards": Fault(
            OwnReward(), "NONE", planner=by_return, is_harmless=True
        ),
        "none: perfect with a memory": Fault(Remembering(), "NONE", everywhere(), is_harmless=True),
        "none: slightly noisy": Fault(slightly_noisy, "NONE", everywhere(), is_harmless=True),
        "none: a little drawn noise": Fault(Drawing(0.02), "NONE", everywhere(), is_harmless=True),
        "none: mass 5 % too large": Fault(slightly_weak, "NONE", is_harmless=True),
    }


def design_of(fault, *, seed=0, episodes=16):
    """Return the design of a gate on this fault."""
    planner = fault.planner or CEM(horizon=10, samples=48, elites=8, iterations=3)
    return Design(
        task=Puck(),
        planner=planner,
        episodes=episodes,
        seed=seed,
    )


@cache
def judged(fault, **options):
    """Return design, result and oracle of a gate on this fault; options are of `design_of`."""
    design = design_of(fault, **options)
    oracle = OracleDynamics(design.task)
    return design, measure_gap(design, oracle=oracle, learned=fault.learned), oracle


def named(fault, *, seed=0, episodes=16, verdict=None):
    """Return the diagnosis of a gate on this fault, as if it had had another verdict if told so."""
    design, result, oracle = judged(fault, seed=seed, episodes=episodes)
    if verdict is not None:
        result = replace(result, verdict=verdict)
    return diagnose(
        design,
        oracle=oracle,
        learned=fault.learned,
        result=result,
        training_data=fault.trained_on,
    )
