"""What a side earns in the true world is what it pays step by step, up to its end."""

import numpy as np
import pytest
from queries import line_queries, simulated

from pytest_cpg.contracts import TaskError


class Line:
    """A point that moves by its action, is paid where it is, and falls off beyond 3."""

    def observe(self, states):
        return states

    def step(self, states, actions):
        return states + actions

    def reward(self, states, actions):
        return states[:, 0]

    def terminated(self, states):
        return np.abs(states[..., 0]) > 3


def walked(start, first, action, horizon, discount):
    """Return what the point earns, in plain words."""
    total, place = 0.0, start
    for step in range(horizon):
        place += first if step == 0 else action
        total += discount**step * place
        if abs(place) > 3:
            break
    return total


def asked(**changed):
    states = np.linspace(-2, 2, 6)[:, None]
    horizons = np.array([1, 2, 3, 4, 7, 9])
    sides = {"observations": states, "states": states, "actions": -0.5 * np.ones((6, 1))}
    given = {f"{name}_{side}": array for name, array in sides.items() for side in "ab"}
    return line_queries(**(given | {"horizons": horizons, "discount": 0.9} | changed))


def test_returns_stop_at_the_horizon_and_where_the_world_ends():
    queries = asked()
    for side, action in (("a", 1.0), ("b", -1.0)):
        wanted = [
            walked(start, -0.5, action, horizon, 0.9)
            for start, horizon in zip(queries.states_a[:, 0], queries.horizons, strict=True)
        ]
        found = simulated(queries, Line())["ab".index(side)]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_without_first_actions_the_policy_acts_at_once():
    queries = asked(actions_a=None, actions_b=None)
    starts = zip(queries.states_a[:, 0], queries.horizons, strict=True)
    wanted = [walked(start, 1.0, 1.0, horizon, 0.9) for start, horizon in starts]
    np.testing.assert_allclose(simulated(queries, Line())[0], wanted)


def test_a_world_that_diverges_says_where():
    class Diverging(Line):
        def reward(self, states, actions):
            return np.where(states[:, 0] > 1 - 0.5, np.nan, 0)

    with pytest.raises(TaskError, match="diverged in row 4 at step 1, after"):
        simulated(asked(), Diverging())
