"""A small world model of the reacher that sees it in pixels, and rates plans by what it sees."""

import torch
from safetensors.torch import load_file
from torch import nn

SIZE, STACK, LATENT, HIDDEN = 64, 3, 48, 192
# What the latents are trained to tell: cosine and sine of both angles, the way from the finger to
# the target, and both speeds; and how large these are.
TOLD, WAY = 8, slice(4, 6)
SCALE = (1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 3.0, 3.0)


def layers(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN),
        nn.LayerNorm(HIDDEN),
        nn.SiLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.SiLU(),
        nn.Linear(HIDDEN, outputs),
    )


class Model(nn.Module):
    """encode, rollout and score, as gates ask for them."""

    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(3 * STACK, 24, 5, stride=2),
            nn.SiLU(),
            nn.Conv2d(24, 32, 3, stride=2),
            nn.SiLU(),
            nn.Conv2d(32, 32, 3, stride=2),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(32 * 6 * 6, 128),
            nn.LayerNorm(128),
            nn.SiLU(),
            nn.Linear(128, LATENT),
        )
        self.change = layers(LATENT + 2, LATENT)
        self.tell = nn.Linear(LATENT, TOLD)

    def encode(self, pictures):
        """Map pictures [B, F, H, W, C] of 8 bits to latents [B, Z]."""
        channels = pictures.permute(0, 1, 4, 2, 3).flatten(1, 2)
        return self.see(channels.float() / 255 - 0.5)

    def rollout(self, latents, actions):
        """Map latents [B, Z] and actions [B, H, 2] to the latents after each action [B, H, Z]."""
        reached = []
        for step in range(actions.shape[1]):
            latents = latents + self.change(torch.cat([latents, actions[:, step]], dim=1))
            reached.append(latents)
        return torch.stack(reached, dim=1)

    def score(self, latents):
        """Rate latents [..., Z] by the distance from finger to target [...], in metres."""
        return (self.tell(latents)[..., WAY] * SCALE[4]).norm(dim=-1)


def load(path):
    """Return the model in a file."""
    model = Model()
    model.load_state_dict({name: part.float() for name, part in load_file(path).items()})
    return model.eval()
