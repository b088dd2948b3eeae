"""The map of the rooms in CONTRIBUTING.md is what the rooms say of themselves."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^(?:\d |    )(\w+)/ +(\S.*)$", re.MULTILINE)


def rooms():
    folder = ""
    for line in LINE.finditer((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        if not line[0].startswith(" "):
            folder = line[1]
        yield (folder if folder == line[1] else f"{folder}/{line[1]}"), line[2]


@pytest.mark.parametrize(("room", "said"), list(rooms()))
def test_the_map_says_what_a_rooms_docstring_says(room, said):
    module = (ROOT / "pytest_cpg" / room / "__init__.py").read_text(encoding="utf-8")
    first = ast.get_docstring(ast.parse(module)).splitlines()[0]
    assert first.partition(": ")[2] == said


def test_every_room_is_on_the_map():
    package = ROOT / "pytest_cpg"
    paths = [*package.glob("*/__init__.py"), *package.glob("*/*/__init__.py")]
    assert {room for room, _ in rooms()} == {
        one.parent.relative_to(package).as_posix() for one in paths
    }
