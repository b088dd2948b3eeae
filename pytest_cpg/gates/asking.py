"""Asking: what a test or a program asks of a gate, merged with what is set for all, and read.

A marker, the call of `pytest_cpg.evaluate` and the options of a session give the same arguments,
which are read in one way.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.errors import all_answers
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates import left_out
from pytest_cpg.gates.answer import ask, fault_of
from pytest_cpg.gates.arguments import REQUIRED, Argument
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.kind import Asked, Components, GateKind, MaxVerdict, max_verdict_of, worst_of
from pytest_cpg.gates.options import Given
from pytest_cpg.gates.parts import offers


def asked_of(
    said: Iterable[Mapping[str, Any]],
    arguments: Sequence[Argument],
    given: Given,
    components: Components,
    *,
    place: str,
    usage: str,
    family_size: int = 1,
) -> Asked:
    """Return what is asked of a gate that takes these arguments, each parsed.

    The first mapping of ``said`` that gives an argument wins; ``place`` and ``usage`` say where
    they are written, and how, for messages. Raises ValueError or ComponentError, naming every value
    that is wrong and what to type instead.
    """
    taken = {argument.name: argument for argument in arguments}
    merged = dict(ChainMap(*map(dict, said)))
    unknown = [name for name in merged if name not in taken]
    *_, answers = all_answers(
        *(partial(refuse_name, name, taken, place) for name in unknown),
        lambda: all_answers(*(partial(_read, item, merged, given) for item in arguments)),
    )
    read = dict(zip(taken, answers, strict=True))
    for name, (value, _) in read.items():
        if value is REQUIRED:
            raise ValueError(f"{place} names no {name}. Write {usage}.")
    values = {**given.project, **given.typed}
    return Asked(
        values={name: value for name, (value, _) in read.items()},
        sources={name: source for name, (_, source) in read.items()},
        components=components,
        options={
            option.name: values[option.name]
            for option in given.options.values()
            if not option.is_for_one_gate
        },
        family_size=family_size,
        is_smoke="quick" in given.switches,
    )


def refuse_name(name: str, known: Iterable[str], place: str) -> NoReturn:
    """Raise ValueError for an argument that nothing takes, naming the one that was meant."""
    if cure := left_out.ARGUMENTS.get(name):
        raise ValueError(f"{place}: {name}= was left out. {cure}")
    raise ValueError(f"{place} has no argument {name!r}. {did_you_mean(name, known)}")


def checked_by(
    kind: GateKind[Any, Any], asked: Asked, model: Callable[[], Any]
) -> tuple[Any, MaxVerdict, Any]:
    """Return what a gate measures by, the worst ruling that is accepted of it, and its model.

    Raises ValueError or ComponentError, naming every value that is wrong and what to type instead.
    """
    worst_label = asked.values["max_verdict"]
    # A kind may do with its own whatever it likes.
    copied = replace(asked, values={**asked.values}, options={**asked.options})
    spec, accepted, made = all_answers(
        partial(ask, kind, "parse", copied),
        lambda: None if worst_label is None else max_verdict_of(worst_label, kind.labels),
        model,
    )
    if accepted is None:
        worst = partial(worst_of, Severity.UNSURE, kind.labels)
        accepted = ask(kind, "accepts", spec) if offers(kind, "accepts") else worst()
    return spec, accepted, made


def example(kind: GateKind[Any, Any]) -> str:
    """Return a marker of a kind as it may be written."""
    needed = [argument.name for argument in kind.arguments if argument.default is REQUIRED]
    usual = ", ".join(f"{name}=..." for name in needed)
    return f"@pytest.mark.{kind.marker}({getattr(kind, 'example', '') or usual})"


def _is_open(argument: Argument) -> bool:
    return argument.parse is not None and argument.default is None


def _read(argument: Argument, merged: Mapping[str, Any], given: Given) -> tuple[Any, str]:
    """Return the value of one argument, and where it is from."""
    name, option = argument.name, given.options.get(argument.option)
    parse = argument.parse or (option.parse if option else None)
    if option is not None and option.name in given.typed:
        value = given.typed[option.name]
        # Parsed as the option's, which may take more than this argument.
        return (_checked(option.flag, argument.parse, value), "session")
    # Whoever leaves an argument open may say so.
    if name in merged and not (merged[name] is None and _is_open(argument)):
        value = _checked(name, parse, merged[name])
        # What is typed or set elsewhere is text; here nobody has to guess.
        if isinstance(merged[name], str) and isinstance(value, int | float):
            raise ValueError(
                f"{name}: need a number, got {merged[name]!r}. Write {name}={value!r}."
            )
        return value, "marker"
    default = argument.default
    if option is not None:
        in_project = given.project[option.name]
        if argument.parse is None or in_project != option.default:
            default = in_project
    return default, "project"


def _checked(place: str, parse: Any, value: Any) -> Any:
    try:
        return value if parse is None else parse(value)
    except ComponentError:
        raise
    except (ArgumentTypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from None
    # The parser may be a user's, and raise anything for a value that it does not expect.
    except Exception as error:
        raise fault_of(f"the parser of {place}, given {value!r:.40},", error) from error
