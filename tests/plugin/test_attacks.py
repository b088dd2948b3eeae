"""Whatever might turn a failing gate green by accident: its exit code, and what is said.

A bad model is at work in each of them. What hides one gate stands beside others in one session;
what hides the session, or ends its process, has one of its own.
"""

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sessions import flat
from usual_settings import started, usual_settings
from ways import both_ways

from pytest_cpg.plugin.scope import check_session, check_will_run
from pytest_cpg.plugin.settings import check_names

HEAD = """
import os
import sys
import threading
import time

import pytest
from conftest import mirrored, right

"""
GOOD = """

@pytest.mark.cpg(task="track", model="right")
def test_good(cpg): ...
"""
BAD = """

@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(cpg): ...
"""


@pytest.fixture
def attacked(repository):
    """Run the tests of a text, beside what is added to the miniature's conftest and other files."""

    def run(tests=BAD, *options, conftest="", files=None, is_apart=False):
        repository.add("conftest.py", conftest)
        for name, text in {"test_gates.py": HEAD + tests, **(files or {})}.items():
            (repository.path / name).parent.mkdir(parents=True, exist_ok=True)
            (repository.path / name).write_text(text, encoding="utf-8")
        if is_apart:
            result = repository.runpytest_subprocess(*options, timeout=60)
        else:
            result = repository.runpytest_inprocess(*options, no_reraise_ctrlc=True)
        output = result.stdout.str() + result.stderr.str()
        assert "INTERNALERROR" not in output
        assert not re.findall(r"(?m)^\S*pytest_cpg/\S+\.py:\d+: ", output)
        return result

    return run


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("DRIFFT", "names no option. Did you mean 'PYTEST_CPG_DRIFT'?"),
        ("QUIK", "has no effect. Type --cpg-quick."),
        ("STRICT", "has no effect. Type --cpg-strict."),
        ("REPLAY", "has no effect. Type --cpg-replay."),
    ],
)
def test_a_variable_that_means_nothing_is_refused(variable, said):
    options = usual_settings().options
    with pytest.raises(pytest.UsageError) as caught:
        check_names([f"PYTEST_CPG_{variable}"], "PYTEST_CPG_", options, "in the environment")
    assert caught.value.args == (f"PYTEST_CPG_{variable} in the environment {said}",)


def test_a_baseline_that_is_not_there_is_refused_without_a_sign_that_a_terminal_obeys(attacked):
    result = attacked(GOOD, "--cpg-baseline=\x1b[31m\n::error::red")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--cpg-baseline=\\x1b[31m : :error::red: there is no file" in flat(result)


LATE = """
kept = []


@pytest.fixture
def after(benchmark_runner):
    yield
    benchmark_runner.compare(learned=mirrored)


@pytest.fixture
def swallowed(benchmark_runner):
    yield
    try:
        benchmark_runner.compare(learned=mirrored)
    except BaseException:
        pass


@pytest.mark.cpg(task="track", model="right")
def test_after_yield(cpg, after): ...


@pytest.mark.cpg(task="track", model="right")
def test_swallowed(cpg, swallowed): ...


@pytest.mark.cpg(task="track", model="right")
def test_finalizer(cpg, request, benchmark_runner):
    request.addfinalizer(lambda: benchmark_runner.compare(learned=mirrored))


@pytest.mark.cpg(task="track", model="right")
def test_sweep(cpg, request, benchmark_runner):
    request.addfinalizer(lambda: benchmark_runner.sweep(learned=mirrored, horizons=[9]))


@pytest.mark.cpg(task="track", model="right")
def test_kept(cpg, benchmark_runner):
    kept.append(benchmark_runner)


def test_unmarked():
    kept[0].compare(learned=mirrored)
"""
AFTER = "{} compared models after its test had ended, where nothing is judged"


@both_ways
def test_a_comparison_after_its_test_is_refused_and_named(attacked, workers):
    result = attacked(LATE, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=5, errors=4, failed=1)
    for name in ("after_yield", "swallowed", "finalizer", "sweep", "kept"):
        assert AFTER.format(f"test_gates.py::test_{name}") in flat(result)


SWALLOWED = """
    try:
        kept[0].compare(learned=mirrored)
    except BaseException:
        pass
"""
KEEPING = """
kept = []


@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, benchmark_runner):
    kept.append(benchmark_runner)


def test_unmarked():
"""
IN_A_HOOK = """

kept = []


def pytest_runtest_teardown(item):
    kept.extend(filter(None, [item.funcargs.get("benchmark_runner")]))


@pytest.hookimpl(trylast=True)
def {}():
"""
THREADED = """

def later(benchmark_runner, ended):
    ended.wait()
    benchmark_runner.compare(learned=mirrored)


@pytest.fixture(scope="module")
def thread():
    ended = threading.Event()
    started = []
    yield lambda runner: started.append(
        threading.Thread(target=later, args=(runner, ended))
    ) or started[0].start()
    ended.set()
    started[0].join()


@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, benchmark_runner, thread):
    thread(benchmark_runner)
"""


@pytest.mark.parametrize(
    ("tests", "conftest", "options"),
    [
        (KEEPING + SWALLOWED, "", ("-n", "1")),
        (KEEPING + "    pass", IN_A_HOOK.format("pytest_sessionfinish") + SWALLOWED, ()),
        (KEEPING + "    pass", IN_A_HOOK.format("pytest_unconfigure") + SWALLOWED, ()),
        (THREADED, "", ("-W", "ignore")),
    ],
    ids=["a later test in a worker", "sessionfinish", "unconfigure", "thread"],
)
def test_a_comparison_that_fails_no_test_fails_the_session(attacked, tests, conftest, options):
    result = attacked(tests, *options, conftest=conftest)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert AFTER.format("test_gates.py::test_bad") in flat(result)


def test_a_comparison_in_a_thread_that_nobody_waits_for_is_refused(attacked):
    tests = """
def slow(observations, actions):
    time.sleep(0.01)
    return observations - actions


@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, benchmark_runner):
    thread = threading.Thread(target=benchmark_runner.compare, kwargs={"learned": slow})
    thread.daemon = True
    thread.start()
    time.sleep(0.1)
"""
    result = attacked(tests, "-W", "ignore", is_apart=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "a comparison is still running in a thread: join it before the test ends" in flat(result)


def test_a_comparison_in_a_process_that_a_test_forks_is_refused(attacked):
    tests = """

def compare_in_a_fork(benchmark_runner):
    child = os.fork()
    if not child:
        try:
            benchmark_runner.compare(learned=mirrored)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.cpg(task="track", model="right")
def test_alone(benchmark_runner):
    compare_in_a_fork(benchmark_runner)


@pytest.mark.cpg(task="track", model="right")
def test_second(cpg, benchmark_runner):
    compare_in_a_fork(benchmark_runner)
"""
    result = attacked(tests, "-W", "ignore")
    result.assert_outcomes(failed=2)
    said = "a comparison was made in a process that the test forked, where nothing is judged"
    assert said in flat(result)
    for name in ("alone", "second"):
        result.stdout.fnmatch_lines(
            [f"FAILED test_gates.py::test_{name} - a comparison was made *"]
        )


def test_a_result_that_a_test_meddles_with_is_judged_as_it_was_measured(attacked):
    tests = """

@pytest.mark.parametrize("field", ["verdict", "learned", "interval"])
@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(cpg, field):
    values = {"verdict": "fine", "learned": cpg.oracle, "interval": None}
    object.__setattr__(cpg, field, values[field])
"""
    result = attacked(tests)
    result.assert_outcomes(failed=3)
    assert result.stdout.str().count("MODEL BOTTLENECK: the model solves 0 of ") == 3


FLIPS = """

def flipped(report, item, names, outcome):
    if report.when == "call" and item.name in names:
        report.outcome = outcome
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    flipped(report, item, ["test_passed"], "passed")
    return flipped(report, item, ["test_skipped"], "skipped")


class Before:
    @pytest.hookimpl(trylast=True, wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        return flipped((yield), item, ["test_passed_before"], "passed")


def pytest_configure(config):
    config.pluginmanager.register(Before())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    if report.nodeid.endswith("_later"):
        is_skipped = report.when == "call" and "skipped" in report.nodeid
        report.outcome = "skipped" if is_skipped else "passed"
"""


@both_ways
def test_a_report_that_a_hook_turns_into_a_passed_one_hides_no_gate(attacked, workers):
    names = ("passed", "passed_before", "passed_later", "skipped_later")
    tests = "".join(BAD.replace("test_bad", f"test_{name}") for name in (*names, "skipped"))
    unmeasured = BAD.replace("test_bad(cpg)", "test_unmeasured_later()")
    result = attacked(tests + unmeasured, *workers, conftest=FLIPS)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    hidden = (f"test_gates.py::test_{name}" for name in (*names, "unmeasured_later"))
    said = f"passed or was skipped although its gate had failed: {', '.join(hidden)} "
    assert said in f"{flat(result)} "
    result.stdout.fnmatch_lines(["* F test_skipped * 1.00 0.00 *"])


SKIPPED = """

@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "setup":
        report.outcome, report.longrepr = "skipped", (__file__, 1, "Skipped: not today")
    return report
"""


@both_ways
def test_a_report_that_a_hook_turns_into_a_skipped_one_before_the_gate_runs_hides_none(
    attacked, workers
):
    suite = "\n\n@pytest.mark.cpg_suite(max_gap=0.9)\ndef test_suite(): ..."
    skips = GOOD.replace("test_good(cpg): ...", "test_skips(): pytest.skip()")
    result = attacked(BAD + suite + skips, *workers, conftest=SKIPPED)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = "nothing skipped it, and a hook made its report a skipped one"
    assert flat(result).count(said) == 3


EXCUSES = """

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        report.outcome, report.wasxfail = "skipped", "known"
    return report
"""


@both_ways
def test_a_report_that_a_hook_turns_into_an_expected_failure_hides_no_gate(attacked, workers):
    marked = BAD.replace("@pytest.mark.cpg", "@pytest.mark.xfail(strict=True)\n@pytest.mark.cpg")
    marked = marked.replace("test_bad", "test_marked")
    result = attacked(GOOD + BAD + marked, *workers, conftest=EXCUSES)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = "nothing expected it to fail, and a hook made its report an expected failure"
    assert flat(result).count(said) == 1


PASSES = """

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    session.exitstatus = {}
"""
NO_REPORT = "\n\ndef pytest_runtest_protocol(item):\n    return True\n"
FAILED = "FAILED test_gates.py::test_bad - MODEL BOTTLENECK"
LEFT_AS_PASSED = (
    "pytest was ended with exit code 0, and a gate has failed or was not accounted for: it is 1"
)
REPLACED = """

@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main():
    yield
    return 0
"""
LEAVES = "\n\n{}def {}():\n    raise SystemExit({})\n"
LAST = "@pytest.hookimpl(trylast=True)\n"


@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        (PASSES.format(0), FAILED),
        (PASSES.format(256), FAILED),
        (PASSES.format(0) + NO_REPORT, "cpg: 1 gate not reported"),
        (REPLACED, LEFT_AS_PASSED),
        (LEAVES.format("", "pytest_unconfigure", 0), LEFT_AS_PASSED),
        (LEAVES.format(LAST, "pytest_sessionfinish", 0), LEFT_AS_PASSED),
    ],
    ids=["set", "set to 256", "unreported", "replaced", "left after", "left at the end"],
)
def test_an_exit_code_that_says_that_all_passed_is_replaced(attacked, conftest, said):
    result = attacked(conftest=conftest)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert said in flat(result)


def test_an_exit_after_the_session_that_says_that_something_is_wrong_is_left(attacked):
    result = attacked(conftest=LEAVES.format("", "pytest_unconfigure", 3), is_apart=True)
    assert result.ret == 3
    assert "1 failed" in flat(result)


def test_a_signal_that_ends_pytest_as_passed_while_a_report_is_written_is_no_pass(attacked):
    conftest = """
from pytest_cpg.plugin import closing

import os, signal, sys

collect = closing.collect


def stopped(root):
    os.kill(os.getpid(), signal.SIGTERM)
    return collect(root)


closing.collect = stopped
# As libraries install it that train.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
"""
    result = attacked(BAD, "--cpg-json=o.json", conftest=conftest, is_apart=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert LEFT_AS_PASSED in flat(result)


EXITS = "\n\ndef {}():\n    pytest.exit('no GPU', returncode=0)\n"
NO_GATE_JUDGED = (
    "pytest.exit ended the session with exit code 0 before any gate was judged: it is 1"
)
UNMARKED = "\n\ndef pytest_itemcollected(item):\n    item.own_markers.clear()\n"
IN_CI = {"CI": "true"}


@pytest.mark.parametrize(
    ("conftest", "options", "environment", "said"),
    [
        (EXITS.format("pytest_configure"), ["--cpg-require=all"], {}, NO_GATE_JUDGED),
        (EXITS.format("pytest_sessionstart"), ["--cpg-require=all"], {}, NO_GATE_JUDGED),
        (
            EXITS.format("pytest_collection"),
            [],
            IN_CI,
            f"{NO_GATE_JUDGED} instead. A job without gates takes -p no:cpg",
        ),
        (EXITS.format("pytest_collection_modifyitems"), [], {}, "! test_bad did not report"),
        (
            UNMARKED,
            [],
            IN_CI,
            "1 of 1 gates was collected, and dropped by a plugin or a conftest.py",
        ),
    ],
    ids=["configure", "sessionstart", "collection", "modifyitems", "marker"],
)
def test_a_session_that_loses_its_gates_is_no_pass(
    attacked, monkeypatch, conftest, options, environment, said
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = attacked(BAD.replace("cpg): ...", "): ..."), *options, conftest=conftest)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert said in flat(result)


@pytest.mark.parametrize(
    ("environment", "options"), [(IN_CI, []), ({}, ["--cpg-require=all"])], ids=["CI", "required"]
)
def test_a_session_of_which_every_gate_is_skipped_is_no_pass(
    attacked, monkeypatch, environment, options
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    skipped = "pytestmark = pytest.mark.skipif(True, reason='no GPU')\n"
    result = attacked(skipped + GOOD + BAD, *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "every gate was skipped, and none judged. A job without gates takes" in flat(result)


@both_ways
def test_an_xfail_that_nobody_would_notice_excuses_no_gate_in_ci(attacked, monkeypatch, workers):
    monkeypatch.setenv("CI", "true")
    tests = """

@pytest.mark.xfail(strict=True)
@pytest.mark.cpg(task="track", model="mirrored")
def test_known(cpg): ...


@pytest.mark.xfail(strict=False)
@pytest.mark.cpg(task="track", model="mirrored")
def test_not_strict(cpg): ...


@pytest.mark.xfail
@pytest.mark.cpg(task="track", model="mirrored")
def test_strict_by_the_ini_file_alone(cpg): ...


@pytest.mark.xfail(run=False, strict=True)
@pytest.mark.cpg(task="track", model="mirrored")
def test_not_run(cpg): ...


@pytest.mark.cpg(task="track", model="mirrored")
def test_by_a_call(request):
    pytest.xfail("known")
    request.getfixturevalue("cpg")


def test_that_leaves_ci():
    os.environ["CI"] = ""
"""
    conftest = """

def pytest_collection_modifyitems(items):
    items[3].add_marker(pytest.mark.xfail(strict=False))
"""
    ini = {"tox.ini": "[pytest]\naddopts = -p no:hypothesispytest\nxfail_strict = true\n"}
    result = attacked(GOOD + tests, *workers, conftest=conftest, files=ini)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    excused = ("not_strict", "strict_by_the_ini_file_alone", "not_run", "by_a_call")
    names = ", ".join(f"test_gates.py::test_{name}" for name in excused)
    assert (
        f"4 of 6 gates were left to fail by an xfail that is not strict or not run: {names}. "
        f"xfail(strict=True) keeps a gate that is known to fail"
    ) in flat(result)


IN_ADDOPTS = (
    "{} is set in PYTEST_ADDOPTS or addopts, and would leave CI without a verdict. Take it out "
    "there, or type it where it is meant."
)


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("collectonly", "--collect-only"),
        ("setupplan", "--setup-plan"),
        ("setuponly", "--setup-only"),
        ("showfixtures", "--fixtures"),
        ("show_fixtures_per_test", "--fixtures-per-test"),
    ],
)
def test_what_runs_no_test_has_to_be_typed_in_ci(monkeypatch, name, spelling):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.UsageError, match=re.escape(IN_ADDOPTS.format(spelling))):
        check_will_run(started(**{name: True}), usual_settings())
    check_will_run(started(spelling, **{name: True}), usual_settings())


@pytest.mark.parametrize("name", ["quick", "plan", "replay"])
def test_what_judges_no_gate_has_to_be_typed_in_ci(monkeypatch, name):
    monkeypatch.setenv("CI", "true")
    settings = replace(usual_settings(), switches=frozenset([name]))
    with pytest.raises(pytest.UsageError, match=re.escape(IN_ADDOPTS.format(f"--cpg-{name}"))):
        check_session(started(), settings)
    check_session(started(f"--cpg-{name}"), settings)


@pytest.mark.parametrize(
    ("left", "refused"), [("-q --co", "--collect-only"), ("--cpg-quick", "--cpg-quick")]
)
def test_a_session_in_ci_obeys_no_such_option_of_its_environment(
    attacked, monkeypatch, left, refused
):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PYTEST_ADDOPTS", left)
    result = attacked()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert IN_ADDOPTS.format(refused) in flat(result)


@pytest.mark.parametrize("option", ["--co", "--setup-plan", "--fixtures"])
def test_what_is_typed_in_ci_may_run_nothing(attacked, monkeypatch, option):
    monkeypatch.setenv("CI", "true")
    result = attacked(BAD, option)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*cpg: *gate*")


def test_a_session_without_gates_may_collect_alone_in_ci(repository, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    repository.makepyfile("def test_other(): ...")
    assert repository.runpytest().ret == 0


ENDS = """

def ending(line):
    calls = []

    def model(observations, actions):
        calls.append(1)
        # Not while it is checked, before the first arm.
        if len(calls) == 30:
            exec(line)
        return observations - actions

    return model
"""
COMPARES = """

@pytest.mark.cpg(task="track")
def test_bad(benchmark_runner):
    benchmark_runner.compare(learned=ending({!r}))
"""
HIDES = "would have ended the session as passed, before its gates were accounted for."


def test_a_model_or_a_test_that_ends_the_process_as_passed_fails_its_test(attacked):
    tests = COMPARES.format("import posix; posix._exit(0)")
    unit = "\n\ndef test_exit():\n    os._exit(0)\n"
    result = attacked(ENDS + tests + unit, is_apart=True)
    result.assert_outcomes(failed=2)
    said = flat(result)
    assert said.count(f"SystemExit: os._exit(0) {HIDES}") >= 2
    assert f"> os._exit(0) E SystemExit: os._exit(0) {HIDES}" in re.sub(
        r" test_gates.*?: ", "", said
    )


AT_EXIT = "import atexit; atexit.register(lambda: {}._exit(0))"
IN_A_THREAD = """
wait = threading.main_thread().join
threading.Thread(target=lambda: wait() or os._exit(0)).start()
"""


@pytest.mark.parametrize(
    "line",
    [AT_EXIT.format("os"), f"import posix; {AT_EXIT.format('posix')}", IN_A_THREAD],
    ids=["os at exit", "posix at exit", "thread"],
)
def test_a_process_that_is_ended_as_passed_after_its_session_is_none(attacked, line):
    result = attacked(ENDS + COMPARES.format(line), is_apart=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 failed" in flat(result)


AGAIN = """
import os, sys

if "AGAIN" not in os.environ:
    call = [sys.executable, "-m", "pytest", "-s"]
    os.execve(sys.executable, call, {**os.environ, "AGAIN": "1"})
"""
ENDS_HERE = "\nimport os\nos._exit(0)\n"
CACHED = {".pytest_cache/v/cpg/costs.1": '{"test_bad": {}}'}


@pytest.mark.parametrize(
    ("conftest", "files", "options", "code", "said"),
    [
        (
            "",
            {".cpg/history": "", "test_first.py": "import os\nos._exit(0)\n"},
            (),
            2,
            (f"os._exit(0) {HIDES}", "test_first.py:2", "! test_bad did not report"),
        ),
        (
            "",
            {"first/conftest.py": "import os\nos._exit(0)\n", "first/test_a.py": ""},
            ("--cpg-require=all",),
            2,
            (f"os._exit(0) {HIDES}", "first/conftest.py:2"),
        ),
        (ENDS_HERE, {}, ("--cpg-require=all",), 4, (f"os._exit(0) {HIDES}", "conftest.py:")),
        (ENDS_HERE, CACHED, (), 4, (f"os._exit(0) {HIDES}", "conftest.py:")),
        (
            "\nraise SystemExit\n",
            {".cpg/baseline.json": ""},
            (),
            4,
            (f"SystemExit {HIDES}", "conftest.py:"),
        ),
        (AGAIN, {".cpg/history": ""}, ("-s",), 1, ("= 1 failed in",)),
    ],
    ids=["history", "folder", "required", "cache", "baseline", "pytest again"],
)
def test_a_file_that_ends_the_process_before_its_gates_are_known_is_refused(
    attacked, conftest, files, options, code, said
):
    result = attacked(BAD, *options, conftest=conftest, files=files, is_apart=True)
    assert result.ret == code
    for part in said:
        assert part in flat(result)


def test_a_conftest_file_that_exits_in_ci_is_refused_though_nothing_is_known(attacked, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = attacked(conftest="\n\nraise SystemExit\n", is_apart=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"SystemExit {HIDES}" in flat(result)


@pytest.mark.parametrize(("file", "status"), [("conftest.py", 3), ("test_first.py", 1)])
def test_an_exit_that_says_that_something_is_wrong_is_left_to_pytest(repository, file, status):
    repository.makepyfile(test_gates=HEAD + BAD)
    repository.mkdir(".cpg").joinpath("baseline.json").touch()
    repository.add(file, f"\nraise SystemExit({status})\n")
    result = repository.runpytest_subprocess()
    # It calls any exit while tests are collected an error of its own.
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR == 3
    assert HIDES not in flat(result)


@pytest.mark.parametrize("tests", [GOOD, "def test_unit(): ..."], ids=["gate", "unit"])
def test_a_session_that_is_over_and_hides_no_failed_gate_may_end_its_process(attacked, tests):
    ends = "\nimport os\n\ndef pytest_sessionfinish(): os._exit(0)\n"
    assert attacked(tests, conftest=ends, files={".cpg/history": ""}, is_apart=True).ret == 0


CATCHES = """
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
"""
IS_NATIVE = """
import ctypes
mutex = ctypes.create_string_buffer(64)
for _ in range(2):
    ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize("line", [CATCHES, IS_NATIVE], ids=["catches", "native"])
def test_a_hang_that_nothing_interrupts_ends_the_session_with_an_error(attacked, line):
    # Instead of half a minute.
    soon = "\n\nimport pytest_cpg.machine.deadline as deadline\n\ndeadline._LAST_SECONDS = 1.0\n"
    tests = ENDS + COMPARES.format(line) + GOOD
    # Time enough to reach the hang on a machine with much else to do.
    result = attacked(tests, "--cpg-timeout=3", conftest=soon, is_apart=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert (
        "test_gates.py::test_bad: the model does not answer 1 s after its time was over "
        "(timeout=3), and catches what interrupts it. The session ends here, with exit code 1"
    ) in flat(result)


PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
RECIPES = {
    "GitHub": re.search(r"; fi\n +(pytest .*)\n +(grep .*)\n", PAGE).groups(),
    "GitLab": re.search(r"script: \|\n +(pytest .*)\n +(grep .*)\n", PAGE).groups(),
}
NATIVE = "import ctypes; ctypes.CDLL(None)._exit(0)"
AT_NATIVE_EXIT = """
import ctypes
native = ctypes.CDLL(None)
native.__cxa_atexit(native._exit, None, None)
"""
TAKEN = "import taken; taken._exit(0)"
OUTERMOST = """

@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_cmdline_main():
    yield
    return 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="calls the C library")
@pytest.mark.parametrize(
    ("name", "tests", "conftest", "by_pytest", "by_report"),
    [
        ("GitHub", GOOD, "", 0, 0),
        ("GitHub", BAD, "", 1, 1),
        ("GitHub", ENDS + COMPARES.format(NATIVE), "", 0, 2),
        ("GitLab", ENDS + COMPARES.format(AT_NATIVE_EXIT), "", 0, 1),
        ("GitHub", ENDS + COMPARES.format(TAKEN), "", 0, 2),
        ("GitHub", BAD, OUTERMOST, 0, 1),
    ],
    ids=["good", "bad", "_exit", "at exit", "taken before", "outermost"],
)
def test_the_recipe_for_ci_sees_a_session_that_is_ended_unseen(
    repository, attacked, monkeypatch, name, tests, conftest, by_pytest, by_report
):
    repository.makepyfile(taken="from os import _exit")
    if TAKEN in tests:
        # By a plugin, before ours has put its own in the place of it.
        monkeypatch.setenv("PYTHONPATH", str(repository.path))
        monkeypatch.setenv("PYTEST_PLUGINS", "taken")
    # There is no baseline to compare with.
    run, look = (line.replace("--cpg-drift=fail", "") for line in RECIPES[name])
    command, *options = shlex.split(run.removesuffix('"$@"'))
    assert command == "pytest"
    assert attacked(tests, *options, conftest=conftest, is_apart=True).ret == by_pytest
    assert repository.run("bash", "-c", look).ret == by_report


@pytest.mark.parametrize("text", [BAD, BAD.replace("(cpg)", "()")])
def test_the_recipe_for_an_ini_file_misses_the_plugin(repository, text):
    (ini,) = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    (repository.path / "conftest.py").unlink()
    repository.makepyfile(test_gates="import pytest\n" + text)
    repository.makefile(".ini", pytest=ini)
    (repository.path / "tox.ini").unlink()
    result = repository.runpytest("-p", "no:cpg")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Missing required plugins: pytest-cpg" in result.stderr.str()


def test_a_baseline_that_is_written_need_not_be_there(attacked):
    option = "--cpg-baseline=new.json"
    assert attacked(GOOD, option, "--cpg-update-baseline").ret == 0
    assert attacked(GOOD, option).ret == 0
