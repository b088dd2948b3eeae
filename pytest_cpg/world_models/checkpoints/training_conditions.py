"""Training conditions: what weights do not say of their training, and a task must meet."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from pytest_cpg.contracts import Task, WorldModelError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import ActionRepeat, ObservationKeys
from pytest_cpg.world_models.binding.tensors import Tensor
from pytest_cpg.world_models.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under what a model was trained.

    Attributes
    ----------
    obs_keys : tuple of str
        Names of the observations, in the order in which the network reads them.
    action_repeat : int
        Control steps that one action was held for.
    action_low, action_high : float
        Bounds of every action in the units of training.
    """

    obs_keys: tuple[str, ...]
    action_repeat: int
    action_low: float = -1.0
    action_high: float = 1.0

    def __post_init__(self) -> None:
        repeat = self.action_repeat
        if isinstance(repeat, bool) or not isinstance(repeat, int | np.integer) or repeat < 1:
            raise WorldModelError(
                f"action_repeat: need the control steps that an action was held for, 1 or more, "
                f"got {repeat!r}"
            )

    def scaled(self, actions: Tensor) -> Tensor:
        """Return actions [..., A] on the scale from -1 to 1."""
        low, high = self.action_low, self.action_high
        return (actions - low) * (2 / (high - low)) - 1

    def unscaled(self, actions: Tensor) -> Tensor:
        """Return actions [..., A] from -1 to 1 in the units of training."""
        low, high = self.action_low, self.action_high
        return low + (actions + 1) * ((high - low) / 2)

    def order(self, task: Task, *, model: str, sizes: tuple[int, int]) -> tuple[int, ...]:
        """Return which column of the task's observations each of the network's inputs is, [O].

        Raises WorldModelError when the model was trained on something else than this task offers.

        Parameters
        ----------
        sizes : (int, int)
            Numbers in one observation and in one action of the network.
        """
        of_task = (task.observation_size, task.actions.size)
        if of_task != sizes:
            raise WorldModelError(
                f"this {model} reads observations of size {sizes[0]} and actions of size "
                f"{sizes[1]}, and {task.name!r} has sizes {of_task[0]} and {of_task[1]}: it was "
                f"trained on another task."
            )
        _check_repeat(self.action_repeat, task, model)
        self._check_actions(task, model)
        # A task that names its observations lets their order be checked.
        offered = _keys_of(task)
        return self._columns(offered, task, model) if offered else tuple(range(of_task[0]))

    def _check_actions(self, task: Task, model: str) -> None:
        low, high = task.actions.low, task.actions.high
        if (low < self.action_low).any() or (high > self.action_high).any():
            raise WorldModelError(
                f"this {model} was trained on actions from {self.action_low:g} to "
                f"{self.action_high:g}, and those of {task.name!r} go from {low.min():g} to "
                f"{high.max():g}. Give action_low= and action_high= as they were in training."
            )

    def _columns(self, offered: Mapping[str, int], task: Task, model: str) -> tuple[int, ...]:
        if sorted(offered) != sorted(self.obs_keys):
            raise WorldModelError(
                f"this {model} reads obs_keys={list(self.obs_keys)}, and {task.name!r} observes "
                f"{list(offered)}. Name them as the task does, in the order of training."
            )
        ends = np.cumsum(list(offered.values()))
        at = {
            name: range(end - size, end)
            for (name, size), end in zip(offered.items(), ends.tolist(), strict=True)
        }
        return tuple(column for name in self.obs_keys for column in at[name])


def check_same(settings: Mapping[str, Any], task: Task, *, model: str) -> None:
    """Raise WorldModelError unless a task is as a network reads it that reorders nothing.

    Parameters
    ----------
    settings : mapping
        The ``action_repeat`` and ``obs_keys`` of training, as far as they are known.
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


def _keys_of(task: Task) -> Mapping[str, int]:
    return task.observation_keys if has(task, ObservationKeys) else {}


def _check_repeat(trained: Any, task: Task, model: str) -> None:
    repeat = task.action_repeat if has(task, ActionRepeat) else 1
    if repeat != trained:
        raise WorldModelError(
            f"this {model} was trained with action_repeat={trained!r}, and {task.name!r} holds an "
            f"action for {repeat}. Gate it on a task that holds each action as long as training "
            f"did."
        )


def check_known(settings: Iterable[str], known: Iterable[str], *, model: str) -> None:
    """Raise WorldModelError for a setting that changes nothing in a model."""
    known = list(known)
    for name in settings:
        if name not in known:
            raise WorldModelError(f"{model} has no setting {name}. {did_you_mean(name, known)}")


def require(
    settings: Mapping[str, Any], needed: Mapping[str, str], others: Mapping[str, str], *, model: str
) -> None:
    """Raise WorldModelError unless all needed settings are given, and all that are given suit.

    Parameters
    ----------
    needed, others : mapping
        What to type for each setting, by its name; that of others is known without.
    """
    check_known(settings, [*needed, *others], model=model)
    for name, value in settings.items():
        example = needed.get(name) or others[name]
        if value is not None and not _suits(value, tomllib.loads(f"example = {example}")):
            raise WorldModelError(f"{name}: got {value!r}. Write {name} = {example}")
    missing = [name for name in needed if settings.get(name) is None]
    if missing:
        lines = "\n".join(f"    {name} = {needed[name]}" for name in missing)
        raise WorldModelError(
            f"the weights of a {model} do not say {', '.join(missing)}. Write a .toml file of the "
            f"same name beside them, for example\n{lines}\nor give them to "
            f"{model}.load(path, {missing[0]}=...)."
        )


def official(
    checkpoint: Checkpoint, kind: Any, needed: Mapping[str, str], others: Mapping[str, str]
) -> Any:
    """Return a network of official weights, whose settings are named if any is missing."""
    settings, names = checkpoint.settings, [*needed, *others]
    check_known(settings, [*names, "rate_by", "planner"], model=kind.__name__)
    if checkpoint.task is not None:
        read = {name: settings[name] for name in names if name in settings}
        require(read, _examples_of(checkpoint.task, needed), others, model=kind.__name__)
    return kind.of(checkpoint.weights, **settings)


def _examples_of(task: Task, needed: Mapping[str, str]) -> dict[str, str]:
    """Return what to type for each setting that is needed, as far as this task says it."""
    keys = json.dumps([*_keys_of(task)])
    example = f"{keys}  # of {task.name}; in the order of training"
    return {**needed, **({"obs_keys": example} if keys != "[]" and "obs_keys" in needed else {})}


def _suits(value: Any, said: Mapping[str, Any]) -> bool:
    """Say whether a setting is of the kind of its example."""
    example = said["example"]
    if isinstance(example, list):
        names = [value] if isinstance(value, str) else value
        # A task's own `observation_keys` are a mapping, in their order.
        is_list = isinstance(names, Sequence | Mapping)
        return is_list and all(isinstance(name, str) for name in names)
    kind = Integral if isinstance(example, int) else Real
    return isinstance(value, kind) and not isinstance(value, bool)


def keys_of(given: Sequence[str] | str) -> tuple[str, ...]:
    """Return names of observations; one alone may be given as it is."""
    return (given,) if isinstance(given, str) else tuple(given)
