"""Gate item: one marked test, what it is called and what its markers ask for."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

from pytest_cpg.gates.notation import for_log, one_line, wrapped
from pytest_cpg.plugin.kinds import KINDS
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import Components, GateKind
    from pytest_cpg.plugin.marker import Gate

T = TypeVar("T")
# As pytest says it, with the fixtures that lead there, the last of which asks for ours.
_SCOPES = re.compile(
    r"ScopeMismatch: .* fixture oracle_dynamics with a (\w+) scoped .*def (\w+)\(.*Requested",
    re.DOTALL,
)
_ONE_TEST = (
    "{name} has scope {scope!r}, and oracle_dynamics lives for one test.\n"
    "  Leave the scope out, and keep what is slow in a cached function:\n"
    "      @functools.cache\n"
    "      def load(task): ..."
)
NAMED_MODEL: pytest.StashKey[bool] = pytest.StashKey()

_TWO_KINDS = (
    "{place}: this test is marked {first} and {second}, and a test is one gate. Leave one of the "
    "markers out, or write a test for each."
)


_UNKNOWN = (
    "{place}: nobody knows the marker {name!r}, so this test is no gate. Did you mean {close!r}? "
    "A marker of your own is registered in the ini file: markers = {name}."
)

_TWICE = (
    "{place}: two {marker} markers above this test both say {name}, and a test is one gate. Leave "
    "one out, write a test for each, or parametrise the test."
)


def check_unknown(node: pytest.Item, unknown: Iterable[tuple[pytest.Mark, list[str]]]) -> None:
    """Fail a test whose marker nobody knows, and a kind of a near name would take what it says."""
    from pytest_cpg.gates.arguments import COMMON, REQUIRED

    table = node.config.stash[KINDS].table
    for mark, near in unknown:
        names = mark.kwargs.keys()
        for marker in near:
            defaults = {one.name: one.default for one in table[marker].arguments}
            required = {name for name, default in defaults.items() if default is REQUIRED}
            taken = defaults.keys() | {one.name for one in COMMON}
            if names & defaults.keys() and required <= names <= taken:
                fail(_UNKNOWN.format(place=_place_of(node), name=mark.name, close=marker))


def gate_id(item: pytest.Item) -> str:
    """Return the marker's ``id`` as written, with the test's parameters, or else the node id."""
    identifier = _named(item, "id")
    if not identifier:
        return item.nodeid
    parameters = getattr(item, "callspec", None)
    return f"{identifier}[{parameters.id}]" if parameters else identifier


def groups_of(items: Iterable[pytest.Item]) -> dict[str, str]:
    """Return the recipe of every gate that is one checkpoint of one, by gate id."""
    recipes = ((gate_id(item), _named(item, "group")) for item in items)
    return {gate: group for gate, group in recipes if group}


def markers_of(items: Iterable[pytest.Item]) -> dict[str, str]:
    """Return the marker of every gate's kind, by gate id."""
    marked = ((gate_id(item), [*item.config.stash[KINDS].of(item)]) for item in items)
    return {gate: kinds[0].marker for gate, kinds in marked if kinds}


def read_gate(node: pytest.Item, settings: Settings, *, family_size: int) -> Gate:
    """Return the gate that a test's markers ask for, or fail with what to write instead."""
    from pytest_cpg.contracts import ComponentError, KindError
    from pytest_cpg.machine.files import FileError
    from pytest_cpg.plugin.marker import gate_of

    try:
        kind = _kind_of(node)
        marks, components = _markers(node, kind.marker), _components(node)
        return gate_of(
            marks, kind, settings, components, nodeid=node.nodeid, family_size=family_size
        )
    except (ValueError, ComponentError, KindError, FileError) as error:
        fail(f"{_place_of(node)}: {getattr(error, 'whole', error)}")


def fail(message: str) -> NoReturn:
    """Fail a test or its collection with a message alone.

    This frame must stay visible: where all are hidden, pytest says so below the message.
    """
    refuse(wrapped(message))


def refuse(message: str) -> NoReturn:
    """Fail a test with a message that is laid out already."""
    raise pytest.fail.Exception(for_log(message), pytrace=False) from None


def refused(collector: pytest.Collector, faults: Sequence[str]) -> pytest.CollectReport:
    """Return the report of a file whose markers are wrong, with all that is wrong with them."""
    call = pytest.CallInfo.from_call(lambda: refuse("\n\n".join(faults)), "collect")
    failure: Any = collector.repr_failure(call.excinfo)  # type: ignore[arg-type]  # it has failed
    report = pytest.CollectReport(collector.nodeid, "failed", failure, [])
    report.call = call  # type: ignore[attr-defined]  # as pytest's own hook leaves it
    return report


def say_once(
    report: pytest.TestReport | pytest.CollectReport,
    caught: pytest.ExceptionInfo[BaseException] | None,
) -> bool:
    """Sum a message of ours up for pytest's short lines, and say whether it was one of ours."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    if crash is None or caught is None or getattr(caught.value, "pytrace", True):
        return False
    crash.message = one_line(crash.message.removeprefix("Failed: ").partition("\n\n")[0])
    return True


@contextmanager
def clean_errors() -> Iterator[None]:
    """Fail with the message alone of an error that names its own cure."""
    __tracebackhide__ = True
    try:
        yield
    except pytest.fail.Exception as error:
        if scopes := _SCOPES.match(str(error)):
            fail(_ONE_TEST.format(scope=scopes[1], name=scopes[2]))
        raise
    except Exception as error:
        # Not imported here: a test that has nothing to do with gates may fail, too.
        contracts = sys.modules.get("pytest_cpg.contracts")
        if contracts is None or not isinstance(error, contracts.CpgError):
            raise
        laid_out = getattr(error, "section", "")
        refuse(laid_out) if laid_out else fail(error.whole)


def _place_of(node: pytest.Item) -> str:
    """Return where a test is written, as editors take it, and its name."""
    file, line, name = node.location
    return f"{file}:{(line or 0) + 1}: {name}"


def _kind_of(node: pytest.Item) -> GateKind[Any, Any]:
    """Return the kind that a test is marked with; fail one that is marked with two."""
    kind, *others = node.config.stash[KINDS].of(node)
    if others:
        first, second = kind.marker, others[0].marker
        fail(_TWO_KINDS.format(place=_place_of(node), first=first, second=second))
    _check_once(node, kind.marker)
    return kind


def _markers(node: pytest.Item, name: str) -> list[pytest.Mark]:
    """Return a test's markers, closest first: those of its parameters before its own."""
    parameters = getattr(node, "callspec", None)
    closest = [mark for mark in parameters.marks if mark.name == name] if parameters else []
    return [*closest, *_without(closest, node.iter_markers(name))]


def _without(marks: Iterable[pytest.Mark], others: Iterable[pytest.Mark]) -> list[pytest.Mark]:
    """Return the other markers; equal ones may be two, and arrays in them cannot be compared."""
    ids = {id(mark) for mark in marks}
    return [mark for mark in others if id(mark) not in ids]


def _check_once(node: pytest.Item, name: str) -> None:
    """Fail a test above which two markers of a kind both give an argument."""
    parameters = getattr(node, "callspec", None)
    marks_of_test = (mark for mark in node.own_markers if mark.name == name)
    names: set[str] = set()
    for mark in _without(parameters.marks if parameters else (), marks_of_test):
        twice = sorted(names & mark.kwargs.keys())
        if twice:
            fail(_TWICE.format(place=_place_of(node), marker=name, name=twice[0]))
        names |= mark.kwargs.keys()


def _named(item: pytest.Item, name: str) -> str:
    """Return a name as the closest marker gives it, empty if none does."""
    kinds = item.config.stash[KINDS].of(item)
    marks = (mark for kind in kinds for mark in _markers(item, kind.marker))
    names = (mark.kwargs.get(name) for mark in marks)
    value = next((value for value in names if isinstance(value, str)), "")
    # A lone surrogate is refused later, and until then neither xdist nor a file takes it.
    return value.encode(errors="backslashreplace").decode()


def _components(node: pytest.Item) -> Components:
    from pytest_cpg.episodes.perturbation_names import PERTURBATIONS
    from pytest_cpg.gates.kind import Components
    from pytest_cpg.planners import PLANNERS
    from pytest_cpg.tasks import TASKS
    from pytest_cpg.world_models import WORLD_MODELS
    from pytest_cpg.world_models.checkpoints.readers import READERS

    return Components(
        tasks=_with_contributed(node, "task", TASKS),
        planners=_with_contributed(node, "planner", PLANNERS),
        world_models=_with_contributed(node, "world model", WORLD_MODELS),
        # Those of users are asked first.
        checkpoint_readers=_with_contributed(node, "checkpoint reader", READERS, is_last=True),
        perturbations=_with_contributed(node, "perturbation", PERTURBATIONS),
    )


def _with_contributed(
    node: pytest.Item, kind: str, own: Mapping[str, T], *, is_last: bool = False
) -> dict[str, T]:
    """Return our components of a kind and those of the hook for it, ours first or last."""
    from pytest_cpg.contracts.lookup import hook_suffix
    from pytest_cpg.gates.answer import fault_of

    name = f"pytest_cpg_{hook_suffix(kind)}"
    try:
        theirs = getattr(node.ihook, name)()
    # A user's code may raise anything.
    except Exception as error:
        raise fault_of(f"a {name} hook", error) from error
    return merge(kind, [*theirs, own] if is_last else [own, *theirs])


def merge(kind: str, contributions: Iterable[Mapping[str, T] | None]) -> dict[str, T]:
    """Return one table of all contributions; two components of one name are an error."""
    from pytest_cpg.contracts import ComponentError
    from pytest_cpg.contracts.lookup import hook_suffix

    table: dict[str, T] = {}
    for contribution in contributions:
        if contribution is not None and not isinstance(contribution, Mapping):
            raise ComponentError(
                f"a pytest_cpg_{hook_suffix(kind)} hook returned {contribution!r}. "
                f"Return a dict from names to factories."
            )
        for name, factory in (contribution or {}).items():
            if not isinstance(name, str):
                raise ComponentError(
                    f"a pytest_cpg_{hook_suffix(kind)} hook names a {kind} {name!r}. Write a text."
                )
            if name in table:
                raise ComponentError(
                    f"two {kind}s are named {name!r}. Rename yours in its pytest_cpg_"
                    f"{hook_suffix(kind)} hook."
                )
            if not callable(factory):
                raise ComponentError(
                    f"the {kind} {name!r} of a pytest_cpg_{hook_suffix(kind)} hook is {factory!r}. "
                    f"Return what makes it: a class, or `lambda **options: ...`."
                )
            table[name] = factory
    return table
