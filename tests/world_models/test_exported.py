import io
import json
import pathlib
import pickle
import warnings
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import bind, inference
from pytest_cpg.world_models.checkpoints.exported import Program
from pytest_cpg.world_models.checkpoints.trust import digest_of
from pytest_cpg.world_models.checkpoints.weights import read_content


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
    digest = digest_of((tmp_path / name).read_bytes())
    # As it is typed for --cpg-trust.
    digests = f"{digest_of(b'')}, {digest.upper()}"
    program = Program.load(tmp_path / name, trusted=digests if name == "model.pt" else "")
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


class Wrapped(torch.nn.Module):
    """A network between observations and actions, joined, and a change."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, observations, actions):
        return observations + self.network(torch.cat([observations, actions], dim=-1))


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell, self.head = kind(6, 8, batch_first=True), torch.nn.Linear(8, 4)

    def forward(self, inputs):
        return self.head(self.cell(inputs[:, None].expand(-1, 2, -1))[0][:, -1])


class Attentive(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.first, self.head = torch.nn.Linear(1, 8), torch.nn.Linear(8, 4)
        self.layers = torch.nn.TransformerEncoder(layer, 1)

    def forward(self, inputs):
        return self.head(self.layers(self.first(inputs[..., None])).mean(1))


class Mixed(torch.nn.Module):
    """Operators that world models are written in outside of layers."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)
        self.linear = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(6, 4))

    def forward(self, inputs):
        first, places = inputs[:, :4], (inputs[:, 0].abs() * 3).long().clamp(0, 9)
        with torch.no_grad():
            one_hot = torch.nn.functional.one_hot(places, 10).float() @ torch.ones(10, 4)
        rates = torch.where(first > 0, torch.einsum("bi,bi->bi", first, first), torch.sin(first))
        top, which = torch.topk(rates / rates.norm(dim=-1, keepdim=True).clamp_min(1e-6), 2)
        chosen = rates.scatter(1, which, top).softmax(-1) + torch.logsumexp(
            inputs, -1, keepdim=True
        )
        rounded = torch.div(chosen, 2, rounding_mode="floor") + torch.cumsum(chosen, -1)
        padded = torch.nn.functional.pad(chosen[:, :2], (1, 1))
        branch = torch.cond(inputs.sum() > 0, lambda x: x + 1, lambda x: x - 1, (padded,))
        return self.linear(inputs) + self.table(places) + one_hot + rounded + branch


nn = torch.nn
NETWORKS = {
    "mlp": lambda: nn.Sequential(
        *(nn.Linear(6, 8), nn.LayerNorm(8), nn.Mish(), nn.Dropout(0.1), nn.Linear(8, 8), nn.SiLU()),
        *(nn.RMSNorm(8), nn.ELU(), nn.Linear(8, 4)),
    ),
    "gru": lambda: Recurrent(nn.GRU),
    "lstm": lambda: Recurrent(nn.LSTM),
    "convolution": lambda: nn.Sequential(
        *(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3, padding="same"), nn.BatchNorm1d(4)),
        *(nn.ReLU(inplace=True), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(12, 4)),
    ),
    "pictures": lambda: nn.Sequential(
        *(nn.Unflatten(1, (1, 2, 3)), nn.Upsample(scale_factor=2), nn.Conv2d(1, 4, 3)),
        *(nn.GroupNorm(2, 4), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)),
    ),
    "transformer": Attentive,
    "mixed": Mixed,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_usual_networks_hold_no_operator_that_is_refused(tmp_path, name):
    torch.manual_seed(0)
    model = Wrapped(NETWORKS[name]()).eval()
    given = torch.randn(8, 4), torch.randn(8, 2)
    rows = torch.export.Dim("rows")
    with torch.no_grad():
        expected = model(*given).numpy()
    with warnings.catch_warnings():
        # torch's own, on its own code.
        warnings.simplefilter("ignore")
        written = torch.export.export(model, given, dynamic_shapes=[{0: rows}] * 2)
        for program in (written, written.run_decompositions()):
            torch.export.save(program, tmp_path / "model.pt2")
            loaded = Program.load(tmp_path / "model.pt2")
            with torch.no_grad():
                assert loaded(*given).numpy() == pytest.approx(expected, abs=1e-5)


class Ensemble(torch.nn.Module):
    """Networks whose weights are stacked, all asked at once."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4, 6))

    def forward(self, inputs):
        return torch.vmap(lambda weight: inputs @ weight.T)(self.weight).mean(0)


def test_a_program_with_vmap_is_told_how_it_can_be_exported(tmp_path):
    model, given = Wrapped(Ensemble()).eval(), (torch.randn(8, 4), torch.randn(8, 2))
    rows = torch.export.Dim("rows")
    with warnings.catch_warnings():
        # torch's own, on its own code.
        warnings.simplefilter("ignore")
        program = torch.export.export(model, given, dynamic_shapes=[{0: rows}] * 2)
        torch.export.save(program.run_decompositions(), tmp_path / "model.pt2")
    loaded = Program.load(tmp_path / "model.pt2")
    with torch.no_grad():
        assert loaded(*given).numpy() == pytest.approx(model(*given).numpy(), abs=1e-5)
    # Earlier torch writes it without vmap anyway.
    if "predispatch" in str(program.graph):
        torch.export.save(program, tmp_path / "model.pt2")
        with pytest.raises(WorldModelError, match=r"save\(program\.run_decompositions\(\), path\)"):
            Program.load(tmp_path / "model.pt2")


@pytest.mark.parametrize(
    "operator",
    [
        *("aten.from_file.default", "aten.from_file.out", "aten.save.default", "aten.warn.default"),
        *("aten.set_.source_Storage", "aten.record_stream.default", "aten.__name__.upper"),
        *("aten._sparse_coo_tensor_unsafe.default", "aten.sparse_coo_tensor.indices_size"),
        *("aten._print.default", "prims.device_put.default", "mylib.mine.default", "aten.add"),
        *("higher_order.call_torchbind", "inductor.resize_storage_bytes_.default", "aten.add.nine"),
    ],
)
def test_operators_that_could_do_more_than_compute_are_refused(tmp_path, stored, operator):
    members = dict(stored)
    program = json.loads(members["models/model.json"])
    program["graph_module"]["graph"]["nodes"][0]["target"] = f"torch.ops.{operator}"
    members["models/model.json"] = json.dumps(program).encode()
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        for name, data in members.items():
            archive.writestr(f"model/{name}", data)
    with pytest.raises(WorldModelError, match=f"the operator 'torch.ops.{operator}'"):
        Program.load(tmp_path / "model.pt2")
