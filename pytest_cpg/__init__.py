"""pytest-cpg: fail a merge when a learned world model got worse for planning.

No module has an assert for pytest to rewrite (PYTEST_DONT_REWRITE).
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cpg.contracts import Dynamics, Planner, Task, WorldModel
    from pytest_cpg.episodes.arm import Arm
    from pytest_cpg.gates.planning_gap.result import GateResult
    from pytest_cpg.render.evaluation import evaluate
    from pytest_cpg.stats import Interval, Verdict

__all__ = [
    "Arm",
    "Dynamics",
    "GateResult",
    "Interval",
    "Planner",
    "Task",
    "Verdict",
    "WorldModel",
    "evaluate",
]

_HOMES = {
    "Arm": "pytest_cpg.episodes.arm",
    "Dynamics": "pytest_cpg.contracts",
    "GateResult": "pytest_cpg.gates.planning_gap.result",
    "Interval": "pytest_cpg.stats",
    "Planner": "pytest_cpg.contracts",
    "Task": "pytest_cpg.contracts",
    "Verdict": "pytest_cpg.stats",
    "WorldModel": "pytest_cpg.contracts",
    "evaluate": "pytest_cpg.render.evaluation",
}


class _Unrewritten:
    """Finds our modules past pytest, which would compile each of them in every session."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Return where a module is; None for one that is not ours, or is there to be rewritten."""
        is_ours = name.startswith("pytest_cpg.") and "conformance" not in name
        return PathFinder.find_spec(name, path, target) if is_ours else None


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for (PEP 562): start-up stays light."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pytest-cpg")
    if name == "plugin":
        # The name by which pytest asks for it.
        sys.meta_path.insert(0, _Unrewritten)
        return import_module("pytest_cpg.plugin")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
