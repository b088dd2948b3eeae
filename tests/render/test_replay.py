from dataclasses import replace

import numpy as np
import pytest

from pytest_cpg.episodes.design import DesignRecord
from pytest_cpg.episodes.replay import ArmTraces, EpisodeTrace, Replay
from pytest_cpg.render.replay import replay_lines


def trace_of(predicted, actual, *, success=False, steps=40, lengths=None):
    """A trace whose rounds have these scores [R, H]; every plan promises most at its end."""
    predicted, actual = np.array(predicted, dtype=float), np.array(actual, dtype=float)
    rounds, horizon = predicted.shape
    return EpisodeTrace(
        success=success,
        steps=steps,
        states=np.zeros((rounds * horizon + 1, 1)),
        actions=np.zeros((rounds * horizon, 1)),
        scores=np.linspace(5.0, 4.25, rounds * horizon + 1),
        at=np.arange(rounds) * horizon,
        plans=np.zeros((rounds, horizon, 1)),
        lengths=np.full(rounds, horizon),
        promised=np.full(rounds, horizon),
        predicted=predicted,
        actual=actual,
    )


ORACLE = trace_of([[2.0, 1.0]], [[2.0, 1.0]], success=True, steps=21)
LOST = trace_of([[2.0, 1.0], [3.0, 0.5]], [[2.0, 2.0], [3.5, 4.25]])


def replay_of(traces, *, swapped=("dynamics",), **more):
    values = {
        "task": "track",
        "planner": "RandomShooting(candidates=50, horizon=2, ties='earliest')",
        "starts": "sampled",
        "metric": "success",
        "budget": 40,
        "horizon": 2,
        "control_period": 0.1,
        "versions": {},
    }
    design = DesignRecord(**{**values, **more})
    return Replay(design=design, seed=3, swapped=swapped, traces=traces)


def text_of(replay, width=80):
    return "\n".join(replay_lines(replay, width=width))


def test_the_whole_text_of_a_replay():
    assert text_of(replay_of({7: ArmTraces(ORACLE, LOST)})) == (
        " replay of 1 episode, no verdict: track, RandomShooting(candidates=50,\n"
        " horizon=2, ties='earliest'), seed 3, starts sampled, at most 40 steps of 0.1 s\n"
        "  episode  oracle                learned     rounds  optimism  worst round\n"
        "        7  solved at 21 (2.1 s)  not solved       2     -2.38  2, at step 2\n"
        " optimism: predicted minus actual score at the step where a plan promises most,\n"
        " mean over the learned arm's rounds. Lower scores are nearer to the goal: below\n"
        " 0 the model promised to come nearer than its plans do.\n"
        "\n"
        " episode 7, round 2 at step 2 (0.2 s): the plan promises 0.5 at its step 2 and\n"
        " comes to 4.25; 2 of 2 steps executed. The episode ends at score 4.25, with the\n"
        " oracle at 4.25.\n"
        "  step          1     2\n"
        "  predicted     3   0.5\n"
        "  actual      3.5  4.25"
    )


def test_what_is_otherwise_than_it_was_is_said():
    text = text_of(replay_of({7: ArmTraces(LOST, replace(LOST, success=True, steps=30))}))
    assert "now not solved  now solved at 30" in text
    assert "now: otherwise than when the episode was lost" in text


def test_a_model_with_its_own_score_is_told():
    own = replay_of({7: ArmTraces(ORACLE, LOST)}, swapped=("dynamics", "score"))
    assert "the model's own" in text_of(own)
    assert "the model's own" not in text_of(replay_of({7: ArmTraces(ORACLE, LOST)}))


def test_a_model_with_a_cost_of_whole_plans_alone_is_told():
    cost = trace_of([[2.0, 2.0], [0.5, 0.5]], [[2.0, 2.0], [3.5, 4.25]])
    told = replay_of({7: ArmTraces(ORACLE, cost)}, swapped=("dynamics", "score"))
    assert "predicted is the cost of the plan" in " ".join(text_of(told).split())
    assert "the model's own" not in text_of(told)


def test_only_the_three_worst_plans_are_shown_in_the_order_of_the_episodes():
    traces = {
        episode: ArmTraces(ORACLE, replace(LOST, actual=LOST.actual + worse))
        for episode, worse in enumerate([3.0, 0.0, 2.0, 1.0, 4.0])
    }
    lines = replay_lines(replay_of(traces), width=80)
    shown = [line.split()[1] for line in lines if line.startswith(" episode ")]
    assert shown == ["0,", "2,", "4,"]


def test_a_plan_that_truly_diverges_is_shown():
    diverged = trace_of([[2.0, 1.0]], [[3.0, np.inf]])
    text = text_of(replay_of({7: ArmTraces(ORACLE, diverged)}))
    assert "-inf" in text
    assert "nan" not in text


@pytest.mark.parametrize("width", [72, 80, 200])
@pytest.mark.parametrize("horizon", [1, 15, 100])
@pytest.mark.parametrize("scale", [1.0, 1e-7])
def test_every_line_fits_the_terminal(width, horizon, scale):
    predicted = -scale * np.linspace(0.123456, 9.87654, horizon)[None]
    learned = trace_of(predicted, -predicted)
    pair = ArmTraces(replace(ORACLE, steps=987), learned)
    long = replay_of({1234: pair}, horizon=horizon, budget=1000, control_period=0.01)
    lines = replay_lines(long, width=width)
    assert max(map(len, lines)) <= width
    steps = next(line.split() for line in lines if line.startswith("  step"))
    assert (steps[1], steps[-1]) == ("1", str(horizon))


def test_the_promised_step_of_a_long_plan_is_always_shown():
    scores = np.linspace(9.0, 1.0, 100)[None]
    for promised in range(1, 101):
        learned = replace(trace_of(scores, scores), promised=np.array([promised]))
        lines = replay_lines(replay_of({7: ArmTraces(ORACLE, learned)}, horizon=100), width=80)
        assert str(promised) in next(line.split() for line in lines if line.startswith("  step"))


def test_seconds_give_way_to_what_else_is_in_the_table():
    pair = ArmTraces(ORACLE, replace(LOST, success=True, steps=30))
    assert "solved at 21  now solved at 30  " in text_of(replay_of({7: pair}))
    assert "now solved at 30 (3 s)" in text_of(replay_of({7: pair}), width=100)


def test_a_perturbed_replay_says_what_was_perturbed():
    perturbed = replay_of({7: ArmTraces(ORACLE, LOST)}, perturbation="drop-next-5")
    assert "steps of 0.1 s, perturbation drop-next-5" in text_of(perturbed, width=200)
    assert "perturb" not in text_of(replay_of({7: ArmTraces(ORACLE, LOST)}))
