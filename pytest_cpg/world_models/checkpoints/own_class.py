"""Own class: a network of the user's class, whose weights are in a file and its name beside it."""

from __future__ import annotations

import os
import sys
from inspect import signature
from typing import Any

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.world_models.binding.tensors import Tensor, torch
from pytest_cpg.world_models.checkpoints.readers import Checkpoint
from pytest_cpg.world_models.checkpoints.source import named
from pytest_cpg.world_models.checkpoints.training_conditions import check_same
from pytest_cpg.world_models.weights import check

# Settings: how the class is made, and of its training what a task must meet.
_OF_CLASS = ("class", "arguments")
_CONDITIONS = ("action_repeat", "obs_keys")


def read(checkpoint: Checkpoint) -> torch.nn.Module | None:
    """Return a network of the user's own class with these weights, all of them and no others."""
    file, settings, task = checkpoint.path, checkpoint.settings, checkpoint.task
    if "class" not in settings:
        return None
    at = repr(os.fspath(file))
    for name in sorted(set(settings) - {*_OF_CLASS, *_CONDITIONS}):
        fix = did_you_mean(name, [*_OF_CLASS, *_CONDITIONS, "rate_by", "planner"])
        raise WorldModelError(
            f"{at}: its settings have {name}, which changes nothing in a network of "
            f"your own class. {fix} What its constructor takes goes into arguments."
        )
    name, arguments = settings["class"], settings.get("arguments", {})
    network: torch.nn.Module = _constructed(at, name, arguments)
    state = network.state_dict()
    for key, value in state.items():
        is_tensor = isinstance(value, Tensor)
        if not is_tensor or torch.nn.parameter.is_lazy(value):
            what = "has no shape before its first call" if is_tensor else "is no tensor"
            raise WorldModelError(
                f"{at}: {key} of {name} {what}, and only tensors of known shapes "
                f"are read from a file. Write --cpg-model=module:factory with a function of yours "
                f"that loads it."
            )
    check(
        checkpoint.weights,
        {key: tuple(value.shape) for key, value in state.items()},
        model=f"{name} with arguments {arguments}",
        version=(
            f"another version of that class, or trained with other arguments (those go into "
            f"{file.stem}.toml or .json)"
        ),
    )
    if task is not None:
        conditions = {key: settings[key] for key in _CONDITIONS if key in settings}
        check_same(conditions, task, model=f"network of {name}")
    network.load_state_dict(checkpoint.weights)
    return network.eval()


def _constructed(at: str, name: Any, arguments: Any) -> Any:
    """Return what a named class makes of arguments, or raise WorldModelError if it takes others."""
    if not isinstance(name, str):
        raise WorldModelError(
            f'{at}: class: need the path of a class, "package.module:Network", got {name!r}'
        )
    if not isinstance(arguments, dict):
        raise WorldModelError(
            f"{at}: arguments: need what the constructor takes by name, as in "
            f"{{ hidden = 64 }}, got {arguments!r}"
        )
    module = name.partition(":")[0].split(".")
    # Some of their modules do their work as they are imported, and none holds a network.
    if module[0] in sys.stdlib_module_names or "__main__" in module:
        raise WorldModelError(
            f"{at}: class = {name!r} is of Python's own modules or a program. Name "
            f"the class of the network."
        )
    kind = named(name, what="class")
    # Before it is called: what else a module offers may start programs.
    if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
        raise WorldModelError(
            f"{at}: class = {name!r} is {kind!r}, and no class of torch.nn.Module. "
            f"Name the class of the network."
        )
    try:
        taken = signature(kind)
    # Something that cannot be asked what it takes.
    except ValueError:
        return kind(**arguments)
    try:
        taken.bind(**arguments)
        # Of which a name among them would be another value.
        signature(kind.__init__).bind(None, **arguments)
    except TypeError as error:
        raise WorldModelError(
            f"{at}: arguments = {arguments!r} do not suit {name}{taken}: {error}."
        ) from None
    return kind(**arguments)
