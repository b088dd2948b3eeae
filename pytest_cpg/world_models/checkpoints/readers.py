"""Readers: functions that make a world model of a file, each of one kind of file.

What a file does not say stands in a .toml or .json file of the same name beside it. Nothing is
unpickled, and the only code that runs is a class of the user's that the side file names, and that
of a program whose digest is trusted.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

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


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model file, as a reader is given it.

    Attributes
    ----------
    path : Path
    settings : mapping
        Of the side file and of whoever loads it, but for those that hold for every file
        (``rate_by``, ``planner``).
    task : Task or None
        What the model is to be asked about, where that is known.
    trusted : str
        Digests of files that may be opened though that runs their code, as in ``--cpg-trust``.
    """

    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    task: Task | None = None
    trusted: str = ""

    @cached_property
    def is_program(self) -> bool:
        """Whether the file is ONNX, TorchScript or a program of torch.export."""
        if self.path.suffix == ".onnx":
            return True
        from pytest_cpg.world_models.checkpoints.exported import kind_of

        return bool(kind_of(self.path))

    @cached_property
    def content(self) -> Any:
        """What `torch.save` wrote, tensors and plain containers only; None of another file."""
        from pytest_cpg.world_models.checkpoints.weights import read_content

        is_of_torch = self.path.suffix != ".safetensors" and not self.is_program
        return read_content(self.path) if is_of_torch else None

    @cached_property
    def weights(self) -> dict[str, Any]:
        """Tensors by name, read without running anything of the file; empty for a program.

        Raises WorldModelError when the file holds no named tensors.
        """
        from pytest_cpg.world_models.checkpoints.weights import read_weights, weights_in

        if self.is_program:
            return {}
        if self.content is None:
            return read_weights(self.path)
        return weights_in(self.content, self.path)

    def refuse_settings(self) -> None:
        """Raise WorldModelError for settings: the file says all that is needed."""
        if self.settings:
            raise WorldModelError(
                f"{os.fspath(self.path)!r} says all that is needed, and "
                f"{', '.join(sorted(self.settings))} would change nothing. Leave that out."
            )


# Returns the model in a file; None where it holds something else than this one reads.
CheckpointReader: TypeAlias = Callable[[Checkpoint], Any]


def load(
    path: str | os.PathLike[str],
    task: Task | None = None,
    *,
    trusted: str = "",
    readers: Mapping[str, CheckpointReader] | None = None,
    **settings: Any,
) -> Any:
    """Return the world model in a file, checked against a task where one is given.

    Raises WorldModelError when the file cannot be read, or does not say what must be known. Raises
    ComponentError when a library is not installed that it takes.

    Parameters
    ----------
    trusted : str
        Digests of files that may run code of their own, as in ``--cpg-trust``.
    readers : mapping, optional
        Asked in this order, in place of `READERS`.
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
    checkpoint = Checkpoint(path=file, settings=settings, task=task, trusted=trusted)
    model = _read(checkpoint, READERS if readers is None else readers)
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


def _read(checkpoint: Checkpoint, readers: Mapping[str, CheckpointReader]) -> Any:
    """Return the model that the first reader makes of a file, or raise WorldModelError."""
    models = (reader(checkpoint) for reader in readers.values())
    model = next((model for model in models if model is not None), None)
    if model is not None:
        return model
    weights = checkpoint.weights
    raise WorldModelError(
        _CLASS.format(
            path=os.fspath(checkpoint.path),
            count=len(weights),
            names=", ".join(list(weights)[:3]),
            where=_where_to_say(checkpoint.path, checkpoint.settings),
        )
    )


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


def _onnx(checkpoint: Checkpoint) -> Any:
    if checkpoint.path.suffix != ".onnx":
        return None
    checkpoint.refuse_settings()
    from pytest_cpg.world_models.checkpoints.onnx import OnnxDynamics

    return OnnxDynamics.load(checkpoint.path)


def _program(checkpoint: Checkpoint) -> Any:
    if not checkpoint.is_program:
        return None
    checkpoint.refuse_settings()
    from pytest_cpg.world_models.checkpoints.exported import Program

    return Program.load(checkpoint.path, trusted=checkpoint.trusted)


def _ensemble(checkpoint: Checkpoint) -> Any:
    if checkpoint.path.suffix != ".safetensors":
        return None
    from pytest_cpg.world_models.ensembles.model import EnsembleNetwork, is_ensemble

    if not is_ensemble(checkpoint.path):
        return None
    checkpoint.refuse_settings()
    return EnsembleNetwork.load(checkpoint.path)


def _mlp(checkpoint: Checkpoint) -> Any:
    from pytest_cpg.world_models.mlp import FORMAT, MLP

    content = checkpoint.content
    if not (isinstance(content, dict) and content.get("format") == FORMAT):
        return None
    checkpoint.refuse_settings()
    return MLP.load(checkpoint.path)


def _tdmpc2(checkpoint: Checkpoint) -> Any:
    from pytest_cpg.world_models.checkpoints import tdmpc2
    from pytest_cpg.world_models.checkpoints.tdmpc2_layout import is_tdmpc2

    if not is_tdmpc2(checkpoint.weights):
        return None
    return _of_known_layout(checkpoint, tdmpc2.TDMPC2, tdmpc2.NEEDED, tdmpc2.OTHERS)


def _dreamer(checkpoint: Checkpoint) -> Any:
    from pytest_cpg.world_models.checkpoints import dreamer
    from pytest_cpg.world_models.checkpoints.dreamer_layout import is_dreamer

    if not is_dreamer(checkpoint.weights):
        return None
    return _of_known_layout(checkpoint, dreamer.DreamerV3, dreamer.NEEDED, dreamer.OTHERS)


def _of_known_layout(
    checkpoint: Checkpoint, kind: Any, needed: Mapping[str, str], others: Mapping[str, str]
) -> Any:
    """Return a network of official weights, whose settings are named if any is missing."""
    from pytest_cpg.world_models.checkpoints.training_conditions import (
        check_known,
        examples_of,
        require,
    )

    settings, names = checkpoint.settings, [*needed, *others]
    check_known(settings, [*names, "rate_by", "planner"], model=kind.__name__)
    if checkpoint.task is not None:
        own = {name: settings[name] for name in names if name in settings}
        require(own, examples_of(checkpoint.task, needed), others, model=kind.__name__)
    return kind.of(checkpoint.weights, **settings)


def _of_class(checkpoint: Checkpoint) -> Any:
    """Return a network of the user's own class with these weights, all of them and no others."""
    from pytest_cpg.world_models.checkpoints.training_conditions import check_same
    from pytest_cpg.world_models.checkpoints.weights import check

    file, settings, task = checkpoint.path, checkpoint.settings, checkpoint.task
    if "class" not in settings:
        return None
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
        checkpoint.weights,
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
    network.load_state_dict(checkpoint.weights)
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


def _where_to_say(file: Path, settings: Mapping[str, Any]) -> str:
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


# In the order in which they are asked: what a file itself says first.
READERS: Mapping[str, CheckpointReader] = MappingProxyType(
    {
        "onnx": _onnx,
        "program": _program,
        "ensemble": _ensemble,
        "mlp": _mlp,
        "class": _of_class,
        "tdmpc2": _tdmpc2,
        "dreamer": _dreamer,
    }
)
