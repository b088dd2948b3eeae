"""Session: what the gates of a session found, as every reader gets it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pytest_cpg.gates.card import Card, Severity, comparison_name
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import Compared, Finding
from pytest_cpg.gates.notation import fitted_names
from pytest_cpg.machine.provenance import UNKNOWN, Provenance
from pytest_cpg.report.history import NO_HISTORY, History
from pytest_cpg.report.ledger import Entry, Judgement, Ledger

# Every way in which a gate can end, as it is written everywhere, from worst to best.
WORDS: Mapping[str, str] = {
    "failed": "failed",
    "error": "in error",
    "missing": "not reported",
    "xfailed": "failed as expected",
    "inconclusive": "inconclusive",
    "skipped": "skipped",
    "measured": "measured",
    "passed": "passed",
}
# What is said of a gate that a session never came to.
IDLE = "did not report"
# For these the session fails.
FAILING = ("failed", "error", "missing")
_QUIET = ("passed", "measured", "skipped")
# pytest's own words for the exit codes that do not depend on any test.
_STOPPED = {2: "interrupted", 3: "internal error", 4: "usage error"}
# pytest's exit code where no test was collected.
_EMPTY = 5
# Names are cut by whoever writes them.
_ANY_WIDTH = 10**9
_ERROR = re.compile(r"^E +([\w.]+(?:: .*)?)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """How a session ended; ``uncollected`` says in a line what went wrong, by file or test."""

    exit_code: int = 0
    failed_tests: int = 0
    seconds: float | None = None
    uncollected: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cut_short(self) -> bool:
        """Whether pytest ended the session before every test was run."""
        return self.exit_code in _STOPPED

    @property
    def besides_gates(self) -> list[str]:
        """What the session had besides its gates, for the line that counts those.

        >>> SessionEnd(exit_code=1, failed_tests=2).besides_gates
        ['2 other tests failed', 'exit code 1']
        """
        failed, code = self.failed_tests, self.exit_code
        counts = [f"{failed} other test{'s'[: failed != 1]} failed"] if failed else []
        counts += [f"{len(self.uncollected)} not collected"] if self.uncollected else []
        return counts + ([f"exit code {code}"] if code else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a table says of a gate in one row: its ``number``-th comparison, or that it made none.

    ``state`` is one of `WORDS`: its test may have failed for another comparison.
    """

    gate: str
    name: str
    number: int = 1
    outcome: str
    state: str
    entry: Entry
    judgement: Judgement | None = None

    @property
    def card(self) -> Card | None:
        """What its result looks like."""
        return self.judgement.card if self.judgement else None

    @property
    def drift(self) -> Drift | None:
        """How it stands to the baseline."""
        return self.judgement.drift if self.judgement else None

    @property
    def fails(self) -> bool:
        """Whether its gate fails for it."""
        return self.state in FAILING

    @property
    def is_quiet(self) -> bool:
        """Whether nobody has to look at it."""
        return self.state in _QUIET

    @property
    def badness(self) -> tuple[float, ...]:
        """What puts the worst first: that it fails, what was lost since the baseline, its loss."""
        judgement, drift = self.judgement, self.drift
        lost = drift.lost or 0 if drift and drift.label is Label.REGRESSED else -1
        effect = None if self.card is None else self.card.effect
        loss = effect.found.estimate if effect and effect.is_share else float("-inf")
        severity = judgement.ruling.severity if judgement else Severity.GOOD
        place = (not self.fails, list(WORDS).index(self.state) if not self.fails else 0)
        return (*place, judgement is None, -lost, -severity, -loss)

    def why(self, *, is_brief: bool = False) -> str:
        """Return why the gate ended so, of an error in brief its first sentence; or nothing."""
        detail = gist(self.entry.detail) if is_brief else self.entry.detail
        by_itself = "the test failed by itself; its log says how" * (self.state == "failed")
        reason = self.judgement.reason if self.judgement else None
        return ". ".join(filter(None, (reason, detail))) or by_itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Row):
    """One comparison of a gate."""

    judgement: Judgement

    @property
    def card(self) -> Card:
        """What its result looks like."""
        return self.judgement.card

    @property
    def compared(self) -> Compared:
        """What a kind needs to know of it."""
        judgement, is_excused = self.judgement, self.outcome == "xfailed"
        return Compared(
            self.gate, self.name, judgement.result, judgement.max_verdict, is_excused=is_excused
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate, and how it ended: ``outcome`` is its test's, or "missing"; ``state`` of `WORDS`."""

    id: str
    place: int
    outcome: str
    state: str
    entry: Entry
    seconds: float | None = None
    comparisons: tuple[Comparison, ...] = ()

    @classmethod
    def of(cls, gate: str, place: int, outcome: str, entry: Entry, seconds: float | None) -> Gate:
        """Return a gate whose comparisons ended as its test, unless another one is to blame."""
        severities = [judgement.ruling.severity for judgement in entry.judgements]
        reasons = [judgement.reason for judgement in entry.judgements]
        is_blamed = outcome == "failed" and any(reason is not None for reason in reasons)
        comparisons = tuple(
            Comparison(
                gate=gate,
                name=comparison_name(gate, number),
                number=number,
                outcome=outcome,
                state=state_of(
                    "passed" if is_blamed and judgement.reason is None else outcome,
                    [judgement.ruling.severity],
                ),
                entry=entry,
                judgement=judgement,
            )
            for number, judgement in enumerate(entry.judgements, 1)
        )
        return cls(
            id=gate,
            place=place,
            outcome=outcome,
            state=state_of(outcome, severities),
            entry=entry,
            seconds=seconds,
            comparisons=comparisons,
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nobody has to look at it."""
        return self.state in _QUIET

    @property
    def rows(self) -> tuple[Row, ...]:
        """A row for each comparison, or one for a gate that made none."""
        alone = Row(
            gate=self.id, name=self.id, outcome=self.outcome, state=self.state, entry=self.entry
        )
        return self.comparisons or (alone,)

    @property
    def worst(self) -> Row:
        """The row that it is to be looked at for."""
        return min(self.rows, key=lambda row: row.badness)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a session found.

    ``findings`` say what its gates are together, ``version`` is of the pytest-cpg that ran it, and
    ``history`` ends in this session, or is empty. ``is_resumable`` says whether gates that did not
    report go on where they were interrupted.
    """

    gates: tuple[Gate, ...]
    findings: tuple[Finding, ...] = ()
    deselected: tuple[str, ...] = ()
    end: SessionEnd = SessionEnd()
    provenance: Provenance = UNKNOWN
    version: str | None = None
    history: History = NO_HISTORY
    is_resumable: bool = False

    @classmethod
    def of(
        cls, ledger: Ledger, provenance: Provenance = UNKNOWN, end: SessionEnd | None = None
    ) -> Session:
        """Return what a ledger holds, in its order, with times as a report has them."""
        end = end or SessionEnd()
        gates = []
        for place, gate in enumerate(ledger.gates, 1):
            entry, seconds = ledger.entries.get(gate), _tenths(ledger.seconds.get(gate))
            outcome = "missing" if entry is None else entry.outcome
            doing = ledger.running.get(gate, IDLE)
            entry = entry or Entry(outcome="error", detail=doing)
            gates.append(Gate.of(gate, place, outcome, entry, seconds))
        return cls(
            gates=tuple(gates),
            findings=ledger.findings,
            deselected=tuple(ledger.deselected),
            end=replace(
                end, seconds=_tenths(end.seconds), uncollected=dict(sorted(end.uncollected.items()))
            ),
            provenance=provenance,
            version=provenance.packages.get("pytest-cpg"),
            history=ledger.history,
            is_resumable=ledger.are_workers_cut or not ledger.resumable.isdisjoint(ledger.missing),
        )

    @property
    def commit(self) -> str:
        """The commit that was measured, as the baseline keeps it."""
        return f"{self.provenance.revision or ''}{'-dirty' * bool(self.provenance.dirty)}"

    @property
    def comparisons(self) -> Iterator[Comparison]:
        """Every comparison that was reported."""
        return (row for gate in self.gates for row in gate.comparisons)

    @property
    def states(self) -> Counter[str]:
        """How many gates ended how."""
        return Counter(gate.state for gate in self.gates)

    @property
    def counts(self) -> list[str]:
        """The same in words, from worst to best."""
        states = self.states
        return [f"{states[state]} {word}" for state, word in WORDS.items() if states[state]]

    @property
    def checks(self) -> set[str]:
        """What was run in place of gates; a verdict is an empty text."""
        return {row.judgement.ruling.check for row in self.comparisons}

    @property
    def missing(self) -> list[str]:
        """Ids of gates that did not report."""
        return [gate.id for gate in self.gates if gate.outcome == "missing"]

    @property
    def fails(self) -> bool:
        """Whether a gate failed or was not judged, or the gates fail together."""
        is_failing = any(gate.outcome in FAILING for gate in self.gates)
        return is_failing or any(finding.fails for finding in self.findings)

    @property
    def outcome(self) -> str:
        """How it ended: "passed" only where pytest says so and a gate measured."""
        code = self.end.exit_code
        if self.end.is_cut_short:
            return _STOPPED[code]
        if self.fails or code not in (0, _EMPTY):
            return "failed"
        is_measured = any(gate.entry.judgements or gate.entry.measurements for gate in self.gates)
        return "passed" if is_measured and code == 0 else "nothing measured"

    @property
    def worst_first(self) -> list[Gate]:
        """All gates, the worst first."""
        return sorted(self.gates, key=lambda gate: gate.worst.badness)

    @property
    def names(self) -> dict[str, str]:
        """What readers call gates and comparisons: without their file where that tells them apart.

        An id never stands without its function.
        """
        short = fitted_names(tuple(gate.id for gate in self.gates), _ANY_WIDTH, shares=False).of
        return {
            row.name: short[gate.id] + row.name.removeprefix(gate.id)
            for gate in self.gates
            for row in gate.rows
        }


def state_of(outcome: str, severities: Iterable[Severity]) -> str:
    """Return how a gate ended: as its test, but for a passed one that judged or settled nothing.

    >>> state_of("passed", [Severity.GOOD, Severity.UNSURE]), state_of("passed", [])
    ('inconclusive', 'measured')
    """
    severities = [*severities]
    if outcome != "passed" or not severities:
        return "measured" if outcome == "passed" else outcome
    is_open = any(severity in (Severity.UNSURE, Severity.BLIND) for severity in severities)
    return "inconclusive" if is_open else outcome


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def error_in(text: str) -> str:
    r"""Return the line of a failure's text that names the error; of a message its first part.

    >>> error_in("ImportError while importing:\n  import x\nE   ImportError: no x\n")
    'ImportError: no x'
    >>> error_in("test_a.py: no task named\n'pukc'.\n\nMore of it.")
    "test_a.py: no task named 'pukc'."
    """
    match = _ERROR.search(text)
    message = " ".join(text.strip().partition("\n\n")[0].split())
    return match[1] if match else message or "no reason was given"


def gist(detail: str) -> str:
    """Return the first sentence of why a gate ended so, for where all of it has no room.

    >>> gist("error in setup: TaskError: no task is named 'pukc'. Built in: puck, track.")
    "TaskError: no task is named 'pukc'"
    """
    return detail.removeprefix("error in setup: ").partition(". ")[0].rstrip(".")
