"""Training conditions: what weights do not say of their training, and a task must meet."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from pytest_cpg.contracts import Task, WorldModelError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import ActionRepeat, ObservationKeys, SeenAsPictures
from pytest_cpg.world_models.binding.tensors import Tensor, torch
from pytest_cpg.world_models.weights import Weights, read_weights

# What to type for the bounds of every official model's actions.
ACTION_BOUNDS = {
    "action_low": "-1.0  # least of every action, in the units of training",
    "action_high": "1.0  # largest of every action, in the units of training",
}


class Official(torch.nn.Module):
    """A network on state observations, or on pictures, that was trained by others' code."""

    # What to type for each setting, by its name; that of others is known without.
    NEEDED: ClassVar[Mapping[str, str]]
    OTHERS: ClassVar[Mapping[str, str]]
    # Which of the task's observations each input of the network is.
    columns: Tensor
    observation_size: int
    action_size: int
    #: Of pictures that it reads: how many frames, and pixels of a side.
    picture: tuple[int, int] | None = None

    def __init__(
        self,
        *,
        obs_keys: Sequence[str] | str,
        action_repeat: int,
        action_low: float,
        action_high: float,
    ) -> None:
        super().__init__()
        if isinstance(action_repeat, bool) or action_repeat < 1:
            raise WorldModelError(
                f"action_repeat: need the control steps that an action was held for, 1 or more, "
                f"got {action_repeat!r}"
            )
        self.obs_keys, self.action_repeat = keys_of(obs_keys), action_repeat
        self.action_low, self.action_high = action_low, action_high

    @classmethod
    def load(cls, path: str | os.PathLike[str], **settings: Any) -> Self:
        """Read an official checkpoint; settings are the other parameters of the class.

        Raises WorldModelError, naming settings that are missing, and keys and shapes that are not
        those of the official code.
        """
        return cls.of(read_weights(path), **settings)

    @classmethod
    def of(cls, weights: Weights, *, task: Task | None = None, **settings: Any) -> Self:
        """Return a network of weights that are read already; settings as for `load`."""
        needed = cls.needed(weights)
        examples, model = {**needed, **cls.OTHERS}, cls.__name__
        keys = _keys_of(task)
        if keys and "obs_keys" in needed:
            of_task = f"# of {task.name}; in the order of training"  # type: ignore[union-attr]
            examples["obs_keys"] = f"{json.dumps([*keys])}  {of_task}"
        for name, value in settings.items():
            if name not in examples:
                others = {"rate_by", "planner"} - {name}
                fix = did_you_mean(name, [*examples, *others])
                raise WorldModelError(f"{model} has no setting {name}. {fix}")
            if value is not None and not _suits(value, examples[name]):
                raise WorldModelError(f"{name}: got {value!r}. Write {name} = {examples[name]}")
        missing = [name for name in needed if settings.get(name) is None]
        if missing:
            lines = "\n".join(f"    {name} = {examples[name]}" for name in missing)
            raise WorldModelError(
                f"the weights of a {model} do not say {', '.join(missing)}. Write a .toml file of "
                f"the same name beside them, for example\n{lines}\nor give them to "
                f"{model}.load(path, {missing[0]}=...)."
            )
        make: Any = cls
        network: Self = make(weights, **settings)
        return network

    @classmethod
    def needed(cls, weights: Weights) -> Mapping[str, str]:
        """Return what to type for each setting that these weights need."""
        del weights
        return cls.NEEDED

    def for_task(self, task: Task) -> Self:
        """Return this model, reading the task's observations in its own order.

        Raises WorldModelError when it was trained on something else than this task offers.
        """
        model, sizes = type(self).__name__, (self.observation_size, self.action_size)
        self._check_pictures(task)
        of_task = (sizes[0] if self.picture else task.observation_size, task.actions.size)
        if of_task != sizes:
            raise WorldModelError(
                f"this {model} reads observations of size {sizes[0]} and actions of size "
                f"{sizes[1]}, and {task.name!r} has sizes {of_task[0]} and {of_task[1]}: it was "
                f"trained on another task."
            )
        _check_repeat(self.action_repeat, task, model)
        low, high = task.actions.low, task.actions.high
        if (low < self.action_low).any() or (high > self.action_high).any():
            raise WorldModelError(
                f"this {model} was trained on actions from {self.action_low:g} to "
                f"{self.action_high:g}, and those of {task.name!r} go from {low.min():g} to "
                f"{high.max():g}. Give action_low= and action_high= as they were in training."
            )
        if self.picture:
            return self
        # A task that names its observations lets their order be checked.
        offered = _keys_of(task)
        if offered and sorted(offered) != sorted(self.obs_keys):
            raise WorldModelError(
                f"this {model} reads obs_keys={list(self.obs_keys)}, and {task.name!r} observes "
                f"{list(offered)}. Name them as the task does, in the order of training."
            )
        ends = dict(zip(offered, np.cumsum([*offered.values()]).tolist(), strict=True))
        columns = [
            n for k in self.obs_keys if offered for n in range(ends[k] - offered[k], ends[k])
        ]
        self.columns.copy_(torch.tensor(columns or range(sizes[0])))
        return self

    def _check_pictures(self, task: Task) -> None:
        """Raise WorldModelError unless a task is seen as the pictures that this network reads."""
        shape = task.picture_shape if has(task, SeenAsPictures) else None
        wanted = None if self.picture is None else (self.picture[0], *2 * self.picture[1:], 3)
        if shape == wanted:
            return
        model, of_task = type(self).__name__, f"{task.name!r} is seen as {shape}"
        if self.picture is None:
            raise WorldModelError(
                f"this {model} reads numbers, and {of_task}: frames, rows, columns and colours. "
                f"Leave observe= out of the marker."
            )
        stack, size = self.picture
        other = of_task if shape else f"{task.name!r} observes {task.observation_size} numbers"
        raise WorldModelError(
            f"this {model} reads {stack} frames of {size} x {size} pixels, and {other}. Write "
            f'observe={{"size": {size}, "stack": {stack}}} in the marker, and no goals=.'
        )

    def scaled(self, actions: Tensor) -> Tensor:
        """Return actions [..., A] on the scale from -1 to 1."""
        low, high = self.action_low, self.action_high
        return (actions - low) * (2 / (high - low)) - 1

    def unscaled(self, actions: Tensor) -> Tensor:
        """Return actions [..., A] from -1 to 1 in the units of training."""
        low, high = self.action_low, self.action_high
        return low + (actions + 1) * ((high - low) / 2)


def check_same(settings: Mapping[str, Any], task: Task, *, model: str) -> None:
    """Raise WorldModelError unless a task is as a network reads it that reorders nothing.

    Settings may have the ``action_repeat`` and ``obs_keys`` of training.
    """
    if "action_repeat" in settings:
        _check_repeat(settings["action_repeat"], task, model)
    if "obs_keys" not in settings:
        return
    offered, stated = list(_keys_of(task)), settings["obs_keys"]
    if not offered:
        raise WorldModelError(
            f"this {model} says obs_keys, and {task.name!r} has no names of observations to check "
            f"them with. Leave obs_keys out."
        )
    keys = list(keys_of(stated)) if isinstance(stated, (str, list, tuple)) else stated
    if keys != offered:
        raise WorldModelError(
            f"this {model} reads obs_keys={stated!r}, and {task.name!r} observes {offered}, in "
            f"that order. Give the network these, or reorder them by a factory of yours: "
            f"--cpg-model=module:factory."
        )


def _keys_of(task: Task | None) -> Mapping[str, int]:
    return task.observation_keys if has(task, ObservationKeys) else {}


def _check_repeat(trained: Any, task: Task, model: str) -> None:
    repeat = task.action_repeat if has(task, ActionRepeat) else 1
    if repeat != trained:
        raise WorldModelError(
            f"this {model} was trained with action_repeat={trained!r}, and {task.name!r} holds an "
            f"action for {repeat}. Gate it on a task that holds each action as long as training "
            f"did."
        )


def _suits(value: Any, toml: str) -> bool:
    """Say whether a setting is of the kind of its example."""
    example = tomllib.loads(f"example = {toml}")["example"]
    if isinstance(example, list):
        # A task's own `observation_keys` are a mapping, in their order.
        names = [value] if isinstance(value, str) else value
        return isinstance(names, Sequence | Mapping) and all(isinstance(n, str) for n in names)
    kind = Integral if isinstance(example, int) else Real
    return isinstance(value, kind) and not isinstance(value, bool)


def keys_of(given: Sequence[str] | str) -> tuple[str, ...]:
    """Return names of observations; one alone may be given as it is."""
    return (given,) if isinstance(given, str) else tuple(given)


def linear_of(weights: Weights) -> torch.nn.Linear:
    """Return the linear layer of a weight and a bias."""
    weight = weights["weight"]
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    linear.load_state_dict(weights)
    return linear
