"""Baseline: the last accepted results of a project, in a file that several processes may update.

The file is JSON to be committed: an array of a header with the schema, then one object for each
gate, sorted by id. The comma stands before a gate, so that a gate that comes or goes is one line of
a diff.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.codec import encode
from pytest_cpg.gates.answer import ask_at_end
from pytest_cpg.gates.drift import Label, revision
from pytest_cpg.gates.kept import KeptResult, entry_for
from pytest_cpg.gates.kind import Finding, named
from pytest_cpg.gates.parts import offers
from pytest_cpg.machine.files import FileError, FileKind, is_special, locked, write_text
from pytest_cpg.machine.provenance import GitState, git_state
from pytest_cpg.report.ledger import Kinds, Ledger
from pytest_cpg.report.session import Session

# More results that were accepted are counted: who accepts all of them reads no names.
_MOST_NAMED = 2
_FORCE = "--cpg-json=report.json and then pytest-cpg accept report.json --force"
# More than any project has, and few enough to share an error rate among.
LARGEST_FAMILY = 1_000_000
# What `comparison_name` adds to a gate's id from the second comparison of a test on.
_NUMBER = re.compile(r" #\d+$")
SCHEMA = 1
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")
_FILE = FileKind(
    name="the baseline",
    schema=SCHEMA,
    aside="It was left as it is. ",
    cure="Move it away and accept results anew (pytest --cpg-update-baseline), or restore it with "
    "git: git checkout -- {path}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The last accepted results, and how many gates were declared to share one error rate."""

    gates: Mapping[str, KeptResult] = field(default_factory=dict)
    declared_family_size: int | None = None

    @property
    def family_size(self) -> int:
        """Gates that share one error rate: as declared, and never fewer than are in it."""
        return max(self.declared_family_size or 0, len(self.gates))


def updated(baseline: Baseline, gates: Iterable[KeptResult]) -> Baseline:
    """Return the baseline with these gates; all others stay.

    What is the same but for its commit keeps the old one, if that is known: nothing was accepted.
    """
    merged = dict(baseline.gates)
    for gate in gates:
        before = merged.get(gate.id)
        if not (before and before.commit and replace(before, commit=gate.commit) == gate):
            merged[gate.id] = gate
    return replace(baseline, gates=merged)


def without(baseline: Baseline, ids: Collection[str]) -> Baseline:
    """Return the baseline without the gates of these ids."""
    gates = {name: gate for name, gate in baseline.gates.items() if name not in ids}
    return replace(baseline, gates=gates)


def missing(
    baseline: Baseline, ids: Collection[str], *, measured: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the ids of what is in the baseline and no longer among the gates that were collected.

    Of a test that ran to its end and ``measured``, a comparison that it no longer makes is missing;
    of any other test nobody knows how many it would make.
    """

    def is_missing(name: str) -> bool:
        gate = _NUMBER.sub("", name)
        if name in ids:
            return False
        return gate not in ids or (gate in measured and name not in measured)

    return tuple(filter(is_missing, baseline.gates))


def load(path: Path, kinds: Kinds) -> Baseline | None:
    """Read a baseline file, None when there is none; kinds check what is kept of their results."""
    # Whoever reads a pipe waits, and whoever replaces it loses it.
    if is_special(path) and not path.is_dir():
        _FILE.refuse(path, "it is no regular file", "Name one: --cpg-baseline=.cpg/baseline.json")
    text = _FILE.text_in(path)
    return None if text is None else _parsed(path, text, kinds)


def update(
    path: Path,
    change: Callable[[Baseline], Baseline],
    kinds: Kinds,
    *,
    patience: float = 30.0,
) -> Baseline:
    """Replace a baseline file by what ``change`` makes of it, and return that.

    Whoever updates it at the same time waits, so that no gate is lost. Raises FileError as `load`
    does, or when the file cannot be written, or another process takes more than ``patience``
    seconds, where milliseconds are usual. It is left as it was.
    """
    # A link stays one.
    target = path.resolve()
    with locked(target, what=_FILE.name, patience=patience):
        baseline = change(load(target, kinds) or Baseline())
        write_text(target, text_of(baseline), what=_FILE.name)
    return baseline


def text_of(baseline: Baseline) -> str:
    """Return the whole file."""
    header: dict[str, Any] = {"schema": SCHEMA}
    if baseline.declared_family_size is not None:
        header["family_size"] = baseline.declared_family_size
    rows = [header, *({name: encode(gate)} for name, gate in sorted(baseline.gates.items()))]
    lines = [json.dumps(row, sort_keys=True, allow_nan=False) for row in rows]
    return "[" + "\n,".join(lines) + "\n]\n"


def _parsed(path: Path, text: str, kinds: Kinds) -> Baseline:
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_CONFLICT):
            _FILE.refuse(
                path,
                f"line {number} is the mark of a merge conflict",
                f"Keep one line for each gate, or take one side: git checkout --theirs -- "
                f"{shlex.quote(str(path))}",
            )
    rows = _FILE.values_of(path, text)
    header = rows[0] if isinstance(rows, list) and rows else rows
    _FILE.check_schema(path, header.get("schema") if isinstance(header, dict) else None)
    family_size = header.pop("family_size", None)
    is_size = type(family_size) is int and 1 <= family_size <= LARGEST_FAMILY
    if family_size is not None and not is_size:
        _FILE.refuse(
            path,
            f"family_size is {family_size!r:.40}, and has to be a whole number from 1 to "
            f"{LARGEST_FAMILY}",
        )
    if not isinstance(rows, list) or header != {"schema": SCHEMA}:
        _FILE.refuse(path, "its first object may hold a schema and a family_size only")
    return Baseline(gates=_gates(path, rows[1:], kinds), declared_family_size=family_size)


def _gates(path: Path, rows: list[Any], kinds: Kinds) -> dict[str, KeptResult]:
    gates: dict[str, KeptResult] = {}
    for number, row in enumerate(rows, 1):
        is_pair = isinstance(row, dict) and len(row) == 1
        name, values = next(iter(row.items())) if is_pair else ("", ())
        if not isinstance(values, dict):
            _FILE.refuse(path, f"gate {number} is not of the form {{id: {{...}}}}")
        if name in gates:
            _FILE.refuse(path, f"gate {name!r} stands there twice")
        try:
            kept = gates[name] = KeptResult.read(name, values)
            if kept.kind in kinds:
                entry_for(kinds[kept.kind], kept)
        except (ValueError, CpgError) as error:
            _FILE.refuse(path, f"gate {name!r}: {error}")
    return gates


def baseline_findings(
    ledger: Ledger,
    path: Path,
    switches: frozenset[str],
    *,
    kinds: Kinds,
    root: Path,
    in_ci: bool,
    asked: Collection[Path] | None,
    is_ignored: Callable[[Path], bool] | None = None,
    all_collected: bool = True,
    missing_fails: bool = False,
) -> list[Finding]:
    """Accept what was asked to be accepted, and return what there is to say of the baseline.

    With the switch ``"update_baseline"`` results are accepted, and what is gone is dropped.
    ``asked`` are files and folders that pytest was asked for, None for the whole project;
    ``is_ignored`` says whether it was told to leave out a file, None where it was told of none.
    """
    try:
        baseline = load(path, kinds) or Baseline()
        unseen = _unseen(baseline, root, asked, is_ignored)
        # Of tests that ran to their end.
        session = Session.of(ledger)
        ended = [row.name for row in session.comparisons if row.outcome in ("passed", "xfailed")]
        gone = missing(baseline, {*ledger.known, *unseen}, measured=ended)
        findings = []
        if "update_baseline" in switches:
            state = git_state(root, besides=path)
            findings += accept(session, path, kinds, root=root, state=state, in_ci=in_ci)
            dropped = [
                name
                for name in gone
                if _is_gone_for_good(name, ledger, root, all_collected=all_collected)
            ]
            if dropped and not any(finding.fails for finding in findings):
                update(path, lambda now: without(now, dropped), kinds)
                text = f"baseline: {named(dropped)} dropped from {path.name}, as no such test is"
                findings.append(Finding(f"{text} there", answers=True))
                gone = tuple(name for name in gone if name not in dropped)
    except FileError as error:
        return [Finding(str(error), fails=True)]
    left_out = [gate for gate in missing(baseline, set(ledger.known)) if unseen.get(gate)]
    if left_out:
        text = f"baseline: not collected, as files are ignored: {named(left_out)}"
        findings.append(Finding(text))
    if gone:
        text = (
            f"baseline: {Label.MISSING}, accepted once and not collected: {named(gone)}; "
            f"--cpg-update-baseline drops what is gone for good"
        )
        findings.append(Finding(text, fails=missing_fails))
    return findings


def _unseen(
    baseline: Baseline,
    root: Path,
    asked: Collection[Path] | None,
    is_ignored: Callable[[Path], bool] | None,
) -> dict[str, bool]:
    """Return which accepted gates may be where pytest did not look, and whether it ignored them."""
    if asked is None and is_ignored is None:
        return {}
    folders, unseen = (root,) if asked is None else asked, {}
    for gate in baseline.gates:
        file, is_node, _ = gate.partition("[")[0].partition("::")
        path = root / file
        is_left_out = is_ignored is not None and is_ignored(path)
        # A gate with an id of its own may be in any file.
        if not is_node:
            unseen[gate] = asked is None
        elif path.exists() and (is_left_out or not any(map(path.is_relative_to, folders))):
            unseen[gate] = is_left_out
    return unseen


def _is_gone_for_good(name: str, ledger: Ledger, root: Path, *, all_collected: bool) -> bool:
    """Say whether a gate's file is gone, or was collected without it."""
    file, is_node, _ = name.partition("[")[0].partition("::")
    if not is_node:
        return all_collected
    if not (root / file).exists():
        return True
    # A file without any gate may have been skipped as a whole.
    return any(gate.startswith(f"{file}::") for gate in ledger.known)


def accept(
    session: Session,
    path: Path,
    kinds: Kinds,
    *,
    root: Path,
    state: GitState,
    in_ci: bool,
    is_forced: bool = False,
) -> list[Finding]:
    """Put the results of a session into the baseline, and say what was accepted, or why not."""
    if not is_forced and (in_ci or state.dirty):
        why = (
            "this is CI, where nobody looks at what is accepted. Write it where you can commit it"
            if in_ci
            else f"these are not committed: {named(state.dirty)}. Commit first"
        )
        return [Finding(f"baseline: not written, as {why}, or use {_FORCE}", fails=True)]
    entries: dict[str, dict[str, Any]] = {}
    accepted: list[KeptResult] = []
    refused: list[str] = []
    checks: dict[str, list[str]] = {}
    findings: list[Finding] = []
    for row in session.comparisons:
        kind: Any = row.judgement.kind
        has_passed = row.judgement.reason is None and row.outcome == "passed"
        if row.judgement.ruling.check:
            checks.setdefault(row.judgement.ruling.check, []).append(row.name)
        elif has_passed or is_forced:
            entry = ask_at_end(findings, kind, "entry", row.judgement.result)
            if entry is not None:
                entries.setdefault(kind.marker, {})[row.name] = entry
                accepted.append(KeptResult.of(row.name, kind, entry, commit=state.commit))
        else:
            refused.append(row.name)
    if accepted:
        stored = update(path, lambda baseline: updated(baseline, accepted), kinds).gates
        where = f" at {revision(state.commit)}" if state.commit else f" ({state.note})"
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        new = [result.id for result in accepted if stored[result.id] == result]
        old = [result.id for result in accepted if stored[result.id] != result]
        if new:
            text = f"baseline: {_many(new)} accepted{where} into {shown}"
            findings.append(Finding(text, answers=True))
        if old:
            stand = "stands" if len(old) == 1 else "stand"
            text = f"baseline: {_many(old)} {stand} in {shown} with the same result already"
            findings.append(Finding(text, answers=True))
        for marker, values in entries.items():
            if offers(kinds[marker], "unprovable"):
                findings += ask_at_end(findings, kinds[marker], "unprovable", values) or ()
    if refused:
        text = f"baseline: {named(refused)} not accepted, as the test did not pass; "
        findings.append(Finding(f"{text}{_FORCE} accepts it all the same", fails=True))
    for check, checked in checks.items():
        text = f"baseline: {named(checked)} not accepted: {check}, which judges no model"
        findings.append(Finding(text, fails=True))
    if not (accepted or refused or checks or findings):
        findings.append(Finding("baseline: no gate was measured, none accepted", fails=True))
    return findings


def _many(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} results"
