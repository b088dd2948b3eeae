from types import SimpleNamespace

import numpy as np
import pytest
import runs
from sliders import Forgetful, Nested, Remembering, Scoring, Slider, Slippery

from pytest_cpg.contracts import Plans, WorldModelError
from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.planners import RandomShooting
from pytest_cpg.world_models import bind
from pytest_cpg.world_models.binding.tiling import TILE, Sizes

TASK = Slider()
STARTS = sample_starts(TASK, 30, seed=1)
PROBE = {
    "probe_states": STARTS.states[:8],
    "probe_actions": np.resize(TASK.actions.values, (8, 1)),
}


def bound(learned):
    return bind(learned, TASK, **PROBE)


def run_of(model, starts=STARTS, **options):
    planner = RandomShooting(candidates=30, horizon=6)
    return runs.run_of("learned", TASK, planner, model, starts, seed=1, **options)


def test_a_posterior_carried_across_steps_solves_what_the_same_model_encoded_anew_does_not():
    remembering, forgetful = (
        run_of(bound(model)).advance(30).success_count for model in (Remembering(), Forgetful())
    )
    assert remembering == 30
    assert forgetful <= 24


@pytest.mark.parametrize(
    "model", [Remembering(), Nested(), Slippery()], ids=lambda m: type(m).__name__
)
def test_an_episode_of_a_model_with_memory_or_noise_ends_the_same_alone_and_among_others(model):
    model = bound(model)
    together = encode(run_of(model).advance(30))
    for row in (0, 7, 29):
        alone = encode(run_of(model, STARTS.take(np.array([row]))).advance(1))
        for name in ("successes", "steps", "returns"):
            assert alone[name] == together[name][row : row + 1]


def test_a_model_whose_state_is_nested_plans_as_the_one_whose_state_is_flat():
    nested, flat = (encode(run_of(bound(m)).advance(30)) for m in (Nested(), Remembering()))
    assert nested["steps"] == flat["steps"]


def test_a_nested_model_that_begins_a_plan_from_its_last_one_is_given_it():
    begun = []

    class Going(Nested):
        is_warm_started = True

        def plan(self, latents, rngs, remaining, memory):
            begun.append((latents["count"].item(), memory))
            kept = np.zeros((1, 1)) if memory is None else memory + 1
            return Plans(np.zeros((1, 4, 1)), np.minimum(remaining, 4), memory=kept)

    model = bound(Going())
    assert model.planner.is_warm_started
    begun.clear()
    run_of(model, STARTS.take(np.array([0])), metric="return").advance(1)
    assert begun[:3] == [(0, None), (4, 0.0), (8, 1.0)]


def test_noise_is_the_episodes_own_and_changes_what_is_planned():
    taken = [run_of(bound(m)).advance(30).steps.tolist() for m in (Slippery(), Remembering())]
    assert taken[0] != taken[1]


def test_a_model_is_told_of_every_real_step_and_encoded_once(monkeypatch):
    # Trying how few rows it may be asked for at once takes calls of its own.
    monkeypatch.setattr(Sizes, "_tried", lambda *_: TILE)
    seen = {"encoded": 0, "updated": 0}

    class Counting(Remembering):
        def encode(self, observations):
            seen["encoded"] += 1
            return super().encode(observations)

        def update(self, latents, actions, observations):
            seen["updated"] += 1
            return super().update(latents, actions, observations)

    model = bound(Counting())
    seen.update(encoded=0, updated=0)
    arm = run_of(model, STARTS.take(np.array([3]))).advance(1)
    assert seen["encoded"] == 1
    # The step that ends an episode leads nowhere.
    assert seen["updated"] == arm.steps[0] - 1


def altered(base, **members):
    """Return a model of a class with these members in place of its own."""
    return type("Odd", (base,), members)()


def state_of(count):
    """Return a model whose state has this beside its puck, for so many rows."""

    def encode(self, observations):
        beside = count(len(observations)) if callable(count) else count
        return {**Nested.encode(self, observations), "count": beside}

    return altered(Nested, encode=encode)


class Failing(Nested):
    def rollout(self, latents, actions):
        raise ValueError("no")


def cut_short(self, latents, actions):
    after = Nested.rollout(self, latents, actions)
    return {**after, "puck": after["puck"][:1]}


def mixing(self, latents, actions, observations):
    return Remembering.update(self, latents, actions, observations - observations.mean())


@pytest.mark.parametrize(
    ("learned", "message"),
    [
        (altered(Remembering, update=mixing), "update gives another result for a row alone"),
        (
            altered(Remembering, update=lambda self, latents, actions, observations: observations),
            r"called as update\(latents \[B, Z\], actions",
        ),
        (
            SimpleNamespace(rollout=TASK.rollout, update=lambda latents, *_: latents),
            r"Add encode\(observations \[B, O\]\)",
        ),
        *(
            (altered(Slippery, noise_size=size), r"noise_size .*give the whole number")
            for size in (-1, 0.5, True, "3")
        ),
        (altered(Remembering, noise_size=2), r"rollout\(.*noise \[B, H, 2\]\)"),
        (altered(Slippery, noise_size=0), r"rollout' needs a third argument, 'noise'"),
        (altered(Nested, rollout=cut_short), r"the state\['puck'\] is no tuple of \[0, 1\]"),
        (Failing(), r"Failing\.rollout' is not usable: ValueError"),
        (altered(Nested, decode=None), r"its state is a dict, .* Add decode\(state\) -> "),
        (altered(Nested, encode=lambda self, seen: [seen, seen]), r"a list of 2 arrays\. Return a"),
        (state_of(lambda rows: np.full(rows, 2**60)), "whole numbers above 2"),
        (state_of(3), r"state\['count'\] is 3; need an array of numbers \[B, \.\.\.\]"),
        (state_of(None), r"state\['count'\] is None; need"),
        (state_of(()), r"state\['count'\] is an empty tuple; need"),
        (state_of((np.zeros(2),)), r"state\['count'\]\[0\] has shape \[2\]; need"),
        (state_of(np.array(["a"] * 8)), r"state\['count'\] is an array of dtype <U1; need"),
        (altered(Remembering, encode=3), "has encode = 3, which cannot be called"),
        (altered(Remembering, update="no"), "has update = 'no', which cannot be called"),
        # Signatures of another framework.
        (
            altered(Remembering, encode=lambda self, observations, previous, first: None),
            r"as encode\(observations \[B, O\]\) -> latents \[B, Z\]. It takes \(observations, "
            r"previous, first\), and is called with 1: .*into the state, which update",
        ),
        (
            altered(Scoring, score=lambda self, latents, goal: None),
            r"as score\(latents \[\.\.\., Z\]\) -> .*It takes \(latents, goal\), and is called "
            r"with 1: .* a goal, into the model",
        ),
    ],
)
def test_a_model_that_cannot_be_carried_along_is_told_what_to_write(learned, message):
    with pytest.raises(WorldModelError, match=message):
        bound(learned)


def test_dynamics_may_read_noise_too():
    def slipping(observations, actions, noise):
        return observations + actions + 0.1 * noise.sum(axis=1, keepdims=True)

    slipping.noise_size = 2
    model = bound(slipping)
    assert model.noise_size == 2
    latents, plans = model.encode(STARTS.states), np.ones((30, 4, 1))
    np.testing.assert_array_equal(model.rollout(latents, plans)[:, 3], latents + 4)
    noise = np.random.default_rng(0).standard_normal((30, 4, 2))
    expected = latents[:, 0] + 4 + 0.1 * noise.sum(axis=(1, 2))
    np.testing.assert_allclose(model.rollout(latents, plans, noise)[:, 3, 0], expected)
    del slipping.noise_size
    with pytest.raises(WorldModelError, match=r"third argument, 'noise', and .* no noise_size"):
        bound(slipping)


def test_a_score_of_its_own_is_asked_of_what_memory_knows():
    model = bound(Scoring())
    assert model.swapped == ("dynamics", "score")
    assert run_of(model).advance(30).success_count == 30


def test_a_torch_model_whose_state_is_nested_gets_its_own_tensors_back():
    torch = pytest.importorskip("torch")

    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.GRUCell(2, 4)
            self.head = torch.nn.Linear(4, 1)

        def encode(self, observations):
            begun = torch.zeros(len(observations), 4)
            return {"memory": begun, "first": torch.ones(len(observations), dtype=torch.bool)}

        def update(self, state, actions, observations):
            assert state["first"].dtype == torch.bool
            memory = self.cell(torch.cat([observations, actions], dim=1), state["memory"])
            return {"memory": memory, "first": torch.zeros_like(state["first"])}

        def rollout(self, state, actions):
            memory, steps = state["memory"], []
            for t in range(actions.shape[1]):
                memory = self.cell(torch.cat([self.head(memory), actions[:, t]], dim=1), memory)
                steps.append(memory)
            first = torch.zeros(actions.shape[:2], dtype=torch.bool)
            return {"memory": torch.stack(steps, dim=1), "first": first}

        def decode(self, state):
            return self.head(state["memory"])

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = bound(Recurrent())
    latents = model.encode(STARTS.states)
    assert latents.shape == (30, 5)
    actions = np.ones((30, 1))
    carried = model.update(latents, actions, TASK.step(STARTS.states, actions))
    assert (carried[:, 4] == 0).all()
    np.testing.assert_array_equal(carried, carried.astype(np.float32))
    assert model.score(model.rollout(carried, np.ones((30, 4, 1)))).shape == (30, 4)


def test_actions_come_in_the_kind_of_a_nested_state():
    torch = pytest.importorskip("torch")

    class Mixed:
        noise_size = 1

        def encode(self, observations):
            return {"x": torch.as_tensor(observations)}

        def rollout(self, state, actions, noise):
            return {"x": state["x"][:, None] + torch.cumsum(actions + 0 * noise, 1)}

        def decode(self, state):
            return state["x"]

    class Strict(Mixed):
        """Takes actions as encode takes observations."""

        def rollout(self, state, actions, noise):
            return super().rollout(state, torch.from_numpy(actions), torch.from_numpy(noise))

    starts = STARTS.states
    for learned in (Mixed(), Strict()):
        model = bound(learned)
        after = model.rollout(model.encode(starts), np.ones((30, 4, 1)))
        np.testing.assert_array_equal(after[:, 3], model.encode(starts) + 4)


def test_a_nested_state_without_an_update_is_noted():
    class Anew(Nested):
        update = None

    (note,) = bound(Anew()).notes
    assert note.startswith("the model's state is nested and it has no update, so every plan begins")
    assert note.endswith("add update(latents, actions, observations)")
    assert bound(Nested()).notes == ()


def test_a_reward_beside_a_score_is_noted():
    class Both(Scoring):
        def reward(self, latents, actions):
            return latents[..., 0]

    (note,) = bound(Both()).notes
    assert note == (
        "the model has a score, which rates its plans, and its reward is not asked: to plan by "
        "rewards, leave out score"
    )
    assert bound(Scoring()).notes == ()


@pytest.mark.parametrize(
    ("name", "meant"), [("rewards", "reward"), ("decoder", "decode"), ("scores", "score")]
)
def test_a_method_that_is_nearly_one_of_the_contract_is_noted(name, meant):
    class Typo(Slippery):
        decode = None

        def encode(self, observations):
            return observations

        def rollout(self, latents, actions, noise):
            return latents[:, None] + np.cumsum(actions, axis=1)

        update = None

    setattr(Typo, name, lambda self, latents: latents)
    (note,) = bound(Typo()).notes
    assert note == (
        f"the model has a method {name!r} that nothing calls: is it meant to be {meant!r}?"
    )
    assert bound(Remembering()).notes == ()


def test_an_object_that_takes_multiples_of_five_rows_is_asked_for_nothing_else():
    class OfFive(Scoring):
        batch_multiple = 5

        def encode(self, observations):
            assert len(observations) % 5 == 0
            return super().encode(observations)

        def rollout(self, latents, actions):
            assert len(latents) % 5 == 0
            return super().rollout(latents, actions)

    class NestedOfFive(OfFive):
        def encode(self, observations):
            place = super().encode(observations)
            return {"place": place, "double": 2 * place}

        def update(self, latents, actions, observations):
            place = super().update(latents["place"], actions, observations)
            return {"place": place, "double": 2 * place}

        def rollout(self, latents, actions):
            reached = super().rollout(latents["place"], actions)
            return {"place": reached, "double": 2 * reached}

        def score(self, latents):
            assert len(latents["double"]) % 5 == 0
            return super().score(latents["place"])

    models = OfFive(), NestedOfFive(), Scoring()
    arms = [run_of(bound(model)).advance(30) for model in models]
    assert arms[0].steps.tolist() == arms[1].steps.tolist() == arms[2].steps.tolist()
