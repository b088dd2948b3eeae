"""Try every environment that a package registers as a task, and write the table of `field.md`.

``python docs/field.py`` tries what OGBench, stable-worldmodel, gymnasium-robotics and gym-pusht
register, as far as they are installed, each id in a process of its own with limits on memory and
time. What was found is kept in ``build/field.jsonl``, and an interrupted run goes on from there.
``python docs/field.py pointmaze`` tries ids whose name holds the word, and prints alone; so does
``MUJOCO_GL=osmesa python docs/field.py visual-scene`` with ids of pictures, which the table lacks.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, FOUND = ROOT / "docs/field.md", ROOT / "build/field.jsonl"
MODULES = {
    "ogbench": "ogbench",
    "stable_worldmodel": "stable-worldmodel",
    "gymnasium_robotics": "gymnasium-robotics",
    "gym_pusht": "gym-pusht",
}
# Of each process that tries an id.
SECONDS, GIGABYTES = 300, 8
# Steps of an episode held against a bare environment, and of a plan.
STEPS, HORIZON, REPEATS = 40, 15, 6
MARK = re.compile(r"(?s)(<!-- made by docs/field.py -->\n).*?(<!-- end -->)")
# Pictures are drawn by a display, and are tasks of another kind.
PICTURES = re.compile(r"visual|Pixels")


def registered(module: str) -> list[str]:
    """Return the ids that a module registers."""
    import gymnasium

    if module == "stable_worldmodel":
        sys.path.insert(0, str(ROOT / "tests"))
        import_module("cpu_torchvision")
    before = set(gymnasium.registry)
    imported = import_module(module)
    if module == "gymnasium_robotics":
        gymnasium.register_envs(imported)
    names = [name for name in gymnasium.registry if name not in before]
    newest = {name.rpartition("-v")[0]: name for name in sorted(names, key=version_of)}
    return [name for name in names if newest[name.rpartition("-v")[0]] == name]


def version_of(name: str) -> int:
    """Return the version that an id ends in."""
    return int(name.rpartition("-v")[2])


def tried(module: str, name: str) -> dict[str, Any]:
    """Return what came of an id: how it is put back, what it costs, or why it is refused."""
    import numpy as np

    from pytest_cpg.contracts import ComponentError
    from pytest_cpg.tasks.gymnasium import gym_task
    from pytest_cpg.tasks.gymnasium.environments import made
    from pytest_cpg.tasks.gymnasium.player import Player, generators

    title = f"{module}:{name}"
    try:
        made(title)
    except ComponentError as error:
        return {"outcome": "not made", "why": str(error)}
    try:
        task = gym_task(title, budget=STEPS)
    except ComponentError as error:
        return {"outcome": "refused", "why": str(error)}
    actions = task.actions.sample([np.random.default_rng(3)], (STEPS,))[0]
    player = Player(title)
    with generators(0):
        # As a task is made: some environments keep something over their resets.
        player.reset(0)
    with generators(7):
        rows = [player.reset(7)]
        for action in actions:
            rows.append(player.play(rows[-1], action[None], 1)[0][0])
    states = task.reset(np.array([7, 8]))
    walked = [states[0]]
    for step, action in enumerate(actions):
        # What is imagined in between, and the other episode, must leave no trace.
        if step % 10 == 0:
            imagined = task.rollout(states, np.tile(actions[step:][:HORIZON], (2, 1, 1)))
            rest = np.array(rows[step + 1 :][:HORIZON])
            if not np.array_equal(task.observe(imagined[0]), rest[:, : task.observation_size]):
                return {"outcome": "differs", "why": f"imagined from step {step}"}
        states = task.step(states, np.tile(action, (2, 1)))
        walked.append(states[0])
        if not np.array_equal(task.observe(states)[0], rows[step + 1][: task.observation_size]):
            return {"outcome": "differs", "why": f"at step {step + 1}"}

    # The processor time of forks is that of other processes.
    clock = time.perf_counter if "fork" in task.restored_by else time.process_time
    plan, pair = actions[None, 5 : 5 + HORIZON], np.array([walked[5], walked[1]])

    def bare() -> tuple[float, int]:
        with generators(7):
            start = player.reset(7)
            return clocked(lambda: player.play(start, actions[:HORIZON], 1)[1], clock)

    def put_back() -> tuple[float, int]:
        return clocked(lambda: len(task.rollout(pair, np.tile(plan[:, :1], (2, 1, 1)))), clock)

    def planned() -> tuple[float, int]:
        over = np.zeros((1, HORIZON), dtype=bool)

        def imagine() -> int:
            over[:] = task.terminated(task.rollout(pair[:1], plan))
            return HORIZON - int(over[:, :-1].sum())

        return clocked(imagine, clock)

    found = {
        "outcome": "exact",
        "way": task.restored_by,
        "success": task.tells_success,
        "goal": task.has_goal,
        "observed": task.observation_size,
    }
    # The tasks of one environment differ in where they begin.
    if "singletask" in name:
        return found
    step = least(bare)
    times = {"step": 1e3 * step, "restore": 1e3 * max(least(put_back) - step, 0.0)}
    return {**found, **times, "share": step / least(planned)}


def say(found: dict[str, Any]) -> None:
    """Write what was found as a line of JSON."""
    sys.stdout.write(f"{json.dumps(found)}\n")
    sys.stdout.flush()


def clocked(work: Callable[[], int], clock: Callable[[], float]) -> tuple[float, int]:
    """Return the seconds of work by a clock, and how many steps it says it took."""
    begun = clock()
    count = work()
    return clock() - begun, count


def least(measure: Callable[[], tuple[float, int]]) -> float:
    """Return the seconds of a step, the least of a few measurements."""
    return min(spent / count for spent, count in (measure() for _ in range(REPEATS)))


def apart(*arguments: str) -> dict[str, Any]:
    """Return what this file prints as JSON in a process with limits of its own."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, GIGABYTES << 30))

    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"MUJOCO_GL": "disable", "SDL_VIDEODRIVER": "dummy", **os.environ},
        start_new_session=True,
        preexec_fn=limited,
    )
    try:
        out, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"outcome": "too slow", "why": f"not done in {SECONDS} s"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        last = [*errors.splitlines(), f"exit status {process.returncode}"][-2:]
        return {"outcome": "failed", "why": " ".join(last)}
    return {**json.loads(lines[-1]), "seconds": round(time.monotonic() - begun, 1)}


def family(module: str, name: str) -> str:
    """Return the environment of an id: without its task's number, size and version."""
    bare = re.sub(r"-v\d+$", "", name)
    if module == "ogbench":
        return bare.split("-")[0]
    if module == "gymnasium_robotics":
        return re.match("(Ant|Point)Maze|Adroit|Fetch|Hand|Franka|", bare)[0] + "*"
    return re.sub(r"(?<=/Fetch)\w+|(?<=/)\w+(?=DMControl)|(?<=Craftax)\w+", "*", bare)


def table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table: one for ids of a family with which the same was found."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in found:
        why = row.get("way") or f"{row['outcome']}: {short(row)}"
        key = (row["module"], family(row["module"], row["id"]), why)
        groups.setdefault(key, []).append(row)
    yield "| environments | ids | put back by, or met | bare step, ms | put back, ms | speed |"
    yield "|---|---|---|---|---|---|"
    for (module, name, why), rows in groups.items():
        timed = [row for row in rows if "step" in row]
        cells = [
            span([row[what] for row in timed]) if timed else ""
            for what in ("step", "restore", "share")
        ]
        yield f"| `{module}:{name}` | {len(rows)} | {why} | {' | '.join(cells)} |"


def span(values: list[float]) -> str:
    """Return from the least to the most of values."""
    low, high = (f"{value:.2g}" for value in (min(values), max(values)))
    return low if low == high else f"{low}-{high}"


def short(row: dict[str, Any]) -> str:
    """Return why an id is not a task, in a few words."""
    why = re.sub(r"\s+", " ", row["why"]).replace("|", "/")
    why = why.replace(f"{row['module']}:{row['id']}", "it").removeprefix("gym:")
    why = why.removeprefix("it cannot be made, as ").removeprefix("it cannot be made: ")
    why = re.split(r" Element name|, and a flat Box|\. Try gymnasium| \(HINT", why)[0]
    why = re.sub(r"it cannot be put back into a state.*Tried in order: ", "", why)
    why = why.partition("; by a fork")[0]
    return why if len(why) <= 160 else f"{why[:157]}..."


def versions() -> str:
    """Return the versions of what took part."""
    names = [*MODULES.values(), "gymnasium", "mujoco"]
    found = []
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def main(word: str = "") -> None:
    """Try what is registered, and write the table unless a word limits it."""
    FOUND.parent.mkdir(exist_ok=True)
    done = {}
    if FOUND.exists() and not word:
        lines = FOUND.read_text(encoding="utf-8").splitlines()
        done = {(row["module"], row["id"]): row for row in map(json.loads, lines)}
    found = []
    for module in MODULES:
        if find_spec(module) is None:
            continue
        names = apart("--ids", module)
        for name in names.get("ids", []):
            if word not in name or bool(PICTURES.search(name)) != bool(PICTURES.search(word)):
                continue
            row = done.get((module, name))
            if row is None:
                row = {"module": module, "id": name, **apart("--try", module, name)}
                say(row)
                if not word:
                    with FOUND.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
            found.append(row)
    if word:
        return
    count = sum(row["outcome"] == "exact" for row in found)
    head = (
        f"{count} of {len(found)} ids on {date.today():%d %B %Y}: {versions()}; Python "
        f"{platform.python_version()}, {os.cpu_count()} cores of {platform.machine()}.\n\n"
    )
    text = "\n".join(table(found))
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARK.sub(lambda m: f"{m[1]}\n{head}{text}\n\n{m[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ids"]:
        say({"ids": registered(sys.argv[2])})
    elif sys.argv[1:2] == ["--try"]:
        registered(sys.argv[2])
        say(tried(*sys.argv[2:]))
    else:
        main(*sys.argv[1:])
