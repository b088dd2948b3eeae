"""Run what a page tells to type, and write below each command what it prints.

A page is a folder of its own. A block of code that begins with ``# name.py`` is a file of the
folder, and a block ``sh`` is run in it if a block ``text`` follows, which holds its output. To
write the outputs anew: ``python docs/transcripts.py``. The tests hold them equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
PAGES = ("tutorial", "gallery", "own")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
# What differs from run to run or from machine to machine, and is no part of what a page shows.
LEFT_OUT = re.compile(
    r"(?m)^(=+ test session starts =+|(platform|rootdir|configfile|plugins|collected)\b.*)\n"
    # Said once a minute, on a busy machine.
    r"|^  cpg: .*(::|step \d).*\n"
)
VARIES = (
    (re.compile(r" *\b\d+(\.\d+)? ?(ms|s|min)\b( \(\d+:\d\d:\d\d\))?"), " 0.1 s"),
    (re.compile(r"\b[0-9a-f]{7}\b"), "3f2c1e9"),
)


def written_anew(text: str) -> str:
    """Return a page with the output of its commands as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        parts, end = [], 0
        for start, stop, output in _outputs(text, Path(folder)):
            parts += [text[end:start], output]
            end = stop
        return "".join([*parts, text[end:]])


def comparable(text: str) -> str:
    """Return a page without what differs from run to run."""
    for pattern, stand_in in VARIES:
        text = pattern.sub(stand_in, text)
    return re.sub(r"(?m)^[-=]+ (.*?) [-=]+$", r"--- \1 ---", text)


def _outputs(text: str, folder: Path) -> Iterator[tuple[int, int, str]]:
    """Yield where each output stands in a page, and what it is now."""
    blocks = [*BLOCK.finditer(text)]
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        language, code = block.groups()
        named = re.match(r"# ([\w/.-]+\.\w+)\n", code)
        if named:
            path = folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code, encoding="utf-8")
        elif language == "sh" and after is not None and after[1] == "text":
            yield (*after.span(2), _run(code, folder))


def _run(commands: str, folder: Path) -> str:
    result = subprocess.run(
        ["bash", "-c", commands],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # pytest ends with 1 where a gate fails.
    if result.returncode not in (0, 1):
        raise RuntimeError(f"{commands} ended with {result.returncode}:\n{result.stdout}")
    return re.sub(r"\A\n+|(?<=\n)\n+\Z", "", LEFT_OUT.sub("", result.stdout))


def environment() -> dict[str, str]:
    """Return what a user has, who has set nothing."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST", "GIT_")) and name not in ("CI", "GITHUB_ACTIONS")
    }
    who = {
        f"GIT_{role}_{what}": "you"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **own,
        **who,
        "PATH": path,
        "COLUMNS": "80",
        "PYTHONIOENCODING": "utf-8",
        "PYTEST_ADDOPTS": "-p no:hypothesispytest",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def main() -> None:
    """Write the outputs of the pages that are named, or of all."""
    for name in sys.argv[1:] or PAGES:
        path = DOCS / f"{name}.md"
        path.write_text(written_anew(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
