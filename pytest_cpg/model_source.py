"""Model source: where the model that a gate names comes from.

A registered name, ``module:factory``, or the path of a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pytest_cpg.contracts import ComponentError, WorldModelFactory
from pytest_cpg.registry import did_you_mean
from pytest_cpg.world_models import checkpoints
from pytest_cpg.world_models.factories import made, named


def factory_of(text: str, registered: Mapping[str, WorldModelFactory]) -> WorldModelFactory:
    """Return what makes the model of this name for a task.

    Raises
    ------
    ComponentError
        When there is no such model, saying what to type instead.
    """
    if text in registered:
        return registered[text]
    path = Path(text)
    if path.suffix in checkpoints.SUFFIXES or os.sep in text or path.is_file():
        if not path.is_file():
            raise ComponentError(
                f"there is no model file {text!r}. A path is from where pytest was started "
                f"({Path.cwd()})."
            )
        return partial(checkpoints.load, path.absolute())
    if ":" in text:
        factory = named(text)
        if not callable(factory):
            raise ComponentError(
                f"{text!r} is {factory!r}, which cannot be called. Name a function that returns "
                f"the model; it may take the task."
            )
        return partial(made, factory)
    raise ComponentError(
        f"no world model named {text!r}. {did_you_mean(text, registered)} Give module:factory or "
        f"the path of a checkpoint, or return a model of this name from the "
        f"pytest_cpg_world_models hook."
    )
