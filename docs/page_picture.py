"""Draw the pictures of pages and a film: what gates wrote, as a browser shows it.

The demo's gates give ``page-1280.png``, ``page-390.png`` and ``film.gif``, those of the gallery a
``verdict-NAME.png`` for each verdict or kind of gate. ``page_picture.py [PAGE]`` draws a page that
is there already. Frames of a lost episode need a GPU or ``MUJOCO_GL=osmesa``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops
from transcripts import BLOCK, environment

DOCS = Path(__file__).parent
ROOT = DOCS.parent
# Of the window in pixels: a desk and a telephone.
WINDOWS = {1280: 1640, 390: 1640}
# Of a page in the gallery: its top without what is below the table, and blank rows below that.
HEIGHT, MARGIN = 900, 24
TOP_ALONE = "<style>.session, details.gate, details.evidence { display: none }</style>"
# Tests of the gallery by the picture of their page: a verdict, or all that a kind of gate has.
VERDICTS = {
    "as-good": "test_planning_gap.py::test_maze[right]",
    "model-bottleneck": "test_planning_gap.py::test_maze[no_walls]",
    "inconclusive": "test_planning_gap.py::test_two_rooms[no_walls]",
    "planner-bottleneck": "test_planning_gap.py::test_hurried[right]",
    "outperforms": "test_dead_end.py",
    "no-verdict": "test_planning_gap.py::test_maze[lost_precision]",
    "plan-quality": "test_plan_quality.py",
    "which-action": "test_actions.py",
    "retrieval": "test_retrieval.py",
    "response": "test_response.py",
    "policy-comparison": "test_policies.py",
}
# No browser's window is as narrow as a telephone, a frame is.
FRAME = (
    '<style>body {{ margin: 0 }} iframe {{ border: 0 }}</style><iframe src="{page}" width="{width}"'
    ' height="{height}" scrolling="no"></iframe>'
)


def main() -> None:
    """Write all pictures, or those of a page."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("this needs chromium")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = Path(sys.argv[1]).resolve() if sys.argv[1:] else demo(folder)
        for width, height in WINDOWS.items():
            shoot(browser, page, width, height).save(DOCS / f"page-{width}.png", optimize=True)
        if not sys.argv[1:]:
            gallery(browser, folder)


def demo(folder: Path) -> Path:
    """Run the demo's gates and film a start that one of them lost; return their page."""
    copy = shutil.copytree(ROOT / "examples" / "dmc_gates", folder / "demo")
    page = copy / "page.html"
    pytest(copy, f"--cpg-html={page}")
    (episode,) = re.findall(r"Episode (\d+), the most telling", page.read_text("utf-8"))[:1]
    (lost,) = re.findall(r"--cpg-replay=(\S+?)<", page.read_text("utf-8"))[:1]
    pytest(copy, f"--cpg-replay={lost}::{episode}", "--cpg-render")
    (film,) = (copy / ".cpg" / "lost").glob("*.gif")
    shutil.copy(film, DOCS / "film.gif")
    return page


def gallery(browser: str, folder: Path) -> None:
    """Run gates of the gallery and draw the top of each one's page."""
    for _, code in BLOCK.findall((DOCS / "gallery.md").read_text(encoding="utf-8")):
        if named := re.match(r"# ([\w/.-]+\.\w+)\n", code):
            (folder / named[1]).write_text(code, encoding="utf-8")
    for name, test in VERDICTS.items():
        page = folder / f"{name}.html"
        pytest(folder, test, f"--cpg-html={page}", "--cpg-history=")
        # Its policy allows no style but its own.
        text = re.sub(r"<meta http-equiv=[^>]*>", TOP_ALONE, page.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8")
        seen = shoot(browser, page, 1280, HEIGHT)
        paper = Image.new("RGB", seen.size, seen.convert("RGB").getpixel((0, 0)))
        (*_, bottom) = ImageChops.difference(seen.convert("RGB"), paper).getbbox()
        seen.crop((0, 0, 1280, bottom + MARGIN)).save(DOCS / f"verdict-{name}.png", optimize=True)


def pytest(folder: Path, *arguments: str) -> None:
    """Run gates, which may fail."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments]
    subprocess.run(command, cwd=folder, env=environment(), check=False)


def shoot(browser: str, page: Path, width: int, height: int) -> Image.Image:
    """Return the top of a page in a window, in few colours: a file that a repository can carry."""
    with tempfile.TemporaryDirectory() as folder:
        frame, picture = Path(folder, "frame.html"), Path(folder, "picture.png")
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
            return drawn.convert("RGB").crop((0, 0, width, height)).quantize(128)


if __name__ == "__main__":
    main()
