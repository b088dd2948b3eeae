"""Model source: where the model that a gate names comes from.

A registered name, ``module:factory``, or the path of a checkpoint.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import ComponentError, WorldModelFactory
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.world_models.binding.binding import no_model
from pytest_cpg.world_models.checkpoints import readers
from pytest_cpg.world_models.checkpoints.readers import CheckpointReader

_HOW = (
    "Name a function that returns the model: what maps observations [B, O] and actions [B, A] to "
    "the next observations, a torch module called like that, or an object with rollout(latents, "
    "actions)."
)

_PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# By one of these an object is known to be a model, and nothing that makes one.
_OF_MODELS = ("rollout", "state_dict")


def factory_of(
    text: str,
    registered: Mapping[str, WorldModelFactory],
    *,
    trusted: str = "",
    checkpoint_readers: Mapping[str, CheckpointReader] | None = None,
) -> WorldModelFactory:
    """Return what makes the model of this name for a task.

    Raises ComponentError when there is no such model, saying what to type instead.
    """
    if text in registered:
        return registered[text]
    _check_no_code(text)
    path = Path(text)
    if path.suffix in readers.SUFFIXES or os.sep in text or path.is_file():
        if not path.is_file():
            raise ComponentError(
                f"there is no model file {text!r}. {_near(path)}It was looked for from "
                f"{Path.cwd()}."
            )
        return partial(readers.load, path.absolute(), trusted=trusted, readers=checkpoint_readers)
    if ":" in text:
        factory = named(text)
        _check_factory(text, factory)
        return partial(_returned, text, factory)
    fix = _near(path) or f"{did_you_mean(text, registered)} "
    raise ComponentError(
        f"no world model named {text!r}. {fix}Give module:factory or "
        f"the path of a checkpoint, or return a model of this name from the "
        f"pytest_cpg_world_models hook."
    )


def _check_no_code(text: str) -> None:
    """Raise ComponentError for a Python file, by which no function in it is named."""
    file, _, name = text.partition(":")
    path = Path(file)
    if path.suffix != ".py":
        return
    parts = path.parts[-1:] if path.is_absolute() else path.parts
    module = ".".join(part for part in (*parts[:-1], path.stem) if part != "..")
    raise ComponentError(
        f"{text!r} is a file of code. Write module:factory, here '{module}:{name or 'factory'}', "
        f"with the name of a function in it that takes the task and returns the model."
    )


def _near(path: Path) -> str:
    """Return a sentence that names the checkpoint of nearly this path; empty if there is none."""
    files = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    names = [file.name for file in files if file.suffix in readers.SUFFIXES and file.is_file()]
    wanted = path.name.lower()
    close = [name for name in names if wanted in (name.lower(), Path(name).stem.lower())]
    close += get_close_matches(path.name, names, n=1)
    return f"Did you mean {os.fspath(path.parent / close[0])!r}? " if close else ""


def named(text: str, *, what: str = "factory") -> Any:
    """Return what ``module:name`` stands for, with modules of the working directory in reach."""
    module_name, _, name = text.partition(":")
    # What begins with a dot would be a part of some other module.
    if not module_name or not name or module_name.startswith("."):
        raise ComponentError(f"{text!r} names no {what}. Write module:name.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        member: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # What the module itself cannot import is its own affair.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ComponentError(
            f"{text!r}: there is no module {error.name!r}. It was looked for in {here} and "
            f"among what is installed."
        ) from None
    for attribute in name.split("."):
        if not hasattr(member, attribute):
            public = ((k, v) for k, v in vars(member).items() if not k.startswith("_"))
            names = [key for key, value in public if not inspect.ismodule(value)]
            fix = did_you_mean(attribute, names) if names else "It has nothing."
            raise ComponentError(f"{text!r}: {module_name!r} has no {attribute!r}. {fix}")
        member = getattr(member, attribute)
    return member


def _check_factory(text: str, factory: Any) -> None:
    """Raise ComponentError unless what a text stands for can be called with a task, or nothing."""
    fix = "Name a function that returns the model; it may take the task."
    if not isinstance(factory, type) and any(hasattr(factory, name) for name in _OF_MODELS):
        raise ComponentError(f"{text!r} is a model itself. Name a function that returns it.")
    if not callable(factory):
        raise ComponentError(f"{text!r} is {factory!r}, which cannot be called. {fix}")
    needed = _needed(factory) or []
    names = [parameter.name for parameter in needed if parameter.kind not in _PLACES]
    if len(needed) - len(names) > 1 or {*names} - {"task"}:
        raise ComponentError(
            f"{text!r} takes {inspect.signature(factory)}, and is called with the task or with "
            f"nothing. {fix}"
        )


def _returned(text: str, factory: Callable[..., Any], task: Any = None) -> Any:
    """Return the model that a named factory makes, or raise ComponentError if it makes none."""
    model = made(text, factory, task)
    if model is None:
        raise ComponentError(f"{text!r} returned None. End it in a return of the model.")
    if inspect.isgenerator(model):
        raise ComponentError(f"{text!r} yields, as only a fixture may. Return the model from it.")
    refused = no_model(model, how=_HOW)
    if refused:
        raise ComponentError(f"{text!r} returned {refused}")
    return model


def made(text: str, factory: Callable[..., Any], task: Any = None) -> Any:
    """Return what a factory makes of the task, or of nothing; ComponentError where it needs one."""
    needed = _needed(factory)
    if task is None and needed:
        raise ComponentError(
            f"{text!r} makes a model for a task, and this gate has none. Name the path of a "
            f"checkpoint, or module:factory of a function that takes nothing."
        )
    if task is None:
        return factory()
    if needed is None or any(parameter.kind in _PLACES for parameter in needed):
        return factory(task)
    return factory(task=task) if "task" in inspect.signature(factory).parameters else factory()


def _needed(factory: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return what a factory has to be given; None for one that cannot be asked."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    return [p for p in parameters if p.default is p.empty and p.kind not in _REST]
