"""Markdown: a session's report as a comment on a pull request.

GitHub looks for mentions, references and links in what Markdown has made of a comment, so that
escaping its signs is not enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_cpg.gates.card import NOW, Command
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.notation import one_line
from pytest_cpg.machine.provenance import Provenance
from pytest_cpg.render.formats import FORMATS
from pytest_cpg.render.words import (
    alike,
    effect_text,
    headline,
    judged,
    named_with,
    reasons,
    regression,
    sentence,
    verdict_of,
    with_arrows,
)
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.session import FAILING, WORDS, Gate, Row, Session

# By its first line a bot finds its own comment, and writes the next one in its place.
MARKER = FORMATS["md"].sign
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


def report(session: Session, *, page: str = "", **_: str) -> str:
    """Return the comment as a file has it."""
    return f"{markdown(session, page=page)}\n"


def markdown(session: Session, *, page: str = "") -> str:
    """Return the report in GitHub's Markdown, no longer than a comment may be.

    The worst gates come first; what does not fit is counted. ``page`` is its address, if any.
    """
    gates, names = session.worst_first, session.names
    rows = [row for gate in gates for row in gate.rows]
    findings = [
        f"- **not collected**: {code(name)}: {prose(error)}"
        for name, error in session.end.uncollected.items()
    ]
    findings += [
        f"- {'**fails**: ' * finding.fails}{prose(finding.text)}"
        for finding in sorted(session.findings, key=lambda finding: not finding.fails)
    ]
    notes = [f"- {code(names[row.name])}: {prose(note)}" for row in rows for note in _notes(row)]
    details = [_details(row, row.judgement) for row in rows if row.fails and row.judgement]
    link = f"[Page and report]({page}). " * bool(page)
    parts = [
        f"{MARKER}\n### {_headline(session, rows)}",
        f"{link}{_counts(session)}",
        *_worst(rows, names),
        f"<sub>{prose(_provenance(session.provenance))}</sub>\n",
    ]
    drifts = [row.drift for row in rows if row.drift]
    head, has_drift = _head(drifts), bool(drifts)
    passed = [gate for gate in gates if all(row.state == "passed" for row in gate.rows)]
    others = [gate for gate in gates if gate not in passed]
    folded = f"<details><summary>{len(passed)} passed</summary>\n\n"
    for what, lead, blocks, end, share in (
        ("gate", head, _lines(others, names, has_drift), "", 0.5),
        ("gate", f"{folded}{head}", _lines(passed, names, has_drift), "\n\n</details>\n", 0.5),
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
    shown = []
    for block in blocks:
        # Two for the blank line behind it.
        if _size(block) + 2 <= room:
            shown.append(block)
            room -= _size(block) + 2
    body, left = "\n".join(shown), len(blocks) - len(shown)
    parts = [f"{lead}{body}{end}"] if shown else []
    if left:
        parts.append(f"*{left} {what}{'s'[: left != 1]} left out: a comment on GitHub is limited.*")
    return parts


def _headline(session: Session, rows: Sequence[Row]) -> str:
    """Return how the gates ended, and what became of the worst of them."""
    failing = [row for row in rows if row.fails]
    count, states = len(session.gates), session.states
    bad = sum(states[state] for state in FAILING)
    if failing:
        many = "gate fails" if count == 1 else f"of {count} gates fail{'s'[: bad == 1]}"
        groups, texts = alike(failing)[:_MOST_NAMED], []
        for row, *others in groups:
            like = len({other.gate for other in others} - {row.gate})
            name = code(named_with(row, session.names[row.name]))
            text = prose(regression(row.drift) or sentence(row, is_brief=True).rstrip("."))
            texts.append(f"{name}{f' and {like} alike' * bool(like)}: {text}")
        left = bad - len({row.gate for group in groups for row in group})
        return f"{_FAILS} {bad} {many}: {'; '.join(texts)}{f'; and {left} more' * (left > 0)}"
    checks = session.checks
    check = checks.pop() if len(checks) == 1 else ""
    if session.outcome != "passed":
        return f"{_FAILS} pytest-cpg {check}{' ' * bool(check)}{session.outcome}"
    many = f"{count} gate{'s'[: count != 1]}"
    if check:
        return f"✅ {many} ran: {check}, no verdicts"
    if open_ := states["inconclusive"]:
        return f"{_SIGNS['inconclusive']} {open_} of {many} inconclusive, none fails"
    if measured := states["measured"]:
        return f"{_SIGNS['measured']} {measured} of {many} measured, not judged"
    return f"{_SIGNS['passed']} {states['passed']} of {many} passed"


def _counts(session: Session) -> str:
    size = len(session.gates)
    counts = [f"{size} gate{'s'[: size != 1]}", *session.counts]
    if session.deselected:
        counts.append(f"{len(session.deselected)} deselected")
    counts += session.end.besides_gates
    return f"pytest-cpg: {session.outcome} ({', '.join(counts)})"


def _worst(rows: Sequence[Row], names: Mapping[str, str]) -> list[str]:
    """Return why the worst gate fails of which that is known, and what to do."""
    for row in rows:
        reasons = [text for text in _reasons(row) if text[0] in ("Why", "Do")] if row.fails else []
        if reasons:
            (name, text), *more = reasons
            lines = [f"**{name}** ({code(names[row.name])}): {prose(text)}"]
            return ["  \n".join([*lines, *(f"**{name}:** {prose(text)}" for name, text in more)])]
    return []


def _reasons(row: Row) -> list[tuple[str, str]]:
    """Return why a row fails and what to do, each with its name."""
    judgement = row.judgement
    return [] if judgement is None or judgement.reason is None else reasons(judgement)


def _head(drifts: Sequence[Drift]) -> str:
    """Return the head of the table, the same for gates of all kinds."""
    commits = {drift.since for drift in drifts if drift.commit}
    since = f"since {code(commits.pop())}" if len(commits) == 1 else "baseline"
    now = "was → now" if drifts else "now"
    names = ["", "gate", now, "loss", "verdict", *[since] * bool(drifts)]
    marks = ["---", "---", "--:", "---", "---", *["---"] * bool(drifts)]
    return f"| {' | '.join(names)} |\n|{'|'.join(marks)}|\n"


def _lines(gates: Sequence[Gate], names: Mapping[str, str], has_drift: bool) -> list[str]:
    return [
        "\n".join(_line(row, names[row.name], has_drift) for row in gate.rows) for gate in gates
    ]


def _line(row: Row, name: str, has_drift: bool) -> str:
    card, drift = row.card, row.drift
    now = loss = ""
    verdict = (sentence if row.fails else Row.why)(row, is_brief=True) or WORDS[row.state]
    if card is not None and row.judgement is not None:
        cell_now = card.cells.get(NOW) or next(iter(card.cells.values()), "")
        now = number((drift and drift.now) or cell_now)
        if drift is not None and drift.was:
            now = f"{number(drift.was)} → " + (now if drift.was == drift.now else f"**{now}**")
        if card.effect is not None:
            loss = prose(f"{effect_text(card.effect)} {card.effect.unit}")
        verdict = _verdict(row, row.judgement)
    became = drift.became if drift else ""
    became = f"**{became}**" if became == Label.REGRESSED else became
    sign = _FAILS if row.fails else _SIGNS[row.state]
    cells = [sign, cell(name), now, loss, prose(verdict), *[became] * has_drift]
    return f"| {' | '.join(cells)} |"


def _verdict(row: Row, judgement: Judgement) -> str:
    """Return the label, its cause, and what else decided how the gate ended."""
    label, cause = verdict_of(judgement.ruling), judgement.card.cause
    if row.state in ("xfailed", "skipped", "error"):
        return f"{WORDS[row.state]}: {label}"
    if not row.fails:
        return label
    if judgement.reason is None:
        return f"{label}; {row.why(is_brief=True)}"
    return f"{label}: {cause.name}" if cause is not None and cause.advice else label


def _details(row: Row, judgement: Judgement) -> str:
    """Return what a reader needs to act on a failing comparison, folded up."""
    drift = judgement.drift
    parts = [
        f"<details><summary><code>{plain_html(row.gate, 200)}</code>: "
        f"{plain_html(headline(judgement))}</summary>",
        prose(drift.sentence) if drift is not None and drift.is_news else "",
        prose(judged(judgement)),
        "" if judgement.reason else prose(row.why()),
        *(f"**{name}:** {prose(text)}" for name, text in _reasons(row)),
        *_commands(judgement.commands),
        "</details>\n",
    ]
    return "\n\n".join(filter(None, parts))


def _commands(commands: Sequence[Command]) -> Iterator[str]:
    """Yield what to type, to be copied."""
    every = (command.text for command in commands)
    # What is cut cannot be copied.
    texts = [text for text in every if text == one_line(text, _MOST_IN_TEXT)]
    if texts:
        yield "\n".join(["```sh", *texts, "```"])


def _notes(row: Row) -> Iterator[str]:
    """Yield what there is to know of a gate, whether it fails or not."""
    if row.card is not None and not row.fails:
        yield from row.card.texts("note")
    if row.number > 1:
        return
    yield from row.entry.measurements
    if row.entry.earlier:
        yield (
            f"it was repeated, after {'; '.join(row.entry.earlier)}: a gate that is repeated until "
            f"it passes says nothing"
        )


def _provenance(run: Provenance) -> str:
    commit = "no revision"
    if run.revision is not None:
        commit = f"revision {run.revision}{' with changes on top' * bool(run.dirty)}"
    kernels, packages = (
        ", ".join(f"{name} {which}" for name, which in versions.items())
        for versions in (run.kernels, run.packages)
    )
    return (
        f"{commit}; Python {run.python} on {run.platform}, {run.processors} "
        f"processors {run.processor}{f' ({kernels})' * bool(kernels)}; {packages}"
    )


def number(text: str) -> str:
    """Return the text of a cell, which numbers need no signs for."""
    return text if _NUMBERS.fullmatch(text) else prose(text)


def prose(text: str) -> str:
    r"""Return a text of which Markdown and GitHub make nothing but text.

    >>> prose("*a* test_b [c]")
    '\\*a\\* test_b \\[c\\]'
    """
    shown = _TRIGGER.sub(_ZERO_WIDTH_SPACE, with_arrows(one_line(text, _MOST_IN_TEXT)))
    # Mathematics is looked for before Markdown is read.
    escaped = _SPECIAL.sub(r"\\\g<0>", shown).replace("$", "&#36;")
    return _BEGIN.sub(_unbegun, escaped)


def code(text: str) -> str:
    r"""Return a name as code, between more backticks than it has in a row itself.

    In a table a bar has to be escaped even there, and outside of one must not be: `cell`.

    >>> print(code("test_a[x]"), code("a`b"))
    `test_a[x]` `` a`b ``
    """
    shown = one_line(text, _MOST_IN_NAME)
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


def _unbegun(begin: re.Match[str]) -> str:
    return f"{begin[0]}\\" if begin[0].isdigit() else f"\\{begin[0]}"
