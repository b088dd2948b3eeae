"""Sessions of pytester: what they said and wrote, however long it took, and who they are."""

import re
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_cpg.render.command import main

TIMES = {"seconds", "latency_ms", "latency_interval", "cpu_ms", "resumed"}


class Recorded(NamedTuple):
    """A session that was run once for many tests: its result, and the folder that it was run in."""

    result: pytest.RunResult
    folder: Path

    def section(self, test):
        """Return what is shown of a test that failed, or of a file that was not collected."""
        title = rf"_+ (?:ERROR (?:collecting|at setup of) )?{re.escape(test)} _+"
        lines = iter(self.result.outlines)
        next(line for line in lines if re.fullmatch(title, line))
        shown = takewhile(lambda line: not re.match("_{3,}|={3,}|-+ cpg:", line), lines)
        return pytest.LineMatcher([*shown])


def flat(result):
    """Return what a session said, or a part of it, with single blanks."""
    is_part = isinstance(result, pytest.LineMatcher)
    text = str(result) if is_part else result.stdout.str() + result.stderr.str()
    return " ".join(text.split())


def untimed(value):
    if isinstance(value, dict):
        return {name: untimed(one) for name, one in value.items() if name not in TIMES}
    return [untimed(one) for one in value] if isinstance(value, list) else value


def tell_workers(pytester):
    """Have workers of a session apart know its process, and return their expression for it."""
    with (pytester.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write("\nimport os\n\nos.environ.setdefault('SESSION', str(os.getpid()))\n")
    return "int(os.environ['SESSION'])"


def accept_by_force(pytester):
    """Accept what a session measures, however it ends."""
    pytester.runpytest("--cpg-json=.cpg/report.json")
    assert main(["accept", str(pytester.path / ".cpg" / "report.json"), "--force"]) == 0
