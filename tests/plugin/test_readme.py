"""What README tells users to write and to type works as it stands there."""

import re
import subprocess
import sys
import sysconfig
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.docs
README = (ROOT / "README.md").read_text(encoding="utf-8")


def gate(word):
    """Return the one block of code that has a word."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (found,) = (text for text in blocks if word in text)
    return found


@pytest.fixture
def folder(pytester, monkeypatch):
    """The empty folder of a user, who has set nothing."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "CI"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def test_the_first_gate_fails_as_it_is_said(folder):
    folder.makepyfile(test_maze=gate('task="maze"'))
    result = folder.runpytest_subprocess("-p", "no:hypothesispytest")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["MODEL BOTTLENECK: *", "  Why  *", "  Do  *", "  Replay  *", "  Rerun  *"]
    )


@pytest.mark.trains
@pytest.mark.skipif(
    not all(map(find_spec, ("torch", "dm_control"))), reason="needs torch and dm-control"
)
def test_the_second_gate_passes_one_network_and_fails_the_other(folder):
    folder.makepyfile(gate("train_mlp"))
    result = folder.runpytest_subprocess("-v", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1, failed=1)
    output = result.stdout.str()
    assert re.search(r"(?m)^ MODEL AS GOOD AS ORACLE \(1\): .*\n \. .*40000\b", output), output
    assert re.search(r"(?m)^ MODEL BOTTLENECK \(1\): .*\n F .*\b200\b", output), output


def test_init_writes_the_model_and_the_gate_of_the_second():
    folder = files("pytest_cpg.render.command") / "repository"
    model, test = (
        (folder / f"{name}.py.txt").read_text("utf-8") for name in ("conftest", "test_planning_gap")
    )
    ours = gate("train_mlp").replace("count=transitions", "count=40_000")
    (fitting,) = re.findall(r"train_mlp\(\s*transitions, (.*)\n", model)
    (collecting,) = re.findall(r"collect_transitions\(oracle_dynamics.task, (.*)\)", model)
    assert f"    return train_mlp(\n        data, {fitting}\n    )\n" in ours
    for argument in collecting.split(", "):
        assert argument in ours
    assert ours.endswith(test[test.index("@pytest.mark.cpg(") :])


def test_it_is_short_and_its_links_lead_somewhere():
    assert README.count("\n") <= 150
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", README):
        assert (ROOT / link).exists(), link


def test_the_verdicts_of_its_table_are_all_there_are():
    from pytest_cpg import Verdict

    assert {*re.findall(r"(?m)^\| ([A-Z ]+) \|", README)} == {verdict.value for verdict in Verdict}


@pytest.mark.skipif(not find_spec("rich"), reason="needs rich")
def test_its_picture_is_what_the_first_gate_prints():
    picture = ROOT / "docs" / "failing-gate.svg"
    drawn = picture.read_text(encoding="utf-8")
    assert words(drawn) == words(
        subprocess.run(
            [sys.executable, ROOT / "docs" / "picture.py", "-"],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": sysconfig.get_path("scripts") + ":/usr/bin:/bin"},
        ).stdout
    )


def words(svg):
    """Return the lines of a picture, without the time that the session took."""
    text = re.sub(r"\d+\.\d+s", "", "".join(re.findall(r"<text[^>]*>(.*?)</text>", svg)))
    return re.sub(r"[=-]{2,}", "", text)
