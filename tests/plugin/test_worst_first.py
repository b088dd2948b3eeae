"""What several failures put first, and what reruns of a broken model leave of a drop."""

import json
import re
import shutil
import subprocess

import pytest

from pytest_cpg.render.command import main

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

GATES = """
import pathlib

import pytest


@pytest.fixture
def lost_file():
    raise OSError("checkpoint run/final.pt is not there. Download it.")


@pytest.mark.cpg(task="track", model="diverging")
def test_broken(cpg): ...


@pytest.mark.cpg(task="track", model="right")
def test_unloaded(lost_file, cpg): ...


@pytest.mark.parametrize("number", range(8))
@pytest.mark.cpg(task="track", model="right")
def test_good(cpg, number): ...


@pytest.mark.cpg(task="track")
def test_cart(benchmark_runner):
    import conftest
    benchmark_runner.compare(learned=getattr(conftest, pathlib.Path("model.txt").read_text()))
"""
CART = "test_gates.py::test_cart"


def committed(folder, model):
    """Commit a model."""
    (folder / "model.txt").write_text(model)
    own = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for call in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "a")):
        subprocess.run([shutil.which("git"), *own, *call], cwd=folder, check=True)


@pytest.fixture
def reruns(repository, monkeypatch):
    """A project of 11 gates, two in error, and the last of six runs since one got worse."""
    pytest.importorskip("jinja2")
    for name in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"):
        monkeypatch.delenv(name, raising=False)
    repository.makepyfile(test_gates=GATES)
    committed(repository.path, "right")
    repository.runpytest("--cpg-update-baseline").assert_outcomes(passed=9, errors=2)
    committed(repository.path, "mirrored")
    for _ in range(3):
        repository.runpytest("--tb=no")
    committed(repository.path, "mirrored")
    reports = [f"--cpg-{form}=cpg.{form}" for form in ("html", "md", "json")]
    for _ in range(3):
        result = repository.runpytest("--tb=no", *reports)
    result.assert_outcomes(passed=8, failed=1, errors=2)
    return repository, result


def test_the_regression_is_first_and_the_drop_is_seen_after_six_reruns(reruns, capsys):
    project, result = reruns
    page, comment = ((project.path / f"cpg.{form}").read_text("utf-8") for form in ("html", "md"))
    # The page: headline, first row, and the first part that is open.
    text = re.sub(r"<[^>]+>", "", page[page.index("<h1>") : page.index("</h1>")])
    assert "test_cart" in text
    assert "20\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}0 of 20" in text
    assert re.findall(r'<th scope="row" class="name"><a [^>]*>(\w+)', page)[0] == "test_cart"
    opened = re.findall(r'<details class="gate"[^>]* open>\s*<summary><h2>(\w+)', page)
    assert opened == ["test_cart"], "an error takes no open part"
    # The comment: its heading, and the first row of its table.
    heading = comment.splitlines()[1]
    assert heading.startswith("### ❌ 3 of 11 gates fail: `track (test_cart)`: 20")
    rows = [line for line in comment.splitlines() if line.startswith("| ❌")]
    assert [re.findall(r"`test_(\w+)", row)[0] for row in rows] == ["cart", "broken", "unloaded"]
    assert "**REGRESSED**" in rows[0]
    # One point for each commit, the accepted one among them.
    assert "3 commits" in page
    assert ">accepted<" in page
    row = next(line for line in result.outlines if line.startswith(" F test_cart "))
    first, *later = row.split()[-2]
    assert {*later} != {first}, row
    # The history, without what the report adds to it.
    capsys.readouterr()
    assert main(["history"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if "20/20 -> 0/20" in line)
    assert row == lines[2], "it is the worst"
    assert main(["history", "--json", "-g", "test_cart"]) == 0
    (trend,) = json.loads(capsys.readouterr().out)
    found = [point["found"]["trends"][0]["text"] for point in trend["sessions"]]
    assert found == ["20/20", *["0/20"] * 6]
