"""Modules that a pytester run in this process must not import for itself.

Such a run forgets the modules it imported, and neither numpy nor scipy can be imported twice.
"""

# ruff: noqa: F401
import email.parser
import functools
import signal

import jinja2
import numpy as np
import pytest
import scipy.optimize
import scipy.spatial
import scipy.special
import scipy.stats

import pytest_cpg.gates.planning_gap.benchmark
import pytest_cpg.gates.planning_gap.forecast
import pytest_cpg.gates.planning_gap.recipes
import pytest_cpg.gates.presets
import pytest_cpg.plugin.item
import pytest_cpg.plugin.item_report
import pytest_cpg.plugin.marker
import pytest_cpg.plugin.outputs
import pytest_cpg.plugin.replay
import pytest_cpg.plugin.selection
import pytest_cpg.plugin.session
import pytest_cpg.plugin.terminal
import pytest_cpg.render.failure
import pytest_cpg.render.forecasts
import pytest_cpg.render.github
import pytest_cpg.render.html_page
import pytest_cpg.render.junit
import pytest_cpg.render.summary
import pytest_cpg.report.acceptance
import pytest_cpg.report.accounting
import pytest_cpg.report.findings
import pytest_cpg.tasks.grids
import pytest_cpg.world_models.checkpoints.factories
import pytest_cpg.world_models.checkpoints.source


@pytest.fixture(scope="session")
def compiled_page():
    """The template of the HTML page is compiled once, which costs more than to fill it in."""
    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(jinja2.Environment.from_string)
        patch.setattr(jinja2.Environment, "from_string", once)
        patch.setattr(jinja2, "Environment", functools.cache(jinja2.Environment))
        yield


def pytest_configure():
    """Let processes that tests start be interrupted.

    A shell has its background jobs ignore Ctrl-C, and they pass that on to all that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
