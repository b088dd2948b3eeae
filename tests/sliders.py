"""A puck on a line whose speed is not seen, and models of it: with memory, noise, rewards."""

from dataclasses import dataclass, field

import numpy as np

from pytest_cpg.contracts import FiniteActions


@dataclass(frozen=True)
class Slider:
    """Stop at 0; the state is position and speed, both whole, and only the position is seen."""

    budget: int = 18
    name: str = "slider"
    observation_size: int = 1
    control_period: float = 0.1
    versions: dict[str, str] = field(default_factory=dict)
    actions = FiniteActions(np.array([[-1.0], [0.0], [1.0]]))

    def reset(self, seeds):
        rngs = [np.random.default_rng(int(seed)) for seed in seeds]
        return (
            np.array([[r.choice([-1, 1]) * r.integers(4, 9), r.integers(-2, 3)] for r in rngs])
            * 1.0
        )

    def step(self, states, actions):
        speed = np.clip(states[..., 1] + actions[..., 0], -3, 3)
        return np.stack([states[..., 0] + speed, speed], axis=-1)

    def rollout(self, states, actions):
        after = np.empty((*actions.shape[:2], 2))
        for t in range(actions.shape[1]):
            after[:, t] = states = self.step(states, actions[:, t])
        return after

    def observe(self, states):
        return states[..., :1]

    def score(self, observations):
        return np.abs(observations[..., 0])

    def reward(self, states, actions):
        return np.where(states[..., 0] == 0, 1.0, 0.0)

    def success(self, states, actions):
        return self.reward(states, actions) == 1


class Forgetful:
    """Knows the dynamics, and takes every puck that it sees for one that rests."""

    def encode(self, observations):
        return np.pad(observations, ((0, 0), (0, 1)))

    def rollout(self, latents, actions):
        return Slider().rollout(latents, actions)

    def decode(self, latents):
        return latents[..., :1]


class Rewarding(Forgetful):
    """Pays for the place it is in when it acts."""

    discount = 0.5

    def reward(self, latents, actions):
        return -np.abs(latents[..., 0]) - 0.1 * np.abs(actions[..., 0])


class Valuing(Rewarding):
    def terminal_value(self, latents):
        return -2 * np.abs(latents[:, 0])


class Arriving(Forgetful):
    """Pays for the place it arrives at."""

    def reward(self, latents, actions, reached):
        return latents[..., 0] - reached[..., 0]


class Remembering(Forgetful):
    """The same with a memory: after one step the speed is known."""

    def update(self, latents, actions, observations):
        return np.concatenate([observations, observations - latents[:, :1]], axis=1)


class Scoring(Remembering):
    """Rates by the distance to a place of its own, which is 0 unless it is told another."""

    def __init__(self, goal=0.0):
        self.goal = goal

    def score(self, latents):
        return np.abs(latents[..., 0] - self.goal)


class Nested(Remembering):
    """The same, whose state is a dict of a pair and a counter."""

    def encode(self, observations):
        return {
            "puck": (observations.astype(np.float32), np.zeros_like(observations)),
            "count": np.zeros(len(observations), dtype=np.int64),
        }

    def update(self, latents, actions, observations):
        assert latents["count"].dtype == np.int64
        place, _ = latents["puck"]
        assert place.dtype == np.float32
        return {"puck": (observations, observations - place), "count": latents["count"] + 1}

    def rollout(self, latents, actions):
        after = Slider().rollout(np.concatenate(latents["puck"], axis=-1), actions)
        count = latents["count"][:, None] + np.arange(1, actions.shape[1] + 1)
        return {"puck": (after[..., :1], after[..., 1:]), "count": count}

    def decode(self, latents):
        return latents["puck"][0]


class Slippery(Remembering):
    """A stochastic model: each imagined push is somewhat stronger or weaker."""

    noise_size = 1

    def rollout(self, latents, actions, noise):
        return Slider().rollout(latents, actions + 0.3 * noise)
