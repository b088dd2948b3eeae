"""Session history: what earlier sessions found, and what this one adds to that."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cpg.gates import HISTORY
from pytest_cpg.plugin.kinds import KINDS
from pytest_cpg.plugin.outputs import path_of
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.report.ledger import Ledger


def add_to_history(config: pytest.Config, settings: Settings, ledger: Ledger) -> None:
    """Give the ledger what earlier sessions found, this one last, and write it down.

    What goes wrong is said, and fails no gate. An empty --cpg-history turns all of it off.
    """
    from pytest_cpg.gates.finding import Finding
    from pytest_cpg.machine.files import FileError
    from pytest_cpg.machine.git import git_state
    from pytest_cpg.report.history import History
    from pytest_cpg.report.history_file import append, found_in, read
    from pytest_cpg.report.session import Session

    pattern = path_of(config, settings, "history")
    if pattern is None:
        return
    # A baseline that was just accepted is no change of what was measured.
    state = git_state(config.rootpath, besides=config.rootpath / settings.of_session("baseline"))
    date = datetime.now(UTC).isoformat(timespec="microseconds")
    session = found_in(Session.of(ledger), commit=state.commit, date=date)
    # Of the true dynamics nothing is followed, nor that they could not be run.
    if not session.comparisons or settings.typed.get("model") == "oracle":
        return
    # A file's own name may have brackets.
    paths = [str(pattern)] if os.path.exists(pattern) else sorted(glob(str(pattern)))
    found, faults = read(map(Path, paths), config.stash[KINDS].table)
    if "history" in settings.typed and not paths:
        faults.append(f"nothing matches --cpg-history={settings.typed['history']}")
    ledger.history = History((*found.sessions, session))
    try:
        append(config.rootpath / HISTORY, session)
    except FileError as error:
        faults.append(str(error))
    # A file that can neither be read nor written is said once.
    ledger.findings += tuple(map(Finding, dict.fromkeys(faults)))
