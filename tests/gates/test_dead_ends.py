"""Dead ends: a score that leads behind a wall is told from a planner that searches too little."""

from dataclasses import replace

import numpy as np
from runs import arm_of

from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.episodes.probe import bound_as_truth
from pytest_cpg.gates.planning_gap.card import card_of
from pytest_cpg.gates.planning_gap.diagnosis.dead_ends import dead_ends
from pytest_cpg.gates.planning_gap.explanation import in_dead_ends
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import RandomShooting
from pytest_cpg.stats import Verdict
from pytest_cpg.tasks.grids import GridTask
from pytest_cpg.world_models import OracleDynamics

PLANNER = RandomShooting(candidates=40, horizon=4)


# The way to the goal leads around a wall.
ROOMS = GridTask(
    name="rooms",
    layout="""
        ###########
        #....#::::#
        #....#::G:#
        #....#::::#
        #....#::::#
        #....#::::#
        #....#::::#
        #....:::::#
        ###########
    """,
    budget=40,
)


class Straight:
    """The rooms, rated by the straight distance to the goal, which leads to the wall."""

    def __init__(self):
        self._task, self._goal = ROOMS, np.array([8.0, 2.0])

    def __getattr__(self, name):
        return getattr(self._task, name)

    def score(self, observations):
        return np.linalg.norm(observations - self._goal, axis=-1)


def found_on(task, planner=PLANNER):
    design = Design(task=task, planner=planner, episodes=12, seed=0)
    starts = sample_starts(task, 12, seed=0)
    truth = bound_as_truth(OracleDynamics(task), design, starts)
    arm = arm_of("oracle", task, planner, truth, starts, seed=0)
    return dead_ends(design, starts, arm), arm


def test_a_straight_distance_leads_the_oracle_into_dead_ends():
    found, arm = found_on(Straight())
    assert arm.success_count < 6
    assert found.are_usual
    assert found.tried == 5


class Silent(Straight):
    """The rooms of an environment that rewards nothing: what rates states is one number."""

    def score(self, observations):
        return np.zeros(np.shape(observations)[:-1])


def test_a_score_that_is_one_number_leads_nowhere():
    task = Silent()
    found, _ = found_on(task)
    assert found.is_flat
    result = measure_gap(
        Design(task=task, planner=PLANNER, episodes=12, seed=0),
        oracle=OracleDynamics(task),
        learned=lambda observations, actions: observations + actions,
    )
    told = in_dead_ends(result)
    assert told.startswith("The score leads nowhere: in all of 5 failed starts")
    assert told.endswith("a function of observations, such as the distance to the goal.")
    room = "gym:stable_worldmodel:swm/TwoRoom-v1,success=terminated"
    told = in_dead_ends(replace(result, design=replace(result.design, task=room)))
    assert ',score=path behind its name, with which planner="preset" solves 30 of 30' in told
    # Where the gate is blind by it, that is what to do, and not to search wider.
    card = str(card_of(result, Verdict.INCONCLUSIVE, model=""))
    assert "The score leads nowhere" in card
    assert "search wider" not in card


def test_a_score_that_leads_has_none():
    found, arm = found_on(ROOMS)
    assert found is None
    assert arm.success_count == 12
    # Too few steps are no dead end either.
    found, arm = found_on(replace(ROOMS, budget=6))
    assert arm.success_count < 9
    assert not found.are_usual


def test_a_gate_tells_of_them_whatever_its_verdict():
    task = Straight()
    result = measure_gap(
        Design(task=task, planner=PLANNER, episodes=12, seed=0),
        oracle=OracleDynamics(task),
        learned=lambda observations, actions: observations + 0.5 * actions,
    )
    told = in_dead_ends(result)
    assert told.startswith("The score leads into dead ends: of 5 failed starts that were looked at")
    assert "such as the length of the shortest path" in told
    assert ",score=path" not in told
    named = replace(result, design=replace(result.design, task="gym:ogbench:pointmaze-large-v0"))
    assert "dead ends" in in_dead_ends(named)
    assert "Give the task a score that leads around: ,score=path behind" in in_dead_ends(named)
    for verdict in (result.verdict, Verdict.PLANNER_BOTTLENECK):
        card = str(card_of(replace(result, verdict=verdict), Verdict.MODEL_BOTTLENECK, model=""))
        assert card.count("The score leads into dead ends") == 1


def test_of_a_model_that_rates_plans_alone_its_rating_is_named_beside_its_dynamics():
    result = measure_gap(
        Design(task=ROOMS, planner=PLANNER, episodes=12, seed=0),
        oracle=OracleDynamics(ROOMS),
        learned=lambda observations, actions: observations - actions,
    )
    assert result.verdict is Verdict.MODEL_BOTTLENECK
    for swapped, is_named in ((("dynamics",), False), (("dynamics", "score"), True)):
        other = replace(result, swapped=swapped, diagnosis=None)
        card = str(card_of(other, Verdict.INCONCLUSIVE, model=""))
        assert ("Where they are right, what loses is how it rates plans" in card) is is_named
