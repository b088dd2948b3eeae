"""Whether the same things answer to the same actions in a model and in truth."""

import numpy as np
import pytest
from track import Track
from wrong_physics import TRUE, WRONG

import pytest_cpg
from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.gates.prediction.responses import spreads
from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.causal.blocks import Blocks
from pytest_cpg.tasks.causal.chemistry import Chemistry, ExactChemistry
from pytest_cpg.world_models import OracleDynamics


def answered(model, task, **asked):
    """Return what the gate says of a model."""
    asked = {"limit": 0.05, "cache": None, "progress": False} | asked
    return pytest_cpg.evaluate(task, model, kind="cpg_response", **asked)


def drawn(task):
    """Return a model that draws colours from the right tables, by normal noise."""

    class Drawn:
        noise_size = 1

        def __call__(self, observations, actions, noise):
            chances = ExactChemistry(task)(observations, actions)
            size = task.objects * task.colours
            sums = chances[:, :size].reshape(len(chances), task.objects, -1).cumsum(axis=-1)
            spread = (np.sin(1e4 * noise * np.arange(1, task.objects + 1)) + 1) / 2
            colours = (spread[..., None] >= sums[..., :-1]).sum(axis=-1)
            shown = task.shown(colours.astype(float))
            return np.concatenate([shown, observations[:, size:]], axis=1)

    return Drawn()


@pytest.mark.parametrize("graph", ["chain", "full", "collider"])
def test_the_right_model_answers_as_the_truth_does(graph):
    task = Chemistry(graph=graph, objects=4)
    for model in (OracleDynamics(task), ExactChemistry(task)):
        result = answered(model, task)
        assert result.found.estimate == 0
        assert result.found.high < 0.1
        assert result.beside["copy"] > 0.25
    descendants = task.descendants | np.eye(4, dtype=bool)
    assert not (result.truth[~descendants] > 0.01).any()


@pytest.mark.parametrize("faint", [0.03, 0.05, 0.07, 0.09, 0.12])
def test_a_faint_answer_of_everything_to_everything_is_none(faint):
    task = Chemistry(graph="collider", objects=4)

    def model(observations, actions):
        colours = np.tile(np.eye(5)[actions[:, 1].astype(int)], 4)
        after = observations.copy()
        after[:, :20] += faint * colours
        return after

    result = answered(model, task)
    assert result.label == "ABOVE LIMIT"
    assert result.facts["in truth"].startswith("6 of 16 pairs answer, and 1 too")


def test_a_model_that_draws_is_compared_by_what_it_draws():
    task = Chemistry(graph="collider", objects=3)
    assert answered(drawn(task), task).found.estimate == 0


def test_reversed_and_independent_models_fail_and_what_is_wrong_is_named():
    task = Chemistry(graph="collider", objects=4)

    def independent(observations, actions):
        after = observations.copy()
        now = after[:, :20].reshape(-1, 4, 5)
        now[np.arange(len(now)), actions[:, 0].astype(int)] = np.eye(5)[actions[:, 1].astype(int)]
        after[:, :20] = now.reshape(len(now), -1)
        return after

    def mirrored(observations, actions):
        """Causes are effects: the last object sets the others."""
        after = independent(observations, actions)
        rows = np.flatnonzero(actions[:, 0] == 3)
        after[rows, :15] = np.tile(np.eye(5)[actions[rows, 1].astype(int)], 3)
        return after

    for model, texts in (
        (independent, ["object 3 does not answer to object 0"]),
        (mirrored, ["object 3 does not answer to object 0", "; and 1 more"]),
    ):
        result = answered(model, task)
        assert result.label == "ABOVE LIMIT"
        (why,) = result.card.texts("why")
        assert [text for text in texts if text not in why] == [], why
    assert "object 0 answers, and should not, to object 3" in why
    (figure,) = result.card.figures
    assert figure.across == len(result.effects)
    assert "acted on: object 0, object 1, object 2, object 3. In columns" in figure.reading
    numbers = {cell.number for cell in figure.cells}
    assert numbers == set(range(16))


def test_blocks_answer_to_what_pushes_them():
    assert answered(TRUE, Blocks()).found.estimate == 0
    for name, model in WRONG.items():
        assert answered(model, Blocks()).found.low > 0.1, name


def test_numbers_of_an_observation_are_the_parts_of_any_other_task():
    task = TASKS["maze"]()
    result = answered(OracleDynamics(task), task)
    assert result.causes == ("the action",)
    assert len(result.effects) == 2
    assert result.found.estimate == 0
    assert answered(lambda o, a: o, task).found.estimate == 1


def test_nothing_that_answers_and_nothing_to_see_are_errors():
    class Still(Blocks):
        def step(self, states, actions):
            return states.copy()

    with pytest.raises(WorldModelError, match="nothing answers to any action in 100 states"):
        answered(TRUE, Still())

    class Latent:
        def rollout(self, latents, plans):
            return np.repeat(latents[:, None], plans.shape[1], axis=1)

        def encode(self, observations):
            return observations[:, :3]

    with pytest.raises(WorldModelError, match="the model's latents have no parts"):
        answered(Latent(), Blocks())
    with pytest.raises(ComponentError, match=r"each of 15000 numbers .* Give the task parts"):
        answered(TRUE, Blocks(look="picture"))


def test_a_log_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"transitions: a log has one action from each state"):
        answered(TRUE, "blocks:3", transitions="logged.npz")


def test_what_answers_and_is_nowhere_near_is_an_error():
    task = Chemistry(objects=3)
    with pytest.raises(WorldModelError, match=r"of object 0 is off by 1e\+07 on average, where"):
        answered(lambda o, a: (ExactChemistry(task)(o, a) + 1e7).astype(np.float32), task)


def test_intervals_of_entries_have_the_level_that_is_asked_for():
    task = Chemistry(graph="collider", objects=3)
    wide, narrow = (answered(ExactChemistry(task), task, confidence=c) for c in (0.99, 0.5))
    widths = [gate.high - gate.low for gate in (wide, narrow)]
    assert (widths[0] > 2 * widths[1])[:2, 2].all()


def test_draws_are_no_answer():
    ends = np.random.default_rng(0).normal(size=(4000, 1, 3, 6, 2))
    assert abs(spreads(ends, [[0], [1]]).mean(axis=0)).max() < 0.02
    ends += np.arange(3)[:, None, None]
    assert spreads(ends, [[0, 1]]).mean() == pytest.approx(2, rel=0.03)


class Carried(Track):
    """A cart that carries a number which nothing changes, such as a mass."""

    observation_size = 2

    def reset(self, seeds):
        return np.concatenate([super().reset(seeds), np.full((len(seeds), 1), 0.1)], axis=1)

    def step(self, states, actions):
        return np.concatenate([states[:, :1] + actions, states[:, 1:]], axis=1)

    def rollout(self, states, actions):
        after = states[:, None].repeat(actions.shape[1], axis=1)
        after[..., :1] += np.cumsum(actions, axis=1)
        return after


def test_what_nothing_moves_answers_to_nothing():
    def right(observations, actions):
        return np.concatenate([observations[:, :1] + actions, observations[:, 1:]], axis=1)

    def wrong(observations, actions):
        return observations + actions

    assert answered(right, Carried(), limit=0.1).found.estimate == 0
    single = answered(lambda o, a: right(o, a).astype(np.float32), Carried(), limit=0.1)
    assert single.found.estimate == 0
    assert answered(wrong, Carried(), limit=0.1).found.estimate == 0.5


class Tables:
    """A model of chemistry with tables of its own, which says how likely an outcome is."""

    def __init__(self, task):
        self.step, self.log_probability = ExactChemistry(task), task.log_probability

    def __call__(self, observations, actions):
        return self.step(observations, actions)


@pytest.mark.parametrize(
    "graph", ["chain", "full", "collider", "tree", "jungle", "bidiagonal", "fork", "confounder"]
)
def test_parts_that_answer_directly_are_the_children_of_causes(graph):
    task = Chemistry(graph=graph, objects=4, tables=2)
    result = answered(Tables(task), task, answers="direct")
    assert result.found.estimate == 0
    assert (result.truth[task.parents.T] > 0.1).all()
    assert (result.truth[~task.parents.T] < 1e-6).all()


@pytest.mark.parametrize("gain", [20, 100])
def test_what_cannot_happen_after_an_action_is_no_answer(gain):
    """Steps are nearly sure, so that most outcomes in which others are held have no chance."""
    task = Chemistry(graph="chain", objects=3, gain=gain, tables=2)
    result = answered(Tables(task), task, answers="direct")
    assert result.found.estimate == 0
    assert (result.truth[~task.parents.T] < 1e-6).all()


def test_graphs_with_the_same_descendants_differ_in_direct_answers_alone():
    chain, full = (Chemistry(graph=graph, objects=4, tables=2) for graph in ("chain", "full"))
    assert answered(Tables(full), chain).found.estimate == 0
    for task, other in ((chain, full), (full, chain)):
        result = answered(Tables(other), task, answers="direct")
        assert result.label == "ABOVE LIMIT"
    assert "object 2 does not answer to object 0: 0.00" in "".join(result.card.texts("why"))


def test_direct_answers_need_chances_of_model_and_task():
    task = Chemistry(objects=3)
    unsure, loss = Tables(task), Tables(task)
    loss.log_probability = lambda *rows: -np.maximum(task.log_probability(*rows), -50.0)
    unsure.log_probability = lambda o, a, after: np.where(after[:, 0] > 0, np.nan, 0.0)
    cases = [
        (ExactChemistry(task), task, {}, WorldModelError, "gives no probabilities"),
        (loss, task, {}, WorldModelError, r"adds up to .* over outcomes of one action, as prob"),
        (unsure, task, {}, WorldModelError, "NaN or plus infinity for [0-9]+ of"),
        (Tables(task), task, {"horizon": 2}, ComponentError, "after 2 steps"),
        (TRUE, Blocks(), {}, ComponentError, "'blocks:3' lacks parts, actions on each of them, or"),
        (
            Tables(task),
            task,
            {"answers": "edges"},
            ValueError,
            "need one of all, direct, got 'edges'",
        ),
    ]
    for model, world, more, error, text in cases:
        with pytest.raises(error, match=text):
            answered(model, world, **({"answers": "direct"} | more))
