"""What was broken, what the user saw, and the exit code: nothing green, no frame of ours."""

import os
import re
import sys
import time

import pytest
from sessions import flat, tell_workers

from pytest_cpg.gates import GATES
from pytest_cpg.report.document import read

HEAD = """
import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest

calls = []


def late():
    # Not while the model is checked, before the first arm.
    calls.append(1)
    return len(calls) > 30

"""
GATE = """

@pytest.mark.cpg(task="track")
def test_gate(benchmark_runner):
    benchmark_runner.compare(learned=model)


@pytest.mark.cpg(task="track", model="right")
def test_other(cpg): ...
"""


def model(*lines, result="observations + actions"):
    body = "".join(f"    {line}\n" for line in lines)
    return f"def model(observations, actions):\n{body}    return {result}\n"


# By name: the model, and what is said of it.
BROKEN_MODELS = {
    "raises": (model("if late(): raise RuntimeError('mine')"), "RuntimeError: mine"),
    "recurses": (model("if late(): return model(observations, actions)"), "RecursionError"),
    "exits": (model("if late(): sys.exit(0)"), "SystemExit: 0"),
    "exits_by_256": (model("if late(): os._exit(256)"), "SystemExit: os._exit(0) would have"),
    "skips": (model("if late(): pytest.skip('no GPU')"), "off: Skipped: no GPU That is no"),
    "xfails": (model("if late(): pytest.xfail('known')"), "off: XFailed: known That is no"),
    "nan": (model("if late(): return observations * np.nan"), "The model predicted NaN, so"),
    "wrong_shape": (model(result="observations[:, :0]"), "Return rows of 1"),
    "another_shape": (model("if late(): return observations[:1]"), "shape"),
    "text": (model(result="'far'"), "'model' is not usable: a str came back"),
    "blind": (model(result="observations + 1.0"), "ignores the action"),
    "random": (model(result="observations + actions + random.random()"), "different results"),
    "remembers": (model(result="observations + actions + late()"), "answers otherwise"),
    "takes_no_action": ("def model(observations): return observations", "model"),
    "is_no_model": ("model = 3", "model"),
}
EXCUSES = {
    "skip": "pytest.skip('no GPU')",
    "skip_of_unittest": "raise unittest.SkipTest('no GPU')",
    "xfail": "pytest.xfail('known')",
}
CASE = """
import unittest


@pytest.mark.cpg(task="track")
class TestGates(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def take(self, benchmark_runner):
        self.benchmark_runner = benchmark_runner

    def test_{name}(self):
        try:
            self.benchmark_runner.compare(learned=model)
        except ZeroDivisionError:
            {line}
"""


def files_of(models):
    """Return a file for each model, by name, of a test of that name and of another gate."""
    return {
        f"test_{name}.py": HEAD + text + GATE.replace("test_gate", f"test_{name}")
        for name, text in models.items()
    }


@pytest.fixture(scope="module")
def broken(recorded):
    """A session of broken models, and of excuses of a unittest.TestCase in and after one."""
    files = files_of({name: text for name, (text, _) in BROKEN_MODELS.items()})
    for name, line in EXCUSES.items():
        for place, text in {"within": line, "later": "1 / 0"}.items():
            case = CASE.format(name=f"{name}_{place}", line=line)
            files[f"test_{name}_{place}.py"] = HEAD + model(f"if late(): {text}") + case
    return recorded(files, "-W", "ignore")


@pytest.mark.parametrize("name", BROKEN_MODELS)
def test_a_broken_model_is_named_without_frames_of_ours(broken, name):
    said = flat(broken.section(f"test_{name}"))
    assert BROKEN_MODELS[name][1] in said
    # A traceback ends in the user's file, whatever it went through.
    assert not re.findall(r"pytest_cpg/\S+\.py:\d+: ", said)


def test_a_broken_model_costs_no_other_gate(broken):
    cases = 2 * len(EXCUSES)
    broken.result.assert_outcomes(passed=len(BROKEN_MODELS), failed=len(BROKEN_MODELS) + cases)
    assert "INTERNALERROR" not in flat(broken.result)


@pytest.mark.parametrize("place", ["within", "later"])
@pytest.mark.parametrize("name", EXCUSES)
def test_a_test_case_hides_no_comparison_that_was_broken_off(broken, name, place):
    section = broken.section(f"TestGates.test_{name}_{place}")
    assert "a comparison was broken off: " in flat(section)


def write(repository, text):
    repository.makepyfile(test_gates=HEAD + text + GATE)


def run(repository, text, *options):
    write(repository, text)
    return repository.runpytest_inprocess(*options, no_reraise_ctrlc=True)


def run_apart(repository, text, *options):
    """Like `run`, for what must not happen to the process of these tests."""
    write(repository, text)
    return repository.runpytest_subprocess(*options)


def check(result, code, said):
    output = result.stdout.str() + result.stderr.str()
    assert result.ret == code
    assert said in " ".join(output.split()) or said in output
    assert "INTERNALERROR" not in output
    # A traceback ends in the user's file, whatever it went through.
    assert not re.findall(r"(?m)^\S*pytest_cpg/\S+\.py:\d+: ", output)
    return output


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("pytest.exit('enough', 0)", 1, "did not report"),
        ("raise KeyboardInterrupt", 2, "interrupted in learned, step"),
    ],
    ids=["leaves pytest", "interrupted"],
)
def test_a_model_that_ends_the_session_passes_no_gate(repository, line, code, said):
    check(run(repository, model(f"if late(): {line}")), code, said)


def test_a_thread_that_ends_the_session_does_not_pass_it(repository):
    ends = "if late(): thread = threading.Thread(target=os._exit, args=(0,)); thread.start()"
    check(run_apart(repository, model(f"{ends}; thread.join()")), 1, "os._exit(0) would have ended")


def test_what_a_model_raises_is_shown_without_frames_of_ours(repository):
    # Arms of this task are kept, which those of the other are not.
    write(repository, model("if late(): raise RuntimeError('mine')"))
    repository.change("test_gates.py", "track", "maze")
    output = check(repository.runpytest("-k", "test_gate"), 1, "RuntimeError: mine")
    assert not re.findall(r'File "\S*pytest_cpg/', output)


FORKS = """
def fork():
    child = os.fork()
    if child:
        open("child", "w").write(str(child))


"""
LATE = """

def test_unit():
    parent = PID != os.getpid() and os.getppid()
    while parent and os.getppid() == parent:
        time.sleep(0.05)
    assert PID != os.getpid()
"""


def test_a_model_that_forks_leaves_reports_to_its_parent(repository):
    text = model("if late() and len(calls) == 40: fork()")
    write(repository, f"PID = os.getpid()\n{FORKS}{text}")
    repository.add("test_gates.py", LATE)
    result = repository.runpytest_subprocess("-q", "--cpg-md=out.md", "-W", "ignore")
    assert result.ret == 1
    # A child that went on would have waited for its parent's end, and passed.
    child = int(repository.text("child"))
    deadline = time.monotonic() + 60
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "failed" in repository.text("out.md").splitlines()[1]


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


HARMLESS = {
    "changes_the_seeds": ("random.seed(0)", "np.random.seed(0)"),
    "changes_its_input": ("observations += actions; actions *= 0",),
    "forks": ("pid = os.fork() if late() and len(calls) < 33 else 1", "pid or os._exit(0)"),
    "leaks": ("calls.append(np.zeros((100, 1000)))",),
    "sets_an_alarm": ("signal.alarm(0)",),
    "starts_a_thread": ("threading.Thread(target=time.sleep, args=(0,)).start()",),
    # Last of all, as the others would be there, too.
    "works_elsewhere": ("os.chdir('/')",),
}


@pytest.fixture(scope="module")
def harmless(recorded):
    """A session of models that do something besides."""
    changed = {"changes_its_input": "observations"}
    models = {
        name: model(*lines, result=changed.get(name, "observations + actions"))
        for name, lines in HARMLESS.items()
    }
    return recorded(files_of(models), "--cpg-json=found.json", "-W", "ignore")


@pytest.mark.parametrize("name", HARMLESS)
def test_what_a_model_does_besides_leaves_the_gate_alone(harmless, name):
    results = outcomes(harmless.folder / "found.json")
    other = results[f"test_{name}.py::test_other"]
    ours = results.get(f"test_{name}.py::test_{name}")
    # The other gate judges the same model, which does nothing besides. Refusing it is as good.
    assert ours == other or "model" in flat(harmless.section(f"test_{name}"))


def outcomes(report):
    """Return what the arms of a report's gates did, by their names."""
    results = {one.name: one.judgement.result for one in read(report, GATES).comparisons}
    return {
        name: (r.verdict, r.learned.successes.tolist(), r.learned.returns.tolist())
        for name, r in results.items()
    }


@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_gates_of_workers_that_end_are_named(repository, how):
    interrupt = f"len(calls) == 40: os.kill({tell_workers(repository)}, signal.SIGINT)"
    line, options = {
        "killed": ("late(): os._exit(1)", ("2", "--dist=each", "--max-worker-restart=0")),
        "interrupted": (f"late() and {interrupt}", ("1",)),
    }[how]
    result = run_apart(repository, model(f"if {line}"), "-n", *options)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*- cpg: 2 gates*not reported*", " ! test_gate *did not report"])


def test_gates_of_a_worker_that_breaks_are_in_the_report(repository):
    odd = "\n\n@pytest.fixture(autouse=True)\ndef odd(record_property):\n"
    odd += "    record_property('x', object())\n"
    result = run(repository, model() + odd, "-n", "1", "--cpg-md=out.md")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    assert "2 not reported" in repository.text("out.md")


def test_workers_that_end_before_they_say_anything_are_missed(repository, monkeypatch):
    repository.add("conftest.py", "import os\n'PYTEST_XDIST_WORKER' in os.environ and os._exit(0)")
    said = "no xdist worker said which gates there are before it ended"
    options = "-n", "1", "--max-worker-restart=0"
    assert said not in run(repository, model(), *options).stdout.str()
    monkeypatch.setenv("CI", "true")
    result = run(repository, model(), *options)
    assert result.ret != 0
    assert said in flat(result)


@pytest.mark.parametrize(
    ("name", "is_parameter", "workers", "code"),
    [
        ("id", False, ("-n", "1"), 1),
        ("id", True, (), 1),
        ("group", False, (), 2),
        ("group", True, ("-n", "1"), 1),
    ],
)
def test_a_name_that_cannot_be_sent_is_refused(repository, name, is_parameter, workers, code):
    marker = f'pytest.mark.cpg(task="track", model="right", {name}="a\\ud800")'
    if is_parameter:
        marker = f'pytest.mark.parametrize("_", [pytest.param(1, marks={marker})])'
    arguments = "cpg, _" if is_parameter else "cpg"
    text = f"{model()}\n\n@{marker}\ndef test_named({arguments}): ...\n"
    result = run(repository, text, *workers)
    check(result, code, f"{name}: need a name without lone surrogates, got 'a\\ud800'")


def test_a_gate_whose_worker_ends_is_missed(repository):
    result = run(repository, model("if late(): os._exit(1)"), "-n", "1")
    check(result, 1, "did not report")


def test_a_cache_folder_that_is_a_file_costs_only_time(repository):
    repository.write(".pytest_cache/d/cpg-arms", "")
    result = run(repository, model())
    check(result, 0, "2 passed")


@pytest.mark.usefixtures("own_hashes")
def test_two_sessions_at_once_lose_nothing(repository):
    run(repository, model())
    command = [sys.executable, "-mpytest", "-q", "--cpg-update-baseline"]
    with (repository.path / "said").open("w+", encoding="utf-8") as said:
        command += ["--cpg-html=page.html", "--cpg-seed=3"]
        both = [
            repository.popen([*command, f"--cpg-json={number}.json"], stdout=said, stderr=said)
            for number in range(2)
        ]
        codes = [process.wait() for process in both]
    assert codes == [0, 0], repository.text("said")
    assert outcomes(repository.path / "0.json") == outcomes(repository.path / "1.json")
    assert repository.text("page.html").rstrip().endswith("</html>")
    check(repository.runpytest("--cpg-seed=3", "--cpg-drift=fail"), 0, "2 passed")


@pytest.mark.usefixtures("torch")
def test_networks_are_left_as_they_were(repository):
    before = "import torch\nnet = torch.nn.Linear(2, 1).train()\n"
    before += model(result="net(torch.cat([observations, actions], -1))")
    after = "\n\ndef test_after():\n    assert net.training\n"
    after += "    assert not torch.is_inference_mode_enabled()\n"
    gate = GATE.replace('"track"', '"track", max_verdict="MODEL BOTTLENECK"', 1)
    repository.makepyfile(test_gates=HEAD + before + gate + after)
    result = repository.runpytest("-W", "ignore")
    result.assert_outcomes(passed=3)


FIRST_IMPORT = """
import os
import signal
import sys


class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupts())
"""
ACCOUNTING = """
import os
import signal

from pytest_cpg.plugin import closing

closing.unjudged_findings = lambda *_, **named: os.kill(os.getpid(), signal.SIGINT)
"""
UNBUILT = """
import pytest


@pytest.mark.cpg(task="maze", model="oracle", episodes=5)
def test_gate(cpg): ...
"""


@pytest.mark.parametrize(
    ("interrupts", "said"),
    [
        (FIRST_IMPORT, "! KeyboardInterrupt !"),
        (ACCOUNTING, "Exit: interrupted while gates were accounted for"),
    ],
    ids=["first import", "accounting"],
)
def test_an_interruption_is_said_without_a_traceback(pytester, monkeypatch, interrupts, said):
    pytester.makepyfile(interrupts=interrupts, test_gates=UNBUILT)
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    options = ("-p", "interrupts", "-p", "no:hypothesispytest", "--cpg-seed=3")
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    output = result.stdout.str() + result.stderr.str()
    assert said in output
    assert "Traceback" not in output
