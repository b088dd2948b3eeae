import os

import pytest

from pytest_cpg.processors import SHARERS, own_share


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        ({}, 8),
        ({"PYTEST_XDIST_WORKER_COUNT": "4"}, 2),
        ({SHARERS: "3", "PYTEST_XDIST_WORKER_COUNT": "4"}, 2),
        ({"PYTEST_XDIST_WORKER_COUNT": "3"}, 2),
        ({SHARERS: "100"}, 1),
    ],
)
def test_processes_that_share_the_work_share_the_processors(environment, share, monkeypatch):
    for name in (SHARERS, "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert own_share() == share
