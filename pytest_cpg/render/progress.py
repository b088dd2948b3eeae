"""Progress: one live line on a terminal; in a log a line a minute, and one for each stage done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from pytest_cpg.episodes.stage import Stage
from pytest_cpg.gates.notation import duration, visible
from pytest_cpg.machine.deadline import Deadline
from pytest_cpg.render.line import OF_ROWS, bar_text, shown_in

# Of the live line; a reader sees no more of it.
SECONDS_BETWEEN = 0.1
_SECONDS_BETWEEN_LINES = 60.0
_SAVE, _RESTORE, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"
# How the terminal begins and ends each markup of pytest's.
_MARKUPS = {"light": ("\x1b[2m", "\x1b[22m"), "green": ("\x1b[32m", "\x1b[39m")}
# Columns of the bar, and those that are free at least where there is one.
_BAR, _NARROWEST = 10, 24


def can_wipe() -> bool:
    """Say whether a terminal, where there is one, can wipe what was shown."""
    return os.environ.get("TERM") != "dumb"


def write_live(stream: TextIO, text: str) -> None:
    """Write what a terminal can show, in as many columns; one that takes nothing breaks nothing."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with suppress(OSError, ValueError):
        stream.write(shown_in(encoding, text).encode(encoding, "replace").decode(encoding))
        stream.flush()


def progress_text(what: str, stage: Stage) -> str:
    """Return how far a stage is.

    >>> progress_text("learned", Stage(85, 200, "step", 17, 50))
    'learned, step 85/200, 17 solved'
    """
    return ", ".join(filter(None, (what, _counted(stage), _solved(stage), _frames(stage))))


def _counted(stage: Stage) -> str:
    share = f"{stage.done}/{stage.total}"
    if not stage.total:
        return ""
    return f"step {share}" if stage.unit == "step" else f"{share} {stage.unit}".rstrip()


def _solved(stage: Stage) -> str:
    return "" if stage.solved is None else f"{stage.solved} solved"


def _frames(stage: Stage) -> str:
    return f"{stage.frames} frame{'s'[: stage.frames != 1]}" if stage.frames else ""


def _brief(what: str, stage: Stage) -> str:
    if stage.starts and stage.solved is not None:
        return f"{visible(what)} {stage.solved}/{stage.starts} solved"
    return f"{visible(what)} {stage.done}/{stage.total}" if stage.total else visible(what)


def _of_starts(stage: Stage) -> str:
    if not stage.starts:
        return ""
    starts = f"{stage.starts} starts"
    return starts if stage.solved is None else f"{stage.solved} of {starts} solved"


def _is_long(left: float | None) -> bool:
    return left is not None and left >= _SECONDS_BETWEEN_LINES


class _Pace:
    """Which stage goes on, since when, and how fast."""

    def __init__(self) -> None:
        self.what, self.begun = "", 0.0
        self._since: tuple[float, int] | None = None

    def is_new(self, what: str, stage: Stage, now: float) -> bool:
        """Note how far a stage is, and say whether it has just begun."""
        is_new = what != self.what
        if is_new:
            self.what, self.begun, self._since = what, now, None
        elif self._since is None and stage.done:
            # The first part may hold what is made once, and does not say how long the others take.
            self._since = now, stage.done
        return is_new

    def left(self, stage: Stage, now: float) -> float | None:
        """Return the seconds until the stage is done; None while that is not known."""
        if self._since is None or stage.done <= self._since[1]:
            return None
        then, done = self._since
        return (now - then) / (stage.done - done) * (stage.total - stage.done)


class LiveLine:
    """Shows how far a measurement is behind the cursor, where so many columns have ``room``."""

    def __init__(
        self,
        write: Callable[[str], None],
        room: Callable[[], int],
        *,
        is_plain: bool = True,
    ) -> None:
        self._write, self._room = write, room
        self._is_plain = is_plain
        self._pace, self._next, self._is_shown = _Pace(), 0.0, False

    def __call__(self, what: str, stage: Stage) -> None:
        """Show a stage when it begins and ten times a second, never wider than the line."""
        now = time.monotonic()
        if not self._pace.is_new(what, stage, now) and now < self._next:
            return
        self._next = now + SECONDS_BETWEEN
        left, drawn = self._pace.left(stage, now), ""
        about = "" if left is None else duration(left)
        parts = [_counted(stage), _solved(stage), _frames(stage), about]
        lead, text = f"  {visible(what):9s} ", ", ".join(filter(None, parts))
        hinted = text
        if _is_long(left) and stage.hint:
            hinted = f"{_counted(stage)}, {duration(left)} (sooner: {stage.hint})"
        if stage.total:
            blocks, _ = bar_text(stage.done, (0, stage.total), _BAR)
            drawn = f"{blocks:{_BAR}s} "
        room = self._room()
        if len(f"{lead}{hinted}") <= room:
            text = hinted
        if len(f"{lead}{drawn}{text}") > room:
            drawn = ""
        if room < max(_NARROWEST, len(f"{lead}{text}")):
            lead, text = f" {_brief(what, stage)}", ""
        if len(lead) <= room:
            # Of a model the verdict is not known yet, nor its colour.
            colour = OF_ROWS.get(what.rpartition(" ")[2], "")
            marked = [(lead, "light"), (drawn, colour), (text, "light")]
            self._write(f"{_SAVE}{''.join(map(self._marked, marked))}{_CLEAR}{_RESTORE}")
            self._is_shown = True

    def clear(self) -> None:
        """Wipe the line."""
        # At the end of a full line that would wipe the last sign.
        if self._is_shown:
            self._write(_CLEAR)
        self._pace, self._next, self._is_shown = _Pace(), 0.0, False

    def _marked(self, part: tuple[str, str]) -> str:
        text, markup = part
        begin, end = ("", "") if self._is_plain else _MARKUPS.get(markup, ("", ""))
        return f"{begin}{text}{end}"


class LogLines:
    """Writes a line once a minute, and when a stage is done, for logs."""

    def __init__(
        self, write: Callable[[str], None], *, name: str = "", has_ends: bool = True
    ) -> None:
        self._write, self._has_ends = write, has_ends
        self._lead = f"\n  cpg: {name}\n" if name else "\n"
        self._pace, self._last, self._said = _Pace(), (Stage(0, 0), 0.0), 0.0
        self._has_hinted = False

    def __call__(self, what: str, stage: Stage) -> None:
        """Write the line of the stage before if this one begins, or how far it is by now."""
        now = time.monotonic()
        if what != self._pace.what:
            self._end()
            self._said = now
        self._pace.is_new(what, stage, now)
        self._last = stage, now
        if now - self._said >= _SECONDS_BETWEEN_LINES and stage.done < stage.total:
            self._said, left = now, self._pace.left(stage, now)
            about = "" if left is None else f"about {duration(left)} left"
            if _is_long(left) and stage.hint and not self._has_hinted:
                self._has_hinted, about = True, f"{about}; {stage.hint} may end it sooner"
            self._line(_counted(stage), _of_starts(stage), _frames(stage), about)

    def clear(self) -> None:
        """Write the line of the last stage: a log keeps its lines."""
        self._end()
        self._pace = _Pace()

    def _end(self) -> None:
        stage, now = self._last
        if self._has_ends and 0 < stage.total == stage.done and self._pace.what:
            seconds = f"{now - self._pace.begun:.1f} s"
            note = f" ({stage.note})" if stage.note else ""
            done = _of_starts(stage) or f"{stage.total} {stage.unit}".rstrip()
            self._line(done, _frames(stage), seconds + note)

    def _line(self, *parts: str) -> None:
        text = ", ".join(filter(None, parts))
        self._write(f"{self._lead}  cpg: {visible(self._pace.what):8s} {text}")
        self._lead = ""


class Watch:
    """Notes where a measurement is, and shows it; a display that takes nothing more is let be."""

    def __init__(self, note: Callable[[str], None], show: LiveLine | LogLines | None) -> None:
        self._note, self._show = note, show

    def __call__(self, what: str, *stage: Any) -> None:
        """Note and show how far a stage is, given as the parts of a `Stage`."""
        now = Stage(*stage)
        if now.total:
            self._note(progress_text(what, now))
        if self._show:
            with suppress(OSError, ValueError):
                self._show(what, now)

    def clear(self) -> None:
        """Wipe what is only shown while the measurement runs."""
        if self._show:
            with suppress(OSError, ValueError):
                self._show.clear()


@contextmanager
def followed(watch: Watch, deadline: Deadline) -> Iterator[Callable[..., None]]:
    """Give what is told of every step; it shows it, and breaks off when the time is over."""

    def tell(what: str, *stage: Any) -> None:
        watch(what, *stage)
        deadline.check()

    try:
        with deadline.guard():
            yield tell
    finally:
        watch.clear()
