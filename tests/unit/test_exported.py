import io
import json
import pathlib
import pickle
import warnings
import zipfile

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


def test_a_program_of_one_batch_size_is_told_to_be_exported_with_any(tmp_path):
    example = torch.rand(8, 2), torch.rand(8, 2)
    torch.export.save(torch.export.export(Residual(), example), tmp_path / "model.pt2")
    with pytest.raises(
        WorldModelError, match=r"model\.pt2' takes batches of 8 rows alone.*\{0: ro"
    ):
        Program.load(tmp_path / "model.pt2")
    rows = torch.export.Dim("rows")
    free = torch.export.export(Residual(), example, dynamic_shapes=[{0: rows}] * len(example))
    torch.export.save(free, tmp_path / "model.pt2")
    assert Program.load(tmp_path / "model.pt2")(np.zeros((3, 2)), np.zeros((3, 2))).shape == (3, 2)


def test_a_pickled_module_is_refused_and_the_alternatives_are_named(tmp_path):
    torch.save(Residual(), tmp_path / "whole.pt")
    with pytest.raises(WorldModelError, match=r"torch\.save\(model\.state_dict\(\), path\)"):
        read_content(tmp_path / "whole.pt")
    with pytest.raises(WorldModelError, match="is no program"):
        Program.load(tmp_path / "whole.pt")


class Harmful:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return the members of an exported program, by their names without the root."""
    path = tmp_path_factory.mktemp("stored") / "model.pt2"
    store(Residual(), path, (torch.rand(8, 2), torch.rand(8, 2)))
    with zipfile.ZipFile(path) as archive:
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    # What torch 2.7 and earlier wrote is named otherwise, and tried below.
    return members if "models/model.json" in members else pytest.skip("needs torch 2.8 or later")


def pickled(path):
    buffer = io.BytesIO()
    torch.save({"weight": Harmful(path)}, buffer)
    return buffer.getvalue()


def in_inputs(members, path):
    members["data/sample_inputs/model.pt"] = pickled(path)


def in_a_weight(members, path):
    name = "data/weights/model_weights_config.json"
    table = json.loads(members[name])
    next(iter(table["config"].values()))["use_pickle"] = True
    members[name] = json.dumps(table).encode()
    members["data/weights/weight_0"] = pickled(path)


def in_an_object(members, path):
    name = "data/constants/model_constants_config.json"
    table = {"config": {"hook": {"path_name": "opaque_obj_0", "use_pickle": True}}}
    members[name] = json.dumps(table).encode()
    members["data/constants/opaque_obj_0"] = pickle.dumps(Harmful(path))


def in_an_older_layout(members, path):
    members["serialized_state_dict.json"] = pickled(path)


def in_a_size(members, path):
    program = members["models/model.json"].decode()
    call = f"__import__('pathlib').Path('{path}').touch()"
    program = program.replace("Symbol('", f"Symbol({call} or '")
    members["models/model.json"] = program.encode()


def in_a_guard(members, path):
    program = json.loads(members["models/model.json"])
    program["guards_code"] = [f"__import__('pathlib').Path('{path}').touch() or 1 == 1"]
    members["models/model.json"] = json.dumps(program).encode()


def in_an_operator(members, path):
    program = json.loads(members["models/model.json"])
    program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.os.system"
    members["models/model.json"] = json.dumps(program).encode()


def in_a_second_member(members, path):
    members["data/sample_inputs/Model.pt"] = pickled(path)


def in_compiled_code(members, path):
    members["data/aotinductor/model/code.so"] = b""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_inputs, "pickled objects in 'model/data/sample_inputs/model.pt'"),
        (in_a_weight, "pickled objects in 'model/data/weights/weight_0'"),
        (in_an_object, "'opaque_obj_0' among its tensors"),
        (in_an_older_layout, "pickled objects in 'model/serialized_state_dict.json'"),
        (in_a_size, "the expression"),
        (in_a_guard, "the guard"),
        (in_an_operator, "the operator 'torch.os.system'"),
        (in_a_second_member, "two members of one name"),
        (in_compiled_code, "compiled code"),
    ],
)
def test_a_program_with_code_of_its_own_is_refused_and_none_of_it_runs(
    tmp_path, stored, change, message
):
    members, touched = dict(stored), tmp_path / "touched"
    change(members, touched)
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        for name, data in members.items():
            archive.writestr(f"model/{name}", data)
    with pytest.raises(WorldModelError, match=message) as caught:
        Program.load(tmp_path / "model.pt2")
    assert "torch.save(model.state_dict(), path)" in str(caught.value)
    assert not touched.exists()


def test_sizes_and_guards_of_usual_programs_are_read(tmp_path):
    class Sized(Residual):
        def forward(self, observations, actions):
            twice = torch.cat([observations, observations])
            return super().forward(twice[: twice.shape[0] // 2], actions)

    store(Sized(), tmp_path / "model.pt2", (torch.rand(8, 2), torch.rand(8, 2)))
    assert Program.load(tmp_path / "model.pt2")(np.ones((5, 2)), np.ones((5, 2))).shape == (5, 2)
