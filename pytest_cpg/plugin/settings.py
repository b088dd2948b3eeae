"""Settings: options of a session, parsed once at the edge into a frozen value.

An option is taken from the command line, then the environment, then the closest marker that
gives it, then the ini file, then its default: what is typed for one run wins over what is written
in a test, and a test over the project's configuration.
"""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_cpg.gates import PREFIX, left_out
from pytest_cpg.gates.arguments import COMMON
from pytest_cpg.gates.options import Given, Option
from pytest_cpg.plugin.options import INI_SWITCHES, OPTIONS, SWITCHES, flag
from pytest_cpg.render.formats import FORMATS

# What decides a gate, and is asked of all of them alike.
_OF_ALL_GATES = {"correction", "family_size", "baseline", "trust"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Given):
    """What was asked of a whole session.

    What is typed, on the command line or in the environment, wins over markers; these win over the
    project's values, of the ini file or the defaults.
    """

    allow_reruns: bool

    def of_session(self, name: str) -> Any:
        """Return the value of an option that no marker gives."""
        return (self.typed if name in self.typed else self.project)[name]

    @property
    def of_some_gates(self) -> Set[str]:
        """Names of typed options that some kinds of gate heed, and others may not."""
        of_all = {option.name for option in OPTIONS if not option.is_for_one_gate}
        return self.typed.keys() - of_all - {argument.option for argument in COMMON}

    @property
    def deciding(self) -> Mapping[str, Any]:
        """What was typed and has a part in how a gate ends; outputs and selections have none."""
        of_one = {
            name
            for name, option in self.options.items()
            if option.is_for_one_gate and not option.overruled.keys() & self.switches
        }
        values = {name: self.typed[name] for name in self.typed if name in _OF_ALL_GATES | of_one}
        return {**values, "quick": True} if "quick" in self.switches else values


def read_settings(config: pytest.Config, options: Mapping[str, Option]) -> Settings:
    """Read command line, environment and ini file, or raise pytest.UsageError for a wrong value."""
    check_names(os.environ, PREFIX, options, "in the environment")
    typed, project = {}, {}
    for option in options.values():
        value = project[option.name] = option.default
        if not option.is_for_one_run:
            name = f"cpg_{option.name}"
            value = _from_ini(config, name, f"Give a number: {option.help}")
        # A default may stand for nothing, which cannot be asked for.
        if value != option.default:
            place = f"{name} in {config.inipath or 'the ini file'}"
            project[option.name] = _parsed(option, value, place)
        if option.is_for_projects:
            continue
        value = config.getoption(f"cpg_{option.name}")
        if value is not None:
            typed[option.name] = value
        if option.is_for_one_run:
            continue
        text = os.environ.get(option.variable)
        if value is None and text:
            typed[option.name] = _parsed(option, text, option.variable)
    switches = {name for name in SWITCHES if config.getoption(f"cpg_{name}")}
    if _from_ini(config, "cpg_strict", "Give true or false"):
        switches.add("strict")
    return Settings(
        options=options,
        typed=typed,
        project=project,
        switches=frozenset(switches),
        allow_reruns=bool(_from_ini(config, "cpg_allow_reruns", "Give true or false")),
    )


def check_names(
    given: Iterable[str], prefix: str, options: Mapping[str, Option], place: str = ""
) -> None:
    """Refuse options, variables or ini settings of our prefix that mean nothing, all at once."""
    words = sorted({word.partition("=")[0] for word in given if word.startswith(prefix)})
    if not words:
        return
    from pytest_cpg.contracts.lookup import nearest
    from pytest_cpg.machine.processors import SHARERS

    is_typed, is_ini = prefix.startswith("-"), prefix.islower() and not prefix.startswith("-")
    heeded = {
        name
        for name, option in options.items()
        if (is_typed or not option.is_for_one_run) and (is_ini or not option.is_for_projects)
    }
    heeded |= set(SWITCHES if is_typed else INI_SWITCHES if is_ini else ())
    elsewhere = set() if is_typed else {*SWITCHES, *options} - heeded

    def spelt(name: str) -> str:
        return name.replace("_", "-") if is_typed else name if is_ini else name.upper()

    taken, typed = ({spelt(name): name for name in group} for group in (heeded, elsewhere))
    faults = []
    for word in words:
        rest, what = word.removeprefix(prefix), f"{word} {place}".rstrip()
        # What is set for worker processes, which may start a session of their own, is no mistake.
        if word == SHARERS or (rest in taken and not is_typed):
            continue
        instead = left_out.OPTIONS.get(rest.lower().replace("-", "_"))
        close = nearest(rest, [*taken, *typed, _OF_MARKERS]) or _form_of_report(rest)
        close = None if close == _OF_MARKERS else close
        if instead:
            faults.append(f"{what} was left out. {instead}")
        elif close in typed:
            faults.append(f"{what} has no effect. Type {flag(typed[close])}.")
        else:
            others = "pytest --help lists them; a gate's arguments stand in its marker."
            cure = f"Did you mean {prefix + close!r}?" if close else others
            faults.append(f"{what} names no option. {cure}")
    if faults:
        raise pytest.UsageError(*faults)


# No option, and nearer to what is meant than those that are.
_OF_MARKERS = "task"


def _form_of_report(word: str) -> str | None:
    """Return the only form of report whose help has a word: "md" writes what is "Markdown"."""
    forms = [name for name, form in FORMATS.items() if word.casefold() in form.help.casefold()]
    return forms[0] if len(forms) == 1 else None


def _parsed(option: Option, value: Any, place: str) -> Any:
    try:
        return option.parse(value)
    except ArgumentTypeError as error:
        raise pytest.UsageError(f"{place}: {error}") from None


def _from_ini(config: pytest.Config, name: str, cure: str) -> Any:
    """Return a value of the ini file; pytest's own message would name neither file nor setting."""
    try:
        return config.getini(name)
    except (TypeError, ValueError, pytest.UsageError) as error:
        place = f"{name} in {config.inipath or 'the ini file'}"
        # Python says what it could not do before it names the value.
        value = re.search(r"'.*'$", str(error))
        wrong = f" is {value[0]}" if value else f": {error}"
        raise pytest.UsageError(f"{place}{wrong}. {cure}.") from None
