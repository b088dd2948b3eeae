"""Conformance: tests that a task, planner or world model of yours can be run through.

Give them through fixtures in the ``conftest.py`` of the folder that pytest is started in::

    @pytest.fixture
    def conformance_task():
        return MyTask()

and type ``pytest --pyargs pytest_cpg.conformance``; or write
``from pytest_cpg.conformance.test_tasks import *`` into a test module that has the fixture. Of the
whole suite, what no fixture gives is skipped, as long as there is one; a part of it that is asked
for fails without its fixture, and so does a model without a task to try it on.

Here, and nowhere else in the package, functions are called ``test_*``: they are there to be
collected. Nothing of the plugin imports them.
"""

import pytest

pytest.register_assert_rewrite(
    *(
        f"pytest_cpg.conformance.test_{kind}"
        for kind in ("components", "tasks", "planners", "world_models")
    )
)
