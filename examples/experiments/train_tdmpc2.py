"""Train a TD-MPC2-style latent model offline: python train_tdmpc2.py TASK [--size 1|5]

The file has the layout of the official checkpoints (Hansen, Su and Wang 2024): encoder, latent
dynamics, reward head, ensemble of values and policy. The data are mixed: random actions that are
held, and episodes of random shooting with the true dynamics, strong and weak. It is trained on a
graphics processor where there is one, and nothing is collected with the model itself.
"""

import argparse
import copy
import functools
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.planners import RandomShooting
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics, bind

HERE = Path(__file__).parent
# Encoder, hidden and latent width, and number of values, by the official names of sizes.
SIZES = {1: (256, 384, 128, 2), 5: (256, 512, 512, 5)}
BINS, LARGEST, GROUP = 101, 10.0, 8
# Steps of a training sequence, its batch (officially 256) and the decay; weights of the losses.
SEQUENCE, BATCH, RHO = 3, 128, 0.5
CONSISTENCY, REWARD, VALUE = 20.0, 0.1, 0.1
RATE, ENCODER_RATE, CLIP, TARGET_RATE, ENTROPY = 3e-4, 0.3, 20.0, 0.01, 1e-4
# Seeds of the training episodes; gates have streams of their own.
SEED = 770_000


def simplices(latents):
    """Normalise groups of the latent to sum to one (SimNorm)."""
    grouped = latents.view(*latents.shape[:-1], -1, GROUP)
    return grouped.softmax(dim=-1).view(*latents.shape)


class Block(nn.Linear):
    """A linear layer, a layer norm and an activation."""

    def __init__(self, size_in, size_out, activation=functional.mish):
        super().__init__(size_in, size_out)
        self.ln, self.activation = nn.LayerNorm(size_out), activation

    def forward(self, inputs):
        return self.activation(self.ln(super().forward(inputs)))


class Norms(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(count, size))
        self.bias = nn.Parameter(torch.zeros(count, size))


class Stack(nn.Module):
    """The same layer of all values of an ensemble, [count, out, in]."""

    def __init__(self, count, size_in, size_out, *, is_last=False):
        super().__init__()
        scale = 0.0 if is_last else size_in**-0.5
        self.weight = nn.Parameter(torch.randn(count, size_out, size_in) * scale)
        self.bias = nn.Parameter(torch.zeros(count, size_out))
        if not is_last:
            self.ln = Norms(count, size_out)

    def forward(self, inputs):
        outputs = torch.baddbmm(self.bias[:, None], inputs, self.weight.mT)
        if not hasattr(self, "ln"):
            return outputs
        normed = functional.layer_norm(outputs, outputs.shape[-1:])
        return functional.mish(normed * self.ln.weight[:, None] + self.ln.bias[:, None])


class Values(nn.Module):
    def __init__(self, count, size_in, hidden):
        super().__init__()
        layers = [
            Stack(count, size_in, hidden),
            Stack(count, hidden, hidden),
            Stack(count, hidden, BINS, is_last=True),
        ]
        self.params = nn.ModuleDict({str(number): layer for number, layer in enumerate(layers)})
        self.count = count

    def forward(self, inputs):
        flat = inputs.reshape(-1, inputs.shape[-1]).expand(self.count, -1, -1)
        for layer in self.params.values():
            flat = layer(flat)
        return flat.view(self.count, *inputs.shape[:-1], BINS)


class Model(nn.Module):
    """The networks, by the names that they have in official files."""

    def __init__(self, observation_size, action_size, size):
        super().__init__()
        encoder, hidden, latent, values = SIZES[size]
        both = latent + action_size
        first = nn.Sequential(Block(observation_size, encoder), Block(encoder, latent, simplices))
        self._encoder = nn.ModuleDict({"state": first})
        self._dynamics = nn.Sequential(
            Block(both, hidden), Block(hidden, hidden), Block(hidden, latent, simplices)
        )
        self._reward = nn.Sequential(
            Block(both, hidden), Block(hidden, hidden), nn.Linear(hidden, BINS)
        )
        self._pi = nn.Sequential(
            Block(latent, hidden), Block(hidden, hidden), nn.Linear(hidden, 2 * action_size)
        )
        self._Qs = Values(values, both, hidden)
        nn.init.zeros_(self._reward[-1].weight)
        self.register_buffer("log_std_min", torch.tensor(-10))
        self.register_buffer("log_std_dif", torch.tensor(12))

    def encode(self, observations):
        return self._encoder["state"](observations)

    def next(self, latents, actions):
        return self._dynamics(torch.cat([latents, actions], dim=-1))

    def rewards(self, latents, actions):
        return self._reward(torch.cat([latents, actions], dim=-1))

    def values(self, latents, actions, values):
        return values(torch.cat([latents, actions], dim=-1))

    def act(self, latents):
        mean, spread = self._pi(latents).chunk(2, dim=-1)
        log_std = self.log_std_min + 0.5 * self.log_std_dif * (spread.tanh() + 1)
        noise = torch.randn_like(mean)
        actions = (mean + log_std.exp() * noise).tanh()
        density = -0.5 * noise.square() - log_std - torch.log(1 - actions.square() + 1e-6)
        return actions, density.sum(dim=-1)


def two_hot(values):
    """Spread values over the two nearest bins, on a scale of symmetric logarithms."""
    scaled = torch.sign(values) * torch.log1p(values.abs())
    place = (scaled.clamp(-LARGEST, LARGEST) + LARGEST) * (BINS - 1) / (2 * LARGEST)
    below = place.floor().long().clamp(max=BINS - 2)
    share = (place - below)[..., None]
    one_hot = functional.one_hot(below, BINS) * (1 - share)
    return one_hot + functional.one_hot(below + 1, BINS) * share


def expected(logits):
    bins = torch.linspace(-LARGEST, LARGEST, BINS)
    scaled = (logits.softmax(dim=-1) * bins).sum(dim=-1)
    return torch.sign(scaled) * torch.expm1(scaled.abs())


def cross_entropy(logits, values):
    return -(two_hot(values) * logits.log_softmax(dim=-1)).sum(dim=-1)


def random_episodes(task, count, steps):
    """Return observations [N, T + 1, O], actions [N, T, A] and rewards [N, T] of random actions."""
    starts = task.reset(SEED + np.arange(count))
    rngs = [np.random.default_rng([SEED, episode]) for episode in range(count)]
    hold = 3
    drawn = task.actions.sample(rngs, (-(-steps // hold),))
    actions = np.repeat(drawn, hold, axis=1)[:, :steps]
    states = task.rollout(starts, actions)
    seen = np.concatenate([task.observe(starts)[:, None], task.observe(states)], axis=1)
    return seen, actions, task.reward(states, actions)


def planned_episodes(task, count, candidates):
    """Return the same of whole episodes planned with the true dynamics."""
    starts = sample_starts(task, count, seed=SEED + candidates)
    rows = (starts.states[:2], task.actions.values[:2])
    oracle = bind(OracleDynamics(task), task, probe_states=rows[0], probe_actions=rows[1])
    seen = [[state] for state in task.observe(starts.states)]
    acted, rewarded = [[] for _ in range(count)], [[] for _ in range(count)]

    def look(episodes, actions):
        states = run.states[episodes]
        rewards = task.reward(states, actions)
        for row, episode in enumerate(episodes):
            seen[episode].append(task.observe(states[row]))
            acted[episode].append(actions[row])
            rewarded[episode].append(rewards[row])

    run = ArmRun(
        "oracle",
        Design(
            task=task,
            planner=RandomShooting(candidates=candidates),
            episodes=count,
            seed=SEED,
            metric="return",
        ),
        oracle,
        starts,
        on_step=look,
    )
    run.advance(count)
    return tuple(np.array(rows) for rows in (seen, acted, rewarded))


@functools.cache
def collected(task):
    """Return the training data: observations, actions and rewards of each kind of episode."""
    return (
        random_episodes(task, 75, 200),
        planned_episodes(task, 10, 50),
        planned_episodes(task, 10, 8),
    )


def observations(task):
    """Return everything seen in the training data, [T, O]."""
    return np.concatenate([seen.reshape(-1, seen.shape[-1]) for seen, _, _ in collected(task)])


def discount_of(task):
    """Return the discount of training: as officially, an episode's length in fives, bounded."""
    fifth = task.budget / 5
    return min(max((fifth - 1) / fifth, 0.95), 0.995)


def checkpoint(task, size):
    """Return where the checkpoint of a task's name and a size is written."""
    return HERE / f"{task}-{size}.pt"


class Sequences:
    """Training sequences of `SEQUENCE` steps from episodes of several lengths."""

    def __init__(self, parts, generator):
        self.parts, self.generator = parts, generator
        self.shares = np.array([part[1].shape[0] * part[1].shape[1] for part in parts], float)
        self.shares /= self.shares.sum()

    def draw(self):
        """Return observations [H + 1, B, O], actions [H, B, A] and rewards [H, B]."""
        counts = self.generator.multinomial(BATCH, self.shares)
        drawn = [self._of(part, n) for part, n in zip(self.parts, counts, strict=True) if n]
        joined = [np.concatenate(arrays, axis=1) for arrays in zip(*drawn, strict=True)]
        return [torch.as_tensor(array, dtype=torch.float32) for array in joined]

    def _of(self, part, count):
        seen, acted, rewarded = part
        episodes, steps = acted.shape[:2]
        rows = self.generator.integers(episodes, size=count)
        firsts = self.generator.integers(steps - SEQUENCE + 1, size=count)
        ahead = firsts + np.arange(SEQUENCE + 1)[:, None]
        return seen[rows, ahead], acted[rows, ahead[:-1]], rewarded[rows, ahead[:-1]]


def losses(model, target, batch, discount):
    """Return the loss of the model, and the latents that the policy is trained on."""
    seen, acted, rewarded = batch
    with torch.no_grad():
        truth = model.encode(seen[1:])
        following, _ = model.act(truth)
        bootstrap = expected(model.values(truth, following, target)).amin(dim=0)
        targets = rewarded + discount * bootstrap
    latents, visited, total = model.encode(seen[0]), [], 0.0
    for step in range(SEQUENCE):
        visited.append(latents)
        reward = cross_entropy(model.rewards(latents, acted[step]), rewarded[step]).mean()
        value = cross_entropy(
            model.values(latents, acted[step], model._Qs), targets[step].expand(model._Qs.count, -1)
        ).mean()
        latents = model.next(latents, acted[step])
        consistency = functional.mse_loss(latents, truth[step])
        weight = RHO**step / SEQUENCE
        total = total + weight * (CONSISTENCY * consistency + REWARD * reward + VALUE * value)
    visited.append(latents)
    return total, torch.stack(visited).detach()


def train(task, parts, *, size, updates, seed, show):
    """Return the trained networks and the target values."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    sequences = Sequences(parts, np.random.default_rng(seed))
    discount = discount_of(task)
    model = Model(task.observation_size, task.actions.size, size)
    target = copy.deepcopy(model._Qs).requires_grad_(requires_grad=False)
    policy = list(model._pi.parameters())
    others = [
        {"params": list(model._encoder.parameters()), "lr": RATE * ENCODER_RATE},
        {"params": [*model._dynamics.parameters(), *model._reward.parameters()]},
        {"params": list(model._Qs.parameters())},
    ]
    optimiser = torch.optim.Adam(others, lr=RATE, fused=True)
    policy_optimiser = torch.optim.Adam(policy, lr=RATE, eps=1e-5, fused=True)
    spread, begun = torch.tensor(1.0), time.perf_counter()
    for update in range(1, updates + 1):
        loss, latents = losses(model, target, sequences.draw(), discount)
        optimiser.zero_grad()
        loss.backward()
        parameters = [p for group in others for p in group["params"]]
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        model._Qs.requires_grad_(requires_grad=False)
        actions, density = model.act(latents)
        value = expected(model.values(latents, actions, model._Qs)).mean(dim=0)
        with torch.no_grad():
            low, high = torch.quantile(value[0], torch.tensor([0.05, 0.95]))
            spread = spread.lerp((high - low).clamp(min=1.0), 0.01)
        decay = RHO ** torch.arange(SEQUENCE + 1)[:, None]
        policy_loss = ((ENTROPY * density - value / spread) * decay).mean()
        policy_optimiser.zero_grad()
        policy_loss.backward()
        nn.utils.clip_grad_norm_(policy, CLIP)
        policy_optimiser.step()
        model._Qs.requires_grad_(requires_grad=True)
        with torch.no_grad():
            for kept, fresh in zip(target.parameters(), model._Qs.parameters(), strict=True):
                kept.lerp_(fresh, TARGET_RATE)
        if update % 500 == 0 or update == updates:
            show(update, float(loss.detach()), time.perf_counter() - begun)
    return model, target


def save(model, target, path):
    """Write a file in the layout of official checkpoints."""
    state = model.state_dict()
    for number, layer in model._Qs.params.items():
        for name, value in layer.state_dict().items():
            state[f"_detach_Qs_params.{number}.{name}"] = value
    for number, layer in target.params.items():
        for name, value in layer.state_dict().items():
            state[f"_target_Qs_params.{number}.{name}"] = value
    torch.save({"model": {name: value.cpu() for name, value in state.items()}}, path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("acrobot-swingup", "cartpole-swingup", "reacher-easy"))
    parser.add_argument("--size", type=int, choices=sorted(SIZES), default=1)
    parser.add_argument("--updates", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="TASK-SIZE.pt beside this file")
    given = parser.parse_args()
    task = TASKS[given.task]()
    path = given.out or checkpoint(given.task, given.size)
    print("collecting", flush=True)
    parts = collected(task)
    print(f"{sum(part[2].size for part in parts)} transitions", flush=True)

    def show(update, loss, seconds):
        print(f"update {update}: loss {loss:.3f}, {seconds:.0f} s", flush=True)

    # Whatever the training makes is made there.
    torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
    model, target = train(
        task, parts, size=given.size, updates=given.updates, seed=given.seed, show=show
    )
    save(model, target, path)
    print(f"{path}: discount {discount_of(task):g}, SimNorm groups of {GROUP}, action repeat 1")


if __name__ == "__main__":
    main()
