"""A preset is no larger than it needs to be: with twice the samples it catches no more models."""

from pathlib import Path

import numpy as np
import pytest
from runs import arm_of

pytest.importorskip("torch")
pytest.importorskip("dm_control")

from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.gates.presets import PRESETS, preset_planner
from pytest_cpg.stats.power import gap_power
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics, bind
from pytest_cpg.world_models.mlp import MLP

pytestmark = pytest.mark.slow

EPISODES = 50
MODELS = Path(__file__).parents[2] / "examples" / "plan_quality" / "models"
BENT = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
GAINS = (0.95, 0.9, 0.8, 0.7, 0.5, 0.25)


def ladder(name):
    """Return models by name: a network that was trained where good plans lead, and worse ones."""
    good = MLP.load(MODELS / f"{name}-visited.pt")

    def bent(by):
        return lambda o, a: good(o + 0.05 * by * np.sin(97 * np.asarray(o)), a)

    def weaker(gain):
        return lambda o, a: good(o, gain * np.asarray(a))

    return {
        "the network": good,
        **{f"its input bent by {by:g}": bent(by) for by in BENT},
        **{f"actions times {gain:g}": weaker(gain) for gain in GAINS},
    }


def solved_by(planner, task, starts, model):
    actions = task.actions.sample([np.random.default_rng(row) for row in range(2)], ())
    bound = bind(model, task, probe_states=starts.states[:2], probe_actions=actions)
    return arm_of("learned", task, planner, bound, starts, seed=6).success_count


@pytest.mark.parametrize("name", ["cartpole-swingup", "acrobot-swingup"])
def test_twice_the_samples_catch_no_more_models(statistics_page, name):
    preset = PRESETS[name]
    task = TASKS[name](**preset.options)
    starts = sample_starts(task, EPISODES, seed=6, fixed=False)
    models = {"the true dynamics": OracleDynamics(task), **ladder(name)}
    samples = preset.settings["samples"]
    planners = [preset_planner(name), preset_planner(name, samples=2 * samples)]
    solved = {
        model: [solved_by(planner, task, starts, dynamics) for planner in planners]
        for model, dynamics in models.items()
    }
    oracle = solved.pop("the true dynamics")
    power = {
        model: [
            gap_power(most / EPISODES, count / EPISODES, episodes=EPISODES)
            for most, count in zip(oracle, counts, strict=True)
        ]
        for model, counts in solved.items()
    }
    mean = np.mean([*power.values()], axis=0)
    statistics_page.table(
        f"Presets: {name} with twice the samples",
        ("model", *(f"solved, {count} samples" for count in (samples, 2 * samples)), "power"),
        [
            (model, *counts, " and ".join(f"{value:.2f}" for value in power[model]))
            for model, counts in solved.items()
        ],
        note=(
            f"Of {EPISODES} starts; the network is that of examples/plan_quality, trained on "
            f"visited states, its input bent by 0.05 sin(97 x) times a factor, or its actions "
            f"scaled. The power is of gates of {EPISODES} episodes with these rates: on average "
            f"{mean[0]:.3f} with the preset, {mean[1]:.3f} with twice its samples. The true "
            f"dynamics solve {oracle[0]} and {oracle[1]}."
        ),
    )
    assert oracle[0] >= EPISODES - 1
    assert mean[0] >= mean[1] - 0.02
    assert 0.2 <= mean[0] <= 0.9
