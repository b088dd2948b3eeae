"""How many queries a verdict needs, on the maze, in plain numpy."""

import numpy as np
import pytest
from comparisons import KIND, USUAL, card_of, criteria_of, label_of, running
from point_maze import PointMaze
from worlds import published_queries

from pytest_cpg.gates.criterion import Standing
from pytest_cpg.gates.policy_comparison.measure import Spec, measure_comparison


class Slope:
    """Members whose ball rolls in a maze that is tilted, to each a little differently."""

    members = 4
    maze = PointMaze("open")

    def __init__(self):
        apart = np.random.default_rng(0).normal(size=(self.members, 2))
        self.tilt = (0.4 + 0.2 * (apart - apart.mean(axis=0)))[:, None]

    def step(self, observations, actions):
        pushed = np.clip(actions + self.tilt, -1, 1)
        rows = (part.reshape(-1, part.shape[-1]) for part in (observations, pushed))
        after = self.maze.step(*rows).reshape(observations.shape)
        return after, self.maze.reward(after)


@pytest.mark.parametrize(
    ("count", "label"), [(200, "INCONCLUSIVE"), (600, "KNOWS ITS LIMITS")], ids=str
)
def test_a_mediocre_model_is_inconclusive_on_200_queries_and_decided_on_600(count, label):
    rows = np.random.default_rng(0).choice(1500, count, replace=False)
    spec = Spec(name="maze", queries=published_queries("maze-open").take(rows), criteria=USUAL)
    result = measure_comparison(spec, Slope(), running())
    assert label_of(result) == label
    asked = {one.title: one for one in criteria_of(result)}
    is_open = asked["loss"].standing is Standing.OPEN
    assert is_open == (result.loss.low < result.trivial_loss <= result.loss.high)
    assert is_open == (label == "INCONCLUSIVE")
    assert (
        "00 queries in place of 200 would decide" in "".join(card_of(result).texts("do"))
    ) == is_open


def test_what_a_gate_took_is_known_to_the_sum_of_all_gates():
    spec = Spec(name="maze", queries=published_queries("maze-open"), criteria=USUAL)
    known = KIND.forecast(spec, None, cost={"seconds": 14.1}, accepted=None)
    assert (known.cells["time"], known.seconds) == ("14 s", 14.1)
    assert KIND.forecast(spec, None, cost=None, accepted=None).seconds is None
