"""Models that see a maze in pixels, each with one fault, and what a gate says of it."""

from types import SimpleNamespace

import numpy as np
import pytest

import pytest_cpg
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.gates.planning_gap.card import cause_of
from pytest_cpg.gates.planning_gap.diagnosis.frames import _encoded, _frames_of
from pytest_cpg.gates.planning_gap.diagnosis.pictures import _walks
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.goal_task import GoalTask
from pytest_cpg.tasks.goals import Goals
from pytest_cpg.tasks.grids import GridTask
from pytest_cpg.tasks.pixel_task import seen_as_pixels
from pytest_cpg.world_models import Transitions

pytest.importorskip("PIL")
SIZE = 96
PLANNER = RandomShooting(candidates=60, horizon=15)
OF_STEPS = ("observations", "actions", "next_observations")
AGENT = np.array([214, 106, 48])


class Seeing:
    """Finds the agent by its colour in the last frame, and knows the maze."""

    def __init__(self, task, read=lambda pictures: pictures):
        self.inner, self.read = task.inner, read
        cells = [len(line) for line in task.inner.layout.split()]
        self.cells = np.array([cells[0], len(cells)])

    def encode(self, pictures):
        frames = self.read(np.asarray(pictures))[:, -1]
        is_agent = np.abs(frames - AGENT).sum(axis=-1) < 40
        rows, columns = np.mgrid[:SIZE, :SIZE] + 0.5
        count = np.maximum(1, is_agent.sum(axis=(1, 2)))
        places = [(part * is_agent).sum(axis=(1, 2)) / count for part in (columns, rows)]
        return np.clip(np.rint(np.stack(places, 1) * self.cells / SIZE - 0.5), 0, self.cells - 1)

    def rollout(self, latents, plans):
        return self.inner.rollout(np.asarray(latents), plans)

    def decode(self, latents):
        return latents


class Shuffled(Seeing):
    """As one that was trained on frames of other steps: its latents tell nothing."""

    def encode(self, pictures):
        rows = [np.random.default_rng(np.frombuffer(p.tobytes(), np.uint32)) for p in pictures]
        return np.stack([row.uniform(1, 6, size=2) for row in rows])


class Constant(Seeing):
    def encode(self, pictures):
        return np.ones((len(pictures), 2))


class Still(Seeing):
    def rollout(self, latents, plans):
        return np.repeat(np.asarray(latents)[:, None], plans.shape[1], axis=1)


class Misled(Seeing):
    def score(self, latents):
        return -self.inner.score(latents)


def diagnosed(model, stack=1, budget=100, goals=None, planner=PLANNER, training_data=None):
    maze = TASKS["maze"](budget=budget)
    inner = maze if goals is None else GoalTask(inner=maze, goals=goals.loaded())
    task = seen_as_pixels(inner, size=SIZE, stack=stack)
    gate = pytest_cpg.evaluate(
        task,
        model(task),
        planner=planner,
        episodes=20,
        cache=None,
        diagnose="always",
        max_verdict="BAD",
        training_data=training_data,
    )
    # One real step in twenty, and a gate of few steps has as many of them asked about.
    asked = 16 * (12 + task.picture_shape[0])
    assert task.frames_drawn <= 1.05 * gate.learned.steps.sum() + asked
    return gate


def test_a_model_that_sees_and_predicts_loses_nothing():
    gate = diagnosed(Seeing)
    assert gate.oracle.success_rate == gate.learned.success_rate > 0.9


@pytest.mark.parametrize(
    ("model", "cause", "said"),
    [
        (Constant, "DOES NOT SEE", "encodes all pictures alike: constant latents"),
        (Shuffled, "DOES NOT SEE", "no probe reads from its latents"),
        (Still, "DOES NOT PREDICT", "the encoder tells 100 % of what is observed"),
        (Misled, "DOES NOT RATE", "what rates them is at fault"),
    ],
)
def test_what_a_model_does_not_do_is_named(model, cause, said):
    found = diagnosed(model).diagnosis
    assert found.cause == cause, found
    assert said in found.summary.replace("The encoder tells", "the encoder tells")
    assert found.recommendation
    assert found.misreading is None


class Wanting(Seeing):
    """Latents are where the agent is, and where it is to be; it goes anywhere else."""

    def __init__(self, task):
        super().__init__(SimpleNamespace(inner=task.inner.inner))

    def encode(self, pictures):
        places = [super(Wanting, self).encode(pictures[:, [at]]) for at in (0, 1)]
        return np.concatenate(places, axis=1)

    def rollout(self, latents, plans):
        reached = super().rollout(np.ascontiguousarray(latents[:, :2]), plans)
        goals = np.repeat(latents[:, None, 2:], plans.shape[1], axis=1)
        return np.concatenate([reached, goals], axis=2)

    def score(self, latents):
        return -np.abs(latents[..., :2] - latents[..., 2:]).sum(axis=-1)


class Remembering(Wanting):
    """Counts its steps, too, of which no frame of its training has any behind it."""

    def encode(self, pictures):
        return np.append(super().encode(pictures), np.zeros((len(pictures), 1)), axis=1)

    def update(self, latents, actions, pictures):
        return self.encode(pictures) + [0, 0, 0, 0, 1] * (1 + latents)

    def score(self, latents):
        return super().score(latents[..., :4])


def costing(task, **parts):
    """A model of stable-worldmodel's form, which sees a goal and whose costs are misleading."""
    torch = pytest.importorskip("torch")
    from pytest_cpg.world_models import StableWorldModel

    seeing = Seeing(SimpleNamespace(inner=task.inner.inner))

    def encode(info):
        # As DINO-WM, which embeds an action, too, and every patch.
        embedded = torch.from_numpy(seeing.encode(info["pixels"].numpy()))[:, None, None]
        return {"emb": torch.cat([embedded, info["action"][..., None, :]], dim=-2)}

    def get_cost(info, candidates):
        return -candidates[..., 0].sum(dim=2)

    def info(pictures):
        return {"pixels": pictures[:, :-1], "goal": pictures[:, -1:]}

    model = SimpleNamespace(**{"encode": encode, "get_cost": get_cost, **parts})
    return StableWorldModel(model, action_size=2, info=info)


def maze_from(cells):
    """Return what the maze looks like from some of its cells, many times over."""
    task = seen_as_pixels("maze", size=SIZE, stack=1)
    free = task.inner.reset(np.arange(400))
    chosen = free[cells(free[:, 0])]
    return task.pictures(np.resize(chosen, (120, chosen.shape[1])))


def frames_row(gate):
    """Return the row, which a terminal shows."""
    assert "frames" in cause_of(gate.diagnosis).main
    (measure,) = (row for row in gate.diagnosis.measures if row.name == "frames")
    return measure


GOALS = {"goals": Goals(offset=6, within=0.5), "budget": 12}
ENDS = CEM(horizon=4, samples=12, elites=4, iterations=1, objective="terminal", execute=1)


@pytest.mark.parametrize("is_outside", [True, False])
@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (Still, {"budget": 60}),
        (Remembering, GOALS),
        (Wanting, GOALS),
        (costing, {**GOALS, "planner": ENDS}),
    ],
)
def test_frames_of_training_say_whether_what_was_seen_is_like_them(model, kind, is_outside):
    frames = maze_from((lambda x: x < 3) if is_outside else (lambda x: x < 99))
    gate = diagnosed(model, training_data=frames, **kind)
    measure = frames_row(gate)
    assert (measure.low > 0.5) == is_outside, measure
    assert is_outside or measure.estimate < 0.1
    assert ("train on frames from there first" in gate.diagnosis.recommendation) == is_outside


def test_frames_of_training_may_be_of_one_step_with_a_goal_or_in_a_file(tmp_path):
    frames = maze_from(lambda x: x < 99)
    np.save(tmp_path / "frames.npy", frames)
    shape = (1, SIZE, SIZE, 3)
    for given in (frames, frames[:, 0], tmp_path / "frames.npy"):
        np.testing.assert_array_equal(_frames_of(given, shape, 0), frames)
    shown = np.concatenate([frames, frames[::-1]], axis=1)
    for given in (frames, frames[:, 0], shown):
        np.testing.assert_array_equal(_frames_of(given, (2, SIZE, SIZE, 3), 1), frames)


def test_a_model_that_embeds_no_pictures_is_said_not_to_be_compared():
    frames = maze_from(lambda x: x < 99)
    gate = diagnosed(
        lambda task: costing(task, encode=None), **GOALS, planner=ENDS, training_data=frames
    )
    said = "training_data is not compared: the model embeds no pictures (WorldModelError: "
    assert frames_row(gate).text.startswith(said)
    gate = diagnosed(NumberedAndMisled, budget=40, training_data=frames)
    said = "training_data is not compared: latents tell nothing of what was seen"
    assert frames_row(gate).text.startswith(said)
    assert frames_row(gate).estimate is None


def test_pictures_are_embedded_some_at_a_time_also_by_what_takes_tensors():
    pytest.importorskip("torch")
    calls = []

    def embed(pictures):
        calls.append(len(pictures))
        return pictures.flatten(1).double()[:, :2]

    pictures = np.random.default_rng(0).integers(0, 256, (150, 1, 4, 4, 3), dtype=np.uint8)
    model = SimpleNamespace(has_opaque_latents=True, embed=embed)
    latents = _encoded(None, model, None, pictures)
    np.testing.assert_array_equal(latents, pictures.reshape(150, -1)[:, :2])
    assert max(calls) <= 64


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((99, 4)), "training_data has float64 of shape (99, 4): return frames [T, 1, 96"),
        (np.zeros((9, SIZE, SIZE, 3), np.uint8), "has 9 frames, and 50 are needed"),
        ("absent.npy", "cannot be read: "),
        (Transitions(**dict.fromkeys(OF_STEPS, np.zeros((9, 2)))), "training_data has no frames"),
    ],
)
def test_what_is_no_frames_of_training_is_told(given, said):
    assert said in _frames_of(given, (1, SIZE, SIZE, 3), 0)


class Dark(GridTask):
    def render(self, states):
        return np.zeros((len(states), 8, 8, 3), dtype=np.uint8)


def test_pictures_that_are_all_the_same_are_no_fault_of_the_model():
    maze = TASKS["maze"]()
    task = seen_as_pixels(Dark(name="dark", layout=maze.layout, budget=100), size=SIZE, stack=1)
    gate = pytest_cpg.evaluate(
        task,
        Seeing(task),
        planner=RandomShooting(candidates=60, horizon=15),
        episodes=20,
        cache=None,
        diagnose="always",
        max_verdict="BAD",
    )
    assert gate.diagnosis.cause == "DOES NOT SEE"
    assert gate.diagnosis.summary.startswith("All pictures of these steps are the same")


@pytest.mark.parametrize(
    ("read", "stack", "name", "code"),
    [
        (lambda p: p[:, ::-1], 12, "STACK ORDER", "pictures[:, ::-1]"),
        (lambda p: p[..., ::-1], 1, "COLOUR ORDER", "pictures[..., ::-1]"),
        (lambda p: 255.0 * p, 1, "PIXELS OF 0 TO 1", "pictures / 255"),
        (
            lambda p: p.reshape(*p.shape[:2], 3, SIZE, SIZE).transpose(0, 1, 3, 4, 2),
            1,
            "CHANNELS FIRST",
            "pictures.transpose(0, 1, 4, 2, 3)",
        ),
    ],
)
def test_pictures_that_are_misread_are_told_with_the_line_to_type(read, stack, name, code):
    found = diagnosed(lambda task: Seeing(task, read), stack=stack).diagnosis
    assert found.misreading is not None, found
    assert found.misreading.name == name
    assert f"`pictures = {code}" in found.misreading.recommendation
    assert found.is_misread


class Numbered(Seeing):
    """Its latents are numbers of what it saw in no order, as those of `StableWorldModel` are."""

    has_opaque_latents = True

    def encode(self, pictures):
        return self.number(super().encode(pictures))

    def number(self, places):
        numbers = np.random.default_rng(0).permutation(self.cells.prod())
        return numbers[(places @ [1, self.cells[0]]).astype(int)][..., None].astype(float)

    def places(self, latents):
        known = np.random.default_rng(0).permutation(self.cells.prod()).argsort()
        return np.stack(np.divmod(known[latents[..., 0].astype(int)], self.cells[0])[::-1], axis=-1)

    def rollout(self, latents, plans):
        return self.number(super().rollout(self.places(latents).astype(float), plans))

    def decode(self, latents):
        return self.places(latents).astype(float)


class NumberedAndMisled(Numbered):
    def score(self, latents):
        return -self.inner.score(self.decode(latents))


@pytest.mark.parametrize(
    ("model", "read", "name"),
    [(NumberedAndMisled, lambda p: p, None), (Numbered, lambda p: p[..., ::-1], "COLOUR ORDER")],
)
def test_nothing_is_read_from_latents_that_are_said_to_tell_nothing(model, read, name):
    found = diagnosed(lambda task: model(task, read)).diagnosis
    assert found.cause == "NONE", found
    assert (found.misreading and found.misreading.name) == name
    ranking, *others = found.measures
    assert ranking.high < 0.3
    for measure in others:
        assert measure.estimate is None
        assert "as the model's latents tell nothing of what it saw" in measure.text


@pytest.mark.parametrize(
    ("lasted", "episodes", "steps"),
    [
        ([1, *[20] * 9], [*range(1, 10)], 12),
        ([1] * 5 + [7] * 8 + [30] * 10, [*range(13, 23)], 12),
        ([1] * 5 + [7] * 8, [*range(5, 13)], 7),
        ([1, 9], [0, 1], 1),
    ],
)
def test_an_episode_that_is_solved_at_once_does_not_shorten_the_steps_of_others(
    lasted, episodes, steps
):
    task = TASKS["maze"]()
    actions = [np.resize(task.actions.values, (count, 2)) for count in lasted]
    arm = SimpleNamespace(indices=np.arange(len(lasted)), actions=actions)
    starts = sample_starts(task, len(lasted), seed=0)
    walks = _walks(task, starts, SimpleNamespace(learned=arm, lost_episodes=(episodes[-1],)))
    assert walks.episodes.tolist() == episodes
    assert walks.actions.shape[1] == walks.states.shape[1] - 1 == steps
