"""The world model of this repository: a small network that predicts how an observation changes."""

import torch
from safetensors.torch import load_file

HIDDEN = 64


class Dynamics(torch.nn.Module):
    """Two hidden layers from an observation and an action to the next observation."""

    def __init__(self, observation_size, action_size):
        super().__init__()
        input_size = observation_size + action_size
        for name, size in (("input", input_size), ("change", observation_size)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_scale", torch.ones(size))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(input_size, HIDDEN),
            torch.nn.SiLU(),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.SiLU(),
            torch.nn.Linear(HIDDEN, observation_size),
        )

    def forward(self, observations, actions):
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""
        inputs = torch.cat([observations, actions], dim=-1)
        change = self.layers((inputs - self.input_mean) / self.input_scale)
        return observations + change * self.change_scale + self.change_mean


def load(path):
    """Return the model whose weights are in a file."""
    weights = load_file(path)
    size = len(weights["change_mean"])
    model = Dynamics(size, len(weights["input_mean"]) - size)
    model.load_state_dict(weights)
    return model.eval()
