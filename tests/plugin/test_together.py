"""Gates beside each other and their baseline: recipes, families, drift, re-runs, rankings."""

import json
import re
import subprocess
from html import unescape

import pytest
from sessions import accept_by_force, flat
from ways import both_ways, mostly_alone

GATE = """
import pytest
import conftest


@pytest.mark.parametrize("model", {models!r})
@pytest.mark.cpg(task="track"{more})
def test_gate(benchmark_runner, model):
    benchmark_runner.compare(learned=getattr(conftest, model))
"""

# Loses the far starts of the miniature.
HALF = """

def half(observations, actions):
    return np.where(observations > 4.5, observations - actions, observations + actions)


def most(observations, actions):
    return np.where(observations > 4.0, observations - actions, observations + actions)
"""


SKIPPED = "import pytest; pytest.skip('no torch', allow_module_level=True)"


@pytest.fixture
def project(repository):
    """A committed miniature; ``gates`` puts another test module into it."""
    repository.add("conftest.py", HALF)
    git(repository.path, "init", "-q")

    def gates(*models, more="", name="test_gates"):
        repository.write(f"{name}.py", GATE.format(models=models, more=more))
        commit(repository)

    repository.gates = gates
    return repository


def git(path, *arguments):
    names = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *names, *arguments], cwd=path, check=True, capture_output=True)  # noqa: S607


def commit(project):
    git(project.path, "add", "-A")
    git(project.path, "commit", "-qm", "x", "--allow-empty")


def accepted(project):
    return [name for row in project.json(".cpg/baseline.json")[1:] for name in row]


@both_ways
def test_a_result_is_accepted_and_the_next_one_compared_with_it(project, workers):
    project.gates("right", more=", max_verdict='MODEL BOTTLENECK', id='one'")
    result = project.runpytest("--cpg-update-baseline", *workers)
    assert result.ret == 0
    result.stdout.re_match_lines([r" baseline: one\[right\] accepted at [0-9a-f]{7,} into "])
    assert accepted(project) == ["one[right]"]
    quiet = project.runpytest("-q", "--cpg-update-baseline", *workers)
    said = [line for line in quiet.stdout.lines if line.startswith(" baseline: ")]
    assert len(said) == 1, "that and what was accepted is told in quiet sessions, too"
    unchanged = project.runpytest()
    unchanged.stdout.fnmatch_lines([" 20 starts, baseline *", " Since *: unchanged"])
    project.change("test_gates.py", "conftest, model", "conftest, 'mirrored'")
    warned = project.runpytest()
    assert warned.ret == 0
    warned.stdout.fnmatch_lines(
        [
            "     Since *: 20 -> 0 of 20, lost 20 starts, gained 0 (p < 0.001):",
            "     REGRESSED",
        ]
    )
    failed = project.runpytest("--cpg-drift=fail", *workers)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(
        [
            "REGRESSED: the model solves 0 of 20 starts, *",
            "  Accept   on main: pytest --cpg-update-baseline",
        ]
    )
    off = project.runpytest("--cpg-drift=off")
    assert off.ret == 0
    off.stdout.no_fnmatch_line("*baseline*")


def test_another_design_is_never_compared(project):
    project.gates("right")
    project.runpytest("--cpg-update-baseline")
    project.gates("right", more=", planner='cem'")
    result = project.runpytest("--cpg-drift=fail")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INCOMPARABLE: the model solves *"])
    assert "ties='earliest') -> CEM(" in flat(result)


def test_a_baseline_of_another_processor_is_told_wherever_it_is_compared(project):
    project.gates("right")
    project.runpytest("--cpg-update-baseline")
    header, gates = project.json(".cpg/baseline.json")
    (gate,) = gates.values()
    assert gate["processor"]
    assert gate["kernels"]["numpy"]
    gate.update(oracle="0" + gate["oracle"][1:], gap=-0.05, oracle_successes="19/20")

    def told_of(processor, *options):
        gate["processor"] = processor
        project.write(".cpg/baseline.json", json.dumps([header, gates]))
        result = project.runpytest(*options)
        return result, flat(result)

    result, told = told_of("x" * 10**6)
    assert "accepted on xxx" in told
    assert "1 oracle start moved" in told
    assert len(result.outlines) < 50
    news, told = told_of("Turbo 5", "--cpg-drift=fail")
    assert news.ret == 0
    assert re.search(r"accepted on Turbo 5 \(.*\), run on .*: 1 oracle start moved", told)
    project.change("test_gates.py", "conftest, model", "conftest, 'mirrored'")
    options = ("--cpg-drift=fail", "--cpg-md=cpg.md", "--cpg-html=cpg.html")
    failed, told = told_of("Turbo 5", *options)
    failed.assert_outcomes(failed=1)
    for shown in (told, *map(unescape, map(project.text, ("cpg.md", "cpg.html")))):
        assert "accepted on Turbo 5 (" in " ".join(shown.split())
        assert "1 oracle start moved" in " ".join(shown.split())


def test_another_seed_is_compared_by_rates_and_said(project):
    project.gates("right")
    project.runpytest("--cpg-update-baseline")
    result = project.runpytest("--cpg-seed=5")
    result.stdout.fnmatch_lines(["     Since *: 20 -> 20 of 20 other starts*", "*seed 0 -> 5*"])


def test_a_renamed_gate_is_missing_and_new(project):
    project.gates("right", "half")
    project.runpytest("--cpg-update-baseline")
    project.gates("right", "most", more=", max_verdict='MODEL BOTTLENECK'")
    result = project.runpytest()
    result.stdout.fnmatch_lines(
        [
            " . [[]most[]] * NEW*",
            " baseline: MISSING, accepted once and not collected:",
            " test_gates.py::test_gate[[]half[]]; --cpg-update-baseline drops *",
        ]
    )
    result = project.runpytest("--cpg-update-baseline")
    result.stdout.fnmatch_lines([" baseline: *[[]half[]] dropped from*"])
    both = [f"test_gates.py::test_gate[{name}]" for name in ("right", "most")]
    assert sorted(accepted(project)) == sorted(both)
    project.runpytest("-k", "most").stdout.no_fnmatch_line("*MISSING*")


def test_what_did_not_run_is_never_dropped(project):
    project.gates("right", name="test_a")
    project.gates("half", name="test_b")
    project.runpytest("--cpg-update-baseline")
    both = accepted(project)
    assert len(both) == 2
    project.runpytest("--cpg-update-baseline", "-k", "right")
    project.runpytest("--cpg-update-baseline", "test_a.py")
    assert accepted(project) == both


@pytest.mark.parametrize("case", ["dirty", "failing", "ci"])
def test_accepting_is_refused_unless_forced(project, case, monkeypatch):
    project.gates("mirrored" if case == "failing" else "right")
    if case == "ci":
        monkeypatch.setenv("CI", "true")
    if case == "dirty":
        project.add("conftest.py", "# changed")
    refused = project.runpytest("--cpg-update-baseline")
    assert refused.ret == 1
    refused.stdout.fnmatch_lines([" baseline: *"])
    assert "and then pytest-cpg accept report.json --force" in flat(refused)
    assert not (project.path / ".cpg" / "baseline.json").exists()
    accept_by_force(project)
    assert len(accepted(project)) == 1


@mostly_alone
def test_a_baseline_that_cannot_be_read_fails_and_stays_as_it_is(project, workers):
    project.gates("right")
    for content in ('[{"schema": 1}\n,{"a"', '[{"schema": 99}]'):
        project.write(".cpg/baseline.json", content)
        result = project.runpytest(*workers)
        assert result.ret == 1
        assert re.search(r"cannot use the baseline \S*baseline.json: ", flat(result))
        assert project.text(".cpg/baseline.json") == content
        assert project.runpytest("--cpg-drift=off").ret == 0


def test_checkpoints_of_one_recipe_are_clusters(project):
    project.gates("right", "half", "mirrored", more=", group='a', max_verdict='MODEL BOTTLENECK'")
    result = project.runpytest()
    assert result.ret == 0
    text = flat(result)
    assert "recipe a: INCONCLUSIVE, gap +0." in text
    assert "over 3 checkpoints as clusters" in text
    assert "pooled, as if of one model: MODEL BOTTLENECK +0." in text
    assert "20/20 against 20/20" in text


def test_a_recipe_that_is_worse_fails_the_session_beyond_its_members(project):
    for worst, failed in (("MODEL", 0), ("PLANNER", 6)):
        more = f", group='a', max_verdict='{worst} BOTTLENECK'"
        project.gates(*("mirrored",) * 6, more=more)
        result = project.runpytest()
        assert result.parseoutcomes().get("failed", 0) == failed
        assert (
            ("; worse than PLANNER BOTTLENECK" in flat(result)) is (result.ret == 1) is (failed > 0)
        )


@mostly_alone
def test_a_recipe_does_not_depend_on_what_was_selected(project, workers):
    project.gates("mirrored", "half", "right", more=", group='a', max_verdict='MODEL BOTTLENECK'")
    result = project.runpytest("-k", "mirrored or half", *workers)
    assert result.ret == 0
    text = flat(result)
    assert "recipe a: INCONCLUSIVE, 2 of 3 checkpoints reported" in text


def test_the_family_is_what_the_project_says_and_not_what_was_selected(project):
    project.gates("right", "half", "most")
    lines = []
    for selection, gates in (
        ("right", "the 3 gates of the project"),
        ("right or half", "the 3 gates of the project"),
        ("gate", "3 gates"),
    ):
        result = project.runpytest(
            "--cpg-correction=holm", "-o", "cpg_family_size=3", "-k", selection, "-v"
        )
        lines.append(re.findall(r"(?m)^ [.?] .*right\]? +(1.00 .*?\])", result.stdout.str()))
        assert lines[-1]
        assert f"If all models were good, at least one of {gates} would still fail in" in flat(
            result
        )
    assert lines[0] == lines[1] == lines[2]
    too_small = project.runpytest("--cpg-correction=holm", "-o", "cpg_family_size=2")
    assert too_small.ret == 1
    assert "Set cpg_family_size = 3" in " ".join(too_small.stdout.str().split())


def test_without_a_correction_the_chance_of_a_false_alarm_is_said(project):
    project.gates("right", "half")
    project.runpytest().stdout.fnmatch_lines(
        [
            " If all models were good, at least one of 2 gates would still fail in about",
            " 4.9 % of runs*",
        ]
    )


def test_a_gate_is_not_run_again(project):
    pytest.importorskip("pytest_rerunfailures")
    project.gates("mirrored")
    result = project.runpytest("--reruns", "2")
    assert result.ret == 1
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "MODEL BOTTLENECK: the model solves 0 of 20 starts, *",
            "  This was attempt 1, and it counts: a gate that is repeated until it passes",
        ]
    )


DYING = """
import os
import pathlib
import pytest


@pytest.fixture
def learned_dynamics():
    yield lambda observations, actions: observations + actions
    died = pathlib.Path("died")
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), 9)


@pytest.mark.cpg(
    task="maze", planner="random-shooting", episodes=10, max_verdict="MODEL BOTTLENECK", id="walls"
)
def test_gate(cpg):
    pass
"""


def test_a_gate_whose_worker_died_is_not_run_again(repository):
    pytest.importorskip("pytest_rerunfailures")
    repository.makepyfile(test_gates=DYING)
    result = repository.runpytest("-n", "1", "--reruns", "1")
    result.assert_outcomes(passed=1)
    assert result.ret == 1
    said = " ".join(result.stdout.str().split())
    assert "walls: the worker of attempt 1 died, and that attempt counts." in said
    (repository.path / "died").unlink()
    again = repository.runpytest("-n", "1", "--reruns", "1", "-o", "cpg_allow_reruns=true")
    assert again.ret == 0


def test_a_gate_that_may_be_run_again_says_how_often_it_was(project):
    pytest.importorskip("pytest_rerunfailures")
    project.gates("mirrored")
    project.add("tox.ini", "cpg_allow_reruns = true")
    allowed = project.runpytest("--reruns", "2")
    allowed.assert_outcomes(failed=1)
    allowed.stdout.fnmatch_lines(
        [
            " MODEL BOTTLENECK (1): *",
            " F test_gate[[]mirrored[]] *",
            "     attempt 3, after MODEL BOTTLENECK; MODEL BOTTLENECK: a gate that is*",
        ]
    )


@mostly_alone
def test_the_last_attempt_that_was_allowed_is_the_one_that_counts(project, workers):
    pytest.importorskip("pytest_rerunfailures")
    project.makepyfile(
        test_gates="""
import pytest
import conftest

attempts = []


@pytest.mark.flaky(reruns=2)
@pytest.mark.cpg(task="track", id="one")
def test_gate(benchmark_runner):
    attempts.append(1)
    model = conftest.right if len(attempts) > 1 else conftest.mirrored
    benchmark_runner.compare(learned=model)
"""
    )
    project.add("tox.ini", "cpg_allow_reruns = true")
    commit(project)
    result = project.runpytest("--cpg-update-baseline", *workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            " MODEL AS GOOD AS ORACLE (1): *",
            " . one *",
            "     attempt 2, after MODEL BOTTLENECK: a gate that is*",
        ]
    )
    assert '"verdict": "MODEL AS GOOD AS ORACLE"' in project.text(".cpg/baseline.json")


@mostly_alone
def test_models_are_ranked_on_the_same_starts(project, workers):
    project.makepyfile(
        test_gates="""
import pytest
import conftest


@pytest.mark.cpg(task="track")
def test_rank(benchmark_runner):
    names = ("mirrored", "right", "half", "most")
    found = benchmark_runner.rank({name: getattr(conftest, name) for name in names})
    assert found.ranking.names[0] == "right"
    assert found.ranking.names[-1] == "mirrored"
    assert found.arms["right"].success_rate == 1
    with pytest.raises(ValueError, match="at least 5 models"):
        found.correlation(dict.fromkeys(names, 1.0))
    with pytest.raises(ValueError, match="need a metric for each of"):
        found.correlation({"right": 1.0})


@pytest.mark.cpg(task="track")
def test_one_model_is_no_ranking(benchmark_runner):
    benchmark_runner.rank({"right": conftest.right})


@pytest.mark.cpg(task="track")
def test_two_models_of_one_name(benchmark_runner):
    benchmark_runner.rank({1: conftest.right, "1": conftest.mirrored})


@pytest.mark.cpg(task="track")
def test_a_model_that_changes(benchmark_runner):
    drift = []

    def restless(observations, actions):
        drift.append(1)
        return observations + actions + (len(drift) > 40)

    benchmark_runner.rank({"right": conftest.right, "restless": restless})


@pytest.mark.cpg(task="track")
def test_a_model_that_sees_no_action(benchmark_runner):
    found = benchmark_runner.rank({"right": conftest.right, "deaf": conftest.deaf})
    assert found.faults["right"] == ()
    assert "deaf: the learned dynamics ignores the action" in str(found)


@pytest.mark.cpg(task="track")
def test_a_broken_model_is_named(benchmark_runner):
    benchmark_runner.rank({"right": conftest.right, "nan": conftest.diverging})
"""
    )
    result = project.runpytest(*workers)
    result.assert_outcomes(failed=4)
    assert result.parseoutcomes()["measured"] == 2
    result.stdout.fnmatch_lines(["*- cpg: 6 gates, 4 failed, 2 measured -*"])
    result.stdout.fnmatch_lines_random(
        [
            "two models of the ranking have one name: 1, '1'. Give each its own.",
            "the model 'restless' answers otherwise than before its arm was run*",
            " . test_rank*",
            "     ranking: by success: 1. right 20/20 [[]1-*], *",
            "a ranking needs at least two models, got 1. Write *",
            "The model of the arm 'nan' predicted NaN, so there is no verdict: episode *",
        ]
    )


def test_a_marker_may_ask_for_drift_that_the_project_leaves_out(project):
    project.gates("right", more=", drift='fail'")
    project.runpytest("--cpg-update-baseline")
    project.add("tox.ini", "cpg_drift = off")
    project.change("test_gates.py", "conftest, model", "conftest, 'mirrored'")
    project.change("test_gates.py", "task=", "max_verdict='MODEL BOTTLENECK', task=")
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["REGRESSED: the model solves *"])


def test_a_skipped_module_loses_no_accepted_gate(project):
    project.gates("right", name="test_a")
    project.gates("half", name="test_b")
    project.runpytest("--cpg-update-baseline")
    both = accepted(project)
    project.write("test_b.py", f"{SKIPPED}\n{project.text('test_b.py')}")
    commit(project)
    project.runpytest().stdout.fnmatch_lines([" baseline: MISSING, *"])
    project.runpytest("--cpg-update-baseline")
    assert accepted(project) == both
    git(project.path, "rm", "-q", "test_b.py")
    commit(project)
    project.runpytest("--cpg-update-baseline")
    assert accepted(project) == ["test_a.py::test_gate[right]"]


@mostly_alone
@pytest.mark.parametrize("trouble", ["import nothing_of_this_name", SKIPPED])
def test_a_file_that_was_not_collected_loses_no_gate_of_its_own_id(project, trouble, workers):
    project.gates("right", name="test_a")
    project.gates("half", name="test_b", more=", id='mine'")
    project.runpytest("--cpg-update-baseline")
    both = accepted(project)
    project.write("test_b.py", f"{trouble}\n{project.text('test_b.py')}")
    commit(project)
    project.runpytest("--cpg-update-baseline", "--continue-on-collection-errors", *workers)
    assert accepted(project) == both


def test_an_accepted_gate_that_is_gone_fails_where_drift_does(project):
    project.gates("right", "half")
    project.runpytest("--cpg-update-baseline")
    project.gates("right")
    assert project.runpytest().ret == 0
    assert project.runpytest("--cpg-drift=fail", "-k", "right").ret == 1
    result = project.runpytest("--cpg-drift=fail")
    result.assert_outcomes(passed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines([" baseline: MISSING, accepted once and not collected:*"])
    project.runpytest("--cpg-update-baseline")
    assert project.runpytest("--cpg-drift=fail").ret == 0


def test_a_renamed_gate_is_missing_wherever_pytest_was_asked_for_its_file(project):
    (project.path / "docs").mkdir()
    project.gates("right", "half", name="tests/test_a")
    project.gates("right", name="tests/test_b")
    project.runpytest("--cpg-update-baseline")
    project.gates("right", "mirrored", name="tests/test_a")
    for asked in ((), ("tests",), (".",), ("tests/test_a.py",), ("--ignore=docs",)):
        result = project.runpytest("--cpg-drift=fail", *asked)
        assert result.ret == 1, asked
        said = flat(result)
        assert "MISSING, accepted once and not collected: tests/test_a.py::test_gate[half];" in said
    for elsewhere in ("tests/test_b.py", "--ignore=tests/test_a.py"):
        assert project.runpytest("--cpg-drift=fail", elsewhere).ret == 0


def test_a_plan_of_tests_or_a_baseline_that_cannot_be_read_is_no_success(project):
    project.gates("right")
    project.write(".cpg/baseline.json", "{")
    result = project.runpytest("--cpg-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cannot use the baseline *"])
    project.write("test_broken.py", "import nothing_of_this_name")
    assert project.runpytest("--cpg-plan").ret == pytest.ExitCode.INTERRUPTED


def test_a_test_that_failed_by_itself_is_not_accepted(project):
    project.gates("right")
    project.write("test_gates.py", f"{project.text('test_gates.py')}    assert 0\n")
    commit(project)
    project.runpytest("--cpg-update-baseline").stdout.fnmatch_lines(["*not accepted, as the test*"])
    assert not (project.path / ".cpg" / "baseline.json").exists()


def test_drift_cannot_fail_without_a_baseline_and_says_so(project):
    project.gates("right")
    result = project.runpytest("--cpg-drift=fail")
    assert result.ret == 1
    assert "there is none at" in result.stdout.str()
    assert project.runpytest("--cpg-drift=fail", "--cpg-update-baseline").ret == 0
    assert project.runpytest("--cpg-drift=fail").ret == 0
