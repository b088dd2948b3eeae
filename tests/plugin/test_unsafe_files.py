"""Hostile files, as a session meets them: nothing of theirs runs, and the gate fails in words."""

import hashlib
import io
import json
import pickle
import re
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
from sessions import flat

torch = pytest.importorskip("torch")

GATE = """
import pytest

@pytest.mark.cpg(task="track", episodes=10)
def test_gate(cpg): ...
"""
# Just more than whatever is harmless, of blanks.
BLANK = bytes(257 * 2**20)
PRESSED = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}


class Script(torch.nn.Module):
    """Writes into a file as it is opened, and is a perfect model otherwise."""

    def __init__(self, path: str):
        super().__init__()
        self.path = path

    @torch.jit.export
    def __getstate__(self):
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]):
        self.path, self.training = state
        torch.from_file(self.path, True, 4, dtype=torch.float32).fill_(1.0)  # noqa: FBT003

    def forward(self, observations, actions):
        return observations + actions


class Adding(torch.nn.Module):
    def forward(self, observations, actions):
        return observations + actions + torch.zeros(4).sum()


class Starting:
    """Starts a process where it is unpickled."""

    def __init__(self, *command):
        self.command = command

    def __reduce__(self):
        return subprocess.check_call, (self.command,)


def scripted(folder, target):
    file = folder / "model.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.script(Script(str(target)))
        torch.jit.save(script, file)
    return file


def exported(file):
    """Store an exported program, and return its members."""
    rows = torch.export.Dim("rows")
    examples = torch.rand(8, 1), torch.rand(8, 1)
    program = torch.export.export(Adding(), examples, dynamic_shapes=[{0: rows}] * 2)
    torch.export.save(program, file)
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(file, members, **compression):
    with zipfile.ZipFile(file, "w", **compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file


def exported_with_a_file_operator(folder, target):
    file = folder / "model.pt2"
    members = exported(file)
    name = next(n for n in members if n.endswith("models/model.json"))
    program = json.loads(members[name])
    nodes = program["graph_module"]["graph"]["nodes"]
    node = next(n for n in nodes if n["target"] == "torch.ops.aten.zeros.default")
    node["target"] = "torch.ops.aten.from_file.default"
    given = (("filename", "as_string", str(target)), ("shared", "as_bool", True))
    node["inputs"] = [
        {"name": name, "arg": {kind: value}, "kind": 1}
        for name, kind, value in (*given, ("size", "as_int", 4))
    ]
    members[name] = json.dumps(program).encode()
    return rewritten(file, members)


def weights_beside(side, suffix="toml", encoding="utf-8"):
    def make(folder, target):
        torch.save({"weight": torch.ones(1)}, folder / "model.pt")
        text = side.format(path=target, python=sys.executable)
        (folder / f"model.{suffix}").write_text(text, encoding=encoding)
        return folder / "model.pt"

    return make


def touching(target):
    return Starting(sys.executable, "-c", f"open({str(target)!r}, 'w')")


def pickled_module(folder, target):
    torch.save({"weight": touching(target)}, folder / "model.pt")
    return folder / "model.pt"


def raw_pickle(folder, target):
    (folder / "model.ckpt").write_bytes(pickle.dumps(touching(target)))
    return folder / "model.ckpt"


@pytest.fixture(scope="module", autouse=True)
def torch_is_whole(tmp_path_factory):
    """Import all there is: parts of torch that an inner session drops cannot be imported twice."""
    from pytest_cpg.world_models.checkpoints.exported import Program, digest_of

    file = tmp_path_factory.mktemp("whole") / "model.pt2"
    exported(file)
    Program.load(file, trusted=digest_of(file.read_bytes()))


ATTACKS = {
    "TorchScript": (scripted, "is TorchScript, and opening it can run code"),
    "exported": (exported_with_a_file_operator, "is a program of torch.export, and opening it can"),
    "process": (
        weights_beside(
            'class = "subprocess:Popen"\n'
            "arguments = {{ args = ['{python}', '-c', 'open(\"{path}\", \"w\")'] }}\n"
        ),
        "class = 'subprocess:Popen' is of Python's own modules",
    ),
    "function": (
        weights_beside("class = \"own:write\"\narguments = {{ path = '{path}' }}\n"),
        "class = 'own:write' is <function write*, and no class of torch.nn.Module",
    ),
    "main": (weights_beside('class = "own.__main__:Net"'), "of Python's own modules or a program"),
    "module": (weights_beside('class = "this:Network"'), "is of Python's own modules"),
    "deep": (weights_beside("a = " + "[" * 100_000), "model.toml' cannot be read: "),
    "deeper": (weights_beside("[" * 100_000, "json"), "model.json' cannot be read: "),
    # As a shell of Windows writes what is piped into a file.
    "encoded": (
        weights_beside('class = "own:Net"', encoding="utf-16"),
        "model.toml' cannot be read: 'utf-8' codec can't decode byte 0xff",
    ),
    "relative": (weights_beside('class = "..own:Net"'), "'..own:Net' names no class. Write module"),
    "pickled": (pickled_module, "holds pickled objects"),
    "raw": (raw_pickle, "is no file of torch.save: it begins with"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_model_writes_nothing_starts_nothing_and_fails_its_gate(repository, attack):
    make, said = ATTACKS[attack]
    repository.makepyfile(GATE, own="def write(path):\n    open(path, 'w')\n")
    target = repository.path / "target"
    file = make(repository.path, target)
    target.unlink(missing_ok=True)
    result = repository.runpytest(f"--cpg-model={file.name}")
    assert result.ret == 1
    result.assert_outcomes(errors=1)
    assert not target.exists()
    output = flat(result)
    assert re.search(re.escape(said).replace(r"\*", ".*"), output), output
    assert "Zen of Python" not in output
    assert "Traceback" not in output
    assert "pytest_cpg/" not in output


def test_a_trusted_program_runs_wherever_episodes_do(repository, monkeypatch):
    repository.makepyfile(GATE)
    file = scripted(repository.path, repository.path / "target")
    model = "--cpg-model=model.pt"
    refusal = repository.runpytest(model).stdout.str()
    (typed,) = re.findall(r"--cpg-trust=sha256:[0-9a-f]{64}", refusal)
    assert typed.endswith(hashlib.sha256(file.read_bytes()).hexdigest())
    report = repository.path / "report.json"
    for more in ((), ("-n", "1"), ("--cpg-workers=2",)):
        result = repository.runpytest(model, typed, f"--cpg-json={report}", *more)
        result.assert_outcomes(passed=1)
    monkeypatch.setenv("PYTEST_CPG_TRUST", typed.partition("=")[2])
    repository.runpytest(model).assert_outcomes(passed=1)
    # Other bytes are another file, and what is trusted already is in what is to be typed.
    file.write_bytes(file.read_bytes() + b" ")
    other = repository.runpytest(model)
    other.assert_outcomes(errors=1)
    both = f"*{typed},sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    other.stdout.fnmatch_lines([both])


def test_trust_in_the_ini_file_holds_and_a_part_of_a_digest_is_refused(repository):
    repository.makepyfile(GATE)
    digest = hashlib.sha256(scripted(repository.path, "target").read_bytes()).hexdigest()
    for option in (f"sha256:{digest[:16]}", digest, "all", ","):
        result = repository.runpytest(f"--cpg-trust={option}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*--cpg-trust: need sha256: and 64 digits as the refusal *"])
    repository.add("tox.ini", f"\ncpg_trust = sha256:{digest}\n")
    repository.runpytest("--cpg-model=model.pt").assert_outcomes(passed=1)


def bomb_of_weights(folder):
    buffer = io.BytesIO()
    torch.save({"weight": torch.ones(1)}, buffer)
    with zipfile.ZipFile(buffer) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members = {name: BLANK if "data.pkl" in name else data for name, data in members.items()}
    return rewritten(folder / "model.pt", members, **PRESSED)


def test_an_archive_that_would_swell_is_refused_by_member_size_and_limit(repository):
    repository.makepyfile(GATE)
    file = bomb_of_weights(repository.path)
    result = repository.runpytest(f"--cpg-model={file.name}")
    result.assert_outcomes(errors=1)
    output = flat(result)
    assert f"{len(BLANK)} of them in 'archive/data.pkl'; the limit is {2**28} " in output
    assert "pytest_cpg/" not in output


def swelling(file):
    np.savez_compressed(file.with_suffix(".npz"), observations=np.zeros((len(BLANK) // 8, 1)))
    return file.with_suffix(".npz")


def immense(file):
    """Store the header of more rows than there is memory for."""
    with file.with_suffix(".npy").open("wb") as stored:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**15, 1)}
        np.lib.format.write_array_header_1_0(stored, header)
    return file.with_suffix(".npy")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (swelling, "of them in 'observations.npy'; the limit is 268435456"),
        (immense, "seen.npy cannot be read: Unable to allocate"),
    ],
)
def test_training_data_that_would_swell_are_refused(repository, make, said):
    file = make(repository.path / "seen")
    repository.makepyfile(
        f"""
        import numpy as np
        import pytest

        @pytest.fixture(scope="session")
        def training_data():
            return "{file.name}"

        @pytest.fixture
        def learned_dynamics():
            return lambda observations, actions: observations + actions * np.sin(50 * observations)

        @pytest.mark.cpg(task="track", episodes=10)
        def test_gate(cpg): ...
        """
    )
    result = repository.runpytest("-v")
    result.assert_outcomes(failed=1)
    assert said in flat(result)


def test_weights_as_large_as_their_file_are_read_whatever_their_size(tmp_path, monkeypatch):
    from pytest_cpg.machine import files
    from pytest_cpg.world_models.weights import read_weights

    monkeypatch.setattr(files, "HARMLESS_BYTES", 2**10)
    torch.save({"weight": torch.rand(2**16)}, tmp_path / "model.pt")
    assert read_weights(tmp_path / "model.pt")["weight"].shape == (2**16,)


def test_a_tensor_that_repeats_one_number_is_refused_by_its_size(repository):
    repository.makepyfile(GATE)
    torch.save({"weight": torch.zeros(1).expand(2**16, 2**16)}, repository.path / "model.pt")
    result = repository.runpytest("--cpg-model=model.pt")
    result.assert_outcomes(errors=1)
    said = flat(result)
    assert ": weight has shape [65536, 65536], 17179869184 bytes, of 4" in said


@pytest.mark.parametrize("suffix", ["pt", "pt2"])
def test_a_torch_that_runs_code_of_weights_is_refused(repository, monkeypatch, suffix):
    repository.makepyfile(GATE)
    if suffix == "pt2":
        exported(repository.path / "model.pt2")
    else:
        torch.save({"weight": torch.ones(1)}, repository.path / "model.pt")
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    result = repository.runpytest(f"--cpg-model=model.{suffix}")
    result.assert_outcomes(errors=1)
    said = flat(result)
    assert re.search(r'torch 2.5.1\+cpu can be made to run code.*"torch>=2.6"', said)
