"""An installed but unused plugin costs next to nothing; the time itself is in benchmarks/."""

import subprocess
import sys

import pytest
from sessions import flat

from pytest_cpg.plugin import hookspecs

WATCHED = """
import sys

started = []
sys.addaudithook(
    lambda event, _: started.append(event)
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system")
    else None
)
import pytest

ended = pytest.main([{arguments}, "-p", "no:cacheprovider", {without}])
print("ENDED", int(ended))
heavy = {{"numpy", "scipy", "torch", "mujoco", "dm_control"}} & set(sys.modules)
ours = [name for name in sys.modules if name.partition(".")[0] == "pytest_cpg"]
rewritten = [one for one in ours if hasattr(sys.modules[one].__loader__, "mark_rewrite")]
print("HEAVY", sorted(heavy), "STARTED", started, "REWRITTEN", *rewritten, "OURS", *ours)
"""


def watch(folder, arguments, without=("xdist", "hypothesispytest")):
    (folder / "pytest.ini").write_text("[pytest]\n")
    others = ", ".join(f'"-p", "no:{name}"' for name in without)
    result = subprocess.run(
        [sys.executable, "-c", WATCHED.format(arguments=arguments, without=others)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


# Its marker is one that nobody has registered.
PLAIN = """
import pytest

@pytest.mark.foo(reruns=3)
def test_plain():
    pass
"""


@pytest.mark.parametrize("ci", ["", "true"])
@pytest.mark.parametrize("kept", [".", ".cpg"])
@pytest.mark.parametrize("arguments", ['"--co", "-q"', '"-q"'])
def test_a_session_without_gates_imports_nothing_heavy_and_starts_no_process(
    ci, kept, arguments, tmp_path, monkeypatch
):
    monkeypatch.setenv("CI", ci)
    (tmp_path / "test_plain.py").write_text(PLAIN)
    (tmp_path / kept).mkdir(exist_ok=True)
    # As a job with gates leaves it in the project's cache.
    (tmp_path / kept / "history").touch()
    output = watch(tmp_path, arguments)
    assert "HEAVY [] STARTED [] REWRITTEN pytest_cpg OURS pytest_cpg " in output
    rooms = {name.split(".")[1] for name in output.partition("OURS ")[2].split()[1:]}
    assert rooms <= {"plugin", "gates", "render", "machine"}, (
        "no kind is loaded, and nothing that reports"
    )


@pytest.mark.parametrize(
    ("typed", "written", "variable"),
    [
        (["--cpg-drift=of"], "", ""),
        (["@arguments"], "", ""),
        (["-o", "cpg_drift=of"], "", ""),
        ([], "addopts = --cpg-drift=of", ""),
        ([], "cpg_drift = of", ""),
        ([], "", "'--cpg-drift=of'"),
    ],
)
def test_a_session_without_gates_heeds_what_is_asked(
    typed, written, variable, pytester, monkeypatch
):
    pytester.makeini(f"[pytest]\n{written}\n")
    pytester.makefile("", arguments="--cpg-drift=of\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", variable)
    said = flat(pytester.runpytest_inprocess("-p", "no:hypothesispytest", *typed))
    assert "need one of off, warn, fail, got 'of'" in said


def test_help_shows_options_in_a_session_without_gates(pytester):
    said = flat(pytester.runpytest_inprocess("-p", "no:hypothesispytest", "-qh"))
    assert "--cpg-plan " in said
    assert "cpg_episodes (int):" in said


EXTENSION_POINTS = [name for name in vars(hookspecs) if name.startswith("pytest_cpg_")]


def test_a_session_without_gates_knows_every_hook_and_lets_a_plugin_call_it(pytester):
    assert len(EXTENSION_POINTS) >= 5
    hooks = "".join(f"def {name}(): return None\n" for name in EXTENSION_POINTS)
    calls = "".join(f"    print(session.config.hook.{name}())\n" for name in EXTENSION_POINTS)
    pytester.makeconftest(f"{hooks}\ndef pytest_collection_finish(session):\n{calls}")
    pytester.mkpydir("folder").joinpath("conftest.py").write_text(hooks)
    pytester.makepyfile(**{"folder/test_plain": "def test_plain(): pass"})
    result = pytester.runpytest_inprocess("-p", "no:hypothesispytest", "-s")
    result.assert_outcomes(passed=1)
    assert result.outlines.count("[]") == len(EXTENSION_POINTS)


def test_a_hook_of_unknown_arguments_is_refused_in_a_session_without_gates(pytester):
    pytester.makeconftest("def pytest_cpg_tasks(task): return None\n")
    said = flat(pytester.runpytest_inprocess("-p", "no:hypothesispytest"))
    assert "Argument(s) {'task'} are declared in the hookimpl but can not be found" in said


@pytest.mark.parametrize("place", ["", "folder/"])
def test_a_misspelt_hook_is_told_the_right_name(pytester, place):
    pytester.mkpydir("folder")
    wrong = "def pytest_cpg_perturbation(): return {}\n"
    pytester.makepyfile(**{f"{place}conftest": wrong, f"{place}test_plain": "def test_p(): pass"})
    result = pytester.runpytest_inprocess("-p", "no:hypothesispytest")
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    assert (
        "pytest-cpg has no hook pytest_cpg_perturbation. Did you mean 'pytest_cpg_perturbations'?"
    ) in flat(result)
    assert "INTERNALERROR" not in flat(result)


REGISTERED = """
import pytest

class Contributed:
{body}

def pytest_configure(config):
    config.pluginmanager.register(Contributed())
"""


@pytest.mark.parametrize(
    "body",
    [
        "    def pytest_cpg_perturbation(self): return {}",
        """\
    @pytest.hookimpl(specname="pytest_cpg_perturbation")
    def pytest_cpg_winds(self): return {}""",
    ],
)
def test_a_misspelt_hook_of_an_object_is_told_the_right_name(pytester, body):
    pytester.makeconftest(REGISTERED.format(body=body))
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_inprocess("-p", "no:hypothesispytest")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Did you mean 'pytest_cpg_perturbations'?" in flat(result)
    assert "INTERNALERROR" not in flat(result)


ACCEPTED = """
import pytest
from pytest_cpg.gates import GATES

class pytest_cpg_Thing:
    pass

@pytest.hookimpl(specname="pytest_cpg_perturbations")
def pytest_cpg_winds():
    return {"wind": dict}

@pytest.hookimpl(specname="pytest_cpg_gates")
def pytest_cpg_kinds():
    return {"cpg_twice": 5}
"""


def test_hooks_of_ours_have_any_name_that_those_of_pytest_have(pytester):
    pytester.makepyfile("def test_plain(): pass")
    pytester.makeconftest(ACCEPTED.partition('@pytest.hookimpl(specname="pytest_cpg_gates")')[0])
    pytester.runpytest_inprocess("-p", "no:hypothesispytest").assert_outcomes(passed=1)
    pytester.makeconftest(ACCEPTED)
    result = pytester.runpytest_inprocess("-p", "no:hypothesispytest")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "cpg_twice" in flat(result)


WORKERS = """
import sys

def test_plain():
    assert not {"numpy", "scipy", "torch"} & {*sys.modules}
"""


@pytest.mark.parametrize("more", ["", ', "-p", "no:terminal"'])
def test_a_session_without_gates_computes_nothing_in_its_workers(more, tmp_path):
    (tmp_path / "test_plain.py").write_text(WORKERS)
    output = watch(tmp_path, f'"-n", "1"{more}', without=("hypothesispytest",))
    assert "ENDED 0\nHEAVY []" in output


UNPATCHED = """
import os

def test_exits():
    assert type(os._exit) is type(len)
"""


@pytest.mark.parametrize("ci", ["", "true"])
def test_nothing_of_os_is_patched_in_a_session_without_gates(ci, tmp_path, monkeypatch):
    monkeypatch.setenv("CI", ci)
    (tmp_path / "test_exits.py").write_text(UNPATCHED)
    assert "1 passed" in watch(tmp_path, '"-q"')


def test_collecting_a_gate_loads_no_simulator_and_no_torch(tmp_path):
    (tmp_path / "test_gate.py").write_text(
        "import pytest\n"
        '@pytest.mark.cpg(task="acrobot-swingup", planner="cem")\n'
        "def test_gate(cpg):\n"
        "    pass\n"
    )
    output = watch(tmp_path, '"--co", "-q"')
    assert "1 test collected" in output
    assert "REWRITTEN pytest_cpg OURS" in output
    for package in ("torch", "mujoco", "dm_control", "scipy"):
        assert f"'{package}'" not in output
