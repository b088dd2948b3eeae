"""Attempt: one run of a marked test, and what it measured; a gate counts its first one."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytest_cpg.plugin.item import fail, gate_id

if TYPE_CHECKING:
    from pytest_cpg.render.line import Line
    from pytest_cpg.report.ledger import Judgement

_FORKED = (
    "a comparison was made in a process that the test forked, where nothing is judged. Compare "
    "in the test itself; --cpg-workers spreads its episodes over processes."
)

_CAUGHT = """\
a comparison was broken off: {error}
That is no result, and nothing may hide it. Let the error leave the test, skip
before the comparison, or leave the model out."""

_RUNNING_ON = "a comparison is still running in a thread: join it before the test ends."

_BROKEN_OFF = "Attempt 1 did not end with a judged gate; -rR shows how it ended."

_SETUP_ONLY = (
    "--setup-only would run the arms of this gate, and judge nothing. Leave it out, or leave the "
    "gates out by -m."
)

_RERUN = """\
{first}

  This was attempt 1, and it counts: a gate that is repeated until it passes
  passes by luck. Attempt {attempt} was refused. Leave gates out of --reruns and flaky;
  to have them repeated all the same, set cpg_allow_reruns = true in the ini file."""


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One run of a marked test.

    It is swept where a measurement is about the model that is named, over once the gate has been
    applied, and refused where the test failed by what it measured, or by not doing so. ``section``
    is shown where the test fails, ``broken`` in its place where a model broke its contract, and
    ``brief`` and ``told`` are that for one line, and for a report. A process that the test forks
    writes into ``forked`` that it measured, as memory is shared.
    """

    number: int = 1
    judgements: list[Judgement] = field(default_factory=list)
    measurements: list[str] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    is_swept: bool = False
    errors: list[str] = field(default_factory=list)
    running: set[object] = field(default_factory=set)
    is_over: bool = False
    process: int = field(default_factory=os.getpid)
    forked: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, 1))
    is_refused: bool = False
    first_failure: str | None = None
    section: list[Line] = field(default_factory=list)
    broken: list[Line] = field(default_factory=list)
    brief: str = ""
    told: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether a result fails the test."""
        return any(judgement.reason is not None for judgement in self.judgements)

    @property
    def has_measured(self) -> bool:
        """Whether something was measured, and nothing broken off."""
        return not (self.is_empty or self.errors)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured."""
        return not (self.judgements or self.measurements)


ATTEMPT: pytest.StashKey[Attempt] = pytest.StashKey()


def attempt_of(item: pytest.Item) -> Attempt:
    """Return the present attempt, an empty one where a test was not begun."""
    return item.stash.get(ATTEMPT, None) or Attempt()


def begin_attempt(item: pytest.Item, *, allow_reruns: bool) -> None:
    """Count how often this test is run, and refuse to run its gate twice, or in part."""
    before = item.stash.get(ATTEMPT, None)
    attempt = item.stash[ATTEMPT] = Attempt()
    if before is not None:
        attempt.number, attempt.first_failure = before.number + 1, before.first_failure
    option = item.config.option
    # --setup-plan sets both, and runs no fixture.
    if getattr(option, "setuponly", False) and not option.setupplan:
        fail(_SETUP_ONLY)
    if before is not None and not allow_reruns:
        first = before.first_failure or _BROKEN_OFF
        fail(_RERUN.format(first=first, attempt=attempt.number))


@contextmanager
def attempted(
    item: pytest.Item, attempt: Attempt, late: dict[str, None], *, may_leave: bool
) -> Iterator[None]:
    """Follow a measurement of a test; ``late`` notes one that has ended and may hide the error."""
    if _is_past(item, attempt):
        late[gate_id(item)] = None
        _fail_late(item)
    if os.getpid() != attempt.process:
        attempt.forked[0] = 1
        fail(_FORKED)
    token = object()
    attempt.running.add(token)
    try:
        yield
    # Whatever a model raises, a skip of its test included; nothing is kept from the test, which may
    # catch it, and fails.
    except BaseException as error:
        if not may_leave:
            attempt.errors.append(f"{type(error).__name__}: {error}")
        raise
    finally:
        attempt.running.remove(token)
        if _is_past(item, attempt):
            late[gate_id(item)] = None


def _is_past(item: pytest.Item, attempt: Attempt) -> bool:
    return attempt.is_over or item.stash[ATTEMPT] is not attempt


@contextmanager
def torn_down(item: pytest.Item, late: Mapping[str, None]) -> Iterator[None]:
    """Fail a test that measures while it is torn down, although it may catch the error."""
    if ATTEMPT in item.stash:
        item.stash[ATTEMPT].is_over = True
    yield
    if gate_id(item) in late:
        _fail_late(item)


def broken_by(attempt: Attempt) -> str | None:
    """Return what is wrong with an attempt that is over now, whatever was measured in it."""
    attempt.is_over = True
    if attempt.errors:
        return _CAUGHT.format(error=attempt.errors[0])
    if attempt.forked[0]:
        return _FORKED
    return _RUNNING_ON if attempt.running else None


def _fail_late(item: pytest.Item) -> NoReturn:
    from pytest_cpg.report.together import late_text

    fail(late_text(gate_id(item)))
