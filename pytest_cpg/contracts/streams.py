"""Streams: where random numbers come from."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What random numbers are for: draws for one purpose change nothing of another.

    Each is the first spawn key of the seed; the numbers that `of` is given follow.
    """

    # Episode, attempt.
    START = 0
    # Episode: the same in every arm and batch.
    PLANNER = 1
    # Row of the probe.
    PROBE = 2
    RANKING = 3
    # Purpose, episode, step.
    DIAGNOSIS = 4
    # Episode: what a stochastic model draws while it imagines.
    MODEL = 5
    # Episode, step.
    DISTURBANCE = 8
    # Purpose, then episode, or horizon and candidate.
    QUERIES = 9
    # Step: of a policy, the seed being the start that it acts from.
    POLICY = 10
    # Seed of a start: which goal it has, or what leads there.
    GOAL = 11
    # Episode. Far from those of gates, so that no seed lets a model train on the starts or the
    # noise that it is judged on.
    COLLECTION = 0x7472616E

    def of(self, seed: int, *keys: int) -> np.random.Generator:
        """Return the random stream of a seed and of what these numbers tell apart."""
        return np.random.default_rng(self.sequence(seed, *keys))

    def sequence(self, seed: int, *keys: int) -> np.random.SeedSequence:
        """Return what `of` begins from."""
        return np.random.SeedSequence(seed, spawn_key=(int(self), *map(int, keys)))


class Purpose(IntEnum):
    """What is drawn at a decision: the number behind `Stream.DIAGNOSIS` in its key."""

    PLANNER = 0
    CANDIDATES = 1
    NOISE_OF_PLANNER = 2
    NOISE_OF_SCORES = 3
    ACTIONS = 6
    PLANS = 7
    PAIRS_OF_ACTIONS = 8
    NEIGHBOURS = 9
    RANDOM_PLANS = 10
    NOISE_OF_NEIGHBOURS = 11
    DEAD_ENDS = 12
