"""Every format of docs/models.md: a file that another program wrote, gated from outside."""

import shutil
import warnings

import pytest

torch = pytest.importorskip("torch")
# A run of pytester forgets what it imports, and compiled modules cannot be imported twice.
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

GATE = """
import pytest

@pytest.mark.cpg(task="track", planner="random-shooting", episodes=10)
def test_gate(cpg):
    assert cpg.learned.success_rate == 1.0
"""


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


def to_onnx(model, path, *, rows=8, dtype=torch.float32, **options):
    """Write a file as torch's documentation says, for any number of rows or for one."""
    given = torch.rand(rows, 1, dtype=dtype), torch.rand(rows, 1, dtype=dtype)
    given = (torch.cat(given, dim=-1),) if isinstance(model, Joined) else given
    if rows > 1:
        options["dynamic_shapes"] = [{0: torch.export.Dim.DYNAMIC}] * len(given)
    torch.onnx.export(model.to(dtype).eval(), given, path, verbose=False, **options)


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory):
    """Write every file before the first run of pytester, which forgets what torch imports."""
    folder = tmp_path_factory.mktemp("written")
    with warnings.catch_warnings():
        # What torch says of its own parts.
        warnings.simplefilter("ignore", (DeprecationWarning, FutureWarning))
        to_onnx(Pushed(), folder / "pair.onnx")
        to_onnx(Joined(), folder / "joined.onnx")
        to_onnx(Pushed(), folder / "double.onnx", dtype=torch.float64)
        to_onnx(Pushed(gain=-1.0), folder / "mirrored.onnx", external_data=False)
        to_onnx(Pushed(), folder / "one.onnx", rows=1)
    return folder


@pytest.fixture
def gate(repository, files):
    """Gate files of these names, in another folder than pytest is started in."""
    repository.makepyfile(test_gates=GATE)
    (repository.path / "run").mkdir()

    def run(*names, **outcomes):
        for name in names:
            shutil.copy(files / name, repository.path / "run")
        result = repository.runpytest(f"--cpg-model=run/{names[0]}")
        result.assert_outcomes(**outcomes or {"passed": 1})
        return result

    return run


@pytest.mark.parametrize("name", ["pair.onnx", "joined.onnx", "double.onnx"])
def test_onnx_with_its_data_file_is_gated(gate, name):
    gate(name, f"{name}.data")


def test_an_onnx_model_that_is_wrong_is_judged(gate):
    gate("mirrored.onnx", failed=1).stdout.fnmatch_lines(["*MODEL BOTTLENECK*"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["pair.onnx"], "in 'pair.onnx.data' beside it, and there is no such file. Copy it along"),
        (["one.onnx", "one.onnx.data"], "takes batches of 1 rows alone. Export it with a free"),
    ],
)
def test_an_onnx_model_that_cannot_be_used_says_why(gate, names, said):
    result = gate(*names, errors=1)
    assert said in " ".join(result.stdout.str().split())
