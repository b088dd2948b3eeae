"""Judging: whether a test passes by what it measured, and what it says where it does not."""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import SMOKE_TEST, Ruling, Severity, comparison_name
from pytest_cpg.gates.kept import drift_of
from pytest_cpg.gates.parts import Baselined, Runner
from pytest_cpg.plugin.attempt import ATTEMPT, Attempt, attempt_of, broken_by
from pytest_cpg.plugin.invocation import node_from_here, program_of
from pytest_cpg.plugin.item import NAMED_MODEL, fail, gate_id, refuse
from pytest_cpg.plugin.live import width_of
from pytest_cpg.plugin.replay import keep_lost
from pytest_cpg.plugin.settings import Settings
from pytest_cpg.render.line import Line
from pytest_cpg.render.section import section
from pytest_cpg.render.words import is_in_doubt, rerun_command
from pytest_cpg.report.ledger import CANNOT_FAIL, Judgement
from pytest_cpg.world_models import OracleDynamics

if TYPE_CHECKING:
    from pytest_cpg.gates.drift import Drift
    from pytest_cpg.plugin.marker import Gate
    from pytest_cpg.render.line import Line
    from pytest_cpg.report.baseline import Baseline

_TWO_MODELS = (
    "{place} names model={model!r}, and this test judged another one: compare(learned=...) or "
    "sweep(learned=...) was given it. Pass learned=learned_dynamics there, without a fixture of "
    "that name, or leave the named model out."
)
_NO_GATE = (
    "this test is marked {marker} but ran no gate. Take the `{fixture}` fixture as an argument"
)
_OR_COMPARE = (
    ", or call benchmark_runner.compare(learned=...), .rank({...}) or .sweep(...) in the test"
)
_NO_SELF = (
    "{name} takes {fixture!r} where Python passes self, so no gate ran.\n"
    "  Write def {test}(self, {fixture}):"
)
_NO_FIXTURES = (
    "{name} is a method of a unittest.TestCase, which takes no fixtures, so no gate ran.\n"
    "  Write a function:  def {test}({fixture}): ..."
)

_NO_SMOKE_TEST = (
    "--cpg-quick: a gate marked {marker} gave a verdict, and a smoke test has none. Let the kind's "
    "parse heed asked.is_smoke and its judge return Ruling(..., check='smoke test'), or leave "
    "has_smoke_test out of the kind."
)
_TRUE_DYNAMICS = (
    "a gate marked {marker} was given the true dynamics, and gave a verdict on no learned model. "
    "Return your model from learned_dynamics, or leave such gates out: -m 'not {marker}'. A kind "
    "that checks itself so lets its judge return Ruling(..., check='A/A check')."
)


def judge_into(
    item: pytest.Item,
    gate: Gate,
    baseline: Baseline | None,
    settings: Settings,
    *,
    drift_fails: bool,
) -> Callable[[Any, Any], None]:
    """Return what judges each result of a model of this test, and keeps it for the test's end."""
    measured, node = item.stash[ATTEMPT].judgements, node_from_here(item.config, item.nodeid)
    program = program_of(item.config)

    def judge(result: Any, model: Any) -> None:
        # The test is given the other, and may do with it whatever it likes.
        result = deepcopy(result)
        written = _written(gate.kind, result)
        ruling = ask(gate.kind, "judge", result, gate.max_verdict)
        if ruling.check == SMOKE_TEST and ruling.severity is not Severity.BROKEN:
            # It judges nothing, whatever it was called for.
            ruling = Ruling(label=ruling.label, severity=Severity.GOOD, check=SMOKE_TEST)
        _check_ruling(gate.kind, ruling)
        if not ruling.check:
            _check_is_judged(gate, model)
        # What a kind cannot show fails its test here, and not the whole session later, where the
        # model's name is not known.
        ask(gate.kind, "card", written, gate.max_verdict)
        card = ask(gate.kind, "card", result, gate.max_verdict, model=gate.model)
        # A check says nothing of the model that was accepted.
        name = comparison_name(gate_id(item), len(measured) + 1)
        if gate.max_verdict.accepts_all and gate.drift != "fail" and not ruling.check:
            ruling = replace(ruling, doubt=CANNOT_FAIL)
        drift = None if ruling.check else _drift(gate.kind, result, baseline, name)
        reason = gate.max_verdict.refusal(ruling)
        if reason is None and drift is not None and drift_fails and drift.fails:
            reason = drift.text
        if reason is None and "strict" in settings.switches:
            reason = ruling.doubt
        is_strict = is_in_doubt(reason, ruling)
        again = rerun_command(
            card, ruling, node, settings.deciding, program=program, is_strict=is_strict
        )
        measured.append(
            Judgement(
                kind=gate.kind,
                result=result,
                ruling=ruling,
                max_verdict=gate.max_verdict,
                reason=reason,
                drift=drift,
                drift_fails=drift_fails and drift is not None,
                commands=(again,),
                shown=card,
            )
        )

    return judge


def _written(kind: Any, result: Any) -> Any:
    """Return a result as a report has it; fail a test whose result no report could hold."""
    try:
        values = json.loads(json.dumps(encode(result)))
        read = decode(kind.result, values)
        # Where nothing says what a value is, it may still be no number.
        json.dumps(values, allow_nan=False)
        return read
    # Type hints that a user wrote may be anything.
    except (ValueError, TypeError, LookupError, NameError) as error:
        fail(
            f"the result of a gate marked {kind.marker} cannot be written into a report: {error}. "
            f"{kind.result.__name__} may hold finite numbers, texts, arrays, frozen dataclasses, "
            f"and tuples and mappings that say of what (tuple[float, ...])."
        )


def _check_ruling(kind: Any, ruling: Ruling) -> None:
    """Fail a test whose ruling is not in its kind's words, or better than the word says."""
    # A check judges no model.
    if ruling.check:
        return
    if ruling.label not in kind.labels:
        fail(
            f"the kind of gate {kind.marker!r} rules {ruling.label!r}, which is none of its "
            f"labels. {did_you_mean(ruling.label, kind.labels)}"
        )
    if ruling.severity < kind.labels[ruling.label]:
        fail(
            f"the kind of gate {kind.marker!r} calls {ruling.label} {ruling.severity.name}, and "
            f"{kind.labels[ruling.label].name} in its labels."
        )


def _check_is_judged(gate: Gate, model: Any) -> None:
    """Fail a test whose ruling is a verdict, where there is nothing to judge."""
    marker = gate.kind.marker
    if gate.is_smoke:
        fail(_NO_SMOKE_TEST.format(marker=marker))
    if isinstance(model, OracleDynamics):
        fail(_TRUE_DYNAMICS.format(marker=marker))


def check_case(item: pytest.Item, kind: Any) -> None:
    """Fail a method of a unittest.TestCase that names a fixture: Python would miss an argument."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    if code and _is_case(item) and kind.fixture in code.co_varnames[: code.co_argcount]:
        fail(_ran_no_gate(item, kind))


def _is_case(item: pytest.Item) -> bool:
    owner = getattr(item, "cls", None)
    return owner is not None and issubclass(owner, unittest.TestCase)


def conclude(item: pytest.Item, gate: Gate) -> None:
    """Fail the test unless its marker accepts everything that was measured."""
    __tracebackhide__ = True
    attempt = attempt_of(item)
    refusal = broken_by(attempt) or _refusal(item, gate, attempt)
    if refusal:
        attempt.is_refused = True
        attempt.first_failure = refusal
        refuse(refusal) if attempt.section else fail(refusal)


def _refusal(item: pytest.Item, gate: Gate, attempt: Attempt) -> str:
    """Return why the test fails by what it measured; empty where all of it is accepted."""
    if attempt.is_empty:
        return _ran_no_gate(item, gate.kind)
    is_judged = bool(attempt.judgements) or attempt.is_swept
    if is_judged and gate.model and not item.stash.get(NAMED_MODEL, False):
        place = "--cpg-model" if gate.is_model_typed else "the marker"
        return _TWO_MODELS.format(place=place, model=gate.model)
    attempt.section = sections(item, gate)
    return "\n".join(line.text for line in attempt.section)


def _ran_no_gate(item: pytest.Item, kind: Any) -> str:
    """Return why a marked test ran no gate, and what to write."""
    function = getattr(item, "function", None)
    code, owner = getattr(function, "__code__", None), getattr(item, "cls", None)
    named = {"name": item.location[2], "test": item.name.partition("[")[0]}
    if _is_case(item):
        return _NO_FIXTURES.format(**named, fixture=kind.fixture)
    first = code.co_varnames[: code.co_argcount][:1] if code and owner else ()
    if first in ((kind.fixture,), ("benchmark_runner",)):
        return _NO_SELF.format(**named, fixture=first[0])
    said = _NO_GATE.format(marker=kind.marker, fixture=kind.fixture)
    return f"{said}{_OR_COMPARE * has(kind, Runner)}."


def _drift(kind: Any, result: Any, baseline: Baseline | None, name: str) -> Drift | None:
    if baseline is None or not has(kind, Baselined):
        return None
    return drift_of(kind, baseline.gates.get(name), result)


def sections(item: pytest.Item, gate: Gate, *, is_failing: bool = False) -> list[Line]:
    """Return the section of every result that the marker does not accept, and keep what it lost.

    With ``is_failing`` of every result, as the test fails for another reason.
    """
    lines: list[Line] = []
    judgements = attempt_of(item).judgements
    for number, judgement in enumerate([*judgements], 1):
        if judgement.reason is None and not is_failing:
            continue
        replay, not_kept = None, ""
        if gate.can_replay:
            replay, not_kept = keep_lost(
                item.config,
                gate.kind,
                judgement.result,
                gate=gate_id(item),
                nodeid=item.nodeid,
                comparison=number,
            )
        lines += [Line.of("")] * bool(lines)
        # Asked for twice, they are the same.
        others = tuple(one for one in judgement.commands if not one.picks)
        commands = (replay, *others) if replay else others
        judgement = judgements[number - 1] = replace(judgement, commands=commands)
        lines += section(
            judgement,
            not_kept=not_kept,
            verbosity=item.config.get_verbosity(),
            width=width_of(item.config),
        )
    return lines
