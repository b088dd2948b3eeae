import subprocess
import sys

import pytest

from pytest_cpg.machine.pool import WorkerPool


def test_a_pool_is_new_after_it_was_shut_down():
    pool = WorkerPool(1)
    try:
        assert pool.submit(int, "3").result(30) == 3
        pool.shutdown(wait=False)
        assert pool.submit(int, "4").result(30) == 4
    finally:
        pool.shutdown(wait=False)


def test_workers_draw_numbers_of_their_own():
    pool, drawn = WorkerPool(1), set()
    try:
        for _ in range(2):
            drawn.add(pool.submit(eval, "__import__('numpy').random.random()").result(30))
            pool.shutdown(wait=False)
    finally:
        pool.shutdown(wait=False)
    assert len(drawn) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="workers are not forked")
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
