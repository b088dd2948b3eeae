"""Plans rated as wholes: the score of their last step, and no other asked for."""

from types import SimpleNamespace

import numpy as np
import pytest
from sliders import Arriving, Forgetful, Remembering, Rewarding, Scoring, Slider, Valuing

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.episodes.replay import replay
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import CEM, ICEM, MPPI, PolicyGuided, RandomShooting
from pytest_cpg.planners.search import rate_plans
from pytest_cpg.world_models import OracleDynamics, Rescored, bind

TASK = Slider()
STARTS = sample_starts(TASK, 4, seed=1)
PLANS = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=(4, 6, 5, 1))
LENGTHS = np.array([5, 3, 1, 4])


class Drawing(Forgetful):
    noise_size = 1

    def rollout(self, latents, actions, noise):
        return Slider().rollout(latents, actions + noise)


def plain(observations, actions):
    return observations + actions


class Costly(Forgetful):
    """Has a cost of whole plans, and nothing that rates their steps."""

    decode = None

    def cost(self, latents, actions):
        return Scoring().score(self.rollout(latents, actions)[:, -1])


class Both(Costly):
    def score(self, latents):
        return Scoring().score(latents)


class Disagreeing(Both):
    def score(self, latents):
        return 1 - Scoring().score(latents)


class DrawingCosts(Drawing):
    decode = None

    def cost(self, latents, actions, noise):
        return Scoring().score(self.rollout(latents, actions, noise)[:, -1])

    def score(self, latents):
        return Scoring().score(latents)


MODELS = {
    "oracle": OracleDynamics(TASK),
    "plain": plain,
    "decoder": Forgetful(),
    "memory": Remembering(),
    "score": Scoring(),
    "reward": Rewarding(),
    "reward of both ends": Arriving(),
    "value": Valuing(),
    "noise": Drawing(),
    "cost": Both(),
    "cost and noise": DrawingCosts(),
    "true, score": Rescored(Scoring()),
    "true, decoder": Rescored(Forgetful()),
    "true, value": Rescored(Valuing()),
}


def bound(model):
    return bind(
        model,
        TASK,
        probe_states=STARTS.states,
        probe_actions=np.resize(TASK.actions.values, (4, 1)),
    )


class Counted:
    """A model that notes of how many rows each of its methods was asked."""

    def __init__(self, model):
        self.rows, self._model = {}, model

    def __getattr__(self, name):
        given = getattr(self._model, name)
        if not callable(given):
            return given

        def call(latents, *more):
            self.rows[name] = self.rows.get(name, 0) + latents[..., 0].size
            return given(latents, *more)

        return call


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_costs_what_its_last_step_scores(name):
    model = bound(MODELS[name])
    latents = model.encode(STARTS.states)
    noise = np.random.default_rng(1).normal(size=(*PLANS.shape[:3], 1))
    noise = noise if model.noise_size else None
    costs = model.plan_costs(latents, PLANS, LENGTHS, noise)
    flat = None if noise is None else noise.reshape(-1, 5, 1)
    imagined = model.rollout(np.repeat(latents, 6, axis=0), PLANS.reshape(-1, 5, 1), flat)
    scores = model.score(imagined).reshape(4, 6, 5)
    assert np.array_equal(costs, scores[np.arange(4), :, LENGTHS - 1])


@pytest.mark.parametrize(
    "planner",
    [
        CEM(objective="terminal", execute=1),
        ICEM(objective="terminal"),
        MPPI(objective="terminal"),
        PolicyGuided(policy=lambda seen: -np.sign(seen), objective="terminal"),
    ],
    ids=lambda planner: planner.name,
)
@pytest.mark.parametrize("name", ["oracle", "value", "noise"])
def test_planners_find_the_same_plans_by_whole_plans_as_step_by_step(planner, name, monkeypatch):
    model, remaining = bound(MODELS[name]), np.array([18, 9, 4, 1])

    def planned():
        world = Imagination("learned", TASK.actions, model)
        rngs, noise = ([np.random.default_rng(row) for row in range(4)] for _ in range(2))
        world.plans_for(np.arange(4), 18 - remaining, noise)
        plans = planner.plan(world, world.encode(STARTS.states), rngs, remaining)
        return plans.actions, plans.lengths, world.steps

    whole = planned()
    monkeypatch.delattr(Imagination, "plan_costs")
    for found, expected in zip(whole, planned(), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        (Valuing(), {"rollout": 5, "reward": 5, "terminal_value": 1}),
        (Rewarding(), {"rollout": 5, "reward": 1}),
        (Scoring(), {"rollout": 5, "score": 1}),
    ],
)
def test_what_an_objective_does_not_read_is_not_asked(model, asked):
    counted = Counted(model)
    told = bound(counted)
    world = Imagination("learned", TASK.actions, told)
    world.plans_for(np.arange(4), np.zeros(4, dtype=int))
    latents = told.encode(STARTS.states)
    counted.rows.clear()
    planner = SimpleNamespace(objective="terminal", execute=1)
    rate_plans(planner, world, latents, PLANS, np.full(4, 18))
    # Of so many steps of each plan; a rollout is asked once for all of them.
    rows = counted.rows.pop("rollout")
    assert {"rollout": 5, **{name: n / rows for name, n in counted.rows.items()}} == asked


@pytest.mark.parametrize(("model", "where"), [(Forgetful(), "NaN"), (Valuing(), "infinity")])
def test_a_plan_that_breaks_is_named_with_its_step(model, where, monkeypatch):
    told = bound(model)
    world = Imagination("learned", TASK.actions, told)
    world.plans_for(np.arange(4), np.zeros(4, dtype=int))
    latents = told.encode(STARTS.states)
    broken = float(where)
    monkeypatch.setattr(
        Slider,
        "rollout",
        lambda self, states, actions: np.cumsum(
            np.where(np.arange(5)[:, None] < 3, actions, broken), axis=1
        ).repeat(2, axis=2),
    )
    with pytest.raises(
        WorldModelError, match=f"{where}, .*: episode 0, step 0, imagined step 4 of 5"
    ):
        world.plan_costs(latents, PLANS, np.full(4, 5))


def test_a_rating_cannot_hide_that_a_plan_breaks():
    class Hiding(Scoring):
        def rollout(self, latents, actions):
            return np.where(np.abs(latents[:, None]) > 5, np.nan, super().rollout(latents, actions))

        def score(self, latents):
            return np.nan_to_num(super().score(latents))

    with pytest.raises(WorldModelError, match=r"predicted NaN, .* imagined step 1 of"):
        gate(Hiding(), TERMINAL)


def gate(model, planner):
    design = Design(task=TASK, planner=planner, episodes=6, seed=0)
    return design, measure_gap(design, oracle=OracleDynamics(TASK), learned=model)


TERMINAL = CEM(objective="terminal", execute=1, horizon=5)


def test_a_model_with_a_cost_alone_is_gated_by_planners_that_ask_for_no_steps():
    found = [gate(model, TERMINAL) for model in (Costly(), Both())]
    (design, costly), (_, scoring) = found
    assert costly.swapped == ("dynamics", "score")
    assert costly.rescored is None
    assert np.array_equal(costly.learned.successes, scoring.learned.successes)
    assert np.array_equal(costly.learned.steps, scoring.learned.steps)
    traces = replay(design, oracle=OracleDynamics(TASK), learned=Costly(), episodes=(0,)).traces
    assert np.isfinite(traces[0].learned.predicted).all()


def test_a_cost_that_ignores_the_actions_is_said():
    class Blind(Costly):
        def cost(self, latents, actions):
            return np.abs(latents[:, 0])

    class DrawingBlind(DrawingCosts):
        def cost(self, latents, actions, noise):
            return np.abs(latents[:, 0])

    for blind, other in ((Blind, Costly), (DrawingBlind, DrawingCosts)):
        said = "the model's cost rated all plans alike that it was tried on"
        assert said in " ".join(bound(blind()).notes)
        assert said not in " ".join(bound(other()).notes)


@pytest.mark.parametrize(
    "planner",
    [RandomShooting(), MPPI(), CEM(objective="terminal"), ICEM(objective="sum")],
    ids=repr,
)
def test_a_planner_that_asks_for_steps_is_refused_before_an_arm_is_run(planner, monkeypatch):
    monkeypatch.setattr(ArmRun, "advance", None)
    with pytest.raises(ComponentError, match=f"planner '{planner.name}': scores of the steps") as e:
        gate(Costly(), planner)
    assert 'planner=MPPI(objective="terminal")' in str(e.value)


def test_where_cost_and_score_disagree_it_is_said_which_plans_by_what():
    assert not bound(Both()).notes
    assert bound(Both()).rescored is not None
    model = bound(Disagreeing())
    (note,) = model.notes
    assert "objective='terminal' plans by the cost, any other by the score" in note
    assert model.rescored is None
    latents = model.encode(STARTS.states)
    costs = model.plan_costs(latents, PLANS, LENGTHS)
    assert np.array_equal(costs, bound(Both()).plan_costs(latents, PLANS, LENGTHS))


def test_a_cost_is_asked_once_for_each_plan_and_for_no_longer_one_than_is_left():
    class Noting(Both):
        def cost(self, latents, actions):
            asked.append(actions.shape[1])
            return super().cost(latents, actions)

        def score(self, latents):
            asked.append("score")
            return super().score(latents)

    asked = []
    model = bound(Noting())
    latents = model.encode(STARTS.states)
    asked.clear()
    model.plan_costs(latents, PLANS, LENGTHS)
    # Trying how few rows it may be asked for at once takes calls of its own.
    assert list(dict.fromkeys(asked)) == [1, 3, 4, 5]
