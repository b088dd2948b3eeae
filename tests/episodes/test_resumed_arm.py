"""Resumed arms: a model that is another one now is never judged by what was stored."""

import re
from dataclasses import replace

import numpy as np
import pytest
from faulty_models import Fault, Late, Puck, deaf, design_of, perfect
from sliders import Remembering, Scoring, Slider, Slippery
from track import Track

from pytest_cpg.contracts import IncompleteError
from pytest_cpg.episodes import kept_run
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import ArmRuns, Execution
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import (
    answers_digest,
    bound_as_truth,
    bound_to_starts,
    starts_of,
)
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import RandomShooting
from pytest_cpg.world_models import OracleDynamics

# Fewer starts than first plans are made again, and more than a digest of answers is asked of.
EPISODES = 30
WRONG = {"from": np.inf, "to": np.inf}


class Keyed(Track):
    cache_key = "1"


def model(observations, actions):
    """Be mirrored where nobody who reads this code can know."""
    wrong = globals()["WRONG"]
    size = np.abs(observations)
    is_wrong = (size >= wrong["from"]) & (size <= wrong["to"])
    return np.where(is_wrong, observations - actions, observations + actions)


@pytest.fixture
def resumed(tmp_path, monkeypatch):
    """Run the learned arm, resumed or not, where the model is wrong between two distances."""
    # So far away that a digest asks nothing of the places near the goal.
    task = Keyed(near=8.0, far=9.0)
    design = Design(
        task=task, planner=RandomShooting(candidates=20, horizon=5), episodes=EPISODES, seed=1
    )
    starts, truth = starts_of(design), OracleDynamics(task)

    def run(wrong=(np.inf, np.inf), *, resumes=True, progress=None):
        monkeypatch.setitem(WRONG, "from", wrong[0])
        monkeypatch.setitem(WRONG, "to", wrong[1])
        runs = ArmRuns(
            design,
            starts,
            {"oracle": truth, "learned": model},
            {
                "oracle": bound_as_truth(truth, design, starts),
                "learned": bound_to_starts(model, design, starts),
            },
            progress=progress,
            execution=Execution(cache=ArmCache(tmp_path), resumes=resumes),
        )
        try:
            arm = runs["learned"].advance(EPISODES)
        finally:
            runs.keep()
        return arm, " ".join(map(str, runs.reuse))

    run.starts = np.abs(starts.states[:, 0])
    return run


def test_the_same_model_is_resumed(resumed):
    before, _ = resumed(resumes=False)
    after, reuse = resumed()
    assert f"learned: {EPISODES} episodes stored" in reuse
    assert np.array_equal(after.steps, before.steps)


def test_a_model_that_answers_otherwise_has_another_key(resumed):
    before, _ = resumed(resumes=False)
    after, reuse = resumed((8.5, np.inf))
    assert "learned: run anew" in reuse
    assert "could not be repeated" not in reuse
    assert not np.array_equal(after.steps, before.steps)


def test_a_model_that_plans_otherwise_from_one_start_is_not_resumed(resumed):
    """What its digest does not ask shows in the first plans, whichever two are run again."""
    resumed(resumes=False)
    asked = np.unique(np.linspace(0, EPISODES - 1, 24).round())
    (unasked, *_) = sorted(set(range(8, EPISODES)) - set(asked))
    at = resumed.starts[unasked]
    _, reuse = resumed((at - 1e-9, at + 1e-9))
    said = f"the first plan of episode {unasked} is another one now"
    assert said in reuse
    assert "learned: run anew" in reuse


@pytest.mark.parametrize("wrong", [None, (0.0, 1.5)])
def test_what_has_ended_of_an_interrupted_arm_is_resumed_unless_its_model_is_wrong_further_on(
    resumed, monkeypatch, wrong
):
    monkeypatch.setattr(kept_run, "EPISODES_AT_ONCE", 10)
    expected, _ = resumed(resumes=False)

    seen = []

    def stop(name, stage):
        seen.append(stage.done / stage.total)
        if stage.starts == 20 and stage.done > stage.total / 3:
            raise IncompleteError("time is up")

    with pytest.raises(IncompleteError):
        resumed(resumes=False, progress=stop)
    # A third for each of three blocks.
    assert seen == sorted(seen)
    assert 1 / 3 in seen
    arm, reuse = resumed(*[wrong] if wrong else ())
    if wrong:
        assert "the stored learned arm could not be repeated" in reuse
        assert "learned: run anew" in reuse
    else:
        assert re.search("learned: 1[0-9] episodes stored", reuse)
        assert np.array_equal(arm.steps, expected.steps)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Remembering, "encode"),
        (Remembering, "rollout"),
        (Remembering, "update"),
        (Scoring, "score"),
        (Slippery, "rollout"),
        (Slippery, "costs"),
        (Remembering, "policy_plans"),
    ],
)
def test_all_that_a_planner_asks_is_in_the_digest(model, name):
    """A bit of any answer changes it, and what raises is told from what answers."""
    design = Design(
        task=Slider(), planner=RandomShooting(candidates=5, horizon=4), episodes=9, seed=2
    )
    starts = starts_of(design)
    bound = replace(
        bound_to_starts(model(), design, starts),
        costs=lambda latents, plans, *_: np.zeros(plans.shape[:2]),
        has_own_cost=True,
        policy_plans=lambda _, noise: np.zeros(noise.shape),
    )
    before = answers_digest(bound, design, starts)
    assert answers_digest(bound, design, starts) == before
    inner = "imagine" if name == "rollout" else name
    method = getattr(bound, inner)

    def other(*asked):
        answer = np.array(method(*asked), dtype=float)
        answer.flat[-1] = np.nextafter(answer.flat[-1], np.inf)
        return answer

    def broken(*_):
        raise ValueError("no")

    digests = [
        answers_digest(replace(bound, **{inner: change}), design, starts)
        for change in (other, broken)
    ]
    assert len({before, *digests}) == 3


def faults_of(task, learned):
    """Return the faults of a gate, and the arms that it told of."""
    told = []
    fault = Fault(learned, "", planner=RandomShooting(candidates=16, horizon=4))
    design = replace(design_of(fault, episodes=10), task=task)
    result = measure_gap(
        design,
        oracle=OracleDynamics(task),
        learned=learned,
        progress=lambda name, *_: told.append(name),
    )
    return result.faults, set(told)


def blind_where(is_blind):
    def dynamics(observations, actions):
        blind = is_blind(observations)[:, None]
        return np.where(blind, deaf(observations, actions), perfect(observations, actions))

    return dynamics


def at_rest(observations):
    """Say where the speeds are zero, as at every start and nowhere else."""
    return (observations[:, 2:] == 0).all(axis=1)


def test_a_model_that_tells_actions_apart_at_a_start_is_asked_no_more():
    assert faults_of(Puck(), perfect) == ((), {"oracle", "learned", "chance"})
    assert faults_of(Puck(), blind_where(lambda o: ~at_rest(o)))[0] == ()
    assert faults_of(Puck(), Late(delay=2))[0] == ()


def test_a_model_that_is_blind_at_the_starts_alone_has_no_fault():
    faults, told = faults_of(Puck(), blind_where(at_rest))
    assert faults == ()
    assert "learned again" in told


@pytest.mark.parametrize(
    ("budget", "is_blind"),
    [
        # Planned from at the starts alone.
        (1, at_rest),
        # No puck gets as far.
        (40, lambda observations: np.abs(observations[:, 0]) < 100),
    ],
)
def test_a_model_that_is_blind_wherever_its_arm_plans_is_at_fault(budget, is_blind):
    ((fault,), _) = faults_of(Puck(budget=budget), blind_where(is_blind))
    assert "ignores the action" in fault


def test_a_model_of_a_task_that_does_not_react_is_not_at_fault():
    class Numb(Puck):
        def step(self, states, actions):
            return super().step(states, 0 * actions)

        def rollout(self, states, actions):
            return super().rollout(states, 0 * actions)

    assert faults_of(Numb(budget=3), deaf)[0] == ()
