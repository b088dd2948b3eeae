"""Worlds whose causes are known: their rules, what is drawn in them, and what they look like."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import arm_of
from wrong_physics import TRUE, WRONG

import pytest_cpg
from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import bound_to_starts, starts_of
from pytest_cpg.planners import Greedy
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.causal.blocks import Blocks, move
from pytest_cpg.tasks.causal.chemistry import Chemistry, ExactChemistry
from pytest_cpg.tasks.causal.graphs import GRAPHS
from pytest_cpg.tasks.causal.looks import SETTINGS, stamps
from pytest_cpg.world_models import OracleDynamics


def solved_by(task, model, episodes):
    """Return the starts, and the share of them that greedy plans by a model solve."""
    design = Design(task=task, planner=Greedy(), episodes=episodes, seed=0)
    starts = starts_of(design)
    learned = bound_to_starts(model, design, starts)
    return starts, arm_of("learned", task, Greedy(), learned, starts, seed=0).success_rate


WAYS = ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))


def moved_by_hand(places, weights, block, way):
    """Return places, and what happens, by the rules as the specification lists them."""
    if way == 0:
        return places, ""
    x, y = places[block]
    (dx, dy), after = WAYS[way], list(places)
    target, behind = (x + dx, y + dy), (x + 2 * dx, y + 2 * dy)

    def is_inside(place):
        return all(0 <= part < 5 for part in place)

    if target not in places:
        after[block] = target if is_inside(target) else places[block]
        return after, ""
    other = places.index(target)
    if weights[block] <= weights[other]:
        return after, "blocked"
    if behind in places:
        return after, "invalid"
    if not is_inside(behind):
        return after, "blocked"
    after[block], after[other] = target, behind
    return after, "push"


@st.composite
def boards(draw):
    # On a part of the board, so that blocks meet, and in each of its corners.
    x, y = draw(st.sampled_from([0, 2])), draw(st.sampled_from([0, 2]))
    place = st.tuples(st.integers(x, x + 2), st.integers(y, y + 2))
    places = draw(st.lists(place, min_size=2, max_size=5, unique=True))
    weights = draw(st.lists(st.integers(0, 2), min_size=len(places), max_size=len(places)))
    return places, weights, draw(st.integers(0, len(places) - 1)), draw(st.integers(0, 4))


@given(boards())
def test_a_block_moves_by_the_rules(board):
    places, weights, block, way = board
    cells = np.array([[5 * x + y for x, y in places]])
    moved = move(cells, np.array([weights], dtype=float), np.array([block]), np.array([way]))
    expected, event = moved_by_hand(places, weights, block, way)
    assert moved.cells[0].tolist() == [5 * x + y for x, y in expected]
    assert moved.pushes[0] == (event == "push")
    assert moved.is_invalid[0] == (event == "invalid")
    assert moved.is_blocked[0] == (event in ("blocked", "invalid"))


def test_few_random_moves_push_a_block_and_strata_hold_those_alone():
    rng = np.random.default_rng(0)
    for blocks, pushes, shares in ((3, 0.017, (0.019, 0.085)), (5, 0.030, (0.035, 0.155))):
        task = Blocks(blocks=blocks)
        states, pushed = task.reset(np.arange(400)), []
        for _ in range(50):
            actions = task.actions.values[rng.integers(5 * blocks, size=len(states))]
            pushed.append(task.strata(states, actions)["push"])
            states = task.step(states, actions)
        assert np.mean(pushed) == pytest.approx(pushes, abs=0.003)
        for k, share in zip((1, 5), shares, strict=True):
            drawn = Blocks(blocks=blocks, k=k, stratum="push").share()
            assert drawn == pytest.approx(share, abs=0.012)
    task = Blocks(k=1, stratum="push")
    states = task.reset(np.arange(50))
    successors = [task.step(states, np.tile(a, (50, 1))) for a in task.actions.values]
    solved = np.array([task.success(after, None) for after in successors])
    pushes = [task.strata(states, np.tile(a, (50, 1)))["push"] for a in task.actions.values]
    assert solved.any(axis=0).all()
    assert not (solved & ~np.array(pushes)).any()


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_weight_shows_as_its_setting_says(setting):
    task = Blocks(blocks=4, setting=setting)
    states = task.reset(np.arange(200)).reshape(200, 5, 4)
    weights, colours, shapes = states[:, 2], states[:, 3], states[:, 4]
    if SETTINGS[setting].shades:
        assert (weights == [4, 3, 2, 1]).all()
        assert (np.diff(colours) < 0).all()
    else:
        np.testing.assert_array_equal(weights, colours)
        assert (np.diff(weights) > 0).all()
    assert shapes.max() == {"fixed-unobserved": 3, "zero-shot-shape": 5}.get(setting, 2)


def replayed(task, plans, seeds):
    """Return the share of starts that plans [N, k, 2] solve."""
    reached = task.rollout(task.reset(seeds), plans)
    return task.success(reached, None).any(axis=1).mean()


def published_start(task, count, rng):
    """Return starts as published: a target may be the start itself, and no other is drawn then."""
    states = task.reset(np.arange(count))
    states[:, : task.blocks] = rng.random((count, 25)).argsort(axis=1)[:, : task.blocks]
    reached = states
    for _ in range(task.k):
        reached = task.step(reached, task.actions.values[rng.integers(5 * task.blocks, size=count)])
    states[:, task.blocks : 2 * task.blocks] = reached[:, : task.blocks]
    return states


@pytest.mark.parametrize("blocks", [3, 5])
@pytest.mark.parametrize(
    ("k", "chance", "greedy"), [(1, 0.22, 1.0), (5, 0.01, 0.99), (10, 0.0, 0.98)]
)
def test_blocks_are_as_hard_as_published(blocks, k, chance, greedy):
    """Within two standard errors of both samples; published rates, of 1000, have two decimals."""
    task, count, rng = Blocks(blocks=blocks, k=k), 4000, np.random.default_rng(0)
    if (blocks, k) == (5, 5):
        chance = 0.0
    begun = published_start(task, count, rng)
    values = task.actions.values
    at_random = by_reward = begun
    for _ in range(k):
        at_random = task.step(at_random, values[rng.integers(len(values), size=count)])
        rewards = [task.reward(task.step(by_reward, np.tile(a, (count, 1))), None) for a in values]
        by_reward = task.step(by_reward, values[np.argmax(rewards, axis=0)])
    for states, published in ((at_random, chance), (by_reward, greedy)):
        rate = min(max(published, 1 / 1000), 1 - 1 / 1000)
        error = np.sqrt(rate * (1 - rate) * (1 / 1000 + 1 / count))
        assert abs(task.success(states, None).mean() - published) <= 2 * error + 0.005


@pytest.mark.parametrize("graph", [*GRAPHS, "random"])
def test_a_colour_is_drawn_by_those_of_its_parents_alone(graph):
    task = Chemistry(graph=graph, k=2)
    assert not np.triu(task.parents).any()
    states = task.reset(np.arange(300))
    rng = np.random.default_rng(0)
    for node in range(5):
        actions = np.stack([np.full(300, node), rng.integers(5, size=300)], axis=1)
        after = task.step(states, actions)
        changed = (after != states)[:, :5]
        reached = task.descendants[node].copy()
        reached[node] = True
        assert not changed[:, ~reached].any()
        assert (after[:, node] == actions[:, 1]).all()
        # Who is not a descendant of a path is not reached: by hand, over all paths.
        paths = np.linalg.matrix_power(task.parents.T.astype(int) + np.eye(5, dtype=int), 5)[node]
        np.testing.assert_array_equal(reached, paths > 0)


def test_tables_are_as_certain_as_their_gain():
    for gain, entropy in ((1, 1.08), (3.5, 0.55), (8, 0.17)):
        tables = [
            table for seed in range(30) for table in Chemistry(gain=gain, tables=seed).chances[1:]
        ]
        assert all(np.allclose(table.sum(axis=-1), 1) for table in tables)
        entropies = [-(t * np.log(t + 1e-300)).sum(axis=-1).mean() for t in tables]
        assert np.mean(entropies) == pytest.approx(entropy, abs=0.08)


@pytest.mark.parametrize("graph", ["chain", "full", "collider", "jungle"])
def test_chances_are_those_of_many_draws(graph):
    task = Chemistry(graph=graph, tables=3)
    start, draws = task.reset(np.array([0])), 20_000
    states = np.repeat(start, draws, axis=0)
    states[:, -2] = np.random.default_rng(0).integers(2**53, size=draws)
    for action in task.actions.values[[0, 7, 13, 24]]:
        after = task.observe(task.step(states, np.tile(action, (draws, 1)))).mean(axis=0)
        exact = ExactChemistry(task)(task.observe(start), action[None])[0]
        np.testing.assert_allclose(exact, after, atol=0.02)


def test_nothing_foresees_a_draw_and_plans_of_chances_beat_the_replay():
    """The published "optimal" is to take the target's actions again."""
    for graph, (low, high) in {
        "chain": (0.26, 0.80),
        "full": (0.33, 0.69),
        "collider": (0.71, 0.94),
    }.items():
        for k in (1, 5):
            task = Chemistry(graph=graph, k=k)
            starts, exact = solved_by(task, ExactChemistry(task), 200)
            replay = replayed(task, task.target_plans(starts.seeds), starts.seeds)
            assert low - 0.1 <= replay <= high + 0.1
            assert exact >= replay - 0.05
    states = starts.states.copy()
    states[:, -2:] = [7, 3]
    np.testing.assert_array_equal(task.observe(states), task.observe(starts.states))


def test_a_look_is_of_eight_bits_and_each_block_is_seen():
    assert stamps().sum(axis=(1, 2)).tolist()[:3:2] == [69, 121]
    assert len({stamp.tobytes() for stamp in stamps()}) == 8
    for task in (Blocks(blocks=5), Blocks(setting="unobserved"), Chemistry(positions="dynamic")):
        states = task.reset(np.arange(20))
        grids, pictures = task.frames(states, "grid"), task.frames(states, "picture")
        assert (grids.dtype, grids.shape) == (np.uint8, (20, 3, 5, 5))
        assert (pictures.dtype, pictures.shape) == (np.uint8, (20, 3, 50, 50))
        objects = getattr(task, "blocks", 5)
        assert ((grids > 0).any(axis=1).sum(axis=(1, 2)) == objects).all()
        # The middle of a cell has the object's colour.
        np.testing.assert_array_equal(pictures[:, :, 5::10, 5::10], grids)
        assert task.render(states).shape == (20, 200, 408, 3)
        for look, now in (("grid", grids), ("picture", pictures)):
            seeing = replace(task, look=look)
            seen = seeing.observe(states[None])
            assert seen.shape == (1, 20, seeing.observation_size)
            wanted = task.frames(states, look, part=1)
            both = np.stack([now, wanted], axis=1).transpose(0, 1, 3, 4, 2)
            assert seeing.picture_shape == both.shape[1:]
            np.testing.assert_array_equal(seeing.pictures(states), both)
            np.testing.assert_array_equal(seen[0], both.reshape(20, -1))
            assert seen.dtype == seeing.pictures(states).dtype == np.uint8
            np.testing.assert_array_equal(-task.reward(states, None), seeing.score_states(states))
            with pytest.raises(WorldModelError, match=r"Give the model a score\(latents\) method"):
                seeing.score(seen)
            with pytest.raises(ValueError, match=r"no look 'vector'\. Known: grid, picture\."):
                task.frames(states, "vector")


def test_a_random_graph_is_as_dense_as_is_asked():
    counts = [
        np.mean([Chemistry(graph="random", tables=s, density=d).parents.sum() for s in range(60)])
        for d in (0, 0.5, 1)
    ]
    # Of 4 later objects, chances of d j / (j + 1) with j before each.
    expected = [d * sum(j * j / (j + 1) for j in range(5)) for d in (0, 0.5, 1)]
    np.testing.assert_allclose(counts, expected, atol=0.6)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("blocks:3,k=1,stratum=pussh", "no stratum 'pussh'. Did you mean 'push'?"),
        ("blocks:3,kk=1", "no option 'kk=1'. Did you mean 'k'?"),
        ("blocks:3,k=x", "k: need a number, got 'x'"),
        ("blocks:3,k=0", "k: need 1 to 1000, got 0"),
        ("blocks:11", "blocks: need 2 to 9, got 11"),
        ("blocks:three", "as in 'blocks:3', got 'three'"),
        ("blocks:3-observd", "no setting 'observd'. Did you mean 'observed'?"),
        ("blocks:3,look=image", "no look 'image'. Known: grid, picture, vector."),
        ("blocks:3,k=1,stratum=blocked", "with k=1 a blocked move reaches nothing; give k=2"),
        ("block:3", "Did you mean 'blocks:3'?"),
        ("blocks", "Did you mean 'blocks:3'?"),
        ("blocks3,k=1", "Did you mean 'blocks:3,k=1'?"),
        ("blocks-3", "Did you mean 'blocks:3'?"),
        ("chemistry", "Did you mean 'chemistry:chain5'?"),
        ("chemistry-full5", "Did you mean 'chemistry:full5'?"),
        ("chemistry:chan5", "no graph 'chan'. Did you mean 'chain'?"),
        ("chemistry:chain", "or edges, as in 'chemistry:0>1+0>2', got 'chain'"),
        ("chemistry:chain11", "objects: need 2 to 10, got 11"),
        ("chemistry:chain5-moving", "no setting 'moving'. Known: dynamic, static."),
        ("blocks:3,k=1000000000", "k: need 1 to 1000, got 1000000000"),
        ("blocks:3,k=1,k=2", "k stands there twice"),
        ("chemistry:chain5,tables=-1", "tables: need 0 to "),
        ("chemistry:collider10,colours=9", "Take fewer objects or colours"),
        ("chemistry:random5,density=2", "density: need 0 to 1, got 2.0"),
        ("chemistry:chain5,look=image", "no look 'image'. Known: grid, picture, vector."),
        ("chemistry:0>1+1>2+2>0", "edge 2>0: objects are numbered so that causes come first, and"),
        ("chemistry:0>0", "edge 0>0: objects are numbered"),
        ("chemistry:0>1+2", "no edge '2'. Write edges as 0>1+0>2"),
        ("chemistry:0>12", "objects: need 2 to 10, got 13"),
        ("chemistry:chain5,gain=0", "gain: need 0.001 to 1000, got 0.0"),
    ],
)
def test_a_name_that_says_what_there_is_not_is_told_what_there_is(name, said):
    with pytest.raises(ComponentError) as caught:
        named_task(name, TASKS)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "blocks:3",
        "blocks:5-unobserved,k=1,stratum=push",
        "blocks:3,look=grid",
        "chemistry:full5",
        "chemistry:full5,k=1,look=picture",
        "chemistry:random5,density=0.25",
        "blocks:4-zero-shot,k=5",
        "blocks:4-zero-shot-shape,k=1",
        "chemistry:random4-dynamic,k=5,gain=8,colours=3,tables=2",
        "chemistry:chain5,gain=3.5000001,tables=1234567",
        "chemistry:0>1+0>3-dynamic,k=1",
    ],
)
def test_a_task_bears_the_name_that_made_it(name):
    assert named_task(name, TASKS)().name == name


def test_starts_that_need_a_push_fail_models_that_know_no_weights():
    """The published starts pass nearly all of them: few random moves meet another block."""
    for name, model in {"true": TRUE, **WRONG}.items():
        _, rate = solved_by(Blocks(k=5), model, 60)
        assert rate >= 0.9, name
        _, rate = solved_by(Blocks(k=1, stratum="push"), model, 60)
        assert rate == (name not in ("no push", "reversed")), name


def test_a_gate_on_pushes_fails_them_and_says_how_rare_its_starts_are():
    for name in ("no push", "reversed"):
        gate = pytest_cpg.evaluate(
            "blocks:3,k=1,stratum=push", WRONG[name], planner="greedy", episodes=20, cache=None
        )
        assert (gate.learned.success_rate, gate.oracle.success_rate) == (0, 1)
        assert gate.label == "MODEL BOTTLENECK"
        assert "episodes begin in stratum 'push', which has 2" in str(gate)
        assert "% of random starts" in str(gate)


def test_what_worlds_keep_cannot_be_written_to():
    task = Chemistry(k=2)
    for kept in (task.parents, task.descendants, *task.chances, stamps(), Blocks().actions.values):
        with pytest.raises(ValueError, match="read-only"):
            kept[...] = 0


@pytest.mark.parametrize(("name", "best"), [("blocks:3,k=2", 0), ("chemistry:chain3,k=2", 1)])
def test_a_world_is_an_environment_of_gymnasium_in_a_few_lines(name, best):
    pytest.importorskip("gymnasium")
    from world_environment import Environment

    from pytest_cpg.tasks.gymnasium import gym_task

    world = named_task(name, TASKS)()
    task = gym_task(partial(Environment, world), score=world.score, budget=2, threshold=best)
    states = task.reset(np.arange(5))
    actions = np.full((5, 1), 3.0)
    after = task.observe(task.step(states, actions))
    assert after.shape == (5, world.observation_size)
    _, solved = solved_by(task, OracleDynamics(task), 20)
    assert solved > 0.5


def test_a_world_from_outside_is_gated_by_its_name():
    gymnasium = pytest.importorskip("gymnasium")
    from world_environment import Environment

    world = Blocks(k=2)
    gymnasium.register("Pushing-v0", partial(Environment, world))

    def model(observations, actions, physics=TRUE):
        return physics(observations, world.actions.values[actions[:, 0].astype(int)])

    ghost = partial(model, physics=WRONG["ghost"])
    asked = {"kind": "cpg_counterfactual", "limit": 0.015, "cache": None, "progress": False}
    try:
        gates = [pytest_cpg.evaluate("gym:Pushing-v0", each, **asked) for each in (model, ghost)]
    finally:
        del gymnasium.registry["Pushing-v0"]
    assert [gate.label for gate in gates] == ["WITHIN LIMIT", "ABOVE LIMIT"]
