from dataclasses import dataclass, fields

import numpy as np
import pytest
from track import Track

from pytest_cpg.contracts import CpgError, Plans, WorldModelError
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.replay import EpisodeTrace, replay
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import OracleDynamics

NAMES = [one.name for one in fields(EpisodeTrace)]


@dataclass(frozen=True)
class Blind:
    """A planner that never asks the model: whole plans to the left of a fixed length."""

    length: int
    horizon: int = 8
    name: str = "blind"

    def plan(self, world_model, latents, rngs, remaining):
        actions = np.full((len(latents), self.horizon, 1), -0.25)
        return Plans(actions, np.minimum(remaining, self.length))


class OwnScore:
    """A mirrored model in latents of its own, which are observations thrice as large."""

    def encode(self, observations):
        return 3 * observations

    def rollout(self, latents, actions):
        return latents[:, None] - 3 * np.cumsum(actions, axis=1)

    def score(self, latents):
        return latents[..., 0] ** 2


def mirrored(observations, actions):
    return observations - actions


def design_of(task=None, planner=None, **more):
    return Design(
        **{
            "task": task or Track(),
            "planner": planner or RandomShooting(candidates=10, horizon=6),
            "episodes": 12,
            "seed": 3,
            **more,
        }
    )


def replayed(design, episodes, learned=mirrored, **more):
    oracle = OracleDynamics(design.task)
    return replay(design, oracle=oracle, learned=learned, episodes=episodes, **more)


def bits(trace):
    return {name: np.asarray(getattr(trace, name)).tobytes() for name in NAMES}


def free_space(observations, actions):
    return observations + actions


@pytest.mark.parametrize(
    ("design", "learned"),
    [
        (design_of(), mirrored),
        (design_of(metric="return"), mirrored),
        (design_of(planner=CEM(horizon=6)), mirrored),
        (design_of(planner=Blind(2)), mirrored),
        (design_of(), OwnScore()),
        (design_of(maze()), free_space),
    ],
    ids=["track", "return", "cem", "short plans", "own score", "maze"],
)
def test_some_episodes_end_as_they_did_among_all(design, learned):
    result = measure_gap(design, oracle=OracleDynamics(design.task), learned=learned)
    every = replayed(design, range(12), learned)
    for name in ("oracle", "learned"):
        arm = getattr(result, name)
        traces = [getattr(traces, name) for traces in every.traces.values()]
        assert [trace.success for trace in traces] == arm.successes.tolist()
        assert [trace.steps for trace in traces] == arm.steps.tolist()
    some = replayed(design, [9, 4, 9, 5], learned)
    assert list(some.traces) == [4, 5, 9]
    for episode, pair in some.traces.items():
        for trace, among_all in zip(pair, every.traces[episode], strict=True):
            assert bits(trace) == bits(among_all)


@pytest.mark.parametrize("metric", ["success", "return"])
@pytest.mark.parametrize("planner", [RandomShooting(horizon=6), Blind(2), Blind(8)])
def test_a_trace_is_what_was_really_done(planner, metric):
    design = design_of(planner=planner, metric=metric)
    for pair in replayed(design, range(5)).traces.values():
        for trace in pair:
            done = len(trace.actions)
            assert done == (30 if metric == "return" else trace.steps)
            assert trace.success == (trace.scores[1:] < 0.3).any()
            assert np.array_equal(trace.states[1:], trace.states[:-1] + trace.actions)
            assert np.array_equal(trace.at, np.cumsum([0, *trace.lengths[:-1]]))
            assert trace.lengths.sum() == done
            for at, plan, length, actual in zip(
                trace.at, trace.plans, trace.lengths, trace.actual, strict=True
            ):
                assert np.array_equal(trace.actions[at : at + length], plan[:length])
                assert np.array_equal(trace.scores[at + 1 : at + 1 + length], actual[:length])


def test_an_episode_that_is_over_early_cuts_its_last_plan():
    oracle = replayed(design_of(planner=Blind(8)), [0]).traces[0].oracle
    assert oracle.success
    assert oracle.lengths[:-1].tolist() == [8] * (len(oracle.at) - 1)
    assert 1 <= oracle.lengths[-1] < 8


def test_the_oracle_promises_what_happens():
    for oracle, _ in replayed(design_of(maze(), RandomShooting()), range(12)).traces.values():
        assert np.array_equal(oracle.predicted, oracle.actual)
        assert not oracle.optimism.any()


def test_plans_are_cut_where_they_promise_most():
    for _, learned in replayed(design_of(), range(12)).traces.values():
        assert np.array_equal(learned.promised[:-1], learned.lengths[:-1])


def test_a_step_past_the_budget_is_no_promise():
    learned = replayed(design_of(Track(budget=3), Blind(3)), [0]).traces[0].learned
    far = replayed(design_of(Track(budget=3), Blind(3)), [0], lambda o, a: o + a).traces[0].learned
    assert (learned.promised.tolist(), far.promised.tolist()) == ([1], [3])


def test_a_mirrored_model_promises_too_much():
    result = replayed(design_of(), range(12))
    for traces in result.traces.values():
        learned = traces.learned
        gaps = []
        for at, plan in zip(learned.at, learned.plans[..., 0], strict=True):
            begun = learned.states[at, 0]
            predicted, actual = np.abs(begun - np.cumsum(plan)), np.abs(begun + np.cumsum(plan))
            within = 30 - at
            best = predicted[:within].argmin()
            gaps.append(predicted[best] - actual[best])
        assert learned.optimism == pytest.approx(np.array(gaps))
        assert learned.optimism.mean() < 0
        assert traces.worst_optimism == pytest.approx(min(gaps, key=lambda gap: -abs(gap)))
        assert learned.scores[-1] == abs(learned.states[-1, 0])
        assert traces.oracle.scores[-1] < 0.3


def test_states_of_broken_promises_are_kept_once_each_with_its_worst():
    result = replayed(design_of(maze()), range(4), learned=free_space)
    worst = {}
    for _, learned in result.traces.values():
        for optimism, at in zip(learned.optimism, learned.at, strict=True):
            state = tuple(learned.states[at])
            worst[state] = min(optimism, worst.get(state, 0))
    broken = result.broken_promises(share=1.0)
    found = dict(zip(map(tuple, broken["states"]), broken["optimism"], strict=True))
    assert len(found) == len(broken["states"])
    assert found == {state: optimism for state, optimism in worst.items() if optimism < 0}
    rounds = sum((learned.optimism < 0).sum() for _, learned in result.traces.values())
    assert 4 <= len(found) < rounds
    fewer = result.broken_promises()["optimism"]
    np.testing.assert_array_equal(fewer, broken["optimism"][: round(len(found) / 4)])


def test_a_model_with_its_own_score_is_held_to_its_own_view_of_the_truth():
    result = replayed(design_of(), [0, 1], OwnScore())
    assert result.has_own_score
    for oracle, learned in result.traces.values():
        begun, moved = learned.states[learned.at], np.cumsum(learned.plans[..., 0], axis=1)
        assert learned.predicted == pytest.approx(9 * (begun - moved) ** 2)
        assert learned.actual == pytest.approx(9 * (begun + moved) ** 2)
        assert np.array_equal(learned.scores, np.abs(learned.states[:, 0]))
        assert np.array_equal(oracle.predicted, oracle.actual)


@pytest.mark.parametrize("learned", [mirrored, OwnScore()], ids=["task's score", "own score"])
@pytest.mark.parametrize("breaks_at", [4.75, 1.5])
def test_a_plan_that_truly_diverges_is_infinitely_optimistic(learned, breaks_at):
    class Near(Track):
        def reset(self, seeds):
            return np.full((len(seeds), 1), -4.5 if breaks_at > 4.5 else 1.0)

    design = design_of(Near(budget=1, breaks_at=breaks_at), Blind(1), starts="fixed")
    trace = replayed(design, [0], learned).traces[0].learned
    assert np.isfinite(trace.predicted).all()
    diverged = np.abs(trace.states[0] - 0.25 * np.arange(1, 9)) > breaks_at
    assert np.array_equal(np.isinf(trace.actual), diverged[None])


def test_a_model_that_keeps_state_is_told():
    class Drifting:
        gain = 1.0

        def __call__(self, observations, actions):
            return observations + self.gain * actions

    model = Drifting()

    def drift(arm, stage):
        model.gain = 2.0 if arm == "learned" else 1.0

    with pytest.raises(WorldModelError, match="the learned model answers otherwise"):
        replayed(design_of(), [0], model, progress=drift)


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([], "at least one episode, got none"),
        ([1, 12], "has no episode 12: it has 12, from 0 on"),
        ([-1], "has no episode -1"),
    ],
)
def test_an_episode_that_is_not_there_is_an_error_of_the_user(episodes, message):
    with pytest.raises(CpgError, match=message):
        replayed(design_of(), episodes)


def test_progress_is_told_of_both_arms_from_their_beginning_on():
    told = []
    replayed(design_of(), [0, 1], progress=lambda *told_of: told.append(told_of))
    for arm in ("oracle", "learned"):
        own = [rest for name, *rest in told if name == arm]
        assert [own[0][0].done, own[-1][0].done] == [0, 30]


def test_a_saved_replay_can_be_read_without_pickles(tmp_path):
    result = replayed(design_of(), [7, 2], OwnScore())
    path = tmp_path / "replays" / "gate.npz"
    result.save(path)
    first = path.read_bytes()
    result.save(path)
    assert (path.read_bytes(), list(path.parent.iterdir())) == (first, [path])
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["episodes"].tolist() == [2, 7]
        assert arrays["swapped"].tolist() == ["dynamics", "score"]
        facts = ("schema", "task", "planner", "starts", "metric", "seed", "budget", "horizon")
        assert [arrays[fact].item() for fact in facts] == [
            1, "track", repr(RandomShooting(candidates=10, horizon=6)), "sampled", "success", 3, 30,
            6,
        ]  # fmt: skip
        assert arrays["control_period"] == 0.1
        assert arrays["perturbation"] == ""
        for episode, pair in result.traces.items():
            for arm, trace in zip(("oracle", "learned"), pair, strict=True):
                for name in NAMES:
                    saved = arrays[f"episode_{episode:04d}/{arm}/{name}"]
                    assert np.array_equal(saved, getattr(trace, name))
        assert len(arrays.files) == 12 + 2 * 2 * len(NAMES)


def test_a_replay_that_cannot_be_saved_names_the_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CpgError, match=r"cannot write the replay .*gate\.npz"):
        replayed(design_of(), [0]).save(tmp_path / "file" / "gate.npz")
