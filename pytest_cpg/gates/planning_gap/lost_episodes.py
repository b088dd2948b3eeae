"""Lost episodes: the JSON file of those that a gate's oracle solved and its learned model did not.

One file for each comparison of a gate, one attribute a line, keys sorted. A replay begins with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from pytest_cpg.episodes.arm import Metric
from pytest_cpg.episodes.design import StartMode
from pytest_cpg.gates.card import comparison_name
from pytest_cpg.machine.files import FileError, write_text

if TYPE_CHECKING:
    from pytest_cpg.gates.planning_gap.result import GateResult

SCHEMA = 1
_DIGITS = 8
# With digits and suffix it stays far below the 143 bytes that eCryptfs leaves of a name.
_LONGEST_SLUG = 60
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_TARGET = re.compile(r"(.+)::([0-9]{1,9}(?:,[0-9]{1,9})*)", re.DOTALL)
# Starts are sampled up to the last episode, which takes seconds for so many.
_MOST_EPISODES = 1_000_000
_TEXTS = ("gate", "nodeid", "task", "planner", "weights", "perturbation")


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEpisodes:
    """The lost episodes of one comparison, and what has to be the same to run them again.

    Attributes
    ----------
    gate, nodeid : str
        The gate's id, and the test that it is.
    task, planner : str
        The task's name, and the planner with all its settings.
    budget : int
        Steps an episode may take.
    seed : int
        Of starts and planner noise.
    starts : "sampled" or "fixed"
    metric : "success" or "return"
    perturbation : str
        The name of what went wrong in real steps; empty for nothing.
    comparison : int
        Which of its test's comparisons it was, counted from 1.
    episodes : tuple of int
        Indices of the lost episodes, rising.
    oracle_steps : tuple of int
        Steps in which the oracle solved each of them.
    weights : str
        SHA-256 of the learned model's torch weights; empty where it has none.
    versions : mapping
        Package name to version.
    """

    gate: str
    nodeid: str
    task: str
    planner: str
    budget: int
    seed: int
    starts: str
    metric: str
    episodes: tuple[int, ...]
    oracle_steps: tuple[int, ...]
    weights: str
    versions: Mapping[str, str]
    perturbation: str = ""
    comparison: int = 1

    @classmethod
    def of(cls, result: GateResult, *, gate: str, nodeid: str, comparison: int = 1) -> LostEpisodes:
        """Return the lost episodes of a result; there may be none."""
        solved_at = dict(zip(result.oracle.indices, result.oracle.steps, strict=True))
        return cls(
            gate=gate,
            nodeid=nodeid,
            task=result.task,
            planner=result.planner,
            budget=result.budget,
            seed=int(result.seed),
            starts=result.starts,
            metric=result.metric,
            episodes=result.lost_episodes,
            oracle_steps=tuple(int(solved_at[episode]) for episode in result.lost_episodes),
            weights=result.weights,
            perturbation=result.perturbation,
            comparison=comparison,
            versions=dict(result.versions),
        )

    def chosen(self, episodes: tuple[int, ...] | None) -> tuple[int, ...]:
        """Return these of the lost episodes; all of them for None.

        Raises
        ------
        FileError
            When one of them was not lost, with those that were.
        """
        for episode in episodes or ():
            if episode not in self.episodes:
                raise FileError(
                    f"episode {episode} is not among the lost episodes of {self.gate}. Choose of "
                    f"{', '.join(map(str, self.episodes))}, or leave ::{episode} out for all."
                )
        return self.episodes if episodes is None else episodes


def file_name(gate: str) -> str:
    """Return the name of a comparison's file, on any file system unlike every other's.

    >>> file_name("tests/test_gates.py::test_maze[a b]")
    'tests-test_gates.py-test_maze-a-b-563d77e0.json'
    """
    # An id may hold half of a character that is written in two.
    digest = hashlib.sha256(gate.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    slug = _UNSAFE.sub("-", gate).strip("-.")[-_LONGEST_SLUG:].lstrip("-.")
    return f"{slug or 'gate'}-{digest}.json"


def write(lost: LostEpisodes, folder: Path) -> Path:
    """Write the file of a comparison into a folder, which is made, and return its path.

    Whoever reads the file meanwhile finds the old one or the new one.

    Raises
    ------
    FileError
        Naming the path and what the system says.
    """
    values = {field.name: getattr(lost, field.name) for field in fields(lost)}
    values.update(schema=SCHEMA, versions=dict(lost.versions))
    lines = (
        f"  {json.dumps(name)}: {json.dumps(values[name], sort_keys=True)}"
        for name in sorted(values)
    )
    path = folder / file_name(comparison_name(lost.gate, lost.comparison))
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n", what="the lost episodes")
    return path


def read(path: Path) -> LostEpisodes:
    """Return the lost episodes in a file, at least one.

    Raises
    ------
    FileError
        Naming the file, what is wrong with it and the next step.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(
            f"there is no file {path}. A gate that loses episodes writes one: run it again, and "
            f"take the command that it prints."
        ) from None
    except OSError as error:
        raise FileError(
            f"cannot read the lost episodes {path}: {error.strerror or error}"
        ) from None
    except (ValueError, RecursionError) as error:
        _refuse(path, f"it is no JSON ({error})")
    schema = values.pop("schema", None) if isinstance(values, dict) else None
    if type(schema) is not int or schema < 1:
        _refuse(path, "it is no file of lost episodes, as it has no schema")
    if schema > SCHEMA:
        _refuse(
            path,
            f"it has schema {schema}, and this pytest-cpg reads up to {SCHEMA}",
            "Upgrade: pip install -U pytest-cpg",
        )
    try:
        lost = _parsed(values)
    except ValueError as error:
        _refuse(path, str(error))
    if not lost.episodes:
        raise FileError(
            f"{path} holds no lost episode: the learned model solved all that the oracle did, and "
            f"there is nothing to replay."
        )
    return lost


def parse_target(target: str) -> tuple[Path, tuple[int, ...] | None]:
    """Split ``FILE``, ``FILE::7`` or ``FILE::7,9`` into a path and episodes; None for all.

    Only whole numbers behind the last ``::`` are episodes, so that a path may hold any character.

    >>> parse_target("lost.json::9,7")[1]
    (7, 9)

    Raises
    ------
    FileError
        When something else stands behind the name of a file that there is.
    """
    match = _TARGET.fullmatch(target)
    if match:
        return Path(match[1]), tuple(sorted({int(episode) for episode in match[2].split(",")}))
    file, _, wrong = target.rpartition("::")
    # A path too long for the file system is one that does not exist; pathlib raises.
    if os.path.isfile(file) and not os.path.exists(target):
        raise FileError(
            f"{wrong!r} names no episodes. Write whole numbers with commas between them: "
            f"--cpg-replay={file}::7,9, or --cpg-replay={file} for all."
        )
    return Path(target), None


def _parsed(values: dict[str, Any]) -> LostEpisodes:
    """Return what a file's values say, or raise ValueError."""
    values = {"perturbation": "", "comparison": 1, **values}
    names = {field.name for field in fields(LostEpisodes)}
    if set(values) != names:
        odd = min(names ^ set(values))
        raise ValueError(f"it has {'no' if odd in names else 'an unknown'} {odd!r:.40}")
    is_right = {name: isinstance(values[name], str) for name in _TEXTS}
    is_right.update(
        budget=_are_whole([values["budget"]], least=1),
        seed=_are_whole([values["seed"]], least=0),
        comparison=_are_whole([values["comparison"]], least=1),
        starts=values["starts"] in get_args(StartMode),
        metric=values["metric"] in get_args(Metric),
        episodes=_are_whole(values["episodes"], least=0) and _is_rising(values["episodes"]),
        oracle_steps=_are_whole(values["oracle_steps"], least=1),
        versions=isinstance(values["versions"], dict)
        and all(isinstance(found, str) for found in values["versions"].values()),
    )
    for name, right in is_right.items():
        if not right:
            raise ValueError(f"it has {values[name]!r:.40} as its {name}")
    if values["episodes"] and values["episodes"][-1] >= _MOST_EPISODES:
        last = values["episodes"][-1]
        raise ValueError(f"it names episode {last}, and a replay goes to {_MOST_EPISODES - 1}")
    pair = {name: tuple(values[name]) for name in ("episodes", "oracle_steps")}
    if len(pair["episodes"]) != len(pair["oracle_steps"]):
        raise ValueError("it has not as many oracle_steps as episodes")
    return LostEpisodes(**{**values, **pair})


def _are_whole(values: Any, *, least: int) -> bool:
    return isinstance(values, list) and all(type(v) is int and v >= least for v in values)


def _is_rising(values: list[int]) -> bool:
    return values == sorted(set(values))


def _refuse(path: Path, wrong: str, cure: str = "") -> NoReturn:
    again = "Run the gate again, which writes it anew."
    raise FileError(f"cannot use the lost episodes {path}: {wrong}. {cure or again}") from None
