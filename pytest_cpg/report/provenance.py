"""Provenance: what a session was run with, and nothing that tells who ran it, when or where."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_cpg.machine.git import git_state
from pytest_cpg.machine.processors import kernels, processor_name, processors

# What a verdict depends on besides the project's own code.
_PACKAGES = ("pytest-cpg", "pytest", "numpy", "scipy", "torch", "mujoco", "dm-control")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What a session was run with.

    The revision is a commit of 12 hexadecimal digits, ``dirty`` where tracked files differ from it,
    and both are None outside git. Logical processors are those that this process may use.
    """

    revision: str | None
    dirty: bool | None
    python: str
    platform: str
    processor: str
    processors: int
    packages: Mapping[str, str]
    kernels: Mapping[str, str] = field(default_factory=dict)


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
    )
