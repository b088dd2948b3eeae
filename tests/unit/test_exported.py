import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import bind, inference
from pytest_cpg.world_models.exported import Program
from pytest_cpg.world_models.weights import read_content


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, observations, actions):
        return observations + self.linear(torch.cat([observations, actions], dim=-1))


class Joined(Residual):
    def forward(self, inputs):
        return inputs[:, :2] + self.linear(inputs)


def store(model, path, example):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if path.suffix == ".pt2":
            rows = torch.export.Dim("rows")
            shapes = [{0: rows} for _ in example]
            torch.export.save(torch.export.export(model, example, dynamic_shapes=shapes), path)
        else:
            torch.jit.save(torch.jit.script(model), path)


@pytest.mark.parametrize("name", ["model.pt2", "model.pt"])
@pytest.mark.parametrize("kind", [Residual, Joined])
def test_stored_programs_give_what_the_module_gives(tmp_path, name, kind):
    torch.manual_seed(0)
    model = kind().eval()
    observations, actions = torch.rand(8, 2), torch.rand(8, 2)
    joined = torch.cat([observations, actions], dim=-1)
    store(model, tmp_path / name, (observations, actions) if kind is Residual else (joined,))
    program = Program.load(tmp_path / name)
    weight, bias = (value.detach().double().numpy() for value in model.parameters())
    expected = observations.numpy() + joined.numpy() @ weight.T + bias
    assert program(observations.numpy(), actions.numpy()) == pytest.approx(expected, abs=1e-6)
    sent = pickle.loads(pickle.dumps(program))  # noqa: S301
    with inference(sent):
        assert sent(observations, actions).numpy() == pytest.approx(expected, abs=1e-6)


def test_a_stored_program_can_be_gated(tmp_path):
    task = maze()
    store(Residual(), tmp_path / "model.pt2", (torch.rand(8, 2), torch.rand(8, 2)))
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    states = task.reset(np.arange(8))
    bound = bind(
        Program.load(tmp_path / "model.pt2"), task, probe_states=states, probe_actions=actions
    )
    assert bound.swapped == ("dynamics",)
    assert bound.seconds_per_row is None


def test_a_pickled_module_is_refused_and_the_alternatives_are_named(tmp_path):
    torch.save(Residual(), tmp_path / "whole.pt")
    with pytest.raises(WorldModelError, match=r"torch\.save\(model\.state_dict\(\), path\)"):
        read_content(tmp_path / "whole.pt")
    with pytest.raises(WorldModelError, match="is no program"):
        Program.load(tmp_path / "whole.pt")
