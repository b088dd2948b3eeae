"""Films: two episodes from the same start, side by side.

A task of your own is filmed if it has a method ``render(states [B, S]) -> frames [B, H, W, 3]``,
uint8, that draws its states.
"""

from __future__ import annotations

import base64
import io
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Task
from pytest_cpg.contracts.errors import needs_extra
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import DrawnGoals
from pytest_cpg.episodes.replay import ArmTraces, EpisodeTrace
from pytest_cpg.gates.card import Reel, Strip
from pytest_cpg.gates.notation import place
from pytest_cpg.machine.files import write_bytes
from pytest_cpg.tasks.pictures import HEIGHT, WIDTH, rendered

if TYPE_CHECKING:
    from PIL import Image

# A film has at most one frame more.
_INTERVALS = 100
# Seconds that a frame is shown. Viewers slow a GIF down whose frames are shorter; where a step
# takes longer, as in a grid, real time would be tiresome.
_SHORTEST, _LONGEST, _LAST = 0.02, 0.2, 1.5
# Of an arm in a strip, and their size: twice that on the page.
_LEAST_FRAMES, _MOST_FRAMES, _FRAME = 3, 8, (224, 168)
# Pixels.
_GAP, _LINE, _FONT_SIZE = 8, 20, 13
_PAPER, _INK, _FAINT = "#ffffff", "#1d2939", "#667085"
# Letters; there is no room for more.
_LONGEST_CAPTION = 500


def check_can_render() -> None:
    """Raise ComponentError unless films can be put together here."""
    with needs_extra("render", "PIL", what="films need Pillow"):
        import PIL  # noqa: F401 - other functions use it


def write_film(
    task: Task,
    oracle_states: FloatArray,
    learned_states: FloatArray,
    folder: Path,
    *,
    name: str,
    captions: tuple[str, str],
) -> Path:
    """Write ``name.gif`` into a folder, which is made if need be, and return its path.

    States of the arms are [T, S] and [U, S], from the start on; the shorter episode stays on its
    last frame. Captions are of the oracle arm, on the left, and of the learned one, cut to fit. The
    same arguments give the same bytes on one machine. Raises ComponentError when the task has no
    frames or there is nothing to draw them with, CpgError when a file cannot be written.
    """
    check_can_render()
    arms = (oracle_states, learned_states)
    for states in arms:
        if states.ndim != 2 or not len(states):
            raise ValueError(f"need states of shape [T, S], T > 0, got shape {states.shape}")
    times, seconds = _pace(max(map(len, arms)) - 1, task.control_period)
    filmed = [np.minimum(times, len(states) - 1) for states in arms]
    shots = _shots(task, arms, [np.unique(steps) for steps in filmed])
    path = folder / f"{name}.gif"
    write_bytes(path, _gif(_animation(shots, filmed, captions), seconds), what="the film")
    return path


def strip_of(task: Task, traces: Mapping[int, ArmTraces], *, lost: int) -> Strip | None:
    """Return the most telling of some episodes as a few pictures of both arms, of so many lost.

    It is the one in which the arms are farthest apart, by the task's score, when the oracle has
    solved it. None where none is still lost. Raises ComponentError as `write_film` does.
    """
    check_can_render()
    apart = {
        episode: _apart(*arms)
        for episode, arms in traces.items()
        if arms.oracle.success and not arms.learned.success
    }
    if not apart:
        return None
    episode = max(apart, key=apart.__getitem__)
    arms = traces[episode]
    ends = [len(arm.states) - 1 for arm in arms]
    steps = [_spread(end, max(ends)) for end in ends]
    shots = _shots(task, [arm.states for arm in arms], steps)
    return Strip(
        episode=episode,
        lost=lost,
        period=task.control_period,
        goal=goal_in_words(task, arms.oracle.goal),
        reels=tuple(
            Reel(
                arm=name,
                ending=trace.ending,
                is_solved=trace.success,
                frames=tuple((step, _webp(image)) for step, image in images.items()),
            )
            for name, trace, images in zip(("oracle", "learned"), arms, shots, strict=True)
        ),
    )


def goal_in_words(task: Task, goal: FloatArray) -> str:
    """Return the goal [G] of an episode, and whether pictures lack it; nothing where it has none.

    A task draws its own goal, if any, which says nothing of that of a gate.
    """
    if not goal.size:
        return ""
    is_hidden = has(task, DrawnGoals) and not task.draws_goals
    return f"goal {place(goal)}{', not in the pictures' * is_hidden}"


def _apart(oracle: EpisodeTrace, learned: EpisodeTrace) -> float:
    """Return how much worse the learned arm stands when the oracle has solved an episode."""
    at = min(oracle.steps, len(learned.scores) - 1)
    apart = float(learned.scores[at] - oracle.scores[oracle.steps])
    return apart if math.isfinite(apart) else -math.inf


def _spread(end: int, longest: int) -> IntArray:
    """Return steps from 0 to ``end``: the ends and the middle, and more of a longer episode."""
    count = max(_LEAST_FRAMES, 1 + int((_MOST_FRAMES - 1) * end / max(longest, 1)))
    return np.unique(np.linspace(0, end, count).round().astype(np.int64))


def _webp(image: Image.Image) -> str:
    file = io.BytesIO()
    image.resize(_FRAME).save(file, format="WEBP", quality=60, method=6)
    return base64.b64encode(file.getvalue()).decode()


def _pace(end: int, period: float) -> tuple[IntArray, float]:
    """Return the steps that are filmed, of 0 to ``end``, and how many seconds each is shown."""
    every = max(1, math.ceil(end / _INTERVALS))
    if period > 0:
        every = max(every, math.ceil(_SHORTEST / period))
    seconds = min(_LONGEST, max(_SHORTEST, every * period))
    return np.append(np.arange(0, end, every), end), seconds


def _shots(
    task: Task, arms: Sequence[FloatArray], steps: Sequence[IntArray]
) -> list[dict[int, Image.Image]]:
    """Return each arm's images at its steps, all of one size, by step."""
    from PIL import Image, ImageOps

    size = (WIDTH, HEIGHT)
    states = np.concatenate([arm[few] for arm, few in zip(arms, steps, strict=True)])
    frames = rendered(task, states)
    # Its average keeps thin lines when a frame shrinks, and its squares when it grows.
    box = Image.Resampling.BOX
    images = iter(
        ImageOps.pad(Image.fromarray(frame), size, method=box, color=_PAPER) for frame in frames
    )
    return [{int(step): next(images) for step in few} for few in steps]


def _animation(
    shots: Sequence[Mapping[int, Image.Image]],
    filmed: Sequence[IntArray],
    captions: tuple[str, str],
) -> list[Image.Image]:
    """Return the animation's images: the episodes side by side, each below its caption."""
    from PIL import Image

    size = len(shots) * (WIDTH + _GAP) + _GAP, HEIGHT + 2 * _LINE
    images = []
    for steps in zip(*(arm.tolist() for arm in filmed), strict=True):
        image = Image.new("RGB", size, _PAPER)
        for column, (arm, caption, step) in enumerate(zip(shots, captions, steps, strict=True)):
            left = _GAP + column * (WIDTH + _GAP)
            _letter(image, (left, 0), caption)
            image.paste(arm[step], (left, _LINE))
            _letter(image, (left, _LINE + HEIGHT), f"step {step}", colour=_FAINT)
        images.append(image)
    return images


def _letter(image: Image.Image, corner: tuple[int, int], text: str, *, colour: str = _INK) -> None:
    """Write one line of text from its left top corner, cut to the width of a picture."""
    from PIL import ImageDraw, ImageFont

    font = ImageFont.load_default(_FONT_SIZE)
    # Half a character, or a line's end, cannot be drawn.
    text = "".join(sign if sign.isprintable() else " " for sign in text[:_LONGEST_CAPTION])
    if font.getlength(text) > WIDTH:
        end = bisect_right(
            range(len(text)), float(WIDTH), key=lambda end: font.getlength(f"{text[:end]}...")
        )
        text = f"{text[: end - 1]}..."
    left, top = corner
    # At the line's middle.
    ImageDraw.Draw(image).text((left, top + _LINE / 2), text, fill=colour, font=font, anchor="lm")


def _gif(images: Sequence[Image.Image], seconds: float) -> bytes:
    """Encode images that are shown for some seconds each, all in the same 256 colours."""
    from PIL import Image

    reel = Image.fromarray(np.concatenate([np.asarray(image) for image in images]))
    # The other methods spend all colours on the sky and have none left for a small goal.
    colours = reel.quantize(256, method=Image.Quantize.MAXCOVERAGE)
    # Without dithering, what does not move stays the same and takes no room.
    first, *others = (image.quantize(palette=colours, dither=Image.Dither.NONE) for image in images)
    durations = [*([seconds] * len(others)), _LAST]
    file = io.BytesIO()
    first.save(
        file,
        format="GIF",
        save_all=True,
        append_images=others,
        duration=[10 * round(100 * duration) for duration in durations],
        loop=0,
    )
    return file.getvalue()
