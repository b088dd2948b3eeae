"""Whatever might turn a failing gate green by accident: its exit code, and what is said.

Every row is one way that was found. A bad model is at work in each of them.
"""

import re
from dataclasses import dataclass, field

import pytest

HEAD = """
import os
import sys
import threading
import time

import pytest
from conftest import mirrored, right

"""
GOOD = """

@pytest.mark.cpg(task="track", model="right")
def test_good(cpg): ...
"""
BAD = """

@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(cpg): ...
"""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A way to hide a bad model.

    Attributes
    ----------
    tests, conftest, ini : str
        Added to the miniature's.
    files : dict
        Content of other files, by path.
    code : int
        The exit code that it must not change to 0.
    said : str
        A part of what is printed, with single blanks.
    is_apart : bool
        Whether it ends a process.
    """

    name: str
    tests: str = BAD
    conftest: str = ""
    ini: str = ""
    files: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    code: int = 1
    said: str
    is_apart: bool = False


SETTINGS = [
    Attack(
        name="a misspelt variable",
        tests=GOOD,
        environment={"PYTEST_CPG_DRIFFT": "fail"},
        code=4,
        said="PYTEST_CPG_DRIFFT in the environment names no option. Did you mean "
        "'PYTEST_CPG_DRIFT'?",
    ),
    Attack(
        name="a variable for a switch",
        tests=GOOD,
        environment={"PYTEST_CPG_STRICT": "1"},
        code=4,
        said="PYTEST_CPG_STRICT in the environment has no effect. Type --cpg-strict.",
    ),
    Attack(
        name="a baseline that is not there",
        tests=GOOD,
        options=("--cpg-baseline=bsaeline.json",),
        code=4,
        said="--cpg-baseline=bsaeline.json: there is no file",
    ),
]
ATTACKS = [*SETTINGS]


def run(repository, monkeypatch, attack):
    for name, value in attack.environment.items():
        monkeypatch.setenv(name, value)
    for name, text in (("conftest.py", attack.conftest), ("tox.ini", attack.ini)):
        with (repository.path / name).open("a", encoding="utf-8") as file:
            file.write(text)
    for name, text in attack.files.items():
        (repository.path / name).write_text(text, encoding="utf-8")
    (repository.path / "test_gates.py").write_text(HEAD + attack.tests, encoding="utf-8")
    if attack.is_apart:
        return repository.runpytest_subprocess(*attack.options, timeout=60)
    return repository.runpytest_inprocess(*attack.options, no_reraise_ctrlc=True)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_nothing_is_green_by_accident(repository, monkeypatch, attack):
    result = run(repository, monkeypatch, attack)
    output = result.stdout.str() + result.stderr.str()
    assert result.ret == attack.code, output
    assert attack.said in " ".join(output.split())
    assert "INTERNALERROR" not in output
    assert not re.findall(r"(?m)^\S*pytest_cpg/\S+\.py:\d+: ", output)
