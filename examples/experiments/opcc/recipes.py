"""Recipes: logged data of the published environments, made here by stated mixtures of policies.

D4RL's own files are not used. Ours are of the same kinds, and but for `random` and in mazes share
their policies with the queries, if disturbed; a model sees the worlds that it is asked about.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from point_maze import PointMaze
from worlds import gym_body

from pytest_cpg.planners.policies import TanhNetwork
from pytest_cpg.world_models import Transitions

# Steps after which a new episode is begun, and those of a maze that an exploring push lasts.
EPISODE, PUSH = 250, 12
# Deviation of the noise on a policy's weights, in deviations of each layer's, and on its actions.
WEIGHT_NOISE, ACTION_NOISE = (0.0, 0.2, 0.5), (0.05, 0.2, 0.5)


@dataclass(frozen=True)
class Recipe:
    """Who acts: a share of uniform actions, and policies, the best of which is 1."""

    random: float
    policies: tuple[int, ...]
    weight_noise: tuple[float, ...] = (0.2,)
    action_noise: tuple[float, ...] = (0.1,)


RECIPES = {
    "random": Recipe(1.0, ()),
    "medium": Recipe(0.0, (2,)),
    "expert": Recipe(0.0, (1,)),
    "medium-expert": Recipe(0.0, (1, 2)),
    "mixed": Recipe(0.2, (1, 2, 3, 4), WEIGHT_NOISE, ACTION_NOISE),
}


@lru_cache(maxsize=1)
def collected(queries, recipe, count, seed):
    """Return so many transitions of a recipe, with rewards and terminations."""
    rng = np.random.default_rng([seed, list(RECIPES).index(recipe)])
    if queries.environment.startswith("maze-"):
        return of_maze(PointMaze(queries.environment.removeprefix("maze-")), count, rng)
    return of_body(gym_body(queries.environment), queries.policies, RECIPES[recipe], count, rng)


def of_body(simulator, policies, recipe, count, rng):
    """Return transitions of a body of MuJoCo's; the last of an episode keeps where it led to."""
    rows = []
    while len(rows) < count:
        act = actor(policies, recipe, simulator.model.nu, rng)
        observation, _ = simulator.reset(seed=int(rng.integers(2**31)))
        for _ in range(EPISODE):
            action = np.clip(act(observation), -1, 1).astype(np.float32)
            after, reward, is_over, *_ = simulator.step(action)
            rows.append((observation, action, after, reward, is_over))
            observation = after
            if is_over or len(rows) == count:
                break
    simulator.close()
    return joined(rows)


def actor(policies, recipe, size, rng):
    """Return who acts in one episode: maps an observation [O] to an action [A]."""
    if rng.random() < recipe.random:
        return lambda _: rng.uniform(-1, 1, size)
    policy = policies[rng.choice(recipe.policies) - 1]
    spread, noise = rng.choice(recipe.weight_noise), rng.choice(recipe.action_noise)
    disturbed = TanhNetwork(
        weights=[w + spread * w.std() * rng.standard_normal(w.shape) for w in policy.weights],
        biases=policy.biases,
    )
    return lambda observation: (
        disturbed.act(observation[None])[0] + noise * rng.standard_normal(size)
    )


def of_maze(maze, count, rng):
    """Return transitions of balls in a maze that are pushed at random, from everywhere.

    Many are slow: without them, nobody sees what a policy does that stays at the goal.
    """
    balls = 1000
    free = np.argwhere(maze.cells != "#")
    cells = free[rng.integers(len(free), size=balls)]
    speeds = rng.uniform(-5, 5, (balls, 2)) * rng.random((balls, 1)) ** 2
    # A cell's centre is 0.2 below its number, in the joints' own coordinates.
    states = np.concatenate([cells - 0.2 + rng.uniform(-0.4, 0.4, (balls, 2)), speeds], axis=1)
    parts = []
    for step in range(-(-count // balls)):
        if step % PUSH == 0:
            pushes = rng.uniform(-1, 1, (balls, 2)) * rng.random((balls, 1))
        actions = np.clip(pushes + 0.3 * rng.standard_normal((balls, 2)), -1, 1)
        after = maze.step(states, actions)
        parts.append((states, actions, after, maze.reward(after), np.zeros(balls, dtype=bool)))
        states = after
    arrays = [np.concatenate(part)[:count] for part in zip(*parts, strict=True)]
    return transitions(arrays)


def joined(rows):
    return transitions([np.array(part) for part in zip(*rows, strict=True)])


def transitions(arrays):
    names = ("observations", "actions", "next_observations", "rewards", "terminations")
    return Transitions(**dict(zip(names, arrays, strict=True)))
