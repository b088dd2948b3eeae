"""What all tests share: what is loaded before them, and what none of them needs to wait for."""

import functools
import gc
import importlib
import os
import signal
import sys
from functools import partial

import pytest
from forked import ROOMS, import_rooms, spare_searches

# A pytester run in this process forgets what it imported, and numpy cannot be imported twice.
NOT_FOR_ITSELF = (
    "email.parser",
    "filelock",
    "jinja2",
    "scipy.optimize",
    "scipy.spatial",
    "scipy.special",
    "scipy.stats",
    "xdist.dsession",
    "pytest_cpg.tasks.grids",
    "pytest_cpg.tasks",
    "pytest_cpg.world_models.checkpoints.source",
)

# Tests leave little that only a search for circles finds: it took a twentieth of the time.
gc.set_threshold(20_000)


def pytest_collection():
    """Import what a pytester run in this process must not; the process of `-n` itself has none."""
    for name in NOT_FOR_ITSELF:
        importlib.import_module(name)
    import_rooms(*ROOMS, "plugin")
    from hypothesis import settings

    # A busy machine is no failure. In CI nothing is drawn anew, so that no merge waits for a find.
    # Elsewhere every run draws others: fifty are half the time, and two runs are a hundred.
    settings.register_profile(
        "unhurried", deadline=None, max_examples=50, derandomize="CI" in os.environ
    )
    settings.load_profile("unhurried")


@pytest.fixture(scope="session", autouse=True)
def compiled_page():
    """The template of the HTML page is compiled once, which costs more than to fill it in."""
    import jinja2

    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(jinja2.Environment.from_string)
        patch.setattr(jinja2.Environment, "from_string", once)
        patch.setattr(jinja2, "Environment", functools.cache(jinja2.Environment))
        yield


@pytest.fixture(scope="session", autouse=True)
def searches_spared(request):
    with pytest.MonkeyPatch.context() as patch:
        spare_searches(
            request.config.pluginmanager.get_plugins(), partial(patch.setattr, raising=False)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def interrupted_soon():
    """Where a run was interrupted is looked up in each file on the way, and then not shown."""
    long = pytest.ExceptionInfo.getrepr

    def shown(caught, **style):
        ends_all = isinstance(caught.value, (KeyboardInterrupt, pytest.exit.Exception))
        return long(caught, **(style | {"style": "native"} if ends_all else style))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest.ExceptionInfo, "getrepr", shown)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_blackout():
    """Nothing is waited for that only matters to a file when the power fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


def pytest_configure():
    """Let processes that tests start be interrupted.

    A shell has its background jobs ignore Ctrl-C, and they pass that on to all that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Write no bytecode of what tests write: the same second may see two versions of a module.

    What is loaded by now stays, and to look for waste in it would take a fifteenth of all the time.
    """
    gc.freeze()
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
