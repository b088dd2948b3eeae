"""Formats of docs/models.md that need no other library: a file of another program, gated.

The others have an example each, which test_bring_your_model.py runs.
"""

import re
import shutil
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest
from sessions import flat

torch = pytest.importorskip("torch")

from official_weights import tdmpc2

TRACK = """
import pytest

@pytest.mark.cpg(task="track", planner="random-shooting", episodes=10)
def test_gate(cpg):
    assert cpg.learned.success_rate == 1.0
    assert cpg.swapped == {swapped}
"""
# Weights that nobody trained: a verdict is all that can be asked of them.
UNTRAINED = """
import pytest
from pytest_cpg.planners import RandomShooting

@pytest.mark.cpg(
    {task},
    planner=RandomShooting(candidates=8, horizon=2),
    episodes=10,
    max_verdict="MODEL BOTTLENECK",
)
def test_gate(cpg):
    assert cpg.learned.steps.max() == cpg.design.budget
    assert cpg.swapped == {swapped}
"""
NETWORKS = '''
import torch


class Pushed(torch.nn.Module):
    """The cart of the miniature, as a network that knows it."""

    def __init__(self, gain=1.0):
        super().__init__()
        # Wide enough for an exporter to keep the weights apart.
        inner, outer = torch.nn.Linear(1, 512, bias=False), torch.nn.Linear(512, 1, bias=False)
        torch.nn.init.constant_(inner.weight, gain)
        torch.nn.init.constant_(outer.weight, 1 / 512)
        self.push = torch.nn.Sequential(inner, outer)

    def forward(self, observations, actions):
        return observations + self.push(actions)


class Joined(Pushed):
    def forward(self, inputs):
        return inputs[:, :1] + self.push(inputs[:, 1:])
'''
defined = {}
exec(NETWORKS, defined)  # noqa: S102  # the file that a user has
Pushed, Joined = defined["Pushed"], defined["Joined"]


def needs(*names):
    """Skip a test where one of these is not installed."""
    missing = [name for name in names if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(names)}")


def to_onnx(model, path, *, rows=8, dtype=torch.float32, **options):
    """Write a file as torch's documentation says, for any number of rows or for one."""
    given = torch.rand(rows, 1, dtype=dtype), torch.rand(rows, 1, dtype=dtype)
    given = (torch.cat(given, dim=-1),) if isinstance(model, Joined) else given
    if rows > 1:
        options["dynamic_shapes"] = [{0: torch.export.Dim.DYNAMIC}] * len(given)
    torch.onnx.export(model.to(dtype).eval(), given, path, verbose=False, **options)


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory):
    """Write every file, and import all that is slow, before the first run of pytester.

    Such a run forgets what it imports, and compiled modules cannot be imported twice.
    """
    for module in ("onnxruntime", "safetensors.torch"):
        if find_spec(module.partition(".")[0]):
            import_module(module)
    folder = tmp_path_factory.mktemp("written")
    network, pair = Pushed().eval(), (torch.rand(8, 1), torch.rand(8, 1))
    with warnings.catch_warnings():
        # What torch says of its own parts.
        warnings.simplefilter("ignore", (DeprecationWarning, FutureWarning))
        shapes = [{0: torch.export.Dim.DYNAMIC}] * 2
        program = torch.export.export(network, pair, dynamic_shapes=shapes)
        torch.export.save(program, folder / "program.pt2")
        torch.jit.save(torch.jit.trace(network, pair), folder / "script.pt")
        wide, pair = torch.nn.Bilinear(2, 2, 2), (torch.rand(8, 2), torch.rand(8, 2))
        program = torch.export.export(wide, pair, dynamic_shapes=shapes)
        torch.export.save(program, folder / "wide.pt2")
        torch.jit.save(torch.jit.trace(wide, pair), folder / "wide.pt")
        if find_spec("onnxruntime") and find_spec("onnxscript"):
            to_onnx(Pushed(), folder / "pair.onnx")
            to_onnx(Joined(), folder / "joined.onnx", external_data=False)
            to_onnx(Pushed(), folder / "double.onnx", dtype=torch.float64)
            to_onnx(Pushed(), folder / "one.onnx", rows=1)
    torch.save(network.state_dict(), folder / "weights.pt")
    if find_spec("safetensors"):
        from safetensors.torch import save_file

        save_file(network.state_dict(), folder / "weights.safetensors")
    (folder / "weights.toml").write_text(
        'class = "networks:Pushed"\narguments = { gain = 0.5 }\naction_repeat = 1\n'
    )
    many = tdmpc2(observation=4, action=2, bins=11, actions=(2, 1))
    torch.save({"model": many}, folder / "many.pt")
    (folder / "many.toml").write_text(
        'obs_keys = ["place"]\naction_repeat = 1\nsimnorm_dim = 8\ndiscount = 0.95\n'
        "task_index = 1\n"
    )
    return folder


@pytest.fixture
def gate(repository, files):
    """Gate files of these names, in another folder than pytest is started in."""
    repository.makepyfile(networks=NETWORKS, test_gates=TRACK.format(swapped=("dynamics",)))
    (repository.path / "run").mkdir(exist_ok=True)

    def run(*names, options=(), **outcomes):
        for name in names:
            shutil.copy(files / name, repository.path / "run")
        result = repository.runpytest(f"--cpg-model=run/{names[0]}", *options)
        result.assert_outcomes(**outcomes or {"passed": 1})
        return result

    return run


@needs("onnxruntime", "onnxscript")
@pytest.mark.parametrize("name", ["pair.onnx", "double.onnx"])
def test_onnx_of_torch_with_its_data_file(gate, name):
    gate(name, f"{name}.data")


@needs("onnxruntime", "onnxscript")
def test_onnx_of_torch_in_one_file(gate):
    gate("joined.onnx")


@needs("onnxruntime", "onnxscript")
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["pair.onnx"], "in 'pair.onnx.data' beside it, and there is no such file. Copy it along"),
        (["one.onnx", "one.onnx.data"], "takes batches of 1 rows alone. Export it with a free"),
    ],
)
def test_an_onnx_model_that_cannot_be_used_says_why(gate, names, said):
    result = gate(*names, errors=1)
    assert said in flat(result)


@pytest.mark.parametrize("name", ["program.pt2", "script.pt"])
def test_a_program_once_its_digest_is_typed(gate, name):
    refusal = gate(name, errors=1).stdout.str()
    gate(name, options=re.findall(r"--cpg-trust=sha256:[0-9a-f]{64}", refusal))


@pytest.mark.parametrize("name", ["wide.pt2", "wide.pt"])
def test_a_program_of_another_task_says_what_fails_without_frames_of_torch(gate, name):
    trusted = re.findall(r"--cpg-trust=sha256:[0-9a-f]{64}", gate(name, errors=1).stdout.str())
    said = flat(gate(name, options=trusted, errors=1))
    assert re.search(rf"is not usable: the program in '\S*{name}' fails: [A-Z]\w*Error: ", said)
    assert "site-packages" not in said


def test_a_file_that_a_contributed_reader_reads_and_other_files_beside_it(gate, repository):
    (repository.path / "run").mkdir(exist_ok=True)
    (repository.path / "run" / "gain.txt").write_text("1.0")
    repository.makeconftest(
        repository.text("conftest.py")
        + """

def pytest_cpg_checkpoint_readers():
    def scaled(checkpoint):
        if checkpoint.path.suffix == ".txt":
            gain = float(checkpoint.path.read_text())
            return lambda observations, actions: observations + gain * actions

    return {"scaled": scaled}
"""
    )
    gate("weights.pt", "weights.toml")
    result = repository.runpytest("--cpg-model=run/gain.txt")
    result.assert_outcomes(passed=1)


def test_a_state_dict_and_its_class(gate):
    gate("weights.pt", "weights.toml")


@needs("safetensors")
def test_safetensors_and_their_class(gate):
    gate("weights.safetensors", "weights.toml")


def test_tdmpc2_of_many_tasks_in_its_own_layout(gate, repository):
    repository.makepyfile(
        test_gates=UNTRAINED.format(
            task='task="track", budget=5', swapped=("dynamics", "reward", "value")
        )
    )
    gate("many.pt", "many.toml")
