"""Episodes that are run by other processes: nothing but times may differ."""

import re
from importlib.util import find_spec

import pytest
from sessions import flat, untimed

HEAD = """
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

FLAG = Path({folder!r}, "flag")


def takes_flag():
    # Two workers may come here at once, and one has to be left.
    try:
        FLAG.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


calls = []


def late():
    # Not while the model is checked.
    calls.append(1)
    return len(calls) > 30


def is_first():
    # In a worker, and the first to ask.
    return multiprocessing.parent_process() is not None and takes_flag()

"""
GATE = """

@pytest.mark.cpg(task="track", max_verdict="MODEL BOTTLENECK"{more})
def test_gate(benchmark_runner):
    benchmark_runner.compare(learned=model)


@pytest.mark.cpg(task="track", model="right")
def test_other(cpg): ...
"""
MIRRORED = "def model(observations, actions):\n    {line}\n    return observations - actions\n"


def of_files(result, name):
    """What a session says of the tests of this name, by their files in alphabetical order."""
    text = result.stdout.str()
    sections = re.split(rf"(?m)^_+ {name} _+$", text)[1:]
    files = sorted(set(re.findall(r"(?m)^(test_\w+\.py) ", text)))
    return dict(zip(files, (" ".join(one.split()) for one in sections), strict=True))


def write(repository, line="pass", more="", text=None, name="test_gates"):
    body = MIRRORED.format(line=line) if text is None else text
    head = HEAD.format(folder=str(repository.path))
    repository.makepyfile(**{name: head + body + GATE.format(more=more)})


def gates(repository, *options):
    """Run a session, and return it with what its report says of the gates."""
    # Workers start from a process of the miniature's own.
    elsewhere = any(option.startswith("--cpg-workers") for option in options)
    run = repository.runpytest_subprocess if elsewhere else repository.runpytest
    result = run("--cpg-json=report.json", "--cpg-no-cache", *options)
    return result, untimed(repository.json("report.json")["gates"])


PLANNER = """

def pytest_cpg_planners():
    from pytest_cpg.planners import CEM

    class Local(CEM):
        name = 'local'

    return {'local': Local}
"""


@pytest.mark.usefixtures("own_hashes")
def test_a_report_is_the_same_from_two_processes_and_after_one_was_killed(repository):
    more = {"looks": ', stop="sequential", max_episodes=50', "uneven": ", episodes=37"}
    if find_spec("cloudpickle") is not None:
        repository.add("conftest.py", PLANNER)
        # A class that no module knows.
        more["local"] = ', planner="local"'
    for name, one in more.items():
        write(repository, more=one, name=f"test_{name}")
    killed = "if is_first(): os.kill(os.getpid(), signal.SIGKILL)"
    write(repository, killed, name="test_killed")
    alone, expected = gates(repository)
    shared, found = gates(repository, "--cpg-workers=2")
    assert alone.ret == shared.ret == 0
    assert (repository.path / "flag").exists()
    assert len(found) == 2 * (len(more) + 1)
    assert found == expected


# What blocks are put together from differs no more in these.
@pytest.mark.slow
@pytest.mark.usefixtures("own_hashes")
def test_another_report_is_the_same_from_two_processes(repository):
    write(repository, more=', metric="return"')
    assert gates(repository)[1] == gates(repository, "--cpg-workers=2")[1]


COUNTED = """
import os
from pathlib import Path

import pytest
from conftest import Track

COUNTS = Path(__file__).parent


def note(kind):
    with (COUNTS / f"{kind}-{os.getpid()}.count").open("a") as file:
        file.write(".")


class Counted(Track):
    name = "counted"

    def __setstate__(self, state):
        self.__dict__.update(state)
        note("task")


class Model:
    def __init__(self):
        self.weights = [0.0] * 1000

    def __call__(self, observations, actions):
        return observations + actions

    def __setstate__(self, state):
        self.__dict__.update(state)
        note("model")


TASK, MODEL = Counted(), Model()


@pytest.mark.parametrize("_", [
    pytest.param(0, marks=pytest.mark.cpg(planner="cem")),
    pytest.param(1, marks=pytest.mark.cpg(planner="random-shooting")),
])
@pytest.mark.cpg(task=TASK, max_verdict="MODEL BOTTLENECK")
def test_gate(benchmark_runner, _):
    benchmark_runner.compare(learned=MODEL)


@pytest.mark.cpg(task="track", max_verdict="MODEL BOTTLENECK")
def test_lambda(benchmark_runner):
    benchmark_runner.compare(learned=lambda observations, actions: observations - actions)
"""


def test_a_worker_gets_a_task_and_a_model_once_and_a_lambda_as_it_is(repository):
    repository.makepyfile(test_gates=COUNTED)
    result = repository.runpytest_subprocess("--cpg-workers=2", "--cpg-no-cache")
    result.assert_outcomes(passed=3)
    counts = {path.name: path.stat().st_size for path in repository.path.glob("*.count")}
    assert set(counts.values()) == {1}
    assert {name.partition("-")[0] for name in counts} == {"task", "model"}


ODD = """
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__('odd one')


"""
LOCKED = """
class Locked:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, observations, actions):
        return observations


model = Locked()
"""
IN_WORKER = "if multiprocessing.parent_process()"
WRONG = {
    "raises": (f"{IN_WORKER} and late(): raise KeyError('mine')", ["KeyError: 'mine'"]),
    "nan": (
        f"{IN_WORKER} and late(): return observations  * float('nan')",
        ["The model predicted NaN, so there is no verdict: episode"],
    ),
    "another": (f"{IN_WORKER}: return observations", ["answers otherwise"]),
    "an_exception_that_cannot_be_sent": (f"{IN_WORKER}: raise Odd(1, 2)", ["Odd: odd one"]),
    "ends_its_process": (
        f"{IN_WORKER}: os._exit(0)",
        ["learned arm, episodes ", ": the process that ran them died 3 times"],
    ),
    "a_warning_that_is_an_error_here": (
        f"{IN_WORKER} and late(): __import__('warnings').warn('far away')",
        ["UserWarning: far away"],
    ),
    "a_model_that_cannot_be_sent": (
        None,
        ["cannot be sent to another process", "without --cpg-workers"],
    ),
}


def test_what_goes_wrong_in_a_worker_is_said_as_here(repository):
    for name, (line, _) in WRONG.items():
        text = LOCKED if line is None else ODD + MIRRORED.format(line=line)
        write(repository, text=text, name=f"test_{name}")
    # Arms of this task are kept, which those of the other are not.
    repository.change("test_raises.py", '"track", max', '"maze", max')
    write(repository, f"{IN_WORKER}: time.sleep(600)", ", timeout=3", name="test_hangs")
    result = repository.runpytest_subprocess("--cpg-workers=2", "-W", "error", timeout=300)
    assert result.ret == 1
    # The other gate of each file is not lost.
    result.assert_outcomes(passed=len(WRONG) + 1, failed=len(WRONG) + 1)
    found = of_files(result, "test_gate")
    for name, (_, lines) in WRONG.items():
        for line in lines:
            assert line in found[f"test_{name}.py"]
    assert "INCOMPLETE after" in found["test_hangs.py"]
    assert 'File "' in found["test_raises.py"]
    assert not re.findall(r'File "\S*pytest_cpg/', result.stdout.str())


POOL = """
from concurrent.futures import ThreadPoolExecutor


class Pool(ThreadPoolExecutor):
    __hash__ = None


@pytest.fixture(scope="session")
def cpg_executor():
    with Pool(2) as executor:
        yield executor
"""


def test_any_executor_may_run_the_episodes(repository):
    write(repository)
    _, expected = gates(repository)
    repository.add("conftest.py", POOL)
    result, found = gates(repository)
    assert result.ret == 0
    assert found == expected
    repository.change("conftest.py", "        yield", "        executor.shutdown()\n        yield")
    refused = repository.runpytest()
    assert refused.ret == 1
    assert "takes no more calls" in flat(refused)


def test_an_address_is_told_where_a_cluster_belongs(repository):
    result = repository.runpytest("--cpg-workers=tcp://there:8786")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    client = "distributed.Client('tcp://there:8786')"
    assert f"return {client}.get_executor() from a fixture cpg_executor" in flat(result)


def test_a_task_that_is_another_in_a_worker_is_refused(repository):
    repository.change("conftest.py", "< 0.3)", "< RADIUS)")
    configure = "def pytest_configure():\n    global RADIUS\n    RADIUS = 0.5\n"
    repository.add("conftest.py", f"RADIUS = 0.3\n\n\n{configure}")
    write(repository)
    result = repository.runpytest_subprocess("--cpg-workers=2")
    assert result.ret == 1
    assert "are not in a worker what they are in this process" in flat(result)


def test_a_script_without_a_guard_is_told(repository):
    write(repository)
    call = "pytest.main(['--cpg-workers=2', '-k', 'not other'])"
    repository.write("run.py", f"import sys\nimport pytest\n\nsys.exit({call})\n")
    result = repository.runpython(repository.path / "run.py")
    assert result.ret == 1
    assert "guard the call in your script" in flat(result)


def test_what_runs_episodes_elsewhere_is_chosen_once(repository):
    write(repository)
    result = repository.runpytest("--cpg-workers=2", "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*Leave one of them out*"])


def test_what_is_no_executor_is_refused(repository):
    fixture = "@pytest.fixture(scope='session')\ndef cpg_executor():\n    return 4"
    repository.add("conftest.py", fixture)
    write(repository)
    result = repository.runpytest()
    assert result.ret == 1
    assert "cpg_executor gives 4: return a concurrent.futures executor" in flat(result)
