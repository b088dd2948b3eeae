"""Progress: one live line on a terminal, one plain line per step of a gate in a verbose log."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_cpg.gates.notation import visible

_SECONDS_BETWEEN = 0.1
_NARROWEST = 24
_SAVE, _RESTORE, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"


def progress_text(what: str, done: int, count: int, unit: str = "") -> str:
    """Return ``asking  31/200 queries``.

    >>> progress_text("asking", 31, 200, "queries")
    'asking  31/200 queries'
    """
    return f"{what}  {done}/{count} {unit}".rstrip()


class LiveLine:
    """Shows progress behind what pytest has printed on its line, and wipes it again."""

    def __init__(self, write: Callable[[str], None], room: Callable[[], int]) -> None:
        self._write = write
        self._room = room
        self._next = 0.0

    def __call__(self, what: str, done: int, count: int, unit: str = "") -> None:
        """Show the text, at most ten times a second and never wider than the line."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _SECONDS_BETWEEN
        room = self._room()
        if room >= _NARROWEST:
            text = visible(f" {progress_text(what, done, count, unit)}")[:room]
            self._write(f"{_SAVE}{text}{_CLEAR}{_RESTORE}")

    def clear(self) -> None:
        """Wipe the line."""
        self._write(_CLEAR)


class LogLines:
    """Writes one line when a step of a gate has come as far as it was to, for logs."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._begun = 0.0
        self._running: tuple[str, int] | None = None
        self._written = False

    def __call__(self, what: str, done: int, count: int, unit: str = "") -> None:
        """Write the line once all is done, with the seconds since the step was begun."""
        if self._running != (what, count):
            self._running, self._begun = (what, count), time.monotonic()
        elif done == count:
            lead = "" if self._written else "\n"
            seconds = time.monotonic() - self._begun
            self._write(f"{lead}  cpg: {progress_text(what, done, count, unit)}, {seconds:.1f} s")
            self._written, self._running = True, None

    def clear(self) -> None:
        """Leave what is written: a log keeps its lines."""


class Watch:
    """Follows one measurement: notes where it is, and shows it.

    Parameters
    ----------
    note : callable
        Told what is running, for the summary of an interrupted session.
    """

    def __init__(self, note: Callable[[str], None], show: LiveLine | LogLines | None) -> None:
        self._note = note
        self._show = show

    def __call__(self, what: str, done: int, count: int, unit: str = "") -> None:
        """Note and show how much of a step is done."""
        self._note(progress_text(what, done, count, unit))
        if self._show:
            self._show(what, done, count, unit)

    def clear(self) -> None:
        """Wipe what is only shown while the measurement runs."""
        if self._show:
            self._show.clear()
