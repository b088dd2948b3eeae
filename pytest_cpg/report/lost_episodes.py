"""Lost episodes: the JSON file of those that a gate's model lost, and a replay runs again.

One file for each comparison of a gate, one attribute a line, keys sorted. A replay begins with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import comparison_name
from pytest_cpg.gates.kept import FIRST_KIND
from pytest_cpg.gates.parts import offers
from pytest_cpg.machine.files import FileError, FileKind, write_text
from pytest_cpg.report.ledger import Kinds

SCHEMA = 1
_FILE = FileKind(
    name="the lost episodes", schema=SCHEMA, cure="Run the gate again, which writes it anew."
)
_DIGITS = 8
_TARGET = re.compile(r"(.+)::([0-9]{1,9}(?:,[0-9]{1,9})*)", re.DOTALL)
# Starts are sampled up to the last episode, which takes seconds for so many.
_MOST_EPISODES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEpisodes:
    """The lost episodes of one comparison, rising, and what has to be the same to run them again.

    ``values`` say how they were lost, by the gate's kind; the first kind is not named in the file.
    """

    gate: str
    nodeid: str
    episodes: tuple[int, ...]
    values: Mapping[str, Any]
    kind: str = FIRST_KIND
    comparison: int = 1

    def __post_init__(self) -> None:
        if self.comparison < 1:
            raise ValueError(f"need a comparison of at least 1, got {self.comparison}")
        if list(self.episodes) != sorted(set(self.episodes)) or min(self.episodes, default=0) < 0:
            raise ValueError(f"need rising episodes from 0 on, got {reprlib.repr(self.episodes)}")
        last = max(self.episodes, default=0)
        if last >= _MOST_EPISODES:
            raise ValueError(f"it names episode {last}, and a replay goes to {_MOST_EPISODES - 1}")

    def to_plain(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON form, in which the kind's values stand beside the others."""
        of_kind = values.pop("values")
        if self.kind == FIRST_KIND:
            del values["kind"]
        return {**of_kind, **values}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a JSON form."""
        names = {part.name for part in fields(cls)} - {"values"}
        of_kind = {name: value for name, value in values.items() if name not in names}
        return {**{name: values[name] for name in names & values.keys()}, "values": of_kind}

    def chosen(self, episodes: tuple[int, ...] | None) -> tuple[int, ...]:
        """Return these of the lost episodes, all for None; FileError for one that was not lost."""
        for episode in episodes or ():
            if episode not in self.episodes:
                raise FileError(
                    f"episode {episode} is not among the lost episodes of {self.gate}. Choose of "
                    f"{', '.join(map(str, self.episodes))}, or leave ::{episode} out for all."
                )
        return self.episodes if episodes is None else episodes


def file_name(gate: str) -> str:
    """Return the name of a comparison's file, short enough to be typed.

    >>> file_name("tests/test_gates.py::test_maze[a b]")
    '563d77e0.json'
    """
    # An id may hold half of a character that is written in two.
    digest = hashlib.sha256(gate.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest[:_DIGITS]}.json"


def write(lost: LostEpisodes, folder: Path) -> Path:
    """Write the file of a comparison into a folder, which is made, and return its path."""
    values = {"schema": SCHEMA, **encode(lost)}
    lines = (
        f"  {json.dumps(name)}: {json.dumps(values[name], sort_keys=True)}"
        for name in sorted(values)
    )
    path = folder / file_name(comparison_name(lost.gate, lost.comparison))
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n", what="the lost episodes")
    return path


def read(path: Path, kinds: Kinds) -> LostEpisodes:
    """Return the lost episodes in a file, at least one, of which their kind checks the values."""
    text = _FILE.text_in(path)
    if text is None:
        able = " or ".join(marker for marker, kind in kinds.items() if offers(kind, "replay"))
        raise FileError(
            f"there is no file {path}. A gate marked {able} writes one when it loses episodes: run "
            f"it again, and take the command that it prints."
        )
    values = _FILE.values_of(path, text)
    _FILE.check_schema(path, values.pop("schema", None) if isinstance(values, dict) else None)
    try:
        lost = decode(LostEpisodes, values)
        if lost.kind in kinds:
            loss_for(kinds[lost.kind], lost)
    except (ValueError, CpgError) as error:
        _FILE.refuse(path, str(error))
    if not lost.episodes:
        raise FileError(
            f"{path} holds no lost episode: the learned model solved all that the oracle did, and "
            f"there is nothing to replay."
        )
    return lost


def loss_for(kind: Any, lost: LostEpisodes) -> Any:
    """Return what a kind knows of lost episodes; ValueError or CpgError where it cannot."""
    return ask(kind, "read_lost", lost.values, episodes=lost.episodes)


def parse_target(target: str) -> tuple[Path, tuple[int, ...] | None]:
    """Split ``FILE``, ``FILE::7`` or ``FILE::7,9`` into a path and episodes; None for all.

    Only whole numbers behind the last ``::`` are episodes, so that a path may hold any character.

    >>> parse_target("lost.json::9,7")[1]
    (7, 9)
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
