"""Markdown: a session's report as a comment on a pull request.

GitHub looks for mentions, references and links in what Markdown has made of a comment, so that
escaping its signs is not enough.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from pytest_cpg.gates.card import NOW, Cause, Command, Severity
from pytest_cpg.gates.drift import Label
from pytest_cpg.gates.finding import Finding
from pytest_cpg.gates.notation import one_line
from pytest_cpg.render.failure import crash_line, facts, headline, judged, reasons, sentence
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.provenance import Provenance
from pytest_cpg.report.session import FAILING, WORDS, Row, Session

# By its first line a bot finds its own comment, and writes the next one in its place.
MARKER = "<!-- pytest-cpg report -->"
# GitHub's limit on a comment is in characters; the bytes of UTF-8, counted here, are never fewer.
_MOST_BYTES = 65_536
# Blank lines between sections, and a line for each that says what was left out.
_BETWEEN = 1000
_SIGNS = {"passed": "✅", "inconclusive": "❔", "skipped": "⚪", "measured": "⚪", "xfailed": "⚪"}
_FAILS = "❌"
# Worst gates that the heading names.
_MOST_NAMED = 2

_MOST_IN_NAME, _MOST_IN_TEXT = 200, 1000
_FENCE = re.compile(r"`+")
# Behind or before what makes GitHub see a mention, a reference, an emoji or a link in plain text.
_TRIGGER = re.compile(
    r"(?<=[@#])|(?<=\bgh)(?=-\d)|(?<=\bwww)(?=\.)|(?=://)|(?<=:)(?=[\w+-]+:)", re.IGNORECASE
)
# Underscores within a word are plain.
_SPECIAL = re.compile(r"[\\`*\[\]<&|~]|(?<![^\W_])_|_(?![^\W_])")
# What makes a heading, a list, a quotation or a line of the line that it begins.
_BEGIN = re.compile(r"^(?:[#>=]|[+-](?=\s|$)|-(?=-)|\d+(?=[.)](?:\s|$)))")
# Of which Markdown makes nothing.
_NUMBERS = re.compile(r"[\d\s.,+/%\[\]-]*")
_ZERO_WIDTH_SPACE = "\u200b"


def markdown(session: Session, *, page: str = "") -> str:
    """Return the report in GitHub's Markdown, no longer than a comment may be.

    The worst gates come first; what does not fit is counted.

    Parameters
    ----------
    page : str
        The address of the page, if it has one.
    """
    gates = session.rows_worst_first()
    rows = [row for gate in gates for row in gate]
    is_green = [all(row.state == "passed" for row in gate) for gate in gates]
    passed = [gate for gate, green in zip(gates, is_green, strict=True) if green]
    others = [gate for gate, green in zip(gates, is_green, strict=True) if not green]
    findings = [_uncollected(*found) for found in session.end.uncollected.items()]
    findings += [_finding(found) for found in session.findings if found.fails]
    findings += [_finding(found) for found in session.findings if not found.fails]
    notes = [f"- {code(row.name)}: {prose(note)}" for row in rows for note in _notes(row)]
    details = [_details(row, row.judgement) for row in rows if row.fails and row.judgement]
    link = f"[Page and report]({page}). " * bool(page)
    parts = [
        f"{MARKER}\n### {_headline(session, gates)}",
        f"{link}{_counts(session, gates)}",
        *_worst(rows),
        f"<sub>{prose(_provenance(session.provenance))}</sub>\n",
    ]
    folded = f"<details><summary>{len(passed)} passed</summary>\n\n"
    for what, lead, blocks, end, share in (
        *(("gate", head, table, "", 0.5) for head, table in _tables(others, rows)),
        *(
            ("gate", f"{folded}{head}", table, "\n\n</details>\n", 0.5)
            for head, table in _tables(passed, rows)
        ),
        ("footnote", "", _footnotes(rows), "", 0.5),
        ("failure", "", details, "", 0.75),
        ("finding", "", findings, "", 0.75),
        ("note", "<details><summary>Notes</summary>\n\n", notes, "\n\n</details>", 1.0),
    ):
        room = share * (_MOST_BYTES - _BETWEEN - sum(map(_size, parts)))
        parts[-1:-1] = _section(what, lead, blocks, end, room=room)
    return "\n\n".join(parts)


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


def _headline(session: Session, gates: Sequence[Sequence[Row]]) -> str:
    """Return how the gates ended, and what became of the worst of them."""
    failing = [row for gate in gates for row in gate if row.fails]
    # Those that measured something say more.
    failing.sort(key=lambda row: row.judgement is None)
    count, outcomes = len(gates), Counter(rows[0].gate.state for rows in gates)
    bad = sum(outcomes[outcome] for outcome in FAILING)
    if failing:
        many = "gate fails" if count == 1 else f"of {count} gates fail{'s'[: bad == 1]}"
        became = partial(_became, is_alone=len(failing) == 1)
        named = "; ".join(f"{code(row.name)} {became(row)}" for row in failing[:_MOST_NAMED])
        more = f"; and {bad - _MOST_NAMED} more" * (bad > _MOST_NAMED)
        return f"{_FAILS} {bad} {many}: {named}{more}"
    checks = {row.judgement.ruling.check for gate in gates for row in gate if row.judgement}
    check = checks.pop() if len(checks) == 1 else ""
    if session.outcome != "passed":
        return f"{_FAILS} pytest-cpg {check}{' ' * bool(check)}{session.outcome}"
    many = f"{count} gate{'s'[: count != 1]}"
    if check:
        return f"✅ {many} ran: {check}, no verdicts"
    if open_ := outcomes["inconclusive"]:
        return f"{_SIGNS['inconclusive']} {open_} of {many} inconclusive, none fails"
    if measured := outcomes["measured"]:
        return f"{_SIGNS['measured']} {measured} of {many} measured, not judged"
    return f"{_SIGNS['passed']} {outcomes['passed']} of {many} passed"


def _became(row: Row, *, is_alone: bool) -> str:
    """Return what the heading says of one of the worst gates, in brief if it names several."""
    drift = row.drift
    if drift is not None and drift.label is Label.REGRESSED:
        return prose(f"{drift.text} since {drift.since}")
    if row.judgement is not None and not is_alone:
        return prose(crash_line(row.judgement))
    return prose(sentence(row, is_brief=True).rstrip("."))


def _counts(session: Session, gates: Sequence[Sequence[Row]]) -> str:
    outcomes, end = Counter(rows[0].gate.state for rows in gates), session.end
    counts = [f"{len(gates)} gate{'s'[: len(gates) != 1]}"]
    counts += [
        f"{outcomes[outcome]} {word}" for outcome, word in WORDS.items() if outcomes[outcome]
    ]
    if session.deselected:
        counts.append(f"{len(session.deselected)} deselected")
    counts += end.besides_gates
    return f"pytest-cpg: {session.outcome} ({', '.join(counts)})"


def _worst(rows: Sequence[Row]) -> list[str]:
    """Return why the worst gate fails of which that is known, and what to do."""
    for row in rows:
        lines = [f"**{name}:** {prose(text)}" for name, text in _told(row) if name in ("Why", "Do")]
        if row.fails and lines:
            lines[0] = lines[0].replace(":**", f"** ({code(row.name)}):", 1)
            return ["  \n".join(lines)]
    return []


def _told(row: Row) -> list[tuple[str, str]]:
    """Return why a row fails and what to do, each with its name."""
    judgement = row.judgement
    return [] if judgement is None or judgement.reason is None else reasons(judgement)


def _tables(gates: Sequence[Sequence[Row]], rows: Sequence[Row]) -> Iterator[tuple[str, list[str]]]:
    """Yield head and lines of a table for each set of columns that was measured."""
    drifts = [row.drift for row in rows if row.drift]
    commits = {drift.since for drift in drifts if drift.commit}
    since = f"since {code(commits.pop())}" if len(commits) == 1 else "baseline"
    of_gate = [next((tuple(row.card.cells) for row in rows if row.card), None) for rows in gates]
    sets = list(dict.fromkeys(one for one in of_gate if one is not None)) or [()]
    for columns in sets:
        # Gates that measured nothing stand in the first table.
        own = [
            rows
            for rows, found in zip(gates, of_gate, strict=True)
            if found == columns or (found is None and columns == sets[0])
        ]
        if not own:
            continue
        shown = [column for column in columns if not (drifts and column == NOW)]
        lines = ["\n".join(_line(row, shown, bool(drifts)) for row in rows) for rows in own]
        numbers = [*(["was → now"] if drifts else []), *map(prose, shown)]
        names = ["", "gate", *numbers, "verdict", *([since] if drifts else [])]
        marks = ["---", "---", *["--:"] * len(numbers), "---", *["---"] * bool(drifts)]
        yield f"| {' | '.join(names)} |\n|{'|'.join(marks)}|\n", lines


def _line(row: Row, columns: Sequence[str], has_drift: bool) -> str:
    cells, was_now, became = [""] * len(columns), "", ""
    said = (sentence if row.fails else Row.why)(row, is_brief=True)
    verdict = said or WORDS[row.state]
    if row.judgement is not None:
        card, drift = row.judgement.card, row.judgement.drift
        cells = [number(card.cells.get(column, "")) for column in columns]
        was_now = number(card.cells.get(NOW, ""))
        if drift is not None and drift.now:
            was_now = f"{number(drift.was)} → " * bool(drift.was) + f"**{number(drift.now)}**"
        verdict = _verdict(row, row.judgement)
        became = "" if drift is None else drift.became
        became = f"**{became}**" if became == Label.REGRESSED else became
    sign = _FAILS if row.fails else _SIGNS[row.state]
    if has_drift:
        return f"| {' | '.join([sign, cell(row.name), was_now, *cells, prose(verdict), became])} |"
    return f"| {' | '.join([sign, cell(row.name), *cells, prose(verdict)])} |"


def _verdict(row: Row, shown: Judgement) -> str:
    """Return the label, and what else decided how the gate ended."""
    ruling, card = shown.ruling, shown.card
    said = f"{card.mark}{card.verdict or ruling.label}"
    said += ", blind gate" * (ruling.severity is Severity.BLIND)
    if row.state in ("xfailed", "skipped", "error"):
        return f"{WORDS[row.state]}: {said}"
    return f"{said}; {row.why(is_brief=True)}" if row.fails and shown.reason is None else said


def _footnotes(rows: Sequence[Row]) -> list[str]:
    notes = [note for row in rows if row.card for note in row.card.footnotes]
    return [prose(note) for note in dict.fromkeys(notes)]


def _details(row: Row, shown: Judgement) -> str:
    """Return what a reader needs to act on a failing comparison, folded up."""
    card, drift = shown.card, shown.drift
    parts = [
        f"<details><summary><code>{plain_html(row.gate.id, 200)}</code>: "
        f"{plain_html(headline(shown))}</summary>",
        prose(drift.sentence) if drift is not None and drift.is_news else "",
        prose(judged(shown)),
        "" if shown.reason else prose(row.why()),
        *(f"**{name}:** {prose(text)}" for name, text in _told(row)),
        *_measures(card.cause),
        "\n".join(f"- {prose(name)}: {prose(text)}" for name, text in facts(card, drift) if text),
        *_commands(shown.commands),
        "</details>\n",
    ]
    return "\n\n".join(filter(None, parts))


def _measures(cause: Cause | None) -> Iterator[str]:
    """Yield what a cause was found by, as a table."""
    if cause is None or not cause.measures:
        return
    lines = [
        f"| {prose(name)} | {number(numbers)} | {prose(text)} |"
        for name, numbers, text in cause.measures
    ]
    yield f"| {prose(cause.heading)} | | {prose(cause.source)} |\n|---|---|---|\n" + "\n".join(
        lines
    )


def _commands(commands: Sequence[Command]) -> Iterator[str]:
    """Yield what to type, to be copied."""
    texts = [one.text for one in commands if is_whole(one.text)]
    if texts:
        yield "\n".join(["```sh", *texts, "```"])


def _notes(row: Row) -> Iterator[str]:
    """Yield what there is to know of a gate, whether it fails or not."""
    entry = row.gate.entry
    if row.card is not None and not row.fails:
        yield from (remark.text for remark in row.card.remarks if remark.detail <= 0)
    if row.comparison is not None and row.comparison.number > 1:
        return
    yield from entry.measurements
    if entry.earlier:
        yield (
            f"it was repeated, after {'; '.join(entry.earlier)}: a gate that is repeated until "
            f"it passes says nothing"
        )


def _finding(finding: Finding) -> str:
    return f"- {'**fails**: ' * finding.fails}{prose(finding.text)}"


def _uncollected(name: str, error: str) -> str:
    return f"- **not collected**: {code(name)}: {prose(error)}"


def _provenance(found: Provenance) -> str:
    commit = "no revision"
    if found.revision is not None:
        commit = f"revision {found.revision}{' with changes on top' * bool(found.dirty)}"
    kernels, packages = (
        ", ".join(f"{name} {which}" for name, which in versions.items())
        for versions in (found.kernels, found.packages)
    )
    return (
        f"{commit}; Python {found.python} on {found.platform}, {found.processors} "
        f"processors {found.processor}{f' ({kernels})' * bool(kernels)}; {packages}"
    )


def number(text: str) -> str:
    """Return the text of a cell, which numbers need no signs for."""
    return text if _NUMBERS.fullmatch(text) else prose(text)


def prose(text: str) -> str:
    r"""Return a text of which Markdown and GitHub make nothing but text.

    >>> prose("*a* test_b [c]")
    '\\*a\\* test_b \\[c\\]'
    """
    shown = _TRIGGER.sub(_ZERO_WIDTH_SPACE, one_line(text, _MOST_IN_TEXT))
    # Mathematics is looked for before Markdown is read.
    escaped = _SPECIAL.sub(r"\\\g<0>", shown).replace("$", "&#36;")
    return _BEGIN.sub(_unbegun, escaped)


def code(text: str, most: int = _MOST_IN_NAME) -> str:
    r"""Return a name as code, between more backticks than it has in a row itself.

    In a table a bar has to be escaped even there, and outside of one must not be: `cell`.

    >>> print(code("test_a[x]"), code("a`b"))
    `test_a[x]` `` a`b ``
    """
    shown = one_line(text, most)
    longest = max(map(len, _FENCE.findall(shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " * (longest > 0 or not shown)
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell(text: str) -> str:
    """Return a name as code in a cell of a table."""
    # Before a bar a backslash of the name's own would end the cell.
    return code(text).replace("\\|", "\\ |").replace("|", "\\|")


def plain_html(text: str, most: int = _MOST_IN_TEXT) -> str:
    """Return a text for a line of HTML, in which no Markdown is read."""
    shown = _TRIGGER.sub(_ZERO_WIDTH_SPACE, one_line(text, most))
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        shown = shown.replace(sign, entity)
    return shown


def is_whole(text: str) -> bool:
    """Say whether a text is shown as it is, so that it can be copied."""
    return text == one_line(text, _MOST_IN_TEXT)


def _unbegun(begin: re.Match[str]) -> str:
    return f"{begin[0]}\\" if begin[0].isdigit() else f"\\{begin[0]}"
