"""Summary: one line for every gate of the session."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pytest_cpg.gates.result import GateResult
from pytest_cpg.ledger import Entry, Judgement, Ledger
from pytest_cpg.render.failure import bracket, resolve_hint, short_name
from pytest_cpg.stats import Verdict

_COLUMNS = "oracle learned   gap {level:^13s}    n verdict"
# Mark, blanks, five numbers and the longest short name of a verdict.
_NUMBERS_WIDTH = 63
_NARROWEST_NAME = 17


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text and how the terminal marks it up."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


def title(ledger: Ledger) -> str:
    """Return the heading of the summary."""
    gates = ledger.gates
    outcomes = [entry.outcome for entry in ledger.entries.values()]
    counts = [
        f"{number} {word}"
        for word, number in (
            ("failed", outcomes.count("failed")),
            ("in error", outcomes.count("error")),
            ("not reported", len(ledger.missing)),
            ("failed as expected", outcomes.count("xfailed")),
            ("skipped", outcomes.count("skipped")),
            ("inconclusive", sum(map(_is_open, ledger.entries.values()))),
        )
        if number
    ]
    return f"cpg: {len(gates)} gate{'s'[: len(gates) != 1]}, {', '.join(counts) or 'all passed'}"


def _is_open(entry: Entry) -> bool:
    """Say whether a gate passed because its episodes do not tell the arms apart."""
    verdicts = (judgement.read().verdict for judgement in entry.judgements)
    return entry.outcome == "passed" and Verdict.INCONCLUSIVE in verdicts


def summary_lines(ledger: Ledger, *, width: int, verbosity: int = 0) -> list[Line]:
    """Return the table of all gates, fit for a terminal of this width.

    With ``verbosity`` below 0 only gates that did not simply pass are listed.
    """
    names = _names(ledger.gates, width)
    space = max(map(len, names.values()), default=0)
    rows = [
        line
        for gate in ledger.gates
        for line in _gate_lines(ledger, gate, f"{names[gate]:{space}s}", verbosity, width)
    ]
    if not rows:
        return []
    level = next(
        (
            f"{100 * judgement.read().level:g}% CI"
            for entry in ledger.entries.values()
            for judgement in entry.judgements
        ),
        "95% CI",
    )
    header = f" {'gate':{space + 2}s} {_COLUMNS.format(level=level)}"
    lines = [Line(header), *rows]
    if ledger.missing:
        lines.append(
            Line(
                f" {len(ledger.gates) - len(ledger.missing)} of {len(ledger.gates)} planned gates "
                f"reported",
                {"red": True},
            )
        )
    return lines


def _names(gates: tuple[str, ...], width: int) -> dict[str, str]:
    """Return the names shown: without the file when that is unambiguous, and cut to fit."""
    short = {gate: gate.rpartition("::")[2] for gate in gates}
    if len(set(short.values())) < len(gates):
        short = {gate: gate for gate in gates}
    room = max(_NARROWEST_NAME, width - _NUMBERS_WIDTH)
    return {gate: _shortened(name, room) for gate, name in short.items()}


def _shortened(name: str, room: int) -> str:
    """Return a name with its middle left out when it is too long."""
    if len(name) <= room:
        return name
    head = room // 2 - 1
    return f"{name[:head]}..{name[head + 2 - room :]}"


def _gate_lines(ledger: Ledger, gate: str, name: str, verbosity: int, width: int) -> Iterator[Line]:
    """Yield the lines of one gate, whose name is padded to its column."""
    entry = ledger.entries.get(gate)
    if entry is None:
        yield _without_numbers("!", name, ledger.running.get(gate, "did not report"), _RED, width)
    elif not entry.judgements:
        mark, markup = _MARKS[entry.outcome]
        if verbosity >= 0 or entry.outcome != "skipped":
            yield _without_numbers(mark, name, entry.detail or entry.outcome, markup, width)
    else:
        for number, judgement in enumerate(entry.judgements, 1):
            yield from _comparison_lines(
                entry,
                judgement,
                name if number == 1 else f"#{number:<{len(name) - 1}d}",
                verbosity=verbosity,
                width=width,
            )


def _without_numbers(
    mark: str, name: str, why: str, markup: Mapping[str, bool], width: int
) -> Line:
    room = max(width - len(name) - 10, len("..."))
    shown = why if len(why) <= room else f"{why[: room - 3]}..."
    return Line(f" {mark} {name}  -- {shown} --", markup)


def _comparison_lines(
    entry: Entry, judgement: Judgement, name: str, *, verbosity: int, width: int
) -> Iterator[Line]:
    result = judgement.read()
    mark, markup = _mark(entry, result, failed=judgement.reason is not None)
    if verbosity < 0 and mark == ".":
        return
    yield Line(
        f" {mark} {name} {result.oracle.success_rate:6.2f} {result.learned.success_rate:7.2f} "
        f"{result.gap:+.2f} {bracket(result.interval)} {result.oracle.episodes:4d} "
        f"{short_name(result.verdict)}",
        markup,
    )
    remarks = [f"note: {note}" for note in result.notes] if verbosity >= 0 else []
    if result.verdict is Verdict.INCONCLUSIVE and verbosity >= 0:
        remarks.append(resolve_hint(result))
    for remark in remarks:
        for text in textwrap.wrap(remark, width - 5, break_on_hyphens=False):
            yield Line(f"     {text}")


_RED, _YELLOW, _GREEN = {"red": True}, {"yellow": True}, {"green": True}
_MARKS: dict[str, tuple[str, Mapping[str, bool]]] = {
    "passed": (".", _GREEN),
    "failed": ("F", _RED),
    "error": ("E", _RED),
    "skipped": ("s", _YELLOW),
    "xfailed": ("x", _YELLOW),
}


def _mark(entry: Entry, result: GateResult, *, failed: bool) -> tuple[str, Mapping[str, bool]]:
    """Return the letter and colour of one comparison of a gate."""
    if entry.outcome == "passed" and result.verdict is Verdict.INCONCLUSIVE:
        return "?", _YELLOW
    is_about_another = any(judgement.reason is not None for judgement in entry.judgements)
    if entry.outcome == "failed" and not failed and is_about_another:
        return _MARKS["passed"]
    return _MARKS[entry.outcome]
