"""HTML page: it shows what the documents hold, takes none of it for markup, and fetches nothing."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from documents import gate, large, measured, session
from fakes import drift_since, first, result_of
from other_kind import other_gate
from rendered import html_page, past, session_of

from pytest_cpg.gates.card import Card, Ruling, Severity, Table
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import MaxVerdict
from pytest_cpg.render import html_page as renderer
from pytest_cpg.render.page import MANY
from pytest_cpg.report.history import History
from pytest_cpg.report.ledger import Entry, Judgement, Ledger
from pytest_cpg.report.session import Session

GATE = "tests/test_wm.py::test_gate[walker]"
BAD = measured(0.96, 0.5, seed=1)
OPEN = measured(0.94, 0.86, seed=4)
GOOD = result_of(first(50, 50), first(50, 50))
WORSE = "the verdict is worse than INCONCLUSIVE"
LIMIT = "more is lost than a limit allows"
# Elements without an end tag.
VOID = {"meta", "link", "input", "col", "br"}


class Page(HTMLParser):
    """A page's elements and text; an element that is not closed in its turn is an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all(self, tag, **attributes):
        return [
            found
            for name, found in self.elements
            if name == tag and attributes.items() <= found.items()
        ]

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def shown(*gates, **more):
    return Page(html_page([session(*gates, **more)]))


def full_session(revision="1" * 40, *, learned=0.5):
    result = measured(0.96, learned, seed=1)
    return session(
        gate(
            GATE,
            result,
            outcome="failed",
            reason=LIMIT,
            drift=drift_since("3f2c1e9aa", OPEN, result),
        ),
        gate("a.py::test_two", GOOD, OPEN),
        gate("a.py::test_return", measured(0.9, 0.3, seed=7, metric="return")),
        gate("a.py::test_margin", measured(0.98, 0.97, 200, seed=9, margin=0.1)),
        gate("a.py::test_xfail", BAD, outcome="xfailed"),
        gate("a.py::test_order", measurements=["1. new 47/50 [1-1], 2. old 30/50 [2-2]"]),
        gate("a.py::test_error", outcome="error", detail="error in setup: boom"),
        gate("a.py::test_missing", outcome="missing"),
        gate("a.py::test_skip", outcome="skipped"),
        findings=[("8 gates: a false alarm", False), ("recipe big: MODEL BOTTLENECK", True)],
        deselected=["a.py::test_left_out"],
        uncollected={"broken.py": "bang"},
        revision=revision,
    )


def test_the_elements_nest_and_every_link_has_its_target():
    page = Page(html_page([full_session("0" * 40, learned=0.8), full_session()]))
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(ids) == len(set(ids))
    links = [found["href"] for tag, found in page.elements if tag in ("a", "use")]
    assert {link[0] for link in links} == {"#"}
    assert {link[1:] for link in links} <= set(ids)
    labels = [found["aria-labelledby"] for _, found in page.elements if "aria-labelledby" in found]
    assert set(labels) <= set(ids)


def test_a_page_asks_nothing_of_any_network_and_allows_its_own_style_and_script_alone():
    text = html_page([full_session()])
    page = Page(text)
    for tag, found in page.elements:
        assert not {"src", "srcset", "style", "action", "data", "poster"} & found.keys(), tag
        assert not [name for name in found if name.startswith("on")], tag
    assert page.all("link") == [{"rel": "icon", "href": "data:,"}]
    assert not re.search(r"url\(|@import", text)
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.strip().split(" ", 1) for rule in policy["content"].split(";"))
    assert rules["default-src"] == "'none'"
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_a_page_without_any_share_has_no_axis_of_shares():
    mine, kinds = other_gate(0.32)
    page = Page(html_page([session(mine)], kinds=kinds))
    assert "A loss of +0.32 [+0.22, +0.42] of error. In brackets, its 90% interval." in page.text
    assert "right of zero" not in page.text
    assert classes_of(page, "forest") == ["forest bad own"]


def classes_of(page, first):
    """Return the classes of all pictures that begin with this one."""
    found = [one.get("class", "") for one in page.all("svg")]
    return [one for one in found if one.split()[:1] == [first]]


def test_a_card_that_shows_nothing_but_its_table_makes_a_row_and_a_section():
    bare = Card(sentence="done", size="", cells={}, table=Table(name="", columns=(), rows=()))
    ruling = Ruling(label="FINE", severity=Severity.GOOD)
    shown = Judgement(
        result=None,
        ruling=ruling,
        max_verdict=MaxVerdict(label="FINE", severity=Severity.GOOD),
        reason="the error is above its limit",
        shown=bare,
    )
    ledger = Ledger(entries={GATE: Entry(outcome="failed", judgements=(shown,))})
    page = Page(renderer.report(Session.of(ledger)))
    assert "Done. Accepted here: FINE. Why" in page.text
    assert "The error is above its limit." in page.text
    assert "right of zero" not in page.text
    assert "Facts" not in page.text


HOSTILE = "</style></script><script>alert(1)</script><b x=\"&amp;' onload=alert(2)>"


def test_a_page_says_when_and_of_which_commit_where_that_is_known():
    bare = session(gate(GATE, OPEN), revision=None, dirty=None)
    page = Page(html_page([bare, bare]))
    assert "The session before: Learned success rate" in page.text
    assert "2 sessions. Bars are 95% intervals." in page.text
    assert "commit" not in page.text[: page.text.index("Worst first.")]
    dated = replace(past(bare), date="2026-11-23T07:51:02.123456+00:00")
    text = renderer.report(replace(session_of(bare), history=History((dated,))))
    assert "pytest-cpg 2026-11-23 07:51 UTC 1 gate" in " ".join(
        re.sub("<[^>]+>", " ", text[text.index('class="run"') + 12 :]).split()
    )
    known = Page(html_page([session(gate(GATE, OPEN))]))
    assert "pytest-cpgcommit 3f2c1e91 gate" in known.text


def test_a_page_names_branch_and_run_and_links_nothing_but_an_address():
    here = html_page([session(gate(GATE, OPEN), branch="<b>", ci_run="https://hub.example/r/11")])
    assert "branch <b>&lt;b&gt;</b>" in here
    assert '<a href="https://hub.example/r/11">CI run 11</a>' in here
    forged = html_page([session(gate(GATE, OPEN), ci_run="javascript:alert(1)/11")])
    assert "<span>CI run 11</span>" in forged
    assert "javascript:" not in forged


def test_nothing_that_users_name_becomes_markup():
    plain = html_page([full_session("0" * 40), full_session()])
    hostile = json.dumps([full_session("0" * 40), full_session()])
    names = {
        "walker": HOSTILE,
        "a.py": HOSTILE,
        "track": HOSTILE,
        "RandomShooting": HOSTILE,
        LIMIT: HOSTILE,
        "boom": HOSTILE,
        "47/50 [1-1]": HOSTILE,
        "recipe big": HOSTILE,
        "left_out": HOSTILE,
        "Linux-6.1": HOSTILE,
        "3f2c1e9": HOSTILE,
        "1" * 40: HOSTILE,
        "numpy": HOSTILE,
        "Turbo 5": HOSTILE,
        "broken.py": HOSTILE,
        "bang": HOSTILE,
        "pytest-cpg": HOSTILE,
        "dynamics": HOSTILE,
    }
    for name, nasty in names.items():
        assert name in hostile
        hostile = hostile.replace(name, json.dumps(nasty)[1:-1])
    text = html_page(json.loads(hostile))
    page = Page(text)
    # A command is broken at its blanks.
    shown = [tag for tag, _ in page.elements if tag != "span"]
    assert shown == [tag for tag, _ in Page(plain).elements if tag != "span"]
    assert text.count("<script") == 1
    assert page.text.count("<script>alert(1)</script>") > 20


def test_the_same_documents_give_the_same_bytes_in_any_process(tmp_path):
    documents = [full_session("0" * 40, learned=0.8), full_session()]
    expected = hashlib.sha256(html_page(documents).encode()).hexdigest()
    (tmp_path / "documents.json").write_text(json.dumps(documents))
    program = (
        "import hashlib, json, sys\n"
        "from rendered import html_page\n"
        "page = html_page(json.load(open(sys.argv[1])))\n"
        "print(hashlib.sha256(page.encode()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "documents.json")],
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == expected


@pytest.mark.parametrize(
    ("gates", "findings", "headline"),
    [
        ([gate(GATE, GOOD)], [], "1 gate passes"),
        ([gate(GATE, BAD, outcome="xfailed")], [], "No gate fails, 1 fails as expected"),
        ([gate(GATE, measurements=["1. a"])], [], "1 of 1 gate measured, not judged"),
        (
            [gate(GATE, GOOD), gate("t", measurements=["1. a"])],
            [],
            "1 of 2 gates measured, not judged",
        ),
        (
            [
                gate(GATE, GOOD),
                gate("t", outcome="error", detail="error in setup: boom. Mend it."),
                gate("u", OPEN),
            ],
            [],
            "t: boom",
        ),
        ([gate(GATE, GOOD), gate("t", outcome="missing")], [], "t: not reported"),
        (
            [gate(name, outcome="error", detail=f"no model in {name}.") for name in ("1", "2")],
            [],
            "2 gates fail alike, the worst 1: no model in 1",
        ),
        ([gate(GATE, GOOD)], [("stale", True)], "Session failed"),
        ([gate(GATE, outcome="skipped")], [("idle", False)], "Nothing measured"),
        ([], [], "Nothing measured"),
    ],
)
def test_the_headline_says_what_failed_and_else_how_the_session_ended(gates, findings, headline):
    text = html_page([session(*gates, findings=findings)])
    # Each word in a box of its own, so that no name is broken at its hyphens.
    words = re.findall('<span class="word">([^<]*)</span>', re.search("<h1>(.*)</h1>", text)[1])
    assert " ".join(words) == headline


def test_labels_of_the_loss_axis_stand_apart_and_what_accepts_a_result_has_its_name():
    page = html_page([session(gate(GATE, measured(0.96, 0.3), outcome="failed", reason=WORSE))])
    labels = re.findall(r'<text x="([\d.]+)" y="27" text-anchor="(\w+)"[^>]*>([^<]+)<', page)
    assert [text for _, _, text in labels] == ["-0.2", "0", "+0.2", "+0.4", "+0.8"]
    # A letter is some 7 pixels wide.
    sides = {"start": 0, "middle": 0.5, "end": 1}
    lefts = [float(x) - sides[side] * 7 * len(text) for x, side, text in labels]
    rights = [left + 7 * len(text) for left, (_, _, text) in zip(lefts, labels, strict=True)]
    assert all(left - right > 4 for right, left in zip(rights, lefts[1:], strict=False))
    assert "<p>Accept: set max_verdict=" in page


def cells_of(text):
    """Return the mark, the note and what is copied of every cell of a page."""
    form = r'<button type="button"( data-copy="([^"]*)")? title="([^"]*)">.*?"#c-(\w+)"'
    return [(mark, note, copied) for _, copied, note, mark in re.findall(form, text)]


def test_every_start_is_a_cell_that_copies_what_leads_to_it():
    document = session(gate(GATE, BAD, outcome="failed", reason=WORSE))
    replay = "pytest t.py --cpg-replay=.cpg/lost/a.json"
    (compared,) = document["gates"][0]["comparisons"]
    compared["commands"] = [{"what": "Replay both arms", "text": replay, "picks": True}]
    text = html_page([document])
    cells = cells_of(text)
    assert len(cells) == 50
    for episode, (mark, note, copied) in enumerate(cells):
        pair = bool(BAD.oracle.successes[episode]), bool(BAD.learned.successes[episode])
        name = {(True, False): "lost", (False, True): "won", (True, True): "both"}
        assert mark == name.get(pair, "neither")
        assert note.startswith(f"start {episode}: ")
        assert f"; seed {episode + 7}; oracle " in note
        seed = f"task.reset([{episode + 7}])"
        assert copied == (f"{replay}::{episode}" if mark == "lost" else seed)
    assert ("Replay", replay) in re.findall(r"(Replay)(pytest \S+ \S+.json)", Page(text).text)


def test_more_than_two_hundred_starts_are_counted_and_the_lost_ones_shown():
    result = measured(0.6, 0.5, 300)
    text = html_page([session(gate(GATE, result, outcome="failed", reason=WORSE))])
    assert len(cells_of(text)) == result.pairs.oracle_only
    assert {mark for mark, _, _ in cells_of(text)} == {"lost"}
    pairs = result.pairs
    for count, kind in (
        (pairs.both, "both solve"),
        (pairs.oracle_only, "lost by the model"),
        (pairs.learned_only, "only the model solves"),
        (pairs.neither, "neither solves"),
    ):
        assert f"{count} {kind}" in Page(text).text


def test_a_margin_is_marked_in_the_forest_plot():
    page = shown(gate(GATE, measured(0.98, 0.97, 200, margin=0.1)), gate("t", GOOD))
    assert len(page.all("path", **{"class": "limit"})) == 1
    assert "A dashed tick is the largest loss that is accepted." in page.text
    assert "A dashed tick" not in shown(gate("t", OPEN)).text


def test_a_gate_has_a_history_once_two_sessions_measured_it():
    rates = (0.9, 0.7, 0.5)
    results = [measured(0.96, rate, seed=1) for rate in rates]
    sessions = [session(revision="never here")]
    sessions += [
        session(
            gate(GATE, result, outcome="failed"),
            gate(f"t{place}", GOOD),
            revision=f"revision{place}",
        )
        for place, result in enumerate(results)
    ]
    page = Page(html_page(sessions))
    assert len(classes_of(page, "spark")) == 1, "of the one gate that was measured before"
    assert classes_of(page, "plot")[0] == "plot first bad"
    learned = [f"{result.learned.success_count}/50" for result in results]
    assert re.findall(r"revisio(\d+/50)", page.text) == learned
    assert f"The session before, revisio: Learned success rate {learned[-2]}." in page.text
    assert "Sessions" not in shown(gate(GATE, OPEN)).text


def test_the_accepted_session_bears_a_ring_which_is_explained_where_there_is_one():
    result = measured(0.96, 0.5, seed=1)
    drift = drift_since("3f2c1e9a0b44", OPEN, result)
    before = session(gate(GATE, OPEN))
    after = session(gate(GATE, result, outcome="failed", drift=drift), revision="9")
    page = Page(html_page([before, after]))
    assert "Ring: the accepted session." in page.text
    assert len(page.all("path", **{"class": "ring"})) == 2, "in the row and beside the headline"
    assert "3f2c1e9 accepted" in page.text
    assert "Ring: " not in html_page([before, session(gate(GATE, OPEN), revision="9")])


def test_the_session_before_is_one_of_the_same_design():
    def before(*results):
        found = [
            session(gate(GATE, one, outcome="failed", reason=WORSE), revision=str(place))
            for place, one in enumerate(results)
        ]
        return re.findall(
            r"The session before, \w+: [a-zL ]+ (\d+/50)", Page(html_page(found)).text
        )

    other = replace(OPEN, design=replace(OPEN.design, horizon=99))
    assert before(measured(0.96, 0.7, seed=1), other, BAD) == [
        f"{measured(0.96, 0.7, seed=1).learned.success_count}/50"
    ]
    assert before(other, BAD) == []


def test_a_session_of_another_design_is_hollow():
    before = session(
        gate(GATE, replace(OPEN, design=replace(OPEN.design, horizon=99))), revision=None
    )
    same = session(gate(GATE, OPEN))
    page = Page(html_page([before, same]))
    assert page.text.count("another design") == 1
    assert len(page.all("path", **{"class": "hollow"})) == 1
    assert "another design" not in Page(html_page([same, same])).text


def test_an_error_is_whole_in_its_section_and_short_everywhere_else():
    error = "error in setup: boom. Mend it."
    text = html_page([session(gate("t", outcome="error", detail=error))])
    assert '<td class="detail" colspan="1">boom</td>' in text
    assert text.count(error) == 1
    assert f'<p class="sentence">{error}</p>' in text


def test_a_few_bad_gates_are_open_and_many_are_not():
    bad = [gate(f"t{n}", BAD, outcome="failed", reason=WORSE) for n in range(7)]
    assert len(shown(*bad[:6], gate(GATE, GOOD)).all("details", open=None)) == 6
    assert len(shown(*bad).all("details", open=None)) == 3


def test_two_hundred_gates_that_fail_in_thirty_sessions_stay_below_a_megabyte():
    drift = drift_since("3f2c1e9", GOOD, BAD)
    gates = [
        gate(f"{GATE}[task-{n}]", (BAD, OPEN)[n % 2], outcome="failed", reason=WORSE, drift=drift)
        for n in range(200)
    ]
    for failed in gates:
        name = failed["id"]
        failed["comparisons"][0]["commands"] = [
            {"what": "Replay both arms", "text": "pytest --cpg-replay=a.json", "picks": True},
            {"what": "Rerun it", "text": f"pytest '{name}'", "picks": False},
        ]
    text = html_page([session(*gates, revision=str(place)) for place in range(30)])
    assert len(text.encode()) < 2**20
    sections = re.split('<details class="gate"', text)[1:]
    assert len(sections) == 200
    for section in sections[6:]:
        numbers = section.partition("<summary>Numbers")[2]
        assert re.search(r"<dt>learned</dt><dd>\d\d/50, 0\.\d\d, \[", numbers)
        assert "<dt>lost</dt><dd>starts " in numbers
        assert "<table" not in section
    assert '<table class="stack arms">' in sections[0]


def test_two_hundred_gates_of_150_starts_stay_below_750_kilobytes():
    assert len(html_page([large()]).encode()) < 750_000


def test_of_many_gates_one_that_passes_is_a_row_that_links_lead_to():
    gates = [gate(f"t::test_many[{n}]", GOOD) for n in range(MANY)]
    page = Page(html_page([session(*gates, gate("t::test_bad", BAD, outcome="failed"))]))
    (section,) = (found for found in page.all("details") if "data-state" in found)
    assert section["id"] == f"gate-{MANY + 1}"
    rows = {found["id"] for found in page.all("tr") if "id" in found}
    assert rows == {f"gate-{n + 1}" for n in range(MANY)}
    links = {found["href"] for found in page.all("a") if found["href"].startswith("#gate-")}
    assert links == {f"#{name}" for name in (*rows, section["id"])}


def test_a_likely_false_alarm_is_told_with_the_answers_and_once():
    document = session(gate(GATE, GOOD), findings=[("Chance alone fails one.", False)])
    assert "Chance alone" not in html_page([document]).partition("<main>")[0]
    document["findings"][0]["warns"] = True
    above, _, below = html_page([document]).partition("<main>")
    assert "Chance alone fails one." in above
    assert "Chance alone fails one." not in below


def test_what_cannot_be_compared_is_in_doubt_and_stands_below_a_regression():
    gone, worse = (
        Drift(label=label, text="46 -> 40 of 50", was="0.92", now="0.80")
        for label in (Label.INCOMPARABLE, Label.REGRESSED)
    )
    failed = {"outcome": "failed", "reason": WORSE}
    page = shown(gate("t::a", BAD, drift=gone, **failed), gate("t::b", BAD, drift=worse, **failed))
    marks = [found["class"] for found in page.all("span") if "drift" in found.get("class", "")]
    assert marks[:2] == ["drift bad", "drift unsure"]


def test_eight_gates_and_three_films_stay_below_a_megabyte_and_a_half():
    gates = [gate(f"t{n}", BAD, outcome="failed", reason=WORSE) for n in range(6)]
    gates += [gate(f"t{n}", GOOD) for n in (6, 7)]
    # As many frames as there are at most, each of twice the bytes that one of MuJoCo takes.
    frames = [[step, "A" * 6000] for step in range(0, 500, 63)]
    for failed in gates[:3]:
        reels = [
            {"arm": arm, "ending": "ended", "is_solved": False, "frames": frames}
            for arm in ("oracle", "learned")
        ]
        strip = {"episode": 1, "lost": 2, "period": 0.01, "reels": reels}
        failed["comparisons"][0]["strip"] = strip
    text = html_page([session(*gates)])
    assert text.count("data:image/webp;base64,") == 3 * 2 * len(frames)
    assert text.count('aria-label="oracle ended; learned ended"') == 3 * 2
    assert text.count(">step, 0.01 s each</text>") == 3 * 2
    assert len(text.encode()) < 1_500_000


def luminance(colour):
    """Return the relative luminance of WCAG 2.2."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_shapes_stand_out_in_either_theme(theme):
    form = r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)"
    colours = {name: both[theme] for name, *both in re.findall(form, html_page([session()]))}
    # 4.5 for text and 3 for what is drawn: WCAG 2.2, success criteria 1.4.3 and 1.4.11.
    tones = ("bad", "blind", "unsure", "good")
    texts = ("ink", "quiet", "learned", *tones)
    wanted = [(name, ground, 4.5) for name in texts for ground in ("page", "panel")]
    wanted += [(tone, f"{tone}-tint", 4.5) for tone in tones]
    for name, ground, ratio in [*wanted, ("shape", "page", 3)]:
        darker, lighter = sorted((luminance(colours[name]), luminance(colours[ground])))
        found = (lighter + 0.05) / (darker + 0.05)
        assert found >= ratio, (name, ground, found)


def test_a_gate_in_error_is_open_where_it_is_all_that_there_is_to_see_and_is_named_once():
    broken = gate("a.py::test_broken", outcome="error", detail="it predicted NaN. Mend it.")
    page = Page(html_page([session(broken, gate(GATE, GOOD), exit_code=1)]))
    assert "Also failing" not in page.text
    assert "Mend it." in page.text
    assert "Evidence of 1 gate that does not pass" not in page.text


def test_a_test_with_two_parameters_has_a_line_of_marks_for_each_value_of_the_fewer():
    gates = [
        gate(f"t.py::test_maze[{size}-{planner}]", GOOD)
        for size in range(20)
        for planner in ("beam", "greedy")
    ]
    text = html_page([session(*gates)])
    matrix = text[text.index('<div class="matrix">') : text.index("<table")]
    assert re.findall(r'<span class="label">(\w+)', matrix) == ["beam", "greedy"]
    assert re.findall(r'label ends">([^<]+)', matrix) == ["0 … 19"] * 2
    assert [line.count("<li>") for line in matrix.split("<ol>")[1:]] == [20, 20]
    one = html_page([session(*(gate(f"t.py::test_a[p{n}]", GOOD) for n in range(40)))])
    assert re.findall(r'label ends">([^<]+)', one) == ["p0 … p39"]
    assert '<span class="label">' not in one
