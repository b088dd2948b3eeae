"""Responses: how strongly parts of the world answer to an action on which.

Actions on one part are varied from the same state, and what differs afterwards has answered. That
shows descendants, and no edges: a chain of causes and a full graph respond alike; see `direct`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    ComponentError,
    FiniteActions,
    FloatArray,
    IntArray,
    Task,
    WorldModelError,
)
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import Draws, Observed, Parts
from pytest_cpg.gates.at_most import Measured
from pytest_cpg.gates.card import Cell, Figure
from pytest_cpg.gates.kind import Asked, named
from pytest_cpg.gates.prediction.kind import imagined, visited
from pytest_cpg.stats.sampled import Percentile
from pytest_cpg.world_models.binding.bound import BoundModel

_STATES, _DRAWS, _VALUES, _RESAMPLES = 100, 12, 8, 1000
# Of the strongest response of a part in truth: what counts as one, and what as none.
_SOME, _NONE = 0.1, 0.05
# Answers that are named, and single numbers that can be told apart as parts.
_MOST_NAMED, _MOST_PARTS = 4, 200
# Of a number's square: what varies by less is rounded.
_ROUNDING = 1e-20
# Standard deviations that no model is off by on average, where there is one.
_FAR, _STILL = 100, 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses(Measured):
    """How strongly effects answer to causes, as shares of an effect's strongest answer in truth.

    Attributes
    ----------
    truth, learned, low, high : array [G, P]
        In truth and in the model, with the ends of the model's interval.
    """

    causes: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    truth: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    learned: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    low: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    high: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


class Compared(NamedTuple):
    """The share of pairs that differ, that of what knows nothing, and what `Responses` holds."""

    number: Percentile
    ignorant: Mapping[str, Percentile]
    strengths: Mapping[str, FloatArray]


def parts_of(task: Task) -> dict[str, list[int]]:
    """Return the columns of each part of an observation; by default each is a part."""
    if has(task, Parts):
        return {name: [*columns] for name, columns in task.parts.items()}
    size = task.observation_size
    if size > _MOST_PARTS:
        raise ComponentError(
            f"task {task.name!r}: each of {size} numbers of an observation would be a part, and "
            f"{_MOST_PARTS} are possible. Give the task parts (columns by name), or ask for "
            f"another look."
        )
    names = task.observed if has(task, Observed) else map(str, range(size))
    return {f"{name} (number {column})": [column] for column, name in enumerate(names)}


def varied(task: Task, streams: Sequence[np.random.Generator]) -> tuple[list[str], FloatArray]:
    """Return causes [G], and for each state actions [N, G, K, A] that are varied in that alone."""
    space = task.actions
    if has(task, Parts) and isinstance(space, FiniteActions):
        on, names = np.asarray(task.acted_on(space.values)), [*task.parts]
        groups = [np.flatnonzero(on == part) for part in range(len(names))]
        causes = [name for name, group in zip(names, groups, strict=True) if len(group) > 1]
        most = max(map(len, groups))
        rows = np.array([np.resize(group, most) for group in groups if len(group) > 1])
        return causes, np.broadcast_to(space.values[rows], (len(streams), *rows.shape, space.size))
    drawn = space.sample(streams, (_VALUES,))
    if isinstance(space, FiniteActions):
        return ["the action"], drawn[:, None]
    actions = np.repeat(drawn[:, None, :1], space.size, axis=1).repeat(_VALUES, axis=2)
    for column in range(space.size):
        actions[:, column, :, column] = drawn[..., column]
    return [f"action {column}" for column in range(space.size)], actions


def questions(asked: Asked, task: Task) -> Sequence[Any]:
    """Return states [N, M, S] with their draws, plans [N, G, K, H, A], and what is asked beside.

    Which part each column of an observation is of [N, O], -1 for none, and a number [N] for noise.
    """
    seed, owners = asked.values["seed"], np.full(task.observation_size, -1)
    for part, columns in enumerate(parts_of(task).values()):
        owners[columns] = part
    states = visited(task, seed, _STATES)
    streams = [np.random.default_rng([seed, row, 7]) for row in range(len(states))]
    _, first = varied(task, streams)
    later = task.actions.sample(streams, (1, 1, asked.values["horizon"] - 1))
    later = np.broadcast_to(later, (*first.shape[:3], *later.shape[3:]))
    plans = np.concatenate([first[:, :, :, None], later], axis=3)
    drawn = np.repeat(states[:, None], _DRAWS, axis=1)
    if has(task, Draws):
        seeds = np.random.default_rng([seed, 8]).integers(2**31, size=drawn.shape[:2])
        drawn = task.redrawn(drawn.reshape(-1, states.shape[1]), seeds.ravel()).reshape(drawn.shape)
    return drawn, plans, np.tile(owners, (len(states), 1)), np.arange(len(states))


def answers(
    model: BoundModel, states: FloatArray, plans: FloatArray, owners: IntArray, numbers: IntArray
) -> FloatArray:
    """Return how much parts differ between actions, and the mean end: [B, G P + O]."""
    if model.observe is None:
        raise WorldModelError(
            "the model's latents have no parts that could answer: add decode(latents [..., Z]) -> "
            "observations [..., O]."
        )
    # Only the true dynamics read draws off a state, and where there are none all are alike.
    is_drawn = model.may_diverge and (states != states[:, :1]).any()
    draws = states.shape[1] if model.noise_size or is_drawn else 1
    begun = states[:, :draws].reshape(-1, states.shape[-1])
    flat = plans.reshape(len(plans), -1, *plans.shape[3:]).repeat(draws, axis=0)
    keys = (numbers[:, None] * states.shape[1] + np.arange(draws)).ravel()
    ends = imagined(model, begun, flat, keys)
    ends = ends.reshape(len(plans), draws, *plans.shape[1:3], -1).transpose(0, 2, 3, 1, 4)
    parts = [np.flatnonzero(owners[0] == part) for part in range(owners[0].max() + 1)]
    spread = spreads(ends, parts).reshape(len(plans), -1)
    return np.concatenate([spread, ends.mean(axis=(1, 2, 3))], axis=1)


def spreads(ends: FloatArray, parts: Sequence[Any]) -> FloatArray:
    """Return how much parts differ between actions [B, G, P]: variances, without that of draws.

    ``ends`` [B, G, K, M, O] are M draws after each of K actions.
    """
    # The mean of equal numbers may differ from them in its last bit, and that of zeros does not.
    apart = ends - ends[:, :, :1, :1]
    between = apart.mean(axis=3).var(axis=2, ddof=1)
    if ends.shape[3] > 1:
        between = between - apart.var(axis=3, ddof=1).mean(axis=2) / ends.shape[3]
    is_rounding = np.abs(between) <= _ROUNDING * (ends**2).mean(axis=(2, 3))
    between = np.where(is_rounding, 0.0, between)
    return np.stack([between[..., list(columns)].sum(axis=-1) for columns in parts], axis=-1)


def check_places(
    ends: FloatArray, predicted: FloatArray, parts: Mapping[str, Sequence[int]]
) -> None:
    """Raise WorldModelError for a model that answers, and is nowhere near the truth."""
    off = abs(predicted.mean(axis=0) - ends.mean(axis=0))
    for name, columns in parts.items():
        spread, most = np.sqrt(ends[:, columns].var(axis=0).sum()), off[columns].max()
        # What never varies in truth is rounded to hardly anything.
        if spread > _STILL and most > _FAR * spread:
            raise WorldModelError(
                f"what the model predicts of {name} is off by {most:.3g} on average, where the "
                f"truth varies by {spread:.3g}. See that it returns observations in the task's "
                f"units."
            )


def units_of(
    answers: FloatArray, ends: FloatArray, parts: Mapping[str, Sequence[int]]
) -> FloatArray:
    """Return of each part the strongest answer [P] in truth; of what has none, how it varies."""
    strongest = answers.mean(axis=0).max(axis=0)
    usual = np.array([ends[:, columns].var(axis=0).sum() for columns in parts.values()])
    return np.where(strongest > 0, strongest, np.where(usual > 0, usual, 1.0))


def descending(answers: FloatArray, name: str) -> BoolArray:
    """Return which parts [G, P] answer in truth; raise WorldModelError where none does."""
    descends = answers.mean(axis=0) >= _SOME**2
    if not descends.any():
        raise WorldModelError(
            f"{name}: nothing answers to any action in {len(answers)} states. Ask for a longer "
            f"horizon, or of another task."
        )
    return np.asarray(descends)


def compared(true: FloatArray, learned_answers: FloatArray, level: float, seed: int) -> Compared:
    """Compare answers [N, G, P] in truth and in a model, with states drawn again."""
    truth, learned = (_strength(part.mean(axis=0)) for part in (true, learned_answers))
    rows = np.random.default_rng(seed).integers(len(true), size=(_RESAMPLES, len(true)))
    again = _strength(learned_answers[rows].mean(axis=1))
    low, high = np.quantile(again, [(1 - level) / 2, (1 + level) / 2], axis=0)
    is_other = is_mismatch(_strength(true[rows].mean(axis=1)), again).mean(axis=(1, 2))
    nothing = {who: np.full_like(truth, size) for who, size in (("copy", 0), ("all", 1))}
    return Compared(
        Percentile(estimate=float(is_mismatch(truth, learned).mean()), resamples=is_other),
        {who: _share(is_mismatch(truth, strength)) for who, strength in nothing.items()},
        {"truth": truth, "learned": learned, "low": low, "high": high},
    )


def counted(truth: FloatArray) -> str:
    """Return how many pairs answer in truth, and how many too weakly to count."""
    weak = int(((truth >= _NONE) & (truth < _SOME)).sum())
    text = f"{int((truth >= _SOME).sum())} of {truth.size} pairs answer"
    return text + f", and {weak} too weakly to count" * bool(weak)


def is_mismatch(truth: FloatArray, learned: FloatArray) -> BoolArray:
    """Return where one of both answers, and the other does not.

    An answer has half the strength of the true one. What answers faintly to everything would
    otherwise be right everywhere.
    """
    is_lost = (truth >= _SOME) & (learned < truth / 2)
    return np.asarray(is_lost | ((truth < _NONE) & (learned >= _SOME)))


def mismatches_and_figure(result: Responses) -> tuple[str, Figure]:
    """Return the first pairs that differ in words, and all pairs as cells."""
    wrong = is_mismatch(result.truth, result.learned)
    texts, notes = [], []
    for number, (cause, effect) in enumerate(np.ndindex(*result.truth.shape)):
        names = result.causes[cause], result.effects[effect]
        interval = f"[{result.low[cause, effect]:.2f}, {result.high[cause, effect]:.2f}]"
        sizes = f"{result.learned[cause, effect]:.2f} {interval}"
        sizes += f", in truth {result.truth[cause, effect]:.2f}"
        notes.append(Cell(number, f"{names[1]} to {names[0]} {sizes}"))
        if wrong[cause, effect]:
            is_missing = result.learned[cause, effect] < result.truth[cause, effect]
            verb = "does not answer" if is_missing else "answers, and should not,"
            texts.append(f"{names[1]} {verb} to {names[0]}: {sizes}")
    figure = Figure(
        kind="cells",
        title="What answers to what",
        reading=f"In rows, from above, what is acted on: {named(result.causes)}. In columns, from "
        f"the left, what answers: {named(result.effects)}.",
        axes=("pair", ""),
        series={
            name: tuple(np.flatnonzero(chosen).tolist())
            for name, chosen in (("as in truth", ~wrong), ("otherwise", wrong))
        },
        cells=tuple(notes),
        across=len(result.effects),
    )
    more = len(texts) - _MOST_NAMED
    if more > 0:
        texts = [*texts[:_MOST_NAMED], f"and {more} more"]
    return "; ".join(texts) + "." * bool(texts), figure


def _share(is_other: BoolArray) -> Percentile:
    share = float(is_other.mean())
    return Percentile(estimate=share, resamples=np.full(_RESAMPLES, share))


def _strength(ratios: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(ratios, 0.0))
