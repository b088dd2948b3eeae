import html
import re
from dataclasses import replace
from functools import cache

import pytest
from fakes import PROVENANCE, drift_since, first, judged, result_of
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from rendered import markdown

from pytest_cpg.gates import GATES
from pytest_cpg.gates.notation import fitted_names, one_line
from pytest_cpg.render.markdown import MARKER
from pytest_cpg.report.document import document, session_in
from pytest_cpg.report.ledger import Entry, Finding, Ledger
from pytest_cpg.report.session import Session, SessionEnd

BAD = result_of(first(50, 50), first(10, 50), first(5, 50))
GOOD = result_of(first(100, 100), first(100, 100))
GOOD50 = result_of(first(50, 50), first(50, 50))
OPEN = result_of(first(47, 50), first(43, 50))
WEAK = result_of(first(12, 12), first(12, 12))
RETURN = result_of(first(9, 10), first(2, 10), metric="return", margin=0.5)
# The limit on a comment of GitHub, in characters.
LIMIT = 65_536
SIGNS = {"❌", "❔", "✅", "⚪"}
HOSTILE = [
    "| a | b |\n|---|---|",
    "``` \n</details><script>alert(1)</script>",
    "[x](https://evil.example) ![x](y) <https://evil.example> www.evil.example",
    "@everyone @org/team #1 GH-2 org/repo#3 foo@bar.example mailto:foo@bar.example",
    "\r\n\r\n# heading\u2028\x00\x1b[31m\u202e\ud800 \\| \\` &lt;b&gt; &#124;",
    "$$x$$ :smile: *a* _b_ ~~c~~ 1. - + ===",
    "    four blanks",
    "",
]
hostile = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.sampled_from("|`@#<>&[]()!*_~$:\\/.-+= \n\r\tabgGhHw1"), max_size=60),
    st.text(st.characters(), max_size=40),
)
few = settings(max_examples=20)


def entry(outcome, *results, reason=None, drift=None, **more):
    judgements = tuple(judged(result, reason, drift) for result in results)
    return Entry(outcome=outcome, judgements=judgements, **more)


GREEN = SessionEnd(exit_code=0)


def text_of(gates, findings=(), provenance=PROVENANCE, end=GREEN, *, page="", card=None, **more):
    """Return the comment on a session; a gate whose entry is None did not report."""
    ledger = Ledger()
    ledger.expect(gates)
    for gate, found in gates.items():
        if found is not None:
            ledger.note(gate, found)
    ledger.findings = tuple(findings)
    for name, value in more.items():
        setattr(ledger, name, value)
    for gate, found in ledger.entries.items() if card else ():
        shown = [replace(one, shown=replace(one.card, **card)) for one in found.judgements]
        ledger.entries[gate] = replace(found, judgements=tuple(shown))
    session = Session.of(ledger, provenance, end)
    if card is None:
        # As a report has it.
        session = session_in(document(session), GATES)
    return markdown(session, page=page)


def rows(text):
    """Return the cells of the gates' tables as a reader sees them, without their heads."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if line.startswith("| ") and cells[1] in SIGNS:
            assert cells[-1] == ""
            found.append([seen(cell) for cell in cells[1:-1]])
    return found


def heads(text):
    return [
        [seen(cell).strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|  | gate")
    ]


def seen(markup):
    """Return a text as a reader sees it: without tags, escapes and the fences of code."""
    text = html.unescape(re.sub(r"</?\w[^>]*>", "", markup)).replace("\u200b", "")
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", re.sub(r"(?<!\\)(`+)(.*?)\1", r"\2", text))


def test_it_begins_with_the_mark_by_which_a_bot_finds_it():
    assert text_of({}).startswith(f"{MARKER}\n### ❌ pytest-cpg nothing measured\n")


def test_the_page_is_linked_where_it_has_an_address():
    text = text_of({"a": entry("passed", GOOD)}, page="https://github.example/runs/1#artifacts")
    assert "\n[Page and report](https://github.example/runs/1#artifacts). pytest-cpg: " in text


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_one_gate_that_is_not_green_makes_the_heading_red(outcome):
    def sign(*given):
        return text_of(*given).splitlines()[1].split()[1]

    gates = {"a": entry("passed", GOOD)}
    assert sign(gates) == "✅"
    assert sign({**gates, "b": entry(outcome)}) == "❌"
    assert sign({**gates, "b": None}) == "❌"
    assert sign(gates, [Finding("x", fails=True)]) == "❌"
    assert sign(gates, [Finding("x")]) == "✅"


def test_gates_that_fail_for_one_reason_are_counted_in_the_heading():
    gates = {name: entry("failed", BAD, reason="bad") for name in ("a", "b", "c")}
    gates |= {name: entry("error", detail=f"no file {name}.pt.") for name in ("1", "2")}
    heading = seen(text_of({**gates, "d": entry("error", detail="boom")}).splitlines()[1])
    assert re.search(r"6 of 6 gates fail: track \(a\) and 2 alike: MODEL BOTTLENECK: the", heading)
    assert heading.endswith("; 1 and 1 alike: ERROR: no file 1.pt; and 1 more")


@pytest.mark.parametrize(
    ("exit_code", "outcome"),
    [(1, "failed"), (2, "interrupted"), (3, "internal error"), (4, "usage error"), (7, "failed")],
)
def test_a_session_that_failed_beside_its_gates_did_not_pass(exit_code, outcome):
    end = SessionEnd(exit_code=exit_code, failed_tests=1, uncollected={"t.py": "boom"})
    text = text_of({"a": entry("passed", GOOD)}, end=end)
    counts = f"1 gate, 1 passed, 1 other test failed, 1 not collected, exit code {exit_code}"
    assert text.splitlines()[1] == f"### ❌ pytest-cpg {outcome}"
    assert text.splitlines()[3] == f"pytest-cpg: {outcome} ({counts})"
    assert "- **not collected**: t.py: boom" in seen(text)


def session_named(text):
    """Return the comment on a session in which everything a user can name is this text."""
    design = replace(BAD.design, task=text, planner=text, versions={text: text})
    named = replace(
        BAD, design=design, evidence=text, notes=(text,), faults=(text,), swapped=(text,),
        group=text,
    )  # fmt: skip
    drift = drift_since("3f2c1e9", BAD, named)
    drift = replace(drift, text=text)
    gates = {
        f"1::{text}": entry("failed", named, reason="worse", drift=drift, detail=text),
        f"2::{text}": entry("failed", named, reason=text, detail=text),
        f"3{text}": entry("error", detail=text),
        f"4{text}": entry("passed", named, measurements=(text,), attempt=2, earlier=(text,)),
        f"5{text}": None,
    }
    findings = [Finding(text), Finding(text, fails=True)]
    provenance = replace(
        PROVENANCE,
        python=text,
        platform=text,
        processor=text,
        kernels={text: text},
        packages={text: text},
    )
    end = SessionEnd(exit_code=1, uncollected={text: text})
    return text_of(gates, findings, provenance, end, running={f"5{text}": text})


@cache
def lines_of_plain_names():
    return session_named("x").count("\n")


PLAIN = {"text", "code_inline", "softbreak", "hardbreak", "strong_open", "strong_close"}
BLOCKS = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "fence"),
    *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "html_block"),
    *(f"{part}_{end}" for part in ("table", "thead", "tbody", "tr", "th", "td")
      for end in ("open", "close")),
}  # fmt: skip
TAGS = re.compile(r"</?(code|details|summary|sub)>")


def tokens(text):
    """Return what a reader of Markdown with tables makes of a text."""
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    return parser.enable(["table", "strikethrough"]).parse(text)


@few
@given(text=hostile)
@example(text=HOSTILE[0])
@example(text=HOSTILE[1])
@example(text=HOSTILE[2])
@example(text=HOSTILE[3])
@example(text=HOSTILE[4])
@example(text="\\|`\\|``")
def test_nothing_a_user_names_is_markup(text):
    found = session_named(text)
    found.encode()
    assert len(rows(found)) == 5
    # No line was added; one without anything to say is left out, and so is a command of two lines.
    assert found.count("\n") <= lines_of_plain_names()
    read = tokens(found.removeprefix(MARKER))
    assert {token.type for token in read} <= BLOCKS
    for token in read:
        if token.type == "html_block":
            assert "<" not in TAGS.sub("", token.content)
            assert not re.search(r"&(?!amp;|lt;|gt;|#36;)", token.content)
        for child in token.children or []:
            is_tag = child.type == "html_inline" and TAGS.fullmatch(child.content)
            assert child.type in PLAIN or is_tag
            # GitHub looks for these in plain text, after Markdown is read.
            seen_by_github = re.findall(
                r"[@#]\w|\bgh-\d|\w://|\bwww\.", child.content, re.IGNORECASE
            )
            assert child.type == "code_inline" or seen_by_github == []


@given(text=hostile)
def test_a_finding_stays_readable_text(text):
    assume(one_line(text))
    line = next(line for line in text_of({}, [Finding(text)]).splitlines() if line.startswith("- "))
    (inline,) = (token for token in tokens(line) if token.type == "inline")
    shown = "".join(child.content for child in inline.children).replace("\u200b", "")
    assert shown == one_line(text, LIMIT)


@given(text=hostile)
def test_a_name_stays_readable(text):
    gates = {f"x{text}": entry("failed", BAD), "y": entry("passed", OPEN)}
    name = one_line(fitted_names(tuple(gates), 10**6).of[f"x{text}"], LIMIT)
    read = tokens(text_of(gates))
    shown = {child.content for token in read for child in token.children or []}
    # In a table a bar behind a backslash cannot be told.
    assert {name, name.replace("\\|", "\\ |")} & shown


@given(text=hostile, most=st.integers(4, 80))
def test_one_line_is_one_and_is_cut_in_its_middle(text, most):
    line = one_line(text, most)
    assert len(line) <= most
    assert line.isprintable()
    assert len(line.splitlines()) <= 1
    whole = one_line(text, LIMIT)
    assert line == whole or (line[0], line[-1]) == (whole[0], whole[-1])


def left_out(text, what):
    found = re.search(rf"\*(\d+) {what}s? left out: a comment on GitHub is limited\.\*", text)
    return int(found[1]) if found else 0


@pytest.mark.parametrize(
    ("name", "passing"),
    [("gate", 500), ("é😀|@" * 60, 30), ("tests/test_models.py::test_gate" + "-" * 80, 200)],
)
def test_a_large_session_stays_below_the_limit_and_says_what_is_left_out(name, passing):
    gates = {f"{name}{number}": entry("passed", OPEN) for number in range(passing)}
    bad = entry("failed", BAD, reason="the verdict is worse than INCONCLUSIVE")
    gates |= {f"{name}{number}": bad for number in range(passing, passing + 40)}
    text = text_of(gates, [Finding("x" * 5000, fails=True)] * 20)
    assert LIMIT / 2 < len(text.encode()) <= LIMIT
    shown = rows(text)
    assert len(shown) + left_out(text, "gate") == passing + 40
    assert left_out(text, "gate") > 0
    failing = [row for row in shown if row[0] == "❌"]
    assert len(failing) == min(40, len(shown))
    assert text.count("<details><summary><code>") + left_out(text, "failure") == 40
    assert text.count("- **fails**") + left_out(text, "finding") == 20
    assert f"{passing + 40} gates, 40 failed" in text
    assert text.splitlines()[-1].startswith("<sub>")


def test_a_gate_that_is_too_large_leaves_room_for_the_others():
    gates = {"many": entry("failed", *[BAD] * 300), "one": entry("failed", BAD)}
    text = text_of(gates)
    assert [row[1] for row in rows(text)] == ["one"]
    assert left_out(text, "gate") == 1
    assert len(text.encode()) <= LIMIT
