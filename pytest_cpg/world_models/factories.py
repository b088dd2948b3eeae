"""Factories: what ``module:name`` stands for, and how it is called."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import ComponentError

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True


def named(text: str, *, what: str = "factory") -> Any:
    """Return what ``module:name`` stands for, with modules of the working directory in reach.

    Raises
    ------
    ComponentError
        When there is no such module, or it has no such name.
    """
    module_name, _, name = text.partition(":")
    if not module_name or not name:
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
            f"{text!r}: there is no module {error.name!r}. It is looked for where pytest was "
            f"started ({here}) and among what is installed."
        ) from None
    for attribute in name.split("."):
        if not hasattr(found, attribute):
            known = ", ".join(key for key in vars(found) if not key.startswith("_"))
            raise ComponentError(
                f"{text!r}: {module_name!r} has no {attribute!r}. It has {known or 'nothing'}."
            )
        found = getattr(found, attribute)
    return found


def made(factory: Callable[..., Any], task: Any) -> Any:
    """Return what a factory makes: it is given the task if it has a place for it."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return factory(task)
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in places and p.default is p.empty]
    if needed:
        return factory(task)
    if any(p.name == "task" for p in parameters):
        return factory(task=task)
    return factory()
