"""Draw README's picture of the page: what the demo's gates wrote, as a browser shows it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Run the demo's gates and write ``docs/page.png``."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("this needs chromium")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--cpg-html={page}"],
            cwd=ROOT / "examples" / "dmc_gates",
            check=False,
        )
        subprocess.run(
            [
                browser,
                *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--window-size=1000,900", f"--user-data-dir={folder}/profile"),
                f"--screenshot={ROOT / 'docs' / 'page.png'}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    main()
