"""A preset is no larger than it needs to be: with twice the samples it catches no more models."""

from dataclasses import fields, replace

import numpy as np
import pytest
from runs import arm_of

pytest.importorskip("torch")
pytest.importorskip("dm_control")

from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.gates.presets import PRESETS, preset_planner
from pytest_cpg.stats import gap_power
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics, bind, collect_transitions, train_mlp

pytestmark = [pytest.mark.slow, pytest.mark.trains]

EPISODES = 50
ROWS, SEEDS, STEPS = (150, 300, 600, 1000, 3000, 10000), (1, 2, 3), 1500


def ladder(task):
    """Return models by name, most of them bad: networks of few transitions, and a good one bent."""
    data = collect_transitions(task, count=20000, seed=0, episode_steps=100, hold=3)

    def first(count):
        rows = {field.name: getattr(data, field.name) for field in fields(data)}
        return replace(data, **{name: row[:count] for name, row in rows.items() if row is not None})

    def bent(by):
        return lambda o, a: good(o + 0.05 * by * np.sin(97 * np.asarray(o)), a)

    good = train_mlp(data, seed=1, epochs=10**5, steps=20000)
    networks = {
        f"{rows} transitions, seed {seed}": train_mlp(
            first(rows), seed=seed, epochs=10**5, steps=STEPS
        )
        for rows in ROWS
        for seed in SEEDS
    }
    return {
        **networks,
        "20000 transitions": good,
        **{f"the same, bent by {by:g}": bent(by) for by in (0.5, 1.0, 2.0)},
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
    models = {"the true dynamics": OracleDynamics(task), **ladder(task)}
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
            f"Of {EPISODES} starts; networks of two layers after {STEPS} steps. The power is of "
            f"gates of {EPISODES} episodes with these rates. On average it is {mean[0]:.3f} with "
            f"the preset, {mean[1]:.3f} with twice its samples; the true dynamics solve "
            f"{oracle[0]} and {oracle[1]}."
        ),
    )
    assert oracle[0] >= EPISODES - 1
    assert mean[0] >= mean[1] - 0.02
    assert 0.2 <= mean[0] <= 0.9
