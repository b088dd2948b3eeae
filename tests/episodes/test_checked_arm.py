"""Stored oracle arms: what is wrong with one shows, and little is planned to see that."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from track import Track

from pytest_cpg.contracts import Plans
from pytest_cpg.episodes import kept_run
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import ArmRuns, Execution
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.episodes.probe import bound_as_truth, starts_of
from pytest_cpg.planners import RandomShooting
from pytest_cpg.world_models import OracleDynamics

EPISODES = 12


# What no key says: from which step on the planner turns round, how many plans it was asked for each
# time, and how sure it is; how much the world adds to a step that ends within 1 of the goal, and to
# rewards.
NOW = {"turns_at": np.inf, "asked": [], "slip": 0.0, "more": 0.0, "sure": 1.0}


@dataclass(frozen=True)
class Turning:
    """A user's planner."""

    cache_key = "1"
    horizon = 5
    name = "turning"

    def plan(self, world_model, latents, rngs, remaining):
        NOW["asked"].append(len(latents))
        inner = RandomShooting(candidates=20, horizon=self.horizon)
        plans = inner.plan(world_model, latents, rngs, remaining)
        turns = (Far.budget - remaining >= NOW["turns_at"])[:, None, None]
        actions = np.where(turns, -plans.actions, plans.actions)
        return plans._replace(actions=actions, lengths=np.ones_like(plans.lengths))


class Far(Track):
    """A track on which no start is solved before the tenth step."""

    cache_key = "1"
    budget = 60

    def step(self, states, actions):
        after = super().step(states, actions)
        return np.where(np.abs(after) < 1, after + NOW["slip"], after)

    def reward(self, states, actions):
        return super().reward(states, actions) + NOW["more"]

    def success(self, states, actions):
        return super().reward(states, actions) > 0.5


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run an oracle arm, stored or not, and return it with what is said of its store."""
    for name, value in NOW.items():
        monkeypatch.setitem(NOW, name, value)
    monkeypatch.setattr(kept_run, "_QUICK", 0.0)

    def run(**more):
        task = Far(budget=60, near=10.0, far=11.0)
        design = Design(task=task, planner=Turning(), episodes=EPISODES, seed=1, **more)
        starts, truth = starts_of(design), OracleDynamics(task)
        runs = ArmRuns(
            design,
            starts,
            {"oracle": truth, "learned": truth},
            dict.fromkeys(("oracle", "learned"), bound_as_truth(truth, design, starts)),
            progress=None,
            execution=Execution(cache=ArmCache(tmp_path)),
        )
        arm = runs["oracle"].advance(EPISODES)
        runs.keep()
        return arm, " ".join(runs.reuse)

    return run


def test_of_a_stored_oracle_arm_only_first_plans_are_made_again(run):
    stored, _ = run()
    NOW["asked"] = []
    arm, said = run()
    assert f"oracle: {EPISODES} episodes stored" in said
    assert arm.steps.tolist() == stored.steps.tolist()
    assert stored.plans.min() > 8
    assert NOW["asked"] == [2] * 8


@pytest.mark.parametrize("at", [0, 1, 7])
def test_a_planner_that_is_another_one_now_shows_in_its_first_plans(run, at):
    run()
    NOW["turns_at"] = at
    _, said = run()
    assert "oracle arm could not be repeated: the first 8 plans of episode" in said


@pytest.mark.parametrize(("name", "what"), [("slip", "successes"), ("more", "returns")])
def test_a_world_that_is_another_one_now_shows_in_what_was_executed(run, name, what):
    run()
    NOW[name] = 5.0
    _, said = run()
    assert f"the stored oracle arm could not be repeated: {what} of episode" in said


def test_what_takes_no_time_is_run_again_whole(run, monkeypatch):
    run()
    monkeypatch.setattr(kept_run, "_QUICK", 60.0)
    NOW["turns_at"] = 9
    _, said = run()
    assert "the stored oracle arm could not be repeated" in said


def test_confidences_show_only_where_plans_are_made_again(run, monkeypatch):
    monkeypatch.setattr(Turning, "plan", _sure(Turning.plan))
    run()
    _, said = run()
    assert f"oracle: {EPISODES} episodes stored" in said
    NOW["sure"] = 2.0
    _, said = run()
    assert "oracle arm could not be repeated: confidences of episode" in said


def _sure(plan):
    def sure(*arguments):
        plans = plan(*arguments)
        return Plans(plans.actions, plans.lengths, np.full(len(plans.lengths), NOW["sure"]))

    return sure


def test_perturbed_episodes_are_run_again_whole(run):
    run(perturbation=DropActions(3))
    NOW["asked"] = []
    _, said = run(perturbation=DropActions(3))
    assert f"oracle: {EPISODES} episodes stored" in said
    assert len(NOW["asked"]) > 8


def test_what_was_executed_is_held_to_the_bit(run, monkeypatch):
    run()
    load = ArmCache.load

    def tampered(cache, key):
        arm, note = load(cache, key)
        if arm is None or arm.name != "oracle":
            return arm, note
        return replace(arm, actions=tuple(row * (1 - 1e-15) for row in arm.actions)), note

    monkeypatch.setattr(ArmCache, "load", tampered)
    _, said = run()
    assert "the stored oracle arm could not be repeated" in said
