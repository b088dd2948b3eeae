"""Frames: whether what a model saw is like the frames that it was trained on, by its latents."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import EpisodeGoals
from pytest_cpg.episodes.decisions import evenly
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.probe import bound_to_starts
from pytest_cpg.gates.planning_gap.diagnosis.evidence import TrainingStates
from pytest_cpg.machine.files import check_unpacked_size
from pytest_cpg.world_models.transitions import Transitions

# Frames that a model is asked to encode at most, and the fewest that say what they are like.
_MOST, _FEWEST = 1000, 50


@dataclass(frozen=True, slots=True)
class OtherPictures:
    """A task with other pictures of its states."""

    task: Any
    pictures: Callable[[FloatArray], npt.NDArray[Any]]
    #: They may be of another type than 8 bits.
    reading: bool = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.task, name)


def share_outside(
    design: Design, learned: Any, starts: Starts, latents: FloatArray, training_data: Any
) -> FloatArray | str:
    """Return the share of latents [E, T, Z] that no latent of training is near [E], or why not.

    Near is as near as 99 % of those of training are to each other. Training data are frames [T, F,
    H, W, C], `Transitions` that have them, or the path of a ``.npy`` file, or of an ``.npz`` with
    the key ``frames``.
    """
    task: Any = design.task
    if has(task, EpisodeGoals):
        return "training_data is not compared: the task's pictures have goals in them"
    frames = _frames_of(training_data, tuple(task.picture_shape))
    if isinstance(frames, str):
        return frames
    shown: list[npt.NDArray[Any]] = []

    def pictures(states: FloatArray) -> npt.NDArray[Any]:
        """Return frames by their numbers, once the model is bound to what the task draws."""
        return np.asarray(shown[0][states[:, 0].astype(int)] if shown else task.pictures(states))

    showing: Any = OtherPictures(task, pictures)
    model = bound_to_starts(learned, replace(design, task=showing), starts)
    if model.update is not None:
        return "training_data is not compared: the model remembers more than it sees"
    shown.append(frames)
    numbers = np.repeat(np.arange(float(len(frames)))[:, None], starts.states.shape[1], axis=1)
    trained = TrainingStates(model.encode(numbers))
    return np.asarray((trained.distances(latents) > 1).mean(axis=1))


def _frames_of(data: Any, shape: tuple[int, ...]) -> npt.NDArray[Any] | str:
    """Return some of the frames [T, F, H, W, C], or why they cannot be used."""
    wanted = f"return frames [T, {', '.join(map(str, shape))}] in uint8, or Transitions with frames"
    try:
        given = _given(data)
    # What is in a file may be wrong in any way.
    except Exception as error:
        return f"training_data cannot be read: {error}. Else {wanted}"
    if given is None:
        return f"training_data has no frames: {wanted}"
    # Frames that are no stacks, of a model that sees one.
    frames = given[:, None] if shape == (1, *given.shape[1:]) else given
    if frames.shape[1:] != shape or frames.dtype != np.uint8:
        return f"training_data has {given.dtype} of shape {given.shape}: {wanted}"
    if len(frames) < _FEWEST:
        return f"training_data has {len(frames)} frames, and {_FEWEST} are needed"
    return np.array(frames[evenly(np.arange(len(frames)), _MOST)])


def _given(data: Any) -> npt.NDArray[Any] | None:
    if isinstance(data, Transitions):
        return data.frames
    if not isinstance(data, str | os.PathLike):
        return np.asarray(data)
    check_unpacked_size(Path(data))
    held = np.load(data, mmap_mode="r", allow_pickle=False)
    return np.asarray(held if isinstance(held, np.ndarray) else held["frames"])
