"""Ledger: which gates a session expects, and what became of each of them.

Runs in the process that prints the summary. What a test measured arrives as one JSON string, so
that it survives the way from an xdist worker; nothing else crosses that border.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from pytest_cpg.contracts import KindError
from pytest_cpg.contracts.codec import UNWRITTEN, decode, encode, loads
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import AA_CHECK, Card, Command, Ruling, Severity, Strip
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.kind import Finding, GateKind, MaxVerdict
from pytest_cpg.report.history import NO_HISTORY, History

CANNOT_FAIL = "its max_verdict accepts every verdict, so that it cannot fail"
"""The doubt in the ruling of such a gate, unless it fails a model that gets worse."""
EMPTY_SET = "got empty parameter set"
"""As pytest words it."""

Outcome: TypeAlias = Literal["passed", "failed", "error", "skipped", "xfailed"]
# By their markers.
Kinds: TypeAlias = Mapping[str, "GateKind[Any, Any]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One comparison of a gate, and by its ``reason`` why the test fails, if it does.

    Of the ``kind`` only its marker is written. ``drift_fails`` says whether it fails for a worse
    result than the accepted one. The problems are why lost episodes could not be drawn or written.
    ``shown`` is the card, once it was asked for: a kind may answer otherwise the next time.
    """

    kind: Any = field(default=None, metadata=UNWRITTEN)
    result: Any
    ruling: Ruling
    max_verdict: MaxVerdict
    reason: str | None = None
    drift: Drift | None = None
    drift_fails: bool = False
    strip: Strip | None = None
    strip_problem: str | None = None
    commands: tuple[Command, ...] = ()
    lost_problem: str = field(default="", metadata=UNWRITTEN)
    shown: Card | None = field(default=None, metadata=UNWRITTEN)

    @property
    def card(self) -> Card:
        """What the result looks like, with the reason of its ruling."""
        card = self.shown or ask(self.kind, "card", self.result, self.max_verdict)
        ruling, drift = self.ruling, self.drift
        # These are said in words of their own.
        usual = (self.max_verdict.exceeded, ruling.doubt, drift.text if drift else None)
        reasons = [text for text in (ruling.reason, self.reason) if text and text not in usual]
        is_blind = ruling.severity is Severity.BLIND and not ruling.check
        return card.because(reasons[0], is_blind=is_blind) if reasons else card

    def to_plain(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return what is written: the kind by its marker."""
        return {**values, "kind": self.kind.marker}


def dump(judgements: Sequence[Judgement]) -> str:
    """Return one JSON string for a report."""
    return json.dumps(encode(judgements), allow_nan=False)


def load(text: str, kinds: Kinds) -> tuple[Judgement, ...]:
    """Rebuild judgements from `dump`; KindError for a kind that is not known in this process."""
    return tuple(_loaded(values, values.pop("kind"), kinds) for values in loads(text))


def labels_in(text: str) -> dict[str, Severity]:
    """Return the labels of the rulings of `dump`, and how bad each is."""
    rulings = [values["ruling"] for values in loads(text)]
    return {ruling["label"]: Severity(ruling["severity"]) for ruling in rulings}


def _loaded(values: Any, marker: str, kinds: Kinds) -> Judgement:
    if marker not in kinds:
        raise KindError(
            f"the kind of gate {marker!r} is not known where the session ends. Contribute it from "
            f"the conftest.py of the root directory, or from a plugin."
        )
    judgement = decode(Judgement, values)
    result = decode(kinds[marker].result, judgement.result)
    card = ask(kinds[marker], "card", result, judgement.max_verdict)
    return replace(judgement, kind=kinds[marker], result=result, shown=card)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What became of one gate: its comparisons, and as text what it measured without judging it.

    A gate ``is_refused`` whose test failed by what it measured, whatever became of that, and
    ``is_quarantined`` if it failed as expected, was run, and fails the day that it passes.
    """

    outcome: Outcome
    judgements: tuple[Judgement, ...] = ()
    measurements: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()
    detail: str = ""
    is_refused: bool = False
    is_quarantined: bool = False
    attempt: int = 1
    earlier: tuple[str, ...] = ()

    @property
    def found(self) -> str:
        """What the gate found in a few words: its verdicts, or how it ended."""
        return ", ".join(judgement.ruling.label for judgement in self.judgements) or self.outcome

    @property
    def fails(self) -> bool:
        """Whether the session fails for it."""
        return self.outcome in ("failed", "error")

    @property
    def is_hidden(self) -> bool:
        """Whether the test is said to have ended well, and failed or measured nothing."""
        is_measured = self.judgements or self.measurements
        if self.outcome == "passed":
            return self.is_refused or not is_measured
        return self.outcome == "skipped" and self.is_refused

    @property
    def is_excused(self) -> bool:
        """Whether the test failed as expected, and nobody would notice if it did not."""
        return self.outcome == "xfailed" and not (self.is_quarantined or self.is_empty)

    @property
    def is_judged(self) -> bool:
        """Whether the gate gave a verdict; a smoke test and a measurement give none."""
        return not self.is_excused and not all(
            judgement.ruling.check for judgement in self.judgements
        )

    @property
    def is_aa(self) -> bool:
        """Whether it is an A/A check."""
        return any(judgement.ruling.check == AA_CHECK for judgement in self.judgements)

    @property
    def is_empty(self) -> bool:
        """Whether there were no parameters to run the gate with."""
        return self.detail == EMPTY_SET


# What is in no document.
_SHARED = ("expected", "collected", "deselected", "groups", "markers", "late")


@dataclass(slots=True)
class Ledger:
    """Every gate of the session, in the order of collection.

    Dictionaries without values are sets of gate ids that keep their order. Those expected have to
    report; those late compared after their test's end; those that died were run again. Those
    skipped are files that name the marker of a gate, and skipped themselves as a whole. By gate id,
    ``groups`` are recipes of which a gate is one checkpoint, ``markers`` those of their kinds, and
    ``held`` what a gate that judges others sent before these were over, and its worker;
    ``running`` what a gate that has begun is doing, and ``seconds`` what its test took so far;
    ``resumable`` gates have finished parts that --cpg-resume goes on with. Findings and history are
    there once the session is over. ``are_workers_cut`` says that workers were interrupted, which do
    not say what they were doing.
    """

    expected: dict[str, None] = field(default_factory=dict)
    clashes: set[str] = field(default_factory=set)
    entries: dict[str, Entry] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    resumable: set[str] = field(default_factory=set)
    collected: dict[str, None] = field(default_factory=dict)
    deselected: dict[str, None] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    markers: dict[str, str] = field(default_factory=dict)
    held: dict[str, tuple[str, Any]] = field(default_factory=dict)
    late: dict[str, None] = field(default_factory=dict)
    died: dict[str, None] = field(default_factory=dict)
    skipped: dict[str, None] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    history: History = NO_HISTORY
    seconds: dict[str, float] = field(default_factory=dict)
    are_workers_cut: bool = False

    def expect(self, gates: Iterable[str]) -> None:
        """Note gates that the session has to report on."""
        gates = list(gates)
        self.clashes.update(gate for gate in gates if gates.count(gate) > 1)
        self.expected.update(dict.fromkeys(gates))

    def share(self) -> dict[str, dict[str, Any]]:
        """Return which gates there are, as an xdist worker tells it."""
        return {name: getattr(self, name) for name in _SHARED}

    def learn(self, shared: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over what a worker shares."""
        for name, gates in shared.items():
            getattr(self, name).update(gates)

    def note(self, gate: str, entry: Entry) -> None:
        """Note what a phase of a gate's test reported.

        The worst phase decides the outcome, and the last attempt that measured anything.
        """
        before = self.entries.get(gate)
        if before is None:
            self.entries[gate] = entry
        elif entry.attempt > before.attempt and (entry.judgements or entry.measurements):
            self.entries[gate] = replace(entry, earlier=(*before.earlier, before.found))
        elif entry.fails:
            self.entries[gate] = replace(
                entry,
                judgements=entry.judgements or before.judgements,
                measurements=entry.measurements or before.measurements,
                resumed=entry.resumed or before.resumed,
                earlier=before.earlier,
            )
        self.running.pop(gate, None)

    @property
    def fails(self) -> bool:
        """Whether a gate failed or was not judged, or the gates fail together."""
        has_failed = any(entry.fails for entry in self.entries.values())
        is_unjudged = bool(self.missing or self.late)
        return has_failed or is_unjudged or any(finding.fails for finding in self.findings)

    @property
    def gates(self) -> tuple[str, ...]:
        """Ids of all gates, expected or reported."""
        return tuple({**self.expected, **dict.fromkeys(self.entries)})

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of gates that were expected and did not report."""
        return tuple(gate for gate in self.expected if gate not in self.entries)

    @property
    def known(self) -> tuple[str, ...]:
        """Ids of all gates that exist, run or not."""
        return tuple({**self.expected, **self.collected, **self.deselected})

    @property
    def dropped(self) -> tuple[str, ...]:
        """Ids of gates that were collected, and neither expected nor deselected."""
        left = {*self.expected, *self.deselected}
        return tuple(gate for gate in self.collected if gate not in left)
