"""Settings of a session of which nothing was asked, and how it was started."""

from types import SimpleNamespace

from pytest_cpg.gates import GATES
from pytest_cpg.plugin.options import OPTIONS
from pytest_cpg.plugin.settings import Settings


def usual_settings():
    """What a session has whose command line, environment and ini file say nothing."""
    own = [option for kind in GATES.values() for option in getattr(kind, "options", ())]
    options = {option.name: option for option in (*OPTIONS, *own)}
    project = {name: option.default for name, option in options.items()}
    return Settings(
        options=options, typed={}, project=project, switches=frozenset(), allow_reruns=False
    )


def started(*typed, **options):
    """Return what a configuration of pytest says of a session that was started so."""
    return SimpleNamespace(
        option=SimpleNamespace(**options),
        getoption=lambda name, default=None: options.get(name, default),
        invocation_params=SimpleNamespace(args=typed),
    )
