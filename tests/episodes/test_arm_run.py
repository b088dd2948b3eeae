import functools
import pickle
import re
from dataclasses import dataclass

import numpy as np
import pytest
from runs import Sure, arm_of, run_of
from track import Track

from pytest_cpg.contracts import BrokenModelError, CpgError, Plans, TaskError, WorldModelError
from pytest_cpg.contracts.codec import encode
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.episodes.arm import median_interval
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.episodes.stage import Stage
from pytest_cpg.planners import CEM, ICEM, MPPI, Chance, RandomShooting
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.goal_task import GoalTask
from pytest_cpg.tasks.goals import Goals
from pytest_cpg.world_models import OracleDynamics, bind, collect_transitions, inference

LEVEL = 0.95


class Around(Track):
    """The cart, which starts on both sides."""

    def __init__(self, budget=30, *, far=6.0, **fields):
        super().__init__(budget, near=-far, far=far, **fields)


class TrueModel:
    def __init__(self, task):
        self.task = task

    def encode(self, states):
        return states

    def rollout(self, latents, actions):
        return self.task.rollout(latents, actions)

    def score(self, latents):
        return self.task.score(latents)


class Mirrored(TrueModel):
    """A model that believes that actions push the other way."""

    def rollout(self, latents, actions):
        return self.task.rollout(latents, -actions)


def run(planner=None, model=None, *, task=None, starts=None, name="learned", **options):
    task = task or Around()
    starts = starts or sample_starts(task, 20, seed=3)
    planner = planner or RandomShooting(candidates=10, horizon=6)
    model = model or TrueModel(task)
    return arm_of(name, task, planner, model, starts, seed=3, level=LEVEL, **options)


class Earning(Around):
    """The cart, whose goal is a return."""

    least_return = -25.0

    def reward(self, states, actions):
        return -np.abs(states[..., 0])


@pytest.mark.parametrize("least", [float("nan"), "much"])
def test_a_goal_of_returns_that_is_no_number_is_named(least):
    with pytest.raises(TaskError, match=r"track: least_return: need a number, what the rewards"):
        sample_starts(Earning(least_return=least), 2, seed=0)


def test_a_return_that_is_a_goal_decides_at_the_end_of_an_episode():
    task = Earning(far=12.0)
    starts = sample_starts(task, 20, seed=1)
    planner = RandomShooting(candidates=20, horizon=5)
    arm = arm_of("oracle", task, planner, TrueModel(task), starts, seed=1, level=LEVEL)
    assert starts.skipped == 0
    assert np.array_equal(arm.successes, arm.returns >= task.least_return)
    assert 0 < arm.success_count < 20
    assert set(arm.steps) == {task.budget}


def test_steps_count_to_success_or_to_the_end_of_the_budget():
    arm = run(model=Mirrored(Around()))
    assert (arm.steps[~arm.successes] == Around().budget).all()
    assert (arm.steps[arm.successes] <= Around().budget).all()
    assert (arm.steps >= 1).all()


@pytest.mark.parametrize(
    "planner", [RandomShooting(), CEM(), ICEM(), MPPI(), Chance()], ids=lambda p: p.name
)
@pytest.mark.parametrize("batch", [1, 7, 20])
def test_an_episode_ends_the_same_in_any_batch_and_order(planner, batch):
    starts = sample_starts(Around(), 20, seed=3)

    def trace(rows):
        done = {int(e): [] for e in starts.episodes[rows]}
        arm = run(
            planner,
            starts=starts.take(rows),
            on_step=lambda episodes, actions: [
                done[int(e)].append(float(a[0])) for e, a in zip(episodes, actions, strict=True)
            ],
        )
        outcome = zip(starts.episodes[rows], arm.successes, arm.steps, strict=True)
        return {int(e): (bool(s), int(n), tuple(done[int(e)])) for e, s, n in outcome}

    rows = np.arange(20)
    together = trace(rows)
    in_batches = {}
    for begin in range(0, 20, batch):
        in_batches |= trace(rows[::-1][begin : begin + batch])
    assert in_batches == together
    assert all(len(actions) == steps for _, steps, actions in together.values())


def test_starts_depend_on_seed_and_index_only():
    few, many = sample_starts(Around(), 5, seed=1), sample_starts(Around(), 50, seed=1)
    assert np.array_equal(few.states, many.states[:5])
    assert not np.array_equal(few.states, sample_starts(Around(), 5, seed=2).states)


def test_solved_starts_are_replaced_and_counted():
    task = Around()
    starts = sample_starts(task, 300, seed=0)
    idle = np.full((300, 1), -0.25)
    assert not task.success(task.step(starts.states, idle), idle).any()
    assert 1 <= starts.skipped <= 60


def test_fixed_starts_are_all_the_same():
    starts = sample_starts(Around(), 4, seed=9, fixed=True)
    assert len(np.unique(starts.states)) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "episode 0 found 100 starts in a row"),
        ({"threshold": 0.0}, r"Raise goal=0, which that step's reward reaches"),
    ],
)
def test_a_task_that_starts_at_its_goal_is_an_error(more, said):
    with pytest.raises(TaskError, match=said):
        sample_starts(Around(far=1e-9, **more), 3, seed=0)


def test_a_diverged_simulator_names_the_episode_and_step():
    with pytest.raises(TaskError, match=r"diverged in episode \d+ at step \d+"):
        run(model=Mirrored(Around()), task=Around(breaks_at=8.0))


def test_actions_that_do_not_fit_into_memory_are_said():
    with pytest.raises(
        TaskError, match=r"of 1000000000000000 steps do not fit into memory.*budget"
    ):
        run(task=Around(budget=10**15))


class NotFinite(TrueModel):
    def rollout(self, latents, actions):
        after = super().rollout(latents, actions).copy()
        after[latents[:, 0] > 2, 3] = np.inf
        return after


def test_predictions_that_are_not_finite_name_the_episode_and_step():
    starts = sample_starts(Around(), 20, seed=3)
    first = int(np.flatnonzero(starts.states[:, 0] > 2)[0])
    with pytest.raises(
        WorldModelError,
        match=rf"model predicted infinity, .*: episode {first}, step 0, imagined step 4 of",
    ):
        run(model=NotFinite(Around()), starts=starts)


class Growing(TrueModel):
    factor, breaks_at = 40.0, 2

    def rollout(self, latents, actions):
        powers = self.factor ** np.arange(actions.shape[1])
        after = np.abs(latents[:, None]) * powers[:, None] + 0 * actions
        after[:, self.breaks_at :] = np.nan
        return after


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {},
            r"1\. Predictions grew: the plan began with numbers up to \d\S*, and numbers up to \d",
        ),
        (
            {"factor": 1.0},
            r"1\. Often diverged weights or .* Predictions had not grown: numbers up to",
        ),
        (
            {"breaks_at": 0},
            r"1\. Often .* It was the first step of a plan, from .*: suspect the weights",
        ),
    ],
)
def test_what_went_into_the_step_that_breaks_tells_growth_from_broken_weights(fields, why):
    model = Growing(Around())
    vars(model).update(fields)
    with pytest.raises(BrokenModelError, match=why) as caught:
        run(model=model)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # as a pool sends it
    assert (str(again), again.brief) == (str(caught.value), "it predicted NaN (episode 0, step 0)")


class Diverging(NotFinite):
    may_diverge = True

    def score(self, latents):
        return np.nan_to_num(super().score(latents), posinf=np.inf)


@pytest.mark.parametrize("name", ["oracle", "learned", "chance", "anything"])
def test_the_model_and_not_its_arms_name_says_whether_it_may_diverge(name):
    run(model=Diverging(Around()), name=name)
    with pytest.raises(WorldModelError, match=r"The model.* predicted infinity"):
        run(model=NotFinite(Around()), name=name)


class Raising(TrueModel):
    def rollout(self, latents, actions):
        if (latents[:, 0] > 2).any():
            raise ZeroDivisionError("my own bug")
        return super().rollout(latents, actions)


def test_a_model_that_raises_keeps_its_exception_and_gets_a_note_with_the_episode():
    starts = sample_starts(Around(), 20, seed=3)
    first = int(np.flatnonzero(starts.states[:, 0] > 2)[0])
    with pytest.raises(ZeroDivisionError, match="my own bug") as caught:
        run(model=Raising(Around()), starts=starts)
    note = f"raised by rollout in the learned arm, episode {first} at step 0"
    assert re.search(note, caught.value.__notes__[0])


@dataclass(frozen=True)
class BadPlanner:
    actions_shape: tuple[int, ...] = (2, 1)
    length: int = 1
    fill: float = 0.25
    name: str = "bad"
    horizon: int = 2

    def plan(self, world_model, latents, rngs, remaining):
        n = len(latents)
        return Plans(np.full((n, *self.actions_shape), self.fill), np.full(n, self.length))


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (BadPlanner(actions_shape=(3, 1)), r"returned actions \(20, 3, 1\)"),
        (BadPlanner(length=0), r"returned lengths \[0\]"),
        (BadPlanner(length=3), r"returned lengths \[3\]"),
        (BadPlanner(fill=np.nan), "returned actions outside the task's"),
        (BadPlanner(fill=0.3), "returned actions outside the task's"),
        (BadPlanner(length=1.0), r"returned lengths \[1.\]"),
    ],
)
def test_a_planner_that_breaks_its_contract_is_named(planner, message):
    with pytest.raises(CpgError, match=f"planner 'bad' {message}"):
        run(planner)


def test_the_arm_counts_what_it_cost():
    arm = run(RandomShooting(candidates=10, horizon=6))
    assert arm.rollout_steps == 60
    executed = sum(map(len, arm.actions))
    assert arm.compute == pytest.approx(60 * arm.decisions / executed)
    assert arm.latency_interval is None or arm.latency_interval[0] <= arm.latency_ms.median
    assert arm.decisions >= arm.episodes
    assert arm.latency_ms.p95 >= arm.latency_ms.median > 0
    assert arm.seconds > 0


def test_progress_goes_from_nothing_to_all_steps_and_counts_solved_starts():
    heard = []
    arm = run(progress=heard.append)
    assert heard[0] == Stage(0, 30, "step", 0, 20)
    assert heard[-1] == Stage(30, 30, "step", arm.success_count, 20)
    assert [one.done for one in heard] == sorted(one.done for one in heard)
    assert [one.solved for one in heard] == sorted(one.solved for one in heard)


def test_starts_are_not_changed_by_running_them():
    starts = sample_starts(Around(), 20, seed=3)
    before = starts.states.copy()
    run(starts=starts)
    assert np.array_equal(starts.states, before)


class Unsure(CEM):
    """A planner that says how sure it is."""

    def plan(self, world_model, latents, rngs, remaining):
        plans = super().plan(world_model, latents, rngs, remaining)
        return plans._replace(confidences=np.arange(len(latents)) / 7)


@dataclass(frozen=True)
class Habit:
    """Goes on for what is left of its last plan; a first plan is drawn at random."""

    horizon: int = 5
    length: int = 2
    name: str = "habit"
    is_warm_started = True

    def plan(self, world_model, latents, rngs, remaining, memory=None):
        drawn = world_model.actions.sample(rngs, (self.horizon,))
        if memory is not None:
            drawn[:, : memory.shape[1]] = memory
        lengths = np.minimum(remaining, self.length)
        return Plans(drawn, lengths, memory=drawn[:, self.length :])


def outcomes(arm):
    timed = ("seconds", "latency_ms", "latency_interval", "cpu_ms")
    return {name: value for name, value in encode(arm).items() if name not in timed}


@pytest.mark.parametrize("planner", [RandomShooting(candidates=4, horizon=3), Habit(), Sure()])
@pytest.mark.parametrize("metric", ["success", "return"])
def test_what_has_ended_of_an_arm_that_was_broken_off_is_as_if_run_alone(planner, metric):
    starts, task = sample_starts(Around(), 9, seed=3), Around()

    def arm_run(**more):
        model, options = TrueModel(task), {"seed": 3, "level": LEVEL, "metric": metric}
        return run_of("learned", task, planner, model, starts, **options, **more)

    expected, lengths = arm_run().advance(9), set()
    for last in range(task.budget):

        def stop(stage, last=last):
            if stage.starts == 9 and stage.done >= last:
                raise KeyboardInterrupt

        run = arm_run(progress=stop)
        assert run.finished is None
        first = run.advance(2)
        with pytest.raises(KeyboardInterrupt):
            run.advance(9)
        stored = run.finished
        lengths.add(stored.episodes)
        if stored.episodes == 2:
            assert outcomes(stored) == outcomes(first)
        alone = arm_run().advance(stored.episodes)
        assert outcomes(stored) == outcomes(alone)
        assert all(map(np.array_equal, stored.actions, expected.actions))
    assert lengths > {2}


def taken_by(planner, starts, rows):
    done = {int(e): [] for e in starts.episodes}
    run(
        planner,
        starts=starts.take(rows),
        on_step=lambda episodes, actions: [
            done[int(e)].append(float(a[0])) for e, a in zip(episodes, actions, strict=True)
        ],
    )
    return done


def test_a_warm_started_planner_goes_on_from_its_own_last_plan_in_any_batch():
    starts = sample_starts(Around(), 9, seed=3)
    together = taken_by(Habit(), starts, np.arange(9))
    for rows in (np.arange(9)[::-1], np.array([4, 2]), np.array([4])):
        found = taken_by(Habit(), starts, rows)
        assert all(found[int(e)] == together[int(e)] for e in starts.episodes[rows])
    firsts = {e: Stream.PLANNER.of(3, e) for e in together}
    for episode, actions in together.items():
        expected = Around.actions.sample([firsts[episode]], (5,))[0, :, 0]
        assert actions[:5] == list(expected[: len(actions[:5])])


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (lambda n: None, r"memory of shape \(\) for 20 episodes"),
        (lambda n: np.zeros((n + 1, 3)), r"memory of shape \(21, 3\) for 20 episodes"),
        (lambda n: np.full((n, 3), np.nan), "memory that is not finite"),
    ],
)
def test_a_warm_started_planner_that_returns_no_memory_is_named(memory, message):
    class Forgetful(Habit):
        def plan(self, world_model, latents, rngs, remaining, memory=None):
            plans = super().plan(world_model, latents, rngs, remaining)
            return plans._replace(memory=forget(len(latents)))

    forget = memory
    with pytest.raises(CpgError, match=f"planner 'habit' .*{message}"):
        run(Forgetful())


# Together they imagine more than the 512 rows that a learned model is called with at once; alone,
# so few that calls of fewer rows are tried and made.
EPISODES = 27
PLANNERS = {
    "random-shooting": RandomShooting(candidates=20, horizon=10),
    "cem": CEM(iterations=2, samples=20, elites=4, horizon=10),
}


def batches(size):
    return [np.arange(first, min(first + size, EPISODES)) for first in range(0, EPISODES, size)]


ORDERS = {
    "reversed": [np.arange(EPISODES)[::-1]],
    "one by one": batches(1),
    "by seven": batches(7),
}


def outcomes_in(task, planner, model, starts, orders):
    """Success, steps and every action of each episode, run in these batches."""
    bound = bind(
        model,
        task,
        probe_states=starts.states[:8],
        probe_actions=task.actions.sample([np.random.default_rng(0)], (8,))[0],
    )
    actions = {episode: [] for episode in range(EPISODES)}

    def note(episodes, taken):
        for episode, action in zip(episodes, taken, strict=True):
            actions[int(episode)].append(action.tobytes())

    ended = {}
    with inference(model):
        for rows in orders:
            arm = arm_of("oracle", task, planner, bound, starts.take(rows), seed=1, on_step=note)
            for row, success, steps in zip(rows, arm.successes, arm.steps, strict=True):
                ended[int(row)] = (bool(success), int(steps))
    return {episode: (ended[episode], actions[episode]) for episode in range(EPISODES)}


def check(make_task, planner, make_model):
    task = make_task(threads=1)
    model = make_model(task)
    starts = sample_starts(task, EPISODES, seed=1)
    together = outcomes_in(task, planner, model, starts, [np.arange(EPISODES)])
    for orders in ORDERS.values():
        assert outcomes_in(task, planner, model, starts, orders) == together
    two = make_task(threads=2)
    model = OracleDynamics(two) if isinstance(model, OracleDynamics) else model
    assert outcomes_in(two, planner, model, starts, [np.arange(EPISODES)]) == together


@functools.cache
def published_mlp(task):
    pytest.importorskip("torch")
    from pytest_cpg.world_models import train_mlp

    return train_mlp(collect_transitions(task, count=500, seed=0), seed=0, epochs=5)


MODELS = {"oracle": OracleDynamics, "mlp": published_mlp}
models = pytest.mark.parametrize("model", ["oracle", pytest.param("mlp", marks=pytest.mark.trains)])


@functools.cache
def short_task(name, threads):
    """Compiled once for all planners and models."""
    from pytest_cpg.tasks.control.task import control_task

    return control_task(name, budget=8, threads=threads)


@models
@pytest.mark.parametrize(
    ("task", "planner"),
    [
        ("acrobot-swingup", "cem"),
        ("cartpole-swingup", "random-shooting"),
        ("reacher-easy", "cem"),
    ],
)
def test_episodes_do_not_feel_each_other(task, planner, model):
    pytest.importorskip("dm_control")
    check(functools.partial(short_task, task), PLANNERS[planner], MODELS[model])


@pytest.mark.slow
@models
def test_whole_episodes_of_acrobot_do_not_feel_each_other(model):
    pytest.importorskip("dm_control")
    from pytest_cpg.tasks.control.task import control_task

    check(
        lambda threads: control_task("acrobot-swingup", budget=150, threads=threads),
        RandomShooting(),
        MODELS[model],
    )


@pytest.mark.parametrize(
    ("title", "goals", "hidden", "spread"),
    [
        ("cartpole-swingup", None, 8, set()),
        ("cartpole-swingup", None, 256, {"learned"}),
        ("cartpole-swingup", Goals(offset=2, within=0.01), 8, set()),
        ("gym:Pendulum-v1", Goals(offset=2, within=0.01), 8, {"oracle", "learned", "chance"}),
    ],
)
def test_workers_are_left_out_of_arms_that_they_would_not_make_faster(title, goals, hidden, spread):
    pytest.importorskip("dm_control")
    pytest.importorskip("torch")
    from pytest_cpg.episodes import probe
    from pytest_cpg.episodes.arm_run import ArmRun
    from pytest_cpg.episodes.arms import ArmRuns, Execution
    from pytest_cpg.episodes.design import Design
    from pytest_cpg.episodes.spread_run import SpreadRun
    from pytest_cpg.machine.pool import WorkerPool
    from pytest_cpg.world_models import train_mlp

    if title == "gym:Pendulum-v1":
        pytest.importorskip("gymnasium")
        task = named_task(title, TASKS)(budget=2)
    else:
        task = short_task("cartpole-swingup", 2)
    if goals is not None:
        task = GoalTask(inner=task, goals=goals)
    learned = train_mlp(
        collect_transitions(task, count=20, seed=0), hidden=hidden, layers=2, epochs=1, seed=0
    )
    planner = RandomShooting(candidates=4, horizon=2)
    design = Design(task=task, planner=planner, episodes=2, seed=0)
    models = {"oracle": OracleDynamics(task), "learned": learned}
    with inference(learned):
        starts, bound = probe.bound_arms(design, **models)
        stages = []
        runs = ArmRuns(
            design,
            starts,
            models,
            bound,
            progress=lambda name, stage: stages.append((name, stage.note)),
            execution=Execution(executor=WorkerPool(2)),
        )
        kinds = {name: type(runs[name]) for name in runs.names}
        if "oracle" not in spread:
            runs["oracle"].advance(2)
            assert set(stages) == {("oracle", "not spread over workers")}
    arms = ("oracle", "learned", "chance")
    assert kinds == {name: SpreadRun if name in spread else ArmRun for name in arms}


@pytest.mark.parametrize("count", [6, 9, 10, 50, 101, 1000])
def test_the_interval_of_a_median_has_the_level_that_it_says(count):
    """Exactly, by the binomial distribution: one rank further in would miss it."""
    stats = pytest.importorskip("scipy.stats")
    low, high = median_interval(np.arange(1.0, count + 1))
    rank = int(low)
    assert high == count + 1 - rank
    covers = [1 - 2 * stats.binom.cdf(inner - 1, count, 0.5) for inner in (rank, rank + 1)]
    assert covers[0] >= 0.95 > covers[1]


def test_few_decisions_bound_no_median():
    assert median_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) is None
