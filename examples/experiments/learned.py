"""Learned models of the published experiments, by the name that a gate's `learned` has.

- ``random-data``: the published MLP on transitions of random actions.
- ``policy-data``: the same MLP on 20 000 transitions that a TD-MPC2's policy has led to.
- ``tdmpc2``: that TD-MPC2, its latents decoded for the task's own score, as published.
- ``rewards``: the same weights, which rate plans by their own rewards and values.
- ``latent``: a DreamerV3, decoded for the task's own score.
- ``one-frame``: the same weights as published: each imagined step decodes an observation, and
  begins from it without memory.
"""

import functools

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

EPISODE, POLICY_EPISODE, POLICY_DATA = 200, 500, 20_000


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
    """Return the MLP on transitions of the checkpoint's policy, at the torques that there are."""
    data = collect_transitions(
        task,
        count=POLICY_DATA,
        seed=seed,
        episode_steps=POLICY_EPISODE,
        policy=tdmpc2(task, size=size),
        starts=task.reset(np.zeros(1, dtype=np.int64)) if starts == "fixed" else None,
    )
    return train_mlp(data, seed=seed, variant="plain")


def latent_model(task, *, size, is_decoded):
    """Return the TD-MPC2 on a graphics processor where there is one."""
    model = tdmpc2(task, size=size)
    if is_decoded:
        model = Decoded(model, fit_decoder(model, observations(task), seed=0))
    return model.to("cuda") if torch.cuda.is_available() else model


def dreamer(task, *, is_latent):
    """Return the DreamerV3 that train_dreamer.py has written."""
    path = dreamer_checkpoint(task.name)
    if not path.exists():
        raise FileNotFoundError(f"no {path.name}: python train_dreamer.py {task.name}")
    model = DreamerV3.load(path, classes=CLASSES, action_repeat=1, discount=0.997).for_task(task)
    if torch.cuda.is_available():
        model = model.to("cuda")
    if is_latent:
        return Decoded(model)

    def one_frame(observations, actions):
        reached = model.rollout(model.encode(observations), actions[:, None])
        return model.decode(reached)[:, 0]

    return one_frame
