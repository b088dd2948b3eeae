"""Plugin: the hooks, the marker and the fixtures; whatever knows pytest.

Nothing heavier than pytest is imported before the first gate is collected, and nothing is computed
here: rooms below measure, judge and render.
"""

from __future__ import annotations

import sys

# pytest's own finder is there to rewrite asserts, and none are in what every session loads. What it
# finds is read piece by piece, which would make half of what the installed plugin costs: this
# module, too, and so it has nothing of its own.
_REWRITING = [(at, one) for at, one in enumerate(sys.meta_path) if hasattr(one, "mark_rewrite")]
for _, _finder in _REWRITING:
    sys.meta_path.remove(_finder)
try:
    from pytest_cpg.plugin.entry import *  # noqa: F403  # whatever pytest is to find
    from pytest_cpg.plugin.entry import __all__
finally:
    for _at, _finder in _REWRITING:
        sys.meta_path.insert(_at, _finder)


def __dir__() -> list[str]:
    """Return what pytest is to find: it tries each name of a plugin several times."""
    return __all__
