"""What every planner must do: plans within the actions, by an episode's own latent and stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_cpg.conformance.rows import ROWS, Drift
from pytest_cpg.contracts import (
    ActionSpace,
    BoxActions,
    ComponentError,
    FiniteActions,
    FloatArray,
    IntArray,
    Planner,
    Plans,
)
from pytest_cpg.contracts.lookup import check_complete
from pytest_cpg.contracts.planner import is_warm_started

SPACES: dict[str, ActionSpace] = {
    "finite": FiniteActions(np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])),
    "box": BoxActions(np.array([-2.0, 0.0]), np.array([-1.0, 3.0])),
}
over_spaces = pytest.mark.parametrize("space", SPACES)


def plans_for(
    planner: Planner,
    space: str,
    episodes: list[int],
    remaining: int = 1000,
    memory: FloatArray | None = None,
) -> Plans:
    """Return the plans of some episodes, whose latents and streams are their own."""
    latents = np.array([[0.1 * episode, -0.2 * episode] for episode in episodes])
    rngs = [np.random.default_rng([5, episode]) for episode in episodes]
    left = np.full(len(episodes), remaining)
    try:
        return _asked(planner, Drift(SPACES[space]), latents, rngs, left, memory)
    except ComponentError as error:
        pytest.skip(f"not for {space} actions: {error}")


def _asked(
    planner: Any,
    world: Drift,
    latents: FloatArray,
    rngs: list[np.random.Generator],
    remaining: IntArray,
    memory: FloatArray | None = None,
) -> Plans:
    """Plan, from memory if the planner is warm started."""
    warm = {"memory": memory} if is_warm_started(planner) else {}
    return Plans(*planner.plan(world, latents, rngs, remaining, **warm))


@over_spaces
def test_plans_lie_in_the_action_space(conformance_planner: Planner, space: str) -> None:
    check_complete("planner", "conformance_planner", conformance_planner, Planner)
    actions, lengths, *_ = plans_for(conformance_planner, space, list(range(ROWS)))
    assert actions.shape == (ROWS, conformance_planner.horizon, 2)
    assert lengths.shape == (ROWS,)
    assert np.issubdtype(lengths.dtype, np.integer)
    assert SPACES[space].contains(actions).all()


@over_spaces
@pytest.mark.parametrize("remaining", [1, 3, 1000])
def test_plans_never_outlast_the_budget(
    conformance_planner: Planner, space: str, remaining: int
) -> None:
    lengths = plans_for(conformance_planner, space, list(range(ROWS)), remaining).lengths
    assert (lengths >= 1).all()
    assert (lengths <= min(remaining, conformance_planner.horizon)).all()


@over_spaces
def test_an_episode_gets_the_same_plan_alone_and_in_any_order(
    conformance_planner: Planner, space: str
) -> None:
    together = plans_for(conformance_planner, space, list(range(ROWS)))
    backwards = plans_for(conformance_planner, space, list(reversed(range(ROWS))))
    for episode in range(ROWS):
        alone = plans_for(conformance_planner, space, [episode])
        for plans, row in ((alone, 0), (backwards, ROWS - 1 - episode)):
            assert plans.lengths[row] == together.lengths[episode]
            np.testing.assert_array_equal(plans.actions[row], together.actions[episode])


@over_spaces
def test_plans_from_memory_are_an_episodes_own(conformance_planner: Planner, space: str) -> None:
    if not is_warm_started(conformance_planner):
        pytest.skip("not warm started")
    episodes = list(range(ROWS))
    memory = plans_for(conformance_planner, space, episodes).memory
    assert memory is not None
    assert len(memory) == ROWS
    assert np.isfinite(memory).all()
    begun = np.array(memory)
    begun.flags.writeable = False
    together = plans_for(conformance_planner, space, episodes, memory=begun)
    again = plans_for(conformance_planner, space, episodes, memory=begun)
    assert together.memory is not None
    assert together.memory.shape == begun.shape
    for array in (together.actions, together.memory):
        assert not np.shares_memory(array, begun)
    assert not np.shares_memory(together.actions, together.memory)
    np.testing.assert_array_equal(again.actions, together.actions)
    for row in episodes:
        alone = plans_for(conformance_planner, space, [row], memory=begun[[row]])
        assert alone.memory is not None
        assert alone.lengths[0] == together.lengths[row]
        np.testing.assert_array_equal(alone.actions[0], together.actions[row])
        np.testing.assert_array_equal(alone.memory[0], together.memory[row])


@over_spaces
def test_latents_are_neither_written_to_nor_returned(
    conformance_planner: Planner, space: str
) -> None:
    latents = np.zeros((2, 2))
    rngs = [np.random.default_rng(episode) for episode in range(2)]
    latents.flags.writeable = False
    world = Drift(SPACES[space])
    try:
        actions, *_ = _asked(conformance_planner, world, latents, rngs, np.array([10, 10]))
    except ComponentError as error:
        pytest.skip(f"not for {space} actions: {error}")
    assert not np.shares_memory(actions, latents)


__all__ = [name for name in dir() if name.startswith("test_")]
