"""Too little data, too little training and a wrong constant are told apart.

tests/calibration/test_network_ladder.py has every network and its cures.
"""

import numpy as np
import pytest
from faulty_models import Fault, Late, Puck, drifting, everywhere, heavy, named, perfect

from pytest_cpg.gates.planning_gap.cause import Cause
from pytest_cpg.gates.planning_gap.diagnosis import one_step
from pytest_cpg.gates.planning_gap.diagnosis.evidence import read_training_data
from pytest_cpg.gates.planning_gap.diagnosis.one_step import Steps, term_of
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import Transitions

RNG = np.random.default_rng(0)
BEGUN, ACTIONS = RNG.normal(size=(80, 3)), RNG.uniform(-1, 1, (80, 4, 1))
CHANGE = np.concatenate([0.3 * ACTIONS, 0.1 * ACTIONS**2, 0.2 * ACTIONS], axis=-1)
AFTER = BEGUN[:, None] + CHANGE - 0.2 * np.sin(BEGUN)[:, None]


def steps(answers, idle):
    return Steps(BEGUN, ACTIONS, AFTER, answers, idle)


def transitions(count=200, seed=0):
    observations = everywhere(count, seed)
    actions = np.random.default_rng(seed).uniform(-1, 1, (count, 2))
    return Transitions(
        observations=observations,
        actions=actions,
        next_observations=Puck().step(observations, actions),
    )


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("OFFSET", lambda change: change + np.array([0.5, 0, -0.3])),
        ("TIME STEP", lambda change: 0.5 * change),
        ("DAMPING", lambda change: change - 0.2 * BEGUN[:, None] * [0, 1, 1]),
    ],
)
def test_a_wrong_constant_is_named_by_the_term_that_mends_it(name, changed):
    still = -0.2 * np.sin(BEGUN)
    answers = BEGUN[:, None] + changed(AFTER - BEGUN[:, None])
    assert term_of(steps(answers, BEGUN + changed(still[:, None])[:, 0])).name == name


def test_an_effect_of_actions_that_is_too_weak_is_a_gain_and_a_late_one_a_delay():
    idle = BEGUN - 0.2 * np.sin(BEGUN)
    weak = term_of(steps(idle[:, None] + 0.4 * CHANGE, idle))
    assert (weak.name, weak.claim) == ("GAIN", "the effect of actions times 2.5")
    late = term_of(steps(np.broadcast_to(idle[:, None], AFTER.shape), idle))
    assert late.name == "DELAY"


def test_what_differs_from_place_to_place_is_no_constant():
    idle, bumps = BEGUN - 0.2 * np.sin(BEGUN), 0.3 * np.sin(3 * BEGUN)
    assert term_of(steps(AFTER + bumps[:, None], idle + bumps)) is None
    assert term_of(steps(AFTER, idle)) is None


@pytest.mark.parametrize(
    ("learned", "term"), [(drifting, "OFFSET"), (heavy, "GAIN"), (Late(), "DELAY")]
)
def test_the_term_is_said_first(learned, term):
    found = named(Fault(learned, "DYNAMICS BIAS"))
    assert found.cause == Cause.DYNAMICS_BIAS
    assert found.summary.startswith(f"{term}: single steps are off by ")


class Recalling:
    """Predicts the change of the nearest transition that it has seen: a fit without an error."""

    def __init__(self, seen, blur=0.0):
        from scipy.spatial import cKDTree

        self.seen, self.blur = seen, blur
        self.tree = cKDTree(np.column_stack([seen.observations, seen.actions]))

    def __call__(self, observations, actions):
        nearest = self.tree.query(np.column_stack([observations, actions]))[1]
        change = (self.seen.next_observations - self.seen.observations)[nearest]
        return observations + (1 - self.blur) * change + self.blur * np.sin(7 * observations)


@pytest.mark.parametrize(
    ("blur", "cause", "first"),
    [(0.0, "TOO LITTLE DATA", "Collect more data"), (0.4, "UNDERFIT", "Train longer")],
)
def test_what_was_learned_by_heart_wants_data_and_what_was_not_learned_wants_training(
    blur, cause, first
):
    seen = transitions()
    found = named(Fault(Recalling(seen, blur), cause, seen))
    assert found.cause == cause
    assert found.recommendation.startswith(first)
    without = named(Fault(Recalling(seen, blur), cause))
    assert without.cause == "ONE-STEP ERROR"
    assert without.recommendation.startswith("Compare the one-step loss on held-out data")


@pytest.mark.parametrize(
    ("learned", "cause", "count", "reach"),
    [(drifting, Cause.DYNAMICS_BIAS, 200, 4), (perfect, Cause.NONE, 4000, 1)],
)
def test_bad_coverage_that_is_not_the_cause_is_mentioned(learned, cause, count, reach):
    seen = transitions(count)
    near = np.abs(seen.observations[:, :2]).max(axis=1) < reach
    rows = {name: getattr(seen, name)[near] for name in ("observations", "actions")}
    narrow = Transitions(**rows, next_observations=seen.next_observations[near])
    found = named(Fault(learned, cause, narrow), verdict=Verdict.MODEL_BOTTLENECK)
    assert found.cause == cause
    assert " lie outside the training data, which does not explain it alone: " in found.summary


def test_missing_walls_are_places_and_an_action_that_is_always_wrong_is_none():
    pushes = np.tile([[1.0], [-1.0], [0.0]], (60, 1, 1))
    begun = np.tile(np.arange(3.0)[:, None], (20, 1))
    free = begun[:, None] + pushes
    steps = Steps(begun, pushes, np.clip(free, 0, 2), free, begun)
    assert one_step.right_share(steps, np.array([0.0])) == pytest.approx(2 / 3)
    one_way = Steps(begun, pushes, free, begun[:, None] + np.abs(pushes), begun)
    assert one_step.right_share(one_way, np.array([0.0])) == 0.0


def test_transitions_are_read_from_a_file_and_what_does_not_fit_is_told(tmp_path):
    seen = transitions()
    parts = {name: getattr(seen, name) for name in ("observations", "actions", "next_observations")}
    np.savez(tmp_path / "data.npz", **parts)
    read = read_training_data(tmp_path / "data.npz", size=4, action_size=2)
    np.testing.assert_array_equal(read.transitions.actions, seen.actions)
    np.savez(tmp_path / "odd.npz", **{**parts, "actions": seen.actions[:9]})
    said = read_training_data(tmp_path / "odd.npz", size=4, action_size=2)
    assert said.endswith(
        "200 observations, 9 actions, 200 next_observations: return as many of each"
    )
    said = read_training_data(seen, size=4, action_size=1)
    assert said.startswith("training_data's actions have shape (200, 2): return actions [T, 1]")


@pytest.mark.trains
@pytest.mark.parametrize(
    ("rung", "cause", "cure"),
    [
        (("rocket", 56, 600, 32), "TOO LITTLE DATA", "data"),
        (("crane", 4000, 600, 4), "UNDERFIT", "width"),
        (("crane", 4000, 1200, 32, "gain"), "DYNAMICS BIAS", "constant"),
    ],
)
def test_what_is_advised_first_mends_the_plans_of_a_network(rung, cause, cure):
    pytest.importorskip("torch")
    import network_ladder as ladder

    rung = ladder.Rung(*rung)
    assert ladder.advised(rung, 0)[0] == cause
    assert ladder.mends(rung, 0, cure)
