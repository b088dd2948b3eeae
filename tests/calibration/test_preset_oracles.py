"""Every preset solves its task with the true dynamics: 100 random starts, none chosen by them.

Presets were chosen on starts of other seeds than this one.
"""

import time

import numpy as np
import pytest
from runs import arm_of

from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.gates.presets import PRESETS, preset_planner
from pytest_cpg.stats import agresti_caffo_interval, wilson_interval
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics, bind

pytest.importorskip("dm_control")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", PRESETS)
def test_the_oracle_solves_a_task_with_its_preset(name):
    preset, planner = PRESETS[name], preset_planner(name)
    task = TASKS[name](**preset.options)
    starts = sample_starts(task, 100, seed=0, fixed=False)
    actions = task.actions.sample([np.random.default_rng(row) for row in range(2)], ())
    model = bind(OracleDynamics(task), task, probe_states=starts.states[:2], probe_actions=actions)
    begun = time.process_time()
    arm = arm_of("oracle", task, planner, model, starts, seed=0)
    seconds = time.process_time() - begun
    rate = wilson_interval(arm.success_count, 100)
    print(
        f"\n{task.name}, {planner!r}, budget {task.budget}: {arm.success_count}/100 "
        f"[{rate.low:.3f}, {rate.high:.3f}], {arm.rollout_steps:.0f} steps and "
        f"{arm.cpu_ms.median:.1f} ms of CPU per decision, {seconds / 2:.1f} s of CPU per 50 "
        f"episodes, {np.median(arm.steps):.0f} steps to success (most {arm.steps.max()})"
    )
    assert rate.low >= 0.90
    # Another processor or version may decide an episode otherwise.
    drift = agresti_caffo_interval(preset.solved, 100, arm.success_count, 100)
    assert drift.low <= 0 <= drift.high
