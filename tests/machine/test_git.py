import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_cpg.machine.provenance import GitState, git_state

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
