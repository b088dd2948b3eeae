"""A network in torch: a module with forward(observations, actions) is a world model."""

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file


class Dynamics(torch.nn.Module):
    """Normalises by constants that are part of the weights, and predicts the change."""

    def __init__(self, observation_size=6, action_size=2, hidden=64):
        super().__init__()
        inputs = observation_size + action_size
        for name, size in (("input", inputs), ("change", observation_size)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_scale", torch.ones(size))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(inputs, hidden),
            torch.nn.SiLU(),
            torch.nn.Linear(hidden, hidden),
            torch.nn.SiLU(),
            torch.nn.Linear(hidden, observation_size),
        )

    def forward(self, observations, actions):  # [B, O] and [B, A] to [B, O], without gradients
        inputs = torch.cat([observations, actions], dim=-1)
        change = self.layers((inputs - self.input_mean) / self.input_scale)
        return observations + change * self.change_scale + self.change_mean


@pytest.fixture(scope="session")
def learned_dynamics():
    model = Dynamics()
    # Your weights: torch.load of a state dict is as good, with weights_only=True.
    model.load_state_dict(load_file("../dmc_gates/models/reacher-easy.safetensors"))
    return model


@pytest.mark.cpg(task="reacher-easy", planner="preset", episodes=12)
def test_torch(cpg): ...
