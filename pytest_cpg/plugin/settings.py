"""Settings: options of a session, parsed once at the edge into a frozen value.

An option is taken from the command line, then the environment, then the closest marker that
gives it, then the ini file, then its default: what is typed for one run wins over what is written
in a test, and a test over the project's configuration.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping, Set
from typing import Any

import pytest

from pytest_cpg.gates.arguments import PREFIX, Option
from pytest_cpg.plugin.kinds import COMMON, contributed
from pytest_cpg.plugin.options import OPTIONS, SWITCHES

DECLARED = "cpg-options"
# What decides a gate, and is asked of all of them alike.
_OF_ALL_GATES = {"correction", "family_size", "baseline", "trust"}


class Settings:
    """What was asked of a whole session.

    Parameters
    ----------
    options : mapping
        Those of every session and of its kinds of gate, by name.
    typed : mapping
        Option name to value, from the command line or the environment; these win over markers.
    project : mapping
        Option name to value, from the ini file or the defaults; markers win over these.
    allow_reruns : bool
        Whether a gate may be run again by a plugin that repeats failed tests.
    """

    def __init__(
        self,
        options: Mapping[str, Option],
        typed: Mapping[str, Any],
        project: Mapping[str, Any],
        switches: frozenset[str],
        *,
        allow_reruns: bool,
    ) -> None:
        self.options = options
        self.typed, self.project, self.switches = typed, project, switches
        self.allow_reruns = allow_reruns

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
        return {
            name: value
            for name, value in self.typed.items()
            if name in _OF_ALL_GATES or self._decides_one(self.options[name])
        }

    def _decides_one(self, option: Option) -> bool:
        return option.is_for_one_gate and not option.overruled.keys() & self.switches


class DeclaredOptions:
    """Declares the options of every session, and those of kinds of gate as plugins contribute them.

    Attributes
    ----------
    options : dict
        By name.
    """

    def __init__(self, parser: pytest.Parser) -> None:
        self._parser = parser
        self._group = parser.getgroup("cpg", "gates on learned world models")
        self._is_over = False
        self.options: dict[str, Option] = {}
        for option in OPTIONS:
            self._add(option)
        for name, help_text in SWITCHES.items():
            self._group.addoption(
                _flag(name), dest=f"cpg_{name}", action="store_true", help=help_text
            )
        parser.addini(
            "cpg_allow_reruns",
            "let plugins that repeat failed tests repeat gates; a gate that is repeated until it "
            "passes says nothing (default false)",
            type="bool",
            default=False,
        )
        parser.addini("cpg_strict", f"default of --cpg-strict: {SWITCHES['strict']}", type="bool")

    def pytest_plugin_registered(self, plugin: object) -> None:
        """Declare the options of the kinds of gate that a plugin or a conftest file contributes."""
        if self._is_over:
            return
        try:
            kinds = contributed(plugin)
        # What else is wrong is said once the session is configured.
        except pytest.UsageError:
            return
        for marker, kind in kinds.items():
            options = () if isinstance(kind, type) else getattr(kind, "options", ())
            for option in options if isinstance(options, list | tuple) else ():
                if isinstance(option, Option):
                    self._check(marker, option)
                    self._add(option)

    def pytest_configure(self) -> None:
        """Take no more: the command line is read."""
        self._is_over = True

    def _check(self, marker: str, option: Option) -> None:
        if option.name in {*self.options, *SWITCHES, "allow_reruns"}:
            raise pytest.UsageError(
                f"the kind of gate {marker!r} has the option {option.flag}, and there is one of "
                f"that name. Rename it."
            )

    def _add(self, option: Option) -> None:
        self.options[option.name] = option
        self._group.addoption(
            option.flag,
            dest=f"cpg_{option.name}",
            type=option.parse,
            default=None,
            metavar=option.metavar,
            help=option.help
            if option.is_for_one_run
            else f"{option.help}; also {option.variable} and cpg_{option.name} in the ini file",
        )
        if not option.is_for_one_run:
            help_text = f"default of {option.flag}: {option.help}"
            name = f"cpg_{option.name}"
            self._parser.addini(name, help_text, type=option.kind, default=option.default)


def read_settings(config: pytest.Config) -> Settings:
    """Read command line, environment and ini file.

    Raises pytest.UsageError, naming the place, the value and what is needed.
    """
    declared: Any = config.pluginmanager.get_plugin(DECLARED)
    options: Mapping[str, Option] = declared.options
    _check_variables(options)
    typed, project = {}, {}
    for option in options.values():
        given = config.getoption(f"cpg_{option.name}")
        if given is not None:
            typed[option.name] = given
        project[option.name] = option.default
        if option.is_for_one_run:
            continue
        text = os.environ.get(option.variable)
        if given is None and text:
            typed[option.name] = _parsed(option, text, option.variable)
        project[option.name] = _ini_value(config, option)
    switches = {name for name in SWITCHES if config.getoption(f"cpg_{name}")}
    _check_clashes(options, switches, typed, config.invocation_params.args)
    _check_baseline(config, typed, switches)
    for switch in ("quick", "plan", "skip"):
        if switch in switches:
            check_is_typed(config, _flag(switch), require=(project | typed)["require"])
    if _from_ini(config, "cpg_strict", "Give true or false"):
        switches.add("strict")
    allow_reruns = bool(_from_ini(config, "cpg_allow_reruns", "Give true or false"))
    return Settings(options, typed, project, frozenset(switches), allow_reruns=allow_reruns)


def _check_variables(options: Mapping[str, Option]) -> None:
    """Refuse a variable of the environment that bears our prefix and means nothing."""
    asked = sorted(name for name in os.environ if name.startswith(PREFIX))
    if not asked:
        return
    from pytest_cpg.machine.processors import SHARERS

    known = {option.variable for option in options.values() if not option.is_for_one_run}
    # The one is set for worker processes, which may start a session of their own.
    unknown = [name for name in asked if name not in (*known, SHARERS)]
    if not unknown:
        return
    from difflib import get_close_matches

    from pytest_cpg.contracts.lookup import did_you_mean

    name = unknown[0]
    # Those of one run have no variable.
    asked_of = {*SWITCHES, *(one.name for one in options.values() if one.is_for_one_run)}
    flags = {PREFIX + one.upper(): _flag(one) for one in asked_of}
    (close,) = get_close_matches(name.upper(), [*sorted(known), *sorted(flags)], n=1) or [""]
    if close in flags:
        raise pytest.UsageError(f"{name} in the environment has no effect. Type {flags[close]}.")
    raise pytest.UsageError(
        f"{name} in the environment names no option. {did_you_mean(name, known)}"
    )


# What leaves other options no meaning, which ones, and why: refused wherever they are set.
_CLASHES = (
    ("plan", ("update_baseline", "prune_baseline"), "there is nothing to write"),
    ("plan", ("render",), "there is nothing to film"),
    ("quick", ("plan",), "--cpg-plan runs nothing, quick or not"),
    ("quick", ("update_baseline",), "a smoke test is no result to accept"),
    ("quick", ("require",), "a smoke test judges no gate"),
    ("skip", ("require",), "what is left out cannot be required"),
    ("resume", ("no_cache",), "what is resumed is in the cache"),
    ("resume", ("quick",), "a smoke test is never resumed"),
    (
        "replay",
        ("quick", "plan", "update_baseline", "prune_baseline", "skip", "resume"),
        "a replay compares nothing",
    ),
    ("replay", ("json", "md", "html"), "a replay has no results to write"),
)


def _check_clashes(
    options: Mapping[str, Option],
    switches: Set[str],
    typed: Mapping[str, Any],
    words: Iterable[object],
) -> None:
    """Refuse what leaves another option no meaning, and what has none alone.

    What is set for more than this run, in addopts or the environment, may be overruled.
    """
    asked = {*switches, *(name for name, value in typed.items() if value not in ("", "0"))}
    flags = {str(word).partition("=")[0] for word in words}
    here = {option.name for option in options.values() if option.flag in flags}
    overruled = [
        (first, (option.name,), why)
        for option in options.values()
        for first, why in option.overruled.items()
    ]
    for rules, refused in ((overruled, here), (_CLASHES, asked)):
        for first, others, why in rules:
            for other in others:
                if first in asked and other in refused:
                    raise pytest.UsageError(
                        f"{_flag(first)} and {_flag(other)}: {why}. Leave one of them out."
                    )
    if "force" in switches and not switches & {"update_baseline", "prune_baseline"}:
        raise pytest.UsageError(
            "--cpg-force accepts what is refused otherwise: add --cpg-update-baseline or "
            "--cpg-prune-baseline"
        )


def _flag(name: str) -> str:
    return f"--cpg-{name.replace('_', '-')}"


def is_in_ci() -> bool:
    """Say whether nobody watches this session."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def check_is_typed(config: pytest.Config, *spellings: str, require: str) -> None:
    """Refuse in CI an option that leaves gates without a verdict and is not typed there."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or require == "0" or not is_in_ci():
        return
    if not {*spellings} & {*map(str, config.invocation_params.args)}:
        raise pytest.UsageError(
            f"{spellings[0]} is set in PYTEST_ADDOPTS or addopts, and would leave CI without a "
            f"verdict. Take it out there, or type it where it is meant."
        )


def _check_baseline(config: pytest.Config, typed: Mapping[str, Any], switches: Set[str]) -> None:
    """Refuse a baseline that is asked for, and is not there to compare with."""
    if "baseline" not in typed or "update_baseline" in switches:
        return
    path = config.rootpath / typed["baseline"]
    if not path.exists():
        is_typed = config.getoption("cpg_baseline") is not None
        place = "--cpg-baseline" if is_typed else f"{PREFIX}BASELINE"
        raise pytest.UsageError(
            f"{place}={typed['baseline']}: there is no file {path}. Correct the path, which "
            f"is from the root directory, leave it out, or add --cpg-update-baseline to write it."
        )


def _parsed(option: Option, value: Any, place: str) -> Any:
    try:
        return option.parse(value)
    except ArgumentTypeError as error:
        raise pytest.UsageError(f"{place}: {error}") from None


def _ini_value(config: pytest.Config, option: Option) -> Any:
    name = f"cpg_{option.name}"
    value = _from_ini(config, name, f"Give {option.help}")
    # A default may stand for nothing, which cannot be asked for.
    if value == option.default:
        return value
    return _parsed(option, value, f"{name} in {config.inipath or 'the ini file'}")


def _from_ini(config: pytest.Config, name: str, cure: str) -> Any:
    """Return a value of the ini file; pytest's own message would name neither file nor setting."""
    try:
        return config.getini(name)
    except (TypeError, ValueError, pytest.UsageError) as error:
        place = f"{name} in {config.inipath or 'the ini file'}"
        raise pytest.UsageError(f"{place}: {error}. {cure}.") from None
