"""Blocks: consecutive episodes of an arm, and what a worker needs to run them."""

from __future__ import annotations

import os
import pickle
import threading
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import check_unchanged, imagined
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.episodes.stored_arm import StoredArm
from pytest_cpg.machine.parcels import Parcel, dump, load
from pytest_cpg.machine.processors import SHARERS
from pytest_cpg.world_models import BoundModel, bind, inference, learned_of
from pytest_cpg.world_models.binding.conventions import describe
from pytest_cpg.world_models.binding.fingerprint import fingerprint, source_of

T = TypeVar("T")

# Tasks and models that a worker keeps, and arms: those of a gate, and some of the one before.
_MOST_LOADED = 6

_OTHER_ANSWER = (
    "the model answers otherwise in a worker than in this process. Keep all that it depends on in "
    "the model itself, and run it on machines that compute alike."
)
_OTHER_CONTENT = (
    "task, planner or model are not in a worker what they are in this process: they read values "
    "that are set when pytest starts, or the workers still have the code of before. Keep such "
    "values in the objects themselves, and restart the workers of a cluster when code has changed."
)


class Workload(NamedTuple):
    """A model and the design of its arm, as workers get them.

    Attributes
    ----------
    parts : tuple of Parcel
        The task and the model, which other arms and gates may have, too. Each is sent to a worker
        that does not have it.
    whole : Parcel
        All that is run, with references to these.
    """

    parts: tuple[Parcel, ...]
    whole: Parcel

    @classmethod
    def of(
        cls,
        design: Design,
        model: Any,
        bound: BoundModel,
        probe: tuple[FloatArray, FloatArray],
    ) -> Workload:
        """Return a model with what it answers to a probe in this process, where it is bound.

        Raises ComponentError when it cannot be sent.
        """
        learned = learned_of(model)
        names = f"the task {design.task.name!r}", describe(learned)
        known: list[tuple[object, Parcel]] = []
        for part, name in zip((design.task, learned), names, strict=True):
            known.append((part, dump(part, name, known)))
        content = _content_of(design, model)
        brings_planner = bound.planner is not None
        values = (design, model, brings_planner, probe, imagined(bound, probe), content)
        whole = dump(values, f"the planner {design.planner.name!r}", known)
        return cls(tuple(parcel for _, parcel in known), whole)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the parts, and of the whole."""
        return tuple(parcel.key for parcel in (*self.parts, self.whole))


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Consecutive episodes of one arm.

    Attributes
    ----------
    sharers : int
        Workers that share the processors of one machine.
    sender : int
        The process that wants it: what runs in its threads leaves its environment alone.
    filters : list
        Of warnings, while it is run: what is an error there is one here.
    """

    name: str
    starts: Starts
    sharers: int
    sender: int
    filters: list[Any]

    def __str__(self) -> str:
        episodes = self.starts.episodes
        return f"{self.name} arm, episodes {episodes[0]} to {episodes[-1]}"


def run_block(keys: tuple[str, ...], parcels: tuple[Parcel, ...], block: Block) -> StoredArm | None:
    """Run a block of episodes in a worker; None if it needs more of what ``keys`` stand for.

    Raises what `ArmRun.advance` does, in a form that survives being sent.
    """
    try:
        # One at a time: dask has several threads in a process, and torch one state for all.
        with _LOCK, _warned_by(block.filters):
            if keys[-1] not in _LOADED:
                if block.sender != os.getpid():
                    os.environ[SHARERS] = str(block.sharers)
                parts = _parts(keys[:-1], parcels)
                whole = next((parcel for parcel in parcels if parcel.key == keys[-1]), None)
                if parts is None or whole is None:
                    return None
                _keep(_LOADED, keys[-1], _Loaded(*load(whole, parts)))
            _LOADED.move_to_end(keys[-1])
            return _LOADED[keys[-1]].run(block)
    # What a model raises may be of any kind, and of one that cannot be sent.
    except Exception as error:
        if _can_be_sent(error):
            raise
        lost = WorldModelError(f"{type(error).__name__}: {error}")
        lost.add_note("".join(traceback.format_exception(error)))
        raise lost from None


def _parts(keys: tuple[str, ...], parcels: tuple[Parcel, ...]) -> list[Any] | None:
    """Return what keys stand for, known here or just sent; None if one is neither."""
    given = {parcel.key: parcel for parcel in parcels}
    parts: list[Any] = []
    for key in keys:
        if key not in _PARTS:
            if key not in given:
                return None
            _keep(_PARTS, key, load(given[key], parts))
        _PARTS.move_to_end(key)
        parts.append(_PARTS[key])
    return parts


def _keep(kept: OrderedDict[str, T], key: str, value: T) -> None:
    """Keep what was used last."""
    kept[key] = value
    while len(kept) > _MOST_LOADED:
        kept.popitem(last=False)


class _Loaded:
    """A model in a worker, bound to its task."""

    def __init__(
        self,
        design: Design,
        model: Any,
        brings_planner: bool,
        probe: tuple[FloatArray, FloatArray],
        answer: FloatArray,
        content: tuple[str, str],
    ) -> None:
        self._design, self._model = design, model
        self._probe, self._answer = probe, answer
        found = _content_of(design, model)
        # The code of what no module knows, such as a lambda, was sent with it; its file was not.
        if found[0] != content[0] or found[1] not in ("", content[1]):
            raise WorldModelError(_OTHER_CONTENT)
        states, actions = probe
        with inference(learned_of(model)):
            bound = bind(model, design.task, probe_states=states, probe_actions=actions)
            # What stands for the truth is planned as the gate plans, whatever it brings.
            self._bound = bound if brings_planner else replace(bound, planner=None)
            if not np.array_equal(imagined(self._bound, probe), answer, equal_nan=True):
                raise WorldModelError(_OTHER_ANSWER)

    def run(self, block: Block) -> StoredArm | None:
        with inference(learned_of(self._model)):
            run = ArmRun(block.name, self._design, self._bound, block.starts)
            run.advance(len(block.starts.episodes))
            check_unchanged(
                f"the {block.name} model", self._answer, imagined(self._bound, self._probe)
            )
        return run.finished


_LOADED: OrderedDict[str, _Loaded] = OrderedDict()
_PARTS: OrderedDict[str, Any] = OrderedDict()
_LOCK = threading.Lock()


def _content_of(design: Design, model: object) -> tuple[str, str]:
    """Return the fingerprint of task and planner, empty where it cannot be read, and model's code.

    What a model holds is checked by what it answers: it may count its calls, or keep a cache.
    """
    with suppress(ValueError):
        return fingerprint(design.task, design.planner), source_of(learned_of(model))
    return "", source_of(learned_of(model))


@contextmanager
def _warned_by(filters: list[Any]) -> Iterator[None]:
    """Treat warnings by these filters; by those of this process where there are none."""
    if not filters:
        yield
        return
    with warnings.catch_warnings():
        warnings.filters[:] = filters  # type: ignore[index]  # a list, whatever its stub says
        yield


def _can_be_sent(error: Exception) -> bool:
    """Say whether an exception survives being sent: one that does not would break its pool."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  # written here
    # Whatever a user's exception does then.
    except Exception:
        return False
    return True
