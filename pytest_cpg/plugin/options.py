"""Options: what may be asked of any session, whatever kinds of gate it has."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from pytest_cpg.gates import BASELINE, HISTORY
from pytest_cpg.gates.arguments import all_or_whole, one_of, optional_path, path, whole, workers
from pytest_cpg.gates.options import OF_ALL_GATES, OF_PLANNING_GAP, Option
from pytest_cpg.render.formats import FORMATS

_OfSession = partial(Option, is_for_one_gate=False)
OPTIONS = (
    *OF_ALL_GATES,
    _OfSession(
        "correction",
        one_of("none", "holm"),
        "none",
        "METHOD",
        "share one error rate among all gates of the family (holm), or not (none, default)",
    ),
    _OfSession(
        "family_size",
        whole(0, 1_000_000),
        0,
        "K",
        "gates of the family, for --cpg-correction (default: those of the baseline file)",
        is_for_projects=True,
    ),
    _OfSession(
        "baseline",
        path,
        BASELINE,
        "PATH",
        f"the baseline file, from the root directory (default {BASELINE})",
    ),
    *(
        _OfSession(
            name,
            optional_path,
            "",
            "PATH",
            form.help,
            overruled={"plan": "a plan has no results to write"},
        )
        for name, form in FORMATS.items()
    ),
    _OfSession(
        "history",
        optional_path,
        HISTORY,
        "GLOB",
        "earlier sessions, for trends: histories or reports (--cpg-json), in the order of their "
        f"names (default {HISTORY}, to which each session adds)",
    ),
    _OfSession(
        "workers",
        workers,
        1,
        "N",
        "processes that run parts of each gate, such as episodes (default 1: this one); outcomes "
        "are the same for any number",
    ),
    _OfSession(
        "replay",
        path,
        "",
        "FILE[::EPISODE]",
        "run both arms of a gate on the episodes that it lost, which its file in .cpg/lost names, "
        "and trace all plans; there is no verdict",
        is_for_one_run=True,
    ),
    _OfSession(
        "states",
        path,
        "",
        "FILE",
        "write the states in which replayed plans broke their promise most, for "
        "collect_transitions(starts=)",
        is_for_one_run=True,
    ),
    _OfSession(
        "require",
        all_or_whole,
        "",
        "all|N",
        "fail when fewer gates were judged: all gates in the files that were asked for (default in "
        "CI), or a number (default 0); in the ini file it binds CI and runs of the whole project",
    ),
)

# What is asked of one run only, and so on the command line only.
SWITCHES = {
    "plan": "say what every collected gate could find and how long it takes; run nothing",
    "update_baseline": "accept the results of this run into the baseline file; drop what is gone",
    "strict": "fail gates that pass with a doubt: with a note in the report, by raw rates that may "
    "hide twice the tolerance, or as an expected failure without a verdict; also cpg_strict in the "
    "ini file",
    "quick": "smoke test: 2 episodes per arm, no verdict; only broken models fail",
    "no_cache": "run all arms anew, and store none",
    "resume": "go on where an interrupted session was: finished episodes and answered queries are "
    "not run again, if task, planner, queries and model are the same",
    "render": "film the lost episodes that are replayed, both arms side by side, into .cpg/lost "
    "(extra render)",
}

# What is said once for a project.
INI_SWITCHES = {
    "strict": f"default of --cpg-strict: {SWITCHES['strict']}",
    "allow_reruns": "let plugins that repeat failed tests repeat gates; a gate that is repeated "
    "until it passes says nothing (default false)",
}


class DeclaredOptions:
    """Declares the options of every session, and those that kinds of gate bring."""

    def __init__(self, parser: pytest.Parser) -> None:
        self._parser = parser
        # Two, as pytest compares each option with all others of its group.
        self._of_gates = parser.getgroup(
            "cpg", "gates on learned world models (--cpg-x, PYTEST_CPG_X, or cpg_x in the ini file)"
        )
        self._of_sessions = parser.getgroup("cpg-session", "sessions with such gates (likewise)")
        self.table: dict[str, Option] = {}
        for option in (*OPTIONS, *OF_PLANNING_GAP):
            self._add(option)
        for name, help_text in SWITCHES.items():
            self._of_sessions.addoption(
                flag(name), dest=f"cpg_{name}", action="store_true", help=help_text
            )
        for name, help_text in INI_SWITCHES.items():
            parser.addini(f"cpg_{name}", help_text, type="bool", default=False)

    def declare_of(self, kinds: Mapping[str, Any]) -> None:
        """Declare what kinds of gate bring; what else is wrong with them is said later."""
        for marker, option in _brought(kinds):
            if option.name in {*self.table, *SWITCHES, *INI_SWITCHES}:
                raise pytest.UsageError(
                    f"the kind of gate {marker!r} has the option {option.flag}, and there is one "
                    f"of that name. Rename it."
                )
            self._add(option)

    def unknown_in_ini(self, config: pytest.Config) -> list[str]:
        """Return settings of the ini file that nobody heeds: pytest's warning may be hidden."""
        known = {*self.table, *INI_SWITCHES}
        with warnings.catch_warnings(action="ignore"):
            given = [name for name in config.inicfg if name.startswith("cpg_")]
        return [name for name in given if name[4:] not in known and not _is_ini(config, name)]

    def _add(self, option: Option) -> None:
        self.table[option.name] = option
        if not option.is_for_one_run:
            help_text = option.help if option.is_for_projects else f"default of {option.flag}"
            self._parser.addini(
                f"cpg_{option.name}", help_text, type=option.kind, default=option.default
            )
        if option.is_for_projects:
            return
        group = self._of_gates if option.is_for_one_gate else self._of_sessions
        group.addoption(
            option.flag,
            dest=f"cpg_{option.name}",
            type=option.parse,
            default=None,
            metavar=option.metavar,
            help=option.help,
        )


def _is_ini(config: pytest.Config, name: str) -> bool:
    """Say whether somebody has declared a setting of the ini file, whatever its value is."""
    try:
        config.getini(name)
    except (TypeError, ValueError) as error:
        return not str(error).startswith("unknown configuration value")
    return True


def _brought(kinds: Mapping[str, Any]) -> Iterator[tuple[str, Option]]:
    for marker, kind in kinds.items():
        options = () if isinstance(kind, type) else getattr(kind, "options", ())
        for option in options if isinstance(options, list | tuple) else ():
            if isinstance(option, Option):
                yield marker, option


def flag(name: str) -> str:
    """Return how an option or a switch is typed."""
    return f"--cpg-{name.replace('_', '-')}"
