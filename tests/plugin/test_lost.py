"""Lost episodes: kept when a gate fails, run again when asked for, and filmed."""

import errno
import os
import re
import shlex
import shutil

import numpy as np
import pytest
from sessions import flat

from pytest_cpg.plugin.measuring import SessionRuns

GATES = """
import pytest


@pytest.mark.cpg(task="track", model={model!r}{more})
def test_gate(cpg):
    assert cpg.oracle.success_count


@pytest.mark.cpg(task="track", model="right")
def test_other(cpg): ...


def test_plain(): ...
"""
DRAWN = """\
    def render(self, states):
        return np.full((len(states), 24, 32, 3), 9, dtype=np.uint8)

    def reset(self, seeds):"""
LOST = ".cpg/lost/????????"


@pytest.fixture
def project(repository):
    def gate(model="mirrored", more=""):
        repository.makepyfile(test_gates=GATES.format(model=model, more=more))

    gate()
    repository.gate = gate
    return repository


@pytest.fixture(scope="module")
def failed(recorded):
    """A session in which the first gate failed."""
    return recorded({"test_gates.py": GATES.format(model="mirrored", more="")})


@pytest.fixture
def lost(project, failed):
    """Where that session has put the episodes that the gate lost."""
    for name in (".cpg", ".pytest_cache"):
        shutil.copytree(failed.folder / name, project.path / name)
    (file,) = project.path.glob(f"{LOST}.json")
    return file.relative_to(project.path).as_posix()


@pytest.fixture
def drawn(project):
    """The project, whose task has pictures."""
    for package in ("PIL", "jinja2"):
        pytest.importorskip(package)
    project.change("conftest.py", "    def reset(self, seeds):", DRAWN)
    return project


def test_states_of_broken_promises_begin_a_collection(project, lost):
    result = project.runpytest(f"--cpg-replay={lost}", "--cpg-states=broken.npz")
    result.stdout.fnmatch_lines(["* broken promises: broken.npz, *states"])
    with np.load(project.path / "broken.npz") as broken:
        assert len(broken["states"]) == len(broken["optimism"]) >= 1
        assert (np.diff(broken["optimism"]) >= 0).all()
        assert (broken["optimism"] < 0).all()
    alone = project.runpytest("--cpg-states=broken.npz")
    alone.stderr.fnmatch_lines(["*Add the --cpg-replay=FILE that a gate prints when it fails."])


def test_a_gate_that_fails_says_how_to_replay_what_it_lost(project, failed, lost):
    assert failed.result.ret == 1
    shown = failed.result.stdout.str()
    command = re.search(r"  Replay +pytest (--cpg-replay=\S+)\n", shown)
    assert command[1] == f"--cpg-replay={lost}"
    project.makepyfile(test_broken="import nothing_of_this_name")
    again = project.runpytest(command[1])
    assert again.ret == 0, "the gate's file alone is collected"
    again.assert_outcomes(skipped=1, deselected=2)
    again.stdout.fnmatch_lines(
        ["*cpg: replay, no verdict*", " replay of 20 episodes, no verdict: track,*", " traces: *"]
    )
    assert "MODEL BOTTLENECK" not in again.stdout.str()
    assert project.text(".cpg/lost/.gitignore").endswith("*\n")


def test_a_replay_typed_outside_of_the_project_leads_to_it(project, monkeypatch):
    here = project.path.name
    monkeypatch.chdir(project.path.parent)
    result = project.runpytest(f"{here}/test_gates.py")
    typed = re.search(r"(?s)  Replay +pytest (.+?)\n  Rerun", result.stdout.str())
    test, replay = typed[1].replace("\\\n", " ").split()
    assert test == f"{here}/test_gates.py::test_gate"
    project.runpytest(test, replay).assert_outcomes(skipped=1)
    other = project.path / "other"
    other.mkdir()
    refused = project.runpytest(f"--rootdir={other}", str(other), replay)
    cure = f"Type: pytest --rootdir={other} {test} {replay}; if the test was renamed"
    assert cure in flat(refused)


def test_only_the_gate_is_run_and_only_the_episodes_asked_for(project, lost):
    result = project.runpytest(f"--cpg-replay={lost}::7,2")
    result.assert_outcomes(skipped=1, deselected=2)
    result.stdout.fnmatch_lines([" replay of 2 episodes, no verdict*"])
    with np.load(project.path / lost.replace(".json", ".npz"), allow_pickle=False) as arrays:
        traces = dict(arrays)
    assert traces["episodes"].tolist() == [2, 7]
    learned = {name: traces[f"episode_0002/learned/{name}"] for name in ("predicted", "actual")}
    assert (learned["predicted"] != learned["actual"]).any()
    oracle = {name: traces[f"episode_0002/oracle/{name}"] for name in ("predicted", "actual")}
    assert np.array_equal(oracle["predicted"], oracle["actual"])


def test_a_replay_is_of_the_seed_and_starts_that_lost(project):
    project.runpytest("--cpg-seed=5")
    (file,) = project.path.glob(f"{LOST}.json")
    result = project.runpytest(f"--cpg-replay={file}::0")
    result.stdout.fnmatch_lines(["*seed 5*"])
    assert "now solved" not in result.stdout.str()


def test_what_has_changed_since_is_said_within_the_width(project, lost, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    project.gate("right", ', horizon=7, planner="cem"')
    result = project.runpytest(f"--cpg-replay={lost}")
    assert result.ret == 0
    assert "now solved" in flat(result)
    lines = result.outlines
    (first,) = (n for n, line in enumerate(lines) if line.startswith(" note: planner: RandomS"))
    assert lines[first + 1].startswith(" " * len(" note: "))
    assert max(map(len, lines[first : first + 2])) <= 80


TWICE = """
import pytest


@pytest.mark.cpg(task="track", max_verdict="INCONCLUSIVE")
def test_gate(benchmark_runner):
    right = lambda observations, actions: observations + actions
    good = benchmark_runner.compare(learned=right)
    bad = benchmark_runner.compare(learned=lambda observations, actions: observations - actions)
    assert good.learned.success_count > bad.learned.success_count
"""


def test_a_later_comparison_is_replayed_once_those_before_it_have_run(project):
    project.makepyfile(test_gates=TWICE)
    result = project.runpytest()
    command = re.search(r"  Replay +pytest (\S+)", result.stdout.str())
    again = project.runpytest(*command.groups(), "-v")
    again.assert_outcomes(skipped=1)
    assert again.ret == 0
    again.stdout.fnmatch_lines(
        ["  cpg: learned  * starts solved, * s", " replay of 20 episodes, no verdict: *"]
    )
    project.change("test_gates.py", "    bad =", "    return\n    bad =")
    again = project.runpytest(*command.groups())
    said = "nothing was replayed: the test ended before its comparison 2"
    again.stdout.fnmatch_lines([said, f" {said}"])
    assert again.ret == 1


def test_a_gate_that_loses_nothing_keeps_nothing(project):
    project.gate("right")
    assert project.runpytest().ret == 0
    assert not (project.path / ".cpg/lost").exists()


def test_an_episode_in_which_a_model_breaks_is_named_with_what_led_there_and_run_alone(project):
    project.gate(model="diverging")
    result = project.runpytest("--color=yes", "--cpg-json=o.json")
    shown = result.stdout.str()
    found = re.search(
        r"\n(\x1b\[1mThe model predicted NaN, .*? no verdict: episode (\d+), step (\d+),.*?)"
        r"\n[^\n]*cpg: 2 gates",
        shown,
        re.DOTALL,
    )
    section = re.sub(r"\x1b\[\d*m", "", found[1])
    place = f"(episode {found[2]}, step {found[3]})"
    (file,) = project.path.glob(f"{LOST}.json")
    command = f"--cpg-replay=.cpg/lost/{file.name}::{found[2]}"
    assert re.fullmatch(
        r"The model predicted NaN, so there is no verdict: episode \d+, step \d+, imagined\n"
        r"step \d+ of \d+\. First NaN: number 1 of 1\.\n\n"
        r"  Why      Often diverged weights or a missing normalisation\. Predictions had\n"
        r"           not grown: numbers up to \S+ went into that step, and the plan began\n"
        r"           with \S+\.\n"
        r"  Do       Reproduce it alone:\n"
        rf"           pytest {re.escape(command)}",
        section,
    ), section
    assert f"\x1b[36m           pytest {command}\x1b[0m" in found[1]
    assert f"it predicted NaN {place}" in re.sub(r"\x1b\[\d*m", "", shown.partition("cpg: 2")[2])
    gates = project.json("o.json")["gates"]
    (detail,) = (one["detail"] for one in gates if one["outcome"] == "error")
    assert detail.startswith(f"error in setup: it predicted NaN {place}. The model predicted NaN, ")
    assert detail.endswith(f" Reproduce it alone: pytest {command}")
    again = project.runpytest(command)
    assert again.ret == 1
    again.assert_outcomes(errors=1)
    again.stdout.fnmatch_lines(
        ["*cpg: replay, no verdict*", f" as before: it predicted NaN {place}"]
    )
    # A smoke test keeps no episode.
    quick = project.runpytest("--cpg-quick", "--cpg-seed=7", "-k", "test_gate")
    said = r"Run it again:\n +pytest test_gates.py::test_gate (--cpg-\S+ --cpg-\S+)\n"
    typed = re.search(said, quick.stdout.str())[1].split()
    assert sorted(typed) == ["--cpg-quick", "--cpg-seed=7"]


def test_a_replay_measures_nothing_for_others(project, lost):
    result = project.runpytest(f"--cpg-replay={lost}", "--cpg-strict", "-o", "cpg_json=out.json")
    assert result.ret == 0
    assert not (project.path / "out.json").exists()


MISTAKES = [
    (["--cpg-replay=none.json"], "there is no file"),
    (["--cpg-replay="], "need a path"),
    (["--cpg-replay={file}::99"], "episode 99 is not among the lost episodes"),
    (["--cpg-replay={file}::x"], "names no episodes"),
    (["--cpg-replay={file}", "-n", "2"], "add -n 0"),
    (
        ["--cpg-replay={file}", "test_gates.py::test_other"],
        "no gate 'test_gates.py::test_gate' was coll",
    ),
]


def test_mistakes_are_named_before_anything_is_run(project, lost):
    for options, said in MISTAKES:
        result = project.runpytest(*(option.format(file=lost) for option in options))
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert said in " ".join(result.stderr.str().split())


def test_a_replay_is_no_way_around_what_ci_requires(project, lost):
    result = project.runpytest(f"--cpg-replay={lost}", "--cpg-require=1")
    assert result.ret == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_gate_fails_the_same_where_nothing_can_be_written(project):
    (project.path / ".cpg").mkdir(mode=0o500)
    result = project.runpytest()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["  lost episodes were not kept: *lost: Permission denied"])
    assert "--cpg-replay" not in result.stdout.str()


@pytest.mark.parametrize("trouble", ["a full disk", "a file in the way"])
def test_a_gate_fails_the_same_where_its_lost_episodes_cannot_be_kept(
    project, monkeypatch, trouble
):
    def is_full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if trouble == "a full disk":
        monkeypatch.setattr(os, "fsync", is_full)
    else:
        project.write(".cpg", "")
    result = project.runpytest_inprocess()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["MODEL BOTTLENECK: *", "  Lost     episodes were not kept: *"])
    assert "--cpg-replay" not in result.stdout.str()


def test_a_film_is_not_made_without_pictures_and_says_so(project, lost):
    pytest.importorskip("PIL")
    result = project.runpytest(f"--cpg-replay={lost}", "--cpg-render")
    assert result.ret == 0
    result.stdout.fnmatch_lines([" no film: * has no pictures*"])


def test_what_is_replayed_is_filmed(drawn, lost):
    result = drawn.runpytest("--cpg-render")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*films what is replayed. Add the --cpg-replay=FILE *"])
    replayed = drawn.runpytest(f"--cpg-replay={lost}::9", "--cpg-render")
    replayed.stdout.fnmatch_lines([f" film: {LOST}-9.gif"])
    assert len(list(drawn.path.glob(f"{LOST}-*.gif"))) == 1


def test_films_are_refused_without_pillow(project, lost, monkeypatch):
    project.write("PIL.py", "raise ModuleNotFoundError(\"No module named 'PIL'\", name='PIL')")
    monkeypatch.setenv("PYTHONPATH", str(project.path))
    result = project.runpytest_subprocess(f"--cpg-replay={lost}", "--cpg-render")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(['*pip install "pytest-cpg[[]render[]]"'])


def test_a_page_holds_the_most_telling_lost_episode_in_itself(drawn):
    drawn.runpytest("--cpg-html=page.html", "--cpg-json=r.json", "-n", "1")
    page = drawn.text("page.html")
    strips = [one["strip"] for gate in drawn.json("r.json")["gates"] for one in gate["comparisons"]]
    assert strips[1] is None, "that gate passes"
    assert [one["arm"] for one in strips[0]["reels"]] == ["oracle", "learned"]
    assert f"Episode {strips[0]['episode']}, the most telling of 20 lost episodes" in page
    frames = [image for one in strips[0]["reels"] for _, image in one["frames"]]
    assert page.count("data:image/webp;base64,") == len(frames)
    assert all(f"base64,{image}" in page for image in frames)
    # Nobody who asks for no page waits for pictures.
    drawn.runpytest("--cpg-json=r.json")
    assert '"strip": null' in drawn.text("r.json")
    assert '"strip": {' not in drawn.text("r.json")


@pytest.mark.parametrize("error", ["IncompleteError", "ValueError"])
def test_a_gate_that_cannot_be_drawn_leaves_pictures_to_the_next(project, monkeypatch, error):
    for package in ("PIL", "jinja2"):
        pytest.importorskip(package)
    late = "    def render(self, states):\n        late.append(1)\n"
    late += f"        if len(late) == 1:\n            raise {error}('late')\n"
    drawn = DRAWN.replace("    def render(self, states):\n", late)
    project.change("conftest.py", "    def reset(self, seeds):", drawn)
    project.add("conftest.py", "from pytest_cpg.contracts import IncompleteError\n\nlate = []")
    gates = GATES.format(model="mirrored", more="").replace('"right"', '"mirrored"')
    project.makepyfile(test_gates=gates)
    begun, begin = [], SessionRuns.deadline

    def deadline(*given):
        begun.append(given)
        return begin(*given)

    monkeypatch.setattr(SessionRuns, "deadline", deadline)
    result = project.runpytest("--cpg-html=page.html", "--cpg-json=r.json")
    result.assert_outcomes(failed=2, passed=1)
    said = "  Film     none: ValueError: late"
    assert result.outlines.count(said) == (error == "ValueError")
    report = project.json("r.json")
    strips = [gate["comparisons"][0]["strip"] for gate in report["gates"]]
    assert [strip is None for strip in strips] == [True, False]
    assert len(begun) == 2, "pictures have no time of their own"


def test_a_page_without_pictures_has_no_hole(project):
    pytest.importorskip("jinja2")
    result = project.runpytest("--cpg-html=page.html")
    result.stdout.fnmatch_lines(["MODEL BOTTLENECK: *", " written: page.html"])
    page = project.text("page.html")
    assert "most telling" not in page
    assert 'class="film"' not in page
    assert "has no pictures" not in result.stdout.str()


def test_commands_are_those_to_type_where_pytest_was_started(project, monkeypatch):
    below = project.mkdir("below")
    (project.path / "test_gates.py").rename(below / "test_gates.py")
    monkeypatch.chdir(below)
    commands = re.findall(r"(?m)^  Re.*? +pytest (.*)$", project.runpytest().stdout.str())
    assert len(commands) == 2
    for command, outcome in zip(commands, (0, 1), strict=True):
        assert project.runpytest(*shlex.split(command)).ret == outcome


def test_traces_that_cannot_be_written_cost_nothing_else(project, lost):
    (project.path / lost.replace(".json", ".npz")).mkdir()
    result = project.runpytest(f"--cpg-replay={lost}")
    assert result.ret == 0
    result.stdout.fnmatch_lines([" replay of 20 episodes*", " no traces: cannot write *"])


def test_a_test_that_ends_before_it_compares_replays_nothing_and_says_so(project, lost):
    path = project.path / "test_gates.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("@pytest.mark.cpg(", "@pytest.mark.skip\n@pytest.mark.cpg(", 1))
    result = project.runpytest(f"--cpg-replay={lost}")
    result.stdout.fnmatch_lines([" nothing was replayed: *"])


def test_a_replay_that_is_only_collected_says_nothing_of_episodes(project, lost):
    result = project.runpytest(f"--cpg-replay={lost}", "--co")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1/3 tests collected*"])
    for said in ("*nothing was replayed*", "*cpg: *"):
        result.stdout.no_fnmatch_line(said)
