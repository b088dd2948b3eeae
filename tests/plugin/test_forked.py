"""Tests fork sessions from a process that has loaded them: they are like others, or not forked."""

import os
import sys
import tempfile

import pytest
from forked import Forked, Loaded

HASH = """
import sys

def test_hash():
    print("hash", hash("x"), flush=True)
    print("path", sys.path, flush=True)
"""


def popen(pytester):
    said = pytester.path / "said"
    with said.open("w") as file:
        process = pytester.popen(
            [sys.executable, "-mpytest", "-sq", "test_hash.py"], stdout=file, stderr=file
        )
        assert process.wait() == 0
    return process, said.read_text(encoding="utf-8")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked")
def test_what_python_reads_at_its_start_is_read(repository, monkeypatch):
    repository.makepyfile(test_hash=HASH)
    process, _ = popen(repository)
    assert isinstance(process, Forked)
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    monkeypatch.setenv("PYTHONPATH", str(repository.path / "elsewhere"))
    first, second = popen(repository), popen(repository)
    assert not isinstance(first[0], Forked)
    assert first[1].partition("hash")[2].split()[0] == second[1].partition("hash")[2].split()[0]
    assert str(repository.path / "elsewhere") in first[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked")
@pytest.mark.usefixtures("own_hashes")
def test_of_two_forks_each_has_its_own_hashes_where_a_test_asks_for_it(repository):
    repository.makepyfile(test_hash=HASH)
    (first, one), (second, other) = popen(repository), popen(repository)
    assert isinstance(first, Forked)
    assert isinstance(second, Forked)
    assert one.partition("hash")[2].split()[0] != other.partition("hash")[2].split()[0]


STARTED = """
from pathlib import Path

def test_worker(worker_id):
    Path(worker_id).write_bytes(Path("/proc/self/cmdline").read_bytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc what was started")
@pytest.mark.parametrize("start", ["runpytest_inprocess", "runpytest_subprocess"])
def test_workers_are_forked_wherever_their_session_is(repository, start):
    repository.makepyfile(STARTED)
    assert getattr(repository, start)("-n", "1").ret == 0
    assert b"forked.py" in (repository.path / "gw0").read_bytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked")
def test_why_nothing_can_be_forked_is_said(tmp_path, monkeypatch):
    (tmp_path / "scipy.py").write_text("raise ImportError('broken off')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, "-mpytest"]
    with tempfile.TemporaryFile("w+") as said:
        loaded = Loaded(dict(os.environ), said)
        assert loaded.can_run(command)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"has ended:\n(.*\n)*ImportError: broken off"):
                loaded.start(command, 0, 1, 2)
        loaded.close()
