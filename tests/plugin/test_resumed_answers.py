"""Comparisons of policies that are interrupted and go on: what was answered is not asked again."""

import json
import os
import subprocess
import sys

import pytest

from pytest_cpg.gates import rows

CONFTEST = """
import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from comparisons import Carts

from pytest_cpg.gates import rows

FOLDER = Path({folder!r})
# A comparison of a second is to be interrupted in its middle.
rows.SECONDS_BETWEEN_FILES = 0.0


def press_ctrl_c():
    # As a terminal does, to all processes, once the session has kept more than the part that is
    # asked again.
    while kept_rows() <= 32:
        time.sleep(0.01)
    os.killpg(0, signal.SIGINT)


def kept_rows():
    files = [*FOLDER.glob(".pytest_cache/d/cpg-arms/*.npz")]
    if not files:
        return 0
    with np.load(files[0]) as answers:
        return np.isfinite(answers["values"]).all(axis=0).sum()


class Watched(Carts):
    def step(self, observations, actions):
        # Not those that it is checked with.
        if observations.shape[1] == 32 and {is_counted}:
            with (FOLDER / "asked").open("a") as file:
                file.write(".")
                count = file.tell()
            if count == int((FOLDER / "limit").read_text()):
                {line}
        after, rewards = super().step(observations, actions)
        return after, rewards * float((FOLDER / "factor").read_text())


@pytest.fixture
def learned_dynamics():
    return Watched(drift=-0.4)
"""
GATE = """
import pytest
from comparisons import cart_queries


@pytest.mark.cpg_opcc(queries=cart_queries())
def test_carts(cpg_opcc): ...
"""
IN_A_WORKER = "multiprocessing.parent_process()"
INTERRUPTED = "raise KeyboardInterrupt"


@pytest.fixture
def carts(repository, monkeypatch):
    """Runs the gate, whose model does something at one of its steps; counts them."""
    # Put back afterwards: the conftest sets it here as well as in another process.
    monkeypatch.setattr(rows, "SECONDS_BETWEEN_FILES", 0.0)
    folder = repository.path
    repository.makeini("[pytest]\naddopts = -p no:hypothesispytest\n")
    repository.makepyfile(test_carts=GATE)

    def run(*options, limit=0, line=INTERRUPTED, is_counted="True", factor=1, apart=False):
        text = CONFTEST.format(folder=str(folder), is_counted=is_counted, line=line)
        repository.makeconftest(text)
        for name, value in {"limit": limit, "factor": factor, "asked": ""}.items():
            (folder / name).write_text(str(value))
        options = ("--cpg-json=o.json", *options)
        if apart:
            result = subprocess.run(
                [sys.executable, "-m", "pytest", *options],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,
                capture_output=True,
                text=True,
                check=False,
            )
            code, said = result.returncode, result.stdout + result.stderr
        else:
            result = repository.runpytest_inprocess(*options, no_reraise_ctrlc=True)
            code, said = result.ret, result.stdout.str()
        return code, said, len((folder / "asked").read_text())

    run.path = folder
    return run


def gates(carts):
    return json.loads((carts.path / "o.json").read_text())["gates"]


def found(carts):
    (comparison,) = gates(carts)[0]["comparisons"]
    return {**comparison["result"], "seconds": 0}


def check_interrupted(code, said, _):
    assert code == pytest.ExitCode.INTERRUPTED, said
    assert "interrupted in queries" in said, said
    assert " --cpg-resume goes on with what was finished" in said, said


def test_after_ctrl_c_what_workers_answered_is_not_asked_again(carts):
    spread = {"is_counted": IN_A_WORKER, "line": "press_ctrl_c()"}
    code, said, asked = carts("--cpg-workers=2", "--cpg-no-cache", **spread)
    assert code == 0, said
    expected = found(carts)
    check_interrupted(*carts("--cpg-workers=2", limit=2 * asked // 3, apart=True, **spread))
    # In a process like that one: what other tests have loaded here may round otherwise.
    code, said, left = carts("--cpg-workers=2", "--cpg-resume", apart=True, **spread)
    assert code == 0, said
    # What a worker had answered, and nobody had heard of yet, is lost.
    assert left < asked, said
    assert found(carts) == expected


def test_one_process_goes_on_too_and_only_where_it_is_told_to(carts):
    _, _, asked = carts("--cpg-no-cache")
    expected = found(carts)
    check_interrupted(*carts(limit=asked // 3))
    code, said, left = carts("--cpg-resume")
    assert (code, found(carts)) == (0, expected)
    assert " answers)" in said
    assert "of " in gates(carts)[0]["resumed"][0]
    assert left < 0.8 * asked
    # What is finished is kept, too, but for a block that is asked again; guards ask anew.
    assert carts("--cpg-resume")[2] < 0.6 * asked
    assert carts()[2] >= asked


def test_answers_that_are_others_now_are_not_taken(carts):
    carts()
    before = found(carts)
    # It is read when the model is called, and no part of its content.
    carts("--cpg-resume", factor=2)
    doubled = found(carts)
    assert doubled["imagined_a"] != before["imagined_a"]
    carts("--cpg-no-cache", factor=2)
    assert found(carts) == doubled
