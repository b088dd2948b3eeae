"""The page of 200 gates with 150 episodes each: how large it is, and how long it takes to show."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.row import Row, cpu_seconds

TESTS = Path(__file__).parent.parent / "tests"
# Parse, script, style and layout; the browser's own start is not in it.
FRAME = """<!DOCTYPE html><meta charset="utf-8"><pre id="told"></pre><script>
const frame = document.createElement("iframe");
frame.width = 1100; frame.height = 900;
const start = performance.now();
frame.onload = () => {{
  frame.contentDocument.documentElement.getBoundingClientRect();
  document.getElementById("told").textContent = performance.now() - start;
}};
frame.srcdoc = {page};
document.body.append(frame);
</script>"""


def large() -> Row:
    """Write the page, and let a browser show it five times."""
    sys.path.insert(0, str(TESTS))
    from documents import large as large_session
    from rendered import html_page

    document = large_session()
    seconds = cpu_seconds(lambda: html_page([document]))
    page = html_page([document])
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    shown = (
        f"{statistics.median(_seconds_to_show(browser, page) for _ in range(5)):.2f} s"
        if browser
        else "no browser"
    )
    return Row(
        what="page of 200 gates x 150 episodes, shown",
        ours=f"{len(page.encode()) / 1e6:.2f} MB",
        other=f"written in {seconds:.1f} s CPU",
        result=shown,
        bar="< 2 s, < 2 MB",
    )


def _seconds_to_show(browser: str, page: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "frame.html")
        # No closing tag of the page may end the script that holds it.
        text = json.dumps(page).replace("<", "\\u003c")
        file.write_text(FRAME.format(page=text), encoding="utf-8")
        run = subprocess.run(
            [
                browser,
                *("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,1000"),
                *(f"--user-data-dir={folder}/profile", "--dump-dom", file.as_uri()),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    found = re.search(r'id="told">([\d.]+)<', run.stdout)
    if found is None:
        raise RuntimeError("the browser did not show the page")
    return float(found[1]) / 1000
