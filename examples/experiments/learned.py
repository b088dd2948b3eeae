"""Learned models of the published experiments, by the name that a gate's `learned` has.

- ``random-data``: our MLP, of the published size, on transitions of random actions.
- ``published-network``: the published MLP with its own data: it reads a code of each torque, and
  keeps its last weights. From the published start alone.
- ``policy-data``: the published network on 20 000 transitions that a TD-MPC2's policy has led to.
- ``tdmpc2``: that TD-MPC2, its latents carried on and decoded for the task's own score.
- ``re-encoded``: the same weights and decoder, but each imagined step decodes an observation and
  the next begins from it, as published.
- ``rewards``: the same weights, which rate plans by their own rewards and values.
- ``latent``: a DreamerV3, its latents carried on and decoded for the task's own score.
- ``one-frame``: the same weights, but re-encoded after each step, without memory, as published.
"""

import functools
import random

import numpy as np
import torch
from train_dreamer import CLASSES
from train_dreamer import checkpoint as dreamer_checkpoint
from train_tdmpc2 import GROUP, checkpoint, discount_of, observations

from pytest_cpg.world_models import (
    TDMPC2,
    Decoded,
    DreamerV3,
    Transitions,
    collect_transitions,
    fit_decoder,
    train_mlp,
)

EPISODE, POLICY_EPISODE, POLICY_DATA, HIDDEN = 200, 500, 20_000, 64


@functools.cache
def random_data(task, *, transitions, seed, starts):
    """Return the MLP on transitions of random actions, from the gate's kind of starts."""
    if starts == "fixed":
        data = shaken_transitions(task, count=transitions, seed=seed)
    else:
        data = collect_transitions(task, count=transitions, seed=seed, episode_steps=EPISODE)
    return train_mlp(data, seed=seed, variant="plain")


def shaken_transitions(task, *, count, seed):
    """Return transitions of random actions that all begin where the published episodes do."""
    episodes = -(-count // EPISODE)
    starts = task.reset(np.zeros(episodes, dtype=np.int64))
    rngs = [np.random.default_rng([seed, episode]) for episode in range(episodes)]
    actions = task.actions.sample(rngs, (EPISODE,))
    after = task.observe(task.rollout(starts, actions))
    before = np.concatenate([task.observe(starts)[:, None], after[:, :-1]], axis=1)
    before, actions, after = (
        arrays.reshape(episodes * EPISODE, -1)[:count] for arrays in (before, actions, after)
    )
    return Transitions(observations=before, actions=actions, next_observations=after)


class CodedActions(torch.nn.Module):
    """A network that reads an observation and a code of the action: one column for each."""

    def __init__(self, observation_size, values):
        super().__init__()
        size = observation_size + len(values)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(size, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, observation_size),
        )
        self.register_buffer("values", torch.tensor(values, dtype=torch.float32))

    def forward(self, observations, actions):
        away = (actions[:, None] - self.values).abs().sum(dim=-1)
        code = torch.nn.functional.one_hot(away.argmin(dim=-1), len(self.values))
        return self.network(torch.cat([observations, code.to(observations.dtype)], dim=-1))


@functools.cache
def published_network(task, *, transitions, seed):
    """Return the published network, trained as published, and its validation error."""
    return coded_network(published_rows(task, count=transitions, seed=seed), task, seed=seed)


def published_rows(task, *, count, seed):
    """Return observations, actions and what came of them [T, ...], from the published start.

    As published, Python's generator draws torques by their place, from the lowest on.
    """
    levels, episodes, drawn = levels_of(task), count // EPISODE, random.Random(seed)  # noqa: S311
    places = [drawn.randrange(len(levels)) for _ in range(episodes * EPISODE)]
    actions = levels[places].reshape(episodes, EPISODE, -1)
    starts = task.reset(np.zeros(episodes, dtype=np.int64))
    after = task.observe(task.rollout(starts, actions))
    before = np.concatenate([task.observe(starts)[:, None], after[:, :-1]], axis=1)
    return [part.reshape(count, -1) for part in (before, actions, after)]


def levels_of(task):
    """Return the actions [M, A] that there are, in order."""
    return np.array(sorted(map(tuple, task.actions.values)))


def coded_network(rows, task, *, seed):
    """Return a network trained as published, and its error on the tenth that it never saw."""
    order = list(range(len(rows[0])))
    random.Random(seed).shuffle(order)  # noqa: S311
    rows = [torch.tensor(part[order], dtype=torch.float32) for part in rows]
    held = len(order) // 10
    torch.manual_seed(seed)
    model = CodedActions(rows[0].shape[1], levels_of(task))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    seen, acted, reached = (part[held:] for part in rows)
    for _ in range(200):
        for batch in torch.randperm(len(seen)).split(256):
            error = (model(seen[batch], acted[batch]) - reached[batch]).square().mean()
            optimiser.zero_grad()
            error.backward()
            optimiser.step()
    model.eval().requires_grad_(requires_grad=False)
    seen, acted, reached = (part[:held] for part in rows)
    return model, float((model(seen, acted) - reached).square().mean())


@functools.cache
def tdmpc2(task, *, size):
    """Return the checkpoint that train_tdmpc2.py has written."""
    path = checkpoint(task.name, size)
    if not path.exists():
        raise FileNotFoundError(f"no {path.name}: python train_tdmpc2.py {task.name} --size {size}")
    model = TDMPC2.load(
        path,
        obs_keys=task.observation_keys,
        action_repeat=1,
        simnorm_dim=GROUP,
        discount=discount_of(task),
    )
    return model.for_task(task)


@functools.cache
def policy_data(task, *, size, seed, starts):
    """Return the published network on what the checkpoint's policy does, and its error."""
    data = collect_transitions(
        task,
        count=POLICY_DATA,
        seed=seed,
        episode_steps=POLICY_EPISODE,
        policy=tdmpc2(task, size=size),
        starts=task.reset(np.zeros(1, dtype=np.int64)) if starts == "fixed" else None,
    )
    rows = data.observations, data.actions, data.next_observations
    return coded_network(rows, task, seed=seed)


def latent_model(task, *, size, rated):
    """Return the TD-MPC2 on a graphics processor where there is one."""
    model = tdmpc2(task, size=size)
    if rated != "rewards":
        model = Decoded(model, fit_decoder(model, observations(task), seed=0))
    if torch.cuda.is_available():
        model = model.to("cuda")
    return re_encoded(model) if rated == "re-encoded" else model


def re_encoded(model):
    """Return a model of observations: each step is encoded, imagined and decoded by itself."""

    def step(observations, actions):
        reached = model.rollout(model.encode(observations), actions[:, None])
        return model.decode(reached)[:, 0]

    return step


def dreamer(task, *, is_latent):
    """Return the DreamerV3 that train_dreamer.py has written."""
    path = dreamer_checkpoint(task.name)
    if not path.exists():
        raise FileNotFoundError(f"no {path.name}: python train_dreamer.py {task.name}")
    model = DreamerV3.load(path, classes=CLASSES, action_repeat=1, discount=0.997).for_task(task)
    if torch.cuda.is_available():
        model = model.to("cuda")
    return Decoded(model) if is_latent else re_encoded(model)
