"""Acting: what policies do where they are asked, checked, and the noise that they are given."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from pytest_cpg.contracts import ActionSpace, CpgError, FiniteActions, FloatArray
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.policy import Policy
from pytest_cpg.contracts.streams import Stream

# Relative, and of actions near 0: what the order of a sum may change.
_ROUNDING = 1e-5
# What policies that are compared may do in place of drawing their actions.
_SEEDED = "Draw from the noise that a policy with noise_size is given, or return the mean"


def actions_of(
    policy: Any, observations: FloatArray, *, step: int = 0, starts: FloatArray | None = None
) -> Any:
    """Return what a policy says to observations [B, O], given its step and noise if it has some.

    The noise of a step depends on the row's start alone, of ``starts`` [K, O], ``B`` a multiple of
    ``K``, or here for None, rounded to float32: the same in truth and in imagination, for every
    member of a model, alone and in any batch.
    """
    size = noise_size_of(policy)
    if size is None:
        return policy.act(np.array(observations))
    begun = np.asarray(observations if starts is None else starts, dtype=np.float32)
    noise = np.empty((len(begun), size))
    for row, start in enumerate(begun if size else ()):
        seed = int.from_bytes(hashlib.sha256(start.tobytes()).digest()[:16], "big")
        noise[row] = Stream.POLICY.of(seed, step).standard_normal(size)
    again = len(observations) // max(1, len(begun))
    return policy.act(np.array(observations), step, np.tile(noise, (again, 1)))


def noise_size_of(policy: Any) -> int | None:
    """Return how much noise a policy takes, or raise ValueError; None where it sees no step."""
    size = getattr(policy, "noise_size", None)
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0):
        return size
    raise ValueError(
        f"{policy!r:.60} has noise_size {size!r}: write how many numbers act(observations, step, "
        f"noise) is given for each action, 0 or more"
    )


def checked_actions(
    policy: Policy,
    name: str,
    observations: FloatArray,
    space: ActionSpace | None,
    *,
    step: int = 0,
    starts: FloatArray | None = None,
) -> FloatArray:
    """Return what a policy does on observations [B, O]: possible actions [B, A] of float64.

    As `answered`; raises CpgError for actions that are not possible, too. The space is None where
    nobody knows what is possible.
    """
    size = None if space is None else space.size
    actions = answered(policy, name, observations, size, step=step, starts=starts)
    if space is None:
        return actions
    check_possible(actions, space, name)
    # float32 rounds what is exactly possible.
    return space.nearest(actions)


def answered(
    policy: Policy,
    name: str,
    observations: FloatArray,
    size: int | None,
    *,
    step: int = 0,
    starts: FloatArray | None = None,
) -> FloatArray:
    """Return what a policy says to observations [B, O]: finite numbers [B, A] of float64.

    Raises CpgError with the policy's name when it gives anything else. ``size`` is that of an
    action; None where nobody knows.
    """
    answer = actions_of(policy, observations, step=step, starts=starts)
    try:
        actions = np.array(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CpgError(
            f"{name} gave {answer!r:.60}, which is no array of numbers ({error}): return actions "
            f"[B, A]"
        ) from None
    wanted = size or (actions.shape[-1] if actions.ndim == 2 else "A")
    if actions.shape != (len(observations), wanted):
        raise CpgError(
            f"{name} gave actions of shape {actions.shape} for {len(observations)} observations: "
            f"return shape ({len(observations)}, {wanted})"
        )
    broken = ~np.isfinite(actions).all(axis=1)
    if broken.any():
        row = int(broken.argmax())
        raise CpgError(
            f"{name} gave the action {actions[row]} for observation {row}, {observations[row]}: "
            f"return finite numbers"
        )
    return actions


def check_possible(actions: FloatArray, space: ActionSpace, name: str) -> None:
    """Raise CpgError unless all actions [B, A] are possible, but for what float32 rounds."""
    off = np.abs(space.nearest(actions) - actions)
    outside = (off > np.finfo(np.float32).eps * np.maximum(1, np.abs(actions))).any(axis=1)
    if outside.any():
        row = int(outside.argmax())
        possible = f"{space.low} to {space.high}"
        cure = "Clip what it returns, or scale it from the units that it was trained in."
        if isinstance(space, FiniteActions):
            possible = f"one of {len(space.values)} actions such as {space.values[0]}"
            cure = "Return the nearest of the task's actions.values."
        raise CpgError(
            f"{name} left the action space: row {row} is {actions[row]}, and possible is "
            f"{possible}. {cure}"
        )


def check_policy(policy: object, name: str) -> None:
    """Raise ValueError unless something has the method of a `Policy`."""
    if not has(policy, Policy):
        fix = f"give FunctionPolicy({name})" if callable(policy) else "write a class with it"
        raise ValueError(
            f"{name} is {policy!r:.60}, which has no method act(observations [B, O]) -> actions "
            f"[B, A]: {fix}"
        )
    noise_size_of(policy)


def check_repeats(
    policy: Policy, name: str, observations: FloatArray, acted: FloatArray, *, cure: str = _SEEDED
) -> None:
    """Raise CpgError where a policy, asked again about observations [B, O], acts otherwise."""
    again = np.asarray(actions_of(policy, observations), dtype=np.float64)
    if again.shape != acted.shape or not np.allclose(again, acted, rtol=_ROUNDING, atol=_ROUNDING):
        raise CpgError(
            f"{name} gave {acted[0]} and then {again[0]} for one and the same observation, so no "
            f"result could be repeated. {cure}; put dropout into eval mode; keep no state between "
            f"calls."
        )
