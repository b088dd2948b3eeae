"""Parts: what a kind of gate may have beside `GateKind`, one small protocol each.

An option that asks for a part which a kind lacks refuses its gates by name. A part is whole: a kind
that has one of its members has them all. Plain attributes of a kind, by whose absence nothing is
refused, are `options` of its own, which are known before the command line is read; names of more
`fixtures` than ``learned_dynamics``, with their values in ``run.given``; and for messages an
`example` of its marker's arguments, and the `wanted_model` in a few words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task
    from pytest_cpg.episodes.replay import Replay
    from pytest_cpg.gates.drift import Drift
    from pytest_cpg.gates.kind import (
        Alarm,
        Compared,
        Finding,
        ForecastLine,
        Lost,
        MaxVerdict,
        Measuring,
        Run,
    )


class SmokeTest(Protocol):
    """A kind with a smoke test: --cpg-quick.

    Its ``parse`` heeds ``is_smoke``, and its Ruling then says ``check="smoke test"``.
    """

    has_smoke_test: Literal[True] | None = None


class Resumes(Protocol):
    """A kind that keeps in ``run.execution.cache`` what an interrupted one had: --cpg-resume.

    `pytest_cpg.gates.rows.Snapshot` does, for kinds that ask a model many questions.
    """

    resumes: Literal[True] | None = None


class Accepts(Protocol):
    """A kind whose default worst verdict depends on the marker."""

    def accepts(self, spec: Any) -> MaxVerdict:
        """Return what a marker without ``max_verdict`` accepts."""


class Runner(Protocol):
    """A kind whose tests may measure more than once, by the fixture ``benchmark_runner``."""

    def runner(self, spec: Any, measuring: Measuring) -> Any:
        """Return the fixture's value."""


class Forecasts(Protocol):
    """A kind that says what a gate could find before anything is run: --cpg-plan."""

    def forecast(
        self, spec: Any, task: Task | None, *, cost: Mapping[str, Any] | None, accepted: Any
    ) -> ForecastLine:
        """Return a gate's line, of its built task where it has one.

        ``cost`` is what `Costs` says of the last run; ``accepted`` the baseline's entry.
        """


class Costs(Forecasts, Protocol):
    """A kind whose forecast needs to know of the last run."""

    def cost(self, result: Any) -> Any:
        """Return what the next forecast is given as plain values: those, or a dataclass."""


class Baselined(Protocol):
    """A kind whose results can be accepted and compared: the baseline."""

    def entry(self, result: Any) -> Any:
        """Return the kept part of an accepted result: plain values or a frozen dataclass."""

    def compare(self, accepted: Any, result: Any) -> Drift:
        """Compare a new result with an entry, None where there is none."""


class ReadsEntries(Baselined, Protocol):
    """A kind whose entries are more than the plain values of the baseline file.

    `pytest_cpg.gates.kept.reading` makes the method for entries of a dataclass.
    """

    def read_entry(self, values: Mapping[str, Any], *, commit: str) -> Any:
        """Return the entry of plain values, accepted at a commit; raise ValueError if wrong."""


class Unprovable(Baselined, Protocol):
    """A kind that knows of entries by which no later result could be shown to be worse."""

    def unprovable(self, accepted: Mapping[str, Any]) -> Sequence[Finding]:
        """Return remarks on new entries, by gate."""


class Replays(Protocol):
    """A kind that can run lost episodes again: --cpg-replay and --cpg-render.

    Only gates of a spec that is `OfTask` have any: a replay is of two arms on its task.
    """

    def lost(self, result: Any) -> Lost:
        """Return which episodes a result lost, and how."""

    def read_lost(self, values: Mapping[str, Any], *, episodes: Sequence[int]) -> Any:
        """Return ``Lost.then`` of its plain values; raise ValueError if they are wrong."""

    def replay(
        self, spec: Any, model: Any, run: Run, *, episodes: Sequence[int], then: Any = None
    ) -> Replay:
        """Run episodes again, as they were lost where that is given."""


class ReplaysBroken(Protocol):
    """A kind that can run again, as `Replays`, the episode in which a model broke its contract."""

    def lost_by_breaking(self, spec: Any, model: Any, run: Run, *, episode: int) -> Lost:
        """Return the episode that was lost so, and how."""


class Alarms(Protocol):
    """A kind that shares the error rate of all gates: --cpg-correction."""

    def alarm(self, result: Any) -> Alarm:
        """Return what a result brings to the family of all gates."""


class Together(Protocol):
    """A kind whose results say more together than each alone."""

    def together(
        self, compared: Sequence[Compared], groups: Mapping[str, str]
    ) -> Sequence[Finding]:
        """Return their findings; ``groups`` has the recipe of each checkpoint's gate."""


class WithoutEffect(Protocol):
    """A kind that knows which options were given in vain."""

    def without_effect(self, results: Sequence[Any]) -> Mapping[str, str]:
        """Return why, by the name of each option that decided nothing in these results."""


_OF_SEVERAL = (Baselined, ReadsEntries, Unprovable, Costs, Replays)


def half_part(kind: object) -> str:
    """Return what a kind has of a part and what it lacks of that, in words; empty if nothing."""
    members = dir(kind)
    for part in _OF_SEVERAL:
        begun = [name for name in vars(part) if not name.startswith("_") and name in members]
        needed = [name for name in dir(part) if not name.startswith("_")]
        lacking = [name for name in needed if name not in members]
        if begun and lacking:
            return (
                f"has {', '.join(begun)} and lacks {', '.join(lacking)}. Give it all of "
                f"pytest_cpg.gates.parts.{part.__name__}, or leave {', '.join(begun)} out"
            )
    return ""
