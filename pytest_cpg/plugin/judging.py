"""Judging: whether a test passes by what it measured, and what it says where it does not."""

from __future__ import annotations

import json
import unittest
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import SMOKE_TEST, Ruling, Severity, comparison_name
from pytest_cpg.gates.kept import drift_of
from pytest_cpg.gates.parts import is_held, offers
from pytest_cpg.plugin.attempt import ATTEMPT, Attempt, attempt_of, broken_by
from pytest_cpg.plugin.invocation import node_from_here, program_of, width_of
from pytest_cpg.plugin.item import NAMED_MODEL, fail, gate_id, refuse
from pytest_cpg.plugin.marker import Gate
from pytest_cpg.plugin.replay import with_lost
from pytest_cpg.plugin.settings import Settings
from pytest_cpg.render.line import Line
from pytest_cpg.render.section import section
from pytest_cpg.render.words import is_in_doubt, rerun_command
from pytest_cpg.report.baseline import Baseline
from pytest_cpg.report.ledger import CANNOT_FAIL, Judgement
from pytest_cpg.world_models import OracleDynamics

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


def judge(
    item: pytest.Item,
    gate: Gate,
    baseline: Baseline | None,
    settings: Settings,
    result: Any,
    model: Any,
) -> None:
    """Judge a result of a model of this test, and keep it for the test's end."""
    judgements = item.stash[ATTEMPT].judgements
    number = len(judgements) + 1
    judgement = judged(
        gate,
        result,
        model,
        name=comparison_name(gate_id(item), number),
        nodeid=item.nodeid,
        baseline=baseline,
        settings=settings,
        config=item.config,
    )
    if judgement.reason is not None:
        judgement = with_lost(item, gate, judgement, number)
    judgements.append(judgement)


def judged(
    gate: Gate,
    result: Any,
    model: Any = None,
    *,
    name: str,
    nodeid: str,
    baseline: Baseline | None,
    settings: Settings,
    config: pytest.Config,
) -> Judgement:
    """Return how a result of a gate is judged, beside what was accepted under its ``name``."""
    kind = gate.kind
    # The test is given the other, and may do with it whatever it likes.
    result = deepcopy(result)
    written = _written(kind, result)
    ruling = ask(kind, "judge", result, gate.max_verdict)
    if ruling.check == SMOKE_TEST and ruling.severity is not Severity.BROKEN:
        # It judges nothing, whatever it was called for.
        ruling = Ruling(label=ruling.label, severity=Severity.GOOD, check=SMOKE_TEST)
    _check_ruling(gate, ruling, model)
    # What a kind cannot show fails its test here, and not the whole session later, where the
    # model's name is not known.
    ask(kind, "card", written, gate.max_verdict)
    card = ask(kind, "card", result, gate.max_verdict, model=gate.model)
    drift = None
    if not ruling.check:
        if gate.max_verdict.accepts_all and gate.drift != "fail":
            ruling = replace(ruling, doubt=CANNOT_FAIL)
        # A check says nothing of the model that was accepted.
        if baseline is not None and offers(kind, "compare"):
            drift = drift_of(kind, baseline.gates.get(name), result)
    # Whoever accepts new results knows that they differ from the old ones.
    drift_fails = gate.drift == "fail" and "update_baseline" not in settings.switches
    reason = gate.max_verdict.refusal(ruling)
    if reason is None and drift is not None and drift_fails and drift.fails:
        reason = drift.text
    if reason is None and "strict" in settings.switches:
        reason = ruling.doubt
    again = rerun_command(
        card,
        ruling,
        node_from_here(config, nodeid),
        settings.deciding,
        program=program_of(config),
        is_strict=is_in_doubt(reason, ruling),
    )
    return Judgement(
        kind=kind,
        result=result,
        ruling=ruling,
        max_verdict=gate.max_verdict,
        reason=reason,
        drift=drift,
        drift_fails=drift_fails and drift is not None,
        commands=(again,),
        shown=card,
    )


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


def _check_ruling(gate: Gate, ruling: Ruling, model: Any) -> None:
    """Fail a test whose ruling is not in its kind's words, or a verdict on nothing."""
    # A check judges no model.
    if ruling.check:
        return
    marker, labels = gate.kind.marker, gate.kind.labels
    if ruling.label not in labels:
        fail(
            f"the kind of gate {marker!r} rules {ruling.label!r}, which is none of its labels. "
            f"{did_you_mean(ruling.label, labels)}"
        )
    if ruling.severity < labels[ruling.label]:
        fail(
            f"the kind of gate {marker!r} calls {ruling.label} {ruling.severity.name}, and "
            f"{labels[ruling.label].name} in its labels."
        )
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
    if is_held(gate.kind):
        return
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
    return f"{said}{_OR_COMPARE * offers(kind, 'runner')}."


def sections(item: pytest.Item, gate: Gate, *, is_failing: bool = False) -> list[Line]:
    """Return the section of every result that its marker does not accept, or of every result."""
    judgements, config = attempt_of(item).judgements, item.config
    if is_failing:
        judgements[:] = [
            judgement if judgement.reason else with_lost(item, gate, judgement, number)
            for number, judgement in enumerate(judgements, 1)
        ]
    lines: list[Line] = []
    for judgement in judgements:
        if is_failing or judgement.reason is not None:
            lines += [Line.of("")] * bool(lines)
            lines += section(judgement, verbosity=config.get_verbosity(), width=width_of(config))
    return lines
