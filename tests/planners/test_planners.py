from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from faulty_models import Puck
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from runs import arm_of

from pytest_cpg.contracts import BoxActions, ComponentError, FiniteActions, Plans
from pytest_cpg.episodes.design import Starts, sample_starts
from pytest_cpg.planners import (
    CEM,
    ICEM,
    MPPI,
    BeamSearch,
    Chance,
    GradientMPC,
    Greedy,
    PolicyGuided,
    RandomShooting,
    cut_at_best,
    rollout_steps_per_plan,
    widened,
)
from pytest_cpg.planners.confidence import with_confidences
from pytest_cpg.planners.policies import PlannerPolicy
from pytest_cpg.planners.search import choice_of, rate, step_weights
from pytest_cpg.tasks.grids import two_room
from pytest_cpg.world_models import Ensemble, OracleDynamics, SampledEnsemble, bind


class Cart:
    """A task and its own true model: a cart is pushed until it stands still at 0."""

    budget, observation_size, control_period, name, versions = 30, 2, 0.1, "cart", {}

    def __init__(self, actions):
        self.actions = actions

    def rollout(self, states, actions):
        speeds = states[:, None, 1:] + 0.1 * np.cumsum(actions, axis=1)
        return np.concatenate([states[:, None, :1] + 0.1 * np.cumsum(speeds, axis=1), speeds], 2)

    def step(self, states, actions):
        return self.rollout(states, actions[:, None])[:, 0]

    def encode(self, states):
        return states

    def score(self, states):
        return np.abs(states[..., 0]) + 0.3 * np.abs(states[..., 1])

    def reward(self, states, actions):
        return -self.score(states)

    def success(self, states, actions):
        return self.score(states) < 0.05


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
@pytest.mark.parametrize(
    "planner",
    [RandomShooting(), CEM(), ICEM(objective="best", execute=None), MPPI(execute=None)],
    ids=lambda planner: planner.name,
)
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
    [
        (RandomShooting(), 50 * 15),
        (CEM(), 3 * 24 * 15),
        (CEM(warm_start=True), 3 * 24 * 15),
        (Chance(), 0),
        # A round has the samples of the last one divided by 1.25, kept ones and the mean included.
        (ICEM(), (32 + 25 + 20) * 15),
        (MPPI(), 2 * 50 * 15),
        # The mean itself has to be imagined to be cut.
        (MPPI(execute=None), (2 * 50 + 1) * 15),
        # 3 and 9 plans are looked at only once they outnumber the beam.
        (BeamSearch(width=4, horizon=4), 9 * 2 + 12 * 3 + 12 * 4),
        (Greedy(), 3),
    ],
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
        (lambda: CEM(smoothing=1.0), r"smoothing must be a number in \[0, 1\), got 1.0"),
        (lambda: CEM(ties="last"), "ties must be one of"),
        (lambda: CEM(objective="mean"), "objective must be one of .*, got 'mean'"),
        (lambda: CEM(execute=16), "execute must not exceed horizon 15, got 16"),
        (lambda: CEM(correlation=1.0), r"correlation must be a number in \(-1, 1\), got 1.0"),
        (lambda: CEM(minimum_deviation=-1.0), "minimum_deviation must be a number of at least 0"),
        (lambda: ICEM(elites=20), "elites must not exceed half of samples 32, got 20"),
        (lambda: CEM(warm_start="yes"), "warm_start must be True or False, got 'yes'"),
        (lambda: CEM(smoothing=None), "smoothing must be a number in .*, got None"),
        (lambda: CEM(minimum_deviation="x"), "minimum_deviation must be a number .*, got 'x'"),
        (lambda: ICEM(colour="pink"), "colour must be a number of at least 0, got 'pink'"),
        (lambda: ICEM(keep="a"), "keep must be a number in .*, got 'a'"),
        (lambda: ICEM(decay="a"), "decay must be a number of .*, got 'a'"),
        (lambda: MPPI(temperature="x"), "temperature must be a number above 0, got 'x'"),
        (lambda: GradientMPC(learning_rate="x"), "learning_rate must be .* above 0, got 'x'"),
        (lambda: GradientMPC(learning_rate=None), "learning_rate must be .* above 0, got None"),
        (lambda: PolicyGuided(policy=abs, noise="x"), "noise must be a number .*, got 'x'"),
        (lambda: PolicyGuided(policy=abs, correlation=True), "correlation .*, got True"),
        (lambda: ICEM(decay=0.5), "decay must be a number of at least 1, got 0.5"),
        (lambda: ICEM(keep=2), r"keep must be a number in \[0, 1\], got 2"),
        (lambda: ICEM(colour=-1), "colour must be a number of at least 0, got -1"),
        (lambda: MPPI(temperature=0), "temperature must be a number above 0, got 0"),
        (lambda: GradientMPC(learning_rate=0), "learning_rate must be a number above 0, got 0"),
        (lambda: GradientMPC(gradients="exact"), "gradients must be one of .*'exact'"),
        (lambda: Greedy(horizon=3), "looks 1 step ahead, got horizon=3. To look farther"),
    ],
)
def test_a_bad_planner_setting_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_cem_names_what_differs_from_the_published_experiment():
    assert repr(CEM(execute=2, warm_start=True)) == (
        "CEM(iterations=3, samples=24, elites=6, horizon=15, smoothing=0.1, ties='earliest', "
        "execute=2, warm_start=True)"
    )


STARTS = Starts(
    episodes=np.arange(20),
    states=np.random.default_rng(0).uniform(-1, 1, (20, 2)),
    seeds=np.arange(20),
    skipped=0,
)
LEVELS = FiniteActions(np.array([[-1.0], [-0.5], [0.0], [0.5], [1.0]]))


def successes(planner, actions):
    cart = Cart(actions)
    return arm_of("oracle", cart, planner, cart, STARTS, seed=0).successes.sum()


@pytest.mark.parametrize("actions", [LEVELS, BOX], ids=["finite", "box"])
@pytest.mark.parametrize(
    "planner",
    [CEM(objective="sum", execute=1, warm_start=True), ICEM(), MPPI()],
    ids=lambda planner: planner.name,
)
def test_planning_anew_from_the_last_plan_solves_what_random_shooting_does_not(planner, actions):
    assert successes(RandomShooting(), actions) < 14
    assert successes(planner, actions) >= 17


def test_planning_by_gradient_solves_what_random_shooting_does_not():
    planner = GradientMPC(iterations=5, candidates=1)
    assert successes(planner, BOX) >= 17
    # Six plans are rated, and moved by both sides of each of 15 actions five times.
    assert rollout_steps_per_plan(planner, BOX, budget=500) == (6 + 5 * 2 * 15) * 15


def test_a_wider_search_is_the_same_one_with_more_plans():
    assert widened(ICEM(samples=20, objective="terminal"), 4) == ICEM(
        samples=80, objective="terminal"
    )
    assert widened(BeamSearch(width=2), 4) == BeamSearch(width=8)
    assert widened(GradientMPC(candidates=1), 4) == GradientMPC(candidates=4)
    # Nothing to widen.
    assert widened(Chance(), 4) is None
    assert widened(object(), 4) is None


@pytest.mark.parametrize(
    "planner",
    [
        MPPI(samples=4, iterations=1, horizon=8),
        CEM(samples=6, elites=3, horizon=8, warm_start=True),
    ],
    ids=lambda planner: planner.name,
)
def test_a_warm_started_search_solves_more_when_it_is_wider(planner):
    task = Puck()
    starts = sample_starts(task, 30, seed=0)
    probe = {"probe_states": starts.states[:2], "probe_actions": np.zeros((2, 2))}
    model = bind(OracleDynamics(task), task, **probe)
    alone, wider = (
        arm_of("oracle", task, one, model, starts, seed=0).success_count
        for one in (planner, widened(planner, 4))
    )
    assert alone < wider == 30


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
    assert choice_of(ICEM(objective="terminal", execute=3)) == {
        "objective": "terminal",
        "execute": 3,
    }
    assert choice_of(RandomShooting(ties="published")) == {"objective": "best", "ties": "published"}
    assert choice_of(Greedy()) == {"objective": "best"}


ACTIONS = FiniteActions(np.array([[-1.0], [0.5], [1.0]]))
EPISODES = 12


class Waves:
    """A point moved by its action over a landscape of many hills, rounded so that plans tie."""

    actions = ACTIONS

    def rollout(self, latents, actions):
        return latents[:, None] + np.cumsum(actions, axis=1)

    def score(self, latents):
        return np.round(np.sin(3 * latents[..., 0]) + 0.1 * np.abs(latents[..., 0]), 1)


LATENTS = np.linspace(-3, 3, EPISODES)[:, None]


def searched(planner, remaining=50):
    remaining = np.full(EPISODES, remaining)
    rngs = [np.random.default_rng(0) for _ in range(EPISODES)]
    return planner.plan(Waves(), LATENTS, rngs, remaining)


def by_brute_force(start, horizon, remaining):
    best, found = np.inf, None
    for plan in product(ACTIONS.values[:, 0], repeat=horizon):
        scores = Waves().score(start + np.cumsum(plan)[:remaining, None])
        if scores.min() < best:
            best, found = scores.min(), (*plan, 1 + int(scores.argmin()))
    return found


@pytest.mark.parametrize("remaining", [2, 50])
def test_a_beam_that_holds_all_plans_finds_what_brute_force_finds(remaining):
    plans = searched(BeamSearch(width=27, horizon=4), remaining)
    for start, actions, length in zip(LATENTS[:, 0], plans.actions, plans.lengths, strict=True):
        assert (*actions[:, 0], length) == by_brute_force(start, 4, remaining)


def test_a_narrow_beam_comes_near_to_all_plans_at_a_part_of_the_cost():
    def score_of(plans):
        moved = LATENTS + np.cumsum(plans.actions[..., 0], axis=1)
        return Waves().score(moved[..., None]).min(axis=1).mean()

    everything, greedy = searched(BeamSearch(width=3**5, horizon=6)), searched(Greedy())
    beam = searched(BeamSearch(width=4, horizon=6))
    assert score_of(everything) <= score_of(beam) < score_of(greedy)


@pytest.mark.parametrize("objective", ["best", "terminal"])
def test_plans_rated_some_at_a_time_are_those_rated_at_once(monkeypatch, objective):
    cart = Cart(BoxActions([-1.0], [1.0]))
    seeds = np.arange(3)
    states = np.array([np.random.default_rng(seed).uniform(-1, 1, 2) for seed in seeds])
    starts = Starts(episodes=seeds, states=states, seeds=seeds, skipped=0)
    planner = CEM(samples=10, horizon=5, objective=objective, execute=2)
    asked = []

    class Noted(Cart):
        def rollout(self, states, actions):
            asked.append(len(states))
            return super().rollout(states, actions)

    whole = arm_of("oracle", cart, planner, cart, starts, seed=0)
    # Four plans of five steps in three episodes, of two numbers each.
    monkeypatch.setattr("pytest_cpg.planners.search._ROOM", 4 * 5 * 3 * 2 * 8)
    noted = Noted(cart.actions)
    parts = arm_of("oracle", cart, planner, noted, starts, seed=0)
    assert set(asked[:3]) == {12, 6}
    np.testing.assert_array_equal(parts.returns, whole.returns)
    np.testing.assert_array_equal(np.concatenate(parts.actions), np.concatenate(whole.actions))
    np.testing.assert_array_equal(parts.model_steps, whole.model_steps)


@pytest.mark.parametrize("kind", ["elite-spread", "value-gap"])
@pytest.mark.parametrize("planner", [RandomShooting, CEM, ICEM])
def test_a_search_says_how_sure_it_is_and_plans_the_same(planner, kind):
    task = two_room(budget=30)
    starts = sample_starts(task, 8, seed=1)
    probe = {"probe_states": starts.states[:2], "probe_actions": task.actions.values[:2]}
    model = bind(OracleDynamics(task), task, **probe)
    bare, told = (
        arm_of("oracle", task, planner(**more), model, starts, seed=0)
        for more in ({}, {"confidence": kind})
    )
    assert bare.confidences is bare.risk_at(0.5) is None
    assert all(map(np.array_equal, bare.actions, told.actions))
    assert len(set(told.confidences)) > 1
    assert (told.confidences <= 0).all() == (kind == "elite-spread")
    assert told.risk_at(1) == pytest.approx(1 - told.success_rate)
    assert repr(planner()) == repr(planner(confidence=kind))


def _further(observations, actions):
    return observations + 3 * actions


_VECTORISED = SampledEnsemble(
    lambda o, a: (np.stack([o + a, o + 3 * a]), np.zeros((2, *o.shape))),
    members=2,
    observation_size=2,
)


@pytest.mark.parametrize("planner", [RandomShooting, CEM, ICEM])
@pytest.mark.parametrize(
    "model",
    [*(Ensemble([np.add, _further], how) for how in ("mean", "sampled")), _VECTORISED],
    ids=repr,
)
def test_members_of_an_ensemble_disagree_on_the_chosen_plan(planner, model):
    task = two_room(budget=12)
    starts = sample_starts(task, 6, seed=1)
    probe = {"probe_states": starts.states[:2], "probe_actions": task.actions.values[:2]}
    bound, true = (bind(given, task, **probe) for given in (model, OracleDynamics(task)))
    bare, told, oracle = (
        arm_of(name, task, planner(horizon=4, confidence=kind), world, starts, seed=0)
        for name, world, kind in (
            ("learned", bound, None),
            ("learned", bound, "disagreement"),
            ("oracle", true, "disagreement"),
        )
    )
    assert all(map(np.array_equal, bare.actions, told.actions))
    assert (told.confidences < 0).all()
    assert len(set(told.confidences)) > 1
    # What the members imagine is counted, too.
    more = 2 * 4 * told.plans
    np.testing.assert_array_equal(told.model_steps - bare.model_steps, more)
    assert (oracle.confidences == 0).all()


def test_a_disagreement_is_of_costs_in_deviations_of_the_candidates():
    costs = np.array([[0.0, 2.0], [1.0, 1.0]])
    world = SimpleNamespace(
        members=[lambda latents, plans, to=to: np.full((2, 3, 1), to) for to in (1.0, 4.0)],
        score=lambda latents: latents[..., 0],
    )
    plans = Plans(np.zeros((2, 3, 1)), np.ones(2))
    planner = CEM(confidence="disagreement", objective="best")
    asked = planner, world, np.zeros((2, 1)), np.full(2, 9)
    told = with_confidences(*asked, plans, costs=costs, elites=plans.actions[:, None])
    # Of 1 and 4, of which the deviation of all candidates is 1, or nothing.
    assert told.confidences == pytest.approx([-1.5, -1.5])


@pytest.mark.parametrize(("model", "count"), [(np.add, "none"), (Ensemble([np.add]), "1")])
def test_a_model_with_fewer_than_two_members_cannot_disagree(model, count):
    task = two_room(budget=12)
    starts = sample_starts(task, 3, seed=1)
    probe = {"probe_states": starts.states[:2], "probe_actions": task.actions.values[:2]}
    planner = RandomShooting(confidence="disagreement")
    refusal = f"asks every member of an ensemble, and this model has {count}. Give"
    with pytest.raises(ComponentError, match=refusal):
        arm_of("learned", task, planner, bind(model, task, **probe), starts, seed=0)


def test_a_world_that_does_not_say_that_it_is_the_truth_is_none():
    planner = RandomShooting(confidence="disagreement")
    policy = PlannerPolicy(planner=planner, dynamics=np.add, task=two_room(), seed=0)
    with pytest.raises(ComponentError, match="this model has none"):
        policy.act(np.zeros((1, 2)))


def test_the_steps_of_members_are_not_counted_where_no_model_is_known():
    steps = {
        rollout_steps_per_plan(RandomShooting(confidence=kind), STEPS, budget=9)
        for kind in (None, "disagreement")
    }
    assert len(steps) == 1


def test_confidences_of_candidates_are_what_they_say():
    actions, inf = FiniteActions(np.array([[-1.0], [1.0]])), np.inf
    costs = np.array([[0, 2, 2, 2], [1, 1, 1, 1], [inf] * 4, [0, 4, inf, 4]], dtype=float)
    firsts = np.array([[1, 1], [1, -1], [1, 1], [1, 1]], dtype=float)
    plans = firsts[:, :, None, None]

    def told(kind):
        world = SimpleNamespace(actions=actions)
        asked = CEM(confidence=kind), world, np.zeros((4, 1)), np.ones(4)
        bare = Plans(plans[:, 0], np.ones(4))
        return with_confidences(*asked, bare, costs=costs, elites=plans).confidences

    gap = [1.5 / np.std([0, 2, 2, 2]), 0, 0, (8 / 3) / np.std([0, 4, 4])]
    assert told("value-gap") == pytest.approx(gap)
    assert told("elite-spread") == pytest.approx([0, -0.5, 0, 0])
    assert told(None) is None
    with pytest.raises(ValueError, match="confidence must be one of"):
        CEM(confidence="sure")
