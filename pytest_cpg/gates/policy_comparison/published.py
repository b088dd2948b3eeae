"""Published queries: those of the public benchmark, as plain arrays.

Converted from koulanurag/opcc (Apache-2.0); see ``data/NOTICE``. Two mazes come with the package.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates.policy_comparison.environments import ENVIRONMENTS, environment
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.gates.policy_comparison.query_files import opened
from pytest_cpg.planners.policies import TanhNetwork

SHIPPED = ("maze-open", "maze-umaze")
"""Those that come with the package; the others are a folder of the user's."""

_DATA = Path(__file__).parent / "data"
# Layers and actors of the public benchmark, both counted from 1 in its files.
_LAYERS, _ACTORS = range(1, 4), range(1, 5)
_FILE = re.compile(r"queries_(\w+)\.npz")


def published_queries(name: str, folder: str | os.PathLike[str] | None = None) -> PolicyQueries:
    """Return the published queries of an environment, with states and first actions.

    Raises ComponentError when the name is unknown, or not shipped and there is no folder. Raises
    FileError when a file is missing or holds something else.

    Parameters
    ----------
    name : str
        One of `ENVIRONMENTS`.
    folder : path, optional
        Where ``queries_<name>.npz`` and ``policies_<name>.npz`` are, a maze's named maze2d_<name>.
        None for what comes with the package.
    """
    world = environment(name)
    if folder is None and name not in SHIPPED:
        raise ComponentError(
            f"the queries of {name!r} do not come with the package, only those of "
            f"{' and '.join(SHIPPED)} do. Make a file of them from a clone of the benchmark, "
            f"convert(clone, {name!r}).save(path), and name its path (docs/policy-queries.md)."
        )
    own = _DATA if folder is None else Path(folder)
    with opened(own / f"queries_{_in_files(name)}.npz") as stored:
        pool = stored["state_pool"]
        found: Any = {"environment": name, "horizons": stored["horizon"]}
        for side, column in (("a", 0), ("b", 1)):
            states = pool[stored[f"state_{side}"]]
            found |= {
                f"states_{side}": states,
                f"observations_{side}": world.observe(states),
                f"actions_{side}": stored[f"action_{side}"],
                f"policy_{side}": stored["pair"][:, column].astype(np.int64) - 1,
                f"returns_{side}": stored[f"return_{side}"],
            }
    return PolicyQueries(policies=_actors(own / f"policies_{_in_files(name)}.npz"), **found)


def queries_at(given: str | os.PathLike[str] | PolicyQueries) -> PolicyQueries:
    """Return the queries that a published name or the path of a file stands for.

    Raises ComponentError when it is neither. Raises FileError when the file cannot be read.
    """
    if isinstance(given, PolicyQueries):
        return given
    if not isinstance(given, str | os.PathLike):
        raise ComponentError(
            f"queries: need a published name such as {SHIPPED[1]!r}, the path of an .npz, or "
            f"PolicyQueries, got {given!r:.60}"
        )
    text = os.fspath(given)
    if not text:
        raise ComponentError(
            f"queries: need a name such as {SHIPPED[1]!r}, or the path of an .npz, got ''"
        )
    if text in ENVIRONMENTS:
        return published_queries(text)
    path = Path(text)
    match = _FILE.fullmatch(path.name)
    name = _from_files(match[1]) if match else ""
    if name in ENVIRONMENTS:
        return published_queries(name, path.parent)
    if path.suffix != ".npz" and not path.exists():
        raise ComponentError(
            f"no queries are named {text!r}. {did_you_mean(text, ENVIRONMENTS)} Or give the path "
            f"of an .npz that PolicyQueries.save wrote, or the queries themselves."
        )
    return PolicyQueries.load(path)


def _actors(path: Path) -> list[TanhNetwork]:
    with opened(path) as stored:
        return [
            TanhNetwork(
                weights=[stored[f"p{actor}_w{layer}"] for layer in _LAYERS],
                biases=[stored[f"p{actor}_b{layer}"] for layer in _LAYERS],
            )
            for actor in _ACTORS
        ]


def _in_files(name: str) -> str:
    """Return what an environment is called in names of files.

    >>> _in_files("maze-open"), _from_files("maze2d_open")
    ('maze2d_open', 'maze-open')
    """
    return name.replace("maze-", "maze2d_")


def _from_files(name: str) -> str:
    return name.replace("maze2d_", "maze-")
