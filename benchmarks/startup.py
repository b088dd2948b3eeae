"""What the installed plugin adds to a session without gates."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.row import Row

RUNS = 15


def _cpu_milliseconds(folder: Path, *arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1e3 * seconds


def added() -> Row:
    """Compare sessions with and without the plugin, alternating."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_plain.py").write_text("def test_plain():\n    pass\n")
        pairs = [
            (_cpu_milliseconds(folder), _cpu_milliseconds(folder, "-p", "no:cpg"))
            for _ in range(RUNS)
        ]
    with_plugin, without = (statistics.median(side) for side in zip(*pairs, strict=True))
    # Pairs follow each other closely, so that most of the machine's moods cancel in a difference.
    difference = statistics.median(ours - other for ours, other in pairs)
    return Row(
        what=f"pytest --co -q without gates, CPU, median of {RUNS}",
        ours=f"{with_plugin:.0f} ms",
        other=f"-p no:cpg {without:.0f} ms",
        result=f"{difference:+.1f} ms",
        bar="<= 5 ms",
    )
