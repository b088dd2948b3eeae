"""Session replay: lost episodes, kept in files when a gate fails, and run again when asked for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from pytest_cpg.contracts import BrokenModelError, ComponentError, CpgError, IncompleteError, Task
from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes.replay import Replay
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import Command, Strip
from pytest_cpg.gates.kind import Lost, Run
from pytest_cpg.gates.parts import offers
from pytest_cpg.machine.files import FileError, ignore_in_git
from pytest_cpg.plugin.attempt import ATTEMPT
from pytest_cpg.plugin.invocation import (
    lead_to,
    node_from_here,
    path_from_here,
    program_of,
    width_of,
)
from pytest_cpg.plugin.item import gate_id
from pytest_cpg.plugin.kinds import KINDS
from pytest_cpg.plugin.marker import Gate
from pytest_cpg.render import films
from pytest_cpg.render.line import wrapped
from pytest_cpg.render.replay import replay_lines
from pytest_cpg.render.section import broken_section, text_of
from pytest_cpg.render.words import run_of
from pytest_cpg.report import lost_episodes
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.lost_episodes import LostEpisodes

# Episodes of which the most telling is looked for.
_MOST_TRIED = 3
# Of a session's gates, some 50 kB each.
_MOST_STRIPS = 8
_STRIPS = pytest.StashKey[int]()


def lost_folder(root: Path) -> Path:
    """Return where lost episodes of a project and their films are kept."""
    return root / ".cpg" / "lost"


def with_lost(item: pytest.Item, gate: Gate, judgement: Judgement, number: int) -> Judgement:
    """Write a comparison's lost episodes; return it with what replays them, or with the problem."""
    if not gate.can_replay:
        return judgement
    try:
        lost = ask(gate.kind, "lost", judgement.result)
    except CpgError as error:
        return replace(judgement, lost_problem=str(error))
    if not lost.episodes:
        return judgement
    file, problem = _write_lost(item, gate.kind, lost, number)
    if problem:
        return replace(judgement, lost_problem=problem)
    count, program = len(lost.episodes), program_of(item.config)
    replay = Command(
        what=f"Replay the {count} lost episode{'s'[: count != 1]}, both arms, with traces",
        text=f"{program} {lead_to(item.config, item.nodeid)}--cpg-replay={file}",
        program=program,
        picks=True,
    )
    others = [command for command in judgement.commands if not command.picks]
    return replace(judgement, commands=(replay, *others))


def keep_broken(
    item: pytest.Item,
    gate: Gate,
    error: BrokenModelError,
    *,
    model: Any,
    run: Run,
    deciding: Mapping[str, Any],
) -> None:
    """Write the episode in which a model broke, and keep what the test says where it fails so."""
    attempt, config, kind = item.stash[ATTEMPT], item.config, gate.kind
    program = program_of(config)
    again, typed = "Run it again:", run_of(program, node_from_here(config, item.nodeid), deciding)
    if offers(kind, "lost_by_breaking") and gate.can_replay:
        with suppress(CpgError):
            lost = ask(kind, "lost_by_breaking", gate.spec, model, run, episode=error.episode)
            file, problem = _write_lost(item, kind, lost, len(attempt.judgements) + 1)
            if not problem:
                again = "Reproduce it alone:"
                lead = lead_to(config, item.nodeid)
                typed = f"{program} {lead}--cpg-replay={file}::{error.episode}"
    reasons = [("Why", error.why), ("Do", again)]
    attempt.broken = broken_section(error.sentence, reasons, typed, width=width_of(config))
    attempt.brief, error.section = error.brief, text_of(attempt.broken)
    attempt.told = f"{error.brief}. {error} {again} {typed}"


def _write_lost(item: pytest.Item, kind: Any, lost: Lost, comparison: int) -> tuple[str, str]:
    """Write lost episodes; return their file as it is typed, or why there is none."""
    config, folder = item.config, lost_folder(item.config.rootpath)
    written = LostEpisodes(
        gate=gate_id(item),
        nodeid=item.nodeid,
        episodes=lost.episodes,
        values=encode(lost.then),
        kind=kind.marker,
        comparison=comparison,
    )
    try:
        path = lost_episodes.write(written, folder)
    except FileError as error:
        # Which file it is says nothing.
        return "", f"{path_from_here(config, folder)}: {str(error).rpartition(': ')[2]}"
    ignore_in_git(folder, "*")
    return shlex.quote(path_from_here(config, path)), ""


def strip_lost(
    config: pytest.Config, gate: Gate, result: Any, *, model: Any, run: Run
) -> tuple[Strip | None, str | None]:
    """Draw the most telling lost episode of a result, if there is any; no gate fails for it."""
    kind: Any = gate.kind
    lost = ask(kind, "lost", result)
    if not lost.episodes or config.stash.get(_STRIPS, 0) >= _MOST_STRIPS:
        return None, None
    chosen = sorted((lost.telling or lost.episodes)[:_MOST_TRIED])
    try:
        replayed = kind.replay(gate.spec, model, run, episodes=tuple(chosen))
        task = run.task(gate.spec.task)
        strip = films.strip_of(task, replayed.traces, lost=len(lost.episodes))
    except IncompleteError:
        raise
    # Without OpenGL the next gate would fail to draw as well, and take seconds to find out.
    except ComponentError:
        config.stash[_STRIPS] = _MOST_STRIPS
        return None, None
    # A picture that nobody asked for costs no verdict, whatever a task of one's own draws.
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    config.stash[_STRIPS] = config.stash.get(_STRIPS, 0) + 1
    return strip, None


class SessionReplay:
    """What --cpg-replay asks for: ``FILE``, or ``FILE::7,9`` for some of its episodes."""

    def __init__(
        self, config: pytest.Config, target: str, *, is_filmed: bool, states: str = ""
    ) -> None:
        self._config, self._is_filmed, self._states = config, is_filmed, states
        try:
            path, some = lost_episodes.parse_target(target)
            self._path = config.invocation_params.dir / path
            self.lost = lost_episodes.read(self._path, config.stash[KINDS].table)
            self._episodes = self.lost.chosen(some)
        except CpgError as error:
            raise pytest.UsageError(str(error)) from None
        self._compared = 0
        number = self.lost.comparison
        place = "it compared anything" if number == 1 else f"its comparison {number}"
        self.lines = [f" nothing was replayed: the test ended before {place}"]

    @property
    def place(self) -> str:
        """The file of the gate's test, which alone has to be collected; empty if it is gone."""
        path = self._config.rootpath / self.lost.nodeid.partition("::")[0]
        return str(path) if path.is_file() else ""

    @property
    def _test(self) -> str:
        """The gate's test, in the project that the file of its lost episodes lies in."""
        folder, root = self._path.absolute().parent, self._config.rootpath
        if folder.parts[-2:] == lost_folder(root).parts[-2:]:
            root = folder.parents[1]
        file, colons, name = self.lost.nodeid.partition("::")
        return f"{path_from_here(self._config, root / file)}{colons}{name}"

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect all tests but the gate's; raise UsageError where it was not collected."""
        kind, kinds = self.lost.kind, config.stash[KINDS]
        gates = [
            item
            for item in items
            if any(found.marker == kind for found in kinds.of(item))
            and gate_id(item) == self.lost.gate
        ]
        if not gates and not config.option.collectonly:
            raise pytest.UsageError(
                f"no gate {self.lost.gate!r} was collected, whose lost episodes {self._path} "
                f"holds. Type: {program_of(config)} {shlex.quote(self._test)} "
                f"--cpg-replay={shlex.quote(path_from_here(config, self._path))}; if the test was "
                f"renamed, run it again first."
            )
        if left := [item for item in items if item not in gates]:
            config.hook.pytest_deselected(items=left)
            items[:] = gates

    def take(self, gate: Gate, model: Any, run: Run) -> None:
        """Run both arms again, note what was found, and leave the test.

        A comparison before the one that is asked for is left to be run: the test may need it.
        """
        lost = self.lost
        self._compared += 1
        if self._compared < lost.comparison:
            return
        kind: Any = gate.kind
        then = lost_episodes.loss_for(kind, lost)
        try:
            replayed = kind.replay(gate.spec, model, run, episodes=self._episodes, then=then)
        except BrokenModelError as error:
            self.lines = [f" as before: {error.brief}"]
            raise
        width = self._config.get_terminal_writer().fullwidth
        self.lines = replay_lines(replayed, width=width)
        notes = (wrapped(text, width, " note: ") for text in replayed.changed)
        self.lines += ["", *chain.from_iterable(notes)]
        traces = self._path.with_suffix(".npz")
        try:
            replayed.save(traces)
            self.lines.append(f" traces: {path_from_here(self._config, traces)}")
        except CpgError as error:
            self.lines.append(f" no traces: {error}")
        if self._states:
            self.lines.append(self._broken(replayed))
        if self._is_filmed:
            self.lines += self._filmed(replayed, run.task(gate.spec.task))
        count = len(self._episodes)
        pytest.skip(f"replayed {count} episode{'s'[: count != 1]}; a replay has no verdict")

    def _broken(self, replayed: Replay) -> str:
        """Write where plans broke their promise, and return where that is, or why it is not."""
        path = self._config.invocation_params.dir / self._states
        count = replayed.save_broken_promises(path)
        if not count:
            return " no broken promises: no plan promised more than it came to"
        typed = path_from_here(self._config, path)
        return f" broken promises: {typed}, {count} state{'s'[: count != 1]}"

    def _filmed(self, replayed: Replay, task: Task) -> Iterator[str]:
        """Film every episode, and yield where each film is, or why there are no more."""
        for episode, arms in replayed.traces.items():
            name = f"{self._path.stem}-{episode}"
            goal = films.goal_in_words(task, arms.oracle.goal)
            captions = (
                f"oracle: {arms.oracle.ending}",
                f"learned: {arms.learned.ending}{f'; {goal}' if goal else ''}",
            )
            states = arms.oracle.states, arms.learned.states
            try:
                path = films.write_film(
                    task, *states, self._path.parent, name=name, captions=captions
                )
            except CpgError as error:
                yield f" no film: {error}"
                return
            yield f" film: {path_from_here(self._config, path)}"
