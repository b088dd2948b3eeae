"""Selection: which tests of those collected are run, by being gates and by what they last said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cpg.plugin.kinds import KINDS
from pytest_cpg.plugin.memory import LAST, remembered
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.plugin.replay import SessionReplay

# Severities of labels, by the word of --cpg-last.
_WANTED = {"inconclusive": ("UNSURE",), "bad": ("BLIND", "BAD", "BROKEN")}


class Selection:
    """Deselects what --cpg-only, --cpg-skip, --cpg-last or --cpg-replay leave out."""

    def __init__(self, settings: Settings, replay: SessionReplay | None) -> None:
        self._replay = replay
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
        if self._replay and not kept and not config.option.collectonly:
            self._replay.refuse_unfound()
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        """Say why --cpg-last left nothing to run, here or on xdist workers."""
        if self._last and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            why = _why_none(config, self._last)
            terminalreporter.write_line(f"--cpg-last={self._last}: {why}")

    def _is_kept(self, config: pytest.Config, item: pytest.Item) -> bool:
        kind = next(config.stash[KINDS].of(item), None)
        from pytest_cpg.plugin.item import gate_id

        if self._replay:
            is_its_kind = kind is not None and kind.marker == self._replay.lost.kind
            return is_its_kind and gate_id(item) == self._replay.lost.gate
        if self._skips or kind is None or self._last is None:
            return (kind is not None) is not self._skips
        said = remembered(config, LAST).get(gate_id(item), ())
        wanted = _WANTED[self._last]
        return any(level.name in wanted for label, level in kind.labels.items() if label in said)


def _why_none(config: pytest.Config, wanted: str) -> str:
    if getattr(config, "cache", None) is None:
        return (
            "what gates said is in pytest's cache, and there is none. Leave -p no:cacheprovider "
            "out, and run the gates first: pytest --cpg-only"
        )
    if not remembered(config, LAST):
        return "no gate has run here yet. Run the gates first: pytest --cpg-only"
    return f"no gate that was collected was {wanted} in its last run here"
