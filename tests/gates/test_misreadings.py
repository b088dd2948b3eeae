"""Conventions that a model is misread by, and models that none of them is named for."""

import json
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from faulty_models import Fault, Late, OwnReward, OwnScore, Puck, faults, named, perfect
from misreadings import conventions, misreading_in

from pytest_cpg.contracts import FiniteActions
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.card import cause_of
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis
from pytest_cpg.gates.planning_gap.diagnosis.evidence import TrainingStates
from pytest_cpg.gates.planning_gap.diagnosis.misreadings import RandomPlans
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.presets import preset_planner
from pytest_cpg.render.section import cause_lines
from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.grids import two_room
from pytest_cpg.world_models import OracleDynamics

CONVENTIONS = conventions(perfect, Puck())
# What is not off by a convention, whatever else it is off by.
OTHERS = {
    name: fault.learned
    for name, fault in faults().items()
    if not name.startswith(("mass too", "mirrored", "actions at a fiftieth", "planner"))
}
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(6, 32)), RNG.normal(size=(32, 4)) / 6


def untrained(observations, actions):
    return np.tanh(np.concatenate([observations, actions], axis=1) @ WEIGHTS[0]) @ WEIGHTS[1]


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_convention_is_named_with_what_to_type(name):
    model, kind, said = CONVENTIONS[name]
    found = misreading_in(Puck(), model)
    assert found.name == kind
    assert said in f"{found.summary} {found.recommendation}"
    assert "more than 1000 times better" in found.summary


@pytest.mark.parametrize("name", OTHERS)
def test_other_faults_are_no_convention(name):
    assert misreading_in(Puck(), OTHERS[name]) is None


@pytest.mark.parametrize(
    "model",
    [
        untrained,
        lambda o, a: np.zeros_like(o),
        lambda o, a: np.ones_like(o),
        lambda o, a: o.copy(),
        lambda o, a: perfect(o, a) + 0.3 * np.sin(1e4 * o),
        lambda o, a: perfect(o, 0.8 * a),
        lambda o, a: perfect(o * [1, 1, 0.5, 0.5], a),
    ],
    ids=["untrained", "zero", "constant", "still", "noisy", "weak", "damped"],
)
def test_poor_models_are_not_told_of_a_convention(model):
    assert misreading_in(Puck(), model) is None


@pytest.mark.parametrize("states", [4, 8, 16])
def test_few_states_are_no_reason_to_call_noise_a_convention(states):
    for seed in range(20):

        def noisy(observations, actions, phase=seed):
            return perfect(observations, actions) + 2 * np.sin(1e4 * observations + phase)

        assert misreading_in(Puck(), noisy, seed=seed, states=states) is None


def test_how_many_times_better_is_what_it_is():
    def nearly(observations, actions):
        change = perfect(observations, actions) - observations
        return change + 0.05 * np.sign(np.sin(1e4 * observations))

    found = misreading_in(Puck(), nearly)
    assert found.name == "RETURNS THE CHANGE"
    times = float(found.summary.split(" true steps ")[1].split(" times")[0])
    assert 20 < times < 500


class Behind:
    """A rollout that begins with the present."""

    def rollout(self, latents, actions):
        reached = Puck().rollout(latents, actions)
        return np.concatenate([latents[:, None], reached[:, :-1]], axis=1)


CENTRAL = np.concatenate(
    [np.random.default_rng(0).uniform(-3.2, 3.2, (64, 2)).clip(-3, 3), np.zeros((64, 2))], axis=1
)


def test_normalised_observations_are_known_by_the_training_data():
    data = RNG.uniform(-6, 6, (2000, 4)) * [1.0, 1.0, 0.2, 0.2] + [2.0, -1.0, 0.0, 0.1]
    mean, deviation = data.mean(axis=0), data.std(axis=0)

    def normalised(observations, actions):
        return (perfect(observations * deviation + mean, actions) - mean) / deviation

    found = misreading_in(Puck(), normalised, trained=TrainingStates(data))
    assert found.name == "NORMALISED OBSERVATIONS"
    assert "model((o - mean) / std, a)" in found.summary


class Decoding:
    """Has latents of its own, and decodes observations in another order."""

    def encode(self, observations):
        return 2 * observations

    def rollout(self, latents, actions):
        return 2 * Puck().rollout(latents / 2, actions)

    def decode(self, latents):
        return latents[..., [0, 2, 1, 3]] / 2


def test_a_model_that_raises_for_what_it_does_not_know_is_no_error():
    def strict(observations, actions):
        if np.abs(observations).max() > 40:
            raise KeyError("never seen")
        return -perfect(observations, actions)[:, ::-1]

    misreading_in(Puck(), strict)


@dataclass(frozen=True)
class Walled(Puck):
    """A puck between walls, where it stops; most of the visited states are at one."""

    def rollout(self, states, actions):
        after = np.empty((*actions.shape[:2], 4))
        for step in range(actions.shape[1]):
            reached = perfect(states, actions[:, step])
            is_out = np.abs(reached[:, :2]) > 3.0
            reached[:, 2:] = np.where(is_out, 0.0, reached[:, 2:])
            reached[:, :2] = np.clip(reached[:, :2], -3.0, 3.0)
            states = after[:, step] = reached
        return after

    def step(self, states, actions):
        return self.rollout(states, actions[:, None])[:, 0]


@dataclass(frozen=True)
class Kicked(Puck):
    """A puck with nine kicks to choose from."""

    actions = FiniteActions(np.array([[x, y] for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0)]))


READ = {
    "a rollout that begins with the present": (Puck(), Behind(), "ONE STEP LATE", "out the first"),
    "the action after": (Puck(), Late(1), "ONE STEP LATE", "the action taken in it"),
    "decoded in another order": (
        Puck(),
        Decoding(),
        "COLUMN ORDER",
        "Here `model(o, a)` is what is decoded after one action.",
    ),
    "rewards beside": (
        Puck(),
        OwnReward(CONVENTIONS["the change"].model),
        "RETURNS THE CHANGE",
        "",
    ),
    "one sign of two": (Kicked(), lambda o, a: perfect(o, a * [1, -1]), "ACTION SIGN", "[1, -1] *"),
    **{
        f"actions times {scale}": (
            Puck(),
            lambda o, a, scale=scale: perfect(o, scale * a),
            "ACTION SCALE",
            f"model(o, {1 / scale:g} * a)",
        )
        for scale in (0.1, 2.0, -0.5)
    },
}


@pytest.mark.parametrize("name", READ)
def test_a_misreading_is_named_whatever_the_model_is_like(name):
    task, model, kind, said = READ[name]
    found = misreading_in(task, model)
    assert found.name == kind
    assert said in f"{found.summary} {found.recommendation}"


def test_walls_that_a_model_lacks_make_a_sign_no_scale():
    found = misreading_in(Walled(), lambda o, a: perfect(o, -a), at=CENTRAL)
    assert (found.name, "`model(o, -a)`" in found.summary) == ("ACTION SIGN", True)


@pytest.mark.parametrize("seed", range(4))
def test_a_change_without_walls_is_told_as_the_change(seed):
    task = TASKS["maze"]()
    found = misreading_in(task, lambda o, a: 1.0 * a, seed=seed)
    assert (found.name, found.is_decisive) == ("RETURNS THE CHANGE", True)


def preset_gate(name, learned):
    """Return the diagnosis of a built-in task's gate of its preset planner."""
    design = Design(task=TASKS[name](), planner=preset_planner(name), episodes=50, seed=0)
    oracle = OracleDynamics(design.task)
    result = measure_gap(design, oracle=oracle, learned=learned)
    return diagnose(design, oracle=oracle, learned=learned, result=result)


@pytest.mark.parametrize(
    ("learned", "name", "advice"),
    [
        (lambda o, a: 1.0 * a, "RETURNS THE CHANGE", "Return `o + model(o, a)`."),
        (lambda o, a: o + a[:, ::-1], "ACTION ORDER", "Call `model(o, a[:, [1, 0]])`"),
    ],
)
def test_a_reading_that_fits_exactly_is_told_although_walls_are_left(learned, name, advice):
    found = preset_gate("maze", learned).misreading
    assert (found.name, found.is_decisive) == (name, True)
    assert found.recommendation.startswith(advice)
    assert found.summary.endswith("not 100 %. The rest is another fault.")


def wavy(observations, actions):
    """Push the other way, and err by much of what a step changes and of what actions do."""
    return perfect(observations, -actions) + 0.2 * np.sin(9 * (observations + np.tile(actions, 2)))


def astray(observations, actions):
    """Push the other way, and answer anything far away."""
    is_far = np.abs(observations[:, :2]).max(axis=1, keepdims=True) > 4
    return np.where(is_far, 50 * np.sin(1e3 * observations), perfect(observations, -actions))


def test_a_sign_is_told_of_a_network_that_is_wrong_by_itself_where_choices_show_it():
    found = misreading_in(Puck(), wavy)
    assert (found.name, found.is_decisive) == ("ACTION SIGN", True)
    assert re.search(r"fits \d+ true steps [234] times better", found.summary)


def test_a_model_is_read_where_it_was_trained():
    near = TrainingStates(RNG.uniform(-1, 1, (2000, 4)) * [4.0, 4.0, 1.0, 1.0])
    at = np.concatenate([np.full((34, 4), [30.0, 0, 0, 0]), RNG.uniform(-1, 1, (30, 4))])
    assert misreading_in(Puck(), astray, at=at) is None
    assert misreading_in(Puck(), astray, at=at, trained=near).name == "ACTION SIGN"


class Mirrored(OwnScore):
    """Pushes the other way, and has a score of its own."""

    def rollout(self, latents, actions):
        return super().rollout(latents, -actions)


@pytest.mark.parametrize(("goal", "is_decisive"), [((0.0, 0.0), True), ((60.0, 0.0), False)])
def test_a_reading_is_rated_by_the_score_that_the_model_plans_with(goal, is_decisive):
    found = misreading_in(Puck(), Mirrored(goal=goal))
    assert (found.name, found.is_decisive) == ("ACTION SIGN", is_decisive)
    assert ("lose 0 % of what a random plan loses, not 157 %" in found.summary) == is_decisive


def test_walls_that_a_model_lacks_are_places_and_no_error_of_every_step():
    found = preset_gate("maze", lambda o, a: o + a)
    assert (found.cause, found.misreading) == (Cause.LOCAL_ERROR, None)
    assert re.search(r"wrong at \d\d % of the places .*, and right in \d\d % of", found.summary)
    assert found.recommendation.startswith("Replay a lost start")


def test_moves_of_a_grid_that_are_mixed_up_are_told():
    task = TASKS["maze"]()
    found = misreading_in(task, lambda o, a: task.step(o, a[:, ::-1]))
    assert (found.name, "a[:, [1, 0]]" in found.summary) == ("ACTION ORDER", True)
    assert misreading_in(task, lambda o, a: task.step(o, -a)).name == "ACTION SIGN"
    assert misreading_in(task, task.step) is None


class Faint:
    """Right for so many steps, with the sign of a column that nothing reads, and still then."""

    def rollout(self, latents, actions):
        other = np.array([1.0, 1.0, 1.0, 1.0, -1.0])
        reached = Dial().rollout(latents * other, actions[:, :3]) * other
        return reached[:, np.minimum(np.arange(actions.shape[1]), 2)]


@dataclass(frozen=True)
class Dial(Puck):
    """A puck beside a dial that goes up at every step, and that no score reads."""

    observation_size: int = 5

    def reset(self, seeds):
        return np.concatenate([super().reset(seeds), np.ones((len(seeds), 1))], axis=1)

    def step(self, states, actions):
        return self.rollout(states, actions[:, None])[:, 0]

    def rollout(self, states, actions):
        pucks = super().rollout(states[:, :4], actions)
        turned = states[:, 4:] + np.arange(1, actions.shape[1] + 1)
        return np.concatenate([pucks, turned[..., None]], axis=2)

    def score(self, observations):
        return super().score(observations[..., :4])


def test_one_pair_of_moves_along_a_wall_is_no_reason_to_call_a_model_late():
    task = two_room()
    # Below is a wall: "down, right", which a model with swapped moves makes of "right, down", ends
    # where "right" does.
    along = np.array([[x, 6.0] for x in (1, 2, 3, 4, 5)] * 6)

    def swapped(observations, actions):
        return task.step(observations, actions[:, ::-1])

    assert misreading_in(task, swapped, at=along).name == "ACTION ORDER"


def test_a_harmless_misreading_does_not_hide_a_cause():
    found = misreading_in(Dial(), Faint())
    assert (found.name, found.is_decisive) == ("COLUMN SCALE", False)
    assert "Read so" not in found.summary
    compounding = Diagnosis(
        cause=Cause.COMPOUNDING_ERROR, summary="S.", recommendation="R.", misreading=found
    )
    assert cause_of(compounding).heading == "Why the gap is there: COMPOUNDING ERROR"
    assert cause_of(compounding).text == f"S. {found.summary}"
    assert cause_of(compounding).advice == f"R. {found.recommendation}"
    nothing = replace(compounding, cause=Cause.NONE)
    assert cause_of(nothing).heading == "Why the gap is there: COLUMN SCALE"
    assert cause_of(nothing).text == found.summary
    assert cause_of(nothing).advice == found.recommendation


def test_a_reading_that_wins_nothing_back_is_not_named():
    assert misreading_in(Puck(), CONVENTIONS["the change"].model) is not None
    regrets = iter([0.5, 0.46])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RandomPlans, "regret", lambda *_: next(regrets))
        patch.setattr(RandomPlans, "off_at_first", lambda *_: 1.0)
        assert misreading_in(Puck(), CONVENTIONS["the change"].model) is None


def test_a_diagnosis_begins_with_the_misreading_and_keeps_its_numbers():
    found = named(Fault(CONVENTIONS["the change"].model, ""))
    cause = cause_of(found)
    assert cause.heading == "Why the gap is there: RETURNS THE CHANGE"
    assert re.match(r"`o \+ model\(o, a\)` fits \d+ true steps more than 1000 ", cause.text)
    assert cause.advice.endswith("Return `o + model(o, a)`.")
    assert len(cause_lines(cause)) == 1
    assert found.measures
    stored = json.loads(json.dumps(encode(found), allow_nan=False))
    assert decode(Diagnosis, stored) == found
    # As of the release before.
    del stored["misreading"]
    assert decode(Diagnosis, stored) == replace(found, misreading=None)
