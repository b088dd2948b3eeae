"""What README tells users to write works as it stands there."""

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What a user has: a checkpoint, and the same with its sign wrong.
STAND_IN = f"""
import sys

import pytest

sys.path.insert(0, {str(ROOT / "examples" / "dmc_gates")!r})
from dynamics import load


def load_my_model():
    right = load({str(ROOT / "examples" / "dmc_gates" / "models" / "reacher-easy.safetensors")!r})
    return {{model}}


@pytest.fixture
def my_model():
    return load_my_model()


"""
MODELS = {
    "good": "right",
    "bad": "lambda observations, actions: 2 * observations - right(observations, actions)",
}


def blocks(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block(word):
    (found,) = (text for text in blocks("python") if word in text)
    return found


@pytest.fixture
def folder(pytester, monkeypatch):
    """The folder of a user, who has set nothing."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "CI"):
        monkeypatch.delenv(name, raising=False)
    return pytester


@pytest.mark.trains
@pytest.mark.skipif(
    not all(map(find_spec, ("torch", "safetensors", "dm_control"))),
    reason="needs torch, safetensors and dm-control",
)
@pytest.mark.parametrize("model", MODELS)
def test_the_first_gates_pass_a_good_model_and_fail_a_bad_one(model, folder):
    stand_in = STAND_IN.format(model=MODELS[model])
    folder.makeconftest(stand_in + block("load_my_model"))
    folder.makepyfile(block("test_planning_gap") + block("test_explicit"))
    result = folder.runpytest_subprocess("-p", "no:hypothesispytest")
    verdict = {"good": "AS GOOD AS ORACLE", "bad": "MODEL BOTTLENECK"}[model]
    result.assert_outcomes(**{"good": {"passed": 2}, "bad": {"failed": 2}}[model])
    result.stdout.fnmatch_lines(
        [f" ? test_planning_gap *{verdict}", f" ? test_explicit *{verdict}"]
    )


@pytest.mark.skipif(
    not all(map(find_spec, ("gymnasium", "dm_control"))), reason="needs gymnasium and dm-control"
)
def test_every_marker_is_one_that_collection_takes(folder):
    markers = [
        line
        for text in blocks("python")
        for line in text.splitlines()
        if "pytest.mark.cpg(" in line
    ]
    gates = [f"{line}\ndef test_{number}(cpg): ...\n" for number, line in enumerate(markers)]
    folder.makepyfile("import pytest\n\n" + "\n".join(gates))
    result = folder.runpytest_subprocess("--co", "-q", "-p", "no:hypothesispytest")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*{len(gates)} tests collected*"])


def test_every_configuration_can_be_parsed():
    yaml = pytest.importorskip("yaml")
    assert all(isinstance(yaml.safe_load(text), dict | list) for text in blocks("yaml"))
    for text in blocks("toml"):
        tomllib.loads(text)
    for text in blocks("python"):
        # A marker stands there without its test.
        compile(re.sub(r"(@.*\n)\Z", r"\1def test(): ...\n", text), "README.md", "exec")
