"""Factories: what ``module:name`` stands for, and how it is called."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.world_models.binding.binding import no_model

_HOW = (
    "Name a function that returns the model: what maps observations [B, O] and actions [B, A] to "
    "the next observations, a torch module called like that, or an object with rollout(latents, "
    "actions)."
)

_PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# By one of these an object is known to be a model, and nothing that makes one.
_OF_MODELS = ("rollout", "state_dict")


def named(text: str, *, what: str = "factory") -> Any:
    """Return what ``module:name`` stands for, with modules of the working directory in reach.

    Raises ComponentError when there is no such module, or it has no such name.
    """
    module_name, _, name = text.partition(":")
    # What begins with a dot would be a part of some other module.
    if not module_name or not name or module_name.startswith("."):
        raise ComponentError(f"{text!r} names no {what}. Write module:name.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # What the module itself cannot import is its own affair.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ComponentError(
            f"{text!r}: there is no module {error.name!r}. It was looked for in {here} and "
            f"among what is installed."
        ) from None
    for attribute in name.split("."):
        if not hasattr(found, attribute):
            names = [
                key
                for key, value in vars(found).items()
                if not key.startswith("_") and not inspect.ismodule(value)
            ]
            fix = did_you_mean(attribute, names) if names else "It has nothing."
            raise ComponentError(f"{text!r}: {module_name!r} has no {attribute!r}. {fix}")
        found = getattr(found, attribute)
    return found


def check_factory(text: str, factory: Any) -> None:
    """Raise ComponentError unless what a text stands for can be called with a task, or nothing."""
    fix = "Name a function that returns the model; it may take the task."
    if not isinstance(factory, type) and any(hasattr(factory, name) for name in _OF_MODELS):
        raise ComponentError(f"{text!r} is a model itself. Name a function that returns it.")
    if not callable(factory):
        raise ComponentError(f"{text!r} is {factory!r}, which cannot be called. {fix}")
    needed = _needed(factory) or []
    places = [parameter for parameter in needed if parameter.kind in _PLACES]
    if len(places) > 1 or any(
        parameter.name != "task" for parameter in needed if parameter not in places
    ):
        raise ComponentError(
            f"{text!r} takes {inspect.signature(factory)}, and is called with the task or with "
            f"nothing. {fix}"
        )


def returned(text: str, factory: Callable[..., Any], task: Any = None) -> Any:
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
    """Return what a factory makes: it is given the task if it has a place for it.

    Raises ComponentError when there is no task, and it cannot do without one.
    """
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
    return [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in _REST
    ]
