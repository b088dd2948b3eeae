import errno
import json
import os
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from fakes import PROVENANCE, drift_since, first, judged, result_of
from hypothesis import given, settings
from hypothesis import strategies as st
from rendered import html_page, markdown

from pytest_cpg.contracts.codec import decode
from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.gates import GATES
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.planning_gap.records import BaselineGate, compare
from pytest_cpg.gates.planning_gap.result import GateResult, Look
from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.report.document import document, read, report, session_in
from pytest_cpg.report.ledger import Entry, Finding, Ledger
from pytest_cpg.report.session import Session, SessionEnd

SCHEMA = json.loads(files("pytest_cpg.report").joinpath("report.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
BAD = result_of(first(50, 50), first(10, 50), first(5, 50))
GOOD = result_of(first(50, 50), first(50, 50))
PERTURBED = result_of(first(9, 10), first(2, 10), perturbation=DropActions(5))
RETURN = result_of(first(9, 10), first(2, 10), metric="return", margin=3.0)
STOPPED = replace(
    result_of(first(10, 10), first(0, 10), min_oracle=0.5, group="mlp"),
    stop="sequential",
    max_episodes=50,
    looks=(Look(10, 3.2, 2.4),),
)


def write(path, values):
    text = json.dumps(values, allow_nan=False, sort_keys=True)
    write_text(path, f"{text}\n", what="the report")


def drifts():
    """Return comparisons on the same starts, on others, by returns, and with nothing."""
    other = BaselineGate.of(result_of(first(50, 50), first(50, 50), seed=5))
    returns = BaselineGate.of(replace(RETURN, margin=None))
    return [
        (BAD, drift_since("3f2c1e9abcde", GOOD, BAD)),
        (BAD, compare(other, BAD)),
        (RETURN, compare(returns, RETURN)),
        (BAD, compare(None, BAD)),
    ]


@pytest.fixture(scope="module")
def full():
    """Return the report of a session in which everything happened."""
    ledger = Ledger()
    ledger.expect(["bad", "gone", "good", "cut", "drifts", "skipped", "expected"])
    ledger.note(
        "good", Entry(outcome="passed", judgements=tuple(map(judged, (GOOD, RETURN, PERTURBED))))
    )
    ledger.note("bad", Entry(outcome="failed", judgements=(judged(BAD, "worse"),)))
    again = Entry(outcome="passed", judgements=(judged(STOPPED),), attempt=2)
    ledger.note("bad", again)
    ledger.note("drifts", Entry(outcome="failed", judgements=tuple(
        judged(result, drift.text, drift) for result, drift in drifts()
    )))  # fmt: skip
    ledger.note("skipped", Entry(outcome="skipped", measurements=("a > b",)))
    ledger.note("expected", Entry(outcome="xfailed", judgements=(judged(BAD, "worse"),)))
    ledger.note("unplanned", Entry(outcome="error", detail="error in setup: boom"))
    ledger.running["cut"] = "interrupted in arm 2/3"
    ledger.deselected["other"] = None
    ledger.findings = (Finding("2 gates: a false alarm"), Finding("baseline: MISSING", fails=True))
    ledger.seconds = {"good": 12.34, "bad": 0.5}
    uncollected = {"b.py": "boom", "a.py": "bang"}
    end = SessionEnd(exit_code=1, failed_tests=3, uncollected=uncollected, seconds=192.06)
    return document(Session.of(ledger, PROVENANCE, end))


def test_the_report_of_a_full_session_is_as_its_schema_says(full):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    VALIDATOR.validate(full)
    VALIDATOR.validate(
        document(Session.of(Ledger(), replace(PROVENANCE, revision=None, dirty=None)))
    )


def test_gates_are_in_the_ledger_s_order_and_those_without_a_report_are_missing(full):
    assert [(gate["id"], gate["outcome"]) for gate in full["gates"]] == [
        ("bad", "passed"),
        ("gone", "missing"),
        ("good", "passed"),
        ("cut", "missing"),
        ("drifts", "failed"),
        ("skipped", "skipped"),
        ("expected", "xfailed"),
        ("unplanned", "error"),
    ]
    details = {gate["id"]: gate["detail"] for gate in full["gates"] if gate["detail"]}
    assert details == {
        "gone": "did not report",
        "cut": "interrupted in arm 2/3",
        "unplanned": "error in setup: boom",
    }


def test_the_end_of_the_session_is_there(full):
    assert full["session"] == {
        "outcome": "failed",
        "exit_code": 1,
        "failed_tests": 3,
        "uncollected": {"a.py": "bang", "b.py": "boom"},
        "seconds": 192.1,
    }
    assert list(full["session"]["uncollected"]) == ["a.py", "b.py"]


def test_how_long_it_took_is_there_and_a_report_from_before_that_is_still_one(full):
    taken = {gate["id"]: gate["seconds"] for gate in full["gates"]}
    assert {gate: seconds for gate, seconds in taken.items() if seconds is not None} == {
        "good": 12.3,
        "bad": 0.5,
    }
    assert [gate.seconds for gate in session_in(full, GATES).gates[:3]] == [0.5, None, 12.3]
    page = html_page([full])
    assert "<span>took <b>3 min</b></span>" in page
    assert page.count("<dt>test took</dt><dd>12 s in this session</dd>") == 3
    old = {**full, "session": {**full["session"]}, "gates": [{**one} for one in full["gates"]]}
    for one in (old["session"], *old["gates"]):
        del one["seconds"]
    assert {gate.seconds for gate in session_in(old, GATES).gates} == {None}
    assert " took " not in html_page([old])


def test_a_gate_s_comparisons_attempts_and_measurements_are_there(full):
    gates = {gate["id"]: gate for gate in full["gates"]}
    names = [one["name"] for one in gates["good"]["comparisons"]]
    assert names == ["good", "good #2", "good #3"]
    assert gates["bad"]["earlier"] == ["MODEL BOTTLENECK"]
    assert gates["bad"]["comparisons"][0]["attempt"] == 2
    assert gates["expected"]["comparisons"][0]["reason"] == "worse"
    assert gates["skipped"]["measurements"] == ["a > b"]
    assert full["deselected"] == ["other"]
    assert full["findings"][1] == {
        "text": "baseline: MISSING",
        "fails": True,
        "warns": False,
        "answers": False,
    }
    assert full["generator"] == {"name": "pytest-cpg", "version": "0.1.0"}


def test_results_and_drift_come_back_as_they_went_in(full):
    comparisons = next(gate["comparisons"] for gate in full["gates"] if gate["id"] == "drifts")
    for comparison, (result, drift) in zip(comparisons, drifts(), strict=True):
        assert decode(GateResult, comparison["result"]).to_json() == result.to_json()
        assert decode(Drift, comparison["drift"]) == drift
    assert full["gates"][0]["comparisons"][0]["drift"] is None


def described(part):
    """Yield the part of the schema that describes each of our own objects."""
    if isinstance(part, dict):
        if part.get("type") == "object" and "properties" in part:
            yield part
        part = part.values()
    for below in part:
        if isinstance(below, dict | list):
            yield from described(below)


def test_the_schema_allows_no_other_key_and_needs_every_one():
    found = list(described(SCHEMA))
    assert len(found) == 18
    for part in found:
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("outcome",), "xpassed"),
        (("comparisons", 0, "max_verdict"), "BAD"),
        (("comparisons", 0, "attempt"), 0),
        (("comparisons", 0, "result", "gap"), 1.01),
        (("comparisons", 0, "result", "level"), 1),
        (("comparisons", 0, "result", "oracle", "successes", 0), 2),
        (("comparisons", 0, "result", "looks", 0), [10, 3.2]),
        (("outcome",), "missing"),
    ],
)
def test_the_schema_refuses_what_is_out_of_range(full, place, wrong):
    copy = json.loads(json.dumps(full))
    found = copy["gates"][0]
    for key in place[:-1]:
        found = found[key]
    found[place[-1]] = wrong
    assert not VALIDATOR.is_valid(copy)


def test_a_written_report_is_read_back_and_is_the_same_each_time(full, tmp_path):
    path = tmp_path / "new" / "folder" / "report.json"
    write(path, full)
    before = path.read_bytes()
    assert document(read(path, GATES)) == full
    write(path, dict(reversed(full.items())))
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["report.json"]


def test_a_report_from_when_there_was_one_kind_of_gate_is_read(full, tmp_path):
    path, old = tmp_path / "report.json", json.loads(json.dumps(full))
    for gate in old["gates"]:
        for comparison in gate["comparisons"]:
            for name in ("kind", "label", "severity"):
                del comparison[name]
    write(path, old)
    assert document(read(path, GATES)) == full


def test_each_comparison_says_its_kind_its_label_and_how_bad_that_is():
    ledger, half_open = Ledger(), result_of(first(9, 10), first(8, 10))
    ledger.note("g", Entry(outcome="passed", judgements=(judged(GOOD), judged(half_open))))
    ledger.note("b", Entry(outcome="xfailed", judgements=(judged(BAD, "worse"),)))
    written = document(Session.of(ledger, PROVENANCE))
    assert [
        [comparison[name] for name in ("kind", "label", "severity")]
        for gate in written["gates"]
        for comparison in gate["comparisons"]
    ] == [
        ["cpg", "MODEL AS GOOD AS ORACLE", "good"],
        ["cpg", "INCONCLUSIVE", "unsure"],
        ["cpg", "MODEL BOTTLENECK", "bad"],
    ]


def test_a_kind_of_gate_that_nobody_contributes_is_named(full, tmp_path):
    place = ("gates", 0, "comparisons", 0, "kind")
    message = refusal(tmp_path / "report.json", changed(full, *place, to="ranking"))
    assert "gates[0].comparisons[0].kind is 'ranking', and nobody here contributes it. " in message
    assert message.endswith("-p conftest.py")


@settings(max_examples=30)
@given(gate=st.text(st.characters(), max_size=20), detail=st.text(st.characters(), max_size=20))
def test_any_name_survives_a_file(tmp_path_factory, gate, detail):
    ledger = Ledger()
    ledger.note(gate, Entry(outcome="error", detail=detail))
    path = tmp_path_factory.mktemp("any") / "report.json"
    path.write_text(report(Session.of(ledger, PROVENANCE)), encoding="utf-8")
    (found,) = read(path, GATES).gates
    assert (found.id, found.entry.detail) == (gate, detail)


def test_a_link_stays_one(full, tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "report.json")
    write(tmp_path / "link.json", full)
    assert (tmp_path / "link.json").is_symlink()
    assert document(read(tmp_path / "report.json", GATES)) == full


def test_a_pipe_and_a_link_to_one_are_written_to_and_stay(full, tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with open(os.open(pipe, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as end:
        for path in (pipe, link):
            write(path, full)
            assert json.loads(end.read(2**16)) == full
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def test_a_pipe_without_a_name_is_written_to(full):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with open(reading, "rb", buffering=0) as end, open(writing, "wb"):
        # As a shell gives it to a command in >(...).
        write(Path(f"/dev/fd/{writing}"), full)
        assert json.loads(end.read(2**16)) == full


def test_what_stands_in_the_way_of_a_report_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    inside = tmp_path / "file" / "report.json"
    for path, said in (
        (tmp_path / "folder", "it is a folder. Move it away, or name a file"),
        (inside, f"{inside.parent} is no folder. Move it away"),
    ):
        with pytest.raises(FileError) as caught:
            write(path, {})
        assert str(caught.value) == f"cannot write the report {path}: {said}"
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize(
    ("call", "code"), [("fsync", errno.ENOSPC), ("fsync", errno.EDQUOT), ("replace", errno.EROFS)]
)
def test_a_full_disk_or_a_read_only_folder_leaves_the_old_report(
    full, tmp_path, monkeypatch, call, code
):
    path = tmp_path / "report.json"
    write(path, full)

    def fails(*arguments):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(FileError) as caught:
        write(path, {"schema": 1})
    assert str(caught.value) == f"cannot write the report {path}: {os.strerror(code)}"
    assert list(tmp_path.iterdir()) == [path]
    assert document(read(path, GATES)) == full


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_said_so(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="Permission denied"):
        write(tmp_path / "report.json", {})


def test_what_is_no_number_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write(tmp_path / "report.json", {"gap": float("nan")})
    assert list(tmp_path.iterdir()) == []


def refusal(path, text):
    path.write_bytes(text if isinstance(text, bytes) else json.dumps(text).encode())
    with pytest.raises(FileError) as caught:
        read(path, GATES)
    message = str(caught.value)
    assert message.startswith(f"cannot use the report {path}: ")
    assert "\n" not in message
    return message


def test_a_missing_report_says_how_to_write_one(tmp_path):
    path = tmp_path / "report.json"
    with pytest.raises(FileError) as caught:
        read(path, GATES)
    expected = f"there is no report {path}. Write one: pytest --cpg-json={path}"
    assert str(caught.value) == expected
    with pytest.raises(FileError, match=f"cannot use the report {tmp_path}: it is a folder"):
        read(tmp_path, GATES)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (b"", "it is no JSON (line 1, column 1: Expecting value)"),
        (b'{"schema": 1', "it is no JSON ("),
        (b'{"schema": NaN}', "it is no JSON (NaN is no number)"),
        (b"\xff", "byte 0 is no UTF-8"),
        (b"[" * 100_000, "it is no JSON ("),
        ([], "it is an array, as a baseline is, and a report is an object"),
        ({}, "it has no schema, and so is not from pytest-cpg"),
        ({"schema": True}, "it has no schema, and so is not from pytest-cpg"),
        ({"schema": "1"}, "it has no schema, and so is not from pytest-cpg"),
        ({"schema": 1}, "it has no 'generator'"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path, text, wrong):
    path = tmp_path / "report.json"
    message = refusal(path, text)
    assert wrong in message
    assert message.endswith("Write a report: pytest --cpg-json=report.json")


def test_a_newer_report_asks_for_an_upgrade(full, tmp_path):
    message = refusal(tmp_path / "report.json", {**full, "schema": 2})
    assert "it has schema 2, and this pytest-cpg reads up to 1" in message
    assert message.endswith("Upgrade: pip install -U pytest-cpg")


def changed(full, *place, to):
    copy = json.loads(json.dumps(full))
    found = copy
    for key in place[:-1]:
        found = found[key]
    found[place[-1]] = to
    return copy


RESULT = ("gates", 0, "comparisons", 0, "result")
DRIFT = ("gates", 4, "comparisons", 0, "drift")


@pytest.mark.parametrize(
    ("place", "to", "wrong"),
    [
        (("gates",), {}, "gates is {}, and has to be a list"),
        (("gates", 1, "outcome"), "lost", "gates[1].outcome is 'lost', and has to be one of "),
        (("gates", 1, "earlier"), [1], "gates[1].earlier[0] is 1, and has to be text"),
        (("gates", 0, "comparisons", 0), {}, "gates[0].comparisons[0] has no 'name'"),
        (("gates", 0, "comparisons", 0, "max_verdict"), "", "max_verdict: no verdict named ''"),
        (("gates", 0, "comparisons", 0, "drift"), {}, "gates[0].comparisons[0].drift has no 'la"),
        ((*RESULT, "schema"), 9, "gates[0].comparisons[0].result: this result has schema 9"),
        ((*RESULT, "verdict"), "", "gates[0].comparisons[0].result.verdict is '', and has to be"),
        ((*RESULT, "oracle", "steps"), [1, "a"], "oracle.steps is [1, 'a'], and has to be a list"),
        (("provenance", "packages"), {"a-b": 2}, "provenance.packages['a-b'] is 2, and has to be"),
        (("provenance", "kernels"), [], "provenance.kernels is [], and has to be an object"),
        (("session", "uncollected"), {"a.py": 1}, "session.uncollected['a.py'] is 1, and has to"),
        ((*RESULT, "interval", "low"), True, "interval.low is True, and has to be a number"),
        ((*RESULT, "versions"), {"numpy": 2}, "result.versions.numpy is 2, and has to be text"),
        ((*RESULT, "looks"), [[1, "a", 2]], "looks[0][1] is 'a', and has to be a number"),
        ((*RESULT, "learned", "latency_ms"), ["a", 1], "learned.latency_ms[0] is 'a', and has to"),
        ((*RESULT, "learned", "level"), 7, "result.learned: need a level between 0 and 1, got 7"),
        ((*RESULT, "learned", "indices", 0), 7, "result: need arms over the same episodes"),
        ((*RESULT, "budget"), 0, "result: need a budget of at least 1 step, got 0"),
        ((*RESULT, "method"), "x", "comparisons[0].result is damaged: need a method among"),
        ((*RESULT, "level"), 7.5, "comparisons[0].result is damaged: need a level between"),
        ((*RESULT, "more"), "", "gates[0].comparisons[0].result has an unknown 'more'"),
        ((*DRIFT, "worse"), 1, "gates[4].comparisons[0].drift.worse is 1, and has to be a list"),
    ],
)
def test_a_damaged_report_says_where(full, tmp_path, place, to, wrong):
    assert wrong in refusal(tmp_path / "report.json", changed(full, *place, to=to))


def places(value, place=()):
    """Yield where everything in a document is, but for episodes after the first two."""
    yield place
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value[:2])
        for key, below in items:
            yield from places(below, (*place, key))


WRONG = [None, 0, -1, 7.5, 1e308, -1e308, True, "", "x", [], [1], {}, [[]], {"a": 1}]


@settings(max_examples=40)
@given(data=st.data())
def test_a_report_is_refused_or_can_be_rendered_whatever_happened_to_it(
    full, tmp_path_factory, data
):
    place = data.draw(st.sampled_from([place for place in places(full) if place]))
    path = tmp_path_factory.mktemp("any") / "report.json"
    path.write_text(json.dumps(changed(full, *place, to=data.draw(st.sampled_from(WRONG)))))
    with suppress(FileError):
        found = read(path, GATES)
        markdown(found)
        html_page([found, full])
        html_page([found])
