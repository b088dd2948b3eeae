"""Draw README's picture: the real output of a failing gate, as an SVG that loads nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
COMMAND = ["pytest", "-k", "cartpole"]


def main() -> None:
    """Run the gate and write ``docs/failing-gate.svg``."""
    run = subprocess.run(
        [sys.executable, "-m", *COMMAND, "--color=yes", "-p", "no:cacheprovider"],
        cwd=ROOT / "examples" / "dmc_gates",
        env={**os.environ, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    output = re.sub(r"(?m)^(platform|rootdir|configfile|plugins).*\n", "", run.stdout)
    console = Console(record=True, width=82, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text(f"$ {' '.join(COMMAND)}"))
    console.print(Text.from_ansi(output))
    svg = console.export_svg(title="a failing gate")
    # The fonts of the template come from elsewhere; every browser has a monospaced one.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", "monospace")
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    (ROOT / "docs" / "failing-gate.svg").write_text(svg)


if __name__ == "__main__":
    main()
