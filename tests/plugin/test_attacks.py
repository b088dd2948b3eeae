"""Whatever might turn a failing gate green by accident: its exit code, and what is said.

Every row is one way that was found. A bad model is at work in each of them.
"""

import json
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A way to hide a bad model.

    Attributes
    ----------
    tests, conftest : str
        Added to the miniature's.
    files : dict
        Content of other files, by path.
    code : int
        The exit code that it must not change to 0.
    said : str or tuple of str
        Parts of what is printed, with single blanks.
    is_apart : bool
        Whether it ends a process.
    """

    name: str
    tests: str = BAD
    conftest: str = ""
    files: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    code: int = 1
    said: str | tuple[str, ...]
    is_apart: bool = False


LOST = {
    "schema": 1,
    "gate": "test_gates.py::test_bad",
    "nodeid": "test_gates.py::test_bad",
    "task": "track",
    "planner": "",
    "budget": 30,
    "seed": 0,
    "starts": "sampled",
    "metric": "success",
    "oracle_steps": [9],
    "weights": "",
    "versions": {},
}
SETTINGS = [
    Attack(
        name="a replay of an episode that no array holds",
        files={"lost.json": json.dumps({**LOST, "episodes": [2**64]})},
        options=("--cpg-replay=lost.json",),
        code=4,
        said=f"it names episode {2**64}, and a replay goes to 999999. Run the gate again",
    ),
    Attack(
        name="a misspelt variable",
        tests=GOOD,
        environment={"PYTEST_CPG_DRIFFT": "fail"},
        code=4,
        said="PYTEST_CPG_DRIFFT in the environment names no option. Did you mean "
        "'PYTEST_CPG_DRIFT'?",
    ),
    Attack(
        name="a misspelt variable for a switch",
        tests=GOOD,
        environment={"PYTEST_CPG_QUIK": "1"},
        code=4,
        said="PYTEST_CPG_QUIK in the environment has no effect. Type --cpg-quick.",
    ),
    Attack(
        name="the path of a baseline that a terminal obeys",
        tests=GOOD,
        options=("--cpg-baseline=\x1b[31m\n::error::red",),
        code=4,
        said="--cpg-baseline=\\x1b[31m : :error::red: there is no file",
    ),
    Attack(
        name="a model without a name",
        options=("--cpg-model=",),
        code=4,
        said="need the name of a registered world model, got ''; or module:factory, or the path "
        "of a checkpoint. Or leave it out",
    ),
    Attack(
        name="a factory of something else",
        tests=BAD.replace(', model="mirrored"', ""),
        options=("--cpg-model=os:getpid",),
        said="'os:getpid' returned 'int', which can neither be called nor has it a rollout. Name "
        "a function that returns the model",
    ),
    Attack(
        name="a variable for a switch",
        tests=GOOD,
        environment={"PYTEST_CPG_STRICT": "1"},
        code=4,
        said="PYTEST_CPG_STRICT in the environment has no effect. Type --cpg-strict.",
    ),
    Attack(
        name="a variable for an option of one run",
        tests=GOOD,
        environment={"PYTEST_CPG_REPLAY": "lost.json"},
        code=4,
        said="PYTEST_CPG_REPLAY in the environment has no effect. Type --cpg-replay.",
    ),
    Attack(
        name="a baseline that is not there",
        tests=GOOD,
        options=("--cpg-baseline=bsaeline.json",),
        code=4,
        said="--cpg-baseline=bsaeline.json: there is no file",
    ),
]
AFTER = "test_gates.py::test_bad compared models after its test had ended, where nothing is judged"
LEAKED = """
kept = []


@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, benchmark_runner):
    kept.append(benchmark_runner)


def test_unmarked():
    {line}
"""
IN_A_HOOK = """

kept = []


def pytest_runtest_teardown(item):
    kept.extend(filter(None, [item.funcargs.get("benchmark_runner")]))


@pytest.hookimpl(trylast=True)
def {hook}():
    try:
        kept[0].compare(learned=mirrored)
    except BaseException:
        pass
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
LATE = [
    Attack(
        name="a comparison after a fixture's yield",
        tests="""
@pytest.fixture
def after(benchmark_runner):
    yield
    benchmark_runner.compare(learned=mirrored)


@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, after): ...
""",
        said=(AFTER, "1 passed, 1 error"),
    ),
    Attack(
        name="the same, swallowed",
        tests="""
@pytest.fixture
def after(benchmark_runner):
    yield
    try:
        benchmark_runner.compare(learned=mirrored)
    except BaseException:
        pass


@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, after): ...
""",
        said=(AFTER, "1 passed, 1 error"),
    ),
    Attack(
        name="a comparison in a finalizer",
        tests="""
@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, request, benchmark_runner):
    request.addfinalizer(lambda: benchmark_runner.compare(learned=mirrored))
""",
        said=(AFTER, "1 passed, 1 error"),
    ),
    Attack(
        name="a sweep in a finalizer",
        tests="""
@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, request, benchmark_runner):
    request.addfinalizer(lambda: benchmark_runner.sweep(learned=mirrored, budgets=[9]))
""",
        said=(AFTER, "1 passed, 1 error"),
    ),
    Attack(
        name="a comparison in a later test",
        tests=LEAKED.format(line="kept[0].compare(learned=mirrored)"),
        said=(AFTER, "1 failed, 1 passed"),
    ),
    Attack(
        name="the same in a worker, swallowed",
        tests=LEAKED.format(
            line="""
    try:
        kept[0].compare(learned=mirrored)
    except BaseException:
        pass
"""
        ),
        options=("-n", "1"),
        said=AFTER,
    ),
    *(
        Attack(
            name=f"a comparison in {hook}",
            tests="""
@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, benchmark_runner): ...
""",
            conftest=IN_A_HOOK.format(hook=hook),
            said=AFTER,
        )
        for hook in ("pytest_sessionfinish", "pytest_unconfigure")
    ),
    Attack(
        name="a comparison in a thread that outlives its test",
        tests=THREADED,
        options=("-W", "ignore"),
        said=AFTER,
    ),
    Attack(
        name="a comparison in a thread that nobody waits for",
        tests="""
def slow(observations, actions):
    time.sleep(0.01)
    return observations - actions


@pytest.mark.cpg(task="track", model="right")
def test_bad(cpg, benchmark_runner):
    thread = threading.Thread(target=benchmark_runner.compare, kwargs={"learned": slow})
    thread.daemon = True
    thread.start()
    time.sleep(0.1)
""",
        options=("-W", "ignore"),
        said="a comparison is still running in a thread: join it before the test ends",
        is_apart=True,
    ),
]
FLIPS = """

@pytest.hookimpl({how}=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        report.outcome = {outcome!r}
    return report
"""
LATER = """

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    report.outcome = "passed"
"""
LATEST = """

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    session.exitstatus = 0
"""
MEDDLES = """

@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(cpg):
    object.__setattr__(cpg, {field!r}, {value})
"""
PASSED = "passed or was skipped although its gate had failed: test_gates.py::test_bad"
FLIPPED = [
    *(
        Attack(
            name=f"a result whose {field} is {value}",
            tests=MEDDLES.format(field=field, value=value),
            said="MODEL BOTTLENECK: the model solves 0 of ",
        )
        for field, value in (
            ("verdict", "'fine'"),
            ("learned", "cpg.oracle"),
            ("interval", "None"),
        )
    ),
    Attack(
        name="a report that is turned into a passed one",
        conftest=FLIPS.format(how="wrapper", outcome="passed"),
        said=PASSED,
    ),
    Attack(
        name="the same before ours",
        conftest=FLIPS.format(how="trylast=True, wrapper", outcome="passed"),
        said=PASSED,
    ),
    Attack(
        name="a report that is turned into a skipped one",
        conftest=FLIPS.format(how="wrapper", outcome="skipped"),
        said="F test_bad 1.00 0.00",
    ),
    Attack(
        name="the same after ours",
        conftest=LATER.replace('"passed"', '"skipped" if report.when == "call" else "passed"'),
        said=PASSED,
    ),
    Attack(
        name="the same in a worker",
        conftest=FLIPS.format(how="wrapper", outcome="passed"),
        options=("-n", "1"),
        said=PASSED,
    ),
    Attack(
        name="every report that is turned into a passed one",
        tests="""
@pytest.mark.cpg(task="track", model="right")
def test_bad(): ...
""",
        conftest=LATER,
        said=PASSED,
    ),
    Attack(
        name="an exit code that is set after ours",
        conftest=LATEST,
        said="FAILED test_gates.py::test_bad - MODEL BOTTLENECK",
    ),
    Attack(
        name="the same where a gate does not report",
        conftest=LATEST
        + """

def pytest_runtest_protocol(item):
    return True
""",
        said="cpg: 1 gate not reported",
    ),
]
CI = {"CI": "true"}
REQUIRED = [
    Attack(
        name="a session that ends as passed before its first test",
        conftest="""

def pytest_collection_modifyitems():
    pytest.exit("done", returncode=0)
""",
        said="! test_bad did not report",
    ),
    *(
        Attack(
            name=f"a session that is left as passed in {hook}",
            conftest=f"\n\ndef {hook}():\n    pytest.exit('no GPU', returncode=0)\n",
            tests=BAD,
            options=("--cpg-require=all",),
            said="pytest.exit ended the session with exit code 0 before any gate was judged",
        )
        for hook in ("pytest_configure", "pytest_sessionstart")
    ),
    Attack(
        name="a session that is left as passed while nobody knows of any gate",
        conftest="\n\ndef pytest_collection():\n    pytest.exit('no GPU', returncode=0)\n",
        environment=CI,
        said="before any gate was judged: it is 1 instead. A job without gates takes -p no:cpg",
    ),
    Attack(
        name="sys.exit() in the conftest file of a project of which nothing is known",
        conftest="\n\nraise SystemExit\n",
        environment=CI,
        code=4,
        said="SystemExit would have ended the session as passed, before its gates were accounted",
        is_apart=True,
    ),
    Attack(
        name="a marker that is taken away",
        tests=BAD.replace("cpg): ...", "): ..."),
        conftest="\n\ndef pytest_itemcollected(item):\n    item.own_markers.clear()\n",
        environment=CI,
        said="1 of 1 gates was collected, and dropped by a plugin or a conftest.py",
    ),
    Attack(
        name="every gate skipped in CI",
        tests=f"pytestmark = pytest.mark.skipif(True, reason='no GPU')\n{GOOD}{BAD}",
        environment=CI,
        said="every gate was skipped, and none judged. A job without gates takes --cpg-skip, "
        "or --cpg-require=0",
    ),
    Attack(
        name="the same where all are required",
        tests=f"pytestmark = pytest.mark.skipif(True, reason='no GPU')\n{BAD}",
        options=("--cpg-require=all",),
        said="every gate was skipped, and none judged.",
    ),
    Attack(
        name="xfail that is not strict",
        tests=f"{GOOD}\n\n@pytest.mark.xfail{BAD[1:]}",
        environment=CI,
        said="1 of 2 gates was left to fail by an xfail that is not strict or not run: "
        "test_gates.py::test_bad. xfail(strict=True) keeps a gate that is known to fail",
    ),
    Attack(
        name="xfail that is strict here and not there",
        tests=f"pytestmark = pytest.mark.xfail\n{BAD}",
        files={"tox.ini": "[pytest]\naddopts = -p no:hypothesispytest\nxfail_strict = true\n"},
        conftest="""

def pytest_collection_modifyitems(items):
    items[0].add_marker(pytest.mark.xfail(strict=False))
""",
        environment=CI,
        said="by an xfail that is not strict or not run",
    ),
    Attack(
        name="xfail that is not run",
        tests=f"{GOOD}\n\n@pytest.mark.xfail(run=False, strict=True){BAD[1:]}",
        environment=CI,
        said="by an xfail that is not strict or not run",
    ),
    Attack(
        name="an xfail beside a test that leaves CI",
        tests=f"""{GOOD}

@pytest.mark.xfail
@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(cpg):
    pass

def test_environment():
    import os
    os.environ["CI"] = ""
""",
        environment=CI,
        is_apart=True,
        said="by an xfail that is not strict or not run",
    ),
    Attack(
        name="xfail by a call",
        tests=f"""{GOOD}

@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(request):
    pytest.xfail("known")
    request.getfixturevalue("cpg")
""",
        environment=CI,
        options=("-n", "1"),
        said="by an xfail that is not strict or not run",
    ),
    *(
        Attack(
            name=f"{left} left in the environment",
            environment={**CI, "PYTEST_ADDOPTS": left},
            code=4,
            said=f"{flag} is set in PYTEST_ADDOPTS or addopts, and would leave CI without a "
            "verdict. Take it out there, or type it where it is meant.",
        )
        for left, flag in (
            ("--collect-only", "--collect-only"),
            ("-q --co", "--collect-only"),
            ("--setup-plan", "--setup-plan"),
            ("--setup-only", "--setup-only"),
            ("--fixtures", "--fixtures"),
        )
    ),
    Attack(
        name="a smoke test left in the environment",
        environment={**CI, "PYTEST_ADDOPTS": "--cpg-quick"},
        code=4,
        said="--cpg-quick is set in PYTEST_ADDOPTS or addopts, and would leave CI without a "
        "verdict. Take it out there, or type it where it is meant.",
    ),
    Attack(
        name="gates left out by the ini file",
        files={"tox.ini": "[pytest]\naddopts = -p no:hypothesispytest --cpg-skip\n"},
        environment=CI,
        code=4,
        said="--cpg-skip is set in PYTEST_ADDOPTS or addopts",
    ),
    *(
        Attack(
            name=f"{left} left in the environment",
            environment={**CI, "PYTEST_ADDOPTS": f"{left}=bad"},
            code=4,
            said=f"{left} is set in PYTEST_ADDOPTS or addopts",
        )
        for left in ("--cpg-last", "--cpg-replay")
    ),
    Attack(
        name="a forecast left in the environment",
        environment={**CI, "PYTEST_ADDOPTS": "--cpg-plan"},
        code=4,
        said="--cpg-plan is set in PYTEST_ADDOPTS or addopts",
    ),
]
IN_A_CHILD = """

@pytest.mark.cpg(task="track", model="right")
def test_bad({fixtures}benchmark_runner):
    child = os.fork()
    if not child:
        try:
            benchmark_runner.compare(learned=mirrored)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""
FORKED = [
    Attack(
        name=name,
        tests=IN_A_CHILD.format(fixtures=fixtures),
        options=("-W", "ignore"),
        said="a comparison was made in a process that the test forked, where nothing is judged",
    )
    for name, fixtures in (
        ("a comparison in a forked process", ""),
        ("one of two comparisons in a forked process", "cpg, "),
    )
]
LEFT_AS_PASSED = (
    "pytest was ended with exit code 0, and a gate has failed or was not accounted for: it is 1"
)
STOPPED = """
from pytest_cpg.report import provenance

import os, signal, sys

collected = provenance.collect


def stopped(root):
    os.kill(os.getpid(), signal.SIGTERM)
    return collected(root)


provenance.collect = stopped
# As libraries install it that train.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
"""
ENDINGS = [
    Attack(
        name="a signal that ends pytest as passed while a report is written",
        conftest=STOPPED,
        options=("--cpg-json=o.json",),
        said=LEFT_AS_PASSED,
        is_apart=True,
    ),
    Attack(
        name="an exit after the session that says that something is wrong",
        conftest="\n\ndef pytest_unconfigure():\n    raise SystemExit(3)\n",
        code=3,
        said="1 failed",
        is_apart=True,
    ),
    *(
        Attack(name=name, conftest=conftest, said=said)
        for name, said, conftest in (
            (
                "sys.exit(0) after the session",
                LEFT_AS_PASSED,
                """

def pytest_unconfigure():
    raise SystemExit(0)
""",
            ),
            (
                "sys.exit(0) while the session ends",
                LEFT_AS_PASSED,
                """

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    raise SystemExit(0)
""",
            ),
            (
                "a session whose exit code is replaced",
                LEFT_AS_PASSED,
                """

@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main():
    yield
    return 0
""",
            ),
            (
                "an exit code of which whoever waits sees 0",
                "FAILED test_gates.py::test_bad - MODEL BOTTLENECK",
                """

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    session.exitstatus = 256
""",
            ),
        )
    ),
]
ENDS = """
calls = []


def model(observations, actions):
    calls.append(1)
    # Not while it is checked, before the first arm.
    if len(calls) == 30:
        {line}
    return observations - actions


@pytest.mark.cpg(task="track")
def test_bad(benchmark_runner):
    benchmark_runner.compare(learned=model)
"""
AT_EXIT = "import atexit; atexit.register(lambda: {}._exit(0))"
IN_A_THREAD = """
        wait = threading.main_thread().join
        threading.Thread(target=lambda: wait() or os._exit(0)).start()
"""
ENDED = [
    Attack(name=name, tests=ENDS.format(line=line), said=said, is_apart=True)
    for name, line, said in (
        ("posix._exit", "import posix; posix._exit(0)", "SystemExit: os._exit(0) would have ended"),
        ("execlp", "os.execlp('true', 'true')", "SystemExit: os.execv would have ended"),
        ("execle", "os.execle('/bin/true', 'true', {})", "SystemExit: os.execve would have ended"),
        ("os._exit at exit", AT_EXIT.format("os"), "1 failed"),
        ("posix._exit at exit", f"import posix; {AT_EXIT.format('posix')}", "1 failed"),
        ("os._exit in a thread after the session", IN_A_THREAD, "1 failed"),
    )
]
ENDED += [
    Attack(
        name=f"{call} in a test without a gate",
        tests=f"{BAD}\n\ndef test_unit():\n    {call}\n",
        said=(f"SystemExit: {said} would have ended", f"> {call}"),
        is_apart=True,
    )
    for call, said in (("os._exit(0)", "os._exit(0)"), ("os.execlp('true', 'true')", "os.execv"))
]
HIDES = "would have ended the session as passed, before its gates were accounted for."
AGAIN = """
import os, sys

if "AGAIN" not in os.environ:
    call = [sys.executable, "-m", "pytest", "-s"]
    os.execve(sys.executable, call, {**os.environ, "AGAIN": "1"})
"""
EARLY = [
    Attack(
        name=name,
        conftest=conftest,
        files=files,
        options=options,
        code=code,
        said=said,
        is_apart=True,
    )
    for name, conftest, files, options, code, said in (
        (
            "a file before the gates, where there were some before",
            "",
            {".cpg/history": "", "test_first.py": "import os\nos._exit(0)\n"},
            (),
            2,
            (f"os._exit(0) {HIDES}", "test_first.py:2", "! test_bad did not report"),
        ),
        (
            "a conftest file of a folder",
            "",
            {"first/conftest.py": "import os\nos.execlp('true', 'true')\n", "first/test_a.py": ""},
            ("--cpg-require=all",),
            2,
            (f"os.execv {HIDES}", "first/conftest.py:2"),
        ),
        (
            "the conftest file of a project that was told to have gates",
            "\nimport os\nos._exit(0)\n",
            {},
            ("--cpg-require=all",),
            4,
            (f"os._exit(0) {HIDES}", "conftest.py:"),
        ),
        (
            "the conftest file of a project whose gates only pytest's cache knows",
            "\nimport os\nos._exit(0)\n",
            {".pytest_cache/v/cpg/last.1": '{"test_bad": []}'},
            (),
            4,
            (f"os._exit(0) {HIDES}", "conftest.py:"),
        ),
        (
            "sys.exit() in the conftest file of a project with a baseline",
            "\nraise SystemExit\n",
            {".cpg/baseline.json": ""},
            (),
            4,
            (f"SystemExit {HIDES}", "conftest.py:"),
        ),
        (
            "pytest that a conftest file starts again in another environment",
            AGAIN,
            {".cpg/history": ""},
            ("-s",),
            1,
            "= 1 failed in",
        ),
    )
]
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
GIVEN_UP = (
    "test_gates.py::test_bad: the model does not answer 1 s after its time was over (timeout=3), "
    "and catches what interrupts it. The session ends here, with exit code 1"
)
# Instead of half a minute.
SOON = "\n\nimport pytest_cpg.machine.deadline\n\npytest_cpg.machine.deadline._LAST_SECONDS = 1.0\n"
HANGS = [
    Attack(
        name=name,
        tests=ENDS.format(line=line) + GOOD,
        conftest=SOON,
        # Time enough to reach the hang on a machine with much else to do.
        options=("--cpg-timeout=3",),
        said=GIVEN_UP,
        is_apart=True,
    )
    for name, line in (
        ("a hang that catches every interruption", CATCHES),
        ("a hang in native code", IS_NATIVE),
    )
]
ATTACKS = [*SETTINGS, *LATE, *FLIPPED, *REQUIRED, *ENDINGS, *FORKED, *ENDED, *EARLY, *HANGS]


def run(repository, monkeypatch, attack):
    for name, value in attack.environment.items():
        monkeypatch.setenv(name, value)
    with (repository.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(attack.conftest)
    for name, text in attack.files.items():
        (repository.path / name).parent.mkdir(parents=True, exist_ok=True)
        (repository.path / name).write_text(text, encoding="utf-8")
    (repository.path / "test_gates.py").write_text(HEAD + attack.tests, encoding="utf-8")
    if attack.is_apart:
        return repository.runpytest_subprocess(*attack.options, timeout=60)
    return repository.runpytest_inprocess(*attack.options, no_reraise_ctrlc=True)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_nothing_is_green_by_accident(repository, monkeypatch, attack):
    result = run(repository, monkeypatch, attack)
    output = result.stdout.str() + result.stderr.str()
    assert result.ret == attack.code, output
    for part in [attack.said] if isinstance(attack.said, str) else attack.said:
        assert part in " ".join(output.split())
    assert "INTERNALERROR" not in output
    assert not re.findall(r"(?m)^\S*pytest_cpg/\S+\.py:\d+: ", output)


PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
RECIPES = {
    "GitHub": re.search(r"; fi\n +(pytest .*)\n +(grep .*)\n", PAGE).groups(),
    "GitLab": re.search(r"script: \|\n +(pytest .*)\n +(grep .*)\n", PAGE).groups(),
}
NATIVE = "import ctypes; ctypes.CDLL(None).{}(0)"
AT_NATIVE_EXIT = """
        import ctypes
        native = ctypes.CDLL(None)
        native.__cxa_atexit(native._exit, None, None)
"""
OUTERMOST = """

@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_cmdline_main():
    yield
    return 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="calls the C library")
@pytest.mark.parametrize(
    ("name", "text", "conftest", "by_pytest", "by_report"),
    [
        ("GitHub", GOOD, "", 0, 0),
        ("GitHub", BAD, "", 1, 1),
        ("GitHub", ENDS.format(line=NATIVE.format("_exit")), "", 0, 2),
        ("GitLab", ENDS.format(line=AT_NATIVE_EXIT), "", 0, 1),
        ("GitHub", ENDS.format(line="import taken; taken._exit(0)"), "", 0, 2),
        ("GitHub", BAD, OUTERMOST, 0, 1),
    ],
    ids=["good", "bad", "_exit", "at exit", "taken before", "outermost"],
)
def test_the_recipe_for_ci_sees_a_session_that_is_ended_unseen(
    repository, monkeypatch, name, text, conftest, by_pytest, by_report
):
    with (repository.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(conftest)
    repository.makepyfile(test_gates=HEAD + text, taken="from os import _exit")
    if "taken" in text:
        # By a plugin, before ours has put its own in the place of it.
        monkeypatch.setenv("PYTHONPATH", str(repository.path))
        monkeypatch.setenv("PYTEST_PLUGINS", "taken")
    # There is no baseline to compare with.
    run, look = (line.replace("--cpg-drift=fail", "") for line in RECIPES[name])
    command, *options = shlex.split(run.removesuffix('"$@"'))
    assert command == "pytest"
    assert repository.runpytest_subprocess(*options).ret == by_pytest
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


@pytest.mark.parametrize(("file", "status"), [("conftest.py", 3), ("test_first.py", 1)])
def test_an_exit_that_says_that_something_is_wrong_is_left_to_pytest(repository, file, status):
    repository.makepyfile(test_gates=HEAD + BAD)
    (repository.path / ".cpg").mkdir()
    (repository.path / ".cpg" / "baseline.json").touch()
    with (repository.path / file).open("a", encoding="utf-8") as text:
        text.write(f"\nraise SystemExit({status})\n")
    result = repository.runpytest_subprocess()
    # It calls any exit while tests are collected an error of its own.
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR == 3
    assert HIDES not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("tests", [GOOD, "def test_unit(): ..."], ids=["gate", "unit"])
def test_a_session_that_is_over_and_hides_no_failed_gate_may_end_its_process(repository, tests):
    with (repository.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write("\nimport os\n\ndef pytest_sessionfinish(): os._exit(0)\n")
    repository.makepyfile(test_gates=HEAD + tests)
    (repository.path / ".cpg").mkdir()
    (repository.path / ".cpg" / "history").touch()
    assert repository.runpytest_subprocess().ret == 0


def test_a_baseline_that_is_written_need_not_be_there(repository):
    repository.makepyfile(test_gates=HEAD + GOOD)
    option = "--cpg-baseline=new.json"
    assert repository.runpytest(option, "--cpg-update-baseline", "--cpg-force").ret == 0
    assert repository.runpytest(option).ret == 0


@pytest.mark.parametrize("option", ["--co", "--setup-plan", "--fixtures"])
def test_what_is_typed_in_ci_may_run_nothing(repository, monkeypatch, option):
    monkeypatch.setenv("CI", "true")
    repository.makepyfile(test_gates=HEAD + BAD)
    assert repository.runpytest(option).ret == 0


def test_a_session_without_gates_may_collect_alone_in_ci(repository, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    repository.makepyfile("def test_other(): ...")
    assert repository.runpytest().ret == 0
