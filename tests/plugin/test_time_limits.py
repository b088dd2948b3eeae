"""Gates whose time runs out: they say how far they got, and never pass."""

import pytest
from sessions import flat
from ways import mostly_alone

GATES = """
import time

import pytest


calls = []


def slow(observations, actions):
    # Not while it is checked, before the first arm.
    calls.append(1)
    time.sleep(0.5 * (len(calls) > 30))
    return observations + actions


def hanging(observations, actions):
    while len(observations) > 100:
        time.sleep(0.01)
    return observations + actions


def stubborn(observations, actions):
    while len(observations) > 100:
        try:
            time.sleep(10)
        except Exception:
            break
    return observations + actions


@pytest.mark.cpg(task="track"{more})
def test_gate(benchmark_runner):
    benchmark_runner.compare(learned={model})


@pytest.mark.cpg(task="track", model="right")
def test_other(cpg): ...
"""


@mostly_alone
def test_a_gate_that_runs_out_of_time_says_how_far_it_got(repository, workers):
    repository.makepyfile(test_gates=GATES.format(more=", timeout=2", model="slow"))
    result = repository.runpytest(*workers)
    result.assert_outcomes(failed=1, passed=1)
    text = flat(result)
    assert ". Finished: oracle solved 20/20; without the others there is no verdict." in text
    result.stdout.fnmatch_lines(
        [" . test_other *", " FAILED (1): *", " F test_gate *INCOMPLETE after *"]
    )


@pytest.mark.parametrize("model", ["hanging", "stubborn"])
def test_a_model_that_does_not_answer_is_interrupted(repository, model):
    repository.makepyfile(test_gates=GATES.format(more="", model=model))
    result = repository.runpytest("--cpg-timeout=0.2", "test_gates.py::test_gate")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INCOMPLETE after ? s (timeout=0.2)*"])


def test_the_alarm_is_put_back_and_that_of_somebody_else_left_alone(repository):
    repository.makepyfile(
        """
import signal

import pytest


@pytest.fixture
def alarm():
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 600)
    yield
    assert signal.setitimer(signal.ITIMER_REAL, 0)[0] > 0
    signal.signal(signal.SIGALRM, before)


@pytest.mark.cpg(task="track", model="right", timeout=60)
def test_beside_another(alarm, cpg): ...


@pytest.mark.cpg(task="track", model="right", timeout=60)
def test_alone(cpg):
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
"""
    )
    repository.runpytest().assert_outcomes(passed=2)


@pytest.mark.parametrize("options", [("-q",), ("-q", "-n", "1")], ids=" ".join)
def test_a_log_hears_of_a_long_arm_however_quiet_the_session_is(repository, options):
    repository.makepyfile(test_gates=GATES.format(more="", model="right"))
    hurried = "import pytest_cpg.render.progress as shown\nshown._SECONDS_BETWEEN_LINES = 0"
    repository.add("conftest.py", hurried)
    said = flat(repository.runpytest_subprocess("-k", "test_other", *options))
    assert said.count("cpg: test_gates.py::test_other cpg: ") == 1
    assert "cpg: oracle step 11/30, 16 of 20 starts solved" in said
