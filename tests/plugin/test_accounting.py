"""Which gates have to run, how strictly, and what a smoke test is: as a user meets them."""

import json
import re
from dataclasses import replace

import pytest
from sessions import flat
from usual_settings import started, usual_settings
from ways import both_ways, mostly_alone

from pytest_cpg.gates import PREFIX, left_out
from pytest_cpg.plugin.options import SWITCHES, flag
from pytest_cpg.plugin.scope import check_session
from pytest_cpg.plugin.settings import check_names

TESTS = """
import pytest


@pytest.mark.cpg(task="track", model="right")
def test_good(cpg): ...


@pytest.mark.cpg(task="track", model="right")
def test_other(cpg): ...


def test_unit(): ...
"""


@pytest.fixture
def project(repository):
    """The miniature with two gates, which pass, and a test that is none."""
    repository.makepyfile(test_gates=TESTS)
    return repository


@both_ways
def test_a_gate_that_was_not_selected_fails_in_ci(project, monkeypatch, workers):
    assert project.runpytest("-k", "good").ret == 0
    monkeypatch.setenv("CI", "true")
    result = project.runpytest("-k", "good", *workers)
    assert result.ret == 1
    result.assert_outcomes(passed=1)
    assert (
        "1 of 2 gates was not selected, and all are required: test_gates.py::test_other. "
        "For a run of some of them use --cpg-require=1"
    ) in flat(result)
    result.stdout.fnmatch_lines(["*- cpg: 1 gate, passed, the session fails -*"])
    assert project.runpytest("-k", "good", "--cpg-require=1").ret == 0
    assert project.runpytest("-k", "good", "--cpg-require=0").ret == 0
    assert project.runpytest().ret == 0
    assert project.runpytest("--co", "-k", "good").ret == 0


@mostly_alone
def test_fewer_gates_than_required_fail(project, workers):
    result = project.runpytest("--cpg-require=3", *workers)
    assert result.ret == 1
    assert "2 gates judged, and 3 required (--cpg-require)" in flat(result)
    assert project.runpytest("--cpg-require=2", *workers).ret == 0
    project.makepyfile(test_gates="def test_unit(): ...")
    none = project.runpytest("--cpg-require=1")
    assert none.ret == 1
    assert "0 gates judged, and 1 required" in flat(none)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def test_other(cpg): ...", "def test_other():\n    pytest.skip('no GPU')"),
        (
            'model="right")\ndef test_other(cpg): ...',
            "margin=0.1)\ndef test_other(benchmark_runner):\n    import conftest\n"
            "    benchmark_runner.rank({'a': conftest.right, 'b': conftest.mirrored})",
        ),
    ],
    ids=["skipped", "ranking"],
)
def test_what_gives_no_verdict_is_not_judged(project, before, after):
    project.makepyfile(test_gates=TESTS.replace(before, after))
    assert project.runpytest("--cpg-require=1").ret == 0
    assert project.runpytest("--cpg-require=all").ret == 0
    result = project.runpytest("--cpg-require=2")
    assert result.ret == 1
    assert "1 gate judged, and 2 required (--cpg-require)" in flat(result)


@mostly_alone
@pytest.mark.parametrize("mark", ["skip", "xfail"])
def test_gates_without_parameters_fail_in_ci_and_those_that_are_skipped_do_not(
    project, monkeypatch, workers, mark
):
    project.add("tox.ini", f"empty_parameter_set_mark = {mark}")
    text = TESTS.replace("test_good(cpg)", "test_good(cpg, _)", 1).replace(
        "@pytest.mark.cpg", '@pytest.mark.parametrize("_", [])\n@pytest.mark.cpg', 1
    )
    skipped = '\n\n@pytest.mark.skipif(True, reason="no GPU")\n@pytest.mark.cpg(task="track")\n'
    project.makepyfile(test_gates=f"{text}{skipped}def test_skipped(cpg): ...\n")
    assert project.runpytest().ret == 0
    monkeypatch.setenv("CI", "true")
    result = project.runpytest(*workers)
    assert result.ret == 1
    assert (
        "1 of 3 gates was left without parameters, as their list is empty, and all are required: "
        "test_gates.py::test_good[NOTSET]. Find out why it is, or use --cpg-require=1"
    ) in flat(result)
    skipped = "1 of 3 gates was skipped, and so not judged: test_gates.py::test_skipped"
    assert skipped in flat(result)
    result.stdout.fnmatch_lines(["* test_good[[]NOTSET[]] *got empty parameter set"])
    assert project.runpytest("--cpg-require=1").ret == 0


@mostly_alone
def test_an_expected_failure_without_a_verdict_is_said_and_fails_strict_sessions(
    repository, workers
):
    repository.makepyfile(
        test_gates="""
import pytest


@pytest.mark.xfail(strict=True)
@pytest.mark.parametrize("model", ["mirrored", "diverging"])
@pytest.mark.cpg(task="track", margin=0.1, episodes=40)
def test_gate(benchmark_runner, model):
    import conftest
    benchmark_runner.compare(learned=getattr(conftest, model))
"""
    )
    said = "failed as expected without a verdict, which says nothing: test_gates.py::test_gate["
    result = repository.runpytest(*workers)
    assert result.ret == 0
    assert f"{said}diverging]" in flat(result)
    assert f"{said}mirrored]" not in flat(result)
    strict = repository.runpytest("--cpg-strict", *workers)
    assert strict.ret == 1
    assert f"{said}diverging] (--cpg-strict)" in flat(strict)
    assert repository.runpytest("--cpg-strict", "-k", "mirrored").ret == 0


DROPS = """

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.name not in {dropped}]
"""


@pytest.mark.parametrize(
    ("dropped", "workers"), [(["test_other"], ("-n", "1")), (["test_good", "test_other"], ())]
)
def test_a_gate_that_a_plugin_drops_fails_in_ci(project, monkeypatch, workers, dropped):
    project.add("conftest.py", DROPS.format(dropped=dropped))
    names = ", ".join(f"test_gates.py::{one}" for one in dropped)
    count = "1 of 2 gates was" if len(dropped) == 1 else "2 of 2 gates were"
    said = f"{count} collected, and dropped by a plugin or a conftest.py without saying so"
    result = project.runpytest()
    assert result.ret == 0
    assert f"{said}: {names}" in flat(result)
    monkeypatch.setenv("CI", "true")
    result = project.runpytest(*workers)
    assert result.ret == 1
    assert f"{said}, and all are required: {names}. For a run of some of them use" in flat(result)
    assert project.runpytest("--cpg-require=0").ret == 0


@both_ways
def test_what_lf_leaves_out_is_missed_in_ci(project, monkeypatch, workers):
    monkeypatch.setenv("CI", "true")
    project.makepyfile(test_unit="def test_unit(): assert False")
    assert project.runpytest("--lf", "--deselect=test_unit.py").ret == 0
    assert project.runpytest("test_unit.py").ret == 1
    result = project.runpytest("--lf", *workers)
    assert result.ret == 1
    assert (
        "--lf leaves out gates that passed before, and all are required. Leave --lf out, or add "
        "--cpg-require=0"
    ) in flat(result)
    project.makepyfile(test_unit="def test_unit(): ...")
    assert project.runpytest("--lf", "--cpg-require=0").ret == 0


def test_lf_alone_fails_no_project_without_gates(repository, monkeypatch):
    monkeypatch.setenv("CI", "true")
    repository.makepyfile(test_a="def test_a(): ...", test_b="def test_b(): assert False")
    assert repository.runpytest().ret == 1
    repository.makepyfile(test_b="def test_b(): ...")
    result = repository.runpytest("--lf")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*cpg: *")


@pytest.mark.parametrize(
    ("option", "workers"),
    [
        ("--ignore=test_gates.py", ()),
        ("--ignore-glob=*gates.py", ()),
        ("--ignore-glob=*gates.py", ("-n", "1")),
    ],
)
def test_accepted_gates_of_ignored_files_are_named(project, monkeypatch, option, workers):
    named = '\n\n@pytest.mark.cpg(task="track", model="right", id="own")\ndef test_own(cpg): ...\n'
    project.makepyfile(
        test_gates=f"{TESTS}{named}", test_kept=TESTS.replace("test_other", "test_unheard")
    )
    project.runpytest("--cpg-update-baseline")
    monkeypatch.setenv("CI", "true")
    said = (
        "baseline: not collected, as files are ignored: own, test_gates.py::test_good, "
        "test_gates.py::test_other"
    )
    result = project.runpytest(option, *workers)
    assert result.ret == 0
    assert said in flat(result)
    project.makepyfile(test_kept=TESTS.replace("test_other", "test_renamed"))
    result = project.runpytest(option)
    assert result.ret == 1
    assert said in flat(result)
    assert "accepted once and not collected: test_kept.py::test_unheard;" in flat(result)


def test_what_the_ini_file_requires_binds_the_whole_project_and_ci(project, monkeypatch):
    project.add("tox.ini", "cpg_require = 3")
    assert project.runpytest().ret == 1
    assert project.runpytest("test_gates.py").ret == 0
    monkeypatch.setenv("CI", "true")
    assert project.runpytest("test_gates.py").ret == 1


def test_accepting_an_arm_that_can_never_regress_says_so(repository):
    gate = '@pytest.mark.cpg(task="track", model={!r}, max_verdict="MODEL BOTTLENECK"{})'
    repository.makepyfile(
        test_gates="import pytest\n"
        + "\n".join(
            f"{gate.format(model, more)}\ndef test_{name}(cpg): ...\n"
            for name, model, more in (
                ("none", "mirrored", ""),
                ("few", "right", ", episodes=5"),
                ("enough", "right", ", episodes=6"),
                ("sure", "right", ", episodes=7, confidence=0.99"),
                ("earned", "mirrored", ', metric="return"'),
            )
        )
    )
    result = repository.runpytest("--cpg-update-baseline")
    assert result.ret == 0
    assert (
        "baseline: test_gates.py::test_none (0 solved, 6 needed), test_gates.py::test_few (5 "
        "solved, 6 needed), test_gates.py::test_sure (7 solved, 8 needed) can never read REGRESSED "
        "on these starts: chance explains the loss of so few"
    ) in flat(result)


@mostly_alone
def test_an_accepted_gate_that_was_deleted_fails_in_ci(project, monkeypatch, workers):
    project.runpytest("--cpg-update-baseline")
    (project.path / "tests").mkdir()
    for text in (TESTS.replace("test_other", "test_renamed"), "def test_unit(): ..."):
        project.makepyfile(test_gates=text)
        assert project.runpytest().ret == 0
        monkeypatch.setenv("CI", "true")
        result = project.runpytest(*workers)
        assert result.ret == 1
        assert "test_gates.py::test_other" in flat(result)
        assert "MISSING, accepted once and not collected" in flat(result)
        assert project.runpytest("test_gates.py").ret == 1
        project.makepyfile(**{"tests/test_elsewhere": "def test_unit(): ..."})
        assert project.runpytest("tests").ret == 0
        monkeypatch.delenv("CI")


def test_a_gate_that_accepts_every_verdict_cannot_fail_and_says_so(repository):
    marker = "import pytest\n\n\n@pytest.mark.cpg(task='track', model='mirrored'{})\n{}"
    worst = ", max_verdict='model bottleneck'"
    repository.makepyfile(
        test_gates=marker.format(worst, "def test_bad(cpg): ...\n"),
        test_kept=marker.format(f"{worst}, drift='fail'", "def test_kept(cpg): ...\n"),
    )
    said = flat(repository.runpytest("--cpg-update-baseline", "--cpg-md=o.md"))
    assert "1 of 2 gates cannot fail, as max_verdict accepts every verdict: test_gates.py::" in said
    assert "would still fail" not in said
    assert "cannot fail" in repository.text("o.md")
    assert "cannot fail" in flat(repository.runpytest("-q"))
    result = repository.runpytest("--cpg-strict")
    result.assert_outcomes(passed=1, failed=1)
    assert "its max_verdict accepts every verdict, so that it cannot fail." in flat(result)


@mostly_alone
def test_a_file_of_gates_that_skips_itself_is_named(repository, workers):
    skip = "import pytest\n\npytest.importorskip('no_such_library')\n\n"
    gate = "@pytest.mark.cpg(task='track')\ndef test_gate(cpg): ...\n"
    files = {"test_units": f"{skip}def test_unit(): ...", "test_gates": f"{skip}{gate}"}
    repository.makepyfile(**files)
    said = flat(repository.runpytest("-W", "ignore", *workers))
    assert "skipped as a whole, so that none of its gates was judged: test_gates.py =" in said
    assert "skipped as a whole, so th" in flat(repository.runpytest("-q", "-W", "ignore", *workers))
    repository.makepyfile(test_gates=files["test_units"])
    assert "cpg:" not in flat(repository.runpytest("-W", "ignore", *workers))


COSTS_OF_NOBODY = [
    {"x": 1},
    3,
    {"oracle_rate": "1", "seconds_per_episode": {"oracle": 1}},
    {"oracle_rate": 1.5, "seconds_per_episode": {"oracle": 1}},
    {"oracle_rate": 0.5, "seconds_per_episode": {"oracle": None}},
    {"oracle_rate": 0.5, "seconds_per_episode": 3},
    {"oracle_rate": 0.5, "seconds_per_episode": {"oracle": float("nan")}},
]
PLANNED = """
import pytest


@pytest.mark.parametrize("number", range(7))
@pytest.mark.cpg(task="track", model="right")
def test_gate(cpg, number): ...
"""


def test_a_cost_that_is_remembered_wrongly_is_not_known(repository):
    repository.makepyfile(test_gates=PLANNED)
    gates = (f"test_gates.py::test_gate[{number}]" for number in range(7))
    costs = dict(zip(gates, COSTS_OF_NOBODY, strict=True))
    repository.write(".pytest_cache/v/cpg/costs.1", json.dumps(costs))
    result = repository.runpytest("--cpg-plan")
    assert result.ret == 0
    assert len(re.findall(r"(?m)^ \S+ .* 0\.50\? .* \?$", result.stdout.str())) == 7


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("quick", "update_baseline"),
        ("quick", "plan"),
        ("plan", "update_baseline"),
        ("quick", "require"),
        ("quick", "episodes"),
        ("quick", "max_episodes"),
        ("quick", "stop"),
        ("plan", "json"),
        ("plan", "md"),
        ("plan", "html"),
        ("replay", "quick"),
        ("replay", "resume"),
        ("replay", "seed"),
        ("replay", "episodes"),
        ("replay", "json"),
    ],
)
def test_options_that_leave_nothing_to_each_other_are_refused(first, second):
    switches = {first, second} & {*SWITCHES}
    typed = dict.fromkeys({first, second} - switches, "30")
    settings = replace(usual_settings(), switches=frozenset(switches), typed=typed)
    with pytest.raises(pytest.UsageError, match=f"^--cpg-.*{second.replace('_', '-')}.*Leave one"):
        check_session(started(flag(first), f"{flag(second)}=30"), settings)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            ([f"--cpg-require={value}"], f"need all or a whole number, got '{value}'*")
            for value in ("some", "-1", "1.5")
        ),
        (["--cpg-plan", "--cpg-json=out.json"], "Leave one of them out."),
        (["--cpg-only"], "--cpg-only was left out. Type -m *"),
        (
            ["-o", f"cpg_family_size={10**30}"],
            "cpg_family_size in *: need a whole number of at most 1000000,*",
        ),
    ],
)
def test_an_option_that_cannot_be_obeyed_is_a_usage_error(project, options, said):
    result = project.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{said}"])


def test_a_smoke_test_overrules_what_was_not_typed_for_it(project, monkeypatch):
    project.change("tox.ini", "addopts = ", "addopts = --cpg-stop=sequential ")
    monkeypatch.setenv("PYTEST_CPG_MAX_EPISODES", "30")
    project.runpytest("--cpg-quick").stdout.fnmatch_lines([" . 2 gates ran (slowest: *"])


@pytest.mark.parametrize("name", left_out.OPTIONS)
def test_an_option_that_is_left_out_says_what_to_type(name):
    said = f"was left out. {left_out.OPTIONS[name]}"
    with pytest.raises(pytest.UsageError) as typed:
        check_names([flag(name)], "--cpg-", {})
    assert typed.value.args == (f"{flag(name)} {said}",)
    for written, prefix in ((f"cpg_{name}", "cpg_"), (f"PYTEST_CPG_{name.upper()}", PREFIX)):
        with pytest.raises(pytest.UsageError) as found:
            check_names([written], prefix, {}, "here")
        assert found.value.args == (f"{written} here {said}",)


DOUBTFUL = """
import pytest


@pytest.mark.cpg(task="track", model="right", starts="fixed")
def test_fixed(cpg): ...


@pytest.mark.cpg(task="track", model="right", budget=150)
def test_chance(cpg): ...


@pytest.mark.cpg(task="track", model="right", episodes=20)
def test_few(cpg): ...


@pytest.mark.cpg(task="track", model="right", episodes=50)
def test_enough(cpg): ...
"""


def test_strict_sessions_fail_what_is_in_doubt(repository):
    repository.makepyfile(test_gates=DOUBTFUL)
    assert repository.runpytest().ret == 0
    result = repository.runpytest("--cpg-strict")
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines(["MODEL AS GOOD AS ORACLE: the model solves *", "*--cpg-strict"])
    for why in (
        'starts="fixed": every episode begins in one state',
        "random actions succeed in",
        "judged by raw rates near 1 (weak: a drop of 0.12 is possible)",
    ):
        assert f"--cpg-strict fails what its verdict would let pass: {why}" in flat(result)
    repository.add("tox.ini", "cpg_strict = true")
    repository.runpytest().assert_outcomes(failed=3, passed=1)


@mostly_alone
def test_a_smoke_test_runs_everything_and_judges_nothing(repository, workers):
    repository.makepyfile(
        test_gates="""
import pytest


@pytest.mark.cpg(task="track", model="mirrored", max_verdict="MODEL AS GOOD AS ORACLE")
def test_bad(cpg): ...


@pytest.mark.cpg(task="track", model="mirrored", metric="return", min_oracle=0.9)
def test_return(cpg): ...


@pytest.mark.cpg(task="track", model="right", stop="sequential", drift="fail", group="a")
def test_early(cpg):
    assert cpg.learned.episodes == 2
    assert cpg.verdict == "INCONCLUSIVE"


@pytest.mark.cpg(task="track", model="deaf")
def test_ten(cpg):
    assert cpg.learned.successes.sum() >= 10
"""
    )
    result = repository.runpytest(
        "--cpg-quick", "--cpg-strict", "--cpg-correction=holm", "-o", "cpg_family_size=9", *workers
    )
    assert result.ret == 0
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "*- cpg: quick run, 4 of 4 gates ran -*",
            " Two episodes of each arm, nothing judged. The exit code counts errors and",
            " broken models alone.",
            " . 4 gates ran (slowest: test_*, * s)",
        ]
    )
    result.stdout.no_fnmatch_line("*would still fail*")
    # Nothing of it is remembered.
    repository.runpytest("--cpg-plan").stdout.fnmatch_lines([" test_bad *0.50[?]*"])


def test_nothing_is_required_of_a_smoke_test(project, monkeypatch):
    project.add("tox.ini", "cpg_require = 3")
    monkeypatch.setenv("CI", "true")
    assert project.runpytest("--cpg-quick").ret == 0
    assert project.runpytest("--cpg-quick", "--cpg-require=0").ret == 0


def test_a_broken_model_fails_a_smoke_test(repository):
    repository.makepyfile(
        test_gates="""
import pytest


@pytest.mark.parametrize("model", ["diverging", "raising"])
@pytest.mark.cpg(task="track")
def test_broken(benchmark_runner, model):
    import conftest
    benchmark_runner.compare(learned=getattr(conftest, model))
"""
    )
    result = repository.runpytest("--cpg-quick")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["The model predicted NaN, so there is no verdict: episode *"])


def test_an_xfail_whose_condition_does_not_hold_takes_no_strictness_from_another(
    repository, monkeypatch
):
    monkeypatch.setenv("CI", "true")
    repository.makepyfile("""
        import pytest

        @pytest.mark.xfail(False, reason="on another system")
        @pytest.mark.xfail(condition=False, reason="on a third one")
        @pytest.mark.xfail(strict=True)
        @pytest.mark.cpg(task="track", model="mirrored")
        def test_bad(cpg):
            pass
    """)
    result = repository.runpytest()
    result.assert_outcomes(xfailed=1)
    assert result.ret == 0
    assert "not strict or not run" not in result.stdout.str()
