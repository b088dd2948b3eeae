import subprocess
import sys

from pytest_cpg.machine.pool import WorkerPool


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
        "from pytest_cpg.machine.pool import WorkerPool\n"
        "if __name__ == '__main__':\n"
        "    pool = WorkerPool(1)\n"
        "    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The pipe is closed once the worker, which has it too, is gone.
    ended = subprocess.run([sys.executable, "-c", code], stdout=-1, timeout=60, check=False)
    assert int(ended.stdout) > 0
