import threading

import numpy as np
import pytest
from runs import run_of

from pytest_cpg.contracts import BoxActions, ComponentError, TaskError
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.episodes.disturbance import Disturbance, as_observed
from pytest_cpg.episodes.perturbation_names import parse_perturbation
from pytest_cpg.episodes.perturbations import DelayActions, Kick, Physics, Several
from pytest_cpg.episodes.spread_run import arm_workload
from pytest_cpg.planners import CEM, Chance, RandomShooting
from pytest_cpg.tasks.grids import maze, two_room
from pytest_cpg.world_models import OracleDynamics, bind

EVERY_NAME = [
    "drop-next-3",
    "drop-next-2-every-3",
    "drop-next-2-probability-0.2",
    "delay-2",
    "action-noise-0.3",
    "observation-noise-0.4",
    "skip-next-2",
    "skip-next-9-every-3",
    "kick-0.4-every-5",
    "kick-0.4,delay-1,action-noise-0.3,skip-next-1-probability-0.2",
]


class Slippery:
    """A maze whose real moves may be weaker than the planner thinks."""

    def __init__(self, task, gain=1.0):
        self._task, self._gain = task, gain

    def __getattr__(self, name):
        return getattr(self._task, name)

    def with_physics(self, *, friction):
        return Slippery(self._task, 1 / friction)

    def step(self, states, actions):
        return self._task.step(states, self._gain * actions)


class Run:
    """One arm on two rooms, with what was planned and executed in every episode."""

    def __init__(self, name, rows=None, *, planner=None, task=None, seed=3, arm="oracle", **more):
        self.task = task or two_room(budget=40)
        starts = sample_starts(self.task, 12, seed=seed)
        self.starts = starts if rows is None else starts.take(np.asarray(rows))
        self.executed = {int(episode): [] for episode in self.starts.episodes}
        self.planned = {int(episode): [] for episode in self.starts.episodes}
        probe = {"probe_states": starts.states[:4], "probe_actions": self.task.actions.values}
        model = bind(OracleDynamics(self.task), self.task, **probe)
        self.run = run_of(
            arm,
            self.task,
            planner or RandomShooting(candidates=30, horizon=8),
            model,
            self.starts,
            seed=seed,
            perturbation=parse_perturbation(name),
            on_step=self._note_step,
            on_plan=self._note_plan,
            **more,
        )

    def _note_step(self, episodes, actions):
        for episode, action in zip(episodes, actions, strict=True):
            self.executed[int(episode)].append(tuple(action))

    def _note_plan(self, episodes, plans):
        for episode, plan, length in zip(episodes, plans.actions, plans.lengths, strict=True):
            self.planned[int(episode)] += [tuple(action) for action in plan[:length]]

    def arm(self):
        return self.run.advance(len(self.starts.episodes))

    def differences(self, episode):
        """Return the steps at which something else was executed than planned."""
        pairs = zip(self.planned[episode], self.executed[episode], strict=False)
        return [step for step, (planned, executed) in enumerate(pairs) if planned != executed]


def outcomes(arm):
    timed = ("seconds", "latency_ms", "latency_interval", "cpu_ms", "decisions", "rollout_steps")
    return {name: value for name, value in encode(arm).items() if name not in timed}


def test_without_a_perturbation_nothing_is_counted():
    arm = Run(None).arm()
    assert arm.perturbed is None
    assert arm.recovery is None


def test_next_actions_are_dropped_while_time_goes_on():
    run = Run("drop-next-5-at-3")
    arm = run.arm()
    idle = tuple(run.task.actions.idle)
    for episode, executed in run.executed.items():
        assert len(executed) == arm.steps[episode]
        assert set(run.differences(episode)) <= {3, 4, 5, 6, 7}
        assert set(executed[3:8]) <= {idle}
        assert arm.perturbed[episode] == bool(run.differences(episode))
    assert arm.perturbed.any()


def test_dropping_nothing_perturbs_no_episode():
    arm, bare = Run("drop-next-0").arm(), Run(None).arm()
    assert not arm.perturbed.any()
    # Of nothing nothing is known.
    assert arm.recovery is None
    assert np.array_equal(arm.steps, bare.steps)


def struck(name):
    """Return at which steps of an episode what a name stands for happens, [N, budget]."""
    run = Run(name)
    run.arm()
    return run.run._disturbance._memories[0]["struck"]


def test_a_loss_without_a_time_comes_once_and_early():
    lost = struck("drop-next-2")
    assert (lost.sum(axis=1) == 2).all()
    first = lost.argmax(axis=1)
    # A tenth of 40 steps.
    assert set(first) <= {1, 2, 3, 4}
    assert len(set(first)) > 1


def test_losses_come_back_after_so_many_steps_or_by_chance():
    regular = struck("drop-next-2-every-3")
    assert regular[0, :10].astype(int).tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]
    certain = struck("drop-next-1-probability-1")
    assert not certain[:, 0].any()
    assert certain[:, 1:].all()
    rare = struck("drop-next-3-probability-0.05")
    lengths = np.diff(np.flatnonzero(np.diff(rare[0].astype(int), prepend=0, append=0)))[::2]
    assert (lengths[:-1] >= 3).all()


def test_a_loss_after_the_last_step_takes_no_effect():
    assert not Run("drop-next-5-at-40").arm().perturbed.any()


def test_delayed_actions_are_executed_in_the_order_in_which_they_were_planned():
    run = Run("delay-2", planner=CEM(horizon=6))
    run.arm()
    idle = tuple(run.task.actions.idle)
    for episode, executed in run.executed.items():
        assert executed == ([idle, idle] + run.planned[episode])[: len(executed)]


def test_noisy_actions_stay_in_the_set_and_count_where_they_are_others():
    run = Run("action-noise-0.3")
    arm = run.arm()
    for episode, executed in run.executed.items():
        assert run.task.actions.contains(np.array(executed)).all()
        assert arm.perturbed[episode] == bool(run.differences(episode))
    assert arm.perturbed.any()
    assert not Run("action-noise-0.000001").arm().perturbed.any()


def test_noise_in_a_box_has_the_deviation_it_is_asked_for_and_is_clipped():
    class Box:
        actions = BoxActions(np.array([-2.0]), np.array([2.0]))
        budget = 10

        def step(self, states, actions):
            return states + actions

    rows = np.arange(2000)
    disturbance = Disturbance(parse_perturbation("action-noise-0.1"), Box(), rows, seed=0)
    steps, still = np.zeros(2000, dtype=int), np.zeros((2000, 1))
    options = {"counts": np.ones(2000, dtype=bool)}
    executed, after = disturbance.step(rows, still, still, steps, **options)
    # A tenth of a range of 4, to five standard errors.
    assert executed.std() == pytest.approx(0.4, abs=5 * 0.4 / np.sqrt(4000))
    assert np.array_equal(after, executed)
    clipped, _ = disturbance.step(rows, still, still + 2, steps, **options)
    assert clipped.max() == 2
    assert disturbance.perturbed.all()


def test_only_the_planner_sees_noise():
    run = Run("observation-noise-0.4")
    arm = run.arm()
    assert arm.perturbed.all()
    assert run.executed == {
        episode: planned[: len(run.executed[episode])] for episode, planned in run.planned.items()
    }
    assert np.array_equal(run.run.states, np.rint(run.run.states))
    assert run.planned != _planned(Run(None))


def _planned(run):
    run.arm()
    return run.planned


def test_other_physics_are_those_of_real_steps_only():
    task = Slippery(maze(budget=40))
    bare, slowed = Run(None, task=task), Run("friction-2", task=task)
    assert bare.arm().perturbed is None
    arm = slowed.arm()
    # Half a cell rounds to none, or two: nobody walks as planned.
    assert arm.perturbed.all()
    assert first_plans(slowed) == first_plans(bare)
    weak = Run(Physics(friction=1.1), task=task).arm()
    # A tenth less rounds to the same cell.
    assert not weak.perturbed.any()


def first_plans(run):
    return [planned[0] for planned in run.planned.values()]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mass-2", "the physics of task 'two-room' cannot be changed to 'mass-2'"),
        ("observation-noise-1", "task 'blind' does not say what of its states is measured"),
        ("kick-1", "task 'blind' does not say what of its states is measured"),
    ],
)
def test_a_task_that_cannot_be_perturbed_so_is_named(name, message):
    task = two_room()
    if "mass" not in name:
        task = type("Blind", (), {"name": "blind", "actions": task.actions, "budget": 5})()
        task.step = lambda states, actions: states
    rows, states, actions = np.arange(2), np.zeros((2, 2)), np.zeros((2, 2))

    def disturb():
        disturbance = Disturbance(parse_perturbation(name), task, rows, seed=0)
        disturbance.seen(rows, states, rows, counts=rows >= 0)
        disturbance.step(rows, states, actions, rows, counts=rows >= 0)

    with pytest.raises(ComponentError, match=message):
        disturb()


@pytest.mark.parametrize("name", EVERY_NAME)
def test_a_perturbed_episode_ends_the_same_in_any_batch(name):
    together = Run(name)
    whole = together.arm()
    for rows in ([5], [2, 7, 11]):
        part = Run(name, rows)
        arm = part.arm()
        assert arm.perturbed.tolist() == whole.perturbed[rows].tolist()
        assert arm.steps.tolist() == whole.steps[rows].tolist()
        assert part.executed == {row: together.executed[row] for row in rows}


def test_what_goes_wrong_is_the_same_in_every_arm_and_leaves_planners_alone():
    name = "action-noise-0.6"
    oracle, chance = (Run(name, planner=p, arm=a).run for p, a in _ARMS)
    rows, planned = np.arange(12), np.zeros((12, 2))
    given = (rows, oracle.states, planned, np.full(12, 7))
    steps = [run._disturbance.step(*given, counts=rows >= 0) for run in (oracle, chance)]
    assert np.array_equal(steps[0][0], steps[1][0])
    # What chance plans depends on its own stream alone.
    bare, noisy = Run(None, planner=Chance()), Run(name, planner=Chance())
    bare.arm(), noisy.arm()
    for episode, planned in bare.planned.items():
        common = min(len(planned), len(noisy.planned[episode]))
        assert noisy.planned[episode][:common] == planned[:common]


_ARMS = ((RandomShooting(), "oracle"), (Chance(), "chance"))


def test_effects_after_a_success_do_not_count():
    late = Run("drop-next-1-at-39", metric="return")
    arm = late.arm()
    assert arm.successes.any()
    assert not arm.perturbed[arm.successes & (arm.steps < 39)].any()
    assert any(late.differences(episode) for episode in late.executed)


def test_recovery_is_the_rate_of_success_among_perturbed_episodes():
    arm = Run("drop-next-4").arm()
    perturbed, recovered = int(arm.perturbed.sum()), int(arm.successes[arm.perturbed].sum())
    assert arm.recovery.estimate == pytest.approx(recovered / perturbed)
    assert arm.recovery.low <= arm.recovery.estimate <= arm.recovery.high
    assert decode(Arm, encode(arm)).perturbed.tolist() == arm.perturbed.tolist()


def test_an_error_of_a_perturbed_gate_names_what_was_perturbed():
    class Breaking(Slippery):
        def with_physics(self, *, friction):
            return Breaking(self._task, np.nan)

    task = Breaking(two_room(budget=40))
    with pytest.raises(
        TaskError, match=r"the simulator diverged .* perturbed by friction-2: run it"
    ):
        Run("friction-2", task=task).arm()


def test_a_skipped_action_takes_no_time_and_is_never_executed():
    run = Run("skip-next-2-at-3", planner=CEM(horizon=8))
    arm = run.arm()
    assert arm.perturbed.any()
    for episode, executed in run.executed.items():
        planned = run.planned[episode]
        assert executed[:3] == planned[:3]
        if len(executed) > 3 and len(planned) > 5:
            # Where two are left of the plan, the next ones follow at once.
            assert executed[3] in (planned[5], planned[3], planned[4])
            assert len(planned) >= len(executed)


def test_skipping_all_of_every_plan_is_replanned_and_not_for_ever():
    arm = Run("skip-next-99-every-1").arm()
    assert arm.perturbed.all()
    assert (arm.plans >= arm.steps // 2).all()


def test_a_kick_moves_the_world_once_and_where_it_is_measured():
    states, rows = np.zeros((12, 2)), np.arange(12)
    task = two_room(budget=40)
    kick = Disturbance(parse_perturbation("kick-0.5-at-3"), task, rows, seed=1)
    for step, moved in ((2, False), (3, True), (4, False)):
        given = (rows, states, np.tile(task.actions.idle, (12, 1)), np.full(12, step))
        _, after = kick.step(*given, counts=rows >= 0)
        bare = task.step(states, np.tile(task.actions.idle, (12, 1)))
        assert (after != bare).any() == moved
    assert kick.perturbed.all()


def test_two_noises_of_one_step_are_not_the_same_noise():
    kick = Kick(1, every=1)
    _check_are_independent(parse_perturbation("kick-1-every-1,kick-1-every-1"))
    _check_are_independent(Several((kick, kick)))


def _check_are_independent(both):
    rows, task = np.arange(400), two_room(budget=9)
    given = (rows, np.zeros((400, 2)), np.tile(task.actions.idle, (400, 1)), np.full(400, 1))
    disturbance = Disturbance(both, task, rows, seed=0)
    _, after = disturbance.step(*given, counts=rows >= 0)
    moved = after - task.step(given[1], given[2])
    # Of the same one twice it is 2.
    assert moved.std() == pytest.approx(2**0.5, rel=0.1)


class Wind:
    """A user's own: it blows from one side, more with every step."""

    name = "wind"

    def push(self, states, moment):
        return states + 0.01 * moment.steps[:, None]


def _lock(episode):
    return threading.Lock()


class Wrong:
    name = "wrong"

    def __init__(self, **methods):
        vars(self).update(methods)


def test_an_object_of_ones_own_perturbs_as_ours_do():
    run = Run(Wind())
    arm = run.arm()
    assert arm.perturbed.all()
    assert outcomes(arm) != outcomes(Run(None).arm())


def test_what_is_changed_in_place_counts_as_changed():
    def push(states, moment):
        states += 0.01
        return states

    assert Run(Wrong(push=push)).arm().perturbed.all()


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        (
            {"push": lambda states, moment: states[:, :1]},
            r"(?s)push\(\) returned .* return \(12, 2\)",
        ),
        ({"see": lambda states, moment: states * np.nan}, r"see\(\) returned"),
        ({"act": lambda actions, moment: actions + 9}, r"actions of the task"),
        ({"world": lambda task: None}, r"'wrong': world\(\) returned None; return a task"),
        ({"skip": lambda moment: -1 * moment.rows}, r"(?s)skip\(\) returned .* whole numbers"),
        ({"see": lambda states, moment: "text"}, r"'wrong': see\(\) returned .*finite numbers"),
        ({"see": lambda states, moment: states.astype(str)}, r"'wrong': see\(\) returned"),
        ({"push": lambda states, moment: [[1], [1, 2]]}, r"'wrong': push\(\) .* is no array"),
        (
            {"act": lambda actions: actions},
            r"act\(\) of perturbation 'wrong' cannot be called: .* def act\(self, actions",
        ),
        ({"world": lambda: None}, r"world\(\) of perturbation 'wrong' .* def world\(self, task\)"),
        (
            {"push": lambda states, moment, calls=[]: calls.append(1) or states + len(calls)},
            r"'wrong': push\(\) answered otherwise when it was asked again",
        ),
        (
            {"skip": lambda moment, rng=np.random.default_rng(0): rng.integers(9, size=12)},  # noqa: B008
            r"'wrong': skip\(\) answered otherwise",
        ),
        (
            {
                "push": lambda states, moment, buffer=np.zeros((12, 2)): np.add(  # noqa: B008
                    buffer[: len(states)], 0.01, out=buffer[: len(states)]
                )
            },
            r"'wrong': push\(\) answered otherwise",
        ),
        (
            {"push": lambda states, moment: states[moment.kept("lock", _lock) != 0]},
            r"'wrong': what it keeps in moment.kept\(\) cannot be copied: .*Keep arrays of num",
        ),
    ],
)
def test_what_a_perturbation_must_not_return_is_named(methods, said):
    with pytest.raises(ComponentError, match=said):
        Run(Wrong(**methods)).arm()


class Fickle:
    """Its tasks are turned around, but for those after the first."""

    name = "fickle"

    def __init__(self, effect):
        self.count = 0
        setattr(self, effect, self.turned)

    def turned(self, task):
        self.count += 1
        return Turned(task) if self.count == 1 else task


class Turned(Slippery):
    def step(self, states, actions):
        return self._task.step(states, -actions)

    def observe(self, states):
        return -self._task.observe(states)


def test_a_task_of_which_no_second_is_made_is_refused():
    with pytest.raises(ComponentError, match=r"'fickle': world\(\) answered otherwise"):
        Run(Fickle("world")).arm()
    with pytest.raises(ComponentError, match=r"'fickle': observe\(\) answered otherwise"):
        as_observed(two_room(), Fickle("observe"))
    steady = Wrong(world=Turned, observe=Turned)
    assert Run(steady).arm().perturbed.all()
    assert isinstance(as_observed(two_room(), steady), Turned)
    with pytest.raises(ComponentError, match=r"observe\(\) returned None; return a task\. It la"):
        as_observed(two_room(), Wrong(observe=lambda task: None))


def test_what_one_method_remembers_for_another_is_found_when_the_arm_is_over():
    class Drifting:
        name, asked = "drifting", 0

        def see(self, states, moment):
            self.asked += 1
            return states

        def push(self, states, moment):
            return states + 1e-9 * self.asked

    with pytest.raises(ComponentError, match=r"'drifting': push\(\) answered otherwise"):
        Run(Drifting()).arm()


def test_what_a_perturbation_keeps_as_it_should_is_no_state_of_its_own():
    class Late:
        """As our own delay, written by a user."""

        name = "late"
        act = DelayActions(2).act

    assert outcomes(Run(Late()).arm()) == outcomes(Run("delay-2").arm())


def test_what_a_perturbation_raises_goes_on_and_says_whose_it_is():
    def push(states, moment):
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        Run(Wrong(push=push)).arm()
    assert caught.value.__notes__ == ["pytest-cpg: raised by push() of perturbation 'wrong'."]


def test_a_perturbation_that_no_other_process_can_have_is_named():
    task, locked = two_room(), Wrong(push=lambda states, moment: states, lock=threading.Lock())
    design = Design(task=task, planner=CEM(), episodes=1, seed=0, perturbation=locked)
    probe = task.reset(np.arange(2)), task.actions.values[:2]
    true = OracleDynamics(task)
    bound = bind(true, task, probe_states=probe[0], probe_actions=probe[1])
    with pytest.raises(ComponentError, match="the perturbation 'wrong' cannot be sent"):
        arm_workload(design, true, bound, probe)


def test_what_is_no_perturbation_is_refused():
    for wrong in (object(), Wind, Wrong()):
        with pytest.raises(ValueError, match="need a perturbation or its name"):
            parse_perturbation(wrong)
    with pytest.raises(ValueError, match="has no name"):
        parse_perturbation(type("Nameless", (), {"act": lambda self, actions, moment: actions})())
    known = {"wind": lambda: Wind(), "wind-2": lambda: Wind(), "gust": lambda f, at=1: Wind()}
    assert parse_perturbation("wind-2,gust-3-at-2", known).name == "wind,wind"
    with pytest.raises(ValueError, match="Did you mean 'wind'"):
        parse_perturbation("wind-3", known)
    known = {"none": lambda: None, "raises": lambda: 1 / 0}
    with pytest.raises(ValueError, match=r"makes 'none' returned None\. Return an object with a"):
        parse_perturbation("none,none", known)
    said = (
        r"'raises': what makes 'raises' raised ZeroDivisionError: .* \(test_disturbance\.py:\d+\)"
    )
    with pytest.raises(ValueError, match=said):
        parse_perturbation("raises", known)


def test_a_simulator_that_diverges_after_a_push_is_named_and_no_perturbation():
    class Breaking(Slippery):
        def step(self, states, actions):
            return np.full_like(states, np.nan)

    with pytest.raises(TaskError, match=r"the simulator diverged .* perturbed by kick-1-every-1"):
        Run("kick-1-every-1", task=Breaking(two_room(budget=40))).arm()
