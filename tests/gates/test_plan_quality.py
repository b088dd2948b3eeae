"""The score of a plan against a few lines that say the same, and in small worlds."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.gates.choices import has_goal
from pytest_cpg.gates.plan_quality import Edits, ShortOfErrorWarning, agents, cfsim, score
from pytest_cpg.gates.plan_quality.formulas import PlanScore, are_flat, bounded
from pytest_cpg.stats.returns import mean_interval

VALUES = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))
NEIGHBOURS = st.lists(VALUES, min_size=2, max_size=30).filter(lambda known: len(set(known)) > 1)


def by_hand(value, neighbours):
    lo, hi = min(neighbours), max(neighbours)
    return (value - lo) / max(hi - lo, 1e-6)


def scored(value, neighbours):
    return PlanScore(
        value=value,
        neighbours=np.array(neighbours),
        plans=tuple((at,) for at in range(len(neighbours))),
        edits=tuple(map(str, range(len(neighbours)))),
        rollouts=1,
    )


@given(st.integers(2, 50), st.sampled_from([0.9, 0.95, 0.999]))
def test_the_worst_exploitation_is_the_lower_end_of_ones(episodes, level):
    known = mean_interval(np.ones(episodes), unseen=0, level=level).low
    # By which a kind refuses so few episodes that no model misses its limit.
    assert ((1 - level) / 2) ** (1 / episodes) == pytest.approx(known)


@pytest.mark.parametrize(
    ("task", "goal", "goals", "wanted"),
    [
        ("gym:Pendulum-v1", None, None, False),
        ("gym:Pendulum-v1", -0.1, None, True),
        ("gym:Pendulum-v1", None, "goals.npz", True),
        ("maze", None, None, True),
    ],
)
def test_an_environment_has_a_goal_where_its_marker_gives_it_one(task, goal, goals, wanted):
    assert has_goal({"task": task, "goal": goal, "goals": goals}) is wanted


@given(VALUES, NEIGHBOURS)
def test_the_formula_is_as_it_was_published(value, neighbours):
    found = cfsim(np.array([value]), np.array([neighbours]))
    assert found == pytest.approx([by_hand(value, neighbours)])
    assert scored(value, neighbours).score == pytest.approx(found[0])


@given(NEIGHBOURS)
def test_the_best_neighbour_is_worth_one_and_the_worst_nothing(neighbours):
    best, worst = (scored(end(neighbours), neighbours) for end in (max, min))
    assert (best.score, worst.score, best.regret) == (1, 0, 0)
    assert worst.regret == pytest.approx(max(neighbours) - min(neighbours))


@given(NEIGHBOURS, st.floats(1e-3, 1e3))
def test_a_plan_outside_of_its_neighbourhood_leaves_the_unit_interval(neighbours, beyond):
    above, below = (
        scored(max(neighbours) + beyond, neighbours),
        scored(min(neighbours) - beyond, neighbours),
    )
    assert above.score > 1
    assert below.score < 0
    assert above.beats_all
    assert not below.beats_all
    assert (above.bounded, below.bounded) == (1, 0)
    assert (above.regret, above.better) == (0, None)


@given(VALUES, VALUES, NEIGHBOURS)
def test_the_score_falls_with_regret(one, other, neighbours):
    low, high = (scored(value, neighbours) for value in sorted((one, other)))
    assert low.regret >= high.regret
    assert low.score <= high.score
    assert (low.score < high.score) == (low.value < high.value)


@given(VALUES, NEIGHBOURS, st.floats(0.01, 100), VALUES)
def test_affine_rewards_change_nothing(value, neighbours, factor, shift):
    then = scored(value, neighbours)
    now = scored(factor * value + shift, [factor * one + shift for one in neighbours])
    assert now.score == pytest.approx(then.score, rel=1e-6, abs=1e-6)


@given(VALUES, NEIGHBOURS)
def test_bounded_is_the_score_with_the_plan_among_its_neighbours(value, neighbours):
    everybody = [value, *neighbours]
    expected = by_hand(value, everybody)
    assert bounded(cfsim(np.array(value), np.array(neighbours))) == pytest.approx(expected)


def test_a_flat_neighbourhood_gives_nothing_or_a_million_times_the_difference():
    same = scored(2.0, [2.0, 2.0])
    assert (same.score, same.is_flat, same.beats_all, same.regret) == (0, True, False, 0)
    better = scored(2.5, [2.0, 2.0])
    assert better.score == pytest.approx(5e5)
    assert not better.is_flat
    assert are_flat(np.array([0.0, 0.0]), np.array([[0.0, 0.0], [0.0, 1.0]])).tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("value", "neighbours", "said"),
    [
        (np.array([1.0]), np.zeros((1, 0)), "at least one neighbour"),
        (np.array([np.nan]), np.zeros((1, 2)), "finite"),
        (np.array([1.0]), np.array([[0.0, np.inf]]), "finite"),
        (np.array([1.0]), np.zeros((2, 2)), "shapes"),
    ],
)
def test_what_is_no_neighbourhood_is_refused(value, neighbours, said):
    with pytest.raises(ValueError, match=said):
        cfsim(value, neighbours)


class Corridor:
    """Ten places in a row; "on" leads to the next, "back" to the last, and the end is worth 10.

    Every action costs 1. With a ``slip`` an action does nothing that often.
    """

    def __init__(self, slip=0.0, length=3):
        self.slip, self.length = slip, length
        self.steps = 0

    def reset(self, *, seed):
        self.at, self.rng = 0, np.random.default_rng(seed)
        return self.at, {}

    def step(self, action):
        self.steps += 1
        if self.rng.random() >= self.slip:
            self.at = max(0, self.at + {"on": 1, "back": -1, "wait": 0}[action])
        is_there = self.at == self.length
        return self.at, 10.0 * is_there - 1, is_there, False, {}

    def clone(self):
        return copy.deepcopy(self)


EVERY = Edits.among(["on", "back", "wait"])


def replayed(plan, world, seed):
    """Return what a plan is worth, without cloning."""
    world.reset(seed=seed)
    total = 0.0
    for action in plan:
        _, reward, terminated, truncated, _ = world.step(action)
        total += reward
        if terminated or truncated:
            break
    return total


def every_neighbour(plan, actions, swaps=()):
    """Return all plans that are one edit away, by what brute force finds."""
    known = {tuple(other) for other in itertools.product(actions, repeat=len(plan))}
    near = {other for other in known if sum(a != b for a, b in zip(other, plan, strict=True)) == 1}
    return near | {tuple(plan[:length]) for length in range(len(plan))} | set(swaps)


def test_a_plan_that_goes_straight_to_the_end_beats_whatever_is_near():
    plan = ("on", "on", "on")
    found = score(plan, Corridor(), edits=EVERY, k=24, seed=0)
    assert found.value == 7
    assert found.beats_all
    assert found.score > 1
    # It has no more: 6 substitutions, 3 prefixes.
    assert set(found.plans) == every_neighbour(plan, ["on", "back", "wait"])
    assert found.neighbours.tolist() == [replayed(one, Corridor(), 0) for one in found.plans]


def test_a_plan_that_dawdles_is_told_what_to_do_better():
    plan = ("on", "wait", "on", "back", "on", "on")
    found = score(plan, Corridor(), edits=EVERY, k=24, seed=0)
    assert not found.beats_all
    assert found.regret == 3
    assert found.better == "'wait' -> 'on' at 1"
    assert 0 < found.score < 1


def test_an_adversary_that_is_stuck_goes_on_with_the_plan():
    plan = ("wait",) * 6
    found = score(plan, Corridor(), edits=EVERY, k=24, seed=1, search="adversarial")
    # To stop at once is better, and leaves nothing to edit.
    assert found.better == "only the first 0"
    assert every_neighbour(plan, ["on", "back", "wait"]) <= set(found.plans)


def test_an_adversary_edits_what_it_has_found():
    edits = Edits(substitutes=lambda plan, at: ["on", "back"], truncates=False)
    plan = ("wait",) * 5

    class Rewarding(Corridor):
        def step(self, action):
            return None, float(action == "on"), False, False, {}

    single = score(plan, Rewarding(), edits=edits, k=24, seed=0)
    adding = score(plan, Rewarding(), edits=edits, k=24, seed=0, search="adversarial")
    assert single.regret == 1
    assert adding.regret > 1
    assert adding.better.count("'wait' -> 'on'") == adding.regret
    assert adding.score < single.score or adding.score == 0


def test_parts_are_swapped_where_a_domain_says_that_they_are_independent():
    plan = ("a", "b", "c", "d")
    edits = Edits(
        substitutes=lambda plan, at: (),
        truncates=False,
        swaps=lambda plan: [(slice(3, 4), slice(0, 2)), (slice(0, 1), slice(1, 2))],
    )

    class Free(Corridor):
        def step(self, action):
            return None, 0.0, False, False, {}

    found = score(plan, Free(), edits=edits, k=24, seed=0)
    assert set(found.plans) == {("d", "c", "a", "b"), ("b", "a", "c", "d")}
    with pytest.raises(ValueError, match="do not overlap"):
        score(
            plan,
            Free(),
            edits=Edits(
                substitutes=edits.substitutes, swaps=lambda plan: [(slice(0, 3), slice(2, 4))]
            ),
            k=4,
            seed=0,
        )


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["on", "back", "wait"]), min_size=1, max_size=7),
    st.integers(0, 99),
    st.sampled_from(["random", "adversarial"]),
)
def test_neighbours_differ_from_the_plan_and_from_each_other(plan, seed, search):
    found = score(plan, Corridor(), edits=EVERY, k=24, seed=seed, search=search)
    assert len(set(found.plans)) == len(found.plans) == len(found.edits) == len(found.neighbours)
    assert tuple(plan) not in found.plans
    assert len(found.plans) <= 24
    # What is kept of the plan's own states changes no return.
    assert found.neighbours.tolist() == [replayed(one, Corridor(), 0) for one in found.plans]
    again = score(plan, Corridor(), edits=EVERY, k=24, seed=seed, search=search)
    assert again.plans == found.plans


def test_kinds_of_edits_are_drawn_in_equal_shares():
    plan = ("on", "wait") * 20
    found = score(plan, Corridor(length=99), edits=EVERY, k=24, seed=0)
    prefixes = [one for one in found.plans if len(one) < len(plan)]
    assert len(prefixes) == 12


def test_a_stochastic_environment_needs_an_error_and_keeps_to_it():
    plan = ("on",) * 5
    with pytest.raises(ValueError, match=r"stochastic.*error=0\.05"):
        score(plan, Corridor(slip=0.5), edits=EVERY, k=8, seed=3)
    found = score(plan, Corridor(slip=0.3), edits=EVERY, k=8, seed=3, error=0.1)
    assert found.rollouts > 16
    assert found.interval.high - found.interval.low <= 0.2
    assert found.interval.estimate == pytest.approx(found.score)
    for at, one in enumerate(found.plans):
        worth = np.mean([replayed(one, Corridor(slip=0.3), 10_000 + seed) for seed in range(300)])
        assert found.neighbours[at] == pytest.approx(worth, abs=1.2)


def test_rollouts_of_a_deterministic_environment_are_no_more_than_needed():
    found = score(("on", "wait", "on"), Corridor(), edits=EVERY, k=8, seed=0, error=0.01)
    assert found.rollouts == 16
    assert found.interval.low == found.interval.high == pytest.approx(found.score)


def test_the_environment_itself_is_left_alone():
    world = Corridor()
    world.reset(seed=5)
    score(("on", "on"), world, edits=EVERY, k=8, seed=0)
    assert (world.at, world.steps) == (0, 0)


@pytest.mark.parametrize(
    ("plan", "changed", "said"),
    [
        ((), {}, "at least one action"),
        ("on", {}, "need a list of actions, got 'on'"),
        (None, {}, "need a list of actions, got None"),
        (([1],), {}, "can be hashed"),
        (("on",), {"k": 0}, "need k to be a whole number of at least 1, got 0"),
        (("on",), {"k": 2.5}, "at least 1, got 2.5"),
        (("on",), {"seed": None}, "need seed to be a whole number of at least 0, got None"),
        (("on",), {"edits": ["on"]}, r"must be Edits, such as Edits.among\(actions\), got \['on'"),
        (("on",), {"error": 0.1, "level": 95}, "between 0 and 1, such as 0.95, got 95"),
        (("on",), {"error": -1.0}, "above 0"),
        (("on",), {"search": "greedy"}, "'random', 'adversarial'.*'greedy'"),
        (
            ("on",),
            {"edits": Edits(substitutes=lambda plan, at: ["on"], truncates=False)},
            "no neighbours",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused(plan, changed, said):
    options = {"edits": EVERY, "k": 4, "seed": 0, **changed}
    with pytest.raises(ValueError, match=said):
        score(plan, Corridor(), **options)


def test_a_reward_that_is_no_number_is_refused_by_its_action():
    class Broken(Corridor):
        def step(self, action):
            return None, float("nan"), False, False, {}

    with pytest.raises(ValueError, match="'on' was rewarded with nan"):
        score(("on",), Broken(), edits=EVERY, k=4, seed=0)


def test_a_score_leads_with_what_would_be_better_and_by_how_much():
    assert repr(scored(2.0, [0.0, 1.0])) == "PlanScore(better: none of 2, regret 0, score 2.000)"
    assert repr(scored(1.0, [0.0, 2.0])) == "PlanScore(better: 1, regret 1, score 0.500)"


def test_a_score_that_stays_less_sure_than_was_asked_says_so(monkeypatch):
    monkeypatch.setattr(agents, "_MOST_ROLLOUTS", 64)

    class Coin(Corridor):
        def step(self, action):
            return None, self.rng.normal(scale=100.0), False, False, {}

    with pytest.warns(ShortOfErrorWarning, match=r"64 rollouts .*error=0.01 was asked for. Judge"):
        found = score(("on", "wait"), Coin(), edits=EVERY, k=2, seed=0, error=0.01)
    assert found.rollouts == 64


def test_clones_that_share_something_are_refused():
    class Shared(Corridor):
        def clone(self):
            return self

    class Unseeded(Corridor):
        draws = np.random.default_rng(0)

        def step(self, action):
            _, reward, *rest = super().step(action)
            return None, reward + Unseeded.draws.random(), *rest

    for world, error in ((Shared(), None), (Unseeded(), 0.1)):
        with pytest.raises(ValueError, match=r"clone\(\) return a copy that shares nothing"):
            score(("on", "wait", "on"), world, edits=EVERY, k=8, seed=0, error=error)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"clone": None}, r"'World', has no clone\(\). Write one that returns a copy"),
        ({"step": None}, r"'World', has no step\(\). Write step\(action\), which returns obs"),
        ({"reset": None}, r"'World', has no reset\(\). Write reset\(\*, seed\)"),
        ({"reset": lambda self: 0}, r"reset\(\) of .*, a 'World', takes no seed. Write reset"),
        ({"clone": lambda self: None}, r"clone\(\) returned None. Return a copy"),
        (
            {"step": lambda self, action: (0, 1.0, True, {})},
            r"step\('on'\) returned \(0, 1.0, Tr.* inf",
        ),
        ({"step": lambda self, action: None}, r"step\('on'\) returned None. Return observation"),
        (
            {"step": lambda self, action: (0, None, True, False, {})},
            r"action 'on' was rewarded with None. Let step\(\) return a finite number",
        ),
    ],
)
def test_an_environment_that_is_none_is_told_what_to_write(changed, said):
    world = type("World", (Corridor,), changed)()
    with pytest.raises(ValueError, match=said):
        score(("on",), world, edits=EVERY, k=4, seed=0)


def test_a_class_in_place_of_an_environment_is_told_to_make_one():
    with pytest.raises(ValueError, match=r"is a class. Write Corridor\(\.\.\.\)"):
        score(("on",), Corridor, edits=EVERY, k=4, seed=0)
