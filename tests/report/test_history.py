import json
import multiprocessing
from dataclasses import replace

import pytest
from documents import gate, measured, session
from hypothesis import given, settings
from hypothesis import strategies as st
from rendered import html_page as page_of_documents
from rendered import past, session_of

from pytest_cpg.contracts.codec import encode
from pytest_cpg.gates import GATES
from pytest_cpg.gates.card import Trend
from pytest_cpg.machine.files import FileError
from pytest_cpg.render.html_page import report as html_page
from pytest_cpg.report.document import MOST_SESSIONS, append
from pytest_cpg.report.document import read_history as read
from pytest_cpg.report.history import Found, History, Session
from pytest_cpg.stats import Interval

GATE = "tests/test_gates.py::test_gate"


def rate(value, *, name="Learned", axis=(0.0, 1.0)):
    bound = Interval(estimate=value, low=value, high=value, level=0.95, method="exact")
    return Trend(name=name, text=f"{value:g}", bound=bound, axis=axis)


def found(*trends, design="a"):
    return Found(label="INCONCLUSIVE", severity="unsure", design=design, trends=trends)


def of(*comparisons, name=GATE):
    """Return the history of sessions that each found this of a gate, None for nothing."""
    return History(
        tuple(
            Session(commit=f"c{place}", date="", comparisons={} if one is None else {name: one})
            for place, one in enumerate(comparisons)
        )
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".cpg" / "history"


def sessions_in(*paths):
    history, faults = read(paths, GATES)
    assert faults == []
    return history.sessions


def test_what_is_appended_is_read_in_its_order(path):
    assert sessions_in(path) == ()
    sessions = of(found(rate(0.4)), found(rate(-3.0, axis=None)), None).sessions
    for one in sessions:
        append(path, one)
    assert sessions_in(path) == sessions
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3


def test_a_history_keeps_the_last_sessions_and_no_more(path):
    last = of(*[found(rate(0.5))] * (MOST_SESSIONS + 2)).sessions
    for one in last:
        append(path, one)
    assert [one.commit for one in sessions_in(path)] == [one.commit for one in last[2:]]


def append_some(path, worker):
    for number in range(5):
        append(path, Session(commit=f"{worker}-{number}", date="", comparisons={}))


def test_sessions_that_end_together_lose_nothing(path):
    workers = [multiprocessing.Process(target=append_some, args=(path, name)) for name in "abcd"]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    commits = {one.commit for one in sessions_in(path)}
    assert commits == {f"{worker}-{number}" for worker in "abcd" for number in range(5)}
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".gitignore", "history"]


def test_git_does_not_see_the_file_nor_what_hides_it(path):
    append(path, of(found()).sessions[0])
    ignored = path.with_name(".gitignore").read_text(encoding="utf-8").splitlines()
    assert ignored[1:] == ["/.gitignore", "/history", "/history.lock"]
    path.with_name(".gitignore").write_text("my own\n", encoding="utf-8")
    append(path, of(found()).sessions[0])
    assert path.with_name(".gitignore").read_text(encoding="utf-8") == "my own\n"


def test_a_report_is_a_session_of_a_history(tmp_path, path):
    result = measured(0.9, 0.5)
    report = session(gate(GATE, result), revision="3f2c1e9", dirty=True)
    append(path, of(found(rate(0.3))).sessions[0])
    (tmp_path / "one.json").write_text(json.dumps(report, indent=2), encoding="utf-8")
    earlier, last = sessions_in(path, tmp_path / "one.json")
    assert (earlier.commit, last.commit) == ("c0", "3f2c1e9-dirty")
    (shown,) = (one.judgement for one in session_of(report).comparisons)
    assert last.comparisons == {GATE: Found.of(shown.ruling, shown.card)}
    assert last.comparisons[GATE].severity == "bad"


def test_lines_of_a_newer_version_are_left_out_and_stay(path):
    append(path, of(found(rate(0.3))).sessions[0])
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"schema": 9, "from": "the future"}) + "\n")
    append(path, of(found(rate(0.4))).sessions[0])
    history, (fault,) = read([path], GATES)
    assert len(history.sessions) == 2
    wrong = "line 2: it has schema 9, and this pytest-cpg reads 1"
    assert fault == f"cannot use a session of the history {path}: {wrong}"
    assert "the future" in path.read_text(encoding="utf-8")


HALF = json.dumps({"schema": 1, "commit": "c1"})[:-9].encode()
NO_SESSION = {
    "a mark of git": (b"<<<<<<< HEAD", "line 1, column 1: Expecting value"),
    "half a line": (HALF, "line 1, column "),
    "another document": (b"[1]", "it is no session of pytest-cpg"),
    "no schema": (b'{"a": 1}', "it has schema None, and this pytest-cpg reads 1"),
    "a part of a session": (b'{"schema": 1}', "it has no 'commit'"),
    "binary": (bytes(set(range(256)) - {10, 13}), "it is no UTF-8"),
    "binary in a session": (b'{"schema": 1, "commit": "\xff"}', "it is no UTF-8"),
}


@pytest.mark.parametrize("name", NO_SESSION)
def test_a_line_that_is_no_session_costs_no_other_and_is_named_once(path, name):
    line, wrong = NO_SESSION[name]
    append(path, of(found(rate(0.3))).sessions[0])
    with path.open("ab") as file:
        file.write(line + b"\n" + line)
    history, (fault,) = read([path], GATES)
    assert len(history.sessions) == 1
    assert fault.startswith(f"cannot use a session of the history {path}: line 2: ")
    assert wrong in fault
    assert fault.endswith(" (and 1 more)")
    assert len(fault) < 200 + len(str(path))
    append(path, of(found(rate(0.4))).sessions[0])
    history, faults = read([path], GATES)
    assert len(history.sessions) == 2
    assert bool(faults) == (name == "a part of a session")


def test_a_file_that_cannot_be_read_or_written_is_named(path):
    path.mkdir(parents=True)
    history, (fault,) = read([path], GATES)
    assert history == History()
    assert f"cannot use the history {path}: " in fault
    with pytest.raises(FileError, match="cannot use the history"):
        append(path, of(found()).sessions[0])


def test_the_points_of_a_comparison_are_those_that_followed_the_same_numbers():
    other = found(rate(0.1, name="Mean error"))
    before, now = found(rate(0.2), design="b"), found(rate(0.7))
    history = of(found(rate(0.3)), None, other, before, now)
    points = history.points(GATE)
    assert [point.commit for point in points] == ["c0", "c3", "c4"]
    assert [point.is_other_design for point in points] == [False, True, False]
    assert [point.found for point in points] == [found(rate(0.3)), before, now]
    assert of(now, None).points(GATE) == (), "the last session did not make it"
    assert History().points(GATE) == ()


def test_a_commit_is_one_point_and_a_tree_with_changes_is_the_present_alone():
    def commits(*names):
        sessions = (
            Session(commit=name, date=str(at), comparisons={GATE: found(rate(at / 9))})
            for at, name in enumerate(names)
        )
        return [f"{one.commit} {one.date}" for one in History(tuple(sessions)).points(GATE)]

    assert commits("a", "a-dirty", "a", "b", "b-dirty", "b-dirty") == ["a 2", "b 3", "b-dirty 5"]
    assert commits("a", "b", "a") == ["b 1", "a 2"]
    assert commits("", "", "") == [" 0", " 1", " 2"], "nobody knows"


@pytest.mark.parametrize(
    ("values", "axis", "heights"),
    [
        ((0.2, 0.4), (0.0, 1.0), (0.2, 0.4)),
        ((-1.0, 0.0, 4.0), (-1.0, 3.0), (0.0, 0.25, 1.0)),
        ((3.0, 1.0, 2.0), None, (1.0, 0.0, 0.5)),
        ((5.0, 5.0), None, (0.5, 0.5)),
        ((-1.7e308, 1.7e308), None, (0.0, 1.0)),
        ((0.5,), (0.0, 1.0), ()),
        (tuple(n / 10 for n in range(9)), (0.0, 1.0), (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    ],
)
def test_heights_of_a_sparkline_are_shares_of_the_axis(values, axis, heights):
    history = of(*(found(rate(value, axis=axis)) for value in values))
    assert history.heights(GATE) == pytest.approx(heights)


def test_a_sparkline_begins_anew_with_another_design():
    same = found(rate(0.3)), found(rate(0.4))
    assert of(found(rate(0.1), design="b"), *same).heights(GATE) == (0.3, 0.4)
    assert of(found(rate(0.1)), found(rate(0.2), design="b")).heights(GATE) == ()
    assert of(found(), found()).heights(GATE) == (), "it follows no number"


def test_a_check_is_no_session_to_compare_with():
    report = session(gate(GATE, replace(measured(0.9, 0.5), is_aa=True)))
    assert past(report).comparisons == {}


def places(value, place=()):
    yield place
    if isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(below, (*place, key))


WRONG = [None, 0, -1, 7.5, 1e308, -1e308, True, "", "x", [], [1], {}, [[]], {"a": 1}, [2, 2]]
REPORT = session(gate(GATE, measured(0.9, 0.5)))
LINE = {"schema": 1, **encode(past(REPORT))}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_line_is_left_out_or_can_be_drawn_whatever_happened_to_it(data, tmp_path_factory):
    pytest.importorskip("jinja2")
    line = json.loads(json.dumps(LINE))
    place = data.draw(st.sampled_from([place for place in places(LINE) if place]))
    inner = line
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = data.draw(st.sampled_from(WRONG))
    path = tmp_path_factory.getbasetemp() / "any-history"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    history, _ = read([path], GATES)
    sessions = (*history.sessions, past(REPORT))
    assert len(History(sessions).points(GATE)) >= 1
    assert all(0 <= height <= 1 for height in History(sessions).heights(GATE))
    html_page(replace(session_of(REPORT), history=History(sessions)))


def test_the_same_sessions_make_the_same_page_from_reports_and_from_lines(path, tmp_path):
    pytest.importorskip("jinja2")
    old = session(gate(GATE, measured(0.9, 0.8)), revision="1111111")
    for one in (old, REPORT):
        append(path, past(one))
    history = History(sessions_in(path))
    page = html_page(replace(session_of(REPORT), history=history))
    assert page == page_of_documents([old, REPORT])
    assert "1111111" in page
