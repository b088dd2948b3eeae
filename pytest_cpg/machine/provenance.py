"""Provenance: where a working tree stands, and what a session runs with."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from pytest_cpg.machine.processors import kernels, processor_name, processors

# What a verdict depends on besides the project's own code.
_PACKAGES = ("pytest-cpg", "pytest", "numpy", "scipy", "torch", "mujoco", "dm-control")


def is_in_ci() -> bool:
    """Say whether nobody watches this process."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


class GitState(NamedTuple):
    """Where a working tree stands."""

    # Shortened, with ``-dirty`` behind it where tracked files differ from it; empty when unknown.
    commit: str
    # The tracked files that differ, from the repository's top.
    dirty: tuple[str, ...] = ()
    note: str = ""


def git_state(root: Path, *, besides: Path, patience: float = 20.0) -> GitState:
    """Return the commit of the working tree around a folder, and which other files differ from it.

    Files that git does not track do not count: logs and weights lie about in every repository.
    """
    git = shutil.which("git")
    if git is None:
        return GitState("", note="git is not installed")
    ask = partial(_git, git, root, patience=patience)
    try:
        top = Path(ask("rev-parse", "--show-toplevel").rstrip("\r\n"))
        commit = ask("rev-parse", "--verify", "--short=12", "HEAD").strip()
        changed = ask(
            "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no",
            "--ignore-submodules=untracked",
        ).split("\0")  # fmt: skip
    except subprocess.CalledProcessError as error:
        if "--verify" in error.cmd:
            return GitState("", note="git: no commit yet")
        complaint = (error.stderr.strip().splitlines() or ["failed"])[-1]
        # Behind that git says where it looked.
        return GitState(
            "", note=f"git: {complaint.removeprefix('fatal: ').partition(' (or any')[0]}"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return GitState("", note=f"git: {error}")
    # Two letters of status and a blank stand before each path.
    paths = tuple(entry[3:] for entry in changed if entry)
    dirty = tuple(name for name in paths if (top / name).resolve() != besides.resolve())
    return GitState(f"{commit}-dirty" if dirty else commit, dirty)


def _git(git: str, root: Path, *arguments: str, patience: float) -> str:
    done = subprocess.run(  # noqa: S603  # the arguments are ours
        [git, *arguments],
        cwd=root,
        # Looking must not make others wait for the index.
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=patience,
        check=True,
    )
    return done.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What a session was run with, and of who, when and where the address in CI alone.

    The revision is a commit of 12 hexadecimal digits, ``dirty`` where tracked files differ from it,
    and both are None outside git. Logical processors are those that this process may use. The
    branch and the address of the run in CI are empty where they are not known.
    """

    revision: str | None
    dirty: bool | None
    python: str
    platform: str
    processor: str
    processors: int
    packages: Mapping[str, str]
    kernels: Mapping[str, str] = field(default_factory=dict)
    branch: str = ""
    ci_run: str = ""


# Of a session that writes no report.
UNKNOWN = Provenance(
    revision=None, dirty=None, python="", platform="", processor="", processors=1, packages={}
)


def collect(root: Path) -> Provenance:
    """Return what this process runs with, by git and the metadata of packages."""
    # A folder is no file that git tracks: with this one, nothing is excepted.
    state = git_state(root, besides=root)
    packages = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            packages[package] = version(package)
    return Provenance(
        revision=state.commit.removesuffix("-dirty") or None,
        dirty=bool(state.dirty) if state.commit else None,
        python=platform.python_version(),
        platform=platform.platform(),
        processor=processor_name(),
        processors=processors(),
        kernels=dict(sorted(kernels().items())),
        packages=dict(sorted(packages.items())),
        branch=_branch(root),
        ci_run=ci_run(),
    )


def ci_run() -> str:
    """Return the address of this run at GitHub or GitLab; empty elsewhere."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, run = (os.environ.get(name, "") for name in names)
    if server and run:
        return f"{server}/{repository}/actions/runs/{run}"
    return os.environ.get("CI_JOB_URL", "")


def _branch(root: Path) -> str:
    # CI checks out a commit, and says which branch that is of.
    names = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")
    if told := next(filter(None, map(os.environ.get, names)), ""):
        return told
    git = shutil.which("git")
    if git is None:
        return ""
    try:
        return _git(git, root, "symbolic-ref", "--short", "HEAD", patience=20.0).strip()
    except (OSError, subprocess.SubprocessError):
        return ""
