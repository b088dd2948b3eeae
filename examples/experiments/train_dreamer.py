"""Train a small DreamerV3-style world model offline: python train_dreamer.py TASK

The file has the layout of the PyTorch port (NM512/dreamerv3-torch) on state observations: encoder,
recurrent state-space model, decoder and reward. The data are those of train_tdmpc2.py; it is
trained for a few hundred updates where the published ones had 500 000 steps of their own.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from train_tdmpc2 import collected

from pytest_cpg.tasks import TASKS

HERE = Path(__file__).parent
# Half of the port's widths, and as many groups as classes, as there.
WIDTH, CLASSES, BINS, LARGEST = 256, 16, 255, 20.0
STOCHASTIC = CLASSES * CLASSES
# Steps of a training sequence, its batch and its rate; the port has 64, 16 and 1e-4.
SEQUENCE, BATCH, RATE, CLIP = 32, 32, 6e-4, 100.0
# Of the port: weights of both sides of the divergence, the least that counts, uniform share.
DYNAMICS, REPRESENTATION, FREE, UNIFORM, UPDATE_BIAS = 0.5, 0.1, 1.0, 0.01, -1.0


def checkpoint(task):
    """Return where the checkpoint of a task's name is written."""
    return HERE / f"{task}-dreamer.pt"


def initial(task):
    """Return weights by their names in the port."""
    weights = {}

    def linear(name, after, before, *, bias=False):
        weights[f"{name}.weight"] = torch.nn.init.trunc_normal_(
            torch.empty(after, before), std=(2 / (before + after)) ** 0.5
        )
        if bias:
            weights[f"{name}.bias"] = torch.zeros(after)

    def normed(name, norm, after, before):
        linear(name, after, before)
        weights[f"{norm}.weight"], weights[f"{norm}.bias"] = torch.ones(after), torch.zeros(after)

    def stack(name, before):
        for layer in range(2):
            width = WIDTH if layer else before
            normed(f"{name}_linear{layer}", f"{name}_norm{layer}", WIDTH, width)

    features = STOCHASTIC + WIDTH
    stack("encoder._mlp.layers.Encoder", task.observation_size)
    weights["dynamics.W"] = torch.zeros(1, WIDTH)
    sizes = {"img_in": STOCHASTIC + task.actions.size, "img_out": WIDTH, "obs_out": 2 * WIDTH}
    for name, before in sizes.items():
        normed(f"dynamics._{name}_layers.0", f"dynamics._{name}_layers.1", WIDTH, before)
    cell = "dynamics._cell.layers.GRU_"
    normed(f"{cell}linear", f"{cell}norm", 3 * WIDTH, 2 * WIDTH)
    for name in ("imgs", "obs"):
        linear(f"dynamics._{name}_stat_layer", STOCHASTIC, WIDTH, bias=True)
    stack("heads.decoder._mlp.layers.Decoder", features)
    for name, size in task.observation_keys.items():
        linear(f"heads.decoder._mlp.mean_layer.{name}", size, WIDTH, bias=True)
    stack("heads.reward.layers.Reward", features)
    weights["heads.reward.mean_layer.weight"] = torch.zeros(BINS, WIDTH)
    weights["heads.reward.mean_layer.bias"] = torch.zeros(BINS)
    linear("heads.cont.mean_layer", 1, WIDTH, bias=True)
    return {name: value.requires_grad_() for name, value in weights.items()}


class Network:
    """The port's forward pass, of weights by name."""

    def __init__(self, weights, keys):
        self.weights, self.keys = weights, keys

    def linear(self, inputs, name):
        return functional.linear(
            inputs, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        )

    def normed(self, inputs, name, norm):
        gain, shift = self.weights[f"{norm}.weight"], self.weights[f"{norm}.bias"]
        return functional.layer_norm(self.linear(inputs, name), gain.shape, gain, shift, 1e-3)

    def layer(self, inputs, name):
        return functional.silu(self.normed(inputs, f"{name}.0", f"{name}.1"))

    def stack(self, inputs, name):
        for layer in range(2):
            inputs = functional.silu(
                self.normed(inputs, f"{name}_linear{layer}", f"{name}_norm{layer}")
            )
        return inputs

    def logits(self, inputs, layers, statistics):
        """Return log chances [B, G, C], mixed with a uniform share."""
        hidden = self.layer(inputs, f"dynamics._{layers}_layers")
        raw = self.linear(hidden, f"dynamics._{statistics}_stat_layer")
        chances = raw.view(len(raw), CLASSES, CLASSES).softmax(dim=-1)
        return ((1 - UNIFORM) * chances + UNIFORM / CLASSES).log()

    def next(self, recurrent, drawn, actions):
        inputs = self.layer(torch.cat([drawn, actions], dim=-1), "dynamics._img_in_layers")
        cell = "dynamics._cell.layers.GRU_"
        joint = torch.cat([inputs, recurrent], dim=-1)
        reset, candidate, update = self.normed(joint, f"{cell}linear", f"{cell}norm").chunk(3, -1)
        share = torch.sigmoid(update + UPDATE_BIAS)
        fresh = torch.tanh(torch.sigmoid(reset) * candidate)
        return share * fresh + (1 - share) * recurrent

    def followed(self, seen, actions):
        """Return features [T, B, F], priors and posteriors of observations and what led there."""
        embedded = self.stack(symlog(seen), "encoder._mlp.layers.Encoder")
        recurrent = torch.tanh(self.weights["dynamics.W"]).expand(seen.shape[1], -1)
        drawn = likeliest(self.logits(recurrent, "img_out", "imgs"))
        rows = []
        for step in range(len(seen)):
            recurrent = self.next(recurrent, drawn, actions[step])
            prior = self.logits(recurrent, "img_out", "imgs")
            posterior = self.logits(
                torch.cat([recurrent, embedded[step]], dim=-1), "obs_out", "obs"
            )
            drawn = sampled(posterior)
            rows.append((torch.cat([drawn, recurrent], dim=-1), prior, posterior))
        return [torch.stack(part) for part in zip(*rows, strict=True)]

    def loss(self, seen, actions, rewarded):
        features, prior, posterior = self.followed(seen, actions)
        hidden = self.stack(features, "heads.decoder._mlp.layers.Decoder")
        heads = [self.linear(hidden, f"heads.decoder._mlp.mean_layer.{key}") for key in self.keys]
        error = (torch.cat(heads, dim=-1) - symlog(seen)).square().sum(dim=-1).mean()
        hidden = self.stack(features[1:], "heads.reward.layers.Reward")
        logits = self.linear(hidden, "heads.reward.mean_layer")
        reward = -(two_hot(symlog(rewarded)) * logits.log_softmax(dim=-1)).sum(dim=-1).mean()
        sides = ((DYNAMICS, posterior.detach(), prior), (REPRESENTATION, posterior, prior.detach()))
        apart = [
            weight * (first.exp() * (first - second)).sum(dim=(-1, -2)).clamp(min=FREE).mean()
            for weight, first, second in sides
        ]
        return error + reward + sum(apart), error


def symlog(values):
    return torch.sign(values) * torch.log1p(values.abs())


def two_hot(scaled):
    place = (scaled.clamp(-LARGEST, LARGEST) + LARGEST) * (BINS - 1) / (2 * LARGEST)
    below = place.floor().long().clamp(max=BINS - 2)
    share = (place - below)[..., None]
    return (
        functional.one_hot(below, BINS) * (1 - share) + functional.one_hot(below + 1, BINS) * share
    )


def likeliest(logits):
    return functional.one_hot(logits.argmax(dim=-1), CLASSES).flatten(-2).to(logits.dtype)


def sampled(logits):
    """Return drawn classes as numbers, whose gradient is that of their chances."""
    chances = logits.exp()
    classes = torch.distributions.Categorical(probs=chances).sample()
    hot = functional.one_hot(classes, CLASSES).to(chances.dtype)
    return (hot + chances - chances.detach()).flatten(-2)


def drawn(parts, rng):
    """Return observations [S, B, O], the actions that led there and the rewards after the first."""
    shares = np.array([part[1].shape[0] * part[1].shape[1] for part in parts], dtype=float)
    rows = []
    for which in rng.choice(len(parts), size=BATCH, p=shares / shares.sum()):
        seen, acted, rewarded = parts[which]
        episode, first = rng.integers(len(acted)), rng.integers(acted.shape[1] - SEQUENCE + 2)
        last = first + SEQUENCE - 1
        before = np.concatenate([np.zeros_like(acted[episode, :1]), acted[episode, first:last]])
        rows.append((seen[episode, first : last + 1], before, rewarded[episode, first:last]))
    return [
        torch.as_tensor(np.stack(part, axis=1), dtype=torch.float32)
        for part in zip(*rows, strict=True)
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("acrobot-swingup", "cartpole-swingup", "reacher-easy"))
    parser.add_argument("--updates", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    task = TASKS[given.task]()
    parts, rng = collected(task), np.random.default_rng(given.seed)
    torch.manual_seed(given.seed)
    torch.set_num_threads(1)
    torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
    weights, begun = initial(task), time.perf_counter()
    network = Network(weights, list(task.observation_keys))
    optimiser = torch.optim.Adam(weights.values(), lr=RATE, eps=1e-8)
    for update in range(1, given.updates + 1):
        optimiser.param_groups[0]["lr"] = RATE * min(1, 2 * (1 - update / (given.updates + 1)))
        loss, error = network.loss(*drawn(parts, rng))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        optimiser.step()
        if update % 100 == 0 or update == given.updates:
            seconds = time.perf_counter() - begun
            print(
                f"update {update}: loss {loss:.3f}, observed {error:.4f}, {seconds:.0f} s",
                flush=True,
            )
    state = {name: value.detach().cpu() for name, value in weights.items()}
    torch.save(
        {"agent_state_dict": {f"_wm.{n}": v for n, v in state.items()}}, checkpoint(given.task)
    )
    print(f"{checkpoint(given.task)}: classes {CLASSES}, action repeat 1")


if __name__ == "__main__":
    main()
