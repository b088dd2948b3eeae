"""The four kinds of model of Ke et al. (2021), for boards of 5 x 5 pixels and for colours in rows.

Each encodes what is seen now and what is wanted, and moves the former by an action. A plan is rated
by the distance between the two latents, or by a reward that was learned from them.
"""

import torch
from torch import nn
from torch.nn import functional

KINDS = ("ae", "vae", "gnn", "modular")
CELLS = 25


def layers(inputs, hidden, outputs):
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.LayerNorm(hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )


class Maps(nn.Module):
    """From a picture [B, 3 x 25] to a map of cells for each object [B, N, 25]."""

    def __init__(self, objects):
        super().__init__()
        self.size = CELLS
        self.convolutions = nn.Sequential(
            nn.Linear(3 * 9, 32), nn.ReLU(), nn.Linear(32, objects), nn.Sigmoid()
        )

    def forward(self, seen):
        # Convolutions of 3 x 3 and 1 x 1, as products: on so few cells in a third of the time.
        around = functional.unfold(seen.view(-1, 3, 5, 5), 3, padding=1)
        return self.convolutions(around.mT).mT


class Rows(nn.Module):
    """From colours and places [B, N (C + 2)] to those of each object [B, N, C + 2]."""

    def __init__(self, objects, colours):
        super().__init__()
        self.objects, self.colours, self.size = objects, colours, colours + 2

    def forward(self, seen):
        colours, places = seen.split([self.objects * self.colours, 2 * self.objects], dim=1)
        colours = colours.view(-1, self.objects, self.colours)
        return torch.cat([colours, places.view(-1, 2, self.objects).mT], dim=2)


class Whole(nn.Module):
    """The change of all objects, from all of them and the action."""

    def __init__(self, objects, choices, size, hidden):
        super().__init__()
        self.change = layers(objects * (size + choices), hidden, objects * size)

    def forward(self, latents, actions):
        both = torch.cat([latents.flatten(1), actions.flatten(1)], dim=1)
        return self.change(both).view_as(latents)


class Modules(nn.Module):
    """The change of each object by a network of its own, from all of them and the action."""

    def __init__(self, objects, choices, size, hidden):
        super().__init__()
        self.changes = nn.ModuleList(
            layers(objects * (size + choices), hidden, size) for _ in range(objects)
        )

    def forward(self, latents, actions):
        both = torch.cat([latents.flatten(1), actions.flatten(1)], dim=1)
        return torch.stack([change(both) for change in self.changes], dim=1)


class Graph(nn.Module):
    """The change of each object from its action and the effects of all others on it (C-SWM)."""

    def __init__(self, objects, choices, size, hidden):
        super().__init__()
        self.edges = layers(2 * size, hidden, hidden)
        self.nodes = layers(size + choices + hidden, hidden, size)

    def forward(self, latents, actions):
        # Each object beside the one so many places on, around all the others.
        others = [latents.roll(places, dims=1) for places in range(1, latents.shape[1])]
        pairs = torch.stack([torch.cat([latents, other], dim=2) for other in others])
        effects = self.edges(pairs).sum(dim=0)
        return self.nodes(torch.cat([latents, actions, effects], dim=2))


class Model(nn.Module):
    """A world model: encode, rollout and score, as gates ask for them; its head learns a reward.

    Latents [B, 2 N Z] are those of what is seen, then those of what is wanted. ``colours`` is how
    many there are where the world is seen as rows, and None where it is seen as a picture.
    """

    def __init__(self, kind, objects, choices, colours=None, size=32, hidden=128, rates="distance"):
        super().__init__()
        self.kind, self.objects, self.choices, self.rates = kind, objects, choices, rates
        self.size, self.width = size, objects * size
        self.parts = Maps(objects) if colours is None else Rows(objects, colours)
        self.is_whole, self.is_pictured = kind in ("ae", "vae"), colours is None
        several = objects if self.is_whole else 1
        spread = 2 if kind == "vae" else 1
        self.encoder = layers(several * self.parts.size, hidden, several * size * spread)
        self.inputs = objects * (colours + 2) if colours else 3 * CELLS
        self.wanted_first = objects * (colours or 0)
        self.picture = layers(self.width, hidden, self.inputs)
        change = {"gnn": Graph, "modular": Modules}.get(kind, Whole)
        self.change = change(objects, choices, size, hidden)
        self.head = nn.Sequential(nn.Linear(2 * self.width, 256), nn.ReLU(), nn.Linear(256, 1))

    def seen(self, observations):
        """Return what is seen now and what is wanted [B, I] in [0, 1].

        Of pictures [B, 2, 5, 5, 3] of 8 bits, or of observations [B, O].
        """
        if self.is_pictured:
            both = observations.permute(0, 1, 4, 2, 3).flatten(2).float() / 255
            return both.unbind(1)
        now, wanted, places = observations.float().tensor_split(
            [self.wanted_first, 2 * self.wanted_first], dim=-1
        )
        return torch.cat([now, places / 4], dim=-1), torch.cat([wanted, places / 4], dim=-1)

    def spread(self, seen):
        """Return means and log variances [B, N, Z] of latents; the latter of a VAE alone."""
        parts = self.parts(seen)
        parts = self.encoder(parts.flatten(1) if self.is_whole else parts)
        parts = parts.view(len(seen), -1, self.width)
        shape = (-1, self.objects, self.size)
        if self.kind != "vae":
            return parts.reshape(shape), None
        return parts[:, 0].reshape(shape), parts[:, 1].reshape(shape)

    def next(self, latents, actions):
        """Return latents [B, N, Z] after actions [B, 2] of an object and a choice for it."""
        number = actions[:, 0].long() * self.choices + actions[:, 1].long()
        one_hot = functional.one_hot(number, self.objects * self.choices).float()
        return latents + self.change(latents, one_hot.view(-1, self.objects, self.choices))

    def encode(self, observations):
        return torch.cat([self.spread(part)[0].flatten(1) for part in self.seen(observations)], 1)

    def rollout(self, latents, plans):
        now, wanted = latents.view(-1, 2, self.width).unbind(1)
        now, reached = now.view(-1, self.objects, self.size), []
        for step in range(plans.shape[1]):
            now = self.next(now, plans[:, step])
            reached.append(torch.cat([now.flatten(1), wanted], dim=1))
        return torch.stack(reached, dim=1)

    def score(self, latents):
        if self.rates == "reward":
            return -self.head(latents)[..., 0]
        now, wanted = latents[..., : self.width], latents[..., self.width :]
        return (now - wanted).square().sum(dim=-1)
