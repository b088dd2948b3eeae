import os
import subprocess
import sys
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from tempfile import gettempdir

import pytest

from pytest_cpg.machine.pool import WorkerPool

_ON_LINUX = sys.platform == "linux"


@pytest.fixture(scope="module", autouse=True)
def no_torch():
    """Other tests have loaded it here, and what forks workers would take long to load it, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pytest_cpg.machine.pool._ROOMS", ("contracts", "stats", "machine"))
        patch.setattr("pytest_cpg.machine.pool._LIBRARIES", ("numpy.random", "pytest"))
        yield


def test_a_pool_is_new_after_it_was_shut_down():
    pool = WorkerPool(1)
    try:
        assert pool.submit(int, "3").result(30) == 3
        pool.shutdown(wait=False)
        assert pool.submit(int, "4").result(30) == 4
    finally:
        pool.shutdown(wait=False)


def test_a_call_that_came_while_its_pool_broke_is_lost_and_not_waited_for(monkeypatch):
    answers = [Future(), BrokenProcessPool()]

    class Losing(ProcessPoolExecutor):
        def submit(self, *call):
            if not answers:
                return super().submit(*call)
            answer = answers.pop(0)
            if isinstance(answer, Future):
                return answer
            raise answer

    monkeypatch.setattr("pytest_cpg.machine.pool.ProcessPoolExecutor", Losing)
    with WorkerPool(1) as pool:
        lost = pool.submit(int, "3")
        assert pool.submit(int, "4").result(30) == 4
        assert wait([lost], timeout=5).done
        assert isinstance(lost.exception(0), BrokenProcessPool)


@pytest.mark.skipif(not _ON_LINUX, reason="workers are not forked")
def test_workers_draw_numbers_of_their_own_and_so_do_a_users():
    code = (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "from pytest_cpg.machine.pool import WorkerPool\n"
        "draw = '__import__(\\'numpy\\').random.random()'; eval(draw)\n"
        "def users(workers): return ProcessPoolExecutor(workers, get_context('forkserver'))\n"
        "if __name__ == '__main__':\n"
        "    for start in (WorkerPool, WorkerPool, users, users):\n"
        "        print((pool := start(1)).submit(eval, draw).result()); pool.shutdown()\n"
    )
    drawn = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).split()
    assert len(drawn) == len(set(drawn)) == 4


def test_workers_have_the_environment_in_which_their_pool_began(monkeypatch):
    found = []
    for value in ("one", "two"):
        monkeypatch.setenv("OF_A_USER", value)
        with WorkerPool(1) as pool:
            found.append(pool.submit(os.getenv, "OF_A_USER").result())
    assert found == ["one", "two"]


@pytest.mark.parametrize("folder", [gettempdir(), "x" * 90])
def test_workers_start_beside_a_users_modules_and_in_any_folder(tmp_path, folder):
    (tmp_path / "secrets.py").write_text("raise RuntimeError('no module of Python')")
    (tmp_path / folder).mkdir(exist_ok=True)
    code = (
        "import sys; sys.path.remove('')\n"
        "from numpy import random; from pytest_cpg.machine.pool import WorkerPool\n"
        "if __name__ == '__main__': print(WorkerPool(1).submit(abs, -7).result())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("7\n", "")


@pytest.mark.skipif(not _ON_LINUX, reason="workers are not forked")
def test_what_is_loaded_here_is_loaded_in_workers():
    pool = WorkerPool(1)
    try:
        loaded = pool.submit(eval, "set(__import__('sys').modules)").result(30)
    finally:
        pool.shutdown(wait=False)
    assert {"numpy", "pytest", "pytest_cpg.contracts.codec"} <= loaded
    assert "pytest_cpg.plugin.session" not in loaded


def test_workers_end_with_a_process_that_was_killed():
    code = (
        "import os, signal\n"
        "from pytest_cpg.machine.pool import WorkerPool\n"
        "if __name__ == '__main__':\n"
        "    pool = WorkerPool(1)\n"
        "    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The pipe is closed once the worker, which has it too, is gone.
    ended = subprocess.run([sys.executable, "-c", code], stdout=-1, timeout=60, check=False)
    assert int(ended.stdout) > 0
