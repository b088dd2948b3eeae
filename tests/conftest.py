"""Modules that a pytester run in this process must not import for itself.

Such a run forgets the modules it imported, and neither numpy nor scipy can be imported twice.
"""

# ruff: noqa: F401
import email.parser
import functools
import gc
import importlib.metadata
import os
import signal
import sys
from types import FunctionType, ModuleType

import filelock
import jinja2
import numpy as np
import pluggy
import pytest
import scipy.optimize
import scipy.spatial
import scipy.special
import scipy.stats
import xdist.dsession
from forked import ROOMS, import_rooms
from hypothesis import settings

import pytest_cpg.tasks.grids
import pytest_cpg.tasks.prefixes
import pytest_cpg.world_models.checkpoints.factories
import pytest_cpg.world_models.checkpoints.source

# Tests leave little that only a search for circles finds: it took a twentieth of the time.
gc.set_threshold(20_000)
# A busy machine is no failure. In CI nothing is drawn anew, so that no merge waits for a find.
# Elsewhere every run draws others: fifty are half the time, and two runs are a hundred.
settings.register_profile(
    "unhurried", deadline=None, max_examples=50, derandomize="CI" in os.environ
)
settings.load_profile("unhurried")

import_rooms(*ROOMS, "plugin")


@pytest.fixture(scope="session", autouse=True)
def compiled_page():
    """The template of the HTML page is compiled once, which costs more than to fill it in."""
    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(jinja2.Environment.from_string)
        patch.setattr(jinja2.Environment, "from_string", once)
        patch.setattr(jinja2, "Environment", functools.cache(jinja2.Environment))
        yield


class Installed:
    """A distribution of which each part is read once."""

    def __init__(self, distribution):
        self._distribution = distribution

    def __getattr__(self, name):
        value = getattr(self._distribution, name)
        setattr(self, name, value)
        return value


@pytest.fixture(scope="session", autouse=True)
def installed_once():
    """A pytester run asks every installed distribution for its plugins, a tenth of its time."""
    installed = [Installed(one) for one in importlib.metadata.distributions()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.metadata, "distributions", lambda: iter(installed))
        yield


@pytest.fixture(scope="session", autouse=True)
def names_that_matter(request):
    """A pytester run tries each name of every plugin several times, a sixth of its time."""
    plugins = request.config.pluginmanager.get_plugins()
    holders = {one if isinstance(one, ModuleType) else type(one) for one in plugins}
    # Ours say by themselves which matter.
    holders = {holder for holder in holders if "__dir__" not in vars(holder)}
    fixture = type(pytest.fixture(len))
    with pytest.MonkeyPatch.context() as patch:
        for holder in holders:
            names = [
                name
                for name in dir(holder)
                if name.startswith("pytest_") or isinstance(getattr(holder, name, None), fixture)
            ]
            patch.setattr(holder, "__dir__", lambda *_, names=names: names, raising=False)
        patch.setattr(pluggy._manager, "_static_hook_attr", _hook_of, raising=False)
        yield


# An earlier pluggy has none, and never asks ours.
_searched = getattr(pluggy._manager, "_static_hook_attr", None)


def _hook_of(plugin, name):
    """A function of a module is found as pluggy finds it, without its search of classes."""
    value = vars(plugin).get(name) if type(plugin) is ModuleType else None
    return (value, value) if type(value) is FunctionType else _searched(plugin, name)


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
