"""Gates on the maze models: numpy only, a second each.

The free-space model is there to show what a failing gate looks like; a repository would mend it.
"""

import pytest


@pytest.mark.cpg(task="maze", model="table", max_verdict="MODEL AS GOOD AS ORACLE")
def test_table_plans_as_well_as_the_maze_itself(cpg):
    assert cpg.learned.success_rate >= 0.9


@pytest.mark.cpg(task="two-room", planner="cem", model="table")
def test_table_finds_the_door(cpg):
    assert cpg.gap <= 0.1


@pytest.mark.xfail(strict=True, reason="a model without walls plans through them")
@pytest.mark.cpg(task="maze", model="free-space")
def test_free_space_model_is_caught(cpg):
    pass
