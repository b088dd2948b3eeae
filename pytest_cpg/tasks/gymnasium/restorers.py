"""Restorers: ways to put an environment back into a state that it was in, in this process.

Which way makes no difference to what comes of a step: each was checked before it is used. What is
kept of a state never leaves the process; another one gets there by the steps of the episode.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import warnings
import weakref
from copy import deepcopy
from multiprocessing.connection import Connection
from typing import Any, ClassVar, Protocol

import numpy as np

from pytest_cpg.contracts import FloatArray, TaskError
from pytest_cpg.tasks.gymnasium.copies import Copy, copy_of, restored
from pytest_cpg.tasks.gymnasium.player import (
    Player,
    episode_of,
    generator_states,
    generators,
    seed_generators,
)

# Bytes of all copies that are kept at a time, what MuJoCo's solver leaves in each, and processes.
_ROOM, _ARENA, _PROCESSES = 1 << 28, 1 << 19, 128


class Restorer(Protocol):
    """A way to put the environment of a player back.

    ``name`` says it in a report, and at most ``most`` states are kept at a time.
    """

    name: str
    most: int

    def __init__(self, player: Player) -> None: ...

    def begin(self, seed: int) -> tuple[Any, FloatArray]:
        """Reset to a seed's start; return what puts it back there, and its row [R]."""

    def run(
        self, saved: Any, row: FloatArray, actions: FloatArray, repeat: int, *, is_kept: bool
    ) -> tuple[FloatArray, int, Any]:
        """Play on from a state; see `Player.play`. Also return what puts it back there, if kept."""

    def imagine(self, saved: Any, row: FloatArray, plans: FloatArray, repeat: int) -> FloatArray:
        """Return the rows [P, H, R] of plans [P, H, A] from a state."""

    def draw(self, saved: Any) -> Any:
        """Return what a state looks like; see `Player.draw`."""

    def draw_goal(self, seed: int) -> Any:
        """Return what the goal of a seed's episode looks like; see `Player.draw_goal`."""


class CopyRestorer:
    """Keeps copies of an environment; see `copies`.

    Every episode begins with the environment as it was made: neither what was played before nor
    which process it is then has a part in it.
    """

    name = "a copy of its attributes"
    most = _PROCESSES

    def __init__(self, player: Player) -> None:
        self._player = player
        # What the environment holds now, None where nothing says so.
        self._now: Any = None
        with generators(0):
            player.reset(0)
            self._made = self._keep(None)
        self.name, self.most = self._described(self._made[0])

    def begin(self, seed: int) -> tuple[Any, FloatArray]:
        """Reset to a seed's start; see `Restorer`, as for the others."""
        with generators(episode_of(seed)):
            self._restore(self._made[0])
            row = self._player.reset(seed)
            return self._keep(None), row

    def run(
        self, saved: Any, row: FloatArray, actions: FloatArray, repeat: int, *, is_kept: bool
    ) -> tuple[FloatArray, int, Any]:
        """Play on from a state."""
        with generators(saved[1]):
            if self._now is not saved[0]:
                self._restore(saved[0])
            self._now = None
            after, taken = self._player.play(row, actions, repeat)
            return after, taken, self._keep(saved[0]) if is_kept else None

    def imagine(self, saved: Any, row: FloatArray, plans: FloatArray, repeat: int) -> FloatArray:
        """Return the rows [P, H, R] of plans [P, H, A] from a state."""
        after = np.empty((*plans.shape[:2], len(row)))
        with generators(saved[1]) as put_back:
            for place, plan in enumerate(plans):
                if self._now is not saved[0]:
                    self._restore(saved[0])
                    put_back()
                self._now = None
                after[place], _ = self._player.play(row, plan, repeat)
        return after

    def draw(self, saved: Any) -> Any:
        """Return what a state looks like."""
        with generators(saved[1]):
            if self._now is not saved[0]:
                self._restore(saved[0])
            # Who knows what drawing leaves in it.
            self._now = None
            return self._player.draw()

    def draw_goal(self, seed: int) -> Any:
        """Return what the goal of a seed's episode looks like."""
        with generators(episode_of(seed)):
            self._restore(self._made[0])
            self._now = None
            return self._player.draw_goal(seed)

    def _keep(self, last: Any) -> tuple[Any, Any]:
        """Return what puts the environment back, and the global generators."""
        self._now = self._saved(last)
        return self._now, generator_states()

    def _described(self, copy: Any) -> tuple[str, int]:
        size = len(copy.pickled) + sum(data.nbuffer + _ARENA for data, *_ in copy.data)
        name = "MuJoCo's data and a copy of its attributes" if copy.data else self.name
        return name, max(_ROOM // size, _PROCESSES)

    def _saved(self, last: Copy | None) -> Any:
        copy = copy_of(self._player.environment, last)
        self._models = copy.models
        return copy

    def _restore(self, saved: Any) -> None:
        self._player.environment = restored(saved, self._models)
        self._models, self._now = saved.models, saved


class StateRestorer(CopyRestorer):
    """Keeps what the environment's own ``get_state`` returns, for its ``set_state``."""

    name = "its own get_state and set_state"

    def _described(self, copy: Any) -> tuple[str, int]:
        del copy
        return self.name, 1 << 10

    def _saved(self, last: Any) -> Any:
        del last
        return deepcopy(self._player.environment.unwrapped.get_state())

    def _restore(self, saved: Any) -> None:
        self._player.environment.unwrapped.set_state(deepcopy(saved))
        self._now = saved


class ForkRestorer:
    """Keeps a process for each state, of which a fork plays on: one fork a plan.

    It is exact for whatever stands behind an environment: libraries in C, surfaces, engines.
    """

    name = "a fork of its process"
    most = _PROCESSES

    def __init__(self, player: Player) -> None:
        self._root = _Process.root(player)

    def begin(self, seed: int) -> tuple[Any, FloatArray]:
        """Reset to a seed's start."""
        process = self._root.fork()
        return process, process.ask("begin", seed)

    def run(
        self, saved: Any, row: FloatArray, actions: FloatArray, repeat: int, *, is_kept: bool
    ) -> tuple[FloatArray, int, Any]:
        """Play on from a state."""
        process = saved.fork()
        after, taken = process.ask("play", row, actions, repeat)
        return after, taken, process if is_kept else None

    def imagine(self, saved: Any, row: FloatArray, plans: FloatArray, repeat: int) -> FloatArray:
        """Return the rows [P, H, R] of plans [P, H, A] from a state."""
        return np.stack([self.run(saved, row, p, repeat, is_kept=False)[0] for p in plans])

    def draw(self, saved: Any) -> Any:
        """Return what a state looks like."""
        return saved.fork().ask("draw")

    def draw_goal(self, seed: int) -> Any:
        """Return what the goal of a seed's episode looks like."""
        return self._root.fork().ask("draw_goal", seed)


class _Process:
    """Another process that holds an environment; it ends with its last reference here."""

    # Ends of lines in this process: a process that is forked must not hold them open.
    _lines: ClassVar[weakref.WeakSet[socket.socket]] = weakref.WeakSet()

    def __init__(self, line: socket.socket) -> None:
        self._line, self._connection = line, Connection(os.dup(line.fileno()))
        self._lines.add(line)

    @classmethod
    def root(cls, player: Player) -> _Process:
        """Return a fork of this process, which holds the environment of a player."""
        here, there = socket.socketpair()
        with warnings.catch_warnings():
            # A fork has one thread, which is all that it needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            forked = os.fork()
        if not forked:
            try:
                here.close()
                for line in list(cls._lines):
                    line.close()
                # Whoever is forked is waited for by nobody.
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                # A collection would write to every page, which each fork would copy.
                gc.freeze()
                gc.disable()
                if (torch := sys.modules.get("torch")) is not None:
                    # The threads of its pool were not forked, and would be waited for.
                    torch.set_num_threads(1)
                _serve(there, player)
            finally:
                os._exit(1)
        there.close()
        return cls(here)

    def fork(self) -> _Process:
        """Return a fork of it."""
        here, there = socket.socketpair()
        with there:
            socket.send_fds(self._line, [b"fork"], [there.fileno()])
        return _Process(here)

    def ask(self, method: str, *values: Any) -> Any:
        """Return what a method of its player gives; raise TaskError for what it raises."""
        self._line.sendall(b"play")
        self._connection.send((method, values))
        try:
            answer, error = self._connection.recv()
        except EOFError:
            error = "its process has died"
        if error is not None:
            raise TaskError(f"an environment cannot be played on: {error}")
        return answer

    def __del__(self) -> None:
        self._connection.close()
        self._line.close()


def _serve(line: socket.socket, player: Player) -> None:
    """Hold the environment of a player, fork and play as asked, until nobody is left to ask."""
    while True:
        message, handles, *_ = socket.recv_fds(line, 4, 1)
        if not message:
            return
        if message == b"play":
            connection = Connection(os.dup(line.fileno()))
            method, values = connection.recv()
            connection.send(_answered(player, method, values))
            connection.close()
        elif os.fork():
            os.close(handles[0])
        else:
            line.close()
            line = socket.socket(fileno=handles[0])


def _answered(player: Player, method: str, values: tuple[Any, ...]) -> tuple[Any, str | None]:
    """Return what a method of a player gives, and None or what it raises."""
    try:
        if method in ("begin", "draw_goal"):
            # In a process of its own nobody else draws from the generators.
            seed_generators(episode_of(*values), is_for_good=True)
        if method == "begin":
            return player.reset(*values), None
        return getattr(player, method)(*values), None
    except Exception as error:
        return None, repr(error)
