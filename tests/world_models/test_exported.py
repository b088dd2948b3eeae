import pickle
import warnings
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import bind, inference
from pytest_cpg.world_models.checkpoints.exported import Program, digest_of
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


def trusted(path):
    return Program.load(path, trusted=digest_of(path.read_bytes()))


@pytest.mark.parametrize("name", ["model.pt2", "model.pt"])
@pytest.mark.parametrize("kind", [Residual, Joined])
def test_stored_programs_give_what_the_module_gives(tmp_path, name, kind):
    torch.manual_seed(0)
    model = kind().eval()
    observations, actions = torch.rand(8, 2), torch.rand(8, 2)
    joined = torch.cat([observations, actions], dim=-1)
    store(model, tmp_path / name, (observations, actions) if kind is Residual else (joined,))
    digest = digest_of((tmp_path / name).read_bytes())
    # As it is typed for --cpg-trust.
    digests = f"{digest_of(b'')}, {digest.upper()}"
    program = Program.load(tmp_path / name, trusted=digests)
    weight, bias = (value.detach().double().numpy() for value in model.parameters())
    expected = observations.numpy() + joined.numpy() @ weight.T + bias
    with pytest.raises(ComponentError, match=r"trusted: need sha256: and 64 digits .* got 'mine'"):
        Program.load(tmp_path / name, trusted="mine")
    assert program(observations.numpy(), actions.numpy()) == pytest.approx(expected, abs=1e-6)
    sent = pickle.loads(pickle.dumps(program))  # noqa: S301
    with inference(sent):
        assert sent(observations, actions).numpy() == pytest.approx(expected, abs=1e-6)


def test_a_stored_program_can_be_gated(tmp_path):
    task = maze()
    store(Residual(), tmp_path / "model.pt2", (torch.rand(8, 2), torch.rand(8, 2)))
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    states = task.reset(np.arange(8))
    bound = bind(trusted(tmp_path / "model.pt2"), task, probe_states=states, probe_actions=actions)
    assert bound.swapped == ("dynamics",)
    assert bound.seconds_per_row is None


def test_a_program_of_one_batch_size_is_told_to_be_exported_with_any(tmp_path):
    example = torch.rand(8, 2), torch.rand(8, 2)
    torch.export.save(torch.export.export(Residual(), example), tmp_path / "model.pt2")
    with pytest.raises(
        WorldModelError, match=r"model\.pt2' takes batches of 8 rows alone.*\{0: ro"
    ):
        trusted(tmp_path / "model.pt2")
    rows = torch.export.Dim("rows")
    free = torch.export.export(Residual(), example, dynamic_shapes=[{0: rows}] * len(example))
    torch.export.save(free, tmp_path / "model.pt2")
    assert trusted(tmp_path / "model.pt2")(np.zeros((3, 2)), np.zeros((3, 2))).shape == (3, 2)


def test_a_pickled_module_is_refused_and_the_alternatives_are_named(tmp_path):
    torch.save(Residual(), tmp_path / "whole.pt")
    with pytest.raises(WorldModelError, match=r"torch\.save\(model\.state_dict\(\), path\)"):
        read_content(tmp_path / "whole.pt")
    with pytest.raises(WorldModelError, match="is no program"):
        Program.load(tmp_path / "whole.pt")


@pytest.mark.parametrize(
    ("name", "kind"), [("model.pt2", "a program of torch.export"), ("model.pt", "TorchScript")]
)
def test_a_program_is_not_opened_before_its_digest_is_trusted(tmp_path, monkeypatch, name, kind):
    store(Residual(), tmp_path / name, (torch.rand(8, 2), torch.rand(8, 2)))
    for opener in (torch.export, torch.jit):
        monkeypatch.setattr(opener, "load", partial(pytest.fail, "the file was opened"))
    digest = digest_of((tmp_path / name).read_bytes())
    with pytest.raises(WorldModelError, match=f"is {kind}, and opening it can run code") as caught:
        Program.load(tmp_path / name, trusted=digest_of(b"another file"))
    assert "torch.save(model.state_dict(), path)" in str(caught.value)
    assert f"--cpg-trust={digest_of(b'another file')},{digest}" in str(caught.value)


def test_a_program_that_computes_with_sizes_is_read(tmp_path):
    class Sized(Residual):
        def forward(self, observations, actions):
            twice = torch.cat([observations, observations])
            return super().forward(twice[: twice.shape[0] // 2], actions)

    store(Sized(), tmp_path / "model.pt2", (torch.rand(8, 2), torch.rand(8, 2)))
    assert trusted(tmp_path / "model.pt2")(np.ones((5, 2)), np.ones((5, 2))).shape == (5, 2)
