"""Arguments: what a marker may say, as data, and how one value is read."""

from __future__ import annotations

import math
import operator
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

if TYPE_CHECKING:
    from pytest_cpg.tasks.goals import Goals
    from pytest_cpg.tasks.pixels import Pixels

REQUIRED: Final = object()
"""Default of an argument that a marker has to give."""
# Clocks of systems end somewhere.
_YEAR = 366 * 24 * 3600


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Argument:
    """One argument of a kind's marker.

    ``parse`` returns the value that is meant, or raises ValueError or ArgumentTypeError with what
    to write instead; None takes parser and default of the ``option``, which wins over the marker
    where it is typed, and whose value in the ini file is the default.

    A ``default`` is not parsed; None is for an argument that may be left out, `REQUIRED` for one
    that may not. One ``is_of_session`` that sets the gate beside others, so that
    `pytest_cpg.evaluate`, which has no session, does not take it.
    """

    name: str
    parse: Callable[[Any], Any] | None
    default: Any = None
    _: KW_ONLY
    help: str = ""
    option: str = ""
    is_of_session: bool = False

    def __repr__(self) -> str:
        return f"Argument({self.name!r})"


def of_option(name: str) -> Argument:
    """Return the argument that is an option, too, and has its name, parser and default."""
    return Argument(name, None, option=name)


def as_given(value: Any) -> Any:
    """Return a value that is read later, with others beside it."""
    return value


def whole(least: int, most: int = 1_000_000) -> Callable[[Any], int]:
    """Return a parser of whole numbers from ``least`` to ``most``: nothing may go on for ever."""

    def parse(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else operator.index(value)
        except (TypeError, ValueError):
            number = None
        if isinstance(value, bool) or number is None or number < least:
            raise ArgumentTypeError(f"need a whole number of at least {least}, got {value!r}")
        if number > most:
            raise ArgumentTypeError(f"need a whole number of at most {most}, got {value!r:.40}")
        return number

    return parse


def _real(value: Any) -> float:
    """Return a number, and NaN, which fails every comparison, for anything else."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan


def between(low: float, high: float) -> Callable[[Any], float]:
    """Return a parser of numbers between two excluded bounds."""

    def parse(value: Any) -> float:
        number = _real(value)
        if not low < number < high:
            bounds = f"between {low:g} and {high:g} (both excluded)"
            if math.isinf(high):
                bounds = f"above {low:g}"
            # Whoever writes 95 for a share means percent.
            is_percent = high <= 1 < number and low < number / 100 < high
            meant = f". Write {number / 100:g}" * is_percent
            raise ArgumentTypeError(f"need a number {bounds}, got {value!r}{meant}")
        return number

    return parse


def level(value: Any) -> float:
    """Parse the level of intervals; a planner's confidence, which has the same name, is told."""
    if isinstance(value, str) and math.isnan(_real(value)):
        from difflib import get_close_matches

        from pytest_cpg.planners.search import Confidence

        meant = get_close_matches(value, get_args(Confidence), 1)
        if meant:
            raise ArgumentTypeError(
                f"need the level of intervals, such as 0.95, got {value!r}. How sure a search is "
                f"of its plans is an argument of the planner: "
                f'planner=CEM(confidence="{meant[0]}"), from pytest_cpg.planners'
            )
    return between(0, 1)(value)


def seconds(value: Any) -> float:
    """Parse a time in seconds, of a year at most; 0 is no limit."""
    number = _real(value)
    if not 0 <= number <= _YEAR:
        raise ArgumentTypeError(
            f"need a number of seconds of at most {_YEAR}, 0 for no limit, got {value!r}"
        )
    return number


def one_of(*choices: str) -> Callable[[Any], str]:
    """Return a parser of one of some words."""

    def parse(value: Any) -> str:
        if value not in choices:
            from pytest_cpg.contracts.lookup import nearest

            close = nearest(str(value), choices)
            meant = f". Did you mean {close!r}?" if close else ""
            raise ArgumentTypeError(f"need one of {', '.join(choices)}, got {value!r}{meant}")
        return str(value)

    return parse


def name(value: Any) -> str:
    """Parse a name of one's own choice, which may be empty."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"need a name, got {value!r}")
    if re.search(r"[\ud800-\udfff]", value):
        raise ArgumentTypeError(f"need a name without lone surrogates, got {value!r}")
    return value


def task_or_name(value: Any) -> Any:
    """Return a task, or the name of one."""
    from pytest_cpg.contracts import Task
    from pytest_cpg.contracts.lookup import lacking

    if isinstance(value, Task):
        return value
    if isinstance(value, str):
        return name(value)
    cure = lacking(value, Task)
    # An environment, whose members are Gymnasium's.
    if hasattr(value, "action_space"):
        identity = getattr(getattr(value, "spec", None), "id", None) or "ID"
        cure = f'. Write task="gym:{identity}", with the id under which it is registered'
    raise ArgumentTypeError(f"need the name of a task or a Task, got {value!r:.60}{cure}")


def gate_name(value: Any) -> str:
    """Parse a gate's own name, which must not look like a test's or like a second comparison."""
    text = name(value)
    if not text or "::" in text or re.search(r" #\d+$", text):
        raise ArgumentTypeError(
            f"need a name without '::' that does not end in ' #2', got {text!r}"
        )
    return text


def workers(value: Any) -> int:
    """Parse a number of processes; the address of a cluster is told where that belongs."""
    if isinstance(value, str) and "://" in value:
        raise ArgumentTypeError(
            f"need a number of processes, got {value!r}. For a dask cluster return "
            f"distributed.Client({value!r}).get_executor() from a fixture cpg_executor"
        )
    return whole(1, 1024)(value)


def all_or_whole(value: Any) -> str:
    """Parse ``"all"`` or a whole number, as text."""
    if value == "all":
        return "all"
    try:
        return str(whole(0)(value))
    except ArgumentTypeError:
        raise ArgumentTypeError(f"need all or a whole number, got {value!r}") from None


def path(value: Any) -> str:
    """Parse a path, which must not be empty."""
    if not isinstance(value, str) or not value:
        raise ArgumentTypeError(f"need a path, got {value!r}")
    return value


def model_name(value: Any) -> str:
    """Parse where a model comes from, as text; it is looked for when a gate is collected."""
    if not isinstance(value, str) or not value:
        raise ArgumentTypeError(
            f"need the name of a registered world model, got {value!r}; or module:factory, or the "
            f"path of a checkpoint. Or leave it out, and return the model itself from a "
            f"learned_dynamics fixture."
        )
    return value


def goal(value: Any) -> dict[str, float]:
    """Parse the reward of a step that succeeds, or ``"return>=50"`` of an episode.

    Returns which option of a task that is, and its value.
    """
    is_return = isinstance(value, str) and value.replace(" ", "").startswith("return>=")
    least = value.partition(">=")[2] if is_return else value
    try:
        # A number that is written as text is none.
        if is_return is not isinstance(value, str):
            raise ArgumentTypeError
        number = between(-math.inf, math.inf)(least)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"need the reward of a step that succeeds, such as 0.6, or the return of an episode "
            f'that does, such as "return>=50", got {value!r}'
        ) from None
    return {"least_return" if is_return else "threshold": number}


def goals(value: Any) -> Goals:
    """Parse where the goals of episodes come from; see `pytest_cpg.tasks.goals.Goals`."""
    from pytest_cpg.tasks.goals import Goals

    return Goals.of(value)


def pixels(value: Any) -> Pixels:
    """Parse what models are given in place of observations; see `pytest_cpg.tasks.pixels`."""
    from pytest_cpg.tasks.pixels import Pixels

    return Pixels.of(value)


def digests(value: Any) -> str:
    """Parse digests of files, separated by commas, as they are printed."""
    from pytest_cpg.machine.files import digests_in

    try:
        return ",".join(digests_in(value))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def optional(parse: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a parser that also takes an empty text, for nothing."""
    return lambda value: "" if value == "" else parse(value)


optional_path, optional_digests = optional(path), optional(digests)

COMMON = (
    Argument("max_verdict", as_given, help="the worst verdict that the test accepts"),
    Argument("drift", None, option="drift", is_of_session=True),
    of_option("timeout"),
    of_option("model"),
    Argument(
        "id", gate_name, "", help="the gate's name, in place of the test's", is_of_session=True
    ),
)
"""Arguments of every kind."""


OF_EPISODES = (
    Argument("starts", one_of("sampled", "fixed"), "sampled", help="where episodes begin"),
    Argument("horizon", whole(1, 10_000), help="steps that a plan looks ahead"),
    Argument("budget", whole(1), help="steps of an episode"),
    Argument("actions", one_of("levels", "box"), help="a few actions, or all between bounds"),
    Argument("goal", goal, help='the reward of a step that succeeds, or an episode: "return>=50"'),
    Argument("goals", goals, help='places to reach: "goals.npz", or {"offset": 25, "within": 0.1}'),
    Argument(
        "observe",
        pixels,
        help='what models see: "pixels", or {"size": 64, "stack": 3}',
    ),
)
"""Arguments of every kind that runs episodes of a task."""


def signature(marker: str, arguments: Iterable[Argument]) -> str:
    """Return how ``pytest --markers`` writes a marker that takes these, and those of every kind."""
    return f"{marker}({', '.join(map(_written, (*arguments, *COMMON)))})"


def _written(argument: Argument) -> str:
    has_default = argument.default not in (None, "", REQUIRED)
    return f"{argument.name}={argument.default!r}" if has_default else argument.name
