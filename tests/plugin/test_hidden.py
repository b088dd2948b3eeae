"""Verdicts that a test could hide: by skipping itself, and by markers that lie close."""

import re

import pytest
from ways import mostly_alone

SKIPS = """

class Test{name}(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def measured(self, cpg):
        self.cpg = cpg

    @pytest.mark.cpg(task="track", model="mirrored")
    def test_bad(self):
        {skip}

    @pytest.mark.cpg(task="track", model="right")
    def test_good(self):
        {skip}
"""
WAYS = {
    "Own": 'self.skipTest("later")',
    "Pytest": 'pytest.skip("later")',
    "Raised": 'raise unittest.SkipTest("later")',
}


@mostly_alone
def test_a_test_case_that_skips_itself_hides_no_verdict(repository, workers):
    cases = (SKIPS.format(name=name, skip=skip) for name, skip in WAYS.items())
    repository.makepyfile(f"import unittest\n\nimport pytest\n{''.join(cases)}")
    result = repository.runpytest(*workers)
    assert result.ret == 1
    result.assert_outcomes(failed=3, skipped=3)
    shown = result.stdout.str()
    assert shown.count("\nMODEL BOTTLENECK: the model solves 0 of 20 starts, ") == 3
    assert len(re.findall(r"(?m)^ F \S*test_bad ", shown)) == 3


def test_a_marker_of_parameters_is_closer_than_that_of_their_test(repository):
    repository.makepyfile(
        """
import pytest
import conftest


@pytest.mark.cpg(task="track", max_verdict="MODEL BOTTLENECK", group="all")
@pytest.mark.parametrize(
    "model",
    [
        "mirrored",
        pytest.param("mirrored", marks=pytest.mark.cpg(max_verdict="INCONCLUSIVE", id="strict")),
    ],
    ids=["lax", "strict"],
)
def test_gate(benchmark_runner, model):
    benchmark_runner.compare(learned=getattr(conftest, model))


@pytest.mark.cpg(planner="cem")
@pytest.mark.parametrize("_", [pytest.param(1, marks=pytest.mark.cpg(task="track", model="right"))])
def test_parts(cpg, _):
    assert cpg.design.planner.startswith("CEM")


@pytest.mark.parametrize("_", [pytest.param(1, marks=pytest.mark.cpg(task="trakc"))])
def test_typo(cpg, _): ...
"""
    )
    result = repository.runpytest()
    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines_random(
        [" MODEL BOTTLENECK (2): *", " . test_gate[[]lax[]] *", " F strict[[]strict[]] *"]
    )
    assert "Did you mean 'track'?" in result.stdout.str()


def test_a_marker_that_comes_too_late_is_refused(repository):
    repository.makepyfile(
        """
import pytest


@pytest.fixture(autouse=True)
def late(request):
    request.node.add_marker(pytest.mark.cpg(task="track", model="right"))


def test_gate(request):
    request.getfixturevalue("cpg")
"""
    )
    result = repository.runpytest()
    result.assert_outcomes(failed=1)
    assert "the marker cpg was added after the test had begun" in result.stdout.str()


ADDED = 'item.add_marker(pytest.mark.cpg(task="track", model="right"))'
LOOP = f"""
@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    for item in session.items:
        {ADDED}
"""
LATE = {
    "before the first test": (LOOP, "pass"),
    "in a hook": (f"def pytest_runtest_setup(item): {ADDED}", "pass"),
    "in the test": ("", f"item = request.node; {ADDED}"),
    "before a skip": (f"def pytest_runtest_setup(item): {ADDED}", "pytest.skip('no')"),
}


@pytest.mark.parametrize(("added", "body"), LATE.values(), ids=LATE)
def test_a_late_marker_of_a_test_that_measures_nothing_is_refused(repository, added, body):
    repository.add("conftest.py", f"import pytest\n{added}")
    repository.makepyfile(f"import pytest\n\ndef test_gate(request):\n    {body}\n")
    # Something asked of the session would have it followed without a gate.
    repository.makeini("[pytest]\naddopts = -p no:hypothesispytest\n")
    result = repository.runpytest()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "the marker cpg was added after the test had begun" in result.stdout.str()


MARKED_BY_CONFTEST = f"""
def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "test_gate":
            {ADDED}
"""
COLLECTED_BY_CONFTEST = """
@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    session.perform_collect()
    return True
"""
EXITS = "import os\nimport pytest\n\ndef test_exit(): os._exit(0)\n"
GATE = "def test_gate(cpg): ...\n"
MARKED = f'@pytest.mark.cpg(task="track", model="right")\n{GATE}'
NOT_SEEN = {
    "marked and deselected": (MARKED_BY_CONFTEST, GATE + "def test_b(): ...", ("-k", "test_b")),
    "marked before an exit": (MARKED_BY_CONFTEST, EXITS + GATE, ()),
    "collected before an exit": (COLLECTED_BY_CONFTEST, EXITS + MARKED, ()),
}


@pytest.mark.parametrize(("hook", "module", "options"), NOT_SEEN.values(), ids=NOT_SEEN)
def test_no_gate_is_lost_that_a_hook_of_the_project_brings(
    repository, monkeypatch, hook, module, options
):
    monkeypatch.setenv("CI", "1")
    repository.add("conftest.py", hook)
    repository.makepyfile(module)
    repository.makeini("[pytest]\naddopts = -p no:hypothesispytest\n")
    assert repository.runpytest_subprocess(*options).ret == pytest.ExitCode.TESTS_FAILED


def test_a_level_near_one_is_repeated_in_full(repository):
    repository.makepyfile(
        """
import pytest


@pytest.mark.cpg(task="track", model="mirrored", episodes=60)
def test_gate(cpg): ...
"""
    )
    result = repository.runpytest("--cpg-confidence=0.999999")
    result.stdout.fnmatch_lines(["  arm  * 99.9999% CI", "*--cpg-confidence=0.999999"])


def test_a_comparison_that_is_broken_off_and_caught_fails_its_gate(repository):
    repository.makepyfile(
        test_gates="""
        import pytest
        from conftest import diverging, right

        @pytest.mark.cpg(task="track")
        def test_gate(benchmark_runner):
            benchmark_runner.compare(learned=right)
            try:
                benchmark_runner.compare(learned=diverging)
            except Exception:
                pass
        """
    )
    result = repository.runpytest()
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["a comparison was broken off: *predicted NaN, so*"])
