"""Contributed: kinds of gate and tasks that a module or a conftest.py brings by our hooks."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from pytest_cpg.contracts import CpgError
from pytest_cpg.gates import GATES
from pytest_cpg.gates.answer import fault_of
from pytest_cpg.report.ledger import Kinds


def declare_plugins(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names whoever contributes."""
    parser.add_argument(
        "-p",
        dest="plugins",
        metavar="PLUGIN",
        action="append",
        default=[],
        help="module, or path of a conftest.py, whose hooks contribute kinds of gate or tasks",
    )


def kinds_of(arguments: argparse.Namespace) -> Kinds:
    """Return the kinds of gate by their markers: ours, and those that plugins bring."""
    return {**GATES, **from_hook("pytest_cpg_gates", arguments)}


def from_hook(hook: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the named plugins contribute by one of our hooks.

    Raises CpgError naming the plugin when it cannot be imported, or its hook raises.
    """
    found: dict[str, Any] = {}
    if arguments.plugins:
        _refuse_success()
    for name in arguments.plugins:
        try:
            brought: Mapping[str, Any] | None = getattr(_loaded(name), hook, dict)()
        # A user's code may raise anything, and an exit would say that all is well.
        except (Exception, SystemExit) as error:
            raise fault_of(f"-p {name}", error) from error
        found |= brought or {}
    return found


@cache
def _refuse_success() -> None:
    """Have ``os._exit(0)`` raise in this process for good: libraries also call it at exit."""
    end, process = os._exit, os.getpid()

    def exit_unless_success(status: int) -> NoReturn:
        if status & 0xFF or os.getpid() != process:
            end(status)
        raise SystemExit("os._exit(0) would have ended the command as if all were well")

    # `os` has it from the module of the system.
    for module in (os, sys.modules[os.name]):
        vars(module)["_exit"] = exit_unless_success


def _loaded(name: str) -> ModuleType:
    if not name.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        return import_module(name)
    path = Path(name).resolve()
    # As pytest does for a conftest.py without an __init__.py beside it.
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise CpgError(f"there is no file {name}")
    module = module_from_spec(spec)
    # A dataclass whose annotations are strings looks for its module there.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
