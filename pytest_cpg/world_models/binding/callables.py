"""Callables: a user's functions made batched, after verifying what they are.

Whether a dynamics function is batched is found out by calling it, never guessed: a function
written for one row may broadcast over a batch and return wrong numbers of the right shape. Eight
rows are predicted in a batch ``[R, O]``, each as a batch of one ``[1, O]`` and each alone ``[O]``:

======================  ======================  ===================  =============================
batch ``[R, O]``        batches of one          rows alone ``[O]``   then the function is
======================  ======================  ===================  =============================
works                   agree                   agree, or fail       batched
works                   agree                   differ               refused: both readings hold
works                   differ, or fail         agree                batched
works                   differ, or fail         differ               for one row: called in a loop
works                   differ, or fail         fail                 refused: its rows mix
fails                   not tried               work                 for one row: called in a loop
fails                   not tried               fail                 refused, with its exceptions
======================  ======================  ===================  =============================

"Works" means: floats or integers of the promised shape, the same bits when called again. The rows
of the batch outnumber the entries of a row: what is an index within a row then is an index of
another row of the batch, and the mistake shows. Rows mix in a batch norm left in train mode.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.world_models.binding.conventions import (
    TOLERANCE,
    ArrayFunction,
    Convention,
    Failure,
    attempt,
    binds,
    conventions,
    describe,
    first_that_works,
    refusal,
    shapes,
    unusable,
)

_STEP = "dynamics(observations [..., O], actions [..., A]) -> the next observations [..., O]"
# Rows compared in a verification, and calls in the measurement of a loop.
_ROWS, _CALLS = 8, 32
# Rows tried of a function that refuses others: some ensembles want multiples of their members.
_MOST_ROWS = 16
# Numbers inside a network are of order one, even where what it predicts is nearly zero.
_INNER_ROUNDING = 1e-6


class BatchedDynamics(NamedTuple):
    """A dynamics function as the product calls it, whatever the user wrote."""

    # Maps float64 observations [B, O] and actions [B, A] to next observations [B, O].
    step: ArrayFunction
    # Measured cost of one row when the function is called in a loop; None when it is batched.
    seconds_per_row: float | None


def adapt(function: Callable[..., Any], *probe: FloatArray, promise: str) -> ArrayFunction:
    """Return a batched user function as one from float64 arrays to float64 arrays.

    Raises WorldModelError, naming its ``promise``, when it fails on the probe. The shape that is
    promised for the arguments is checked on every call.
    """
    ways = ((way.label, way.checked(promise)) for way in conventions(function))
    if binds(function, len(probe)) is False:
        promise += (
            f". It takes {inspect.signature(function)}, and is called with {len(probe)}: take what "
            f"is named here alone. What came before belongs into the state, which update carries "
            f"on; what stays the same, such as a goal, into the model"
        )
    call, result = first_that_works(ways, *probe, of=function, promise=promise)
    _check_repeats(function, result, attempt(call, *probe))
    return call


def adapt_dynamics(
    function: Callable[..., Any], observations: FloatArray, actions: FloatArray
) -> BatchedDynamics:
    """Return a user's dynamics as a batched one; see the table at the top of this module.

    Raises WorldModelError when it works in no form, or its form cannot be told by these rows [P, O]
    and [P, A]: let them be as different from each other as they can be.
    """
    needed = max(_ROWS, observations.shape[1] + 1, actions.shape[1] + 1)
    cycle = np.arange(needed) % len(observations)
    probe = _Probe(observations[cycle], actions[cycle])
    failures = []
    for convention in conventions(function):
        call = convention.checked(_STEP)
        batch = attempt(call, *probe)
        rows = _attempt_each(call, probe, probe.compared)
        if not isinstance(batch, Failure):
            _check_repeats(function, batch, attempt(call, *probe))
            is_batched = _verify(function, convention, probe, batch, rows)
            return BatchedDynamics(call, None) if is_batched else _loop(call, probe)
        if not isinstance(rows, Failure):
            _check_repeats(function, rows, _attempt_each(call, probe, probe.compared))
            return _loop(call, probe)
        alone = shapes(*(array[0] for array in probe))
        failures.append(rows._replace(call=f"one row as {convention.label} {alone}"))
        failures.append(batch._replace(call=f"a batch as {convention.label} {shapes(*probe)}"))
        if batch.answered:
            break
    # What calls a torch module takes any number.
    called = getattr(function, "forward", function)
    # Whose own exception would only be about Python's calls.
    if binds(called, 2) is False and binds(called, 1):
        name = getattr(function, "__qualname__", None) or type(function).__name__
        cat = "np.concatenate" if called is function else "torch.cat"
        raise WorldModelError(
            f"{name} takes 1 input, and a world model takes 2, observations and actions.\n"
            f"  Return lambda o, a: net({cat}([o, a], -1))"
        )
    sizes = (observations.shape[1], actions.shape[1])
    raise unusable(
        function,
        f"dynamics(observations, actions). Take float arrays [B, {sizes[0]}] and [B, {sizes[1]}] "
        f"and return the next observations [B, {sizes[0]}]"
        f"{_other_rows(function, observations, actions)}",
        failures,
    )


def _other_rows(function: Callable[..., Any], observations: FloatArray, actions: FloatArray) -> str:
    """Return how many rows a function takes that does not take any number; else nothing."""
    for convention in conventions(function):
        call = convention.checked(_STEP)

        def takes(rows: int, call: ArrayFunction = call) -> bool:
            cycle = np.arange(rows) % len(observations)
            return not isinstance(attempt(call, observations[cycle], actions[cycle]), Failure)

        least = next(filter(takes, range(1, _MOST_ROWS + 1)), None)
        if least is None:
            continue
        if not takes(2 * least):
            return f". It takes {least} row{'s' * (least > 1)} alone, and is asked for any number"
        return (
            f". It takes multiples of {least} rows, and is asked for any number. Say so, and rows "
            f"are added: model.batch_multiple = {least}, where model is what you return"
        )
    return ""


def agree(
    left: FloatArray, right: FloatArray, *, inputs: float = 1.0, tolerance: float = TOLERANCE
) -> bool:
    """Say whether two results [..., Z] are equal but for rounding.

    That is relative to a column's largest number, and shrinks with the largest of the ``inputs``
    that they were made from where it is below one.
    """
    finite = np.where(np.isfinite(left), np.abs(left), 0.0)
    bound = tolerance * finite.reshape(-1, left.shape[-1]).max(axis=0)
    bound += _INNER_ROUNDING * min(1.0, inputs)
    with np.errstate(invalid="ignore"):  # inf - inf
        near = np.abs(left - right) <= bound
    return bool((near | (left == right) | (np.isnan(left) & np.isnan(right))).all())


class _Probe(NamedTuple):
    """Rows that a dynamics function is verified with: [R, O] and [R, A]."""

    observations: FloatArray
    actions: FloatArray

    @property
    def compared(self) -> list[int]:
        """Return the rows that are called on their own; the last is always among them."""
        return [int(row) for row in np.linspace(0, len(self.observations) - 1, _ROWS)]


def _verify(
    function: Callable[..., Any],
    convention: Convention,
    probe: _Probe,
    batch: FloatArray,
    rows: FloatArray | Failure,
) -> bool:
    """Say whether a function that works on a batch is batched; False: it is for one row."""
    inputs = max(float(np.abs(array).max()) for array in probe)

    def same(others: FloatArray | Failure) -> bool:
        return not isinstance(others, Failure) and agree(
            batch[probe.compared], others, inputs=inputs, tolerance=convention.tolerance
        )

    if same(rows):
        return True
    # A batch of one may lose its batch axis, in a model that ends in a squeeze.
    flat = Convention("", lambda *arrays: convention.call(*arrays).reshape(-1))
    call = flat.checked("dynamics([1, O], [1, A]) -> [O]")
    ones = _attempt_each(call, probe, [slice(row, row + 1) for row in probe.compared])
    if isinstance(rows, Failure):
        if same(ones):
            return True
        raise refusal(
            f"{describe(function)} predicts a row of a batch otherwise than the same row in a "
            f"batch of one. A prediction must depend on its own row alone: put a batch norm into "
            f"eval mode, and normalise by constants",
            [ones._replace(call="a batch of one")] if isinstance(ones, Failure) else [],
        )
    if same(ones):
        raise WorldModelError(
            f"{describe(function)} predicts one thing for a row alone {shapes(probe[0][0])} and "
            f"another for the same row in a batch {shapes(probe[0])}, so it cannot be told which "
            f"is meant. Refuse one of the two: a batched function, for instance, by "
            f"`assert observations.ndim == 2`."
        )
    return False


def _attempt_each(
    call: ArrayFunction, probe: _Probe, rows: Sequence[int] | Sequence[slice]
) -> FloatArray | Failure:
    """Call once per row, and stack the results [len(rows), O]."""
    results = []
    for row in rows:
        result = attempt(call, *(array[row] for array in probe))
        if isinstance(result, Failure):
            return result
        results.append(result)
    return np.stack(results)


def _check_repeats(
    function: Callable[..., Any], first: FloatArray, second: FloatArray | Failure
) -> None:
    """Raise WorldModelError unless a second, identical call gave the same bits."""
    if isinstance(second, Failure) or not np.array_equal(first, second, equal_nan=True):
        raise WorldModelError(
            f"{describe(function)} gave different results for identical calls, so no verdict on it "
            f"could be repeated. Put dropout into eval mode, return the mean instead of a sample, "
            f"and keep no state between calls."
        )


def _loop(call: ArrayFunction, probe: _Probe) -> BatchedDynamics:
    """Return the function called row by row, and what a row costs."""

    def step(observations: FloatArray, actions: FloatArray) -> FloatArray:
        return np.stack([call(*row) for row in zip(observations, actions, strict=True)])

    cycle = np.arange(_CALLS) % len(probe.observations)
    start = time.perf_counter()
    step(*(array[cycle] for array in probe))
    return BatchedDynamics(step, (time.perf_counter() - start) / _CALLS)
