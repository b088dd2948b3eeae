"""Named causes on constructed faults; tests/calibration has every fault with ten seeds."""

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import first, result_of
from faulty_models import (
    Fault,
    OwnReward,
    OwnScore,
    Remembering,
    design_of,
    drifting,
    everywhere,
    far_from_the_goal,
    faults,
    judged,
    mirrored,
    named,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

import pytest_cpg
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.episodes.probe import starts_of
from pytest_cpg.gates.kind import Run
from pytest_cpg.gates.planning_gap.card import cause_of
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis, Measure, Profile
from pytest_cpg.gates.planning_gap.diagnosis import sample
from pytest_cpg.gates.planning_gap.diagnosis.evidence import (
    PERCENTILE,
    Headroom,
    read_training_data,
)
from pytest_cpg.gates.planning_gap.diagnosis.losses import (
    kendall_taus,
    over_episodes,
    upper_quartile,
    value_errors,
)
from pytest_cpg.gates.planning_gap.diagnosis.measures import has_headroom
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.diagnosis.wording import diagnosis_of
from pytest_cpg.gates.planning_gap.figures import profile_figures
from pytest_cpg.gates.planning_gap.kind import PlanningGap, Spec
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.planners import CEM
from pytest_cpg.render.section import cause_lines, text_of
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import OracleDynamics

QUICK = (
    "noise beyond a region",
    "truncated training data",
    "truncated training data, without it",
    "mass too small",
    "ignored actions",
    "growing hidden error",
    "a corner of actions that seems to win",
    "noise as large as three pushes",
    "score with a goal elsewhere",
    "rewards for a goal elsewhere",
    "constant drift, with a memory",
    "planner with 4 short plans",
    "none: perfect",
)


@pytest.mark.parametrize("name", QUICK)
def test_the_right_cause_is_named(name):
    fault = faults()[name]
    # What grows slowly loses few starts.
    episodes = 30 if name.startswith("growing") else 16
    found = named(
        fault, episodes=episodes, verdict=Verdict.MODEL_BOTTLENECK if fault.is_harmless else None
    )
    assert found.cause == fault.cause
    lines = text_of(cause_lines(cause_of(found))).splitlines()
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 80
    said = fault.cause if fault.cause != "NONE" else "no cause named"
    # Pushes that are too strong can be mended before the mass is.
    said = said if not found.is_misread else "ACTION SCALE"
    assert lines[0].startswith(f"  Why the gap is there: {said} (")
    assert decode(Diagnosis, json.loads(json.dumps(encode(found), allow_nan=False))) == found
    drawn = 0 if fault.cause == "PLANNER" else 3 + (fault.trained_on is not None)
    assert len(list(profile_figures(found.profile, found.cause))) == drawn


@pytest.mark.parametrize("name", ["none: perfect", "none: perfect with a memory"])
def test_a_perfect_model_is_measured_as_perfect(name):
    measures = {one.name: one for one in named(faults()[name]).measures}
    for name, value in (("regret", 0), ("ranking", 1), ("3 steps", 0), ("response", 1)):
        one = measures[name]
        assert (one.estimate, one.low, one.high) == pytest.approx([value] * 3)


def test_a_diagnosis_is_the_same_again_but_for_its_time():
    fault = faults()["mirrored actions"]
    once, again = (replace(named(fault), seconds=0.0) for _ in range(2))
    assert once == again


def test_a_model_that_breaks_where_it_is_asked_again_leaves_the_verdict():
    fault = faults()["mirrored actions"]
    design, result, oracle = judged(fault)

    def broken(observations, actions):
        return np.full_like(observations, np.nan)

    found = diagnose(design, oracle=oracle, learned=broken, result=result)
    assert found.cause == Cause.NONE
    assert found.summary == (
        "The diagnosis was broken off: the model was asked again, and it predicted NaN (episode 0, "
        "step 0)"
    )
    assert found.recommendation == ""


class Fragile:
    """Answers until it is told of the diagnosis, as a run's `progress` is."""

    def __init__(self, error):
        self.error, self.is_asked_again = error, False

    def dynamics(self, observations, actions):
        if self.is_asked_again:
            raise self.error
        return mirrored(observations, actions)

    def __call__(self, what, *stage):
        self.is_asked_again = what.startswith("diagnosis")


def measured(fault, learned, progress):
    """The gap of a fault, as the kind of gate measures and explains it."""
    design = design_of(fault)
    spec = Spec(
        task=None, design=lambda _: design, criteria=Criteria(), diagnosed="auto", perturbations={}
    )
    run = Run(
        given={"oracle_dynamics": OracleDynamics(design.task), "training_data": None},
        execution=Execution(),
        task=lambda _: design.task,
        progress=progress,
    )
    return PlanningGap().measure(spec, learned, run)


def explained(fragile):
    return measured(faults()["mirrored actions"], fragile.dynamics, fragile)


def test_a_weak_planner_is_named_by_default():
    fault = faults()["planner with 4 short plans"]
    result = measured(fault, fault.learned, Fragile(None))
    assert result.verdict == Verdict.PLANNER_BOTTLENECK
    assert result.diagnosis.cause == Cause.PLANNER


def test_no_planner_is_weak_for_what_a_perturbation_makes_impossible():
    result = pytest_cpg.evaluate(
        "two-room",
        lambda observations, actions: observations,
        planner="preset",
        perturbation="action-noise-3",
        episodes=20,
        cache=None,
        diagnose="always",
    ).result
    assert result.oracle.success_rate < 0.5
    assert result.diagnosis.cause == Cause.NONE, result.diagnosis


def test_two_causes_are_named_where_neither_is_enough():
    # With a model that ignores actions no plan is better; with so much noise none is told apart.
    found = named(faults()["ignored actions, with noise"])
    assert (found.cause, found.second) == (Cause.NOISE, Cause.ACTION_BLIND)
    cause = cause_of(found)
    assert cause_lines(cause)[0].text.startswith("  Why the gap is there: NOISE and ACTION BLIND (")
    assert "Neither is enough by itself." in cause.text


class Mistaken(OwnScore):
    """Wrong dynamics beside a wrong score, of observations that it decodes."""

    def rollout(self, latents, actions):
        return OwnReward(mirrored).rollout(latents, actions)

    def decode(self, latents):
        return latents


def test_dynamics_are_named_beside_a_score_where_another_score_would_not_help():
    found = named(Fault(Mistaken(sign=0.0), ""))
    assert (found.cause, found.second) == (Cause.SCORE_HEAD, Cause.DYNAMICS_BIAS)


def test_won_episodes_are_asked_about_beside_lost_ones():
    fault = faults()["truncated training data, without it"]
    design, result, oracle = judged(fault, episodes=30)
    found = diagnose(design, oracle=oracle, learned=fault.learned, result=result)
    won = set(found.episodes) - set(result.lost_episodes)
    assert len(found.episodes) == 5
    assert len(won) == min(1, int(result.learned.success_count))


def test_whatever_a_model_raises_where_only_a_diagnosis_asks_it_leaves_the_verdict():
    result = explained(Fragile(LookupError("outside\n  of the map")))
    assert result.verdict == Verdict.MODEL_BOTTLENECK
    said = "The diagnosis was broken off: LookupError: outside of the map"
    assert result.diagnosis.summary == said
    with pytest.raises(KeyboardInterrupt):
        explained(Fragile(KeyboardInterrupt()))


def test_decisions_that_are_asked_about_in_parts_name_the_same_cause(monkeypatch):
    fault = faults()["mass too small"]
    design, result, oracle = judged(fault)

    def diagnosed():
        return diagnose(design, oracle=oracle, learned=fault.learned, result=result)

    whole = diagnosed()
    monkeypatch.setattr("pytest_cpg.episodes.decisions._MOST_NUMBERS", 30_000)
    parts = diagnosed()
    assert (parts.cause, parts.decisions) == (whole.cause, whole.decisions)
    assert parts.measures == whole.measures


@dataclass(frozen=True)
class Warm:
    """A planner that takes no plan for its first: ``memory`` has no default."""

    horizon: int = 10
    name: str = "warm"
    is_warm_started = True

    def plan(self, world_model, latents, rngs, remaining, memory):
        search = CEM(horizon=self.horizon, samples=48, elites=8, warm_start=True)
        return search.plan(world_model, latents, rngs, remaining, memory)


def test_a_planner_that_has_to_be_told_of_its_last_plan_is_told_that_there_is_none():
    fault = replace(faults()["mirrored actions"], planner=Warm())
    assert named(fault).cause == fault.cause


def test_what_an_arm_did_is_what_led_it_from_state_to_state():
    design, result, _ = judged(faults()["mirrored actions"])
    task, starts = design.task, starts_of(design)
    for arm in (result.learned, result.oracle):
        assert [len(actions) for actions in arm.actions] == arm.steps.tolist()
        for start, actions, is_solved in zip(
            starts.states, arm.actions, arm.successes, strict=True
        ):
            now, solved = start[None], []
            for action in actions:
                now = task.step(now, action[None])
                solved.append(bool(task.success(now, action[None])[0]))
            assert solved == [False] * (len(solved) - 1) + [is_solved]


class Lifted(OwnReward):
    """The same reward, and a constant."""

    def __init__(self, constant):
        super().__init__(drifting)
        self.constant = constant

    def reward(self, latents, actions, reached):
        return super().reward(latents, actions, reached) + self.constant


def test_a_constant_in_the_reward_changes_nothing():
    by_return = faults()["mirrored actions, with rewards"].planner
    usual, lifted = (
        named(Fault(Lifted(constant), "", planner=by_return)) for constant in (0.0, -1024.0)
    )
    assert usual.cause == lifted.cause == Cause.DYNAMICS_BIAS
    for one, other in zip(usual.measures, lifted.measures, strict=True):
        assert one.text == other.text
        assert one.estimate == pytest.approx(other.estimate)


class Heedless(Remembering):
    """Remembers its own predictions, and never looks again."""

    def update(self, latents, actions, observations):
        return self.rollout(latents, actions[:, None])[:, 0]

    def decode(self, latents):
        return latents


def test_a_memory_that_follows_itself_is_judged_by_what_is_observed():
    found = {named(Fault(kind(mirrored), "")).cause for kind in (Heedless, Remembering)}
    assert found <= {Cause.DYNAMICS_BIAS, Cause.ONE_STEP_ERROR}


def test_a_score_of_what_a_memory_holds_is_not_blamed_where_nothing_shows_the_memory():
    model = Heedless(mirrored)
    model.decode, model.score = None, OwnScore().score
    found = named(Fault(model, ""))
    by_dynamics = {measure.name: measure for measure in found.measures}["dynamics"]
    assert by_dynamics.high < 0.5
    assert found.cause == Cause.NONE


class Ending(OwnReward):
    """Pays nothing from an end on that it alone believes in, where all else costs."""

    def encode(self, observations):
        return np.concatenate([observations, np.zeros((len(observations), 1))], axis=1)

    def rollout(self, latents, actions):
        seen = super().rollout(latents[:, :4], actions)
        is_end = np.hypot(seen[..., 0] - 4.0, seen[..., 1]) < 1.5
        is_over = np.logical_or.accumulate(np.hstack([latents[:, 4:] > 0, is_end]), axis=1)
        return np.concatenate([seen, is_over[:, 1:, None]], axis=2)

    def decode(self, latents):
        return latents[..., :4]

    def reward(self, latents, actions, reached):
        return -OwnScore().score(reached[..., :4]) * (1 - latents[..., 4])


def test_an_end_that_the_model_alone_believes_in_is_exploited():
    by_return = faults()["none: perfect with rewards"].planner
    assert named(Fault(Ending(), "", planner=by_return)).cause == Cause.EXPLOITATION


class DrawingReward(OwnReward):
    noise_size = 4

    def rollout(self, latents, actions, noise):
        return super().rollout(latents, actions) + noise


def test_noise_is_told_from_rewards_that_see_it():
    planner = faults()["none: perfect with rewards"].planner
    fault = Fault(DrawingReward(), "", planner=planner)
    found = named(fault, verdict=Verdict.MODEL_BOTTLENECK)
    assert found.cause == Cause.NOISE
    assert {"noise", "dynamics"} <= {measure.name for measure in found.measures}


@pytest.mark.parametrize("objective", ["sum", "terminal"])
def test_plans_are_worth_what_the_planner_takes_them_for(objective):
    planner = CEM(horizon=10, samples=24, elites=4, iterations=3, objective=objective, execute=1)
    fault = faults()["mirrored actions"]
    found = named(replace(fault, planner=planner), verdict=Verdict.MODEL_BOTTLENECK)
    assert found.cause == Cause.DYNAMICS_BIAS
    perfect = named(Fault(OwnScore(), "", planner=planner), verdict=Verdict.MODEL_BOTTLENECK)
    regret, ranking = (measure.estimate for measure in perfect.measures[:2])
    assert (regret, ranking) == (0, 1)


class Planning(OwnReward):
    def plan(self, latents, rngs, remaining):
        return np.zeros((len(latents), 10, 2)), np.ones(len(latents), dtype=int)


def test_models_whose_answers_cannot_be_compared_are_not_diagnosed():
    fault = faults()["mirrored actions"]
    design, result, oracle = judged(fault)

    def said(design, learned):
        found = diagnose(design, oracle=oracle, learned=learned, result=result)
        assert found.cause == Cause.NONE
        return found.summary

    perturbed = replace(design, perturbation=object())
    assert "a perturbed gate is not diagnosed" in said(perturbed, fault.learned)
    assert "a model that plans itself is not diagnosed" in said(design, Planning())


@pytest.mark.parametrize(
    ("loss", "cause"), [(None, "SCORE HEAD"), (0.2, "SCORE HEAD"), (-0.1, "NONE")]
)
def test_a_score_that_leads_the_true_dynamics_to_the_goal_is_no_cause(loss, cause, monkeypatch):
    fault = faults()["score with a goal elsewhere"]
    design, result, oracle = judged(fault)
    share = None if loss is None else replace(result.interval, low=loss)

    def told(evidence, result, **facts):
        names = ("verdict", "oracle", "swapped")
        known = {name: getattr(result, name) for name in names}
        return diagnosis_of(evidence, SimpleNamespace(**known, scoring_share=share), **facts)

    monkeypatch.setattr(sample, "diagnosis_of", told)
    found = diagnose(design, oracle=oracle, learned=fault.learned, result=result)
    assert found.cause.value == cause


def test_results_carry_their_diagnosis_and_old_ones_have_none():
    result = result_of(first(19, 20), first(3, 20))
    found = Diagnosis(
        cause=Cause.COVERAGE,
        summary="s",
        recommendation="r",
        measures=(Measure(name="regret", estimate=0.5, low=0.1, high=0.9, text="t"),),
        profile=Profile(ranking=(0.5, 0.25)),
        episodes=(3, 4),
        decisions=7,
        seconds=0.5,
    )
    again = GateResult.from_json(replace(result, diagnosis=found).to_json())
    assert again.diagnosis == found
    of_one_cause = json.loads(replace(result, diagnosis=found).to_json())
    del of_one_cause["diagnosis"]["second"]
    assert GateResult.from_json(json.dumps(of_one_cause)).diagnosis == found
    old = json.loads(result.to_json())
    del old["diagnosis"]
    assert GateResult.from_json(json.dumps(old)).diagnosis is None


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 2.0, np.inf]), st.sampled_from([0.0, 1.0, 3.0])),
        min_size=2,
        max_size=8,
    )
)
def test_tau_agrees_with_scipy(pairs):
    x, y = np.array(pairs).T
    expected = kendalltau(np.where(np.isinf(x), 9, x), y).statistic
    assert kendall_taus(x[None], y[None])[0] == pytest.approx(expected, nan_ok=True)


def test_two_episodes_bound_nothing():
    assert over_episodes(np.array([1.0, 2.0, np.nan])) is None


def test_numbers_without_finite_bounds_are_not_known():
    assert over_episodes(np.array([1e200, 2e200, -1e200, 0.0])) is None


@pytest.mark.parametrize(("solved", "is_proven"), [(0, False), (1, False), (2, False), (3, True)])
def test_headroom_has_to_exceed_the_oracles_rate(solved, is_proven):
    assert has_headroom(Headroom(solved, 5), 0.11) is is_proven


def test_one_training_state_in_a_hundred_lies_outside_and_far_ones_do():
    trained = read_training_data(everywhere(), size=4, action_size=2)
    new = trained.coverage(everywhere(500, seed=5), np.zeros(500, dtype=int))
    assert (new.trained > 1).mean() == pytest.approx(1 - PERCENTILE / 100, abs=1e-3)
    assert new.is_outside.mean() < 0.05
    assert (trained.distances(np.array([[20.0, 0, 0, 0]])) > 1).all()


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
def test_training_data_is_read_from_a_path(tmp_path, name):
    path, data = tmp_path / name, far_from_the_goal(200)
    np.save(path, data) if name.endswith("y") else np.savez(path, observations=data)
    read = read_training_data(path, size=4, action_size=2)
    assert read.threshold == read_training_data(data, size=4, action_size=2).threshold


@pytest.mark.parametrize(
    ("given_data", "said"),
    [
        (None, "return the data it was trained on from a training_data fixture"),
        (np.zeros((200, 3)), "training_data has shape (200, 3): return observations [T, 4]"),
        (np.full((200, 4), np.nan), "training_data holds what is no finite number"),
        (np.zeros((20, 4)), "training_data has 20 rows, and 50 are needed"),
        ({"a": 1}, "training_data is a dict: return an array or a path"),
        ("nowhere.npy", "training_data nowhere.npy cannot be read: "),
    ],
)
def test_unusable_training_data_is_told_and_breaks_nothing(given_data, said):
    assert read_training_data(given_data, size=4, action_size=2).startswith(said)


def test_training_data_under_another_name_or_kind_says_what_to_write(tmp_path):
    np.savez(tmp_path / "data.npz", obs=everywhere(), actions=everywhere())
    said = read_training_data(tmp_path / "data.npz", size=4, action_size=2)
    assert said.endswith("has no array named observations, only obs, actions")
    (tmp_path / "data.csv").write_text("1,2\n")
    said = read_training_data(tmp_path / "data.csv", size=4, action_size=2)
    assert said.endswith("Write numpy.save('data.npy', observations)")
    assert "cannot be read" in read_training_data("", size=4, action_size=2)


@pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")
@pytest.mark.parametrize("odd", [1.0, np.inf, np.nan])
def test_upper_quartiles_are_those_of_what_is_known(odd):
    values = np.random.default_rng(0).random((20, 7, 3))
    values[values < 0.3] = odd
    values[3, :, 1] = odd
    with np.errstate(invalid="ignore"):
        expected = np.nanpercentile(values, 75, axis=1)
    np.testing.assert_array_equal(upper_quartile(values), expected)


def test_pickled_training_data_is_refused(tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "cannot be read" in read_training_data(path, size=4, action_size=2)


def test_a_value_error_is_the_distance_of_scores_to_go_in_deviations_of_the_true_ones():
    inf = np.inf
    # Of two chosen plans and three random ones, of two steps: the last counts.
    truth = np.array([[9, 9, 0, 1, 2], [9, 9, 0, 2, inf], [9, 9, 3, 3, 3]], dtype=float)
    model = np.array([[0, 0, 0.5, 0.5, 2.5], [0, 0, 1, 2, 7], [0, 0, 1, 2, 3]], dtype=float)
    both = ("kept", truth), ("predicted", model)
    found = SimpleNamespace(
        **{name: np.stack([np.zeros_like(last), last], axis=2) for name, last in both},
        objective="terminal",
        remaining=np.full(3, 9),
        episodes=np.array([4, 4, 5]),
    )
    # A plan that diverges is left out; where all are worth the same, there is no unit.
    errors = value_errors(found)
    assert errors[0] == pytest.approx((0.5 + 0.5) / (np.std([0, 1, 2]) + np.std([0, 2])))
    assert np.isnan(errors[1])
    found.predicted = found.kept
    assert value_errors(found)[0] == 0
