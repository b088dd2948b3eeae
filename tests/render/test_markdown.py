import html
import re
from dataclasses import replace
from functools import cache

import pytest
from fakes import PROVENANCE, drift_since, first, judged, result_of
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from rendered import markdown

from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.gates import GATES
from pytest_cpg.gates.card import Cause, Command
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
    assert MARKER.startswith("<!--")
    assert MARKER.endswith("-->")


def test_the_heading_says_how_the_gates_ended_and_the_next_line_counts_them():
    gates = {"a": entry("passed", GOOD), "b": entry("skipped")}
    lines = text_of(gates, deselected={"d": None}).splitlines()
    assert lines[1] == "### ✅ 1 of 2 gates passed"
    assert lines[3] == "pytest-cpg: passed (2 gates, 1 skipped, 1 passed, 1 deselected)"
    gates["c"] = entry("passed", OPEN)
    assert text_of(gates).splitlines()[1] == "### ❔ 1 of 3 gates inconclusive, none fails"
    gates |= {"e": None, "f": entry("error"), "g": entry("failed", BAD), "h": entry("xfailed", BAD)}
    lines = text_of(gates).splitlines()
    assert lines[1] == (
        "### ❌ 3 of 7 gates fail: `g` MODEL BOTTLENECK: model 10/50, oracle 50/50; "
        "`e` NOT REPORTED: did not report; and 1 more"
    )
    assert lines[3] == (
        "pytest-cpg: failed (7 gates, 1 failed, 1 in error, 1 not reported, "
        "1 failed as expected, 1 inconclusive, 1 skipped, 1 passed)"
    )


def test_the_heading_names_what_lost_starts_since_it_was_accepted():
    drift = drift_since("3f2c1e9abcde", GOOD50, BAD)
    bad = entry("failed", BAD, reason="worse", drift=drift)
    text = text_of({"t.py::broken": entry("error", detail="boom"), "t.py::bad": bad})
    assert seen(text.splitlines()[1]) == (
        "### ❌ 2 of 2 gates fail: bad 50 -> 10 of 50, lost 40 starts, gained 0 (p < 0.001) since "
        "3f2c1e9; broken ERROR: boom"
    )
    one = text_of({"t.py::bad": entry("failed", BAD, reason="worse")})
    assert seen(one.splitlines()[1]) == (
        "### ❌ 1 gate fails: bad MODEL BOTTLENECK: the model solves 10 of 50 starts, the true "
        "dynamics all 50"
    )


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


def test_each_comparison_has_a_row_worst_first_and_what_passed_is_folded():
    drift = drift_since("3f2c1e9", GOOD50, BAD)
    text = text_of(
        {
            "good": entry("passed", GOOD),
            "half": entry("passed", GOOD, OPEN),
            "bad": entry("failed", BAD, reason="worse", drift=drift),
            "gone": None,
            "broken": entry("error", detail="error in setup: boom. Mend it."),
            "raised": entry("failed", detail="KeyError: 'mine'"),
            "xfail": entry("xfailed", BAD, reason="worse"),
        }
    )
    found = rows(text)
    names = ["gone", "broken", "raised", "bad", "xfail", "half", "half #2", "good"]
    assert [row[1] for row in found] == names
    assert [row[0] for row in found] == [*"❌❌❌❌⚪✅❔✅"]
    assert [row[-2] for row in found] == [
        "NOT REPORTED: did not report",
        "ERROR: boom",
        "FAILED: KeyError: 'mine'",
        "MODEL BOTTLENECK",
        "failed as expected: MODEL BOTTLENECK",
        "AS GOOD AS ORACLE",
        "INCONCLUSIVE",
        "AS GOOD AS ORACLE",
    ]
    assert [row[-1] for row in found] == ["", "", "", "**REGRESSED**", *[""] * 4]
    head, again = heads(text)
    assert head == again
    assert head[-1] == "since 3f2c1e9"
    assert head[2] == "was → now"
    assert found[3][2] == "1.00 → **0.20**"
    assert "now" not in head[3:]
    # Those of the first row are all that is not folded.
    assert text.index("<details><summary>1 passed</summary>") < text.index("| ✅ | `good` |")


def test_a_worse_verdict_comes_before_a_regression_and_that_before_its_equals():
    drift = drift_since("3f2c1e9", GOOD50, OPEN)
    regressed = replace(drift, label="REGRESSED")
    lost = drift_since("3f2c1e9", GOOD50, BAD)
    gates = {
        "open": entry("failed", OPEN, reason="worse", drift=regressed),
        "bad": entry("failed", BAD, reason="worse"),
        "lost": entry("failed", BAD, reason="worse", drift=lost),
    }
    assert [row[1] for row in rows(text_of(gates))] == ["lost", "bad", "open"]


def test_without_a_baseline_nothing_is_said_of_it():
    text = text_of({"a": entry("passed", OPEN), "b": entry("passed", WEAK)})
    assert "→" not in text
    assert "since" not in heads(text)[0][-1]
    assert "\n~ by the observed rates alone: too few starts" in seen(text)


def test_of_a_failing_gate_only_the_comparison_that_failed_it_is_called_failed():
    both = (judged(OPEN), judged(BAD, "worse"))
    text = text_of({"t.py::test": Entry(outcome="failed", judgements=both)})
    assert {row[1]: row[0] for row in rows(text)} == {"test": "❔", "test #2": "❌"}
    assert text.count("<details><summary><code>t") == 1
    assert "(1 gate, 1 failed)\n" in text
    alone = text_of({"t.py::test": entry("failed", OPEN)})
    assert rows(alone)[0][-1] == "INCONCLUSIVE; the test failed by itself; its log says how"


def test_a_failing_comparison_says_what_a_reader_needs_to_act():
    drift = drift_since("3f2c1e9", replace(GOOD, seed=5), BAD)
    reason = "the verdict is worse than INCONCLUSIVE"
    command = Command(what="Rerun this gate", text="pytest 't.py::test[a b]' --cpg-seed=4")
    judgement = replace(judged(BAD, reason, drift), commands=(command,))
    text = text_of({"t.py::test[a b]": Entry(outcome="failed", judgements=(judgement,))})
    shown = seen(text)
    assert "t.py::test[a b]: MODEL BOTTLENECK: the model solves 10 of 50 starts" in shown
    assert "Accepted here: INCONCLUSIVE or better." in shown
    assert "the model fails 40 starts that the true dynamics solve" in shown
    assert (
        "- same starts: both solve 10, lost by the model 40, only the model solves 0, neither"
        in shown
    )
    assert "- lost: starts 10 11 12" in shown
    assert f"- baseline: {drift.sentence}" in shown
    assert "- task: track, 500 steps of 0.01 s, starts sampled, seed 4" in shown
    assert "\n```sh\npytest 't.py::test[a b]' --cpg-seed=4\n```\n" in text
    assert "\n**Why** (`test[a b]`): With the true dynamics" in text


def test_measures_of_a_cause_are_a_table():
    cause = Cause(
        name="COVERAGE",
        text="80 % of the states are outside.",
        advice="Train there.",
        source="5 episodes",
        measures=(("coverage", "0.73 [0.26, 1.19]", "states | outside"), ("score", "", "none")),
    )
    text = text_of({"t.py::test": entry("failed", BAD, reason="worse")}, card={"cause": cause})
    assert "| Why: COVERAGE | | 5 episodes |\n|---|---|---|\n" in text
    assert "| coverage | 0.73 [0.26, 1.19] | states \\| outside |\n| score |  | none |" in text
    assert "\n**Why** (`test`): COVERAGE: 80 % of the states are outside.  \n**Do:** Train" in text


def test_a_card_without_why_and_advice_leaves_its_notes_in_the_details():
    card = {"meaning": (), "paragraphs": ("Twice as slow.",), "cause": None}
    text = text_of({"t.py::test": entry("failed", BAD, reason="worse")}, card=card)
    assert "**Why**" not in text
    assert "**Note:** Twice as slow." in text.partition("<details>")[2]


def test_a_gate_that_fails_by_drift_is_explained_by_its_drift():
    drift = drift_since("", GOOD, OPEN)
    text = seen(text_of({"g": entry("failed", OPEN, reason=drift.text, drift=drift)}))
    assert "The model does worse than the accepted one" in text
    assert "The interval contains zero" not in text


def test_notes_measurements_and_earlier_attempts_are_told():
    noted = replace(GOOD, notes=("starts are fixed",))
    gates = {
        "a": entry("passed", noted, measurements=("ranking: x > y",)),
        "b": entry("passed", OPEN, attempt=2, earlier=("MODEL BOTTLENECK",)),
    }
    notes = seen(text_of(gates)).partition("Notes")[2]
    assert "- a: note: starts are fixed\n- a: ranking: x > y\n" in notes
    assert "- b: it was repeated, after MODEL BOTTLENECK: a gate that is repeated" in notes


def test_findings_that_fail_come_first():
    text = text_of({}, [Finding("all is well"), Finding("none is", fails=True)])
    assert "\n- **fails**: none is\n- all is well\n" in text


def test_the_last_line_says_what_it_was_run_with():
    last = seen(text_of({}).splitlines()[-1])
    assert last == (
        "revision 3f2c1e9abcde with changes on top; Python 3.11.7 on Linux-x86_64, "
        "2 processors Turbo 5 (numpy X86_V3, torch AVX2); pytest-cpg 0.1.0, numpy 2.4.6"
    )
    outside = replace(PROVENANCE, revision=None, dirty=None)
    assert seen(text_of({}, provenance=outside).splitlines()[-1]).startswith("no revision; ")


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


def test_each_of_many_parameters_bears_the_name_of_its_test():
    text = text_of({f"a.py::test_a[{number}]": entry("failed", BAD) for number in (1, 2)})
    assert "| `test_a[1]` |" in text
    assert "| `test_a[2]` |" in text


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
    assert text.count("\n- lost: starts") + left_out(text, "failure") == 40
    assert text.count("- **fails**") + left_out(text, "finding") == 20
    assert f"{passing + 40} gates, 40 failed" in text
    assert text.splitlines()[-1].startswith("<sub>")


def test_a_gate_that_is_too_large_leaves_room_for_the_others():
    gates = {"many": entry("failed", *[BAD] * 300), "one": entry("failed", BAD)}
    text = text_of(gates)
    assert [row[1] for row in rows(text)] == ["one"]
    assert left_out(text, "gate") == 1
    assert len(text.encode()) <= LIMIT


def test_a_session_that_fits_leaves_nothing_out():
    text = text_of({f"g{number}": entry("failed", BAD, reason="worse") for number in range(10)})
    assert "left out" not in text
    assert len(rows(text)) == 10


def test_a_gate_that_passed_although_perturbed_says_what_was_perturbed():
    perturbed = result_of(first(99, 100), first(99, 100), perturbation=DropActions(5))
    text = seen(text_of({"a": entry("passed", perturbed)}))
    assert "- a: perturbation drop-next-5: recovered oracle 98/99 [" in text
