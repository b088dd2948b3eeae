import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_cpg.planners import ICEM, Greedy, RandomShooting
from pytest_cpg.planners.search import Choice, rate, step_weights

OBJECTIVES = ["best", "sum", "terminal", "peak-and-tail"]


def loop_cost(scores, objective):
    """The cost of one plan's scores, budget already cut off, as a plain loop."""
    if objective == "sum":
        return sum(scores)
    if objective == "terminal":
        return scores[-1]
    if objective == "best":
        return min(scores)
    tail = scores[-max(1, len(scores) // 4) :]
    return min(scores) + 0.3 * sum(tail) / len(tail)


@given(
    hnp.arrays(np.float64, (2, 3, 9), elements=st.sampled_from([0.0, 1.0, 2.5, np.inf])),
    hnp.arrays(np.int64, 2, elements=st.integers(1, 12)),
    st.sampled_from(OBJECTIVES),
    st.sampled_from([None, 1, 4]),
)
def test_a_plan_costs_what_a_plain_loop_says(scores, remaining, objective, execute):
    costs, lengths = rate(scores, remaining, objective=objective, execute=execute)
    for n, k in np.ndindex(2, 3):
        within = list(scores[n, k, : remaining[n]])
        assert costs[n, k] == pytest.approx(loop_cost(within, objective))
        cut = 1 + within.index(min(within)) if execute is None else min(execute, remaining[n])
        assert lengths[n, k] == cut


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_weights_of_steps_are_the_derivative_of_the_cost(objective):
    scores, remaining = np.random.default_rng(0).random((2, 1, 8)), np.array([8, 5])
    weights = step_weights(scores, remaining, objective=objective)
    for step in range(8):
        moved = scores.copy()
        moved[..., step] += 1e-6
        before, after = (rate(s, remaining, objective=objective)[0] for s in (scores, moved))
        assert (after - before) / 1e-6 == pytest.approx(weights[..., step], abs=1e-6)


def test_a_planner_chooses_by_its_own_fields_and_the_defaults_of_those_that_it_lacks():
    assert Choice.of(ICEM(objective="terminal", execute=3)) == Choice(
        objective="terminal", execute=3, ties="earliest"
    )
    assert Choice.of(RandomShooting(ties="published")) == Choice(ties="published")
    assert Choice.of(Greedy()) == Choice()
