import json
from dataclasses import replace

import numpy as np
import pytest
from fakes import arm as fake_arm
from fakes import stored_of
from runs import Sure, arm_of

from pytest_cpg import Arm
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.episodes.arm import Latency, spot_check, start_digests
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.planners import Chance, RandomShooting
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import OracleDynamics

MAZE = maze()
SEED, LEVEL = 5, 0.95


class Bound:
    """The true dynamics as an arm uses them."""

    rollout, score = OracleDynamics(MAZE).rollout, OracleDynamics(MAZE).score

    def encode(self, states):
        return states


STARTS = sample_starts(MAZE, 9, seed=SEED)


def ran(rows, planner, **options):
    starts = STARTS.take(np.asarray(rows))
    return arm_of("oracle", MAZE, planner, Bound(), starts, seed=SEED, level=LEVEL, **options)


def kept_of(rows, planner):
    """An arm with what each of its episodes takes alone."""
    alone = [ran([row], planner) for row in rows]
    return replace(
        ran(rows, planner),
        plans=[arm.decisions for arm in alone],
        model_steps=[round(arm.rollout_steps * arm.decisions) for arm in alone],
        starts=start_digests(STARTS.states[list(rows)]),
    )


def untimed(arm):
    return {
        name: value
        for name, value in encode(arm).items()
        if name not in ("latency_ms", "latency_interval", "cpu_ms", "seconds")
    }


PLANNERS = [RandomShooting(candidates=4, horizon=6), Sure(), Chance()]


@pytest.mark.parametrize("planner", PLANNERS, ids=lambda planner: planner.name)
def test_the_first_episodes_are_those_of_a_run_of_so_many(planner):
    stored = kept_of(range(9), planner)
    assert stored.success_count > 0 or planner.name == "chance"
    for episodes in range(1, 10):
        assert untimed(stored.as_run(episodes, level=LEVEL)) == untimed(
            ran(range(episodes), planner)
        )


@pytest.mark.parametrize("planner", PLANNERS, ids=lambda planner: planner.name)
def test_a_stored_arm_that_is_extended_is_that_of_one_run(planner):
    whole = kept_of(range(9), planner)
    joined = kept_of(range(4), planner).followed_by(kept_of(range(4, 9), planner))
    assert untimed(joined) == untimed(whole)
    assert all(map(np.array_equal, joined.actions, whole.actions))
    assert len(joined.actions) == 9
    for name in ("plans", "model_steps", "starts"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name))


def test_decisions_are_those_of_the_episodes_taken():
    stored = replace(stored_of(3), plans=[1, 2, 5], model_steps=[10, 2, 36])
    parts = [stored.as_run(episodes, level=LEVEL) for episodes in (1, 2, 3)]
    assert [part.decisions for part in parts] == [1, 3, 8]
    assert [part.rollout_steps for part in parts] == [10.0, 4.0, 6.0]


def test_times_are_those_of_the_stored_run():
    one = stored_of(10)
    one = replace(one, seconds=5.0, latency_ms=Latency(3.0, 4.0))
    part = one.as_run(4, level=0.9)
    assert part.seconds == 2.0
    assert part.latency_ms == Latency(3.0, 4.0)
    assert part.level == 0.9
    two = stored_of(30, first=10)
    for joined in (one.followed_by(two), one.followed_by(stored_of(10, first=10))):
        assert joined.seconds == 6.0
    assert one.followed_by(two).latency_ms == two.latency_ms
    assert one.followed_by(stored_of(10, first=10)).latency_ms == Latency(3.0, 4.0)


@pytest.mark.parametrize("episodes", [0, -1, 6])
def test_only_stored_episodes_are_given(episodes):
    with pytest.raises(ValueError, match="need 1 to 5 episodes"):
        stored_of(5).as_run(episodes, level=LEVEL)


@pytest.mark.parametrize("more", [stored_of(3, first=4), stored_of(3, first=6), stored_of(3)])
def test_only_the_next_episodes_may_follow(more):
    with pytest.raises(ValueError, match="consecutive"):
        stored_of(5).followed_by(more)


def test_a_part_without_confidences_does_not_follow_one_with():
    with pytest.raises(ValueError, match="dimension"):
        stored_of(2, confidences=[0.5, 0.7]).followed_by(stored_of(3, first=2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"plans": [1, 2]}, "need one of plans"),
        ({"plans": [1, 0, 1]}, "need a plan"),
        ({"model_steps": [1]}, "need one of model_steps"),
        ({"starts": [[1, 2, 3]]}, "need one of starts"),
    ],
)
def test_a_stored_arm_has_one_of_each_for_every_episode(changed, message):
    with pytest.raises(ValueError, match=message):
        replace(stored_of(3), **changed)


def test_a_stored_arm_keeps_no_array_of_others():
    plans = np.ones(3, dtype=np.int64)
    stored = replace(stored_of(3), plans=plans)
    plans[:] = 7
    assert stored.plans.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        stored.plans[0] = 2


def test_starts_are_known_to_the_bit():
    stored = replace(stored_of(9), starts=start_digests(STARTS.states))
    assert stored.begins_at(STARTS.states)
    assert stored.begins_at(STARTS.states[:4])
    assert stored.begins_at(np.concatenate([STARTS.states, STARTS.states]))
    moved = STARTS.states.copy()
    moved[8, 1] = np.nextafter(moved[8, 1], np.inf)
    assert not stored.begins_at(moved)
    assert stored.begins_at(moved[:8])
    assert not stored.begins_at(STARTS.states[::-1])


def test_a_spot_check_repeats_two_episodes_exactly():
    arm = ran(range(9), Sure())
    picked = []

    def run(rows):
        picked.append(rows.tolist())
        return ran(rows, Sure())

    for seed in range(20):
        assert spot_check(arm, rng=np.random.default_rng(seed), run=run) is None
    assert all(len(rows) == 2 and rows[0] < rows[1] for rows in picked)
    assert len({tuple(rows) for rows in picked}) > 5


PAIR = replace(fake_arm("oracle", [True, False], returns=[0.1, 0.1]), indices=[7, 8])
SURE = replace(PAIR, confidences=[0.5, 0.5])
ALONE = replace(fake_arm("oracle", [True]), actions=(np.zeros((3, 1)),))
NEXT = np.nextafter(0.1, 1)


@pytest.mark.parametrize(
    ("stored", "changed", "shown"),
    [
        (SURE, {"successes": [True, True]}, "successes of episode 8 was 0 and is now 1"),
        (SURE, {"steps": [99, 100]}, "steps of episode 7 was 100 and is now 99"),
        (SURE, {"returns": [0.1, NEXT]}, f"returns of episode 8 was 0.1 and is now {NEXT!s}"),
        (SURE, {"confidences": [0.75, 0.5]}, "confidences of episode 7 was 0.5 and is now 0.75"),
        (PAIR, {"confidences": [0.5, 0.5]}, "confidences of episode 7 was None and is now 0.5"),
        (SURE, {"confidences": None}, "confidences of episode 7 was 0.5 and is now None"),
        # Other episodes were run, and others end alike by other actions.
        (
            SURE,
            {"indices": [5, 6], "successes": [False, False]},
            "indices of episode 7 was 7 and is now 5",
        ),
        (
            ALONE,
            {"actions": (np.array([[0.0], [0.0], [5e-324]]),)},
            "episode 0 ends as it did, by other actions",
        ),
    ],
)
def test_a_spot_check_names_the_episode_and_both_values(stored, changed, shown):
    again = replace(stored, **changed)
    note = spot_check(stored, rng=np.random.default_rng(0), run=lambda rows: again)
    assert note == f"the stored oracle arm could not be repeated: {shown}"


def test_the_only_episode_is_checked():
    arm = fake_arm("oracle", [True])
    picked = []
    assert spot_check(arm, rng=np.random.default_rng(0), run=lambda r: picked.append(r) or arm) is (
        None
    )
    assert [rows.tolist() for rows in picked] == [[0]]


def test_the_generator_decides_which_episodes_are_checked():
    arm = fake_arm("oracle", [True] * 30)

    def picks(seed):
        found = []
        spot_check(
            arm,
            rng=np.random.default_rng(seed),
            run=lambda rows: found.extend(rows.tolist()) or replace(arm, **taken(arm, rows)),
        )
        return tuple(found)

    def taken(arm, rows):
        names = ("successes", "steps", "returns", "indices")
        return {name: getattr(arm, name)[rows] for name in names}

    assert picks(1) == picks(1)
    # Every one of 30 is missed by 400 pairs with a chance of 30 * (1 - 1/15)**400 = 3e-11.
    assert {row for seed in range(400) for row in picks(seed)} == set(range(30))


def arm(successes, steps, **changes):
    values = {
        "name": "learned",
        "successes": successes,
        "steps": steps,
        "indices": np.arange(len(successes)),
        "returns": np.zeros(len(successes)),
        "level": 0.95,
        "decisions": 9,
        "rollout_steps": 750.0,
        "latency_ms": Latency(1.0, 2.0),
        "cpu_ms": Latency(1.5, 2.5),
        "seconds": 3.0,
    }
    return Arm(**{**values, **changes})


def test_an_arm_counts_its_episodes():
    some = arm([True, False, True, False], [10, 500, 30, 500])
    assert (some.episodes, some.success_count, some.success_rate) == (4, 2, 0.5)
    assert some.mean_steps_to_success == 20
    assert some.interval.estimate == 0.5
    assert some.interval.low < 0.5 < some.interval.high


def test_without_success_there_is_no_mean_of_steps():
    assert arm([False], [500]).mean_steps_to_success is None


def test_outcomes_are_copies_that_cannot_be_written_to():
    steps = np.array([10, 20])
    some = arm([True, True], steps)
    steps[0] = 99
    assert some.steps.tolist() == [10, 20]
    with pytest.raises(ValueError, match="read-only"):
        some.successes[0] = False


def test_outcomes_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"one of steps for each of 2 episodes, got shape \(1,\)"):
        arm([True, False], [3])


@pytest.mark.parametrize("name", ["returns", "confidences"])
def test_numbers_that_are_not_finite_are_refused(name):
    with pytest.raises(ValueError, match=f"need finite {name}, got nan"):
        arm([True, False], [3, 4], **{name: [0.0, np.nan]})


def test_an_arm_survives_json():
    some = arm([True, False], [10, 500], indices=[3, 5], returns=[490.5, 0.25], confidences=[1, 0])
    again = decode(Arm, json.loads(json.dumps(encode(some))))
    assert encode(again) == encode(some)
    assert again.latency_ms == some.latency_ms


def test_latency_of_no_decision_is_zero():
    assert Latency.of(np.array([])) == Latency(0.0, 0.0)
    assert Latency.of(np.array([1.0, 3.0])).median == 2.0
