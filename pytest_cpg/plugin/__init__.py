"""Plugin: the hooks, the marker and the fixtures; whatever knows pytest.

Nothing heavier than pytest is imported before the first gate is collected, and nothing is computed
here: rooms below measure, judge and render.
"""

from __future__ import annotations

import sys

_FINDERS = sys.meta_path[:]
# pytest's own finder is there to rewrite asserts, and none are in what every session loads. What it
# finds is read piece by piece, which would make half of what the installed plugin costs: this
# module, too, and so it has nothing of its own.
sys.meta_path[:] = (one for one in _FINDERS if not hasattr(one, "mark_rewrite"))
try:
    from pytest_cpg.plugin.entry import *  # noqa: F403  # whatever pytest is to find
finally:
    sys.meta_path[:] = _FINDERS
