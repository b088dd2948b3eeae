"""Together: what the gates of a session say together, as recipes and as a family.

A gate's own verdict never depends on which other gates were run. What is said here comes on top of
the verdicts, and can only add a failure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.parts import has
from pytest_cpg.gates.answer import ask_at_end
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.finding import Finding, named
from pytest_cpg.gates.kind import Alarm
from pytest_cpg.gates.parts import Alarms, Options, Together, WithoutEffect
from pytest_cpg.report.ledger import CANNOT_FAIL, Ledger
from pytest_cpg.report.session import Comparison, Session
from pytest_cpg.stats.families import holm


def together(
    ledger: Ledger, *, is_corrected: bool, family_size: int, is_cut: bool = False
) -> list[Finding]:
    """Return what all gates together say.

    The family has ``family_size`` gates, run or not; 0 when it is not known. ``is_cut`` says that
    pytest left out files because of what happened before.
    """
    # An A/A check is no chance of a false alarm, and its model no checkpoint.
    measured = [row for row in Session.of(ledger).comparisons if not row.judgement.ruling.check]
    findings: list[Finding] = []
    for kind, own in _by_kind(measured):
        if has(kind, Together) and not is_cut:
            members = [row.compared for row in own]
            findings += ask_at_end(findings, kind, "together", members, ledger.groups) or ()
    # A test that makes two comparisons has two chances of a false alarm.
    count = len({*ledger.known, *(row.name for row in measured)})
    size = max(family_size, count)
    if is_corrected and count > family_size:
        findings.append(
            Finding(
                f"cpg_family_size is {family_size}, and there are {count} gates: each was judged "
                f"as if the others were fewer. Set cpg_family_size = {count}",
                fails=True,
            )
        )
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
    # An option that decided something for one kind was not given in vain.
    findings: list[Finding] = []
    in_vain = [
        _in_vain(findings, kind, [row.judgement.result for row in own], asked)
        for kind, own in _by_kind(Session.of(ledger).comparisons)
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
    found: list[Finding], kind: Any, results: list[Any], asked: Collection[str]
) -> dict[str, str]:
    """Return which options decided nothing in the results of one kind, and why."""
    heeded = {argument.option for argument in kind.arguments}
    heeded |= {option.name for option in kind.options} if has(kind, Options) else set()
    why = has(kind, WithoutEffect) and ask_at_end(found, kind, "without_effect", results)
    why = why or {}
    unheeded = f"no gate marked {kind.marker} has such an option"
    return {name: why.get(name, unheeded) for name in asked if name in why or name not in heeded}


def _family_findings(
    measured: Sequence[Comparison], *, is_corrected: bool, size: int, unable: int, recipes: int
) -> list[Finding]:
    findings: list[Finding] = []
    able = size - unable
    # Others may stand in the baseline, or in files that were not run.
    gates = f"{able} gates" if len(measured) == size else f"the {able} gates of the project"
    asked: dict[str, Alarm | None] = {
        row.name: ask_at_end(findings, row.judgement.kind, "alarm", row.judgement.result)
        for row in measured
        if has(row.judgement.kind, Alarms)
    }
    alarms = {name: alarm for name, alarm in asked.items() if alarm is not None}
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
            math.prod(1 - one for one in rates)
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
    return findings + [
        Finding(
            f"Holm: {row.name} is a {_worst_label(row)} as well, now that all {size} gates "
            f"are known (p={p_values[row.name]:.2g})",
            fails=row.judgement.max_verdict.severity < Severity.BAD and not row.compared.is_excused,
        )
        for row in measured
        if row.name in rejected and not alarms[row.name].is_settled
    ]


def _worst_label(one: Comparison) -> str:
    """Return what the kind of a gate calls a model that is shown to be bad."""
    labels: Mapping[str, Severity] = one.judgement.kind.labels
    bad = (label for label, severity in labels.items() if severity is Severity.BAD)
    return next(bad, Severity.BAD.name)
