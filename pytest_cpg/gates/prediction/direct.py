"""Direct: what answers to an action itself, and not by way of what else answers to it.

A chain of causes and a full graph have the same descendants, and no action holds what lies between
a cause and an effect. Where chances are known it can be held afterwards: among the outcomes in
which all else is as it was, how likely is each value of the effect, by what was done to the cause?
What the effect passes on is summed over, as outcomes that are chosen by it would tell of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import BoolArray, ComponentError, FloatArray, Task, WorldModelError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import Chances, Parts
from pytest_cpg.world_models import inference, learned_of
from pytest_cpg.world_models.binding.conventions import ArrayFunction, describe
from pytest_cpg.world_models.binding.tiling import method_of

# States in which is asked, outcomes of each in which all else is held, and outcomes that are told
# apart of one of these.
_STATES, _HELD, _MOST = 20, 2, 2**14
# By which probabilities in floats of 32 bits may add up to more than 1.
_ROUNDING = 1e-3
_PROMISE = (
    "log_probability(observations [B, O], actions [B, A], next_observations [B, O]) -> log "
    "probabilities [B]"
)


class _Seen(NamedTuple):
    """What is seen before [N, M, O], what is done to each part, and what is seen then.

    Actions [N, P, K, A], with ends [N, P, K, M, O]; each part's columns, and its values [V, C].
    """

    before: FloatArray
    actions: FloatArray
    ends: FloatArray
    columns: list[list[int]]
    values: list[FloatArray]


def direct_answers(
    task: Task, model: Any, states: FloatArray, plans: FloatArray, descends: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return how much parts answer to actions themselves, in truth and in a model: [N, P, P] both.

    Of states [N, M, S] with draws, and plans [N, P, K, 1, A] on each part; what a part answers to
    actions on itself is 0. ``descends`` [P, P] says for each part what answers to it.

    Raises ComponentError for a task that cannot be asked, and WorldModelError for such a model.
    """
    parts = task.parts if has(task, Parts) else {}
    true = task.log_probability if has(task, Chances) else None
    if true is None or len(descends) != len(parts):
        raise ComponentError(
            f"answers='direct': task {task.name!r} lacks parts, actions on each of them, or "
            f"log_probability. Leave it out: then all answers count, by whatever way they come."
        )
    if plans.shape[3] > 1:
        raise ComponentError(
            f"answers='direct': after {plans.shape[3]} steps answers come by way of others. Write "
            f"horizon=1."
        )
    learned = learned_of(model)
    if not callable(getattr(learned, "log_probability", None)):
        raise WorldModelError(
            f"{describe(learned)} gives no probabilities, and only these tell direct answers. Add "
            f"{_PROMISE}, or leave answers='direct' out."
        )
    seen = _seen(task, parts, states[:_STATES, :_HELD], plans[:_STATES, :, :, 0])
    probe = seen.before[:, 0], seen.actions[:, 0, 0], seen.ends[:, 0, 0, 0]
    answers = np.zeros((2, len(seen.before), *descends.shape))
    with inference(learned):
        both = true, method_of(learned, _PROMISE, *probe)
        for cause, effect in permutations(range(len(descends)), 2):
            passed = [
                part
                for part in np.flatnonzero(descends[effect]).tolist()
                if part not in (cause, effect)
            ]
            outcomes = _outcomes(seen, cause, effect, passed)
            for who, log_probability in enumerate(both):
                spread = _spread(log_probability, outcomes, seen.values[effect])
                answers[who, :, cause, effect] = spread
    return answers[0], answers[1]


def _seen(
    task: Task, parts: Mapping[str, Sequence[int]], drawn: FloatArray, actions: FloatArray
) -> _Seen:
    """Return what is seen of states [N, M, S] before and after actions [N, P, K, A]."""
    shape = (*actions.shape[:3], drawn.shape[1])
    begun = np.broadcast_to(drawn[:, None, None], (*shape, drawn.shape[-1]))
    done = np.broadcast_to(actions[:, :, :, None], (*shape, actions.shape[-1]))
    after = task.step(begun.reshape(-1, begun.shape[-1]), done.reshape(-1, done.shape[-1]))
    ends = task.observe(after).reshape(*shape, -1)
    columns = [[*part] for part in parts.values()]
    values = [np.unique(ends[..., part].reshape(-1, len(part)), axis=0) for part in columns]
    return _Seen(task.observe(drawn), actions, ends, columns, values)


def _outcomes(
    seen: _Seen, cause: int, effect: int, passed: Sequence[int]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return observations, actions and outcomes [N, M, K, V, W, ...] of one cause and effect.

    Of each action K, all values V of the effect and W of what it passes on; the rest is as after
    the first action.
    """
    passings = list(product(*(range(len(seen.values[part])) for part in passed)))
    ends = seen.ends[:, cause].swapaxes(1, 2)
    each = (ends.shape[2], len(seen.values[effect]), len(passings))
    if np.prod(each) > _MOST:
        raise ComponentError(
            f"answers='direct': {np.prod(each)} outcomes of one state would be told apart, and "
            f"{_MOST} are possible. Ask of a world of fewer parts or values."
        )
    outcomes = np.empty((*ends.shape[:2], *each, ends.shape[-1]))
    outcomes[:] = ends[:, :, :1, None, None]
    own, answering = seen.columns[cause], seen.columns[effect]
    outcomes[..., own] = ends[..., None, None, own]
    outcomes[..., answering] = seen.values[effect][:, None]
    for place, part in enumerate(passed):
        rows = [row[place] for row in passings]
        outcomes[..., seen.columns[part]] = seen.values[part][rows]
    before = np.broadcast_to(seen.before[:, :, None, None, None], outcomes.shape)
    actions = seen.actions[:, cause][:, None, :, None, None]
    return before, np.broadcast_to(actions, (*outcomes.shape[:-1], actions.shape[-1])), outcomes


def _spread(
    log_probability: ArrayFunction, outcomes: tuple[FloatArray, ...], values: FloatArray
) -> FloatArray:
    """Return by how much the mean of an effect with these values [V, C] varies with actions [N].

    Of observations, actions and outcomes [N, M, K, V, W, ...]. Actions under which none of these is
    possible say nothing.
    """
    logs = log_probability(*(part.reshape(-1, part.shape[-1]) for part in outcomes))
    logs = np.asarray(logs).reshape(outcomes[-1].shape[:-1])
    if lost := logs[np.isnan(logs) | (logs == np.inf)].size:
        raise WorldModelError(
            f"log_probability returns NaN or plus infinity for {lost} of {logs.size} outcomes. "
            f"Return logs of probabilities, minus infinity for what cannot happen."
        )
    most = logs.max(axis=(3, 4), keepdims=True)
    with np.errstate(over="ignore"):
        total = np.exp(logs).sum(axis=(3, 4)).max()
    if total > 1 + _ROUNDING:
        raise WorldModelError(
            f"what log_probability returns adds up to {total:.3g} over outcomes of one action, as "
            f"probabilities do not. Return their logs, of each outcome, and not a loss."
        )
    is_possible = np.isfinite(most)
    chances = np.exp(logs - np.where(is_possible, most, 0.0)).sum(axis=4)
    means = (
        chances / np.where(is_possible[..., 0], chances.sum(axis=3, keepdims=True), 1.0) @ values
    )
    count = is_possible[..., 0, 0].sum(axis=2)[..., None]
    centre = means.sum(axis=2) / np.maximum(count, 1)
    apart = np.where(is_possible[..., 0], means - centre[:, :, None], 0.0)
    variances = (apart**2).sum(axis=2) / np.maximum(count - 1, 1)
    return np.asarray(variances.sum(axis=-1).mean(axis=1))
