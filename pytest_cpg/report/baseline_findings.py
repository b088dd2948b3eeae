"""Baseline findings: what a session puts into the baseline, and what that says of the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pytest_cpg.contracts.parts import has
from pytest_cpg.gates.answer import ask_at_end
from pytest_cpg.gates.drift import Label, revision
from pytest_cpg.gates.finding import Finding, named
from pytest_cpg.gates.kept import KeptResult
from pytest_cpg.gates.parts import Unprovable
from pytest_cpg.machine.files import FileError
from pytest_cpg.machine.git import GitState, git_state
from pytest_cpg.report.baseline import Baseline, load, missing, pruned, update, updated
from pytest_cpg.report.ledger import Kinds, Ledger
from pytest_cpg.report.session import Session

# More results that were accepted are counted: who accepts all of them reads no names.
_MOST_NAMED = 2
_FORCE = "--cpg-json=report.json and then pytest-cpg accept report.json --force"


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

    Parameters
    ----------
    switches : frozenset of str
        With ``"update_baseline"`` results are accepted, and what is gone is dropped.
    asked : collection of Path or None
        Files and folders that pytest was asked for; None for the whole project.
    is_ignored : callable, optional
        Says whether pytest was told to leave out a file; None where it was told of none.
    all_collected : bool
        Whether no file was skipped and none could not be imported.
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
            findings += accept(
                session,
                path,
                kinds,
                root=root,
                state=git_state(root, besides=path),
                in_ci=in_ci,
            )
            dropped = [
                name
                for name in gone
                if _is_gone_for_good(name, ledger, root, all_collected=all_collected)
            ]
            if dropped and not any(finding.fails for finding in findings):
                update(path, lambda now: pruned(now, now.gates.keys() - {*dropped}), kinds)
                text = f"baseline: {named(dropped)} dropped from {path.name}, as no such test is"
                findings.append(Finding(f"{text} there", answers=True))
                gone = tuple(name for name in gone if name not in dropped)
    except FileError as error:
        return [Finding(str(error), fails=True)]
    left_out = [gate for gate in missing(baseline, set(ledger.known)) if unseen.get(gate)]
    if left_out:
        findings.append(
            Finding(f"baseline: not collected, as files are ignored: {named(left_out)}")
        )
    if gone:
        findings.append(
            Finding(
                f"baseline: {Label.MISSING}, accepted once and not collected: {named(gone)}; "
                f"--cpg-update-baseline drops what is gone for good",
                fails=missing_fails,
            )
        )
    return findings


def _unseen(
    baseline: Baseline,
    root: Path,
    asked: Collection[Path] | None,
    is_ignored: Callable[[Path], bool] | None,
) -> dict[str, bool]:
    """Return the accepted gates that may be where pytest did not look, and whether it ignored them.

    Where pytest was not asked for a file, its gates are gone if it is; a gate with an id of its own
    may be in any file.
    """
    if asked is None and is_ignored is None:
        return {}
    folders, unseen = (root,) if asked is None else asked, {}
    for gate in baseline.gates:
        file, is_node, _ = gate.partition("[")[0].partition("::")
        path = root / file
        is_left_out = is_ignored is not None and is_ignored(path)
        if not is_node:
            unseen[gate] = asked is None
        elif path.exists() and (is_left_out or not any(map(path.is_relative_to, folders))):
            unseen[gate] = is_left_out
    return unseen


def _is_gone_for_good(name: str, ledger: Ledger, root: Path, *, all_collected: bool) -> bool:
    """Say whether a gate's file is gone, or was collected without it.

    A file without any gate may have been skipped as a whole, and a gate with an id of its own may
    be in any file.
    """
    file, is_node, _ = name.partition("[")[0].partition("::")
    if not is_node:
        return all_collected
    if not (root / file).exists():
        return True
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
    """Put the results of a session into the baseline, and say what was accepted, or why not.

    Parameters
    ----------
    state : GitState
        Of the tree that was measured.
    """
    refusal = None if is_forced else _refusal(state, in_ci=in_ci)
    if refusal is not None:
        return [refusal]
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
        new = [one.id for one in accepted if stored[one.id] == one]
        old = [one.id for one in accepted if stored[one.id] != one]
        if new:
            text = f"baseline: {_many(new)} accepted{where} into {shown}"
            findings.append(Finding(text, answers=True))
        if old:
            stand = "stands" if len(old) == 1 else "stand"
            text = f"baseline: {_many(old)} {stand} in {shown} with the same result already"
            findings.append(Finding(text, answers=True))
        for marker, mine in entries.items():
            if has(kinds[marker], Unprovable):
                findings += ask_at_end(findings, kinds[marker], "unprovable", mine) or ()
    if refused:
        findings.append(
            Finding(
                f"baseline: {named(refused)} not accepted, as the test did not pass; "
                f"{_FORCE} accepts it all the same",
                fails=True,
            )
        )
    for check, checked in checks.items():
        text = f"baseline: {named(checked)} not accepted: {check}, which judges no model"
        findings.append(Finding(text, fails=True))
    if not (accepted or refused or checks or findings):
        findings.append(Finding("baseline: no gate was measured, none accepted", fails=True))
    return findings


def _many(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} results"


_IN_CI = Finding(
    "baseline: not written, as this is CI, where nobody looks at what is accepted. Write it where "
    f"you can commit it, or use {_FORCE}",
    fails=True,
)


def _refusal(state: GitState, *, in_ci: bool) -> Finding | None:
    if in_ci:
        return _IN_CI
    if state.dirty:
        return Finding(
            f"baseline: not written, as these are not committed: {named(state.dirty)}. Commit "
            f"first, or use {_FORCE}",
            fails=True,
        )
    return None
