"""Strip: a lost episode in a few pictures, which a page holds in itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reel:
    """One arm's episode, and how it ended: "solved at step 204".

    Frames are steps, rising, and what was seen there: WebP of 4 to 3 as base64.
    """

    arm: str
    ending: str
    is_solved: bool
    frames: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A lost episode in both arms, the oracle first, and how many were lost.

    The period is the seconds of a step; 0 where a step has no time.
    """

    episode: int
    lost: int
    period: float
    reels: tuple[Reel, ...]
