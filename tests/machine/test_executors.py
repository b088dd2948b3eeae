"""Calls on workers that may die, and what is sent to them."""

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from pytest_cpg.contracts import ComponentError, CpgError, WorldModelError
from pytest_cpg.machine import workers
from pytest_cpg.machine.workers import Call, Crew, Workload, run_all, workers_of

CANCELLED = object()


class Scripted:
    """Answers each call as it is told to, in the order of the calls."""

    workers = 2

    def __init__(self, *answers):
        self.answers = list(answers)
        self.equipped = []

    def submit(self, equipped):
        self.equipped.append(equipped)
        future, answer = Future(), self.answers.pop(0)
        if answer is CANCELLED:
            future.cancel()
        elif isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future


def run(script, count, tick=lambda done: None):
    calls = [Call(f"call {place}", script.submit) for place in range(count)]
    return dict(run_all(script, calls, tick=tick))


def test_every_result_comes_with_its_place_and_is_counted():
    told = []
    assert run(Scripted("a", "b", "c"), 3, told.append) == {0: "a", 1: "b", 2: "c"}
    assert told[-1] == 3


def test_the_first_workers_get_what_they_need_and_others_when_they_ask():
    script = Scripted("a", "b", None, "c")
    assert run(script, 3) == {0: "a", 1: "b", 2: "c"}
    assert script.equipped == [True, True, False, True]


def test_a_call_whose_worker_died_is_made_again():
    script = Scripted(BrokenProcessPool("gone"), "a")
    assert run(script, 1) == {0: "a"}


def test_a_call_that_ends_every_worker_is_named():
    with pytest.raises(WorldModelError, match="call 0: the process that ran them died 3 times"):
        run(Scripted(*(BrokenProcessPool("gone") for _ in range(3))), 1)


def test_what_the_watcher_raises_ends_all():
    def enough(done):
        raise TimeoutError

    with ThreadPoolExecutor(1) as pool:
        waits = threading.Event()
        call = Call("waiting", lambda equipped: pool.submit(waits.wait, 5))
        later = Call("later", lambda equipped: pool.submit(waits.set))
        with pytest.raises(TimeoutError):
            dict(run_all(pool, [call, later], tick=enough))
        waits.set()


def test_a_closed_executor_is_named():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    call = Call("first", lambda equipped: pool.submit(print))
    with pytest.raises(ComponentError, match="takes no more calls"):
        dict(run_all(pool, [call], tick=lambda done: None))


def test_an_unknown_number_of_workers_is_taken_for_two():
    assert workers_of(object()) == 2
    with ThreadPoolExecutor(3) as pool:
        assert workers_of(pool) == 3


@pytest.mark.parametrize(("answer", "did"), [(None, "gave None for"), (CANCELLED, "cancelled")])
def test_an_executor_whose_futures_give_nothing_is_named(answer, did):
    script = Scripted(*[answer] * 9)
    with pytest.raises(ComponentError, match=rf"{did} call 0, 3 times\. Let its futures give"):
        run(script, 1)
    assert len(script.answers) == 6


def test_a_call_that_is_cancelled_once_is_made_again():
    assert run(Scripted(CANCELLED, "a"), 1) == {0: "a"}


class Timed(Executor):
    """Gives the seconds that a call took beside what it returns."""

    def submit(self, call, /, *arguments, **named):
        future = Future()
        future.set_result((call(*arguments, **named), 0.5))
        return future


class Doubling:
    def run(self, block):
        return 2 * block


def test_an_executor_whose_futures_give_something_else_is_named():
    crew = Crew(Timed(), Workload.of((), Doubling, (), name="doubling"))
    with pytest.raises(ComponentError, match=r"Timed object .* gave \(.* for 21\. Let its futures"):
        dict(crew.run([21], tick=lambda done: None))


def test_an_executor_that_refuses_a_call_is_named_with_what_it_says():
    def submit(_):
        raise TypeError("no such queue")

    with ThreadPoolExecutor(1) as pool, pytest.raises(ComponentError, match="no such queue"):
        dict(run_all(pool, [Call("first", submit)], tick=lambda done: None))


@pytest.mark.parametrize("has_cloudpickle", [True, False])
def test_what_is_sent_arrives(has_cloudpickle, monkeypatch):
    if has_cloudpickle:
        pytest.importorskip("cloudpickle")
        factor = 3
        assert workers.load(workers.dump(lambda x: factor * x, "it"))(2) == 6
        with pytest.raises(ComponentError, match=r"it cannot be sent .* such as locks, open files"):
            workers.dump(threading.Lock(), "it")
    else:
        monkeypatch.setitem(sys.modules, "cloudpickle", None)
        with pytest.raises(ComponentError, match=r"it cannot be sent .* or install cloudpickle"):
            workers.dump(lambda: 0, "it")
    assert workers.load(workers.dump([1, 2.5, "c"], "it")) == [1, 2.5, "c"]


def test_modules_are_found_where_the_sender_found_them(tmp_path, monkeypatch):
    (tmp_path / "sent_module.py").write_text("class Model:\n    size = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = __import__("sent_module").Model()
    data = workers.dump(model, "it")
    code = (
        "import pickle, sys; from pytest_cpg.machine import workers; "
        "print(workers.load(pickle.load(sys.stdin.buffer)).size)"
    )
    sent = pickle.dumps(data)
    received = subprocess.run([sys.executable, "-c", code], input=sent, stdout=-1, check=True)
    assert received.stdout.strip() == b"3"


def test_a_module_that_is_not_found_is_named(tmp_path, monkeypatch):
    path = tmp_path / "lost_module.py"
    path.write_text("class Model:\n    size = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = workers.dump(__import__("lost_module").Model(), "it")
    monkeypatch.delitem(sys.modules, "lost_module")
    path.unlink()
    with pytest.raises(ComponentError, match=r"cannot load what it was sent \(No module named"):
        workers.load(data)


class Broken:
    def run(self, block):
        try:
            return 1 / 0
        except ZeroDivisionError as error:
            raise CpgError("No plan.") from error


def test_an_error_is_sent_with_the_lines_of_its_cause(monkeypatch):
    monkeypatch.setitem(workers._LOADED, "key", Broken())
    with pytest.raises(CpgError) as caught:
        workers.run_block(("key",), (), workers.Sender(1, os.getpid(), []), "block")
    here = caught.value.lines
    assert "return 1 / 0" in here
    sent = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # written here
    assert sent.__cause__ is None
    assert sent.whole == f"No plan.\n\n{here}"
