"""Sessions that are interrupted and go on: nothing is run twice, and nothing is different."""

import json
import re
import signal
from importlib.resources import files

import jsonschema
import pytest
from sessions import flat, tell_workers, untimed

from pytest_cpg.episodes import kept_run
from pytest_cpg.machine import deadline

SCHEMA = json.loads((files("pytest_cpg.report") / "report.schema.json").read_text("utf-8"))
GATE = """
import os
import threading
from pathlib import Path

import pytest

FOLDER = Path({folder!r})
LIMIT = int((FOLDER / "limit").read_text())
rows = []


def model(observations, actions):
    rows.append(len(observations))
    {line}
    return {result}


@pytest.fixture(scope="module", autouse=True)
def counted():
    yield
    (FOLDER / "rows").write_text(str(sum(rows)))


@pytest.mark.cpg(task="track", budget=200, max_verdict="MODEL BOTTLENECK"{more})
def test_gate(benchmark_runner):
    print("reuse:", *benchmark_runner.compare(learned=model).reuse, sep="\\n")
"""
# In the middle of the learned arm.
WHEN = "if sum(rows) > LIMIT and not (FOLDER / 'go').exists()"
INTERRUPTED = f"{WHEN}: raise KeyboardInterrupt"


# Few episodes are several blocks, and a run of a second is written to the disk.
HURRY = {"EPISODES_AT_ONCE": 10, "SECONDS_BETWEEN_FILES": 0.0}
# What an interrupted session has kept of its learned arm.
PART = "learned: [1-9]* episodes stored (key *), two checked and equal"


@pytest.fixture
def project(repository, monkeypatch):
    """The miniature, whose task says by its key that it has not changed."""
    # Put back afterwards: what follows sets it here as well as in other processes.
    for name, value in HURRY.items():
        monkeypatch.setattr(kept_run, name, value)
    name = '    name = "track"'
    repository.change("conftest.py", name, f'    cache_key = "1"\n{name}')
    # A run of a second is to be interrupted in its middle.
    hurry = f"import pytest_cpg.episodes.kept_run as kept\n\nvars(kept).update({HURRY})"
    repository.add("conftest.py", hurry)
    repository.write("limit", "200000")

    def gate(line=INTERRUPTED, more="", result="observations - actions"):
        folder = str(repository.path)
        text = GATE.format(folder=folder, line=line, more=more, result=result)
        repository.makepyfile(test_gates=text)

    gate()
    repository.gate = gate
    return repository


OUTPUTS = ("--cpg-json=report.json", "-rP")


def run(project, *options):
    return project.runpytest_inprocess(*OUTPUTS, *options, no_reraise_ctrlc=True)


def run_apart(project, *options):
    """Like `run`, in a process of its own."""
    return project.runpytest_subprocess(*OUTPUTS, *options)


def gates(project):
    return untimed(project.json("report.json")["gates"])


def uninterrupted(project, *options):
    (project.path / "go").touch()
    assert run(project, "--cpg-no-cache", *options).ret == 0
    (project.path / "go").unlink()
    return gates(project), int(project.text("rows"))


@pytest.mark.parametrize("more", ["", ', stop="sequential"'])
def test_an_interrupted_gate_goes_on_where_it_was(project, more):
    # Neither all lost nor all solved, so that no first look ends it.
    half = {"result": "observations - actions * (2 * (observations > 4.5) - 1)"}
    project.gate(more=more, **half if "sequential" in more else {})
    (project.path / "limit").write_text("150000" if "sequential" in more else "400000")
    expected, rows = uninterrupted(project, "--cpg-episodes=60")
    broken_off = run(project, "--cpg-episodes=60")
    assert broken_off.ret == 2
    broken_off.stdout.fnmatch_lines(
        ["*interrupted in learned, step *", " --cpg-resume goes on with what was finished"]
    )
    (project.path / "go").touch()
    resumed = run(project, "--cpg-resume", "--cpg-episodes=60")
    assert resumed.ret == 0
    resumed.stdout.fnmatch_lines([PART])
    assert gates(project) == expected
    # Interrupted after 300 000 rows; two episodes are run again.
    if "sequential" not in more:
        assert int(project.text("rows")) < rows - 190_000


def test_a_finished_arm_is_not_run_again(project):
    (project.path / "go").touch()
    # A diagnosis asks the model, too.
    assert run(project, "--cpg-diagnose=never").ret == 0
    expected, rows = gates(project), int(project.text("rows"))
    resumed = run(project, "--cpg-resume", "--cpg-diagnose=never")
    resumed.stdout.fnmatch_lines(["learned: 20 episodes stored (key *), two checked and equal"])
    assert gates(project) == expected
    parts = [f"{arm}: 20 of 20 episodes" for arm in ("oracle", "learned", "chance")]
    report = project.json("report.json")
    assert report["gates"][0]["resumed"] == parts
    assert f"not run anew: test_gates.py::test_gate ({'; '.join(parts)})" in flat(resumed)
    assert any("interrupted" in found["text"] for found in report["findings"])
    jsonschema.validate(report, SCHEMA)
    assert int(project.text("rows")) < 0.6 * rows
    # Without the option only what no model changes is taken, as in any session.
    assert "interrupted" not in flat(run(project, "--cpg-diagnose=never"))
    assert project.json("report.json")["gates"][0]["resumed"] == []


def test_what_has_changed_is_not_resumed(project):
    assert run(project).ret == 2
    (project.path / "go").touch()
    unasked = run(project)
    assert unasked.ret == 0
    unasked.stdout.fnmatch_lines(["learned: run anew"])
    for change in (
        {"result": "observations - actions * 1.0"},
        {"line": f"{INTERRUPTED}; assert True"},
        {"more": ", seed=1"},
        {"more": ", horizon=4"},
    ):
        project.gate(**change)
        resumed = run(project, "--cpg-resume")
        assert resumed.ret == 0
        resumed.stdout.fnmatch_lines(["learned: run anew"])
    # It was there all the time.
    project.gate()
    resumed = run(project, "--cpg-resume")
    resumed.stdout.fnmatch_lines([PART])


@pytest.mark.usefixtures("own_hashes")
def test_a_killed_session_goes_on_after_the_episodes_that_it_wrote(project):
    project.gate(f"{WHEN}: os.kill(os.getpid(), 9)")
    expected, _ = uninterrupted(project)
    assert run_apart(project).ret == -signal.SIGKILL
    (project.path / "go").touch()
    resumed = run_apart(project, "--cpg-resume")
    # The arm that was finished outlives the process, too.
    resumed.stdout.fnmatch_lines(["oracle: 20 episodes stored (key *"])
    resumed.stdout.fnmatch_lines([PART])
    assert gates(project) == expected


def test_interrupted_workers_go_on_where_they_were_and_the_summary_says_how(project):
    # What is left of a worker is ended by execnet, after ten seconds.
    leave = "threading.Event().wait(2); os._exit(1)"
    interrupt = f"os.kill({tell_workers(project)}, 2)"
    project.gate(f"{WHEN}: (FOLDER / 'go').touch(); {interrupt}; {leave}")
    said = " --cpg-resume goes on with what was finished"
    broken_off = run_apart(project, "-n", "1")
    assert broken_off.ret == pytest.ExitCode.INTERRUPTED
    broken_off.stdout.fnmatch_lines([" ! test_gate *did not report", said])
    resumed = run_apart(project, "--cpg-resume", "-n", "1")
    assert resumed.ret == 0
    resumed.stdout.fnmatch_lines([PART])
    # What a worker resumed is said where the session ends.
    assert re.search("oracle: 20 of 20 episodes; learned: [0-9]+ of 20 episodes", flat(resumed))
    resumed.stdout.no_fnmatch_line(said)


def test_a_gate_that_runs_out_of_time_is_finished_in_a_few_sessions(project, monkeypatch):
    class Clock:
        """Stands still but while the model is asked."""

        now = 0.0

        @classmethod
        def monotonic(cls):
            return cls.now

    monkeypatch.setattr(deadline, "time", Clock)
    # A diagnosis says how far it came in the time that is left.
    alone = "--cpg-diagnose=never"
    slow = "__import__('pytest_cpg.machine.deadline').machine.deadline.time.now += 0.01"
    project.gate(slow, ", timeout=6, episodes=40")
    assert run(project, alone).ret == 1
    for seconds in range(6, 60, 6):
        # Episodes that are run again take of it, too.
        project.gate(slow, f", timeout={seconds}, episodes=40")
        resumed = run(project, "--cpg-resume", alone)
        if resumed.ret == 0:
            break
        assert "INCOMPLETE after" in resumed.stdout.str()
    assert resumed.ret == 0
    resumed.stdout.fnmatch_lines(["*episodes stored (key *), two checked and equal"])
    found = gates(project)
    project.gate("pass", ", episodes=40")
    expected, _ = uninterrupted(project, alone)
    assert found == expected


@pytest.mark.usefixtures("own_hashes")
def test_finished_blocks_of_workers_are_kept(project):
    project.gate(
        "if len(rows) > 40 and not (FOLDER / 'go').exists(): raise KeyError", ", episodes=60"
    )
    expected, _ = uninterrupted(project)
    assert run_apart(project, "--cpg-workers=2").ret == 1
    (project.path / "go").touch()
    resumed = run_apart(project, "--cpg-workers=2", "--cpg-resume")
    resumed.stdout.fnmatch_lines(["oracle: 60 episodes stored*"])
    assert gates(project) == expected


def test_a_model_that_cannot_be_known_by_content_is_named(project):
    project.gate("lock.locked()")
    project.change("test_gates.py", "rows = []", "rows = []\nlock = threading.Lock()")
    resumed = run(project, "--cpg-resume")
    assert resumed.ret == 0
    resumed.stdout.fnmatch_lines(["not stored: model * has no cache_key, and its content cannot*"])


@pytest.mark.parametrize("other", ["--cpg-no-cache", "--cpg-quick"])
def test_resuming_without_what_it_takes_is_refused(project, other):
    result = run(project, "--cpg-resume", other)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*Leave one of them out.*"])


def test_an_arm_whose_model_reads_other_inputs_now_is_not_resumed(project):
    """What a model reads when it is called is not in its content, and shows in its answers."""
    project.gate(result="observations - actions * float((FOLDER / 'sign').read_text())")
    (project.path / "sign").write_text("1.0")
    assert run(project).ret == 2
    (project.path / "sign").write_text("-1.0")
    (project.path / "go").touch()
    resumed = run(project, "--cpg-resume")
    resumed.stdout.fnmatch_lines(["learned: run anew"])
    found = gates(project)
    run(project, "--cpg-no-cache")
    assert gates(project) == found


def test_what_is_run_anew_takes_the_place_of_what_was_kept(project):
    project.gate("pass", result="observations - actions * float((FOLDER / 'sign').read_text())")
    (project.path / "sign").write_text("1.0")
    run(project)
    (project.path / "sign").write_text("-1.0")
    run(project)
    changed = gates(project)
    assert run(project, "--cpg-resume").ret == 0
    assert gates(project) == changed
