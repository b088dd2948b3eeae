"""Session scope: what is asked of a session, whether that can be done, and the gates it owes."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.gates import PREFIX
from pytest_cpg.machine.provenance import is_in_ci
from pytest_cpg.plugin.kinds import Collected
from pytest_cpg.plugin.options import flag
from pytest_cpg.plugin.outputs import SessionOutputs
from pytest_cpg.plugin.settings import Settings
from pytest_cpg.render.formats import FORMATS

if TYPE_CHECKING:
    from pytest_cpg.plugin.replay import SessionReplay

# What leaves other options no meaning, which ones, and why: refused wherever they are set.
_CLASHES = (
    ("plan", ("update_baseline",), "there is nothing to write"),
    ("quick", ("plan",), "--cpg-plan runs nothing, quick or not"),
    ("quick", ("update_baseline",), "a smoke test is no result to accept"),
    ("quick", ("require",), "a smoke test judges no gate"),
    ("resume", ("no_cache",), "what is resumed is in the cache"),
    ("resume", ("quick",), "a smoke test is never resumed"),
    ("replay", ("quick", "plan", "update_baseline", "resume"), "a replay compares nothing"),
    ("replay", tuple(FORMATS), "a replay has no results to write"),
)


def check_session(config: pytest.Config, settings: Settings) -> None:
    """Refuse what is asked of a session and cannot be done, before anything is run."""
    _check_clashes(config, settings)
    _check_baseline(config, settings)
    for name in ("quick", "plan", "replay"):
        if name in settings.switches or name in settings.typed:
            check_is_typed(config, flag(name), require=settings.of_session("require"))
    is_distributed = config.getoption("dist", "no") != "no"
    for name, runs in (("plan", "nothing"), ("replay", "one gate")):
        if is_distributed and (name in settings.switches or name in settings.typed):
            raise pytest.UsageError(f"{flag(name)} runs {runs}, and needs no workers: add -n 0")
    workers = settings.of_session("workers")
    if workers > 1:
        _check_is_no_worker()
    if is_distributed and workers != 1:
        raise pytest.UsageError(
            "--cpg-workers and -n: both divide the processors. Leave one of them out: -n runs "
            "several gates at once, --cpg-workers the parts of one."
        )
    if any(map(settings.of_session, FORMATS)):
        SessionOutputs(config, settings).check()
    if "states" in settings.typed and "replay" not in settings.typed:
        raise pytest.UsageError(
            "--cpg-states writes where replayed plans broke their promise. Add the "
            "--cpg-replay=FILE that a gate prints when it fails."
        )
    if "render" in settings.switches:
        if "replay" not in settings.typed:
            raise pytest.UsageError(
                "--cpg-render films what is replayed. Add the --cpg-replay=FILE that a gate "
                "prints when it fails; the page (--cpg-html) shows its most telling lost start."
            )
        from pytest_cpg.contracts import ComponentError
        from pytest_cpg.render.films import check_can_render

        try:
            check_can_render()
        except ComponentError as error:
            raise pytest.UsageError(str(error)) from None


def _check_clashes(config: pytest.Config, settings: Settings) -> None:
    """Refuse what leaves another option no meaning; what addopts and such say may be overruled."""
    typed = {name for name, value in settings.typed.items() if value not in ("", "0")}
    asked = settings.switches | typed
    flags = {str(word).partition("=")[0] for word in config.invocation_params.args}
    here = {option.name for option in settings.options.values() if option.flag in flags}
    overruled = [
        (first, (option.name,), why)
        for option in settings.options.values()
        for first, why in option.overruled.items()
    ]
    for rules, refused in ((overruled, here), (_CLASHES, asked)):
        for first, others, why in rules:
            for other in others:
                if first in asked and other in refused:
                    raise pytest.UsageError(
                        f"{flag(first)} and {flag(other)}: {why}. Leave one of them out."
                    )


def check_is_typed(config: pytest.Config, *spellings: str, require: str) -> None:
    """Refuse in CI an option that leaves gates without a verdict and is not typed there."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or require == "0" or not is_in_ci():
        return
    typed = {str(word).partition("=")[0] for word in config.invocation_params.args}
    if not {*spellings} & typed:
        raise pytest.UsageError(
            f"{spellings[0]} is set in PYTEST_ADDOPTS or addopts, and would leave CI without a "
            f"verdict. Take it out there, or type it where it is meant."
        )


def _check_baseline(config: pytest.Config, settings: Settings) -> None:
    if "baseline" not in settings.typed or "update_baseline" in settings.switches:
        return
    path = config.rootpath / settings.typed["baseline"]
    if not path.exists():
        is_typed = config.getoption("cpg_baseline") is not None
        place = "--cpg-baseline" if is_typed else f"{PREFIX}BASELINE"
        wrong = f"{path} is a link to no file" if path.is_symlink() else f"there is no file {path}"
        raise pytest.UsageError(
            f"{place}={settings.typed['baseline']}: {wrong}. Correct the path, "
            f"which is from the root directory, leave it out, or add --cpg-update-baseline to "
            f"write it."
        )


def _check_is_no_worker() -> None:
    """Refuse a session in a worker, which has run the script that started the first one."""
    import multiprocessing

    # While it imports the main module, a spawned process has no better mark.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise pytest.UsageError(
            "this is a worker of --cpg-workers, and starts pytest itself: guard the call in your "
            'script by `if __name__ == "__main__":`'
        )


# Options of pytest that run no test, as they are typed.
_RUNS_NOTHING = {
    "collectonly": ("--collect-only", "--collectonly", "--co"),
    "showfixtures": ("--fixtures", "--funcargs"),
    "show_fixtures_per_test": ("--fixtures-per-test",),
    "setupplan": ("--setup-plan", "--setupplan"),
    # The one above sets it as well.
    "setuponly": ("--setup-only", "--setuponly", "--setup-plan", "--setupplan"),
}


def check_will_run(config: pytest.Config, settings: Settings) -> None:
    """Refuse in CI what runs no gate and is not typed there."""
    for name, spellings in _RUNS_NOTHING.items():
        # The plugin of the last two may be left out.
        if getattr(config.option, name, False):
            check_is_typed(config, *spellings, require=settings.of_session("require"))


class SessionScope:
    """What one session was asked to run, or to replay, and what it has collected.

    Where no xdist worker said what it had collected, "silent" is among the uncollected.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        collected: Collected,
        replay: SessionReplay | None,
    ) -> None:
        self.config, self.settings, self.collected = config, settings, collected
        self.replay, self.uncollected = replay, collected.uncollected
        self.is_in_ci = is_in_ci()

    @property
    def judges(self) -> bool:
        """Whether gates have verdicts."""
        return "quick" not in self.settings.switches and self.replay is None

    @property
    def has_run(self) -> bool:
        """Whether tests are run, and not only collected or set up."""
        return not any(getattr(self.config.option, name, False) for name in _RUNS_NOTHING)

    @property
    def required(self) -> str:
        """How many gates have to be judged, ``"all"`` or a number; empty for none."""
        required = self.settings.of_session("require")
        if "require" not in self.settings.typed:
            if "replay" in self.settings.typed or "quick" in self.settings.switches:
                return ""
            if self.is_in_ci:
                required = required or "all"
            elif self.asked is not None or self.ignores:
                return ""
        return "" if required == "0" else str(required)

    @property
    def asked(self) -> tuple[Path, ...] | None:
        """Files and folders that pytest was asked to collect; None for the whole project."""
        config, option = self.config, self.config.option
        is_cut = option.pyargs or getattr(option, "lf", False)
        if is_cut or {"failed", "silent"} & self.uncollected:
            return ()
        if config.args_source is pytest.Config.ArgsSource.ARGS:
            arguments = (arg for arg in config.args if "::" not in arg)
            paths = tuple((config.invocation_params.dir / one).resolve() for one in arguments)
        elif config.args_source is pytest.Config.ArgsSource.INVOCATION_DIR:
            paths = (config.invocation_params.dir,)
        else:
            return None
        return None if config.rootpath in paths else paths

    @property
    def ignores(self) -> bool:
        """Whether pytest was told to leave out files or folders."""
        return bool(self.config.option.ignore or self.config.option.ignore_glob)

    def is_ignored(self, path: Path) -> bool:
        """Say whether pytest was told to leave out a file, or a folder that it is in."""
        option, folder = self.config.option, self.config.invocation_params.dir
        ignored = {os.path.abspath(folder / folder_name) for folder_name in option.ignore or []}
        patterns = [
            os.path.abspath(folder / folder_name) for folder_name in option.ignore_glob or []
        ]
        places = [str(place) for place in (path, *path.parents)]
        return not ignored.isdisjoint(places) or any(
            fnmatch(place, pattern) for place in places for pattern in patterns
        )

    @property
    def leaves_passed_out(self) -> bool:
        """Whether --lf leaves out what passed; without a failure before, it leaves out nothing."""
        cache: Any = getattr(self.config, "cache", None)
        is_asked = getattr(self.config.option, "lf", False)
        return bool(is_asked and cache.get("cache/lastfailed", {}))

    def owes_gates(self, *, had_gates: bool) -> bool:
        """Say whether a session without any gate may have to have some."""
        if not self.has_run:
            return False
        if "silent" in self.uncollected:
            return had_gates or self.required != ""
        if self.leaves_passed_out:
            had_gates = had_gates or "require" in self.settings.typed
        return had_gates if self.required == "all" else self.required != ""
