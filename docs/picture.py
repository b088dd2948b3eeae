"""Draw README's picture: what its first gate prints, as an SVG that loads nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text
from transcripts import LEFT_OUT, environment

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "failing-gate.svg"


def main() -> None:
    """Run README's first gate and write ``docs/failing-gate.svg``, or the picture to stdout: -."""
    first, *_ = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_maze.py").write_text(first)
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "--color=yes"],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    console = Console(record=True, width=82, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text("$ pytest"))
    console.print(Text.from_ansi(re.sub(LEFT_OUT.pattern, "", run.stdout)))
    svg = console.export_svg(title="a failing gate")
    # The fonts of the template come from elsewhere; every browser has a monospaced one.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", "monospace")
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(svg)
    else:
        PICTURE.write_text(svg)


if __name__ == "__main__":
    main()
