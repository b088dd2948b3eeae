"""Calls on workers that may die, and what is sent to them."""

import pickle
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.machine import executors
from pytest_cpg.machine.executors import Call, WorkerPool, run_all


class Scripted:
    """Answers each call as it is told to, in the order of the calls."""

    workers = 2

    def __init__(self, *answers):
        self.answers = list(answers)
        self.equipped = []

    def submit(self, equipped):
        self.equipped.append(equipped)
        future, answer = Future(), self.answers.pop(0)
        if isinstance(answer, BaseException):
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
    assert executors.workers_of(object()) == 2
    with ThreadPoolExecutor(3) as pool:
        assert executors.workers_of(pool) == executors.sharers_of(pool) == 3


@pytest.mark.parametrize("has_cloudpickle", [True, False])
def test_what_is_sent_arrives(has_cloudpickle, monkeypatch):
    if has_cloudpickle:
        pytest.importorskip("cloudpickle")
        factor = 3
        assert executors.load(executors.dump(lambda x: factor * x, "it"))(2) == 6
    else:
        monkeypatch.setitem(sys.modules, "cloudpickle", None)
        with pytest.raises(ComponentError, match=r"it cannot be sent .* or install cloudpickle"):
            executors.dump(lambda: 0, "it")
    assert executors.load(executors.dump([1, 2.5, "c"], "it")) == [1, 2.5, "c"]


def test_modules_are_found_where_the_sender_found_them(tmp_path, monkeypatch):
    (tmp_path / "sent_module.py").write_text("class Model:\n    size = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = __import__("sent_module").Model()
    data = executors.dump(model, "it")
    code = (
        "import pickle, sys; from pytest_cpg.machine import executors; "
        "print(executors.load(pickle.load(sys.stdin.buffer)).size)"
    )
    sent = pickle.dumps(data)
    received = subprocess.run([sys.executable, "-c", code], input=sent, stdout=-1, check=True)
    assert received.stdout.strip() == b"3"


def test_a_module_that_is_not_found_is_named(tmp_path, monkeypatch):
    path = tmp_path / "lost_module.py"
    path.write_text("class Model:\n    size = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = executors.dump(__import__("lost_module").Model(), "it")
    monkeypatch.delitem(sys.modules, "lost_module")
    path.unlink()
    with pytest.raises(ComponentError, match=r"cannot load what it was sent \(No module named"):
        executors.load(data)


def test_a_pool_is_new_after_it_was_shut_down():
    pool = WorkerPool(1)
    try:
        assert pool.submit(int, "3").result(30) == 3
        pool.shutdown(wait=False)
        assert pool.submit(int, "4").result(30) == 4
    finally:
        pool.shutdown(wait=False)


def test_workers_end_with_a_process_that_was_killed():
    code = (
        "import os, signal\n"
        "from pytest_cpg.machine.executors import WorkerPool\n"
        "if __name__ == '__main__':\n"
        "    pool = WorkerPool(1)\n"
        "    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The pipe is closed once the worker, which has it too, is gone.
    ended = subprocess.run([sys.executable, "-c", code], stdout=-1, timeout=60, check=False)
    assert int(ended.stdout) > 0
