"""Small queries about a point on a line, for tests of policy comparison."""

import numpy as np

from pytest_cpg.contracts import BoxActions
from pytest_cpg.gates.policy_comparison.generate import Side, true_returns
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries

SPACE = BoxActions(-np.ones(1), np.ones(1))


class Push:
    """A policy that always does the same."""

    def __init__(self, action):
        self.action = action

    def act(self, observations):
        return np.full((len(observations), 1), self.action)


def arrays(count=6):
    """Return the fields of queries about two pushes, which a test may spoil."""
    starts = np.linspace(-1, 1, count)[:, None]
    return {
        "environment": "line",
        "policies": (Push(1.0), Push(-1.0)),
        "observations_a": starts,
        "observations_b": starts,
        "policy_a": np.zeros(count, dtype=int),
        "policy_b": np.ones(count, dtype=int),
        "horizons": np.full(count, 10),
        "returns_a": np.arange(count) + 1.0,
        "returns_b": 3.5 * np.ones(count),
        "action_space": SPACE,
    }


def line_queries(**changed):
    """Return queries about two pushes with some fields changed."""
    return PolicyQueries(**(arrays() | changed))


def simulated(queries, world):
    """Return what both sides [2, N] earn in a world."""
    sides = (side_of(queries, side) for side in "ab")
    return np.array([true_returns(world, side, queries.act, queries.discount) for side in sides])


def side_of(queries, side):
    return Side(
        states=getattr(queries, f"states_{side}"),
        policies=getattr(queries, f"policy_{side}"),
        horizons=queries.horizons,
        actions=queries.opening(side),
    )


def returns_of(queries):
    return np.array([queries.returns_a, queries.returns_b])
