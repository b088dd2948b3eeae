"""Write the pages that the code itself tells: tasks, markers, options, fixtures, Python API.

`conf.py` does so for each build. They are not committed.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_cpg import plugin
from pytest_cpg.gates import GATES
from pytest_cpg.gates.arguments import COMMON, REQUIRED, Argument
from pytest_cpg.gates.options import OF_PLANNING_GAP, Option
from pytest_cpg.gates.presets import ENVIRONMENTS, PRESETS
from pytest_cpg.plugin.options import INI_SWITCHES, OPTIONS, SWITCHES, flag
from pytest_cpg.render.command import tasks as command
from pytest_cpg.stats import wilson_interval
from pytest_cpg.tasks import TASKS

# What users import, in the order of the page.
MODULES = {
    "pytest_cpg": "what tests and type annotations name",
    "pytest_cpg.world_models": "models, and what trains and loads them",
    "pytest_cpg.planners": "planners by their classes",
    "pytest_cpg.tasks": "tasks by their classes",
    "pytest_cpg.tasks.control": "tasks of the DeepMind Control suite",
    "pytest_cpg.tasks.gymnasium": "environments of Gymnasium",
    "pytest_cpg.gates.presets": "planners that solve the built-in tasks",
    "pytest_cpg.episodes.perturbations": "what goes wrong in real steps",
    "pytest_cpg.gates.plan_quality": "the score of a plan among its neighbours",
    "pytest_cpg.gates.policy_comparison.queries": "queries about policies",
    "pytest_cpg.gates.policy_comparison.generate": "queries of your own",
    "pytest_cpg.contracts": "protocols of tasks, planners and models",
    "pytest_cpg.gates.kind": "protocol of a kind of gate",
    "pytest_cpg.gates.at_most": "a kind of gate on one number",
    "pytest_cpg.gates.criteria": "kinds of gate on numbers with limits",
    "pytest_cpg.gates.criterion": "one number with its limit",
    "pytest_cpg.gates.rows": "questions, by workers and after an interruption",
    "pytest_cpg.gates.card": "what a kind of gate shows",
    "pytest_cpg.gates.parts": "what a kind of gate may have beside",
    "pytest_cpg.gates.arguments": "arguments of a marker",
    "pytest_cpg.stats": "intervals, verdicts and metrics",
    "pytest_cpg.plugin.hookspecs": "hooks",
}


def write(docs: Path) -> None:
    """Write all pages into the folders ``tasks`` and ``reference`` of the documentation."""
    for folder, pages in {"tasks": _task_pages(docs), "reference": _reference_pages()}.items():
        (docs / folder).mkdir(exist_ok=True)
        for name, lines in pages:
            path, text = docs / folder / f"{name}.md", "\n".join([*lines, ""])
            # What did not change need not be read again.
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")


def _task_pages(docs: Path) -> Iterator[tuple[str, Iterable[str]]]:
    yield "index", _task_index()
    for name in TASKS:
        yield name, _task_page(name, has_strip=(docs / "strips" / f"{name}.png").exists())
    for name in ENVIRONMENTS:
        described = docs / "environments" / f"{page_of(name)}.txt"
        yield page_of(name), _environment_page(name, described.read_text(encoding="utf-8"))


def page_of(environment: str) -> str:
    """Return the name of an environment's page: its id, without its module."""
    return environment.rpartition(":")[2].replace("/", "-")


def _task_index() -> Iterator[str]:
    yield from ["# Tasks with presets", ""]
    yield "Each page lists what a task observes, in its order and units, as `pytest-cpg tasks`"
    yield "does; those with `gym:` in front are environments of other packages."
    yield "[Tasks and planners](../tasks-and-planners.md) says how tasks are named and set."
    yield from ["", *_table(("task", "planner of its preset", "starts that the preset solves"))]
    for name in TASKS:
        preset = PRESETS[name]
        yield f"| [`{name}`]({name}.md) | `{preset.planner}` | {preset.solved} of 100 |"
    for name, preset in ENVIRONMENTS.items():
        solved = f"{preset.solved} of {preset.starts}"
        yield f"| [`gym:{name}`]({page_of(name)}.md) | `{preset.planner}` | {solved} |"
    yield from _toctree([*TASKS, *map(page_of, ENVIRONMENTS)])


def _task_page(name: str, *, has_strip: bool) -> Iterator[str]:
    yield from [f"# {name}", ""]
    if has_strip:
        yield from [
            f"![{name}, solved](../strips/{name}.png)",
            "",
            "One episode, from left to right: the planner of the preset with the true dynamics.",
            "",
        ]
    lines, _ = command.tasks(argparse.Namespace(name=name, plugins=[]))
    yield from ["What it observes and does, set as its preset has it:", "", "```text"]
    yield from [*lines, "```"]


def _environment_page(name: str, described: str) -> Iterator[str]:
    preset = ENVIRONMENTS[name]
    low = wilson_interval(preset.solved, preset.starts).low
    high = wilson_interval(preset.solved, preset.starts).high
    package = name.partition(":")[0].replace("_", "-")
    took = f", in {preset.seconds} s of processor time" if preset.seconds else ""
    yield from [f"# gym:{name}", ""]
    yield f"An environment of another package: `pip install {package}`. With the true dynamics its"
    yield f"preset solves {preset.solved} of {preset.starts} random starts"
    yield f"([{low:.2f}, {high:.2f}], Wilson 95 %){took}; random actions solve"
    yield f"{preset.chance} of 30."
    yield "[Environments of other packages](../field.md) says what it is restored by, and how fast."
    yield from ["", "What `pytest-cpg tasks` says of it, where the package is installed:", ""]
    yield from ["```text", described.rstrip(), "```"]


def _reference_pages() -> Iterator[tuple[str, Iterable[str]]]:
    yield "markers", _markers()
    yield "options", _options()
    yield "fixtures", _fixtures()
    yield "api", _api()
    for module in MODULES:
        yield module, _module(module)


def _markers() -> Iterator[str]:
    yield from ["# Markers", "", "[The marker](../marker.md) explains them in words."]
    known = {option.name: option for option in _all_options()}
    for kind in GATES.values():
        yield from ["", f"## `@pytest.mark.{kind.marker}`", "", _sentence(kind.help), ""]
        yield from _table(("argument", "default", ""))
        for argument in (*kind.arguments, *COMMON):
            yield from _argument(argument, known)


def _argument(argument: Argument, known: dict[str, Option]) -> Iterator[str]:
    text, default = argument.help, argument.default
    if argument.option:
        option = known[argument.option]
        text, default = f"{text or option.help} ([`{option.flag}`](options.md))", option.default
    shown = "required" if default is REQUIRED else "" if default in (None, "") else f"`{default!r}`"
    yield f"| `{argument.name}` | {shown} | {_cell(text)} |"


def _options() -> Iterator[str]:
    yield from ["# Options", ""]
    yield "An option `--cpg-name` is also an environment variable, `PYTEST_CPG_NAME`, and a key of"
    yield "the ini file, `cpg_name`. The command line wins over the environment, the environment"
    yield "over the marker, and the marker over the ini file."
    yield from ["", "## For any session", "", *_table(("option", ""))]
    yield from _option_rows(option for option in _all_options() if not option.is_for_one_run)
    yield from ["", "## For one run: on the command line alone", "", *_table(("option", ""))]
    yield from _option_rows(option for option in _all_options() if option.is_for_one_run)
    for name, text in SWITCHES.items():
        yield f"| `{flag(name)}` | {_cell(text)} |"
    yield from ["", "## In the ini file alone", "", *_table(("key", ""))]
    for name, text in INI_SWITCHES.items():
        yield f"| `cpg_{name}` | {_cell(text)} |"


def _option_rows(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        yield f"| `{option.flag}={_cell(option.metavar)}` | {_cell(option.help)} |"


def _all_options() -> list[Option]:
    return [*OPTIONS, *OF_PLANNING_GAP]


def _fixtures() -> Iterator[str]:
    yield from ["# Fixtures", "", *_table(("fixture", ""))]
    for kind in GATES.values():
        yield f"| `{kind.fixture}` | the result of a test marked `{kind.marker}` |"
    for name, member in inspect.getmembers(plugin):
        if type(member) is type(plugin.oracle_dynamics):
            text = _cell(inspect.getdoc(member) or "").replace("``", "`")
            yield f"| `{name}` | {text} |"


def _api() -> Iterator[str]:
    yield from ["# Python API", "", *_table(("module", ""))]
    for module, text in MODULES.items():
        yield f"| [`{module}`]({module}.md) | {text} |"
    yield from _toctree(MODULES)


def _module(name: str) -> Iterator[str]:
    members = ", ".join(_public(importlib.import_module(name)))
    yield from [f"# {name}", "", "```{eval-rst}", f".. automodule:: {name}"]
    # What it re-exports has its entry on the page of its own module.
    yield from ["   :no-index:"] * (name == "pytest_cpg")
    yield from [f"   :members: {members}", "   :special-members: __call__", "```"]


def _public(module: Any) -> list[str]:
    """Return the names that a module gives to users: those it lists, or those it defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [*listed]
    return [
        name
        for name, member in vars(module).items()
        if not name.startswith("_") and getattr(member, "__module__", None) == module.__name__
    ]


def _toctree(names: Iterable[str]) -> Iterator[str]:
    yield from ["", "```{toctree}", ":hidden:", "", *names, "```"]


def _table(heads: tuple[str, ...]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
