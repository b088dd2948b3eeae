"""The page in a browser: it starts without a complaint, and its controls do what they say.

The page is put into a frame of another page, whose script plays the reader: nothing is added to the
page itself, and its policy stays as it is.
"""

import html
import itertools
import json
import os
import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from documents import gate, measured, session
from fakes import drift_since, first, result_of
from other_kind import other_gate
from rendered import html_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")

BAD = measured(0.6, 0.4, 60, seed=1)
GOOD = result_of(first(50, 50), first(50, 50))
WORSE = "the verdict is worse than INCONCLUSIVE"
LOUD = "</script><script>console.error('ran')</script><img src='x' onerror='console.error(2)'>"
DOCUMENT = session(
    gate("b.py::test_good", GOOD),
    gate("a.py::test_bad", BAD, outcome="failed", reason=WORSE),
    gate(f"c.py::test[{LOUD}]", GOOD, GOOD, BAD),
    gate("d.py::test_gone" + "_long" * 40, outcome="missing"),
    gate("e.py::test_" + "wide" * 50, replace(BAD, design=replace(BAD.design, planner="x" * 200))),
    findings=[("no" * 200, True)],
    deselected=["f" * 300],
)


def with_command(document):
    """Return a document in which the last gate says how it is run again."""
    again = {"what": "Rerun it", "text": "pytest t --cpg-seed=4 --cpg-episodes=60", "picks": False}
    document["gates"][-1]["comparisons"][0]["commands"] = [again]
    return document


FRAME = """<!DOCTYPE html><meta charset="utf-8"><pre id="told">{{}}</pre>
<iframe width="{width}" height="900" srcdoc="{page}"></iframe>
<script>
const frame = document.querySelector("iframe");
const pause = () => new Promise((done) => setTimeout(done, 50));
frame.addEventListener("load", async () => {{
  const page = frame.contentDocument;
  const find = (what) => [...page.querySelectorAll(what)];
  const shown = (what) => find(what).filter((one) => one.checkVisibility());
  const play = async () => {{ {script} }};
  document.getElementById("told").textContent = JSON.stringify(await play());
}}, {{ once: true }});
</script>
"""


def read(page, script, tmp_path, *, width=1100):
    """Return what the script returns with the page before it, and what the console says."""
    file = tmp_path / "frame.html"
    file.write_text(FRAME.format(width=width, page=html.escape(page), script=script), "utf-8")
    run = browse(file.as_uri(), tmp_path)
    (told,) = re.findall(r'<pre id="told">(.*?)</pre>', run.stdout, re.DOTALL)
    return json.loads(html.unescape(told)), re.findall(r".*:CONSOLE.*", run.stderr)


def browse(address, tmp_path):
    """Return the run of a browser that prints the document it ends with."""
    return subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=10000",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1300,1000",
            "--dump-dom",
            address,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_a_page_starts_without_a_complaint_whatever_its_gates_are_called(tmp_path):
    told, console = read(
        html_page([DOCUMENT, DOCUMENT]),
        """for (const one of find("details")) one.open = true;
        await pause();
        return { controls: shown("#find").length, pictures: find("img").length };""",
        tmp_path,
    )
    assert told == {"controls": 1, "pictures": 0}
    assert console == []


def test_a_dense_row_on_a_phone_has_verdict_name_and_change_beside_each_other(tmp_path):
    drift = drift_since("3f2c1e9", GOOD, BAD)
    gates = [
        gate(f"t.py::test_gate[{n}]", BAD, outcome="failed", reason=WORSE, drift=drift)
        for n in range(40)
    ]
    told, console = read(
        html_page([session(*gates)]),
        """
        const row = find("#gates tbody tr")[0];
        const cells = [".verdict svg", ".name", ".was"].map((one) => row.querySelector(one));
        return cells.map((one) => one.getBoundingClientRect()).map((one) => [one.left, one.right]);
        """,
        tmp_path,
        width=390,
    )
    assert console == []
    edges = [edge for cell in told for edge in cell]
    assert edges == sorted(edges)


def test_two_hundred_gates_are_dense_and_have_a_mark_each(tmp_path):
    outcomes = [{}, {"outcome": "failed", "reason": WORSE}]
    gates = [
        gate(f"t.py::test_gate[{i}]", (GOOD, BAD)[i % 2], **outcomes[i % 2]) for i in range(200)
    ]
    told, console = read(
        html_page([session(*gates)]),
        """
        const height = () => find("#gates tbody tr")[0].getBoundingClientRect().height;
        const told = { marks: shown(".matrix a").length, rows: shown("#gates tbody tr").length };
        told.dense = height();
        page.getElementById("dense").click();
        await pause();
        told.loose = height();
        // A link of a page in a frame would leave it.
        frame.contentWindow.location.hash = find(".matrix a")[0].getAttribute("href");
        await pause();
        told.opened = shown("#gates tbody tr").length;
        return told;
        """,
        tmp_path,
    )
    assert told["marks"] == 200
    assert told["opened"] == 200, "the first one passes: its row is shown"
    assert told["rows"] == 100, "those that pass are folded"
    assert told["dense"] <= 26
    assert told["loose"] >= 52
    assert console == []


def test_the_policy_keeps_out_a_script_that_is_not_its_own(tmp_path):
    changed = html_page([DOCUMENT]).replace('"use strict";', '"use strict"; /* changed */')
    told, console = read(changed, 'return shown("#find").length;', tmp_path)
    assert told == 0
    assert "Content Security Policy" in console[0]


def test_without_script_every_gate_is_there(tmp_path):
    page = re.sub(r"<script>.*</script>", "", html_page([DOCUMENT]), flags=re.DOTALL)
    told, console = read(
        page,
        """
        const told = [shown("button.copy").length, shown("#gates tbody tr").length];
        for (const one of find("details")) one.open = true;
        await pause();
        return [...told, shown("#gates tbody tr").length, shown("details.gate").length];
        """,
        tmp_path,
    )
    assert told == [0, 2, 7, 5]
    assert console == []


def test_gates_are_found_by_name_and_verdict(tmp_path):
    told, console = read(
        html_page([DOCUMENT]),
        """
        const names = () => shown("#gates tbody tr a").map((one) => one.textContent.slice(0, 9));
        const look = (words) => {
          page.getElementById("find").value = words;
          page.getElementById("find").dispatchEvent(new frame.contentWindow.Event("input"));
          return [names().join(" "), page.getElementById("found").textContent];
        };
        return ["  BAD ", "gone reported", "no such gate", "good as", ""].map(look);
        """,
        tmp_path,
    )
    names, counted = zip(*told, strict=True)
    assert names[:4] == ("test_bad", "test_gone", "", "test[</sc test[</sc test_good")
    assert counted == ("1 of 7 rows", "1 of 7 rows", "0 of 7 rows", "3 of 7 rows", "")
    assert console == []


def test_the_address_of_a_gate_opens_it_and_what_it_lies_in(tmp_path):
    file = tmp_path / "page.html"
    file.write_text(html_page([DOCUMENT] * 2).replace(" open>", ">"), "utf-8")
    dumped = browse(f"{file.as_uri()}#gate-1", tmp_path).stdout
    opened = re.findall(r'<details class="(gate|folded evidence)"[^>]* open="">', dumped)
    assert opened == ["folded evidence", "gate"]


def test_a_cell_and_a_command_are_copied_and_arrow_keys_move_along_the_cells(tmp_path):
    told, console = read(
        html_page([with_command(session(gate("t", BAD, outcome="failed", reason=WORSE)))]),
        """
        const cells = find(".starts button");
        const key = (name) => page.activeElement.dispatchEvent(
          new frame.contentWindow.KeyboardEvent("keydown", { key: name, bubbles: true }));
        const at = () => cells.indexOf(page.activeElement);
        const stops = cells.filter((one) => one.tabIndex === 0).length;
        cells[0].focus();
        const path = [at()];
        for (const name of ["ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "Home"]) {
          key(name);
          path.push(at());
        }
        const told = { stops, path };
        const copied = async (button, place) => {
          button.click();
          while (!place.textContent) await pause();
          return place.textContent;
        };
        told.said = await copied(cells[3], find(".said")[0]);
        told.live = await copied(find("button.copy")[0], page.getElementById("live"));
        return told;
        """,
        tmp_path,
    )
    assert told["stops"] == 1
    assert told["path"] == [0, 1, 2, 1, 59, 59, 0]
    assert told["said"] == "Copied: task.reset([10])"
    assert told["live"] == "Copied: pytest t --cpg-seed=4 --cpg-episodes=60"
    assert console == []


def reel(arm, steps):
    """Return an arm's pictures, which are one pixel each."""
    pixel = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="
    frames = [[step, pixel] for step in steps]
    return {"arm": arm, "ending": f"ends at {steps[-1]}", "is_solved": False, "frames": frames}


@pytest.mark.parametrize(("width", "shown", "pictures"), [(390, "narrow", 5), (1100, "broad", 8)])
def test_a_film_has_as_many_pictures_as_there_is_room_for(tmp_path, width, shown, pictures):
    document = session(gate("t", BAD, outcome="failed", reason=WORSE))
    reels = [reel("oracle", (0, 120)), reel("learned", range(0, 501, 100))]
    strip = {"episode": 3, "lost": 5, "period": 0.02, "reels": reels}
    document["gates"][0]["comparisons"][0]["strip"] = strip
    told, console = read(
        html_page([document]),
        """
        const films = shown(".film svg:not(.defs)");
        const lefts = [...films[0].querySelectorAll("use")].map((one) => {
          const box = one.getBoundingClientRect();
          return [Math.round(box.left), Math.round(box.top), box.width];
        });
        return { layouts: films.map((one) => one.getAttribute("class")), lefts };
        """,
        tmp_path,
        width=width,
    )
    assert told["layouts"] == [shown]
    assert len(told["lefts"]) == pictures
    assert len(set(map(tuple, told["lefts"]))) == pictures
    assert all(wide > 60 for _, _, wide in told["lefts"])
    # Nothing that the policy keeps out.
    assert console == []


@pytest.mark.parametrize("width", [390, 1100])
def test_nothing_is_wider_than_the_window(tmp_path, width):
    mine, kinds_of_other = other_gate(0.32)
    document = {**DOCUMENT, "gates": [*DOCUMENT["gates"], mine]}
    told, console = read(
        html_page([document, document], kinds=kinds_of_other),
        """
        for (const one of find("details")) one.open = true;
        await pause();
        const right = Math.max(...find("main :not(svg *)").map((one) =>
          one.closest(".hidden") ? 0 : one.getBoundingClientRect().right));
        return [page.documentElement.clientWidth, page.documentElement.scrollWidth, right];
        """,
        tmp_path,
        width=width,
    )
    assert told[0] > width - 30
    assert told[1] <= told[0]
    assert told[2] <= told[0]
    assert console == []


# Of each: the text that it types, and its code.
KEYS = {"Tab": ("", 9), "Enter": ("\r", 13), " ": (" ", 32)}
# What the next key goes to, in a word.
FOCUSED = """(() => {
  const one = document.activeElement;
  const place = one.closest(".starts, details");
  return one.id || one.getAttribute("href") || (one.matches(".copy") ? "copy" : "") ||
    place.id || place.className;
})()"""


@contextmanager
def keyboard(page, tmp_path):
    """Give what types a key and says what has the focus then, and what evaluates a script.

    Keys are real ones by the browser's debugging protocol alone: JSON that ends in a zero.
    """
    file = tmp_path / "typed.html"
    file.write_text(page, "utf-8")
    (inner, commands), (answers, outer) = os.pipe(), os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    profile = f"--user-data-dir={tmp_path / 'typed'}"
    browser = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{inner} 4>&{outer}', "", BROWSER, *options, profile],  # noqa: S607
        pass_fds=(inner, outer),
        stderr=subprocess.DEVNULL,
    )
    os.close(inner)
    os.close(outer)
    # One that hangs is not waited for.
    patience = threading.Timer(120, browser.kill)
    patience.start()
    session, count = {}, itertools.count(1)
    told = iter(lambda: os.read(answers, 1), b"")

    def ask(method, **params):
        number = next(count)
        command = {"id": number, "method": method, "params": params, **session}
        os.write(commands, json.dumps(command).encode() + b"\0")
        while True:
            # An error at the end of the file, where the browser has gone.
            answer = json.loads(b"".join(itertools.takewhile(lambda one: one != b"\0", told)))
            if answer.get("id") == number:
                return answer["result"]

    def evaluate(script):
        return ask("Runtime.evaluate", expression=script, awaitPromise=True)["result"].get("value")

    def press(key):
        text, code = KEYS[key]
        named = {"key": key, "windowsVirtualKeyCode": code}
        ask("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        ask("Input.dispatchKeyEvent", type="keyUp", **named)
        return evaluate(FOCUSED)

    try:
        target = ask("Target.createTarget", url="about:blank")
        session = ask("Target.attachToTarget", flatten=True, **target)
        ask("Page.navigate", url=file.as_uri())
        loaded = "new Promise((done) => addEventListener('load', done))"
        evaluate(f"document.readyState === 'complete' || {loaded}")
        yield press, evaluate
    finally:
        patience.cancel()
        browser.kill()
        browser.wait()
        os.close(commands)
        os.close(answers)


def test_every_control_is_reached_and_worked_by_the_keyboard(tmp_path):
    gates = gate("t.py::test_a", GOOD), gate("t.py::test_b", BAD, outcome="failed")
    page = html_page([with_command(session(*gates))])
    with keyboard(page, tmp_path) as (press, evaluate):
        stops = [press("Tab") for _ in range(8)]
        assert stops == ["#gates", "copy", "dense", "find", "#gate-2", "folded", "gate-2", "copy"]
        is_open = "document.getElementById('gate-2').open"
        assert evaluate(is_open)
        # The cells of a row are one stop.
        assert [press("Tab") for _ in range(2)] == ["starts", "more"]
    with keyboard(page, tmp_path) as (press, evaluate):
        assert [press("Tab") for _ in range(3)][-1] == "dense"
        press(" ")
        assert evaluate("document.getElementById('dense').checked")
        assert [press("Tab") for _ in range(4)][-1] == "gate-2"
        press("Enter")
        assert not evaluate(is_open)
        evaluate("""document.querySelector('a[href="#gate-1"]').click()""")
        opened = (
            "new Promise((done) => setTimeout(() => done(document.getElementById('gate-1').open)))"
        )
        assert evaluate(opened)
