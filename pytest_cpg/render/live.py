"""Live: what stands behind pytest's own text on a terminal while gates run, and is wiped again.

Imports nothing heavy: sessions without gates may ask for it, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple, TextIO

SECONDS_BETWEEN = 0.1
"""A reader sees no more of it."""
_SAVE, _RESTORE, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"
# How the terminal begins and ends each markup of pytest's.
_MARKUPS = {"light": ("\x1b[2m", "\x1b[22m"), "green": ("\x1b[32m", "\x1b[39m")}


def can_wipe() -> bool:
    """Say whether a terminal, where there is one, can wipe what was shown."""
    return os.environ.get("TERM") != "dumb"


def write_live(stream: TextIO, text: str) -> None:
    """Write what a terminal can show, in as many columns; one that takes nothing breaks nothing."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with suppress(OSError, ValueError):
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()


class LiveText:
    """A text behind the cursor, which stays; ``room`` gives how many columns are free."""

    def __init__(
        self, write: Callable[[str], None], room: Callable[[], int], *, is_plain: bool = True
    ) -> None:
        self._write, self.room, self._is_plain = write, room, is_plain
        self._is_shown = False

    def show(self, *parts: tuple[str, str]) -> None:
        """Show texts with their markup in place of what is shown."""
        self._is_shown = True
        text = "".join(self._marked(text, markup) for text, markup in parts)
        self._write(f"{_SAVE}{text}{_CLEAR}{_RESTORE}")

    def wipe(self) -> None:
        """Leave nothing of it."""
        # At the end of a full line it would wipe the last sign.
        if self._is_shown:
            self._write(_CLEAR)
        self._is_shown = False

    def _marked(self, text: str, markup: str) -> str:
        begin, end = ("", "") if self._is_plain else _MARKUPS.get(markup, ("", ""))
        return f"{begin}{text}{end}"


class AtWork(NamedTuple):
    """What a worker does, ``"learned 7/50 solved"``, and for how many seconds more, as text too."""

    text: str
    seconds: float = 0.0
    left: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.left})" if self.left else self.text


class WorkersLine:
    """Shows how far all workers are; what is told comes in threads, and waits for who prints."""

    def __init__(self, shown: LiveText) -> None:
        self._shown, self._next = shown, 0.0
        self._lock = threading.RLock()
        self._at_work: dict[str, AtWork] = {}

    def take(self, worker: str, told: tuple[str, float, str] | None) -> None:
        """Note what a worker does, None for nothing any more, and show it ten times a second."""
        if told is None:
            self._at_work.pop(worker, None)
        else:
            self._at_work[worker] = AtWork(*told)
        if time.monotonic() < self._next or not self._lock.acquire(blocking=False):
            return
        try:
            self.show()
        finally:
            self._lock.release()

    def show(self) -> None:
        """Show what workers do, as somebody has printed and is done."""
        with self._lock:
            text = workers_text(dict(self._at_work), self._shown.room() - 2)
            if text:
                self._shown.show((f"  {text}", "light"))
            else:
                self._shown.wipe()
            self._next = time.monotonic() + SECONDS_BETWEEN

    @contextmanager
    def wiped(self) -> Iterator[None]:
        """Leave the line to somebody who prints."""
        with self._lock:
            self._shown.wipe()
            try:
                yield
            finally:
                # Who has printed may not be done.
                self._next = time.monotonic() + SECONDS_BETWEEN


def workers_text(at_work: Mapping[str, AtWork], room: int) -> str:
    """Return what all workers do, in so many columns; empty where not even one has room.

    >>> told = {"gw0": AtWork("learned 7/50 solved", 4, "4 s"), "gw1": AtWork("planning 3/8", 9)}
    >>> workers_text(told, 48), workers_text(told, 30)
    ('gw0 learned 7/50 solved (4 s), gw1 planning 3/8', 'gw1 planning 3/8, 1 more')
    """
    names = sorted(at_work, key=lambda name: (len(name), name))
    for count in range(len(names), 0, -1):
        if count < len(names):
            # Whoever ends last says how long all take.
            names.sort(key=lambda name: -at_work[name].seconds)
        more = len(names) - count
        shown = [f"{name} {at_work[name]}" for name in names[:count]]
        text = ", ".join([*shown, *[f"{more} more"] * bool(more)])
        if len(text) <= room:
            return text
    return ""
