"""Kinds: which kind of model a file holds, and the world model made of it.

What a file does not say stands in a .toml or .json file of the same name beside it. Nothing is
unpickled, and the only code that runs is a class of the user's that the side file names, and that
of a program whose digest is trusted.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import Task, WorldModelError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Decoder, Encoder

# Observations that a decoder is fitted on.
_SEEN = 4000
SUFFIXES = (".pt", ".pth", ".ckpt", ".pt2", ".onnx", ".safetensors")
# Settings of a class of the user's own: how it is made, and of its training what a task must meet.
_OF_CLASS = ("class", "arguments")
_CONDITIONS = ("action_repeat", "obs_keys")
_CLASS = """\
{path!r} holds {count} tensors ({names}, ...), which are neither TD-MPC2's nor DreamerV3's. Say
which class they belong to {where}:
    class = "package.module:Network"
    arguments = {{ hidden = 64 }}  # what its constructor takes
or write --cpg-model=module:factory with a function of yours that loads it."""


def load(
    path: str | os.PathLike[str], task: Task | None = None, *, trusted: str = "", **settings: Any
) -> Any:
    """Return the world model in a file, checked against a task where one is given.

    Raises WorldModelError when the file cannot be read, or does not say what must be known. Raises
    ComponentError when a library is not installed that it takes.

    Parameters
    ----------
    trusted : str
        Digests of files that may run code of their own, as in ``--cpg-trust``.
    **settings
        Win over those of the side file.
    """
    file = Path(path)
    if not file.is_file():
        raise WorldModelError(f"there is no model file {os.fspath(path)!r}.")
    settings = {**_side_settings(file), **settings}
    rate_by = settings.pop("rate_by", "reward")
    if rate_by not in ("reward", "observations"):
        raise WorldModelError(f'rate_by: need "reward" or "observations", got {rate_by!r}')
    planner = settings.pop("planner", {})
    if not isinstance(planner, dict):
        raise WorldModelError(
            f'planner: got {planner!r}. Write planner = {{ name = "icem", horizon = 20 }}'
        )
    model = _opened(file, settings, task, trusted)
    if task is not None and hasattr(model, "for_task"):
        model = model.for_task(task)
    own = getattr(model, "trained_planner", {})
    if rate_by == "observations":
        model = _decoded(model, task)
    if planner or own:
        # A planner of another name has other settings.
        known = own if planner.get("name", own.get("name")) == own.get("name") else {}
        model.trained_planner = {**known, **planner}
    return model


def _decoded(model: Any, task: Task | None) -> Any:
    """Return a model whose plans the task rates, by its own decoder or one fitted here."""
    from pytest_cpg.world_models.binding.decoded import Decoded, fit_decoder
    from pytest_cpg.world_models.transitions import collect_transitions

    if not has(model, Encoder):
        raise WorldModelError('rate_by = "observations" is what this model does anyway: drop it.')
    if has(model, Decoder):
        return Decoded(model)
    if task is None:
        raise WorldModelError(
            'this model has no decoder, and rate_by = "observations" fits one on observations of a '
            "task: give the task."
        )
    seen = collect_transitions(task, count=_SEEN, seed=0).observations
    return Decoded(model, fit_decoder(model, seen, seed=0))


def _opened(file: Path, settings: dict[str, Any], task: Task | None, trusted: str) -> Any:
    if file.suffix == ".onnx":
        _refuse(file, settings)
        from pytest_cpg.world_models.checkpoints.onnx import OnnxDynamics

        return OnnxDynamics.load(file)
    from pytest_cpg.world_models.checkpoints import exported

    if exported.kind_of(file):
        _refuse(file, settings)
        return exported.Program.load(file, trusted=trusted)
    return _of_weights(file, settings, task)


def _of_weights(file: Path, settings: dict[str, Any], task: Task | None) -> Any:
    """Return the network whose weights a file holds."""
    from pytest_cpg.world_models.checkpoints import dreamer, tdmpc2
    from pytest_cpg.world_models.checkpoints.dreamer_layout import is_dreamer
    from pytest_cpg.world_models.checkpoints.tdmpc2_layout import is_tdmpc2
    from pytest_cpg.world_models.checkpoints.training_conditions import (
        check_known,
        examples_of,
        require,
    )
    from pytest_cpg.world_models.checkpoints.weights import read_content, read_weights, weights_in
    from pytest_cpg.world_models.mlp import FORMAT, MLP

    if file.suffix == ".safetensors":
        from pytest_cpg.world_models.ensembles.model import EnsembleNetwork, is_ensemble

        if is_ensemble(file):
            _refuse(file, settings)
            return EnsembleNetwork.load(file)
        weights = read_weights(file)
    else:
        content = read_content(file)
        if isinstance(content, dict) and content.get("format") == FORMAT:
            _refuse(file, settings)
            return MLP.load(file)
        weights = weights_in(content, file)
    if "class" in settings:
        return _of_class(file, settings, weights, task)
    for module, kind, is_kind in (
        (tdmpc2, tdmpc2.TDMPC2, is_tdmpc2),
        (dreamer, dreamer.DreamerV3, is_dreamer),
    ):
        if is_kind(weights):
            known = [*module.NEEDED, *module.OTHERS, "rate_by", "planner"]
            check_known(settings, known, model=kind.__name__)
            if task is not None:
                own = {name: settings[name] for name in known[:-2] if name in settings}
                needed = examples_of(task, module.NEEDED)
                require(own, needed, module.OTHERS, model=kind.__name__)
            return kind.of(weights, **settings)
    raise WorldModelError(
        _CLASS.format(
            path=os.fspath(file),
            count=len(weights),
            names=", ".join(list(weights)[:3]),
            where=_where_to_say(file, settings),
        )
    )


def _of_class(file: Path, settings: dict[str, Any], weights: Any, task: Task | None) -> Any:
    """Return a network of the user's own class with these weights, all of them and no others."""
    from pytest_cpg.world_models.checkpoints.training_conditions import check_same
    from pytest_cpg.world_models.checkpoints.weights import check

    for one in sorted(set(settings) - {*_OF_CLASS, *_CONDITIONS}):
        fix = did_you_mean(one, [*_OF_CLASS, *_CONDITIONS, "rate_by", "planner"])
        raise WorldModelError(
            f"{os.fspath(file)!r}: its settings have {one}, which changes nothing in a network of "
            f"your own class. {fix} What its constructor takes goes into arguments."
        )
    name, arguments = settings["class"], settings.get("arguments", {})
    network = _constructed(file, name, arguments)
    state = network.state_dict()
    _check_has_shapes(file, name, state)
    check(
        weights,
        {key: tuple(value.shape) for key, value in state.items()},
        model=f"{name} with arguments {arguments}",
        version=(
            f"another version of that class, or trained with other arguments (those go into "
            f"{file.stem}.toml or .json)"
        ),
    )
    if task is not None:
        given = {key: settings[key] for key in _CONDITIONS if key in settings}
        check_same(given, task, model=f"network of {name}")
    network.load_state_dict(weights)
    return network.eval()


def _check_has_shapes(file: Path, name: str, state: Mapping[str, Any]) -> None:
    """Raise WorldModelError for a network that weights in a file cannot be checked against."""
    from torch.nn.parameter import is_lazy

    from pytest_cpg.world_models.binding.tensors import Tensor

    for key, value in state.items():
        is_tensor = isinstance(value, Tensor)
        if is_tensor and not is_lazy(value):
            continue
        what = "has no shape before its first call" if is_tensor else "is no tensor"
        raise WorldModelError(
            f"{os.fspath(file)!r}: {key} of {name} {what}, and only tensors of known shapes are "
            f"read from a file. Write --cpg-model=module:factory with a function of yours that "
            f"loads it."
        )


def _constructed(file: Path, name: Any, arguments: Any) -> Any:
    """Return what a named class makes of arguments, or raise WorldModelError if it takes others."""
    from pytest_cpg.world_models.binding.tensors import torch
    from pytest_cpg.world_models.checkpoints.factories import named

    if not isinstance(name, str):
        raise WorldModelError(
            f"{os.fspath(file)!r}: class: need the path of a class, "
            f'"package.module:Network", got {name!r}'
        )
    if not isinstance(arguments, dict):
        raise WorldModelError(
            f"{os.fspath(file)!r}: arguments: need what the constructor takes by name, as in "
            f"{{ hidden = 64 }}, got {arguments!r}"
        )
    module = name.partition(":")[0].split(".")
    # Some of their modules do their work as they are imported, and none holds a network.
    if module[0] in sys.stdlib_module_names or "__main__" in module:
        raise WorldModelError(
            f"{os.fspath(file)!r}: class = {name!r} is of Python's own modules or a program. Name "
            f"the class of the network."
        )
    kind = named(name, what="class")
    # Before it is called: what else a module offers may start programs.
    if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
        raise WorldModelError(
            f"{os.fspath(file)!r}: class = {name!r} is {kind!r}, and no class of torch.nn.Module. "
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
            f"{os.fspath(file)!r}: arguments = {arguments!r} do not suit {name}{taken}: {error}."
        ) from None
    return kind(**arguments)


def _where_to_say(file: Path, settings: dict[str, Any]) -> str:
    """Return where the class is to be named: in the side file, if there is one."""
    for side in _sides(file):
        found = f"it has {', '.join(sorted(settings))}" if settings else "it is empty"
        return f"in {side.name!r}, where class is missing ({found})"
    return f"in a file {file.with_suffix('.toml').name!r} beside it"


def _sides(file: Path) -> list[Path]:
    """Return the side files there are."""
    return [side for suffix in (".toml", ".json") if (side := file.with_suffix(suffix)).is_file()]


def _side_settings(file: Path) -> dict[str, Any]:
    """Return what the side file says; nothing where there is none."""
    sides = _sides(file)
    if len(sides) > 1:
        raise WorldModelError(
            f"{os.fspath(file)!r} has two side files, {sides[0].name} and {sides[1].name}. "
            f"Keep one."
        )
    if not sides:
        return {}
    try:
        text = sides[0].read_text(encoding="utf-8")
        said = tomllib.loads(text) if sides[0].suffix == ".toml" else json.loads(text)
    # The second of brackets within brackets, thousands deep.
    except (ValueError, RecursionError) as error:
        raise WorldModelError(f"{os.fspath(sides[0])!r} cannot be read: {error}") from None
    if not isinstance(said, dict):
        raise WorldModelError(f"{os.fspath(sides[0])!r}: need settings by name, got {said!r}")
    return said


def _refuse(file: Path, settings: dict[str, Any]) -> None:
    """Raise WorldModelError for settings that this kind of file has no use for."""
    if settings:
        raise WorldModelError(
            f"{os.fspath(file)!r} says all that is needed, and {', '.join(sorted(settings))} would "
            f"change nothing. Leave that out."
        )
