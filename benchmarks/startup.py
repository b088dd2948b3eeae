"""What the installed plugin adds to a session without gates."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.row import Row

RUNS = 15
# An installed package has its bytecode; a checkout has it once it may be written.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "CI")}


def _cpu_milliseconds(folder: Path, ci: str, *arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, "CI": ci},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1e3 * seconds


def _pair(folder: Path, ci: str) -> tuple[float, float]:
    """Return both sides, each the least of three runs in turns: what is added to it is noise."""
    runs = [
        (_cpu_milliseconds(folder, ci), _cpu_milliseconds(folder, ci, "-p", "no:cpg"))
        for _ in range(3)
    ]
    ours, other = zip(*runs, strict=True)
    return min(ours), min(other)


def added(ci: str = "") -> Row:
    """Compare sessions with and without the plugin, alternating."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_plain.py").write_text("def test_plain():\n    pass\n")
        _cpu_milliseconds(folder, ci)
        pairs = [_pair(folder, ci) for _ in range(RUNS)]
    with_plugin, without = (statistics.median(side) for side in zip(*pairs, strict=True))
    # Pairs follow each other closely, so that most of the machine's moods cancel in a difference.
    difference = statistics.median(ours - other for ours, other in pairs)
    return Row(
        what=f"pytest --co -q {'in CI ' if ci else ''}without gates, CPU, median of {RUNS}",
        ours=f"{with_plugin:.0f} ms",
        other=f"-p no:cpg {without:.0f} ms",
        result=f"{difference:+.1f} ms",
        bar="<= 15 ms",
    )


def added_in_ci() -> Row:
    """Compare them where a project that had gates has to have some."""
    return added(ci="true")
