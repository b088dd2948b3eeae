"""Model source: where the model that a gate names comes from.

A registered name, ``module:factory``, or the path of a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from pytest_cpg.contracts import ComponentError, WorldModelFactory
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.world_models.checkpoint import CheckpointReader
from pytest_cpg.world_models.checkpoints import readers
from pytest_cpg.world_models.checkpoints.factories import check_factory, named, returned


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
        check_factory(text, factory)
        return partial(returned, text, factory)
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
