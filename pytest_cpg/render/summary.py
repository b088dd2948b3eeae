"""Summary: one line for every gate of the session."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pytest_cpg.gates.notation import fitted_names, for_log, number, one_line, percentage
from pytest_cpg.gates.planning_gap.explanation import loss_split
from pytest_cpg.gates.planning_gap.forecast import surely_failed_drop
from pytest_cpg.gates.planning_gap.notation import bracket, label, recovery_text
from pytest_cpg.gates.planning_gap.resolving import resolve_hint
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.ruling import blindness
from pytest_cpg.report.ledger import Entry, Judgement, Ledger
from pytest_cpg.report.outcomes import WORDS, comparison_outcome, gate_outcome
from pytest_cpg.stats import Verdict, parse_verdict

_COLUMNS = "oracle learned   gap {level:^13s}    n verdict"
# Mark, blanks and five numbers.
_NUMBERS_WIDTH = 44
_WEAK = "~"
_UNSEEN = "a drop below {} may pass: larger ones fail 4 times in 5"
_PASSING = ("passed", "inconclusive")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text and how the terminal marks it up."""

    text: str
    markup: Mapping[str, bool] = field(default_factory=dict)


def title(ledger: Ledger) -> str:
    """Return the heading of the summary."""
    gates = ledger.gates
    counted = Counter(map(_gate_outcome, ledger.entries.values()))
    counted["missing"] = len(ledger.missing)
    del counted["passed"]
    counts = [f"{counted[outcome]} {word}" for outcome, word in WORDS.items() if counted[outcome]]
    done = "all passed" if gates else "none collected"
    if any(found.fails for found in ledger.findings):
        done = "the session fails"
    results = [one.read() for entry in ledger.entries.values() for one in entry.judgements]
    what = " A/A check" if results and all(result.is_aa for result in results) else ""
    if any(result.is_smoke for result in results):
        what = " smoke test"
    return f"cpg{what}: {len(gates)} gate{'s'[: len(gates) != 1]}, {', '.join(counts) or done}"


def _gate_outcome(entry: Entry) -> str:
    return gate_outcome(entry.outcome, [judgement.read().label for judgement in entry.judgements])


def summary_lines(ledger: Ledger, *, width: int, verbosity: int = 0) -> list[Line]:
    """Return the table of all gates, fit for a terminal of this width.

    With ``verbosity`` below 0 only gates that did not simply pass are listed.
    """
    results = [
        judgement.read() for entry in ledger.entries.values() for judgement in entry.judgements
    ]
    verdict_width = max([len(_verdict(result)) for result in results], default=0)
    names = fitted_names(ledger.gates, width - _NUMBERS_WIDTH - verdict_width)
    space = max(map(len, names.values()), default=0)
    lines = [
        line
        for gate in ledger.gates
        for line in _gate_lines(ledger, gate, f"{names[gate]:{space}s}", verbosity, width)
    ]
    if lines:
        levels = {result.interval.level for result in results}
        # Gates may differ in theirs.
        head = f"{percentage(levels.pop())} CI" if len(levels) == 1 else "CI"
        columns = _COLUMNS.format(level=head)
        lines.insert(0, Line(f" {'gate':{space + 2}s} {columns}"))
    if verbosity >= 0 and any(result.is_weak for result in results):
        lines.append(
            Line(f" {_WEAK} by raw rates: a difference of twice the tolerance is not ruled out")
        )
    if verbosity == 0:
        lines += _wrapped(_unseen(ledger), " ", width)
    for found in ledger.findings:
        if found.fails or verbosity >= 0:
            lines += _wrapped(found.text, " ", width, _RED if found.fails else {})
    if ledger.missing:
        lines.append(
            Line(
                f" {len(ledger.gates) - len(ledger.missing)} of {len(ledger.gates)} planned gates "
                f"reported",
                {"red": True},
            )
        )
        doing = [ledger.running.get(gate, "") for gate in ledger.missing]
        if ledger.are_workers_cut or any(one.startswith("interrupted in") for one in doing):
            lines.append(Line(" --cpg-resume goes on where they were interrupted"))
    return [Line(for_log(line.text), line.markup) for line in lines]


def _unseen(ledger: Ledger) -> str:
    """Say which drops the gates that passed could not have seen; empty where that is not known."""
    drops = {
        drop
        for entry in ledger.entries.values()
        for judgement, outcome in _outcomes(entry)
        if outcome in _PASSING and (drop := _failed_drop(judgement))
    }
    if len(drops) < 2:
        return "".join(map(_UNSEEN.format, drops))
    return (
        f"drops below {min(drops)} to {max(drops)} may pass (-v: each); larger ones fail 4 times "
        f"in 5"
    )


def _failed_drop(judgement: Judgement) -> str:
    """Return `surely_failed_drop` rounded up to hundredths; empty where it is not known."""
    drop = surely_failed_drop(judgement.read(), parse_verdict(judgement.max_verdict))
    return "" if drop is None else f"{math.ceil(100 * drop - 1e-9) / 100:.2f}"


def _verdict(result: GateResult) -> str:
    return f"{_WEAK * result.is_weak}{label(result)}"


def _gate_lines(ledger: Ledger, gate: str, name: str, verbosity: int, width: int) -> Iterator[Line]:
    """Yield the lines of one gate, whose name is padded to its column."""
    entry = ledger.entries.get(gate)
    if entry is None:
        yield _without_numbers("!", name, ledger.running.get(gate, "did not report"), _RED, width)
    elif not entry.judgements:
        mark, markup = _MARKS[entry.outcome]
        if verbosity >= 0 or entry.outcome != "skipped":
            why = entry.detail or ("measurement" if entry.measurements else entry.outcome)
            yield _without_numbers(mark, name, why, markup, width)
    else:
        compared = _outcomes(entry)
        if verbosity < 0 and all(outcome == "passed" for _, outcome in compared):
            return
        for count, (judgement, outcome) in enumerate(compared, 1):
            yield from _comparison_lines(
                judgement,
                outcome,
                name if count == 1 else f"#{count:<{len(name) - 1}d}",
                verbosity=verbosity,
                width=width,
            )
    if entry is None or verbosity < 0:
        return
    if entry.earlier:
        yield from _wrapped(
            f"attempt {entry.attempt}, after {'; '.join(entry.earlier)}: a gate that is repeated "
            f"until it passes says nothing",
            "     ",
            width,
        )
    for measurement in entry.measurements:
        yield from _wrapped(measurement, "     ", width)


def _without_numbers(
    mark: str, name: str, why: str, markup: Mapping[str, bool], width: int
) -> Line:
    room, why = max(width - len(name) - 10, len("...")), one_line(why)
    shown = why if len(why) <= room else f"{why[: room - 3]}..."
    return Line(f" {mark} {name}  -- {shown} --", markup)


def _outcomes(entry: Entry) -> list[tuple[Judgement, str]]:
    """Return every comparison of a gate and how it ended."""
    reasons = [judgement.reason for judgement in entry.judgements]
    return [
        (
            judgement,
            comparison_outcome(
                entry.outcome,
                reason=judgement.reason,
                reasons=reasons,
                label=judgement.read().label,
            ),
        )
        for judgement in entry.judgements
    ]


def _comparison_lines(
    judgement: Judgement, outcome: str, name: str, *, verbosity: int, width: int
) -> Iterator[Line]:
    result = judgement.read()
    mark, markup = _MARKS[outcome]
    yield Line(
        f" {mark} {name} {result.oracle.success_rate:6.2f} {result.learned.success_rate:7.2f} "
        f"{number(result.interval.estimate, result.metric):>5s} {bracket(result):^13s} "
        f"{result.learned.episodes:4d} {_verdict(result)}",
        markup,
    )
    for remark in _remarks(judgement, result, outcome, verbosity):
        yield from _wrapped(remark, "     ", width)


def _remarks(judgement: Judgement, result: GateResult, outcome: str, verbosity: int) -> list[str]:
    """Return what is said below a gate's line; nothing in quiet sessions but what went wrong."""
    drift = judgement.comparison
    remarks = []
    if drift is not None and (drift.fails or verbosity >= 0) and drift.is_news:
        remarks.append(f"baseline: {drift.label}, {drift.text}")
    if verbosity < 0:
        return remarks
    remarks += [f"perturbation {recovery_text(result)}"] * bool(result.perturbation)
    remarks += [f"note: {note}" for note in result.notes]
    remarks += ["A/A check: the oracle in both arms, and no model judged"] * result.is_aa
    split = loss_split(result)
    if split:
        remarks.append(split)
    if result.looks and result.max_episodes and result.learned.episodes < result.max_episodes:
        farther = result.chance.episodes
        remarks.append(
            f"stopped after {result.learned.episodes} of {result.max_episodes} episodes per arm: "
            f"the verdict was settled"
            + f"; oracle and chance ran {farther} until theirs was"
            * (farther > result.learned.episodes)
        )
    blind = blindness(result, parse_verdict(judgement.max_verdict))
    if blind is not None:
        remarks.append(blind)
    elif result.label == Verdict.INCONCLUSIVE:
        remarks.append(resolve_hint(result))
    if verbosity > 0 and outcome in _PASSING and (drop := _failed_drop(judgement)):
        remarks.append(_UNSEEN.format(drop))
    if verbosity > 0 and not result.is_smoke:
        chance = result.chance
        remarks.append(f"chance solved {chance.success_count}/{chance.episodes}")
        remarks.append(f"judged by {result.evidence}")
    return remarks


def _wrapped(
    text: str, indent: str, width: int, markup: Mapping[str, bool] | None = None
) -> list[Line]:
    lines = textwrap.wrap(one_line(text), width - len(indent), break_on_hyphens=False)
    return [Line(f"{indent}{line}", markup or {}) for line in lines]


_RED, _YELLOW, _GREEN = {"red": True}, {"yellow": True}, {"green": True}
_MARKS: dict[str, tuple[str, Mapping[str, bool]]] = {
    "passed": (".", _GREEN),
    "failed": ("F", _RED),
    "error": ("E", _RED),
    "skipped": ("s", _YELLOW),
    "xfailed": ("x", _YELLOW),
    "inconclusive": ("?", _YELLOW),
}
