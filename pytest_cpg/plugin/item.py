"""Gate item: one marked test, from its markers to its judged results."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task
    from pytest_cpg.episodes.design import Design
    from pytest_cpg.gates.planning_gap.compare import Baseline, Comparison
    from pytest_cpg.gates.planning_gap.criteria import Criteria
    from pytest_cpg.gates.planning_gap.result import GateResult
    from pytest_cpg.plugin.marker import Components, GateSpec
    from pytest_cpg.report.ledger import Judgement

MARKER = "cpg"
NAMED_MODEL: pytest.StashKey[bool] = pytest.StashKey()
RESULTS: pytest.StashKey[list[tuple[GateResult, Judgement]]] = pytest.StashKey()
MEASUREMENTS: pytest.StashKey[list[str]] = pytest.StashKey()
# Whether one of the measurements is about one model, and so about the one that is named.
IS_SWEPT: pytest.StashKey[bool] = pytest.StashKey()
ERRORS: pytest.StashKey[list[str]] = pytest.StashKey()
ATTEMPT: pytest.StashKey[int] = pytest.StashKey()
# Comparisons of this attempt that have begun and not ended; none once the test has ended.
RUNNING: pytest.StashKey[set[object] | None] = pytest.StashKey()
# Of this attempt; where a process that it forks writes that it compared, as memory is shared.
PROCESS: pytest.StashKey[int] = pytest.StashKey()
FORKED: pytest.StashKey[mmap.mmap] = pytest.StashKey()
IS_REFUSED: pytest.StashKey[bool] = pytest.StashKey()
FIRST_FAILURE: pytest.StashKey[str] = pytest.StashKey()

_TWO_MODELS = (
    "{place} names model={model!r}, and this test judged another one: compare(learned=...) or "
    "sweep(learned=...) was given it. Pass learned=learned_dynamics there, without a fixture of "
    "that name, or leave the named model out."
)

_NO_GATE = (
    "this test is marked cpg but ran no gate. Take the `cpg` fixture as an argument, or call "
    "benchmark_runner.compare(learned=...), .rank({...}) or .sweep(...) in the test."
)

_CAUGHT = """\
a comparison was broken off: {error}
That is no result, and nothing may hide it. Let the error leave the test, skip
before the comparison, or leave the model out."""

_BROKEN_OFF = "Attempt 1 did not end with a judged gate; -rR shows how it ended."

_RUNNING_ON = "a comparison is still running in a thread: join it before the test ends."

_FORKED = (
    "a comparison was made in a process that the test forked, where nothing is judged. Compare "
    "in the test itself; --cpg-workers spreads its episodes over processes."
)

_SETUP_ONLY = (
    "--setup-only would run the arms of this gate, and judge nothing. Leave it out, or leave the "
    "gates out by --cpg-skip."
)

_RERUN = """\
{first}

  This was attempt 1, and it counts: a gate that is repeated until it passes
  passes by luck. Attempt {attempt} was refused. Leave gates out of --reruns and flaky;
  to have them repeated all the same, set cpg_allow_reruns = true in the ini file."""


def gate_id(item: pytest.Item) -> str:
    """Return the marker's ``id`` as written, even of a marker that is wrong elsewhere.

    A parametrised test has one gate for each set of parameters.
    """
    given = _named(item, "id")
    if not given:
        return item.nodeid
    parameters = getattr(item, "callspec", None)
    return f"{given}[{parameters.id}]" if parameters else given


def groups_of(items: Iterable[pytest.Item]) -> dict[str, str]:
    """Return the recipe of every gate that is one checkpoint of one, by gate id."""
    named = ((gate_id(item), _named(item, "group")) for item in items)
    return {gate: group for gate, group in named if group}


def parse_item(node: pytest.Item, settings: Settings, *, family_size: int) -> GateSpec:
    """Return the gate that a test's markers ask for, or fail with what to write instead."""
    from pytest_cpg.contracts import ComponentError
    from pytest_cpg.plugin.marker import parse_gate

    markers = _markers(node)
    if not markers:
        fail(
            "the fixtures of pytest-cpg need a marked test. Write "
            '@pytest.mark.cpg(task="reacher-easy", planner="preset") above it.'
        )
    try:
        return parse_gate(
            markers, settings, _components(node), nodeid=node.nodeid, family_size=family_size
        )
    except (ValueError, ComponentError) as error:
        fail(f"{node.nodeid}: {error}")


def design_of(spec: GateSpec, task: Task) -> Design:
    """Return what all arms of this gate share."""
    from pytest_cpg.episodes.design import Design

    return Design(
        task=task,
        planner=spec.planner,
        episodes=spec.episodes,
        seed=spec.seed,
        starts=spec.starts,
        level=spec.level,
        metric=spec.metric,
        oracle_episodes=spec.oracle_episodes,
        perturbation=spec.perturbation,
    )


def criteria_of(spec: GateSpec) -> Criteria:
    """Return what the gap of this gate is judged by."""
    from pytest_cpg.gates.planning_gap.criteria import Criteria
    from pytest_cpg.world_models import AA_MODEL

    return Criteria(
        tolerance=spec.tolerance,
        min_oracle=spec.min_oracle,
        interval=spec.interval,
        margin=spec.margin,
        stop=spec.stop,
        family_size=spec.family_size,
        group=spec.group,
        is_aa=spec.model == AA_MODEL,
        is_smoke=spec.is_smoke,
    )


def has_marked_parameters(definition: pytest.Item) -> bool:
    """Say whether some parameters of a test bring markers of their own."""
    values = (
        value
        for mark in definition.iter_markers("parametrize")
        for given in (*mark.args[1:2], mark.kwargs.get("argvalues"))
        if isinstance(given, list | tuple)
        for value in given
    )
    return any(mark.name == MARKER for value in values for mark in getattr(value, "marks", ()))


def begin_attempt(item: pytest.Item, *, allow_reruns: bool) -> None:
    """Count how often this test is run, and refuse to run its gate twice, or in part."""
    attempt = item.stash.get(ATTEMPT, 0) + 1
    item.stash[ATTEMPT] = attempt
    item.stash[RESULTS] = []
    item.stash[MEASUREMENTS] = []
    item.stash[IS_SWEPT] = False
    item.stash[ERRORS] = []
    item.stash[RUNNING] = set()
    item.stash[PROCESS] = os.getpid()
    item.stash[FORKED] = mmap.mmap(-1, 1)
    item.stash[IS_REFUSED] = False
    option = item.config.option
    # --setup-plan sets both, and runs no fixture.
    if getattr(option, "setuponly", False) and not option.setupplan:
        fail(_SETUP_ONLY)
    if attempt > 1 and not allow_reruns:
        first = item.stash.get(FIRST_FAILURE, _BROKEN_OFF)
        fail(_RERUN.format(first=first, attempt=attempt))


@contextmanager
def attempted(
    item: pytest.Item, running: set[object] | None, *, errors: list[str], late: dict[str, None]
) -> Iterator[None]:
    """Follow a comparison or measurement of a test.

    Parameters
    ----------
    running : set or None
        What was running when the test got what compares; another one now is of a later attempt.
    errors : list
        Told what breaks it off, which goes on to the test: it may catch it, and fails.
    late : dict
        Told the gate's id if the test has ended: that error may be caught, or end in a thread.
    """
    __tracebackhide__ = True
    if running is None or item.stash[RUNNING] is not running:
        late[gate_id(item)] = None
        _fail_late(item)
    if os.getpid() != item.stash[PROCESS]:
        item.stash[FORKED][0] = 1
        fail(_FORKED)
    token = object()
    running.add(token)
    try:
        yield
    # Whatever a model raises, a skip of its test included; nothing is kept from the test.
    except BaseException as error:
        errors.append(f"{type(error).__name__}: {error}")
        raise
    finally:
        running.remove(token)
        if item.stash[RUNNING] is not running:
            late[gate_id(item)] = None


@contextmanager
def torn_down(item: pytest.Item, late: Mapping[str, None]) -> Iterator[None]:
    """Fail a test that compares models while it is torn down, although it may catch the error."""
    item.stash[RUNNING] = None
    yield
    if gate_id(item) in late:
        _fail_late(item)


def _fail_late(item: pytest.Item) -> NoReturn:
    from pytest_cpg.report.accounting import late_text

    fail(late_text(gate_id(item)))


def judge_into(
    item: pytest.Item,
    spec: GateSpec,
    baseline: Baseline | None,
    *,
    drift_fails: bool,
    is_strict: bool,
) -> Callable[[GateResult], None]:
    """Return what judges each result of this test, and keeps it for the test's end."""
    measured = item.stash[RESULTS]

    def judge(result: GateResult) -> None:
        from copy import deepcopy

        from pytest_cpg.gates.planning_gap.ruling import doubt, failure_reason
        from pytest_cpg.report.ledger import Judgement

        # The test is given the other, and may do with it whatever it likes.
        result = deepcopy(result)

        comparison = _comparison(item, result, baseline, number=len(measured) + 1)
        reason = failure_reason(result, spec.max_verdict)
        if reason is None and comparison is not None and drift_fails and comparison.fails:
            reason = comparison.text
        if reason is None and is_strict:
            reason = doubt(result)
        measured.append(
            (
                result,
                Judgement(
                    result=result.to_json(),
                    reason=reason,
                    max_verdict=spec.max_verdict.value,
                    drift=None if comparison is None else comparison.to_json(),
                    drift_fails=drift_fails and comparison is not None,
                ),
            )
        )

    return judge


def conclude(item: pytest.Item, spec: GateSpec, settings: Settings) -> None:
    """Fail the test unless its marker accepts everything that was measured."""
    __tracebackhide__ = True
    refusal = _refusal(item, spec, settings)
    if refusal:
        item.stash[FIRST_FAILURE] = refusal
        item.stash[IS_REFUSED] = True
        fail(refusal)


def _refusal(item: pytest.Item, spec: GateSpec, settings: Settings) -> str:
    """Return why the test fails by what it measured; empty where all of it is accepted."""
    running, item.stash[RUNNING] = item.stash[RUNNING], None
    if item.stash[ERRORS]:
        return _CAUGHT.format(error=item.stash[ERRORS][0])
    if item.stash[FORKED][0]:
        return _FORKED
    if running:
        return _RUNNING_ON
    if not item.stash[RESULTS] and not item.stash[MEASUREMENTS]:
        return _NO_GATE
    is_judged = bool(item.stash[RESULTS]) or item.stash[IS_SWEPT]
    if is_judged and spec.model and not item.stash.get(NAMED_MODEL, False):
        place = "--cpg-model" if spec.is_model_typed else "the marker"
        return _TWO_MODELS.format(place=place, model=spec.model)
    return "\n\n".join(sections(item, spec, settings))


def fail(message: str) -> NoReturn:
    """Fail a test or its collection with a message alone.

    This frame must stay visible: where all are hidden, pytest says so below the message.
    """
    from pytest_cpg.gates.notation import for_log

    raise pytest.fail.Exception(for_log(message), pytrace=False) from None


@contextmanager
def clean_errors() -> Iterator[None]:
    """Fail with the message alone of an error that names its own cure."""
    __tracebackhide__ = True
    try:
        yield
    except Exception as error:
        # Not imported here: a test that has nothing to do with gates may fail, too.
        contracts = sys.modules.get("pytest_cpg.contracts")
        if contracts is None or not isinstance(error, contracts.CpgError):
            raise
        # This one came from the user's model, whose traceback is what helps.
        if isinstance(error, contracts.WorldModelError) and error.__cause__ is not None:
            raise
        fail(str(error))


def _markers(node: pytest.Item) -> list[pytest.Mark]:
    """Return a test's markers, closest first: those of its parameters before its own."""
    parameters = getattr(node, "callspec", None)
    closest = [mark for mark in parameters.marks if mark.name == MARKER] if parameters else []
    return [*closest, *(mark for mark in node.iter_markers(MARKER) if mark not in closest)]


def _named(item: pytest.Item, name: str) -> str:
    """Return a name as the closest marker gives it, empty if none does."""
    names = (marker.kwargs.get(name) for marker in _markers(item))
    given = next((given for given in names if isinstance(given, str)), "")
    # A lone surrogate is refused later, and until then neither xdist nor a file takes it.
    return given.encode(errors="backslashreplace").decode()


def _components(node: pytest.Item) -> Components:
    """Return what the hooks contribute that are in reach of this test."""
    from pytest_cpg.contracts.lookup import merge
    from pytest_cpg.plugin.marker import Components

    return Components(
        tasks=merge("task", node.ihook.pytest_cpg_tasks()),
        planners=merge("planner", node.ihook.pytest_cpg_planners()),
        world_models=merge("world model", node.ihook.pytest_cpg_world_models()),
    )


def _comparison(
    item: pytest.Item, result: GateResult, baseline: Baseline | None, *, number: int
) -> Comparison | None:
    # An A/A check says nothing of the model that was accepted.
    if baseline is None or result.is_aa:
        return None
    from pytest_cpg.gates.card import comparison_name
    from pytest_cpg.gates.planning_gap.compare import compare

    accepted = baseline.gates.get(comparison_name(gate_id(item), number))
    return compare(result, accepted, level=result.level)


def sections(
    item: pytest.Item, spec: GateSpec, settings: Settings, *, is_failing: bool = False
) -> list[str]:
    """Return the section of every result that the marker does not accept, and keep what it lost.

    With ``is_failing`` of every result, as the test fails for another reason.
    """
    from pytest_cpg.gates.card import Command
    from pytest_cpg.gates.planning_gap.card import card_of
    from pytest_cpg.gates.planning_gap.ruling import ruling_of
    from pytest_cpg.plugin.replay import keep_lost, node_from_here
    from pytest_cpg.render.failure import failure_text, is_in_doubt, rerun_command

    texts = []
    results = item.stash[RESULTS]
    for number, (result, judgement) in enumerate(results, 1):
        if judgement.reason is None and not is_failing:
            continue
        replay, not_kept = "", ""
        if not result.is_smoke:
            replay, not_kept = keep_lost(
                item.config, result, gate=gate_id(item), nodeid=item.nodeid, comparison=number
            )
        card = card_of(result, spec.max_verdict, model=spec.model)
        ruling = ruling_of(result, spec.max_verdict)
        count, node = len(result.lost_episodes), node_from_here(item.config, item.nodeid)
        what = f"Replay the {count} lost episode{'s'[: count != 1]}, both arms, with traces"
        is_strict = is_in_doubt(judgement.reason, ruling)
        again = rerun_command(card, node, settings.deciding, is_strict=is_strict)
        commands = [Command(what=what, text=replay)] if replay else []
        texts.append(
            failure_text(
                card,
                ruling,
                reason=judgement.reason,
                drift=judgement.comparison,
                commands=[*commands, again],
                not_kept=not_kept,
                films=judgement.films,
                film_problem=judgement.film_problem,
            )
        )
    return texts
