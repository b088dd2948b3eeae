import numpy as np
import pytest
from runs import run_of

from pytest_cpg.contracts import BoxActions, ComponentError, TaskError
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.episodes.disturbance import Disturbance
from pytest_cpg.episodes.perturbations import Physics, parse_perturbation
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
    timed = ("seconds", "latency_ms", "cpu_ms", "decisions", "rollout_steps")
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
    assert arm.recovery is None
    assert np.array_equal(arm.steps, bare.steps)


def test_a_loss_without_a_time_comes_once_and_early():
    disturbance = Run("drop-next-2").run._disturbance
    lost = disturbance._lost
    assert (lost.sum(axis=1) == 2).all()
    first = lost.argmax(axis=1)
    # A tenth of 40 steps.
    assert set(first) <= {1, 2, 3, 4}
    assert len(set(first)) > 1


def test_losses_come_back_after_so_many_steps_or_by_chance():
    regular = Run("drop-next-2-every-3").run._disturbance._lost
    assert regular[0, :10].astype(int).tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]
    certain = Run("drop-next-1-probability-1").run._disturbance._lost
    assert not certain[:, 0].any()
    assert certain[:, 1:].all()
    rare = Run("drop-next-3-probability-0.05").run._disturbance._lost
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
    ],
)
def test_a_task_that_cannot_be_perturbed_so_is_named(name, message):
    task = two_room()
    if "noise" in name:
        task = type("Blind", (), {"name": "blind", "actions": task.actions, "budget": 5})()
    with pytest.raises(ComponentError, match=message):
        Disturbance(parse_perturbation(name), task, np.arange(2), seed=0)


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
    rows, steps = np.arange(12), np.full(12, 7)
    assert np.array_equal(
        oracle._disturbance._noise(rows, steps, 2), chance._disturbance._noise(rows, steps, 2)
    )
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
