"""The command pytest-cpg, on files that sessions wrote."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name
from xml.etree import ElementTree

import pytest
from documents import session
from kinds_page import WRITTEN_OUT

from pytest_cpg.render.command import main
from pytest_cpg.render.command.project import project_here

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
GATES = """
import pytest

@pytest.mark.cpg(task="track")
def test_gate(cpg): ...

@pytest.mark.cpg(task="track", max_verdict="MODEL BOTTLENECK")
def test_broken(cpg):
    if cpg.learned.success_rate < 0.5:
        raise RuntimeError("boom")
"""

# What the outer run must not tell the inner one.
OUTSIDE = ("CI", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def folder(repository, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    repository.makepyfile(test_gates=GATES)
    repository.path.joinpath(".gitignore").write_text("*.json\n*.html\n__pycache__\n")
    return repository


@pytest.fixture(scope="module")
def sessions(recorded):
    """Sessions of a bad model, a good one and one that breaks, one after the other: the first."""
    bad = recorded({"test_gates.py": GATES}, "--cpg-model=mirrored", "--cpg-json=bad.json")
    page = ["--cpg-html=good.html", "--cpg-history=bad.json"]
    recorded({}, "--cpg-model=right", "--cpg-json=good.json", *page, folder=bad.folder)
    recorded({}, "--cpg-model=diverging", folder=bad.folder)
    return bad


@pytest.fixture
def reports(sessions, folder):
    """The folder, with what the first two have written."""
    for name in ("bad.json", "good.json", "good.html"):
        if (sessions.folder / name).exists():
            shutil.copy(sessions.folder / name, folder.path)
    lines = (sessions.folder / ".cpg" / "history").read_text(encoding="utf-8").splitlines()
    folder.mkdir(".cpg").joinpath("history").write_text("\n".join(lines[:2]), encoding="utf-8")
    return folder


@pytest.fixture
def remember(sessions, reports):
    """Write a history of sessions of these models, in which one gate was run."""
    lines = (sessions.folder / ".cpg" / "history").read_text(encoding="utf-8").splitlines()
    by_model = dict(zip(("mirrored", "right", "diverging"), map(json.loads, lines), strict=True))

    def write(*models, gate="test_gates.py::test_gate"):
        with (reports.path / ".cpg" / "history").open("a", encoding="utf-8") as file:
            for session in map(by_model.__getitem__, models):
                comparisons = {gate: session["comparisons"][gate]}
                file.write(json.dumps({**session, "comparisons": comparisons}) + "\n")

    (reports.path / ".cpg" / "history").unlink()
    return write


@pytest.fixture
def said(capsys):
    """Run the command, and return its exit code, and what it printed."""

    def run(*given):
        capsys.readouterr()
        try:
            code = main(list(given))
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


def git(folder, *arguments):
    own = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    call = [shutil.which("git"), *own, *arguments]
    subprocess.run(call, cwd=folder.path, check=True, capture_output=True)


def commit(folder):
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "a")


def test_a_report_is_shown_as_its_session_was(sessions, reports, said):
    sessions.result.assert_outcomes(failed=2)
    code, text = said("show", "bad.json")
    assert code == 0
    shown = [line for line in text.splitlines() if line]
    own = {line for line in shown if line.startswith(("_", "-")) or "exit code" in line}
    session = sessions.result.stdout.str()
    assert [line for line in shown if line not in own and line not in session] == []
    assert "MODEL BOTTLENECK: " in text
    assert "RuntimeError: boom" in text
    # pytest's own last line, which is not shown, has said it in the session.
    assert re.search(r"cpg: 2 gates failed in \d+ (s|min) ", text)
    assert "gates failed in" not in session
    assert "--cpg-replay=.cpg/lost/" in text
    assert "  Rerun " in text
    assert len(said("show", "-v", "bad.json")[1].splitlines()) > len(text.splitlines())


def with_one_gate(path, **values):
    """Leave a report its first gate, with other values."""
    report = json.loads(path.read_text(encoding="utf-8"))
    first, other = report["gates"]
    report.update(gates=[first | values], deselected=[other["id"]])
    path.write_text(json.dumps(report), encoding="utf-8")


def test_compare_says_what_became_of_each_gate(reports, said):
    said("accept", "good.json", "--force")
    with_one_gate(reports.path / "bad.json")
    for before in ("good.json", ".cpg/baseline.json"):
        code, text = said("compare", before, "bad.json")
        assert code == 1
        assert "1 REGRESSED" in text.splitlines()[0]
        assert " REGRESSED     test_gates.py::test_gate\n" in text
        assert "lost 20 starts" in text
    code, text = said("compare", "bad.json", "good.json")
    assert code == 0
    assert " IMPROVED      test_gates.py::test_gate\n" in text
    assert " NEW           test_gates.py::test_broken\n" in text
    assert "1 UNCHANGED" in said("compare", "bad.json", "bad.json")[1]
    assert "MISSING" not in said("compare", "good.json", "bad.json")[1], "it was not selected"


def test_compare_fails_where_a_gate_measures_nothing_any_more(reports, said):
    path = reports.path / "bad.json"
    with_one_gate(path, outcome="error", detail="error in setup", comparisons=[])
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("test_gates.py::test_broken", "test_gates.py::test_new"), "utf-8")
    code, text = said("compare", "good.json", "bad.json")
    assert code == 1
    assert "2 MISSING" in text.splitlines()[0]
    assert " MISSING       test_gates.py::test_gate\n" in text
    assert "made no comparison: error" in text
    assert " MISSING       test_gates.py::test_broken\n" in text
    assert "not in the later report" in text


def test_history_is_the_trend_of_each_gate(reports, remember, said, monkeypatch):
    remember("right", "right", "mirrored")
    code, text = said("history")
    assert code == 0
    first, row = text.splitlines()
    assert first == "cpg: 3 sessions, 1 gate in .cpg/history"
    assert row == " ▇▇▁  Learned success rate 0/20  MODEL BOTTLENECK  test_gates.py::test_gate"
    monkeypatch.setenv("COLUMNS", "60")
    assert said("history")[1].splitlines()[1:] == [
        " Learned success rate",
        " ▇▇▁  0/20  MODEL BOTTLENECK  test_gate",
    ]
    monkeypatch.setenv("COLUMNS", "35")
    assert said("history")[1].splitlines()[2:] == [
        " ▇▇▁  0/20  MODEL BOTTLENECK",
        "   test_gate",
    ]
    lines = said("history", "-g", "test_gates.py::test_gate")[1].splitlines()
    assert said("history", "-g", "test_gate")[1].splitlines() == lines, "as it was printed"
    assert [line.partition("rate ")[2].split(",")[0] for line in lines[1:]] == [
        *("20/20", "20/20", "0/20")
    ]
    # A report is a session, too.
    assert "cpg: 1 session, 2 gates in bad.json\n" in said("history", "bad.json")[1]
    # What can be used is shown, and the exit code says that it is not all.
    (reports.path / "damaged.json").write_bytes(b"\xff")
    code, text = said("history", "damaged.json", "bad.json")
    assert code == 2
    assert "cannot use a session of the history damaged.json: line 1: it is no UTF-8\n" in text
    assert "session begins" not in text
    assert "cpg: 1 session, 2 gates in 2 files\n" in text
    code, text = said("history", "--gate", "test_gates.py::tset_gate")
    assert code == 2
    assert "Did you mean 'test_gates.py::test_gate'?" in text
    assert "Did you mean 'test_gate'?" in said("history", "-g", "tset_gate")[1]


def test_two_reports_beside_each_other_are_a_page(reports, said):
    pytest.importorskip("jinja2")
    code, text = said("compare", "good.json", "bad.json", "--html")
    assert code == 1
    assert text.endswith(" written: cpg.html\n")
    page = reports.text("cpg.html")
    assert "20\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}0 of 20" in page
    assert "REGRESSED" in page
    assert re.search(r"<b>20</b> lost since [\w ]+</span><span>0-19<", page), "who lost which start"
    assert "2 commits" in page or "2 sessions" in page
    for page in ("--html=", "--html=."):
        assert "Type: --html cpg.html" in said("compare", "good.json", "bad.json", page)[1]
    code, text = said("compare", "good.json", "bad.json", "--html", "conftest.py")
    assert code == 2
    assert "would take the place of conftest.py. Type: --html cpg.html" in text


def test_films_of_two_reports_stand_beside_each_other(reports, said):
    pytest.importorskip("jinja2")
    document = json.loads(reports.text("bad.json"))

    def report(name, episode, commit):
        reel = {"ending": "solved at step 3", "is_solved": True, "frames": [[0, ""], [3, ""]]}
        reels = [{**reel, "arm": arm} for arm in ("oracle", "learned")]
        document["provenance"] |= {"revision": commit, "dirty": False}
        for gate in document["gates"]:
            for row in gate["comparisons"]:
                row["strip"] = {"episode": episode, "lost": 9, "period": 0.1, "reels": reels}
        reports.write(name, json.dumps(document))

    report("then.json", 4, "a" * 12)
    report("now.json", 4, "b" * 12)
    assert said("compare", "then.json", "now.json", "--html")[0] == 0
    assert "At aaaaaaa, learned" in reports.text("cpg.html")
    assert "At aaaaaaa, oracle" not in reports.text("cpg.html"), "it is the same episode"
    report("now.json", 7, "b" * 12)
    assert said("compare", "then.json", "now.json", "--html")[0] == 0
    assert "At aaaaaaa, episode 4, oracle" in reports.text("cpg.html")


def test_a_badge_counts_the_gates_of_a_report(reports, said):
    check = "A/A check"
    document = json.loads(reports.text("good.json"))
    for gate in document["gates"]:
        for comparison in gate["comparisons"]:
            comparison["result"]["is_aa"] = True
    reports.write("aa.json", json.dumps(document))
    badges = {
        "bad.json": "2 of 2 fail",
        "good.json": "2 of 2 pass",
        "aa.json": f"no verdict: {check}",
    }
    for name, words in badges.items():
        code, text = said("badge", name)
        assert code == 0
        root = ElementTree.fromstring(text)  # noqa: S314 - we have just written it
        assert root.attrib["aria-label"] == f"planning gates: {words}"
        assert words in "".join(root.itertext())


def test_history_begins_with_the_worst_and_has_what_was_accepted(reports, remember, said):
    gate, better, broken = (f"test_gates.py::test_{name}" for name in ("gate", "a", "z"))
    remember("right", "mirrored", "mirrored")
    path = reports.path / ".cpg" / "history"
    lines = map(json.loads, path.read_text("utf-8").splitlines())
    dated = [{**line, "commit": commit} for commit, line in zip("abc", lines, strict=True)]
    for line, other in zip(dated, ("right", "mirrored", "right"), strict=True):
        remember(other, gate=gate)
        found = json.loads(path.read_text("utf-8").splitlines()[-1])["comparisons"][gate]
        line["comparisons"][better] = found
    remember("diverging", gate=gate)
    found = json.loads(path.read_text("utf-8").splitlines()[-1])["comparisons"][gate]
    dated[-1]["comparisons"][broken] = found
    path.write_text("".join(json.dumps(line) + "\n" for line in dated), "utf-8")
    assert said("accept", "good.json")[0] == 0
    assert "->" not in said("history")[1], "nobody knows at which commit it was accepted"
    baseline = reports.path / ".cpg" / "baseline.json"
    head, *gates = json.loads(baseline.read_text("utf-8"))
    kept = [{name: {**values, "commit": "a"} for name, values in row.items()} for row in gates]
    baseline.write_text(json.dumps([head, *kept]), "utf-8")
    rows = [re.split("  +", line.strip()) for line in said("history")[1].splitlines()[-3:]]
    assert [row[-1].rpartition("test_")[2] for row in rows] == ["gate", "z", "a"]
    assert [row[-2] for row in rows] == ["MODEL BOTTLENECK", "ERROR", "MODEL AS GOOD AS ORACLE"]
    assert rows[0][-3] == "20/20 -> 0/20"
    code, text = said("history", "--json", "-g", "GATE")
    assert code == 0
    (row,) = [row for row in json.loads(text) if row["gate"] == gate]
    assert [point["commit"] for point in row["sessions"]] == ["a", "b", "c"]
    assert row["sessions"][-1]["found"]["trends"][0]["text"] == "0/20"


def test_history_has_the_sessions_in_which_a_gate_got_no_verdict(remember, said):
    remember("right", "mirrored", "diverging", "right", "diverging")
    code, text = said("history")
    assert code == 0
    assert text.splitlines() == [
        "cpg: 5 sessions, 1 gate in .cpg/history",
        " ▇▁▇    ERROR  test_gates.py::test_gate",
    ]
    lines = said("history", "-g", "test_gates.py::test_gate")[1].splitlines()
    assert [re.split(r"(?:  +|, )", line)[-1] for line in lines[1:]] == [
        *("MODEL AS GOOD AS ORACLE", "MODEL BOTTLENECK", "ERROR"),
        *("MODEL AS GOOD AS ORACLE", "ERROR"),
    ]
    # One that was never measured has no trend to follow.
    remember("diverging", gate="test_gates.py::test_broken")
    assert said("history")[1].splitlines()[2].split() == ["ERROR", "test_gates.py::test_broken"]


def test_a_page_is_the_one_that_the_session_would_have_written(reports, said):
    pytest.importorskip("jinja2")
    assert said("html", "bad.json", "good.json") == (0, "written: cpg.html\n")
    written = reports.path / "cpg.html"

    def undated(page, *, dates):
        """Return a page without the date of its session, which no report has."""
        text, count = re.subn(r"<span>[\d: -]+ UTC</span>", "", page.read_text("utf-8"))
        assert count == dates
        return text

    assert undated(written, dates=0) == undated(reports.path / "good.html", dates=1)
    # The line that the session itself has written is no other session.
    assert said("html", "bad.json", ".cpg/history", "good.json")[0] == 0
    with_history = undated(written, dates=1)
    line = reports.text(".cpg/history").splitlines()[0]
    (reports.path / "first").write_text(line, encoding="utf-8")
    assert said("html", "bad.json", "first", "good.json")[0] == 0
    assert undated(written, dates=0) == with_history
    (reports.path / "damaged.json").write_text("hello", encoding="utf-8")
    code, text = said("html", "damaged.json", "good.json")
    assert code == 2
    assert "cannot use a session of the history damaged.json" in text
    assert "written: cpg.html" in text
    code, text = said("html", "good.json", "-o", "good.json")
    assert code == 2
    assert "the page would take the place of good.json. Type: -o cpg.html" in text
    (reports.path / "model.npz").write_text("weights", encoding="utf-8")
    for name in ("conftest.py", "model.npz", ".cpg/history", "new.py"):
        assert said("html", "good.json", "-o", name)[0] == 2
    assert reports.text("model.npz") == "weights"


@needs_git
def test_accept_writes_what_the_session_would_have_accepted(folder, said):
    commit(folder)
    folder.runpytest("--cpg-model=right", "--cpg-json=r.json", "--cpg-update-baseline")
    baseline = folder.path / ".cpg" / "baseline.json"
    measured = baseline.read_text(encoding="utf-8")
    baseline.unlink()
    code, text = said("accept", "r.json")
    assert code == 0
    assert "test_gates.py::test_gate, test_gates.py::test_broken accepted at " in " ".join(
        text.split()
    )
    assert baseline.read_text(encoding="utf-8") == measured
    # The same result of a later commit changes nothing, and is not said to.
    (folder.path / "notes.txt").write_text("", encoding="utf-8")
    commit(folder)
    folder.runpytest("--cpg-model=right", "--cpg-json=later.json")
    code, text = said("accept", "later.json")
    assert code == 0
    assert "test_broken stand in .cpg/baseline.json with the same result already" in " ".join(
        text.split()
    )
    assert baseline.read_text(encoding="utf-8") == measured
    # Accepted elsewhere, too.
    assert said("accept", "r.json", "--baseline", "other.json")[0] == 0
    assert folder.text("other.json") == measured


@needs_git
def test_accept_refuses_what_a_session_would_not_accept(folder, said, monkeypatch):
    commit(folder)
    folder.runpytest("--cpg-model=mirrored", "--cpg-json=bad.json")
    code, text = said("accept", "bad.json")
    assert code == 1
    assert "test_gates.py::test_gate" in text
    assert "not accepted, as the test did not pass" in " ".join(text.split())
    folder.path.joinpath("test_gates.py").write_text(f"{GATES}\n", encoding="utf-8")
    folder.runpytest("--cpg-model=right", "--cpg-json=dirty.json")
    code, text = said("accept", "dirty.json")
    assert code == 1
    assert "changes in the tree that was measured" in " ".join(text.split())
    monkeypatch.setenv("CI", "true")
    code, text = said("accept", "dirty.json")
    assert code == 1
    assert "this is CI" in text
    assert not folder.path.joinpath(".cpg", "baseline.json").exists()
    code, text = said("accept", "dirty.json", "--force")
    assert code == 0
    assert "-dirty" in text


@needs_git
def test_accept_names_every_gate_without_a_result(folder, said):
    folder.path.joinpath("test_more.py").write_text(
        "import pytest\n"
        "@pytest.fixture\ndef broken(): raise RuntimeError\n"
        "@pytest.mark.cpg(task='track')\ndef test_error(broken, cpg): ...\n"
        "@pytest.mark.skip\n@pytest.mark.cpg(task='track')\ndef test_skip(cpg): ...\n"
        "@pytest.mark.cpg(task='track')\ndef test_stop(cpg): raise KeyboardInterrupt\n"
        "@pytest.mark.cpg(task='track')\ndef test_after(cpg): ...\n",
        encoding="utf-8",
    )
    commit(folder)
    folder.runpytest("--cpg-model=right", "--cpg-json=r.json", no_reraise_ctrlc=True)
    code, text = said("accept", "r.json")
    assert code == 1
    assert "test_gates.py::test_gate, test_gates.py::test_broken accepted at " in " ".join(
        text.split()
    )
    for gate in ("error (in error)", "skip (skipped)", "stop (not reported)"):
        assert f"test_more.py::test_{gate}" in " ".join(text.split())
    assert "not accepted: no result" in " ".join(text.split())
    assert "the session ended early (interrupted), so gates may be missing" in " ".join(
        text.split()
    )
    # Whoever has looked at them takes the rest.
    code, text = said("accept", "r.json", "--force")
    assert code == 0
    assert "not accepted: no result" in " ".join(text.split())


@needs_git
def test_accept_says_that_a_smoke_test_is_no_result(folder, said):
    commit(folder)
    folder.runpytest("--cpg-quick", "--cpg-model=right", "--cpg-json=r.json")
    code, text = said("accept", "r.json")
    assert code == 1
    assert "not accepted: smoke test, which judges no model" in " ".join(text.split())


def test_kinds_of_gate_are_read_from_the_conftest_that_brings_them(repository, said):
    # Its results are dataclasses, whose annotations may be texts.
    repository.makeconftest(f"from __future__ import annotations\n\n{WRITTEN_OUT}")
    repository.makepyfile(
        """
        import pytest

        @pytest.mark.missed_steps(task="maze")
        def test_steps(missed_steps): pass

        @pytest.fixture
        def learned_dynamics(): return lambda observations, actions: observations + actions
        """
    )
    repository.runpytest("--cpg-json=r.json", "-p", "no:cacheprovider")
    code, text = said("show", "r.json")
    assert code == 2
    assert "kind is 'missed_steps', and nobody here contributes it. " in text
    assert "-p conftest.py" in text
    code, text = said("show", "r.json", "-p", "conftest.py")
    assert code == 0
    assert " cpg: " in text
    assert "-p nope.py: there is no such file" in said("show", "r.json", "-p", "nope.py")[1]
    assert "-p nope: there is no module 'nope'" in said("badge", "r.json", "-p", "nope")[1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("raise SystemExit(0)", "-p no_gpu.py raised SystemExit: 0 (no_gpu.py:1)."),
        ("import os; os._exit(0)", "-p no_gpu.py raised SystemExit: os._exit(0) would have ended"),
        ("import atexit, os; atexit.register(lambda: os._exit(0))", "there is no report r.json"),
    ],
)
def test_no_file_that_contributes_ends_the_command_as_if_all_were_well(tmp_path, line, expected):
    (tmp_path / "no_gpu.py").write_text(f"{line}\n", encoding="utf-8")
    call = "import sys; from pytest_cpg.render.command import main; sys.exit(main())"
    given = [sys.executable, "-c", call, "compare", "r.json", "r.json", "-p", "no_gpu.py"]
    ended = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert expected in ended.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["shwo", "r.json"], "no command named 'shwo'. Did you mean 'show'?"),
        (
            ["show"],
            "Write one, and name it: pytest --cpg-json=r.json; pytest-cpg show r.json",
        ),
        (["html"], "name it: pytest --cpg-json=r.json; pytest-cpg html r.json"),
        (["show", "nope.json"], "there is no report nope.json. Write one: pytest --cpg-json="),
        (["show", "text.json"], "cannot use the report text.json: it is no JSON"),
        (["history"], "there is no history .cpg/history. Each session adds to one: pytest"),
        (["tasks", "mase"], "no task named 'mase'. Did you mean 'maze'?"),
        (
            ["compare", "empty.json"],
            "there is no baseline .cpg/baseline.json. Write one: pytest-cpg",
        ),
        (
            ["compare", "empty.json", "empty.json"],
            "empty.json has no gate to compare. Measure some:",
        ),
        (["accept", "empty.json"], "empty.json has no gate to accept. Measure some: pytest --cpg-"),
        (["accept", "newer.json"], "reads up to 1. Upgrade: pip install -U pytest-cpg"),
        (["accept", "list.json"], "it is an array, as a baseline is, and a report is an object."),
        (["compare", "folder", "empty.json"], "cannot use the report folder: it is a folder."),
        (["history", "folder"], "cannot use the history folder: it is a folder. Move it away, "),
    ],
)
def test_a_mistake_is_named_with_what_to_type(given, expected, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    texts = {"text": "hello", "list": '[{"schema": 1}]', "newer": '{"schema": 9}'}
    for name, text in {**texts, "empty": json.dumps(session())}.items():
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    code, text = said(*given)
    assert code == 2
    assert expected in " ".join(text.split())


def test_what_a_crafted_report_or_history_holds_is_shown_and_not_obeyed(reports, said):
    for path in (reports.path / "bad.json", reports.path / ".cpg" / "history"):
        text = path.read_text(encoding="utf-8")
        assert "test_" in text
        path.write_text(text.replace("test_", "\\u001b]0;title\\u0007test_"), encoding="utf-8")
    for given in (
        ["show", "bad.json"],
        ["history"],
        ["compare", "bad.json", "bad.json"],
        ["accept", "bad.json"],
    ):
        _, text = said(*given)
        assert not {"\x1b", "\x07"} & {*text}, given


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_ctrl_c_ends_it_without_a_traceback(tmp_path):
    pipe = tmp_path / "report.json"
    os.mkfifo(pipe)
    call = "import sys; from pytest_cpg.render.command import main; sys.exit(main())"
    command = subprocess.Popen(
        [sys.executable, "-c", call, "accept", str(pipe)], stderr=subprocess.PIPE, text=True
    )
    # Whoever opens a pipe waits for the other side: from here on the command reads.
    with pipe.open("wb"):
        command.send_signal(signal.SIGINT)
        _, said = command.communicate()
    assert said == "pytest-cpg: interrupted. Every file is as it was, or complete.\n"
    assert command.returncode == 130


@needs_git
def test_a_subfolder_works_on_the_files_of_its_project(folder, said, monkeypatch):
    commit(folder)
    folder.runpytest("--cpg-model=right", "--cpg-json=r.json")
    below = folder.mkdir("below")
    monkeypatch.chdir(below)
    code, text = said("accept", "../r.json")
    assert code == 0
    assert " into ../.cpg/baseline.json\n" in text
    assert (folder.path / ".cpg" / "baseline.json").is_file()
    ini = folder.path / "tox.ini"
    ini.write_text(f"{ini.read_text('utf-8')}\ncpg_baseline = kept/it.json\n", encoding="utf-8")
    assert " into ../kept/it.json\n" in said("accept", "../r.json")[1]
    code, text = said("compare", "../r.json")
    assert code == 0
    assert text.startswith("cpg: 2 gates: 2 UNCHANGED\n from the baseline ../kept/it.json to ")
    monkeypatch.setenv("PYTEST_CPG_BASELINE", "typed.json")
    assert "there is no baseline ../typed.json. " in said("compare", "../r.json")[1]
    assert said("history")[1].startswith("cpg: 1 session, 2 gates in ../.cpg/history\n")
    assert [*below.iterdir()] == []


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"setup.py": ""},
        {"setup.py": "", "sub/pyproject.toml": "[project]\n"},
        {"pyproject.toml": "[project]\n"},
        {"pyproject.toml": "[tool.pytest.ini_options]\ncpg_baseline = 'a'\n", "sub/setup.py": ""},
        {"pyproject.toml": "[tool.pytest]\ncpg_baseline = 'a'\n", "sub/pyproject.toml": ""},
        {"pytest.ini": "", "tox.ini": "[pytest]\ncpg_baseline = a\n"},
        {"pytest.ini": "[pytest]\ncpg_baseline = 100%/a b.json\n", "sub/tox.ini": "[tox]\n"},
        {"setup.cfg": "[tool:pytest]\ncpg_baseline = a\n", "tox.ini": "[tox]\n"},
        {"sub/pytest.toml": "[pytest]\ncpg_baseline = 'a'\n", "pytest.ini": ""},
    ],
    ids=" ".join,
)
def test_the_project_is_the_one_that_pytest_finds(files, pytester, monkeypatch):
    for name, text in files.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    here = pytester.path / "sub" / "tests"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    # Settings of the ini file are known where an option of ours is typed.
    config = pytester.parseconfig("-p", "no:hypothesispytest", "--cpg-plan")
    found = project_here()
    assert found.root == config.rootpath
    baseline = config.rootpath / config.getini("cpg_baseline")
    assert found.baseline.resolve() == baseline.resolve()


@pytest.mark.parametrize(
    "command", ["show", "compare", "history", "html", "badge", "accept", "init", "tasks"]
)
def test_every_command_has_help(command, said):
    code, text = said(command, "--help")
    assert code == 0
    assert f"usage: pytest-cpg {command}" in text
    assert f"    {command}" in said("--help")[1]


def test_tasks_are_listed_with_what_solves_them(said):
    code, text = said("tasks")
    assert code == 0
    rows = [line.split() for line in text.splitlines()]
    assert ["maze", "beam", "100"] in rows
    assert ["reacher-easy", "random-shooting", "100"] in rows


def test_no_word_of_a_marker_is_broken_on_a_narrow_terminal(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert '  @pytest.mark.cpg(task="maze",\n' in said("tasks", "maze")[1]
    assert 'planner="greedy")' in said("tasks", "blocks:3")[1]


def test_a_task_is_told_with_observations_actions_and_the_marker_that_solves_it(said):
    code, text = said("tasks", "maze")
    assert code == 0
    assert "  observation 2 numbers, in this order:" in text
    assert "0  column, from the left, cells" in text
    assert "one of (1, 0), (0, 1), (-1, 0), (0, -1)" in text
    assert '@pytest.mark.cpg(task="maze", planner="preset")' in text


def test_a_task_of_a_conftest_beside_is_looked_for_there_once_it_is_named(said, folder):
    code, text = said("tasks", "tracks")
    assert code == 2
    assert "For tasks of conftest.py: pytest-cpg tasks tracks -p conftest.py" in " ".join(
        text.split()
    )
    assert said("tasks", "track", "-p", "conftest.py")[0] == 0


def test_the_marker_that_a_task_of_gymnasium_is_told_with_is_one_that_is_collected(said, pytester):
    pytest.importorskip("gymnasium")
    code, text = said("tasks", "gym:CartPole-v1")
    assert code == 0
    assert "  solved      at goal=; without, returns are compared\n" in text
    assert "  restored    by a copy of its attributes\n" in text
    assert "  score       minus the reward, which observations do not tell: " in text
    marker = " ".join(text.partition("  marker")[2].split())
    pytester.makepyfile(f"import pytest\n{marker}\ndef test_gate(cpg): ...\n")
    pytester.runpytest("--collect-only", "-p", "no:hypothesispytest").assert_outcomes()


def test_the_script_is_the_command_and_imports_no_pytest():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert resolve_name(project["scripts"]["pytest-cpg"]) is main
    code = (
        "import sys\nfrom pytest_cpg.render.command import main\n"
        "assert main(['tasks', 'maze']) == 0\n"
        "assert not {'pytest', '_pytest', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.trains
def test_an_empty_folder_has_a_gate_that_judges_its_example(
    torch_and_control, pytester, said, monkeypatch
):
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    code, text = said("init")
    assert code == 0
    written = re.findall(r"^  (\S+\.\w+) ", text, re.MULTILINE)
    assert all((pytester.path / name).is_file() for name in written)
    assert len(written) == 4
    assert "\n  pytest  " in text
    # What is written is README's second gate, which test_readme trains; here is a poorer model.
    conftest = pytester.path / "tests" / "world_model" / "conftest.py"
    recipe = conftest.read_text("utf-8")
    conftest.write_text(recipe.replace("count=40_000", "count=200"), encoding="utf-8")
    # Code at the top is imported as it is, without an installation.
    pytester.makepyfile(recipes="from pytest_cpg.world_models import collect_transitions")
    conftest.write_text(f"import recipes\n{conftest.read_text('utf-8')}", encoding="utf-8")
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["MODEL BOTTLENECK: *", "  Why *"])
    code, text = said("init")
    assert code == 2
    assert "tests/world_model/conftest.py is there already, and no file is replaced" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\nminversion = '8'\n"),
        ("tox.ini", "[pytest]\n"),
        ("setup.cfg", "[tool:pytest]\n"),
        ("pytest.ini", "[pytest]\n"),
        ("pytest.toml", ""),
        (".pytest.toml", "[pytest]\nminversion = '9'\n"),
    ],
)
def test_settings_that_pytest_has_are_not_hidden_by_new_ones(name, text, tmp_path, said):
    (tmp_path / name).write_text(text, encoding="utf-8")
    code, printed = said("init", str(tmp_path))
    assert code == 0
    plugin = '["pytest-cpg"]' if name.endswith(".toml") else "pytest-cpg"
    assert f"{name} has pytest's settings: add required_plugins = {plugin} there" in printed
    assert (tmp_path / name).read_text(encoding="utf-8") == text
    assert (tmp_path / "pytest.ini").exists() == (name == "pytest.ini")
    assert f"\n  cd {tmp_path}\n" in printed


@pytest.mark.parametrize("name", ["tests", "pytest.ini"])
def test_no_link_is_followed_out_of_the_folder(name, tmp_path, said):
    folder, outside = tmp_path / "mine", tmp_path / "outside"
    outside.mkdir()
    folder.mkdir()
    (folder / name).symlink_to(outside / name if name == "pytest.ini" else outside)
    code, printed = said("init", str(folder))
    assert code == 2
    assert "is behind a link out of this folder, and no file is replaced. Type: " in printed
    assert not any(outside.iterdir())
    (folder / name).unlink()
    (folder / name).symlink_to(folder / "not_there")
    assert said("init", str(folder))[0] == (2 if name == "pytest.ini" else 0)


def test_the_workflow_takes_the_plugin_from_an_address(tmp_path, said):
    for wrong in (
        "main",
        'git+https://hub.example/o/r"; rm -rf /',
        "git+https://hub.example/$(id)",
    ):
        code, printed = said("init", str(tmp_path / "a"), "--from", wrong)
        assert code == 2
        assert "Write git+https://HOST/OWNER/pytest-cpg" in printed
    assert not (tmp_path / "a").exists()
    address = "git+https://hub.example/o/pytest-cpg@abc"
    assert said("init", str(tmp_path / "a"), "--from", address)[0] == 0
    workflow = (tmp_path / "a/.github/workflows/world-model.yml").read_text("utf-8")
    assert f'pip install "pytest-cpg[$control,torch,html] @ {address}"\n' in workflow


def test_a_file_that_is_there_is_kept_and_nothing_else_is_written(tmp_path, said):
    workflow = tmp_path / ".github" / "workflows" / "world-model.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("mine", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\n", encoding="utf-8")
    code, printed = said("init", str(tmp_path))
    assert code == 2
    assert "world-model.yml is there already" in printed
    assert workflow.read_text(encoding="utf-8") == "mine"
    assert sorted(one.name for one in tmp_path.iterdir()) == [".github", "pyproject.toml"]
    (tmp_path / "pyproject.toml").write_text("[", encoding="utf-8")
    assert "cannot read pytest's settings" in said("init", str(tmp_path))[1]
