"""Modules that a pytester run in this process must not import for itself.

Such a run forgets the modules it imported, and neither numpy nor scipy can be imported twice.
"""

import email.parser  # noqa: F401
import functools
import signal

import jinja2
import numpy as np  # noqa: F401
import pytest
import scipy.special  # noqa: F401


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
