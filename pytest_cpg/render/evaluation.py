"""Evaluation: a gate in a training loop, a notebook or a sweep, without pytest.

It asks, measures and judges as a marked test does, by the same kind of gate.
"""

from __future__ import annotations

import os
import shutil
import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from html import escape
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import ComponentError, Task
from pytest_cpg.contracts.errors import all_answers
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.gates import GATES
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.arguments import COMMON, REQUIRED
from pytest_cpg.gates.asking import asked_of, checked_by, refuse_name
from pytest_cpg.gates.kept import FIRST_KIND
from pytest_cpg.gates.kind import (
    Asked,
    Components,
    GateKind,
    Run,
    TaskChoice,
)
from pytest_cpg.gates.notation import visible
from pytest_cpg.gates.options import OF_ALL_GATES, Given
from pytest_cpg.machine.deadline import Deadline
from pytest_cpg.machine.files import ignore_in_git
from pytest_cpg.planners import PLANNERS
from pytest_cpg.render.progress import LiveLine, Watch, can_wipe, followed, write_live
from pytest_cpg.render.section import section, text_of
from pytest_cpg.render.words import headline
from pytest_cpg.report.ledger import Entry, Judgement, Ledger, Outcome
from pytest_cpg.report.session import Session
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import WORLD_MODELS, OracleDynamics
from pytest_cpg.world_models.binding.binding import no_model
from pytest_cpg.world_models.checkpoints.source import factory_of, made

# Where pytest keeps them that is started in the same folder.
ARMS = Path(".pytest_cache", "d", "cpg-arms")
# A frame keeps the styles of page and notebook apart; below 900 px the page is laid out for phones.
_FRAME = "width: 100%; min-width: 940px; height: 640px; border: 0; resize: vertical"
# Simulators are slow to build, and a sweep has a handful of them.
_MOST_TASKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Judgement):
    """A gate's result, with what it means and what it looks like.

    It has every attribute of the result beside its own: of the planning gap that is a
    `pytest_cpg.GateResult`, with ``verdict``, ``gap``, ``learned`` and ``to_json()``. ``result`` is
    as the gate's fixture gives it, ``ruling`` its label and severity, ``max_verdict`` the worst one
    that is accepted, ``reason`` why a test would fail, if it would, and ``card`` what is shown.
    """

    def __getattr__(self, name: str) -> Any:
        # Whoever copies it asks for some of these before there is a result.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.result, name)

    def __dir__(self) -> list[str]:
        of_result = (name for name in dir(self.result) if not name.startswith("_"))
        return sorted({*object.__dir__(self), *of_result})

    def __reduce__(self) -> tuple[Any, ...]:
        # Kinds hold functions, which no pickle takes; those of this package have a name.
        marker = self.kind.marker
        kind = marker if self.kind is GATES.get(marker) else self.kind
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return _evaluation, ({**values, "kind": kind},)

    def __repr__(self) -> str:
        subject = f"{self.card.subject}: " * bool(self.card.subject)
        return f"Evaluation({subject}{headline(self)})"

    def __str__(self) -> str:
        """Return of which gate it is, and what a test would print, but for commands."""
        subject = ", ".join(filter(None, (self.card.subject, self.card.kind)))
        return visible("\n".join(filter(None, (subject, text_of(section(self))))))

    def _repr_html_(self) -> str | None:
        """Return the gate's part of a page for a notebook; None without the extra html."""
        try:
            from pytest_cpg.render.html_page import comparison_page
        except ComponentError:
            return None
        outcome: Outcome = "passed" if self.passes else "failed"
        entry = Entry(outcome=outcome, judgements=(self,))
        page = comparison_page(Session.of(Ledger(entries={self.kind.marker: entry})))
        return f'<iframe srcdoc="{escape(page)}" style="{_FRAME}"></iframe>'

    @property
    def label(self) -> str:
        """What the gate says, in its own words."""
        return self.ruling.label

    @property
    def passes(self) -> bool:
        """Whether a test would pass."""
        return self.reason is None

    def metrics(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers by name, for a tracker.

        Names begin with ``prefix``, which tells tasks of one run apart, the kind's marker and a
        slash. ``cpg/severity`` goes from 0 (good) to 4 (broken), and ``cpg/passes`` is 1 or 0.
        """
        # Last: a kind may have numbers of these names.
        ruled = {"severity": self.ruling.severity, "passes": self.passes}
        return {
            f"{prefix}{self.kind.marker}/{name}": float(value)
            for name, value in {**self.card.numbers, **ruled}.items()
            if not isinstance(value, str)
        }


def evaluate(
    subject: Any = REQUIRED,
    model: Any = REQUIRED,
    *,
    kind: str | GateKind[Any, Any] = FIRST_KIND,
    cache: str | os.PathLike[str] | None = ARMS,
    executor: Executor | None = None,
    progress: bool | None = None,
    **asked: Any,
) -> Evaluation:
    """Return what a gate says of a model.

    The same design gives the same bits as the gate in a test. ``cache`` keeps the arms that do not
    depend on the model. A later call checks two episodes of each and takes the others, so that a
    loop over checkpoints runs the learned arm alone. After Ctrl-C the next call takes the finished
    episodes.

    Parameters
    ----------
    subject : object
        The first argument of the kind's marker, by its place or by its name there: the name of a
        task or a Task, ``task=``; for a kind that asks queries, the queries.
    model : object
        A model as a ``learned_dynamics`` fixture may return it, or as ``model=`` may name it.
    kind : str or GateKind
        A marker, such as ``"cpg_plan_quality"``, or a kind of your own.
    cache : path or None
        Folder of finished arms, which pytest may share; None to run all of them.
    executor : Executor, optional
        Runs parts of the evaluation; by default they are run in this process.
    progress : bool, optional
        Whether to show on standard error how far it is; by default where that is a terminal.
    **asked
        Arguments of the kind's marker, such as ``planner`` and ``episodes``; its options that no
        marker gives, such as ``diagnose``; and values of its fixtures, such as ``training_data``.

    Raises
    ------
    ValueError, ComponentError
        For arguments that cannot be used, naming the value and what to write instead.
    WorldModelError
        For a model that breaks its contract. The model's own exceptions pass unchanged.
    IncompleteError
        Where ``timeout`` seconds were not enough.
    """
    gate_kind = _kind_of(kind)
    if executor is not None and not hasattr(executor, "submit"):
        raise ValueError(
            f"executor: need None or a concurrent.futures.Executor, got {executor!r}. Write "
            f"executor=ProcessPoolExecutor(2)."
        )
    if cache is not None and not isinstance(cache, str | os.PathLike):
        raise ValueError(f"cache: need a folder or None, got {cache!r}. Write cache=None for none.")
    first = (*gate_kind.arguments, *COMMON)[0].name
    if subject is not REQUIRED and first in asked:
        raise ValueError(f"evaluate() takes {first} as its first argument. Leave {first}= out.")
    asked.setdefault(first, subject)
    for name, value in ((first, asked[first]), ("model", model)):
        if value is REQUIRED:
            raise ValueError(f"evaluate() needs {name}. Write evaluate({first}, model, ...).")
    is_named = isinstance(model, str | os.PathLike)
    if is_named and not isinstance(subject, str | os.PathLike) and not no_model(subject):
        raise ValueError(f"the {first} comes first: evaluate({os.fspath(model)!r}, model, ...).")
    fixtures = tuple(getattr(gate_kind, "fixtures", ()))
    values = {name: asked.pop(name) for name in fixtures if name in asked}
    if is_named:
        asked["model"] = os.fspath(model)
    read = _read(gate_kind, asked, fixtures)
    factory = partial(
        factory_of, asked.get("model", ""), WORLD_MODELS, trusted=read.options["trust"]
    )
    spec, max_verdict, make = checked_by(gate_kind, read, factory if is_named else lambda: None)
    task = None if getattr(spec, "task", None) is None else _built(spec.task)
    if is_named:
        model = made(asked["model"], make) if task is None else make(task)
    seconds = read.values["timeout"]
    # Whoever trains a model is not to lose the process with it.
    deadline = Deadline(seconds or float("inf"), f"timeout={seconds:g}", lambda _: None)
    with followed(_watch(is_shown=progress), deadline) as tell:
        run = Run(
            given={**_usual_fixtures(gate_kind, fixtures, values, task), **values},
            execution=Execution(cache=_arms(cache), executor=executor),
            task=_built,
            progress=tell,
        )
        result = gate_kind.measure(spec, model, run)
    ruling = ask(gate_kind, "judge", result, max_verdict)
    return Evaluation(
        kind=gate_kind,
        result=result,
        ruling=ruling,
        max_verdict=max_verdict,
        reason=max_verdict.refusal(ruling),
        shown=ask(gate_kind, "card", result, max_verdict, model=read.values["model"]),
    )


def _evaluation(values: Mapping[str, Any]) -> Evaluation:
    """Return what was pickled or copied."""
    return Evaluation(**{**values, "kind": _kind_of(values["kind"])})


def _kind_of(kind: str | GateKind[Any, Any]) -> GateKind[Any, Any]:
    if has(kind, GateKind):
        return kind
    if not isinstance(kind, str):
        raise ValueError(f"kind: need a kind of gate, got {kind!r}. {did_you_mean('', GATES)}")
    if kind not in GATES:
        raise ValueError(f"no kind of gate {kind!r}. {did_you_mean(kind, GATES)}")
    return GATES[kind]


def _read(kind: GateKind[Any, Any], asked: Mapping[str, Any], fixtures: tuple[str, ...]) -> Asked:
    """Return what is asked, every argument parsed, or raise ValueError."""
    arguments = (*kind.arguments, *COMMON)
    kinds = {**GATES, kind.marker: kind}.values()
    every = (option for other in kinds for option in getattr(other, "options", ()))
    options = {option.name: option for option in (*OF_ALL_GATES, *every)}
    # Of this kind those that no marker gives.
    own = getattr(kind, "options", ())
    beside = [option.name for option in (*OF_ALL_GATES, *own) if not option.is_for_one_gate]
    names = (argument.name for argument in arguments if not argument.is_of_session)
    usable = {*names, *beside, *fixtures}
    unknown = [name for name in asked if name not in usable]
    project = {name: option.default for name, option in options.items()}
    for name in beside:
        try:
            project |= {name: options[name].parse(asked[name])} if name in asked else {}
        except ArgumentTypeError as error:
            raise ValueError(f"{name}: {error}") from None
    needed = (f"{each.name}=..." for each in arguments[1:] if each.default is REQUIRED)
    usage = ", ".join((arguments[0].name, "model", f"kind={kind.marker!r}", *needed))
    return all_answers(  # type: ignore[no-any-return]  # what `asked_of` returns
        *(partial(refuse_name, name, usable, "evaluate()") for name in unknown),
        lambda: asked_of(
            [{name: asked[name] for name in asked if name not in (*beside, *unknown)}],
            arguments,
            Given(options=options, project=project, typed={}),
            Components(tasks=TASKS, planners=PLANNERS, world_models=WORLD_MODELS),
            place="evaluate()",
            usage=f"evaluate({usage})",
        ),
    )[-1]


def _usual_fixtures(
    kind: GateKind[Any, Any],
    fixtures: tuple[str, ...],
    values: Mapping[str, Any],
    task: Task | None,
) -> dict[str, Any]:
    """Return what the plugin's own fixtures give; raise ValueError for a user's."""
    usual: dict[str, Any] = {"training_data": None}
    usual |= {} if task is None else {"oracle_dynamics": OracleDynamics(task)}
    for name in fixtures:
        if name not in {**usual, **values}:
            raise ValueError(
                f"evaluate() names no {name}, which a fixture gives to gates marked "
                f"{kind.marker}. Write evaluate(..., {name}=...)."
            )
    return usual


# Equal for tasks by name, so that the next checkpoint finds its simulator.
@lru_cache(maxsize=_MOST_TASKS)
def _built(choice: TaskChoice) -> Task:
    return choice.build()


def _arms(folder: str | os.PathLike[str] | None) -> ArmCache | None:
    """Return where arms are kept; None for nowhere, also where nothing can be written."""
    if folder is None:
        return None
    path = Path(folder)
    if not path.exists():
        # pytest hides its own folder only when it makes it.
        above = path.parents
        new = [folder for folder in above if folder.name == ARMS.parts[0] and not folder.exists()]
        try:
            path.mkdir(parents=True)
        except OSError:
            return None
        for hidden in (path, *new):
            ignore_in_git(hidden, "*")
    return ArmCache(path)


def _watch(*, is_shown: bool | None) -> Watch:
    """Return what shows how far an evaluation is; by default where standard error is a terminal."""
    is_shown = sys.stderr.isatty() and can_wipe() if is_shown is None else is_shown
    live = LiveLine(partial(write_live, sys.stderr), lambda: shutil.get_terminal_size().columns - 1)
    return Watch(lambda _: None, live if is_shown else None)
