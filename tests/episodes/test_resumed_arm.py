"""Resumed arms: a model that is another one now is never judged by what was stored."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sliders import Remembering, Scoring, Slider, Slippery
from track import Track

from pytest_cpg.contracts import IncompleteError
from pytest_cpg.episodes import arms
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import ArmRuns, Execution
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import (
    answers_digest,
    bound_as_truth,
    bound_to_starts,
    starts_of,
)
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
        return arm, " ".join(map(str, (*runs.reuse.known, *runs.reuse.notes)))

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
    monkeypatch.setattr(arms, "EPISODES_AT_ONCE", 10)
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
