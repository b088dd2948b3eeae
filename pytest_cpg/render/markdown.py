"""Markdown: a session's report as a comment on a pull request.

Whatever a user names stays text. GitHub looks for mentions, references and links in what Markdown
has made of a comment, so that escaping its signs is not enough.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates.card import Cause
from pytest_cpg.gates.notation import one_line
from pytest_cpg.gates.planning_gap.card import card_of
from pytest_cpg.gates.planning_gap.explanation import loss_split
from pytest_cpg.gates.planning_gap.notation import gap_text, label, recovery_text
from pytest_cpg.gates.planning_gap.resolving import resolve_hint
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.ruling import blindness, ruling_of
from pytest_cpg.render.failure import paragraphs, rerun_command
from pytest_cpg.report.document import drift_of, result_of
from pytest_cpg.report.outcomes import (
    FAILING,
    WORDS,
    besides_gates,
    comparison_outcome,
    gate_outcome,
)
from pytest_cpg.stats import Verdict, parse_verdict

if TYPE_CHECKING:
    from pytest_cpg.gates.planning_gap.compare import Comparison

# By its first line a bot finds its own comment, and writes the next one in its place.
MARKER = "<!-- pytest-cpg report -->"
# GitHub's limit on a comment is in characters; the bytes of UTF-8, counted here, are never fewer.
_MOST_BYTES = 65_536
# Blank lines between sections, and a line for each that says what was left out.
_BETWEEN = 1000
_MOST_IN_NAME, _MOST_IN_TEXT, _MOST_LOST = 200, 1000, 40
_COLUMNS = "| gate | verdict | oracle | learned | gap | n | baseline |"
_ALIGNMENT = "|---|---|--:|--:|---|--:|---|"
_SPECIAL = re.compile(r"[^\w\s/,%]|_")
# Behind or before what makes GitHub see a mention, a reference or a link in plain text.
_TRIGGER = re.compile(r"(?<=[@#])|(?<=\bgh)(?=-\d)|(?<=\bwww)(?=\.)|(?=://)", re.IGNORECASE)
_ZERO_WIDTH_SPACE = "\u200b"


class Row(NamedTuple):
    """One comparison of a gate, or a gate that made none.

    Attributes
    ----------
    gate : mapping
        As in the document.
    name, status : str
        The status is the outcome of the comparison, or of the gate that made none.
    reason : str or None
        Why the comparison is not accepted.
    max_verdict : Verdict
        The worst verdict that it accepts.
    """

    gate: Mapping[str, Any]
    name: str
    status: str
    reason: str | None = None
    result: GateResult | None = None
    drift: Comparison | None = None
    max_verdict: Verdict = Verdict.INCONCLUSIVE

    @property
    def why(self) -> str:
        """Why the gate ended so, as far as this tells; empty where it passed."""
        said = ". ".join(filter(None, (self.reason, self.gate["detail"])))
        return said or "the test failed by itself; its log says how" * (self.status == "failed")


def markdown(document: Mapping[str, Any]) -> str:
    """Return the report in GitHub's Markdown, no longer than a comment may be.

    Failing gates come first; what does not fit is counted.

    Parameters
    ----------
    document : mapping
        From `pytest_cpg.report.document.document` or `pytest_cpg.report.document.read`.
    """
    gates = sorted(document["gates"], key=lambda gate: gate["outcome"] not in FAILING)
    tables = [rows_of(gate) for gate in gates]
    rows = [row for table in tables for row in table]
    table = ["\n".join(map(_table_row, of_gate)) for of_gate in tables]
    details = [
        _details(row, row.result)
        for row in rows
        if row.status in FAILING and row.result is not None
    ]
    findings = [_uncollected(*found) for found in document["session"]["uncollected"].items()]
    findings += [_finding(found) for found in document["findings"] if found["fails"]]
    findings += [_finding(found) for found in document["findings"] if not found["fails"]]
    notes = [f"- {_code(row.name)}: {_prose(note)}" for row in rows for note in _notes(row)]
    parts = [
        f"{MARKER}\n### {_headline(document, tables)}",
        f"<sub>{_prose(_provenance(document))}</sub>\n",
    ]
    for what, lead, blocks, end, share in (
        ("gate", f"{_COLUMNS}\n{_ALIGNMENT}\n", table, "", 0.5),
        ("failure", "", details, "", 0.75),
        ("finding", "", findings, "", 0.75),
        ("note", "<details><summary>Notes</summary>\n\n", notes, "\n\n</details>", 1.0),
    ):
        room = share * (_MOST_BYTES - _BETWEEN - sum(map(_size, parts)))
        parts[-1:-1] = _section(what, lead, blocks, end, room=room)
    return "\n\n".join(parts)


def rows_of(gate: Mapping[str, Any]) -> list[Row]:
    """Return the comparisons of one of a document's gates, or a row for the gate alone."""
    if not gate["comparisons"]:
        return [Row(gate, gate["id"], gate["outcome"])]
    reasons = [comparison["reason"] for comparison in gate["comparisons"]]
    return [
        _row(gate, comparison, reasons, result_of(comparison)) for comparison in gate["comparisons"]
    ]


def _row(
    gate: Mapping[str, Any],
    comparison: Mapping[str, Any],
    reasons: Sequence[str | None],
    result: GateResult,
) -> Row:
    reason = comparison["reason"]
    status = comparison_outcome(gate["outcome"], reason=reason, reasons=reasons, label=result.label)
    return Row(
        gate,
        comparison["name"],
        status,
        reason,
        result,
        drift_of(comparison),
        parse_verdict(comparison["max_verdict"]),
    )


def _code(text: str, most: int = _MOST_IN_NAME) -> str:
    """Return a name as code, in which GitHub would make a link of nothing but a mail address."""
    escaped = _SPECIAL.sub(_entity, one_line(text, most))
    return f"<code>{escaped.replace('&#64;', '&#64;<!-- -->')}</code>"


def _prose(text: str) -> str:
    """Return a text of which Markdown and GitHub make nothing but text."""
    return _SPECIAL.sub(_entity, _TRIGGER.sub(_ZERO_WIDTH_SPACE, one_line(text, _MOST_IN_TEXT)))


def _entity(sign: re.Match[str]) -> str:
    return f"&#{ord(sign[0])};"


def _size(text: str) -> int:
    return len(text.encode())


def _section(what: str, lead: str, blocks: Sequence[str], end: str, *, room: float) -> list[str]:
    """Return the blocks that fit, framed, and a line that counts the others."""
    room -= _size(lead + end)
    kept = []
    for block in blocks:
        # Two for the blank line behind it.
        if _size(block) + 2 <= room:
            kept.append(block)
            room -= _size(block) + 2
    body, left = "\n".join(kept), len(blocks) - len(kept)
    parts = [f"{lead}{body}{end}"] if kept else []
    if left:
        parts.append(f"*{left} {what}{'s'[: left != 1]} left out: a comment on GitHub is limited.*")
    return parts


def _headline(document: Mapping[str, Any], tables: Sequence[Sequence[Row]]) -> str:
    gates, session = document["gates"], document["session"]
    outcomes = Counter(map(_outcome, tables))
    counts = [f"{len(gates)} gate{'s'[: len(gates) != 1]}"]
    counts += [
        f"{outcomes[outcome]} {word}" for outcome, word in WORDS.items() if outcomes[outcome]
    ]
    if document["deselected"]:
        counts.append(f"{len(document['deselected'])} deselected")
    counts += besides_gates(session)
    is_smoke = any(
        row.result is not None and row.result.is_smoke for rows in tables for row in rows
    )
    what = "pytest-cpg smoke test, no verdicts" if is_smoke else "pytest-cpg"
    return f"{what}: {session['outcome']} ({', '.join(counts)})"


def _outcome(rows: Sequence[Row]) -> str:
    """Return how the gate of these rows ended."""
    labels = [row.result.label for row in rows if row.result is not None]
    return gate_outcome(rows[0].gate["outcome"], labels)


def _table_row(row: Row) -> str:
    # An inconclusive verdict is told by its own name.
    word = WORDS["passed" if row.status == "inconclusive" else row.status]
    verdict, numbers = f"**{word}**" if row.status in FAILING else word, [""] * 5
    result = row.result
    if result is None:
        verdict += f": {_prose(row.why)}" * bool(row.why)
    else:
        verdict += f": {label(result)}{', by raw rates' * result.is_weak}"
        verdict += ", blind gate" * (blindness(result, row.max_verdict) is not None)
        if result.perturbation:
            verdict += f", perturbed by {_prose(result.perturbation)}"
        numbers = [
            _reached(result.oracle, result.metric),
            _reached(result.learned, result.metric),
            f"{gap_text(result)} {100 * result.interval.level:.4g}%",
            str(result.learned.episodes),
            row.drift.label if row.drift else "",
        ]
    return f"| {' | '.join([_code(row.name), verdict, *numbers])} |"


def _reached(arm: Arm, metric: str) -> str:
    """Return an arm's successes, or its mean return."""
    if metric == "return":
        return f"{arm.returns.mean():.4g}"
    return f"{arm.success_count}/{arm.episodes}"


def _details(row: Row, result: GateResult) -> str:
    """Return what a reader needs to act on a failing comparison, folded up."""
    drift = row.drift
    lead = f"<details><summary>{_code(row.name)}: {_prose(row.why)}</summary>"
    card, ruling = card_of(result, row.max_verdict), ruling_of(result, row.max_verdict)
    told = paragraphs(card, ruling, reason=row.reason, drift=drift)
    facts = [f"- {name}: {_prose(fact)}" for name, fact in _facts(result, drift) if fact]
    command = rerun_command(card, row.gate["id"], {}).text
    # A gate with an id of its own does not say which test it is.
    if "::" in row.gate["id"] and command == one_line(command, _MOST_IN_TEXT):
        facts.append(f"- again, with this seed and size: {_code(command, _MOST_IN_TEXT)}")
    told += [] if card.cause is None else _cause(card.cause)
    return "\n\n".join([lead, *map(_prose, told), "\n".join(facts), "</details>\n"])


def _cause(cause: Cause) -> list[str]:
    measured = "; ".join(
        f"{name} {numbers or '-'} ({text})" for name, numbers, text in cause.measures
    )
    return [f"{cause.heading}. {cause.text}", f"From {cause.source}: {measured}"]


def _facts(result: GateResult, drift: Comparison | None) -> Iterator[tuple[str, str]]:
    pairs, lost = result.pairs, result.lost_episodes
    yield (
        "same starts",
        f"both {pairs.both}, oracle only {pairs.oracle_only}, "
        f"learned only {pairs.learned_only}, neither {pairs.neither}",
    )
    more = f" and {len(lost) - _MOST_LOST} more" if len(lost) > _MOST_LOST else ""
    yield "lost episodes", " ".join(map(str, lost[:_MOST_LOST])) + more
    yield "perturbation", recovery_text(result)
    yield "judged by", result.evidence
    yield "baseline", f"{drift.label}, {drift.text}" if drift else ""
    yield "task", f"{result.task}, {result.budget} steps, starts {result.starts}"
    yield "planner", result.planner
    yield "swapped", ", ".join(result.swapped)
    yield "device", result.device


def _notes(row: Row) -> Iterator[str]:
    """Yield what there is to know of a gate, whether it fails or not."""
    result, gate = row.result, row.gate
    if result is not None and row.status not in FAILING:
        yield from result.notes
        yield from filter(None, [loss_split(result)])
        blind = blindness(result, row.max_verdict)
        if blind is not None:
            yield blind
        elif result.label == Verdict.INCONCLUSIVE:
            yield resolve_hint(result)
    if row.name != gate["id"]:
        return
    yield from gate["measurements"]
    if gate["earlier"]:
        yield (
            f"it was repeated, after {'; '.join(gate['earlier'])}: a gate that is repeated until "
            f"it passes says nothing"
        )


def _finding(finding: Mapping[str, Any]) -> str:
    return f"- {'**fails**: ' * finding['fails']}{_prose(finding['text'])}"


def _uncollected(name: str, error: str) -> str:
    return f"- **not collected**: {_code(name)}: {_prose(error)}"


def _provenance(document: Mapping[str, Any]) -> str:
    found = document["provenance"]
    commit = "no revision"
    if found["revision"] is not None:
        commit = f"revision {found['revision']}{' with changes on top' * bool(found['dirty'])}"
    # Reports from before they were recorded have no kernels.
    kernels, packages = (
        ", ".join(f"{name} {which}" for name, which in found.get(key, {}).items())
        for key in ("kernels", "packages")
    )
    return (
        f"{commit}; Python {found['python']} on {found['platform']}, {found['processors']} "
        f"processors {found['processor']}{f' ({kernels})' * bool(kernels)}; {packages}"
    )
