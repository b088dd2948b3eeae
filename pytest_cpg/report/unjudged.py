"""Unjudged: which gates were not judged that had to be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pytest_cpg.gates.finding import Finding, named
from pytest_cpg.report.ledger import Ledger

_SILENT = "no xdist worker said which gates there are before it ended: none is accounted for"
_PASSED_OUT = (
    "--lf leaves out gates that passed before, and all are required. Leave --lf out, or add "
    "--cpg-require=0"
)
_LATE = (
    "{gate} compared models after its test had ended, where nothing is judged. Compare in the "
    "test's body, or in a fixture before its yield, and wait for threads."
)
_DIED = (
    "{gate}: the worker of attempt 1 died, and that attempt counts. Leave gates out of --reruns; "
    "to have them repeated all the same, set cpg_allow_reruns = true in the ini file."
)
_HIDDEN = "passed or was skipped although its gate had failed"
_ALL_SKIPPED = "every gate was skipped, and none judged. A job without gates takes --cpg-require=0"
_ONLY_CHECKED = (
    'run as an A/A check, and no gate judged a model. Leave --cpg-model=oracle or model="oracle" '
    "out, or add --cpg-require=0"
)
_SKIPPED = "skipped as a whole, so that none of its gates was judged"
_EXCUSED = "left to fail by an xfail that is not strict or not run"
_DROPPED = "collected, and dropped by a plugin or a conftest.py without saying so"


def unjudged_findings(
    ledger: Ledger,
    *,
    required: str,
    is_strict: bool,
    leaves_passed_out: bool,
    is_silent: bool,
    accepted: Collection[str],
) -> list[Finding]:
    """Return which gates were not judged, and whether the session fails for it.

    ``"all"`` gates that were collected are required, or a number of them; none where it is empty.
    ``is_strict`` asks for a verdict where a test fails as expected, and ``leaves_passed_out`` says
    that pytest did not collect what passed before. Accepted gates are missed beside the baseline.
    """
    findings = [Finding(_SILENT, fails=True)] if is_silent else []
    findings += [Finding(late_text(gate), fails=True) for gate in ledger.late]
    findings += [Finding(_DIED.format(gate=gate), fails=True) for gate in ledger.died]
    skipped = [
        file
        for file in ledger.skipped
        if not any(gate.startswith(f"{file}::") for gate in accepted)
    ]
    if skipped:
        findings.append(Finding(f"{_SKIPPED}: {named(skipped)}", warns=True))
    hidden = [gate for gate, entry in ledger.entries.items() if entry.is_hidden]
    if hidden:
        findings.append(Finding(f"{_HIDDEN}: {named(hidden)}", fails=True))
    if required == "all":
        if leaves_passed_out:
            findings.append(Finding(_PASSED_OUT, fails=True))
        findings += _all_required(ledger)
        checks = [gate for gate, entry in ledger.entries.items() if entry.is_aa]
        if checks and not _judged(ledger):
            findings.append(Finding(_counted(ledger, checks, _ONLY_CHECKED), fails=True))
    else:
        if ledger.dropped:
            findings.append(Finding(_counted(ledger, ledger.dropped, _DROPPED)))
        judged = _judged(ledger)
        if required and judged < int(required):
            text = f"{judged} gate{'s'[: judged != 1]} judged, and {required} required"
            findings.append(Finding(f"{text} (--cpg-require)", fails=True))
    unproven = _without_verdict(ledger, "xfailed")
    if unproven:
        text = f"failed as expected without a verdict, which says nothing: {named(unproven)}"
        findings.append(Finding(f"{text} (--cpg-strict)" if is_strict else text, fails=is_strict))
    return findings


def late_text(gate: str) -> str:
    """Return what is wrong where a gate compares models after its test's end."""
    return _LATE.format(gate=gate)


def _all_required(ledger: Ledger) -> Iterator[Finding]:
    """Yield why not every gate was judged; a session fails but for gates that are skipped."""
    deselected = [gate for gate in ledger.deselected if gate not in ledger.expected]
    empty = [gate for gate, entry in ledger.entries.items() if entry.is_empty]
    some = f"For a run of some of them use --cpg-require={len(ledger.expected)}"
    for gates, what, cure in (
        (deselected, "not selected", some),
        (ledger.dropped, _DROPPED, some),
        (
            empty,
            "left without parameters, as their list is empty",
            f"Find out why it is, or use --cpg-require={_judged(ledger)}",
        ),
    ):
        if gates:
            text = _counted(ledger, gates, f"{what}, and all are required")
            yield Finding(f"{text}. {cure}", fails=True)
    excused = [gate for gate, entry in ledger.entries.items() if entry.is_excused]
    if excused:
        text = _counted(ledger, excused, _EXCUSED)
        yield Finding(f"{text}. xfail(strict=True) keeps a gate that is known to fail", fails=True)
    skipped = [gate for gate in _without_verdict(ledger, "skipped") if gate not in empty]
    if skipped and len(skipped) == len(ledger.entries):
        yield Finding(_ALL_SKIPPED, fails=True)
    elif skipped:
        yield Finding(_counted(ledger, skipped, "skipped, and so not judged"))


def _counted(ledger: Ledger, gates: Sequence[str], what: str) -> str:
    verb = "was" if len(gates) == 1 else "were"
    return f"{len(gates)} of {len(ledger.known)} gates {verb} {what}: {named(gates)}"


def _judged(ledger: Ledger) -> int:
    return sum(entry.is_judged for entry in ledger.entries.values())


def _without_verdict(ledger: Ledger, outcome: str) -> list[str]:
    return [
        gate
        for gate, entry in ledger.entries.items()
        if entry.outcome == outcome and not entry.judgements
    ]
