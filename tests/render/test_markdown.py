import html
import re
from dataclasses import replace
from functools import cache

import pytest
from fakes import PROVENANCE, first, judged, result_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rendered import markdown

from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.gates.notation import one_line
from pytest_cpg.gates.planning_gap.accepted import BaselineGate
from pytest_cpg.gates.planning_gap.compare import compare
from pytest_cpg.render.markdown import MARKER
from pytest_cpg.report.document import document
from pytest_cpg.report.ledger import Entry, Finding, Ledger
from pytest_cpg.report.outcomes import SessionEnd

BAD = result_of(first(50, 50), first(10, 50), first(5, 50))
GOOD = result_of(first(100, 100), first(100, 100))
OPEN = result_of(first(47, 50), first(43, 50))
WEAK = result_of(first(12, 12), first(12, 12))
RETURN = result_of(first(9, 10), first(2, 10), metric="return", margin=0.5)
# The limit on a comment of GitHub, in characters.
LIMIT = 65_536
CELLS = 8
PROSE = re.compile(r"(?:[^\W_]|[ /,%]|&#\d+;)*")
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
sixty = settings(max_examples=60)


def entry(outcome, *results, reason=None, drift=None, **more):
    judgements = tuple(judged(result, reason, drift) for result in results)
    return Entry(outcome=outcome, judgements=judgements, **more)


GREEN = SessionEnd(exit_code=0)


def text_of(gates, findings=(), provenance=PROVENANCE, end=GREEN, **more):
    """Return the comment on a session; a gate whose entry is None did not report."""
    ledger = Ledger()
    ledger.expect(gates)
    for gate, found in gates.items():
        if found is not None:
            ledger.note(gate, found)
    ledger.findings = tuple(findings)
    for name, value in more.items():
        setattr(ledger, name, value)
    return markdown(document(ledger, provenance, end))


def rows(text):
    """Return the cells of the table as a reader sees them, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines[2:]]
    assert all(len(row) == CELLS + 2 and not row[0] and not row[-1] for row in cells)
    return [[seen(cell) for cell in row[1:-1]] for row in cells]


def seen(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).replace("\u200b", "")


def test_it_begins_with_the_mark_by_which_a_bot_finds_it():
    assert text_of({}).startswith(f"{MARKER}\n### pytest-cpg: nothing measured (0 gates)\n")
    assert MARKER.startswith("<!--")
    assert MARKER.endswith("-->")


def test_the_heading_says_how_the_session_ended():
    gates = {"a": entry("passed", GOOD), "b": entry("passed", OPEN), "c": entry("skipped")}
    heading = text_of(gates, deselected={"d": None}).splitlines()[1]
    expected = "passed (3 gates, 1 inconclusive, 1 skipped, 1 passed, 1 deselected)"
    assert heading == f"### pytest-cpg: {expected}"
    gates |= {"d": None, "e": entry("error"), "f": entry("failed", BAD), "g": entry("xfailed", BAD)}
    heading = text_of(gates).splitlines()[1]
    assert heading == (
        "### pytest-cpg: failed (7 gates, 1 failed, 1 in error, 1 not reported, "
        "1 failed as expected, 1 inconclusive, 1 skipped, 1 passed)"
    )


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_one_gate_that_is_not_green_makes_the_heading_red(outcome):
    gates = {"a": entry("passed", GOOD)}
    assert "pytest-cpg: passed" in text_of(gates)
    assert "pytest-cpg: failed" in text_of({**gates, "b": entry(outcome)})
    assert "pytest-cpg: failed" in text_of({**gates, "b": None})
    assert "pytest-cpg: failed" in text_of(gates, [Finding("x", fails=True)])
    assert "pytest-cpg: passed" in text_of(gates, [Finding("x")])


@pytest.mark.parametrize(
    ("exit_code", "outcome"),
    [(1, "failed"), (2, "interrupted"), (3, "internal error"), (4, "usage error"), (7, "failed")],
)
def test_a_session_that_failed_beside_its_gates_did_not_pass(exit_code, outcome):
    end = SessionEnd(exit_code=exit_code, failed_tests=1, uncollected={"t.py": "boom"})
    text = text_of({"a": entry("passed", GOOD)}, end=end)
    counts = f"1 gate, 1 passed, 1 other test failed, 1 not collected, exit code {exit_code}"
    assert text.splitlines()[1] == f"### pytest-cpg: {outcome} ({counts})"
    assert "- **not collected**: t.py: boom" in seen(text)


def test_each_comparison_has_a_row_and_failing_gates_come_first():
    then = BaselineGate.of(GOOD, commit="3f2c1e9")
    drift = compare(BAD, then, level=0.95)
    text = text_of(
        {
            "good": entry("passed", GOOD, OPEN),
            "weak": entry("passed", WEAK),
            "bad": entry("failed", BAD, reason="worse", drift=drift),
            "gone": None,
            "broken": entry("error", detail="error in setup: boom"),
            "returns": entry("xfailed", RETURN, reason="worse"),
        }
    )
    assert rows(text) == [
        ["bad", "**failed**: MODEL BOTTLENECK", "1.00", "0.20", "+0.80", "[+0.65,+0.89]", "50",
         "REGRESSED"],
        ["gone", "**not reported**: did not report", "", "", "", "", "", ""],
        ["broken", "**in error**: error in setup: boom", "", "", "", "", "", ""],
        ["good", "passed: AS GOOD AS ORACLE", "1.00", "1.00", "+0.00", "[-0.03,+0.03]", "100", ""],
        ["good #2", "passed: INCONCLUSIVE", "0.94", "0.86", "+0.08", "[-0.04,+0.20]", "50", ""],
        ["weak", "passed: ~AS GOOD AS ORACLE", "1.00", "1.00", "+0.00", "[-0.19,+0.19]", "12", ""],
        ["returns", f"failed as expected: {RETURN.verdict}", "0.9", "0.2", "+0.7",
         "[+0.354,+1.05]", "10", ""],
    ]  # fmt: skip
    assert "\n~ by raw rates: a difference of twice the tolerance" in seen(text)


def test_of_a_failing_gate_only_the_comparison_that_failed_it_is_called_failed():
    both = (judged(OPEN), judged(BAD, "worse"))
    text = text_of({"t.py::test": Entry(outcome="failed", judgements=both)})
    assert [row[1].partition(":")[0] for row in rows(text)] == ["passed", "**failed**"]
    assert text.count("<details><summary><code>t") == 1
    assert "### pytest-cpg: failed (1 gate, 1 failed)\n" in text
    alone = text_of({"t.py::test": entry("failed", OPEN)})
    assert rows(alone)[0][1] == "**failed**: INCONCLUSIVE"
    assert "the test failed by itself" in alone


def test_a_failing_comparison_says_what_a_reader_needs_to_act():
    then = BaselineGate.of(replace(GOOD, seed=5), commit="3f2c1e9")
    drift = compare(BAD, then, level=0.95)
    reason = "the verdict is worse than INCONCLUSIVE"
    entries = {"t.py::test[a b]": entry("failed", BAD, reason=reason, drift=drift)}
    text = seen(text_of(entries))
    assert f"t.py::test[a b]: {reason}" in text
    assert "the model fails 40 starts that the true dynamics solve" in text
    assert "- same starts: both 10 | oracle only 40 | learned only 0 | neither 0" in text
    assert "- lost: episodes 10 11 12" in text
    assert f"- judged by: {BAD.evidence}" in text
    assert f"- baseline: {drift.sentence}" in text
    assert "- task: track, 500 steps of 0.01 s, starts sampled, seed 4" in text
    assert f"- planner: {BAD.design.planner}" in text
    command = "pytest 't.py::test[a b]' --cpg-seed=4 --cpg-episodes=50"
    assert f"- again, with this seed and size: {command}" in text


def test_a_gate_that_fails_by_drift_is_explained_by_its_drift():
    drift = compare(OPEN, BaselineGate.of(GOOD), level=0.95)
    text = seen(text_of({"g": entry("failed", OPEN, reason=drift.text, drift=drift)}))
    assert "The model on this branch does worse than the accepted one" in text
    assert "The interval contains zero" not in text


def test_a_gate_with_an_id_of_its_own_gets_no_command_that_would_not_run():
    assert "again, with" in text_of({"t.py::test": entry("failed", BAD)})
    assert "again, with" not in text_of({"hopper": entry("failed", BAD)})
    assert "again, with" not in text_of({f"t.py::test[{'x' * 2000}]": entry("failed", BAD)})


def test_nothing_that_passes_is_folded_open():
    text = text_of({"a": entry("passed", GOOD), "b": entry("xfailed", BAD, reason="worse")})
    assert "<details>" not in text


def test_notes_measurements_and_earlier_attempts_are_told():
    noted = replace(GOOD, notes=("starts are fixed",))
    gates = {
        "a": entry("passed", noted, measurements=("ranking: x > y",)),
        "b": entry("passed", OPEN, attempt=2, earlier=("MODEL BOTTLENECK",)),
    }
    notes = seen(text_of(gates)).partition("Notes")[2]
    assert "- a: note: starts are fixed\n- a: ranking: x > y\n- b: resolve: about 65 more" in notes
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
    drift = compare(named, BaselineGate.of(BAD, commit="3f2c1e9"), level=0.95)
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


TAGS = {f"<{slash}{tag}>" for tag in ("code", "details", "summary", "sub") for slash in ("", "/")}


@sixty
@given(text=hostile)
@example(text=HOSTILE[0])
@example(text=HOSTILE[1])
@example(text=HOSTILE[2])
@example(text=HOSTILE[3])
@example(text=HOSTILE[4])
def test_nothing_a_user_names_is_markup(text):
    found = session_named(text)
    found.encode()
    assert len(rows(found)) == 5
    # No line was added; one without anything to say is left out, and so is a command of two lines.
    assert found.count("\n") <= lines_of_plain_names()
    markup = found.removeprefix(MARKER)
    assert {tag for tag in re.findall(r"<[^>]*>", markup) if tag != "<!-- -->"} <= TAGS
    assert markup.count("<") == sum(map(markup.count, (*TAGS, "<!-- -->")))
    assert not set("@`\\$~") & set(markup)
    # An address becomes a link even in code, unless something stands behind its sign.
    assert re.findall(r"&#64;(?!<!-- -->|&#8203;)", markup) == []
    assert re.findall(r"\]\(|://|www\.|\bgh-\d|&(?!#\d+;)", markup, re.IGNORECASE) == []


@given(text=hostile)
def test_a_finding_stays_readable_text_in_which_github_sees_no_reference(text):
    line = text_of({}, [Finding(text)]).splitlines()[7 - 4]
    assert line.startswith("- ")
    prose = line.removeprefix("- ")
    assert PROSE.fullmatch(prose)
    shown = html.unescape(prose)
    assert shown.replace("\u200b", "") == one_line(text, LIMIT)
    # GitHub looks for these after Markdown and entities have become text.
    assert re.findall(r"[@#]\w|\bgh-\d|\w://|\bwww\.", shown, re.IGNORECASE) == []


@given(text=hostile)
def test_a_name_stays_readable(text):
    shown = rows(text_of({f"x{text}": entry("passed", GOOD)}))[0][0]
    assert shown == one_line(f"x{text}", LIMIT)


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
    "name", ["gate", "é😀|@" * 60, "tests/test_models.py::test_gate" + "-" * 80]
)
def test_a_large_session_stays_below_the_limit_and_says_what_is_left_out(name):
    gates = {f"{name}{number}": entry("passed", OPEN) for number in range(500)}
    bad = entry("failed", BAD, reason="the verdict is worse than INCONCLUSIVE")
    gates |= {f"{name}{number}": bad for number in range(500, 540)}
    text = text_of(gates, [Finding("x" * 5000, fails=True)] * 20)
    assert LIMIT / 2 < len(text.encode()) <= LIMIT
    shown = rows(text)
    assert len(shown) + left_out(text, "gate") == 540
    assert left_out(text, "gate") > 0
    failing = [row for row in shown if row[1].startswith("**failed**")]
    assert len(failing) == min(40, len(shown))
    assert text.count("\n- lost: episodes") + left_out(text, "failure") == 40
    assert text.count("- **fails**") + left_out(text, "finding") == 20
    assert "540 gates, 40 failed" in text
    assert text.splitlines()[-1].startswith("<sub>")


def test_a_gate_that_is_too_large_leaves_room_for_the_others():
    gates = {"many": entry("failed", *[BAD] * 600), "one": entry("failed", BAD)}
    text = text_of(gates)
    assert [row[0] for row in rows(text)] == ["one"]
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
