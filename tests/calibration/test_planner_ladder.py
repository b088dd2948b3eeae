"""A ladder of planners asks the queries, and the gate tells a good ensemble from a bad one."""

from dataclasses import fields, replace

import pytest
from comparisons import USUAL, ruling_of, running

pytest.importorskip("torch")
pytest.importorskip("dm_control")

from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.policy_comparison.generate import generate_queries
from pytest_cpg.gates.policy_comparison.measure import Spec, measure_comparison
from pytest_cpg.planners import RandomShooting
from pytest_cpg.planners.policies import PlannerPolicy
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import collect_transitions, train_ensemble, train_mlp

pytestmark = [pytest.mark.slow, pytest.mark.trains]

BUDGETS = (64, 16, 4, 1)
CRITERIA = replace(USUAL, resamples=1000)


def ladder(task, dynamics):
    return [
        PlannerPolicy(
            planner=RandomShooting(candidates=budget, horizon=8),
            dynamics=dynamics,
            task=task,
            seed=1,
        )
        for budget in BUDGETS
    ]


def first(transitions, count):
    rows = {field.name: getattr(transitions, field.name) for field in fields(transitions)}
    kept = {name: None if row is None else row[:count] for name, row in rows.items()}
    return replace(transitions, **kept)


@pytest.mark.parametrize(
    ("name", "gap", "candidates"), [("cartpole-swingup", 2.0, 400), ("acrobot-swingup", 0.5, 1200)]
)
def test_the_gate_separates_a_good_ensemble_from_a_bad_one(name, gap, candidates):
    task = TASKS[name](actions="box", action_repeat=4)
    data = collect_transitions(
        task, count=20000, seed=0, episode_steps=100, policy="held-3", with_rewards=True
    )
    policies = ladder(task, train_mlp(data, seed=0, epochs=30))
    queries = generate_queries(
        task,
        policies,
        gap=gap,
        seed=0,
        candidates=candidates,
        horizons=(20,),
        starts="learned",
    )
    found = {}
    for kind, rows, updates in (("good", 20000, 2000), ("bad", 50, 300)):
        model = train_ensemble(
            first(data, rows),
            seed=0,
            members=5,
            updates=updates,
            hidden=64,
            layers=2,
            learning_rate=1e-3,
        )
        result = measure_comparison(
            Spec(name=name, queries=queries, criteria=CRITERIA),
            model,
            running(data),
        )
        found[kind] = ruling_of(result)
        loss = result.loss
        print(
            f"{name}, {len(queries)} queries, {kind} ensemble: {found[kind].label}, "
            f"loss {loss.estimate:.3f} [{loss.low:.3f}, {loss.high:.3f}]"
        )
    assert len(queries) >= 200
    assert found["good"].severity == Severity.GOOD
    # It predicts one step worse than a world in which nothing moves.
    assert found["bad"].severity == Severity.BROKEN
