import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_cpg.contracts import BoxActions, FiniteActions
from pytest_cpg.planners import (
    CEM,
    Chance,
    RandomShooting,
    cut_at_best,
    rollout_steps_per_plan,
)


class Line:
    """A point that moves by its action; the goal is at 3."""

    def __init__(self, actions):
        self.actions = actions

    def rollout(self, latents, actions):
        return latents[:, None] + np.cumsum(actions, axis=1)

    def score(self, latents):
        return np.abs(latents[..., 0] - 3.0)


STEPS = FiniteActions(np.array([[-1.0], [0.0], [1.0]]))
BOX = BoxActions(np.array([-1.0]), np.array([1.0]))
REMAINING = np.array([100])


def streams(count, seed=0):
    return [np.random.default_rng([seed, i]) for i in range(count)]


def loop_cut(scores, cap, ties):
    """The rule as a plain loop: the best step among the first ``cap``."""
    start = cap - 1 if ties == "published" else 0
    best, length = scores[start], start + 1
    for step in range(cap):
        if scores[step] < best:
            best, length = scores[step], step + 1
    return best, length


@given(
    hnp.arrays(np.float64, (3, 4, 6), elements=st.sampled_from([0.0, 1.0, 2.0])),
    hnp.arrays(np.int64, 3, elements=st.integers(1, 9)),
    st.sampled_from(["earliest", "published"]),
)
def test_plans_are_cut_where_a_plain_loop_would_cut_them(scores, remaining, ties):
    best, lengths = cut_at_best(scores, remaining, ties=ties)
    for n, k in np.ndindex(3, 4):
        expected = loop_cut(scores[n, k], min(remaining[n], 6), ties)
        assert (best[n, k], lengths[n, k]) == expected


def test_earliest_and_published_ties_differ_on_a_flat_plan():
    flat = np.zeros((1, 1, 5))
    assert cut_at_best(flat, REMAINING, ties="earliest")[1] == 1
    assert cut_at_best(flat, REMAINING, ties="published")[1] == 5


@pytest.mark.parametrize("actions", [STEPS, BOX], ids=["finite", "box"])
@pytest.mark.parametrize("planner", [RandomShooting(), CEM()], ids=lambda planner: planner.name)
def test_planner_reaches_a_goal_three_steps_away(planner, actions):
    plans = planner.plan(Line(actions), np.zeros((1, 1)), streams(1), REMAINING)
    reached = plans.actions[0, : plans.lengths[0]].sum()
    assert reached == pytest.approx(3.0, abs=0.2)


def test_gaussian_cem_gets_closer_with_more_iterations():
    def miss(iterations):
        planner = CEM(iterations=iterations, horizon=3, samples=24)
        plans = planner.plan(Line(BOX), np.zeros((40, 1)), streams(40), np.full(40, 100))
        return np.mean(
            [abs(a[:n].sum() - 3) for a, n in zip(plans.actions, plans.lengths, strict=True)]
        )

    assert miss(6) < 0.5 * miss(1)


def test_categorical_cem_concentrates_on_the_best_action():
    far = CEM(iterations=4, samples=24, elites=6, horizon=12)

    class Distant(Line):
        def score(self, latents):
            return np.abs(latents[..., 0] - 1000.0)

    plans = far.plan(Distant(STEPS), np.zeros((20, 1)), streams(20), np.full(20, 100))
    assert plans.actions.mean() > 0.6


@pytest.mark.parametrize(
    ("planner", "steps"),
    [(RandomShooting(), 50 * 15), (CEM(), 3 * 24 * 15), (Chance(), 0)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_plan_costs_what_the_planner_says(planner, steps):
    assert rollout_steps_per_plan(planner, STEPS, budget=500) == steps


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomShooting(candidates=0), "candidates must be a whole number of at least 1"),
        (lambda: RandomShooting(horizon=2.5), "horizon must be a whole number"),
        (lambda: CEM(elites=30), "elites must not exceed samples 24, got 30"),
        (lambda: CEM(smoothing=1.0), r"smoothing must lie in \[0, 1\), got 1.0"),
        (lambda: CEM(ties="last"), "ties must be one of"),
    ],
)
def test_a_bad_planner_setting_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
