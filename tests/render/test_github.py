import re

import pytest
from fakes import PROVENANCE, first, judged, result_of
from hypothesis import example, given
from hypothesis import strategies as st
from rendered import annotations, markdown, step_summary

from pytest_cpg.gates.notation import one_line
from pytest_cpg.render.github import Location
from pytest_cpg.render.markdown import MARKER
from pytest_cpg.report.document import document
from pytest_cpg.report.ledger import Entry, Finding, Ledger
from pytest_cpg.report.outcomes import SessionEnd

BAD = result_of(first(50, 50), first(10, 50), first(5, 50))
OPEN = result_of(first(47, 50), first(43, 50))
# What the runner takes for a command: properties without a colon, and one line.
COMMAND = re.compile(r"::error ((?:\w+=[^:,\r\n]*)(?:,\w+=[^:,\r\n]*)*)::([^\r\n]*)")
LARGE = 65_536


def session(gates, *findings):
    """Return the document of a session; a gate whose entry is None did not report."""
    ledger = Ledger()
    ledger.expect(gates)
    for gate, entry in gates.items():
        if entry is not None:
            ledger.note(gate, entry)
    ledger.findings = findings
    return document(ledger, PROVENANCE, SessionEnd(exit_code=1))


def failed(*judgements):
    return Entry(outcome="failed", judgements=judgements)


MIXED = session(
    {
        "bad": failed(judged(OPEN), judged(BAD, "the verdict is worse than INCONCLUSIVE")),
        "good": Entry(outcome="passed", judgements=(judged(OPEN),)),
        "expected": Entry(outcome="xfailed", judgements=(judged(BAD, "worse"),)),
        "broken": Entry(outcome="error", detail="error in setup: boom, 5% of it"),
        "gone": None,
        "assertion": failed(judged(OPEN)),
        "skipped": Entry(outcome="skipped"),
    },
    Finding("all is well"),
    Finding("baseline: MISSING", fails=True),
)


def read(command):
    """Return a command's properties and its message, as GitHub's runner reads them."""
    found = COMMAND.fullmatch(command)
    assert found is not None, command
    pairs = (pair.partition("=") for pair in found[1].split(","))
    return {name: unescaped(value) for name, _, value in pairs}, unescaped(found[2])


def unescaped(text):
    signs = {"%25": "%", "%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}
    return re.sub("%(?:25|0D|0A|3A|2C)", lambda found: signs[found[0]], text)


def test_every_failing_gate_and_finding_has_one_annotation():
    assert [read(command) for command in annotations(MIXED)] == [
        (
            {"title": "cpg: bad"},
            "MODEL BOTTLENECK gap +0.80 [+0.65,+0.89] n=50/arm: "
            "the verdict is worse than INCONCLUSIVE",
        ),
        ({"title": "cpg: broken"}, "error in setup: boom, 5% of it"),
        ({"title": "cpg: gone"}, "did not report"),
        (
            {"title": "cpg: assertion"},
            "INCONCLUSIVE gap +0.08 [-0.04,+0.20] n=50/arm: the test failed by itself; its log "
            "says how",
        ),
        ({"title": "cpg"}, "baseline: MISSING"),
    ]


def test_a_gate_is_annotated_where_its_test_is_written():
    places = {"bad": Location("tests/a,b: 5%.py", 12), "good": Location("tests/good.py", 1)}
    commands = annotations(MIXED, places)
    assert commands[0].startswith(
        "::error file=tests/a%2Cb%3A 5%25.py,line=12,title=cpg%3A bad::MODEL BOTTLENECK"
    )
    properties = read(commands[0])[0]
    assert properties == {"file": "tests/a,b: 5%.py", "line": "12", "title": "cpg: bad"}
    assert commands[1:] == annotations(MIXED)[1:]


def test_where_tests_are_annotated_already_only_what_no_test_says_is():
    commands = annotations(MIXED, tests_are_annotated=True)
    assert [read(command)[0]["title"] for command in commands] == ["cpg: gone", "cpg"]


def test_a_green_session_has_none():
    green = session({"good": Entry(outcome="passed", judgements=(judged(OPEN),))}, Finding("x"))
    assert annotations(green) == []


def test_each_failing_comparison_is_a_line_up_to_ten():
    both = session({"bad": failed(judged(BAD, "one"), judged(OPEN), judged(BAD, "two"))})
    (command,) = annotations(both)
    assert [line[-3:] for line in read(command)[1].splitlines()] == ["one", "two"]
    assert command.count("%0A") == 1
    (command,) = annotations(session({"bad": failed(*[judged(BAD, "one")] * 12)}))
    lines = read(command)[1].splitlines()
    assert len(lines) == 11
    assert lines[-1] == "and 2 more"


hostile = st.one_of(
    st.text(st.sampled_from("%:,=\r\n\t 0123456789ABCDabc;|"), max_size=60),
    st.text(st.characters(), max_size=60),
)


@given(text=hostile, line=st.integers(1, 10**6))
@example(text="::error::x\n::error::y", line=1)
@example(text="%0A%25%3A%2C 100%", line=1)
@example(text="a,line=2,file=b:c\r\n\ud800\u2028", line=1)
def test_whatever_a_user_names_is_read_back_as_it_is(text, line):
    gates = {f"x{text}": Entry(outcome="error", detail=f"y{text}")}
    place = {f"x{text}": Location(f"z{text}.py", line)}
    commands = annotations(session(gates, Finding(f"y{text}", fails=True)), place)
    "".join(commands).encode()
    read_back = [read(command) for command in commands]
    assert read_back == [
        (
            {
                "file": one_line(f"z{text}.py", LARGE),
                "line": str(line),
                "title": one_line(f"cpg: x{text}", LARGE),
            },
            one_line(f"y{text}", LARGE),
        ),
        ({"title": "cpg"}, one_line(f"y{text}", LARGE)),
    ]


@pytest.mark.parametrize("sign", ["x", "%", "\n"])
def test_a_message_is_cut_where_github_would(sign):
    long = sign * 10**6
    gates = {f"x{long}": Entry(outcome="error", detail=f"y{long}z")}
    for command in annotations(session(gates, Finding(f"y{long}z", fails=True))):
        assert len(command) < 5000


def test_the_step_summary_is_the_comment_without_its_mark_and_begins_on_a_line_of_its_own():
    text = step_summary(MIXED)
    assert MARKER not in text
    assert text.startswith("\n### pytest-cpg: failed (7 gates")
    assert text.endswith("\n")
    assert f"{MARKER}{text}" == markdown(MIXED)
