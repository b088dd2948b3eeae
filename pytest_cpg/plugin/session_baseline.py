"""Session baseline: the accepted results that a session compares with, and the family they make."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cpg.plugin.kinds import KINDS
from pytest_cpg.plugin.scope import SessionScope
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.report.baseline import Baseline


class SessionBaseline:
    """The baseline of one session."""

    def __init__(self, config: pytest.Config, settings: Settings, scope: SessionScope) -> None:
        self._config, self._settings, self._scope = config, settings, scope
        self.path = Path(config.rootpath, settings.of_session("baseline"))
        self.is_corrected = bool(settings.of_session("correction") == "holm")

    @cached_property
    def accepted(self) -> Baseline | None:
        """The last accepted results; None when there are none.

        Raises FileError when the file cannot be used.
        """
        if not self.path.exists():
            return None
        from pytest_cpg.report.baseline import load

        return load(self.path, self._config.stash[KINDS].table)

    @property
    def is_used(self) -> bool:
        """Whether the session has to do with it at all."""
        is_updated = "update_baseline" in self._settings.switches
        is_compared = self._settings.of_session("drift") != "off" or self._scope.required == "all"
        return is_updated or self.is_corrected or is_compared

    @property
    def family_size(self) -> int:
        """Gates of the family by the settings or the baseline, never by what was selected."""
        typed = int(self._settings.of_session("family_size"))
        accepted = self.accepted if self.is_used and not typed else None
        return typed or (accepted.family_size if accepted else 0)
