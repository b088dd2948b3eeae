import signal
import threading
import time

import numpy as np
import pytest

from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import bind, tiling
from pytest_cpg.world_models.tiling import tiled

ROWS = np.random.default_rng(0).normal(size=(100, 2))
ACTIONS = ROWS[:8]


class Shifting:
    """Says in which threads it was asked."""

    def __init__(self):
        self.threads = set()

    def rollout(self, latents, actions):
        self.threads.add(threading.get_ident())
        return latents[:, None] + np.cumsum(actions, axis=1)


class ThreadSafe(Shifting):
    thread_safe = True


def rollout_of(model):
    task = maze()
    found = bind(model, task, probe_states=task.reset(np.arange(8)), probe_actions=ACTIONS)
    model.threads.clear()
    return found.rollout


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_tiles_come_in_their_order_from_any_number_of_threads(threads):
    def slow_first(rows):
        time.sleep(0.02 if rows[0, 0] == ROWS[0, 0] else 0)
        return 2 * rows

    found = tiled(slow_first, rows=7, threads=threads)(ROWS)
    assert np.array_equal(found, 2 * ROWS)


def test_a_thread_safe_model_is_asked_on_all_processors_of_this_process(monkeypatch):
    latents, plans = np.tile(ROWS, (16, 1)), np.tile(ROWS, (16, 1))[:, None].repeat(3, axis=1)
    monkeypatch.setattr(tiling, "own_share", lambda: 2)
    safe, plain = ThreadSafe(), Shifting()
    found = [rollout_of(model)(latents, plans) for model in (safe, plain)]
    assert len(safe.threads - {threading.get_ident()}) == 2
    assert plain.threads == {threading.get_ident()}
    assert np.array_equal(*found)

    monkeypatch.setattr(tiling, "own_share", lambda: 1)
    assert np.array_equal(rollout_of(safe)(latents, plans), found[0])
    assert safe.threads == {threading.get_ident()}


def test_what_a_thread_raises_reaches_the_caller():
    def refuse(rows):
        if (rows == ROWS[99]).all(axis=1).any():
            raise KeyError("the last row")
        return rows

    with pytest.raises(KeyError, match="the last row"):
        tiled(refuse, rows=10, threads=2)(ROWS)


def test_threads_are_in_the_mode_of_torch_that_the_caller_is_in():
    torch = pytest.importorskip("torch")

    def mode(rows):
        return np.full_like(rows, torch.is_inference_mode_enabled())

    assert not tiled(mode, rows=10, threads=2)(ROWS).any()
    with torch.inference_mode():
        assert tiled(mode, rows=10, threads=2)(ROWS).all()


def test_an_alarm_is_heard_while_a_thread_hangs():
    ended = threading.Event()

    def hang(rows):
        ended.wait(60)
        return rows

    def ring(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    begun = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            tiled(hang, rows=10, threads=2)(ROWS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        ended.set()
    assert time.monotonic() - begun < 30
