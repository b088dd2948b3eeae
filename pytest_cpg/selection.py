"""Selection: which tests of those collected are run, by being gates and by what they last said."""

from __future__ import annotations

import pytest

from pytest_cpg.settings import Settings

# Verdicts of every gate when it last ran, in pytest's cache.
LAST = "cpg/last"
_WANTED = {
    "inconclusive": ("INCONCLUSIVE",),
    "bottleneck": ("MODEL BOTTLENECK", "PLANNER BOTTLENECK"),
}


class Selection:
    """Deselects what --cpg-only, --cpg-skip or --cpg-last leave out."""

    def __init__(self, settings: Settings) -> None:
        self._last = settings.typed.get("last")
        self._skips = "skip" in settings.switches

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave gates out, or all that is no gate, or all gates that last said something else."""
        kept: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            (kept if self._is_kept(config, item) else left).append(item)
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept

    def _is_kept(self, config: pytest.Config, item: pytest.Item) -> bool:
        is_gate = item.get_closest_marker("cpg") is not None
        if self._skips or not is_gate or self._last is None:
            return is_gate is not self._skips
        from pytest_cpg.gate_item import gate_id

        cache = getattr(config, "cache", None)
        said = cache.get(LAST, {}).get(gate_id(item), []) if cache else []
        return any(verdict in _WANTED[self._last] for verdict in said)
