import signal
import threading
import time

import numpy as np
import pytest

from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import bind
from pytest_cpg.world_models.binding import tiling
from pytest_cpg.world_models.binding.tiling import TILE, tiled

ROWS = np.random.default_rng(0).normal(size=(100, 2))
ACTIONS = ROWS[:8]


class Shifting:
    """Says in which threads it was asked."""

    def __init__(self, together=1):
        self.threads = set()
        # So many have to be asking at once.
        self.meeting = threading.Barrier(together, timeout=60)

    def rollout(self, latents, actions):
        if len(latents) == TILE:
            self.meeting.wait()
        self.threads.add(threading.current_thread())
        return latents[:, None] + np.cumsum(actions, axis=1)


class ThreadSafe(Shifting):
    thread_safe = True


class Derived(ThreadSafe):
    """May keep anything between calls, and says nothing of it."""


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
    latents = np.tile(ROWS, (4 * TILE // len(ROWS) + 1, 1))[: 4 * TILE]
    plans = latents[:, None].repeat(3, axis=1)
    monkeypatch.setattr(tiling, "own_share", lambda: 2)
    safe = ThreadSafe()
    rollout = rollout_of(safe)
    safe.meeting = threading.Barrier(2, timeout=60)
    found = rollout(latents, plans)
    assert threading.current_thread() not in safe.threads
    for alone in (Shifting(), Derived()):
        assert np.array_equal(rollout_of(alone)(latents, plans), found)
        assert alone.threads == {threading.current_thread()}

    monkeypatch.setattr(tiling, "own_share", lambda: 1)
    safe = ThreadSafe()
    assert np.array_equal(rollout_of(safe)(latents, plans), found)
    assert safe.threads == {threading.current_thread()}


def test_there_are_no_more_threads_than_tiles():
    threads = set()

    def note(rows):
        threads.add(threading.current_thread())
        return rows

    tiled(note, rows=50, threads=64)(ROWS)
    assert len(threads) <= 2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("row", [0, 99])
def test_a_stop_iteration_is_an_error_like_any_other(threads, row):
    def stop(rows):
        if (rows == ROWS[row]).all(axis=1).any():
            raise StopIteration("nothing is left")
        return rows

    with pytest.raises(StopIteration, match="nothing is left"):
        tiled(stop, rows=10, threads=threads)(ROWS)


def test_what_is_broken_off_asks_no_more():
    asked = []

    def refuse(rows):
        asked.append(len(rows))
        if (rows == ROWS[0]).all():
            raise KeyError("at once")
        time.sleep(0.01)
        return rows

    with pytest.raises(KeyError):
        tiled(refuse, rows=1, threads=2)(ROWS)
    before = len(asked)
    time.sleep(0.05)
    assert len(asked) == before < 50


def test_what_a_thread_raises_reaches_the_caller():
    def refuse(rows):
        if (rows == ROWS[99]).all(axis=1).any():
            raise KeyError("the last row")
        return rows

    with pytest.raises(KeyError, match="the last row"):
        tiled(refuse, rows=10, threads=2)(ROWS)


def test_threads_are_in_the_modes_of_torch_that_the_caller_is_in():
    torch = pytest.importorskip("torch")
    weights = torch.randn(2, 2, generator=torch.Generator().manual_seed(0))

    def modes(rows):
        mixed = (torch.tensor(rows, dtype=torch.float32) @ weights).dtype == torch.bfloat16
        found = (torch.is_inference_mode_enabled(), torch.is_grad_enabled(), mixed)
        return np.tile(found, (len(rows), 1))

    def found():
        return tiled(modes, rows=10, threads=2)(ROWS)[[0, -1]].tolist()

    assert found() == [[0, 1, 0]] * 2
    with torch.no_grad():
        assert found() == [[0, 0, 0]] * 2
    with torch.inference_mode(), torch.autocast("cpu"):
        assert found() == [[1, 0, 1]] * 2


def test_threads_warn_of_numbers_as_the_caller_does():
    with np.errstate(divide="ignore"):
        assert np.isinf(tiled(lambda rows: rows / 0, rows=10, threads=2)(1 + ROWS**2)).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        tiled(lambda rows: rows / 0, rows=10, threads=2)(1 + ROWS**2)


def test_an_alarm_ends_the_call_with_the_tiles_under_way():
    asked = []

    def sleep(rows):
        asked.append(threading.current_thread())
        time.sleep(0.3)
        return rows

    def ring(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(TimeoutError):
            tiled(sleep, rows=1, threads=2)(ROWS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(asked) < 50
    assert not any(thread.is_alive() for thread in asked)
