"""One model recipe on three tasks, and a gate on what it loses over all of them.

Each gate accepts what is not sure by itself; the suite asks for proof, which three tasks together
have. ``pytest --cpg-model=free-space`` shows how it fails.
"""

import pytest


@pytest.mark.cpg_suite(max_gap=0.1, max_verdict="WITHIN LIMIT")
def test_rooms():
    """Judged once the others have reported, wherever they ran."""


@pytest.mark.cpg(task="maze", planner="preset", model="table")
def test_maze(cpg):
    assert cpg.oracle.success_rate > 0.9


@pytest.mark.cpg(task="two-room", planner="preset", model="table")
def test_two_rooms(cpg):
    assert cpg.oracle.success_rate > 0.9


@pytest.mark.cpg(task="corridor", planner="cem", horizon=30, model="table")
def test_corridor(cpg):
    assert cpg.oracle.success_rate > 0.5
