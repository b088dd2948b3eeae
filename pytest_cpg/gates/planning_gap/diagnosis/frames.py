"""Frames: whether what a model saw is like the frames of its training, by what it encodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray, IncompleteError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Embedding, OpaqueLatents
from pytest_cpg.episodes.decisions import evenly
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.episodes.probe import bound_to_starts
from pytest_cpg.gates.notation import one_line
from pytest_cpg.gates.planning_gap.diagnosis.evidence import TrainingStates
from pytest_cpg.machine.files import check_unpacked_size
from pytest_cpg.world_models.binding.tiling import method_of
from pytest_cpg.world_models.transitions import Transitions

# Frames that a model is asked to encode at most, and the fewest that say what they are like.
_MOST, _FEWEST = 1000, 50
# In latents of training: of every patch of a picture they have as many as a picture.
_NUMBERS = 1 << 24
_NOT_COMPARED = "training_data is not compared"
_EMBED = "embed(pictures [B, F, H, W, C]) -> embeddings [B, D]"
# Pictures that embed is tried on, and is asked for in every call.
_PROBED, _AT_ONCE = 8, 64


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
    design: Design, learned: Any, starts: Starts, states: FloatArray, training_data: Any
) -> FloatArray | str:
    """Return which share of the pictures of states [E, T, S] is unlike training [E], or why not.

    Every picture is encoded by itself, as at an episode's start, and with the goal of the first
    one: what a model remembers and what it is to reach have no part. Like training is what lies as
    near to it, in latents, as 99 % of it lie to each other. Training data are frames [T, F, H, W,
    C] without goals, `Transitions` that have them, or the path of a ``.npy`` file, or of an
    ``.npz`` with the key ``frames``.
    """
    task: Any = design.task
    goals = int(getattr(task, "goal_frames", 0))
    trained = _frames_of(training_data, tuple(task.picture_shape), goals)
    if isinstance(trained, str):
        return trained
    episodes, steps, size = states.shape
    seen = np.array(task.pictures(states.reshape(-1, size)))
    if goals:
        goal = seen[:1, -goals:].copy()
        trained = np.concatenate([trained, goal.repeat(len(trained), axis=0)], axis=1)
        seen[:, -goals:] = goal
    latents = _encoded(design, learned, starts, np.concatenate([trained, seen]))
    if isinstance(latents, str):
        return latents
    of_training, of_seen = np.split(latents, [len(trained)])
    few = evenly(np.arange(len(trained)), max(_FEWEST, _NUMBERS // latents.shape[1]))
    distances = TrainingStates(of_training[few]).distances(of_seen)
    return np.asarray((distances > 1).reshape(episodes, steps).mean(axis=1))


def _encoded(
    design: Design, learned: Any, starts: Starts, pictures: npt.NDArray[Any]
) -> FloatArray | str:
    """Return what a model makes of pictures [B, F, H, W, C], each by itself [B, Z], or why not."""
    if has(learned, OpaqueLatents) and learned.has_opaque_latents:
        if not has(learned, Embedding):
            return f"{_NOT_COMPARED}: latents tell nothing of what was seen, and there is no embed"
        try:
            embed = method_of(learned, _EMBED, pictures[:_PROBED], rows=_AT_ONCE)
            embedded = embed(pictures)
            if np.isfinite(embedded).all():
                return embedded
            why = "embed gives numbers that are not finite"
        except IncompleteError:
            raise
        # A user's model may raise anything.
        except Exception as error:
            why = one_line(f"{type(error).__name__}: {error}")
        return f"{_NOT_COMPARED}: the model embeds no pictures ({why})"
    task: Any = design.task
    is_bound = False

    def shown(states: FloatArray) -> npt.NDArray[Any]:
        """Return pictures by their numbers, once the model is bound to what the task draws."""
        return pictures[states[:, 0].astype(int)] if is_bound else np.asarray(task.pictures(states))

    other_task: Any = OtherPictures(task, shown)
    model = bound_to_starts(learned, replace(design, task=other_task), starts)
    is_bound = True
    width = starts.states.shape[1]
    return model.encode(np.repeat(np.arange(float(len(pictures)))[:, None], width, axis=1))


def _frames_of(data: Any, shape: tuple[int, ...], goals: int) -> npt.NDArray[Any] | str:
    """Return some of the frames [T, F, H, W, C] without goals, or why they cannot be used."""
    shape = (shape[0] - goals, *shape[1:])
    wanted = f"return frames [T, {', '.join(map(str, shape))}] in uint8, or Transitions with frames"
    try:
        frames = _read(data)
    # What is in a file may be wrong in any way.
    except Exception as error:
        return f"training_data cannot be read: {error}. Else {wanted}"
    if frames is None:
        return f"training_data has no frames: {wanted}"
    what = f"{frames.dtype} of shape {frames.shape}"
    if goals and frames.shape[1:] == (shape[0] + goals, *shape[1:]):
        # As the gate shows them, and `collect_transitions` keeps them.
        frames = frames[:, :-goals]
    # Frames that are no stacks, of a model that sees one.
    frames = frames[:, None] if shape == (1, *frames.shape[1:]) else frames
    if frames.shape[1:] != shape or frames.dtype != np.uint8:
        return f"training_data has {what}: {wanted}"
    if len(frames) < _FEWEST:
        return f"training_data has {len(frames)} frames, and {_FEWEST} are needed"
    return np.array(frames[evenly(np.arange(len(frames)), _MOST)])


def _read(data: Any) -> npt.NDArray[Any] | None:
    if isinstance(data, Transitions):
        return data.frames
    if not isinstance(data, str | os.PathLike):
        return np.asarray(data)
    check_unpacked_size(Path(data))
    content = np.load(data, mmap_mode="r", allow_pickle=False)
    return np.asarray(content if isinstance(content, np.ndarray) else content["frames"])
