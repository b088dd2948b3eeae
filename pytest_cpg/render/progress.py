"""Progress: one live line on a terminal, one plain line per arm in a verbose log."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_cpg.episodes.arms import ARMS
from pytest_cpg.gates.notation import visible

_SECONDS_BETWEEN = 0.1
_NARROWEST = 24
_SAVE, _RESTORE, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"


def progress_text(arm: str, done: int, count: int) -> str:
    """Return ``arm 2/3 learned  31/50 episodes``; other names stand alone."""
    if arm not in ARMS:
        return f"{arm}  {done}/{count} episodes"
    place = ARMS.index(arm) + 1
    # The last one is only run where there is something to rescore.
    return f"arm {place}/{max(place, len(ARMS) - 1)} {arm}  {done}/{count} episodes"


class LiveLine:
    """Shows progress behind what pytest has printed on its line, and wipes it again.

    Parameters
    ----------
    write : callable
        Writes text to the terminal and flushes.
    room : callable
        Returns the free columns on the current line.
    """

    def __init__(self, write: Callable[[str], None], room: Callable[[], int]) -> None:
        self._write = write
        self._room = room
        self._next = 0.0

    def __call__(self, arm: str, done: int, count: int) -> None:
        """Show the text, at most ten times a second and never wider than the line."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _SECONDS_BETWEEN
        room = self._room()
        if room >= _NARROWEST:
            text = visible(f" {progress_text(arm, done, count)}")[:room]
            self._write(f"{_SAVE}{text}{_CLEAR}{_RESTORE}")

    def clear(self) -> None:
        """Wipe the line."""
        self._write(_CLEAR)


class LogLines:
    """Writes one line when an arm has come as far as it was to, for logs."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._begun = 0.0
        self._running: tuple[str, int] | None = None
        self._written = False

    def __call__(self, arm: str, done: int, count: int) -> None:
        """Write the line once all episodes are done, with the seconds since the arm was begun."""
        if self._running != (arm, count):
            self._running, self._begun = (arm, count), time.monotonic()
        elif done == count:
            lead = "" if self._written else "\n"
            seconds = time.monotonic() - self._begun
            self._write(f"{lead}  cpg: {progress_text(arm, done, count)}, {seconds:.1f} s")
            self._written, self._running = True, None

    def clear(self) -> None:
        """Leave what is written: a log keeps its lines."""


class Watch:
    """Follows one comparison: notes where it is, and shows it.

    Parameters
    ----------
    note : callable
        Told what is running, for the summary of an interrupted session.
    show : LiveLine, LogLines or None
    """

    def __init__(self, note: Callable[[str], None], show: LiveLine | LogLines | None) -> None:
        self._note = note
        self._show = show

    def __call__(self, arm: str, done: int, count: int) -> None:
        """Note and show that so many of an arm's episodes are done."""
        self._note(progress_text(arm, done, count))
        if self._show:
            self._show(arm, done, count)

    def clear(self) -> None:
        """Wipe what is only shown while the comparison runs."""
        if self._show:
            self._show.clear()
