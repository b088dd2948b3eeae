import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cpg.contracts.codec import encode
from pytest_cpg.machine import provenance
from pytest_cpg.machine.provenance import GitState, collect, git_state

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    root = tmp_path / "my project"
    root.mkdir()
    return root


def git(root, *arguments):
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True  # noqa: S607
    )  # fmt: skip
    return done.stdout.strip()


def commit_of(root, *names):
    git(root, "init", "-q")
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("1")
    git(root, "add", ".")
    git(root, "commit", "-qm", "all")
    return git(root, "rev-parse", "HEAD")[:12]


@needs_git
def test_a_clean_tree_has_a_commit_and_nothing_dirty(repository):
    commit = commit_of(repository, "model.py")
    assert git_state(repository, besides=repository / "baseline.json") == GitState(commit)


@needs_git
def test_tracked_changes_are_dirty_and_untracked_files_and_the_baseline_are_not(repository):
    names = ("model.py", "wei ghts.txt", "gone.py", "moved.py", ".cpg/baseline.json")
    commit = commit_of(repository, *names)
    (repository / ".cpg" / "baseline.json").write_text("2")
    (repository / "log.txt").write_text("2")
    state = git_state(repository, besides=repository / ".cpg" / "baseline.json")
    assert state == GitState(commit)
    (repository / "wei ghts.txt").write_text("2")
    (repository / "gone.py").unlink()
    git(repository, "mv", "moved.py", "there.py")
    folder = repository / ".cpg"
    state = git_state(folder, besides=folder / "baseline.json")
    assert state.commit == f"{commit}-dirty"
    assert sorted(state.dirty) == ["gone.py", "moved.py", "there.py", "wei ghts.txt"]


@needs_git
def test_without_a_repository_or_a_commit_there_is_a_note(repository):
    outside = git_state(repository, besides=Path("baseline.json"))
    assert (outside.commit, outside.dirty) == ("", ())
    assert outside.note == "git: not a git repository"
    git(repository, "init", "-q")
    unborn = git_state(repository, besides=Path("baseline.json"))
    assert unborn.commit == ""
    assert unborn.note == "git: no commit yet"


def test_without_git_there_is_a_note(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    state = git_state(tmp_path, besides=tmp_path / "baseline.json")
    assert state == GitState("", note="git is not installed")


@needs_git
def test_a_git_that_does_not_answer_is_not_waited_for(repository):
    state = git_state(repository, besides=repository / "baseline.json", patience=0.0)
    assert state.commit == ""
    assert "timed out" in state.note


@needs_git
def test_the_commit_is_there_and_whether_tracked_files_differ_from_it(repository):
    commit = commit_of(repository, "model.py")
    (repository / "log.txt").write_text("not tracked")
    found = collect(repository)
    assert (found.revision, found.dirty) == (commit, False)
    (repository / "model.py").write_text("weights = 2\n")
    found = collect(repository)
    assert (found.revision, found.dirty) == (commit, True)


def test_outside_git_there_is_no_commit(repository, monkeypatch):
    found = collect(repository)
    assert (found.revision, found.dirty) == (None, None)
    monkeypatch.setenv("PATH", "")
    assert collect(repository) == found


def test_versions_are_those_that_are_installed(repository, monkeypatch):
    def version(package):
        if package in ("torch", "mujoco"):
            raise importlib.metadata.PackageNotFoundError(package)
        return f"{package}-1"

    monkeypatch.setattr(provenance, "version", version)
    names = ["pytest-cpg", "pytest", "numpy", "scipy", "dm-control"]
    assert collect(repository).packages == {name: f"{name}-1" for name in names}


def test_this_process_is_described(repository):
    found = collect(repository)
    assert found.python == platform.python_version()
    assert found.platform.startswith(platform.system()[:3])
    assert found.processors >= 1
    assert found.processor
    assert found.kernels["numpy"]
    assert found.packages["pytest"] == pytest.__version__


@needs_git
def test_the_branch_is_the_one_that_is_checked_out_or_that_ci_names(repository, monkeypatch):
    for name in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert collect(repository).branch == ""
    commit_of(repository, "model.py")
    git(repository, "checkout", "--quiet", "-b", "longer-training")
    assert collect(repository).branch == "longer-training"
    git(repository, "checkout", "--quiet", "--detach")
    assert collect(repository).branch == ""
    # A pull request is checked out as a commit.
    monkeypatch.setenv("GITHUB_HEAD_REF", "")
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    assert collect(repository).branch == "main"
    monkeypatch.setenv("GITHUB_HEAD_REF", "wider")
    assert collect(repository).branch == "wider"


def test_the_run_in_ci_has_an_address(repository, monkeypatch):
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID", "CI_JOB_URL"):
        monkeypatch.delenv(name, raising=False)
    assert collect(repository).ci_run == ""
    monkeypatch.setenv("CI_JOB_URL", "https://git.example/o/r/-/jobs/5")
    assert collect(repository).ci_run == "https://git.example/o/r/-/jobs/5"
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://hub.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    monkeypatch.setenv("GITHUB_RUN_ID", "11")
    assert collect(repository).ci_run == "https://hub.example/o/r/actions/runs/11"


def test_nobody_is_told_who_ran_it_where(repository, monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "a-host-name")
    text = json.dumps(encode(collect(repository)))
    for secret in ("a-host-name", str(Path.home()), sys.prefix, repository.name):
        assert secret not in text


def test_two_runs_in_one_place_are_the_same(repository):
    assert collect(repository) == collect(repository)


def test_nothing_is_imported_to_learn_its_version(repository):
    program = (
        "import sys; from pathlib import Path; from pytest_cpg.machine.provenance import collect; "
        "assert collect(Path(sys.argv[1])).packages; "
        "print({'torch', 'mujoco', 'dm_control', 'pytest'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", program, str(repository)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"
