"""Readers: functions that make a world model of a file that they are given as a `Checkpoint`.

What a file does not say stands in a .toml or .json file of the same name beside it. Nothing is
unpickled, and the only code that runs is a class of the user's that the side file names, and that
of a program whose digest is trusted.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Literal, TypeAlias

from pytest_cpg.contracts import Task, WorldModelError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import SeenAsPictures
from pytest_cpg.contracts.world_model import Decoder, Encoder
from pytest_cpg.machine.files import archive_members
from pytest_cpg.world_models.transitions import collect_transitions

Kind: TypeAlias = Literal["torchscript", "export"]

# Observations that a decoder is fitted on.
_SEEN = 4000
# Pictures are drawn before and after each step.
_DRAWN = 1000
SUFFIXES = (".pt", ".pth", ".ckpt", ".pt2", ".onnx", ".safetensors")
_CLASS = """\
{path!r} holds {count} tensors ({names}, ...), which are neither TD-MPC2's nor DreamerV3's. Say
which class they belong to {where}:
    class = "package.module:Network"
    arguments = {{ hidden = 64 }}  # what its constructor takes
or write --cpg-model=module:factory with a function of yours that loads it."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model file, as a reader is given it."""

    path: Path
    #: Of the side file and of whoever loads it, but for ``rate_by`` and ``planner``.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: What the model is to be asked about, where that is known.
    task: Task | None = None
    #: Digests of files that may be opened though that runs their code, as in ``--cpg-trust``.
    trusted: str = ""

    @cached_property
    def is_program(self) -> bool:
        """Whether the file is ONNX, TorchScript or a program of torch.export."""
        return self.path.suffix == ".onnx" or kind_of(self.path) is not None

    @cached_property
    def content(self) -> Any:
        """What is in the file, tensors and plain containers only; None of a program."""
        from pytest_cpg.world_models.weights import read_content

        return None if self.is_program else read_content(self.path)

    @cached_property
    def weights(self) -> dict[str, Any]:
        """Tensors by name, read without running anything of the file; empty for a program.

        Raises WorldModelError when the file holds no named tensors.
        """
        from pytest_cpg.world_models.weights import weights_in

        return {} if self.is_program else weights_in(self.content, self.path)

    def refuse_settings(self) -> None:
        """Raise WorldModelError for settings: the file says all that is needed."""
        if self.settings:
            names = ", ".join(sorted(self.settings))
            beside = "".join(f" of {side.name!r} beside it" for side in _sides(Path(self.path)))
            raise WorldModelError(
                f"{os.fspath(self.path)!r} says all that is needed. Leave {names} out{beside}."
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

    Readers are asked in their order; settings win over those of the side file; ``trusted`` are
    digests as in ``--cpg-trust``. Raises WorldModelError when the file cannot be read, or does not
    say what must be known, and ComponentError when a library is not installed that it takes.
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
    models = (reader(checkpoint) for reader in (READERS if readers is None else readers).values())
    model = next((model for model in models if model is not None), None)
    if model is None:
        weights, path = checkpoint.weights, os.fspath(file)
        where = f"in a file {file.with_suffix('.toml').name!r} beside it"
        for side in _sides(file):
            content = f"it has {', '.join(sorted(settings))}" if settings else "it is empty"
            where = f"in {side.name!r}, where class is missing ({content})"
        names = ", ".join(list(weights)[:3])
        raise WorldModelError(
            _CLASS.format(path=path, count=len(weights), names=names, where=where)
        )
    if task is not None and hasattr(model, "for_task"):
        model = model.for_task(task)
    trained = getattr(model, "trained_planner", {})
    if rate_by == "observations":
        model = _decoded(model, task)
    if planner or trained:
        # A planner of another name has other settings.
        defaults = (
            trained if planner.get("name", trained.get("name")) == trained.get("name") else {}
        )
        model.trained_planner = {**defaults, **planner}
    return model


def _decoded(model: Any, task: Task | None) -> Any:
    """Return a model whose plans the task rates, by its own decoder or one fitted here."""
    from pytest_cpg.world_models.binding.decoded import Decoded, fit_decoder

    if not has(model, Encoder):
        raise WorldModelError('rate_by = "observations" is what this model does anyway: drop it.')
    if has(model, Decoder):
        return Decoded(model)
    if task is None:
        raise WorldModelError(
            'this model has no decoder, and rate_by = "observations" fits one on observations of a '
            "task: give the task."
        )
    is_drawn = has(task, SeenAsPictures)
    seen = collect_transitions(
        task, count=_DRAWN if is_drawn else _SEEN, seed=0, with_frames=is_drawn
    )
    return Decoded(model, fit_decoder(model, seen.observations, frames=seen.frames, seed=0))


def kind_of(file: str | os.PathLike[str] | IO[bytes]) -> Kind | None:
    """Say which kind of program a file holds; None when it holds something else."""
    names = [member.filename for member in archive_members(file)]
    # The first is what torch 2.8 and later writes, the second what went before.
    if any(
        name.endswith(("models/model.json", "serialized_exported_program.json")) for name in names
    ):
        return "export"
    return "torchscript" if any("/code/" in name for name in names) else None


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
        settings = tomllib.loads(text) if sides[0].suffix == ".toml" else json.loads(text)
    # The second of brackets within brackets, thousands deep.
    except (ValueError, RecursionError) as error:
        raise WorldModelError(f"{os.fspath(sides[0])!r} cannot be read: {error}") from None
    if not isinstance(settings, dict):
        raise WorldModelError(f"{os.fspath(sides[0])!r}: need settings by name, got {settings!r}")
    return settings


def _kept_in(module: str, *suffixes: str) -> CheckpointReader:
    """Return the ``read`` of a module, for files of these suffixes alone where there are any."""

    # What a module imports need not be installed for others' files.
    def read(checkpoint: Checkpoint) -> Any:
        if suffixes and checkpoint.path.suffix not in suffixes:
            return None
        return import_module(f"pytest_cpg.world_models.{module}").read(checkpoint)

    return read


# In the order in which they are asked: what a file itself says first.
READERS: Mapping[str, CheckpointReader] = MappingProxyType(
    {
        "onnx": _kept_in("checkpoints.onnx", ".onnx"),
        "program": _kept_in("checkpoints.exported"),
        "ensemble": _kept_in("ensembles.model", ".safetensors"),
        "mlp": _kept_in("mlp"),
        "class": _kept_in("checkpoints.own_class"),
        "tdmpc2": _kept_in("checkpoints.tdmpc2"),
        "dreamer": _kept_in("checkpoints.dreamer"),
    }
)
