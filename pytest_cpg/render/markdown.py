"""Markdown: a session's report as a comment on a pull request.

Whatever a user names stays text. GitHub looks for mentions, references and links in what Markdown
has made of a comment, so that escaping its signs is not enough.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_cpg.gates.card import Cause, Severity
from pytest_cpg.gates.notation import one_line
from pytest_cpg.render.failure import facts, paragraphs, rerun_command
from pytest_cpg.report.outcomes import (
    FAILING,
    WORDS,
    besides_gates,
    comparison_outcome,
    gate_outcome,
)
from pytest_cpg.report.shown import Shown, ShownOf

# By its first line a bot finds its own comment, and writes the next one in its place.
MARKER = "<!-- pytest-cpg report -->"
# GitHub's limit on a comment is in characters; the bytes of UTF-8, counted here, are never fewer.
_MOST_BYTES = 65_536
# Blank lines between sections, and a line for each that says what was left out.
_BETWEEN = 1000
_MOST_IN_NAME, _MOST_IN_TEXT = 200, 1000
_SPECIAL = re.compile(r"[^\w\s/,%]|_")
# Behind or before what makes GitHub see a mention, a reference or a link in plain text.
_TRIGGER = re.compile(r"(?<=[@#])|(?<=\bgh)(?=-\d)|(?<=\bwww)(?=\.)|(?=://)", re.IGNORECASE)
# Of a table's cells, what nobody takes for anything else: escaped, it is four times as long.
_NUMBERS = re.compile(r"[\d\s.,+/%\[\]-]*")
_ZERO_WIDTH_SPACE = "\u200b"


class CommentRow(NamedTuple):
    """One comparison of a gate, or a gate that made none.

    Attributes
    ----------
    name, status : str
        The status is the outcome of the comparison, or of the gate that made none.
    """

    gate: Mapping[str, Any]
    name: str
    status: str
    reason: str | None = None
    shown: Shown | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Headings of its cells."""
        return () if self.shown is None else tuple(self.shown.card.cells)

    @property
    def why(self) -> str:
        """Why the gate ended so, as far as this tells; empty where it passed."""
        said = ". ".join(filter(None, (self.reason, self.gate["detail"])))
        return said or "the test failed by itself; its log says how" * (self.status == "failed")


def markdown(document: Mapping[str, Any], *, shown_of: ShownOf) -> str:
    """Return the report in GitHub's Markdown, no longer than a comment may be.

    Failing gates come first; what does not fit is counted.
    """
    gates = sorted(document["gates"], key=lambda gate: gate["outcome"] not in FAILING)
    tables = [rows_of(gate, shown_of) for gate in gates]
    rows = [row for table in tables for row in table]
    details = [
        _details(row, row.shown) for row in rows if row.status in FAILING and row.shown is not None
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
        *(("gate", _table_head(columns), table, "", 0.5) for columns, table in _tables(tables)),
        ("footnote", "", _footnotes(rows), "", 0.5),
        ("failure", "", details, "", 0.75),
        ("finding", "", findings, "", 0.75),
        ("note", "<details><summary>Notes</summary>\n\n", notes, "\n\n</details>", 1.0),
    ):
        room = share * (_MOST_BYTES - _BETWEEN - sum(map(_size, parts)))
        parts[-1:-1] = _section(what, lead, blocks, end, room=room)
    return "\n\n".join(parts)


def rows_of(gate: Mapping[str, Any], shown_of: ShownOf) -> list[CommentRow]:
    """Return the comparisons of one of a document's gates, or a row for the gate alone."""
    if not gate["comparisons"]:
        return [CommentRow(gate, gate["id"], gate["outcome"])]
    reasons = [comparison["reason"] for comparison in gate["comparisons"]]
    rows = []
    for comparison, reason in zip(gate["comparisons"], reasons, strict=True):
        shown = shown_of(comparison)
        status = comparison_outcome(
            gate["outcome"], reason=reason, reasons=reasons, severity=shown.ruling.severity
        )
        rows.append(CommentRow(gate, comparison["name"], status, reason, shown))
    return rows


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


def _headline(document: Mapping[str, Any], tables: Sequence[Sequence[CommentRow]]) -> str:
    gates, session = document["gates"], document["session"]
    outcomes = Counter(map(_outcome, tables))
    counts = [f"{len(gates)} gate{'s'[: len(gates) != 1]}"]
    counts += [
        f"{outcomes[outcome]} {word}" for outcome, word in WORDS.items() if outcomes[outcome]
    ]
    if document["deselected"]:
        counts.append(f"{len(document['deselected'])} deselected")
    counts += besides_gates(session)
    checks = {row.shown.ruling.check for rows in tables for row in rows if row.shown}
    check = checks.pop() if len(checks) == 1 else ""
    what = f"pytest-cpg {check}, no verdicts" if check else "pytest-cpg"
    return f"{what}: {session['outcome']} ({', '.join(counts)})"


def _outcome(rows: Sequence[CommentRow]) -> str:
    """Return how the gate of these rows ended."""
    severities = [row.shown.ruling.severity for row in rows if row.shown]
    return gate_outcome(rows[0].gate["outcome"], severities)


def _tables(gates: Sequence[Sequence[CommentRow]]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the lines of each gate, by the columns of what it measured."""
    columns = dict.fromkeys(row.columns for rows in gates for row in rows if row.columns)
    # Gates that measured nothing stand in the first table.
    first = next(iter(columns), ())
    tables: dict[tuple[str, ...], list[str]] = {first: [], **{one: [] for one in columns}}
    for rows in gates:
        own = next((row.columns for row in rows if row.columns), first)
        tables[own].append("\n".join(_table_row(row, own) for row in rows))
    return list(tables.items())


def _table_head(columns: Sequence[str]) -> str:
    headings = " | ".join(["gate", "verdict", *map(_prose, columns), "baseline"])
    return f"| {headings} |\n|---|---|{'--:|' * len(columns)}---|\n"


def _table_row(row: CommentRow, columns: Sequence[str]) -> str:
    # An inconclusive verdict is told by its own name.
    word = WORDS["passed" if row.status == "inconclusive" else row.status]
    verdict, cells = f"**{word}**" if row.status in FAILING else word, [""] * (len(columns) + 1)
    if row.shown is None:
        verdict += f": {_prose(row.why)}" * bool(row.why)
    else:
        ruling, card, drift = row.shown.ruling, row.shown.card, row.shown.drift
        verdict += f": {_prose(f'{card.mark}{card.verdict or ruling.label}')}"
        verdict += ", blind gate" * (ruling.severity is Severity.BLIND)
        cells = [_cell(card.cells.get(column, "")) for column in columns]
        cells.append(drift.label if drift else "")
    return f"| {' | '.join([_code(row.name), verdict, *cells])} |"


def _cell(text: str) -> str:
    return text if _NUMBERS.fullmatch(text) else _prose(text)


def _footnotes(rows: Sequence[CommentRow]) -> list[str]:
    notes = [note for row in rows if row.shown for note in row.shown.card.footnotes]
    return [_prose(note) for note in dict.fromkeys(notes)]


def _details(row: CommentRow, shown: Shown) -> str:
    """Return what a reader needs to act on a failing comparison, folded up."""
    ruling, card, drift = shown.ruling, shown.card, shown.drift
    lead = f"<details><summary>{_code(row.name)}: {_prose(row.why)}</summary>"
    texts = paragraphs(card, ruling, reason=row.reason, drift=drift)
    told = [text for text in texts if text != row.why]
    told += [] if card.cause is None else _cause(card.cause)
    listed = [f"- {_prose(name)}: {_prose(text)}" for name, text in facts(card, drift) if text]
    command = rerun_command(card, row.gate["id"], {}).text
    # A gate with an id of its own does not say which test it is.
    if "::" in row.gate["id"] and command == one_line(command, _MOST_IN_TEXT):
        exactly = ", with this seed and size" * bool(card.rerun)
        listed.append(f"- again{exactly}: {_code(command, _MOST_IN_TEXT)}")
    return "\n\n".join([lead, *map(_prose, told), "\n".join(listed), "</details>\n"])


def _cause(cause: Cause) -> list[str]:
    measured = "; ".join(
        f"{name} {numbers or '-'} ({text})" for name, numbers, text in cause.measures
    )
    return [
        f"{cause.heading}. {cause.text} {cause.advice}".rstrip(),
        f"From {cause.source}: {measured}",
    ]


def _notes(row: CommentRow) -> Iterator[str]:
    """Yield what there is to know of a gate, whether it fails or not."""
    gate = row.gate
    if row.shown is not None and row.status not in FAILING:
        yield from (remark.text for remark in row.shown.card.remarks if remark.detail <= 0)
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
