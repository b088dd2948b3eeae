"""A suite: what all cpg gates of a session lose in the mean, judged once they have reported."""

import json
import re
from xml.etree import ElementTree

import pytest
from sessions import flat
from ways import both_ways

FILE = """
import os

import pytest
import conftest


class Far(conftest.Track):
    near, far, name = 5.0, 8.0, "far"


@pytest.mark.cpg_suite({suite})
def test_suite():
    pass


@pytest.mark.cpg(task="track", max_verdict="MODEL BOTTLENECK", id="near")
def test_near(cpg):
    pass


@pytest.mark.cpg(task=Far(), max_verdict="MODEL BOTTLENECK", id="far")
def test_far(cpg):
    pass


@pytest.fixture
def learned_dynamics(request):
    {model}
"""
# Loses the far starts.
HALF = """
    def half(observations, actions):
        return conftest.np.where(
            observations > 4.7, observations - actions, observations + actions
        )
    return half
"""

MANY = """

@pytest.mark.parametrize("n", ["a", "b" * 60])
@pytest.mark.cpg(task="track", max_verdict="MODEL BOTTLENECK")
def test_many(n, cpg): pass
"""


@pytest.fixture
def suite(repository):
    def write(suite="max_gap=0.1", model=HALF, more=""):
        repository.write("test_tasks.py", FILE.format(suite=suite, model=model.strip()) + more)
        return repository

    return write


@both_ways
def test_a_suite_is_judged_after_its_gates_wherever_they_run(suite, workers):
    pytester = suite()
    result = pytester.runpytest("--junitxml=j.xml", "--cpg-json=r.json", *workers)
    assert result.ret == 1
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "ABOVE LIMIT: gap +0.* over 2 gates, at most 0.1 accepted, n=40.",
            "  near *",
            "  far *",
            "  suite *",
            "FAILED test_tasks.py::test_suite - ABOVE LIMIT: gap *",
        ]
    )
    cases = ElementTree.parse(pytester.path / "j.xml").findall(".//testcase")  # noqa: S314
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert (len(cases), failed) == (3, ["test_suite"])
    gates = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["gates"]
    assert {gate["outcome"] for gate in gates} == {"failed", "passed"}


@both_ways
def test_a_good_suite_passes_and_one_that_is_not_proven_is_open(suite, workers):
    result = suite(model="return conftest.right").runpytest(*workers)
    assert result.ret == 0
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([" . test_suite +0.00 *"])
    strict = suite("max_gap=0.05, max_verdict='WITHIN LIMIT'", "return conftest.right")
    result = strict.runpytest(*workers)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["UNCLEAR: gap +0.00 *"])


@pytest.mark.parametrize(
    ("arguments", "more", "said"),
    [
        (["-k", "suite or near"], "", "1 of 2 gates * far (not selected)"),
        (["-k", "test_suite and not near and not far"], "", "can be counted: * (not selected)"),
        ([], "\n@pytest.mark.cpg(task='track', id='no')\ndef test_no(cpg): 1 / 0", None),
        ([], "\n@pytest.mark.skip\n@pytest.mark.cpg(task='track', id='no')\ndef test_no(cpg): 0",
         "1 of 3 gates * no (skipped)"),
        ([], "\n@pytest.mark.cpg(task='track', model='raising', id='no')\ndef test_no(cpg): 0",
         "1 of 3 gates * no (in error)"),
        ([], "\n@pytest.mark.cpg(task='unreachable', model='right', id='no', "
         "max_verdict='MODEL BOTTLENECK')\ndef test_no(cpg): 0", "1 of 3 gates * no (is blind)"),
        ([], "\n@pytest.mark.cpg(task='track', model='right', id='no', metric='return')"
         "\ndef test_no(cpg): 0", "1 of 3 gates * no (compares returns)"),
        ([], "\n@pytest.mark.cpg(task='track', model='right', id='no', stop='sequential', "
         "max_episodes=20)\ndef test_no(cpg): 0", "1 of 3 gates * no (stops early*"),
        ([], "\n@pytest.mark.cpg(task='track', model='right', id='no', max_verdict="
         "'MODEL BOTTLENECK', confidence=0.9)\ndef test_no(): pass", "1 of 3 gates * no (failed)"),
    ],
)  # fmt: skip
def test_it_is_judged_by_all_of_its_gates_or_not_at_all(suite, arguments, more, said):
    result = suite("max_gap=0.9", "return conftest.right", more).runpytest(*arguments)
    assert result.ret == 1
    text = flat(result)
    if said is None:
        # What failed in its own body was measured.
        assert "cannot be counted" not in text
    else:
        head, _, tail = said.replace(" (stops early*", " (stops early").partition(" * ")
        assert head in text
        assert tail in text
        assert "FAILED test_tasks.py::test_suite" in text


def test_a_worker_that_dies_takes_its_gate_out_of_the_suite(suite):
    more = "\n@pytest.mark.cpg(task='track', id='no')\ndef test_no(cpg): os._exit(1)"
    result = suite("max_gap=0.9", "return conftest.right", more).runpytest("-n", "2")
    assert result.ret == 1
    assert "1 of 3 gates of the suite cannot be counted" in flat(result)
    assert "Run the gates that are named" in flat(result)


def test_a_session_of_what_failed_before_judges_no_suite(suite):
    pytester = suite(model="return conftest.mirrored")
    pytester.write(
        "test_more.py",
        "import pytest\n\n@pytest.mark.cpg(task='track', model='right')\ndef test_more(cpg): ...",
    )
    assert pytester.runpytest().ret == 1
    result = pytester.runpytest("--lf")
    assert result.ret == 1
    assert "what passed before (left out by --lf)" in flat(result)


@both_ways
def test_a_run_of_one_file_leaves_out_no_accepted_gate(suite, workers):
    pytester = suite(model="return conftest.right")
    more = "import pytest\n\n@pytest.mark.cpg(task='track', model='right')\ndef test_more(cpg): ..."
    pytester.write("test_more.py", more)
    alone = pytester.runpytest("test_tasks.py", *workers)
    assert alone.ret == 0
    unknown = "test_suite knows the gates of this run alone, as no baseline says which there are"
    assert unknown in flat(alone)
    whole = pytester.runpytest("--cpg-update-baseline")
    assert whole.ret == 0
    assert unknown not in flat(whole)
    for left_out in (["test_tasks.py"], ["--ignore=test_more.py"]):
        result = pytester.runpytest(*left_out, *workers)
        assert result.ret == 1
        assert "1 of 3 gates of the suite cannot be counted" in flat(result)
        assert "test_more (not collected)" in flat(result)
    named = suite("max_gap=0.1, gates=['near', 'far']", "return conftest.right")
    assert named.runpytest("test_tasks.py").ret == 0
    both = suite(model="return conftest.right")
    for whole in (["."], ["test_tasks.py", "test_more.py"]):
        assert both.runpytest(*whole, *workers).ret == 0


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_what_is_judged_late_is_shown_on_a_line_of_its_own(suite, quiet):
    lines = suite(model="return conftest.right").runpytest(*quiet).outlines
    at = next(at for at, line in enumerate(lines) if line.endswith("[ 66%]"))
    assert lines[at + 1] == "."


def test_random_actions_must_not_pass_a_suite(suite):
    result = suite("max_gap=0.99", "return conftest.right").runpytest()
    assert result.ret == 1
    assert "random actions would have passed this suite" in flat(result)


def test_a_suite_may_name_its_gates(suite):
    assert suite("max_gap=0.1, gates=['near']").runpytest("-k", "suite or near").ret == 0
    for name, count in (("test_many", 2), ("test_man*", 2), ("test_many[b*", 1), ("*many*", 2)):
        strict = f"max_gap=0.01, max_verdict='WITHIN LIMIT', gates=[{name!r}]"
        result = suite(strict, more=MANY).runpytest()
        rows = [line for line in result.outlines if re.match(r"  \S+\] +\+0.00 ", line)]
        assert len(rows) == count, flat(result)
        assert all(len(line) <= 80 for line in rows)
    result = suite("max_gap=0.1, gates=['nera']").runpytest()
    assert "no cpg gate is called 'nera'. Did you mean 'near'?" in flat(result)
    for wrong in ("[3]", "[]", "''"):
        result = suite(f"max_gap=0.1, gates={wrong}").runpytest()
        assert "need ids of gates" in flat(result)


def test_gates_that_share_their_starts_are_one_task(suite):
    """Of the same starts ten times the episodes are no ten times the evidence."""
    again = "".join(
        f"\n@pytest.mark.cpg(task='track', id='near{n}', max_verdict='MODEL BOTTLENECK')"
        f"\ndef test_{n}(cpg): pass"
        for n in range(2)
    )
    once = suite("max_gap=0.2, gates=['near']").runpytest()
    thrice = suite("max_gap=0.2, gates=['near*']", more=again).runpytest()
    ends = [
        next(line for line in result.outlines if " test_suite " in line).split()[3:5]
        for result in (once, thrice)
    ]
    assert ends[0] == ends[1]


def test_tasks_of_one_body_are_one_task(suite):
    """As `reacher-easy` and `dmc:reacher-hard`, which begin alike with one seed."""

    def width():
        lines = pytester.runpytest("-k", "suite or near or far").outlines
        row = next(line for line in lines if " test_suite " in line)
        low, high = map(float, re.search(r"\[(\S+), (\S+)\]", row).groups())
        return high - low

    pytester = suite("max_gap=0.2")
    apart = width()
    pytester.change("test_tasks.py", '"far"\n', '"track-far"\n')
    assert width() > 1.2 * apart


def test_what_has_no_meaning_for_a_suite_is_refused(suite):
    for fixture in ("cpg_suite", "benchmark_runner", "oracle_dynamics"):
        pytester = suite()
        pytester.change("test_tasks.py", "def test_suite()", f"def test_suite({fixture})")
        said = flat(pytester.runpytest("-k", "suite"))
        assert f"{fixture}: a test marked cpg_suite judges what other gates have found" in said
    marks = "@pytest.mark.xfail\n@pytest.mark.cpg_suite"
    suite().change("test_tasks.py", "@pytest.mark.cpg_suite", marks)
    assert "no xfail counts" in flat(pytester.runpytest())


def test_its_own_body_and_marks_count(suite):
    pytester = suite(model="return conftest.right")
    pytester.change("test_tasks.py", "_suite():\n    pass", "_suite():\n    assert 0")
    pytester.runpytest().assert_outcomes(passed=2, failed=1)
    pytester = suite(model="return conftest.right")
    recorded = "_suite(record_property):\n    record_property('limits', {0.3})"
    pytester.change("test_tasks.py", "_suite():\n    pass", recorded)
    pytester.runpytest().assert_outcomes(passed=3)
    late = "_suite(late):\n    pass\n\n@pytest.fixture\ndef late():\n    yield\n    pytest.skip()"
    pytester = suite("max_gap=0.1", "return conftest.mirrored")
    pytester.change("test_tasks.py", "_suite():\n    pass", late)
    result = pytester.runpytest()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["ABOVE LIMIT: gap +1.00 *"])
    marks = "@pytest.mark.skip\n@pytest.mark.cpg_suite"
    suite(model="return conftest.right").change("test_tasks.py", "@pytest.mark.cpg_suite", marks)
    pytester.runpytest().assert_outcomes(passed=2, skipped=1)


@both_ways
def test_options_of_all_gates_hold_for_a_suite(suite, workers):
    pytester = suite(model="return conftest.right")
    quick = pytester.runpytest("--cpg-quick", "-o", "cpg_episodes=50", *workers)
    assert quick.ret == 0
    checked = pytester.runpytest("--cpg-model=oracle", *workers)
    assert checked.ret == 0
    kept = pytester.runpytest("--cpg-update-baseline", *workers)
    assert kept.ret == 0
    again = pytester.runpytest("--cpg-drift=fail", "--cpg-resume", *workers)
    assert again.ret == 0
    worse = suite(
        "max_gap=0.9, max_verdict='ABOVE LIMIT', drift='fail'", "return conftest.mirrored"
    )
    result = worse.runpytest(*workers)
    assert result.ret == 1
    assert "REGRESSED" in flat(result)


def test_a_suite_is_forecast(suite):
    result = suite().runpytest("--cpg-plan")
    result.stdout.fnmatch_lines([" test_suite * 0.1 *"])


def test_a_plugin_that_runs_tests_itself_leaves_no_suite_green(suite):
    """Such as those that repeat tests, whose hook may come before ours."""
    pytester = suite(model="return conftest.right")
    pytester.add(
        "conftest.py",
        """
import pytest
from _pytest.runner import runtestprotocol


class Runner:
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        runtestprotocol(item, nextitem=nextitem)
        return True


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    # Whoever comes last is asked first.
    session.config.pluginmanager.register(Runner())
""",
    )
    result = pytester.runpytest()
    assert result.ret == 1
    assert "test_suite" in flat(result)
