import re
from dataclasses import replace

import pytest
from fakes import PROVENANCE, first, judged, result_of
from hypothesis import example, given
from hypothesis import strategies as st
from rendered import annotations, markdown, step_summary

from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.notation import fitted_names, one_line
from pytest_cpg.render.github import Location
from pytest_cpg.render.markdown import MARKER
from pytest_cpg.report.document import document
from pytest_cpg.report.ledger import Entry, Finding, Ledger
from pytest_cpg.report.session import Session, SessionEnd

BAD = result_of(first(50, 50), first(10, 50), first(5, 50))
OPEN = result_of(first(47, 50), first(43, 50))
# What the runner takes for a command: properties without a colon, and one line.
COMMAND = re.compile(r"::(?:error|warning) ((?:\w+=[^:,\r\n]*)(?:,\w+=[^:,\r\n]*)*)::([^\r\n]*)")
LARGE = 65_536


def session(gates, *findings):
    """Return the document of a session; a gate whose entry is None did not report."""
    ledger = Ledger()
    ledger.expect(gates)
    for gate, entry in gates.items():
        if entry is not None:
            ledger.note(gate, entry)
    ledger.findings = findings
    return document(Session.of(ledger, PROVENANCE, SessionEnd(exit_code=1)))


def short_of(gate):
    return fitted_names((gate,), LARGE).of[gate]


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


def test_every_failing_gate_and_finding_has_one_annotation_and_an_unsure_one_a_warning():
    both = {**MIXED, "gates": [*MIXED["gates"]]}
    both["gates"][1] = {**both["gates"][1], "outcome": "passed"}
    commands = annotations(both)
    assert [command.partition(" ")[0] for command in commands] == [*["::error"] * 5, "::warning"]
    found = [read(command) for command in commands]
    assert [properties["title"] for properties, _ in found] == [
        *("MODEL BOTTLENECK: bad #2", "INCONCLUSIVE: assertion", "ERROR: broken"),
        *("NOT REPORTED: gone", "cpg", "INCONCLUSIVE: good"),
    ]
    assert found[2][1] == "Error in setup: boom, 5% of it"
    assert found[0][1].splitlines()[0] == (
        "The model solves 10 of 50 starts, the true dynamics all 50."
    )
    assert found[0][1].splitlines()[1].startswith("Why: With the true dynamics")
    assert found[1][1].splitlines() == [
        "The model solves 43 of 50 starts, the true dynamics 47.",
        "the test failed by itself; its log says how",
    ]
    assert found[4][1] == "baseline: MISSING"
    assert found[5][1] == "The model solves 43 of 50 starts, the true dynamics 47."


def test_another_processor_is_a_warning():
    drift = replace(Drift.new(), label=Label.UNCHANGED, was="1", differs=("other processor",))
    good = result_of(first(200, 200), first(200, 200))
    gates = {"good": Entry(outcome="passed", judgements=(judged(good, None, drift),))}
    (command,) = annotations(session(gates))
    assert command.startswith("::warning ")


def test_a_gate_is_annotated_where_its_test_is_written():
    places = {"bad": Location("tests/a,b: 5%.py", 12), "good": Location("tests/good.py", 1)}
    commands = annotations(MIXED, places)
    assert commands[0].startswith(
        "::error file=tests/a%2Cb%3A 5%25.py,line=12,title=MODEL BOTTLENECK%3A bad #2::The model"
    )
    properties = read(commands[0])[0]
    assert (properties["file"], properties["line"]) == ("tests/a,b: 5%.py", "12")
    others = (1, 2, 3, 4)
    assert [commands[at] for at in others] == [annotations(MIXED)[at] for at in others]


def test_where_tests_are_annotated_already_only_what_no_test_says_is():
    commands = annotations(MIXED, tests_are_annotated=True)
    assert [read(command)[0]["title"] for command in commands] == [
        *("NOT REPORTED: gone", "cpg", "INCONCLUSIVE: good")
    ]


def test_other_comparisons_of_a_gate_are_counted():
    both = session({"bad": failed(judged(BAD, "one"), judged(OPEN), judged(BAD, "two"))})
    (command,) = annotations(both)
    assert read(command)[1].splitlines()[-1] == "And 1 more comparison of this test."


def test_the_eleventh_annotation_counts_the_rest():
    gates = {f"g{number:02d}": failed(judged(BAD, "worse")) for number in range(15)}
    gates["open"] = Entry(outcome="passed", judgements=(judged(OPEN),))
    commands = annotations(session({"broken": Entry(outcome="error", detail="boom"), **gates}))
    assert len(commands) == 11
    titles = [read(command)[0]["title"] for command in commands[:2]]
    assert titles == ["MODEL BOTTLENECK: g00", "MODEL BOTTLENECK: g01"]
    assert read(commands[-1])[1] == "7 more: the job's summary and the page have them all"
    assert commands[-1].startswith("::error ")


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
                "title": one_line(f"ERROR: {short_of(f'x{text}')}", LARGE),
            },
            one_line(f"Y{text}", LARGE),
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
    assert text.startswith("\n### ❌ 4 of 7 gates fail: ")
    assert text.endswith("\n")
    assert f"{MARKER}{text}" == markdown(MIXED)
