"""Summary: a line for every gate of the session, best first, and what they say together."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from pytest_cpg.gates.card import NOW, SMOKE_TEST
from pytest_cpg.gates.kind import named
from pytest_cpg.gates.notation import duration, fitted_names, one_line
from pytest_cpg.render.line import Line, command_lines, wrapped
from pytest_cpg.render.table import (
    BY_ITSELF,
    GREEN,
    PASSING,
    SIZE,
    UNSEEN,
    Layout,
    Listed,
    listed_rows,
    one_size,
    surely_failed_drop,
)
from pytest_cpg.render.words import RERUN, program_in
from pytest_cpg.report.session import FAILING, IDLE, Session

# From so many rows on, those that passed are counted: where all did, and where some did not.
_MANY_GREEN, _MANY = 6, 60
_LONGEST_NAME = 400
# So many gates that a session never came to share a line.
_MANY_IDLE = 3
_DRIFTS = ("regressed", "improved", "unresolved", "unchanged", "incomparable", "new")


def title(session: Session, *, verbosity: int = 0, seconds: float | None = None) -> str:
    """Return the heading of the summary; a quiet one says what it was compared with."""
    gates, states, counts = session.gates, session.states, session.counts
    if len(counts) == 1:
        counts = [counts[0].partition(" ")[2]]
    if session.fails and not any(states[state] for state in FAILING):
        counts.append("the session fails")
    checks = session.checks
    if checks == {SMOKE_TEST}:
        others = [text for text in counts if not text.endswith("passed")]
        ran = f"cpg: quick run, {states['passed']} of {len(gates)} gates ran"
        return ", ".join([ran, *others])
    what = f" {checks.pop()}" if len(checks) == 1 and checks != {""} else ""
    many = f"{len(gates)} gate{'s'[: len(gates) != 1]}"
    between = " " if len(counts) == 1 and gates else ", "
    took = "" if seconds is None else f" in {duration(seconds)}"
    text = f"cpg{what}: {many}{between}{', '.join(counts) or 'none collected'}{took}"
    since = _since(listed_rows(session)) if verbosity < 0 and len(counts) == 1 else ""
    return f"{text}; s{since[1:]}" if since else text


def title_markup(session: Session) -> dict[str, bool]:
    """Return the colour of the worst gate."""
    if session.fails:
        return {"red": True}
    return {"green" if all(gate.is_quiet for gate in session.gates) else "yellow": True}


def summary_lines(session: Session, *, width: int, verbosity: int = 0) -> list[Line]:
    """Return the table of all gates and what follows from it, for a terminal of this width.

    With ``verbosity`` below 0 only gates that did not simply pass are listed, without groups, and
    what has to be known before a verdict is believed.
    """
    rows = listed_rows(session, verbosity)
    is_quick = verbosity == 0 and session.checks == {SMOKE_TEST}
    if verbosity < 0 or is_quick:
        lines = _ran(session, rows, width) if is_quick else []
        lines += _brief(rows, width)
    else:
        lines = _table(rows, width, verbosity)
    if verbosity >= 0:
        lines += [] if _is_alone(rows, verbosity) else _wrapped(_since(rows), " ", width)
    if verbosity == 0:
        lines += _wrapped(_unseen(rows), " ", width)
    if verbosity >= 0:
        lines += _settle(rows, width)
    for finding in session.findings:
        if finding.fails or finding.warns or finding.answers or verbosity >= 0:
            lines += _wrapped(finding.text, " ", width, red=finding.fails)
    if missing := session.missing:
        size = len(session.gates)
        lines.append(Line.of(f" {size - len(missing)} of {size} gates reported", red=True))
        if session.is_resumable:
            lines.append(Line.of(" --cpg-resume goes on with what was finished"))
    return lines


def _ran(session: Session, rows: Sequence[Listed], width: int) -> list[Line]:
    """Say what a quick run was, how many gates there is nothing else to say of, and the slowest."""
    meanings = dict.fromkeys(row.group.meaning for row in rows if row.row.card)
    ran = [gate for gate in session.gates if gate.state in GREEN]
    counted = f". {len(ran)} gate{'s'[: len(ran) != 1]} ran"
    timed = [(gate.seconds, gate.id) for gate in ran if gate.seconds is not None]
    if len(timed) > 1:
        seconds, slowest = max(timed, key=itemgetter(0))
        counted += f" (slowest: {session.names[slowest]}, {duration(seconds)})"
    texts = [f"{text[:1].upper()}{text[1:]}." for text in meanings]
    texts.append("The exit code counts errors and broken models alone.")
    lines = textwrap.wrap(counted, width - 1, subsequent_indent="  ", break_on_hyphens=False)
    return [*_wrapped(" ".join(texts), " ", width), *(Line.of(f" {line}") for line in lines)]


def _brief(rows: Sequence[Listed], width: int) -> list[Line]:
    """Return the rows that need an eye, each with its label and without what a glance needs not."""
    shown = [
        replace(
            row,
            cells={name: cell for name, cell in row.cells.items() if name != SIZE},
            word=" ".join(dict.fromkeys(filter(None, [_brief_label(row), row.word])))
            * bool(row.cells),
            heights=(),
        )
        for row in rows
        if not row.has_passed and row.row.state != "skipped"
    ]
    layout = Layout(shown, width, shares=False)
    shown, idle = _without_idle(shown, 0)
    lines: list[Line] = []
    for _, members in groupby(shown, key=lambda row: tuple(row.cells)):
        group = list(members)
        # A planning gap says all that its columns do.
        if group[0].cells and NOW not in group[0].cells:
            lines.append(Line.of(layout.heading(group[0])))
        lines += [line for row in group for line in layout.lines(row)]
    return lines + [Line.of(line, red=True) for line in _idle_lines(idle, layout, width)]


def _brief_label(row: Listed) -> str:
    judgement = row.row.judgement
    is_own = row.row.state == "failed" and judgement is not None and judgement.reason is None
    return BY_ITSELF if is_own else row.group.label


def _without_idle(rows: Sequence[Listed], verbosity: int) -> tuple[list[Listed], list[Listed]]:
    """Return the rows that stand alone, and the many gates that a session never came to."""
    idle = [row for row in rows if row.row.outcome == "missing" and row.text == IDLE]
    if verbosity > 0 or len(idle) < _MANY_IDLE:
        return [*rows], []
    return [row for row in rows if row not in idle], idle


def _idle_lines(idle: Sequence[Listed], layout: Layout, width: int) -> list[str]:
    """Name the first gates that a session never came to, and count the others."""
    if not idle:
        return []
    names = named([layout.names.of[row.row.name] for row in idle])
    text = f"! {len(idle)} gates {IDLE}: {names}"
    lines = textwrap.wrap(
        text, width - 1, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )
    return [f" {line}" for line in lines]


def _table(rows: Sequence[Listed], width: int, verbosity: int) -> list[Line]:
    """Return the rows in groups, under what all of them share."""
    counted = Counter(note for row in rows for note in dict.fromkeys(row.notes))
    several = [f"{count} gates: {note}" for note, count in counted.items() if count > 1]
    below = [line for note in several for line in _wrapped(note, " ", width)]
    # What is said of several gates is said once.
    own = {row.row.name: [note for note in row.notes if counted[note] == 1] for row in rows}
    is_green = verbosity == 0 and all(row.has_passed and not own[row.row.name] for row in rows)
    if is_green and len(rows) >= _MANY_GREEN:
        labels = Counter(row.group.label for row in rows)
        text = ", ".join(f"{count} {label}" for label, count in labels.items())
        size = f", {one_size(rows)} each" * bool(one_size(rows))
        return [*_wrapped(f"{text}{size}. Every row: pytest -v", " ", width), *below]
    if _is_alone(rows, verbosity):
        return _in_words(rows[0], width)
    layout = Layout(rows, width, shares=True)
    shared = [layout.names.shared, one_size(rows), _baseline(rows)]
    lines = _wrapped(", ".join(filter(None, shared)), " ", width)
    columns: tuple[str, ...] = ()
    for group, members in groupby(rows, key=lambda row: row.group):
        of_group = list(members)
        if of_group[0].cells and tuple(of_group[0].cells) != columns:
            columns = tuple(of_group[0].cells)
            lines.append(Line.of(layout.heading(of_group[0])))
        lines.append(group.line(len(of_group), width))
        is_folded = verbosity < 1 and len(rows) >= _MANY
        of_group, idle = _without_idle(of_group, verbosity)
        shown = [row for row in of_group if not (is_folded and row.has_passed) or own[row.row.name]]
        for row in shown:
            # Another kind of gate has other numbers.
            if row.cells and tuple(row.cells) != columns:
                columns = tuple(row.cells)
                lines.append(Line.of(layout.heading(row)))
            lines += layout.lines(row)
            lines += [line for note in own[row.row.name] for line in _wrapped(note, "     ", width)]
        if more := len(of_group) - len(shown):
            lines.append(Line.of(f" . {more} more passed (pytest -v)", light=True))
        lines += [Line.of(line, red=True) for line in _idle_lines(idle, layout, width)]
    return [*lines, *below]


def _is_alone(rows: Sequence[Listed], verbosity: int) -> bool:
    """Say whether there is one gate, which passed and left open what it asks."""
    return verbosity == 0 and len(rows) == 1 and rows[0].row.state == "inconclusive"


def _in_words(listed: Listed, width: int) -> list[Line]:
    """Return what the only gate found, of which a table of one row would say too little."""
    row, drift = listed.row, listed.row.drift
    name = fitted_names((row.name,), width).of[row.name]
    judged = "".join(f" ({text})" for text in row.card.texts("judged")) if row.card else ""
    found = f"{name}: {row.card.sentence if row.card else ''}{judged}"
    since = drift.sentence if drift is not None and drift.was else ""
    passes = f"It passes, because {listed.group.label} is accepted here"
    texts = (found, since, *listed.notes, passes)
    return _wrapped(
        " ".join(f"{text.rstrip('.')}." for text in dict.fromkeys(texts) if text), " ", width
    )


def _baseline(rows: Sequence[Listed]) -> str:
    drifts = [row.row.drift for row in rows if row.row.drift]
    commits = list(dict.fromkeys(drift.since for drift in drifts if drift.commit))
    shown = commits[0] if len(commits) == 1 else f"of {len(commits)} commits"
    return f"baseline {shown}" if commits else ""


def _since(rows: Sequence[Listed]) -> str:
    """Say what a session in which all passed was compared with; empty where nothing was."""
    drifts = [row.row.drift for row in rows if row.row.drift is not None]
    if not drifts or any(row.row.state not in PASSING for row in rows):
        return ""
    labels = Counter(drift.label.lower() for drift in drifts)
    counts = [f"{labels[word]} {word}" for word in _DRIFTS if labels[word]]
    counts = [text.replace("unresolved", "within chance") for text in counts]
    if len(counts) == 1:
        counts = [counts[0].partition(" ")[2]]
    commits = {drift.since for drift in drifts if drift.was}
    since = commits.pop() if len(commits) == 1 else "the results were accepted"
    return f"Since {since}: {', '.join(counts)}"


def _settle(rows: Sequence[Listed], width: int) -> list[Line]:
    """Return the one command that settles all open gates; each heeds the options for its like."""
    judgements = [row.row.judgement for row in rows if row.row.judgement is not None]
    unsettled = [judgement for judgement in judgements if judgement.card.settle]
    if not unsettled:
        return []
    settling = [judgement.card.settle for judgement in unsettled]
    names = dict.fromkeys(name for values in settling for name in values)
    options = []
    for name in names:
        most = max(values[name] for values in settling if name in values)
        options.append(f"--cpg-{name.replace('_', '-')}={most}")
    commands = (command for judgement in unsettled for command in judgement.commands)
    reruns = [command for command in commands if command.what.startswith(RERUN)]
    program = program_in(reruns)
    tests = [
        word
        for command in reruns
        for word in shlex.split(command.text.removeprefix(program))
        if not word.startswith("--")
    ]
    command = f"{program} {shlex.join([*dict.fromkeys(tests), *options])}"
    many = "inconclusive gate" if len(settling) == 1 else f"{len(settling)} inconclusive gates"
    typed = command_lines(command, lead="     ", width=width)
    lead = f" Settle the {many}{' on new starts' * ('seed' in names)}:"
    return [Line.of(lead), *(Line.of(line, cyan=True) for line in typed)]


def _unseen(rows: Sequence[Listed]) -> str:
    """Say which drops the gates that passed could not have seen; empty where that is not known."""
    passing = (row.row for row in rows if row.row.state in PASSING)
    drops = {drop for row in passing if (drop := surely_failed_drop(row.card))}
    if len(drops) < 2:
        return "".join(map(UNSEEN.format, drops))
    return (
        f"Drops below {min(drops)} to {max(drops)} may pass (-v: each); larger ones fail 4 times "
        f"in 5."
    )


def _wrapped(text: str, indent: str, width: int, **markup: bool) -> list[Line]:
    # A name stays whole, and what is longer than any name does not.
    is_endless = any(len(word) > _LONGEST_NAME for word in text.split())
    lines = wrapped(one_line(text), width, indent, breaks_words=is_endless)
    return [Line.of(line, **markup) for line in lines]
