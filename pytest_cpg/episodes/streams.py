"""Streams: the random numbers of one episode, and their state as plain words."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.contracts import IntArray

_WORD = 64

# First spawn keys, next to that of the starts; the episode's index follows. What a stochastic model
# draws while it imagines is apart from the planner's noise, which stays the same in every arm.
# Probe and rankings have 2 and 3.
_PLANNER_STREAM = 1
_MODEL_STREAM = 5


def episode_stream(seed: int, episode: int, *, of_model: bool = False) -> np.random.Generator:
    """Return the random stream of one episode: the same in every arm and batch.

    It is the planner's, or with ``of_model`` that of a model which imagines by chance.
    """
    stream = _MODEL_STREAM if of_model else _PLANNER_STREAM
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, episode)))


def words_of(rng: np.random.Generator) -> list[int]:
    """Return the state of a PCG64 stream in six words of 64 bits."""
    state: Any = rng.bit_generator.state
    numbers = (state["state"]["state"], state["state"]["inc"])
    words = [word for n in numbers for word in (n >> _WORD, n & (2**_WORD - 1))]
    return [*words, state["has_uint32"], state["uinteger"]]


def set_words(rng: np.random.Generator, words: IntArray) -> None:
    """Put a stream into the state that `words_of` gave."""
    high, low, inc_high, inc_low, has_half, half = (int(word) for word in words)
    rng.bit_generator.state = {
        "bit_generator": type(rng.bit_generator).__name__,
        "state": {"state": high << _WORD | low, "inc": inc_high << _WORD | inc_low},
        "has_uint32": has_half,
        "uinteger": half,
    }
