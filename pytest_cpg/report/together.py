"""Together: what the gates of a session say together, and which were not judged that had to be.

A gate's own verdict never depends on which other gates were run. What is said here comes on top of
the verdicts, and can only add a failure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_cpg.contracts import CpgError
from pytest_cpg.gates.answer import ask_at_end
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.kind import Alarm, Finding, named
from pytest_cpg.gates.parts import offers
from pytest_cpg.report.ledger import CANNOT_FAIL, Ledger
from pytest_cpg.report.session import Comparison, Session
from pytest_cpg.stats.verdicts import holm

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


def together(
    ledger: Ledger, *, is_corrected: bool, family_size: int, is_cut: bool = False
) -> list[Finding]:
    """Return what all gates together say: ``family_size`` of them, 0 where that is not known.

    ``is_cut`` says that pytest left out files because of what happened before.
    """
    # An A/A check is no chance of a false alarm, and its model no checkpoint.
    measured = [row for row in Session.of(ledger).comparisons if not row.judgement.ruling.check]
    findings: list[Finding] = []
    for kind, rows in _by_kind(measured):
        if offers(kind, "together") and not is_cut:
            members = [row.compared for row in rows]
            findings += ask_at_end(findings, kind, "together", members, ledger.groups) or ()
    # A test that makes two comparisons has two chances of a false alarm.
    count = len({*ledger.known, *(row.name for row in measured)})
    size = max(family_size, count)
    if is_corrected and count > family_size:
        text = (
            f"cpg_family_size is {family_size}, and there are {count} gates: each was judged as if "
            f"the others were fewer. Set cpg_family_size = {count}"
        )
        findings.append(Finding(text, fails=True))
    elif size > 1 and measured:
        able = [row for row in measured if not row.judgement.max_verdict.accepts_all]
        groups = {ledger.groups.get(row.gate, "") for row in able} - {""}
        findings += _family_findings(
            measured,
            is_corrected=is_corrected,
            size=size,
            unable=len(measured) - len(able),
            recipes=len(groups),
        )
    unable = [row.name for row in measured if row.judgement.ruling.doubt == CANNOT_FAIL]
    if unable:
        text = (
            f"{len(unable)} of {size} gates cannot fail, as max_verdict accepts every verdict: "
            f"{named(unable)}. Add "
            f'drift="fail", which fails a model that gets worse; --cpg-strict fails gates that '
            f"cannot fail"
        )
        findings.append(Finding(text, warns=True))
    return findings


def resumed(ledger: Ledger) -> list[Finding]:
    """Return what gates took from an interrupted session in place of running it."""
    gates = [
        f"{gate} ({'; '.join(dict.fromkeys(entry.resumed))})"
        for gate, entry in ledger.entries.items()
        if entry.resumed
    ]
    text = f"taken from an interrupted session, not run anew: {named(gates)}"
    return [Finding(text, answers=True)] if gates else []


def without_effect(ledger: Ledger, asked: Collection[str]) -> list[Finding]:
    """Return a statement about every option asked of the session that decided nothing in it."""
    findings: list[Finding] = []
    # An option that decided something for one kind was not given in vain.
    in_vain = [
        _in_vain(findings, kind, [row.judgement.result for row in rows], asked)
        for kind, rows in _by_kind(Session.of(ledger).comparisons)
    ]
    findings += [
        Finding(f"--cpg-{name.replace('_', '-')} was given, and {why}")
        for name, why in (in_vain[0] if in_vain else {}).items()
        if all(name in other for other in in_vain)
    ]
    return findings


def _by_kind(reported: Iterable[Comparison]) -> list[tuple[Any, list[Comparison]]]:
    """Return every kind with what was reported of it; a user's kind may have no hash."""
    kinds: dict[str, tuple[Any, list[Comparison]]] = {}
    for row in reported:
        kind = row.judgement.kind
        kinds.setdefault(kind.marker, (kind, []))[1].append(row)
    return list(kinds.values())


def _in_vain(
    findings: list[Finding], kind: Any, results: list[Any], asked: Collection[str]
) -> dict[str, str]:
    """Return which options decided nothing in the results of one kind, and why."""
    heeded = {argument.option for argument in kind.arguments}
    heeded |= {option.name for option in getattr(kind, "options", ())}
    why: Mapping[str, str] = {}
    if offers(kind, "without_effect"):
        why = ask_at_end(findings, kind, "without_effect", results) or {}
    unheeded = f"no gate marked {kind.marker} has such an option"
    return {name: why.get(name, unheeded) for name in asked if name in why or name not in heeded}


def _family_findings(
    measured: Sequence[Comparison], *, is_corrected: bool, size: int, unable: int, recipes: int
) -> list[Finding]:
    findings: list[Finding] = []
    able = size - unable
    # Others may stand in the baseline, or in files that were not run.
    gates = f"{able} gates" if len(measured) == size else f"the {able} gates of the project"
    alarms: dict[str, Alarm] = {}
    for row in measured:
        if offers(row.judgement.kind, "alarm"):
            alarm = ask_at_end(findings, row.judgement.kind, "alarm", row.judgement.result)
            alarms |= {} if alarm is None else {row.name: alarm}
    if not alarms:
        return findings
    alphas = {name: alarm.rate for name, alarm in alarms.items()}
    alpha = max(alphas.values())
    percent = f"{100 * alpha:.2g} %"
    # Each of these may fail the session by chance, too, and is no gate of the family.
    drifts = sum(row.judgement.drift_fails for row in measured)
    besides = [
        f"{count} {what}{'s'[: count != 1]}"
        for count, what in ((drifts, "drift test"), (recipes, "recipe"))
        if count
    ]
    is_family = able + drifts + recipes > 1
    if not is_corrected:
        accepting = [row.name for row in measured if row.judgement.max_verdict.accepts_all]
        rates = [rate for name, rate in alphas.items() if name not in accepting]
        # Of what was not measured nothing better is known.
        chance = 1 - (
            math.prod(1 - rate for rate in rates)
            * (1 - alpha) ** (able - len(rates) + drifts + recipes)
        )
        tests = " and ".join([gates, *besides])
        text = (
            f"If all models were good, at least one of {tests} would still fail in about "
            f"{100 * chance:.2g} % of runs ({percent}{' for the gates alone' * bool(besides)} with "
            f"--cpg-correction=holm)."
        )
        # More often than not.
        return [*findings, *[Finding(text, warns=chance > 0.5)] * is_family]
    left_out = f", which leaves out {' and '.join(besides)}" if besides else ""
    text = (
        f"If all models were good, at least one of {gates} would still fail in about "
        f"{percent} of runs, by Holm's correction{left_out}."
    )
    findings += [Finding(text)] * is_family
    if len(alarms) < size:
        return findings
    # The first step of Holm is what every gate was judged by. Its later steps need all p-values of
    # the family: they are taken when it is complete, and never change a gate's own verdict.
    # A gate with a stricter level of its own keeps its share of the error.
    try:
        p_values = {name: alarm.p_value() for name, alarm in alarms.items()}
    except CpgError as error:
        return [*findings, Finding(str(error), fails=True)]
    shares = {name: min(1.0, p * alpha / alphas[name]) for name, p in p_values.items()}
    rejected = holm(shares, alpha=alpha, family_size=size)
    for row in measured:
        if row.name in rejected and not alarms[row.name].is_settled:
            labels: Mapping[str, Severity] = row.judgement.kind.labels
            bad = (label for label, severity in labels.items() if severity is Severity.BAD)
            text = (
                f"Holm: {row.name} is a {next(bad, Severity.BAD.name)} as well, now that all "
                f"{size} gates are known (p={p_values[row.name]:.2g})"
            )
            is_refused = row.judgement.max_verdict.severity < Severity.BAD
            findings.append(Finding(text, fails=is_refused and not row.compared.is_excused))
    return findings


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
