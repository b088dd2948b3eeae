"""Draw the pictures of the page: what the demo's gates wrote, as a browser shows it.

``page_picture.py [PAGE]`` draws a page that is there already. Frames of a lost episode need a GPU
or ``MUJOCO_GL=osmesa``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent
# Of the window in pixels: a desk and a telephone.
WINDOWS = {1280: 1640, 390: 1640}
# No browser's window is as narrow as a telephone, a frame is.
FRAME = (
    '<style>body {{ margin: 0 }} iframe {{ border: 0 }}</style><iframe src="{page}" width="{width}"'
    ' height="{height}" scrolling="no"></iframe>'
)


def main() -> None:
    """Run the demo's gates and write ``docs/page-1280.png`` and ``docs/page-390.png``."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("this needs chromium")
    given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(given[0]).resolve() if given else Path(folder, "page.html")
        if not given:
            subprocess.run(
                [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--cpg-html={page}"],
                cwd=ROOT / "examples" / "dmc_gates",
                check=False,
            )
        for width, height in WINDOWS.items():
            frame, picture = Path(folder, "frame.html"), ROOT / "docs" / f"page-{width}.png"
            text = FRAME.format(page=page.as_uri(), width=width, height=height)
            frame.write_text(text, encoding="utf-8")
            subprocess.run(
                [
                    browser,
                    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                    *("--allow-file-access-from-files", f"--user-data-dir={folder}/profile"),
                    *(f"--window-size={max(width, 500)},{height}", f"--screenshot={picture}"),
                    frame.as_uri(),
                ],
                check=True,
                capture_output=True,
            )
            with Image.open(picture) as drawn:
                # Few colours make a file that a repository can carry.
                few = drawn.convert("RGB").crop((0, 0, width, height)).quantize(128)
            few.save(picture, optimize=True)


if __name__ == "__main__":
    main()
