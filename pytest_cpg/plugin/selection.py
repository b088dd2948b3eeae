"""Selection: which tests of those collected are run, by being gates and by what they last said."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.plugin.kinds import KINDS
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.plugin.replay import SessionReplay

# In pytest's cache: verdicts of every gate when it last ran, and what it cost.
LAST, COSTS = "cpg/last.1", "cpg/costs.1"
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
        if self._replay and not config.option.collectonly:
            self._replay.check_found(is_found=bool(kept))
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        """Say why --cpg-last left nothing to run, here or on xdist workers."""
        if self._last and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            terminalreporter.write_line(f"--cpg-last={self._last}: {_why_none(config)}")

    def _is_kept(self, config: pytest.Config, item: pytest.Item) -> bool:
        kind = next(config.stash[KINDS].of(item), None)
        from pytest_cpg.plugin.item import gate_id

        if self._replay:
            is_its_kind = kind is not None and kind.marker == self._replay.lost.kind
            return is_its_kind and gate_id(item) == self._replay.lost.gate
        if self._skips or kind is None or self._last is None:
            return (kind is not None) is not self._skips
        said = remembered(config, LAST).get(gate_id(item), ())
        return any(
            label in kind.labels and kind.labels[label].name in _WANTED[self._last]
            for label in said
        )


def _why_none(config: pytest.Config) -> str:
    if getattr(config, "cache", None) is None:
        return (
            "what gates said is in pytest's cache, and there is none. Leave -p no:cacheprovider "
            "out, and run the gates first: pytest --cpg-only"
        )
    if not remembered(config, LAST):
        return "no gate said so here, as none has run. Run the gates first: pytest --cpg-only"
    return "no gate that was collected said so here when it last ran"


def remembered(config: pytest.Config, name: str) -> dict[str, Any]:
    """Return what pytest's cache has of each gate under a name, by gate id."""
    cache = getattr(config, "cache", None)
    found = cache.get(name, {}) if cache else {}
    # Another version may have written something else, or somebody's editor; of costs, kinds check
    # what they have to do with.
    is_known = {LAST: _are_verdicts, COSTS: _are_values}[name]
    pairs = found.items() if isinstance(found, dict) else ()
    return {gate: said for gate, said in pairs if is_known(said)}


def had_gates(config: pytest.Config, settings: Settings) -> bool:
    """Say whether an earlier session had gates, by its baseline or pytest's cache."""
    baseline = config.rootpath / settings.of_session("baseline")
    return baseline.exists() or bool(remembered(config, LAST))


def remember(config: pytest.Config, name: str, found: Mapping[str, Any]) -> None:
    """Add to what pytest's cache has of each gate under a name, where that can be written."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return
    # Pytest's own plugins say that it cannot, and a warning may be an error.
    with warnings.catch_warnings(action="ignore"), suppress(OSError, ValueError):
        cache.set(name, {**remembered(config, name), **found})


def _are_verdicts(said: Any) -> bool:
    return isinstance(said, list) and all(isinstance(verdict, str) for verdict in said)


def _are_values(said: Any) -> bool:
    return isinstance(said, dict)
