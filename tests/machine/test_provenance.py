import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cpg.contracts.codec import encode
from pytest_cpg.machine import provenance
from pytest_cpg.machine.provenance import collect

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(root, *arguments):
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.c")
    done = subprocess.run(
        ["git", *identity, *arguments],  # noqa: S607
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    # Whatever repository the tests run in is none of this folder's.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return tmp_path


@pytest.fixture
def repository(folder):
    git(folder, "init", "-q")
    (folder / "model.py").write_text("weights = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "all")
    return folder


@needs_git
def test_the_commit_is_there_and_whether_tracked_files_differ_from_it(repository):
    commit = git(repository, "rev-parse", "HEAD")[:12]
    (repository / "log.txt").write_text("not tracked")
    found = collect(repository)
    assert (found.revision, found.dirty) == (commit, False)
    (repository / "model.py").write_text("weights = 2\n")
    found = collect(repository)
    assert (found.revision, found.dirty) == (commit, True)


def test_outside_git_there_is_no_commit(folder, monkeypatch):
    found = collect(folder)
    assert (found.revision, found.dirty) == (None, None)
    monkeypatch.setenv("PATH", "")
    assert collect(folder) == found


def test_versions_are_those_that_are_installed(folder, monkeypatch):
    def version(package):
        if package in ("torch", "mujoco"):
            raise importlib.metadata.PackageNotFoundError(package)
        return f"{package}-1"

    monkeypatch.setattr(provenance, "version", version)
    names = ["pytest-cpg", "pytest", "numpy", "scipy", "dm-control"]
    assert collect(folder).packages == {name: f"{name}-1" for name in names}


def test_this_process_is_described(folder):
    found = collect(folder)
    assert found.python == platform.python_version()
    assert found.platform.startswith(platform.system()[:3])
    assert found.processors >= 1
    assert found.processor
    assert found.kernels["numpy"]
    assert found.packages["pytest"] == pytest.__version__


def test_nobody_is_told_who_ran_it_where(folder, monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "a-host-name")
    text = json.dumps(encode(collect(folder)))
    for secret in ("a-host-name", str(Path.home()), sys.prefix, folder.name):
        assert secret not in text


def test_two_runs_in_one_place_are_the_same(folder):
    assert collect(folder) == collect(folder)


def test_nothing_is_imported_to_learn_its_version(folder):
    program = (
        "import sys; from pathlib import Path; from pytest_cpg.machine.provenance import collect; "
        "assert collect(Path(sys.argv[1])).packages; "
        "print({'torch', 'mujoco', 'dm_control', 'pytest'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"
