"""Progress: one live line on a terminal; in a log a line a minute, and one for each stage done."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pytest_cpg.episodes.stage import Stage
from pytest_cpg.gates.notation import duration, visible
from pytest_cpg.render.line import OF_ROWS, bar_text, in_ascii
from pytest_cpg.render.live import SECONDS_BETWEEN, LiveText

_SECONDS_BETWEEN_LINES = 60.0
# Columns of the bar, and those that are free at least where there is one.
_BAR, _NARROWEST = 10, 24


def progress_text(what: str, stage: Stage) -> str:
    """Return how far a stage is.

    >>> progress_text("learned", Stage(85, 200, "step", 17, 50))
    'learned, step 85/200, 17 solved'
    """
    return ", ".join(filter(None, (what, _counted(stage), _solved(stage))))


def _counted(stage: Stage) -> str:
    share = f"{stage.done}/{stage.total}"
    if not stage.total:
        return ""
    return f"step {share}" if stage.unit == "step" else f"{share} {stage.unit}".rstrip()


def _solved(stage: Stage) -> str:
    return "" if stage.solved is None else f"{stage.solved} solved"


def _brief(what: str, stage: Stage) -> str:
    if stage.starts and stage.solved is not None:
        return f"{visible(what)} {stage.solved}/{stage.starts} solved"
    return f"{visible(what)} {stage.done}/{stage.total}" if stage.total else visible(what)


def _of_starts(stage: Stage) -> str:
    if not stage.starts:
        return ""
    starts = f"{stage.starts} starts"
    return starts if stage.solved is None else f"{stage.solved} of {starts} solved"


class _Pace:
    """Which stage goes on, since when, and how fast."""

    def __init__(self) -> None:
        self.what, self.begun, self._next = "", 0.0, 0.0
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

    def is_due(self, what: str, stage: Stage, now: float) -> bool:
        """Note how far a stage is, and say whether it is to be shown."""
        if not self.is_new(what, stage, now) and now < self._next:
            return False
        self._next = now + SECONDS_BETWEEN
        return True

    def left(self, stage: Stage, now: float) -> float | None:
        """Return the seconds until the stage is done; None while that is not known."""
        if self._since is None or stage.done <= self._since[1]:
            return None
        then, done = self._since
        return (now - then) / (stage.done - done) * (stage.total - stage.done)


class LiveLine:
    """Shows how far a measurement is behind what pytest has printed on its line."""

    def __init__(self, shown: LiveText, *, is_ascii: bool = False) -> None:
        self._shown, self._is_ascii = shown, is_ascii
        self._pace = _Pace()

    def __call__(self, what: str, stage: Stage) -> None:
        """Show a stage when it begins and ten times a second, never wider than the line."""
        now = time.monotonic()
        if not self._pace.is_due(what, stage, now):
            return
        left, drawn = self._pace.left(stage, now), ""
        parts = [_counted(stage), _solved(stage), "" if left is None else duration(left)]
        lead, text = f"  {visible(what):9s} ", ", ".join(filter(None, parts))
        if stage.total:
            blocks, _ = bar_text(stage.done, (0, stage.total), _BAR)
            drawn = f"{in_ascii(blocks) if self._is_ascii else blocks:{_BAR}s} "
        room = self._shown.room()
        if len(f"{lead}{drawn}{text}") > room:
            drawn = ""
        if room < max(_NARROWEST, len(f"{lead}{text}")):
            lead, text = f" {_brief(what, stage)}", ""
        if len(lead) <= room:
            # Of a model the verdict is not known yet, nor its colour.
            colour = OF_ROWS.get(what.rpartition(" ")[2], "")
            self._shown.show((lead, "light"), (drawn, colour), (text, "light"))

    def clear(self) -> None:
        """Wipe the line."""
        self._pace = _Pace()
        self._shown.wipe()


class SentLine:
    """Sends how far a measurement is, as the parts of an `AtWork`, and None once it is over."""

    def __init__(self, send: Callable[[tuple[str, float, str] | None], None]) -> None:
        self._send, self._pace = send, _Pace()

    def __call__(self, what: str, stage: Stage) -> None:
        """Send a stage when it begins and ten times a second."""
        now = time.monotonic()
        if self._pace.is_due(what, stage, now):
            left = self._pace.left(stage, now)
            text = "" if left is None else duration(left)
            self._send((_brief(what, stage), left or 0.0, text))

    def clear(self) -> None:
        """Say that nothing is measured any more."""
        self._pace = _Pace()
        self._send(None)


class LogLines:
    """Writes a line once a minute, and when a stage is done, for logs."""

    def __init__(
        self, write: Callable[[str], None], *, name: str = "", has_ends: bool = True
    ) -> None:
        self._write, self._has_ends = write, has_ends
        self._lead = f"\n  cpg: {name}\n" if name else "\n"
        self._pace, self._last, self._said = _Pace(), (Stage(0, 0), 0.0), 0.0

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
            self._line(_counted(stage), _of_starts(stage), about)

    def clear(self) -> None:
        """Write the line of the last stage: a log keeps its lines."""
        self._end()
        self._pace = _Pace()

    def _end(self) -> None:
        stage, now = self._last
        if self._has_ends and 0 < stage.total == stage.done and self._pace.what:
            seconds = f"{now - self._pace.begun:.1f} s"
            note = f" ({stage.note})" if stage.note else ""
            self._line(_of_starts(stage) or f"{stage.total} {stage.unit}".rstrip(), seconds + note)

    def _line(self, *parts: str) -> None:
        text = ", ".join(filter(None, parts))
        self._write(f"{self._lead}  cpg: {visible(self._pace.what):8s} {text}")
        self._lead = ""


class Watch:
    """Notes where a measurement is, and shows it; a display that takes nothing more is let be."""

    def __init__(
        self, note: Callable[[str], None], show: LiveLine | SentLine | LogLines | None
    ) -> None:
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
