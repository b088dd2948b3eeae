"""A model repository in miniature, for running the plugin on: a cart on a line, in numpy."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from forked import Loaded
from sessions import Recorded

from pytest_cpg.tasks import TASKS

TRACK = (Path(__file__).parents[1] / "track.py").read_text(encoding="utf-8")
CONFTEST = (
    TRACK
    + '''
import pytest

from pytest_cpg.gates.planning_gap.diagnosis import sample

# Of each episode: more take longer than all else of a session, and are asked for in tests/gates.
sample._DECISIONS = 3


class Unreachable(Track):
    """The same cart, whose goal nothing reaches."""

    name = "unreachable"

    def reward(self, states, actions):
        return np.zeros(states.shape[:-1])


def right(observations, actions):
    return observations + actions


def mirrored(observations, actions):
    return observations - actions


def one_way(observations, actions):
    return observations + np.abs(actions)


def deaf(observations, actions):
    return observations + 1.0


def diverging(observations, actions):
    return np.where(observations < 4.0, np.nan, observations + actions)


def raising(observations, actions):
    if (observations > 12.0).any():
        raise RuntimeError("my own bug")
    return observations + actions


def pytest_cpg_tasks():
    return {"track": Track, "unreachable": Unreachable}


def pytest_cpg_world_models():
    models = (right, mirrored, one_way, deaf, diverging, raising)
    return {model.__name__: lambda task, model=model: model for model in models}
'''
)


INI = "[pytest]\ncpg_episodes = 20\nfilterwarnings = error\naddopts = -p no:hypothesispytest\n"

# What the outer run must not tell the inner one.
OUTSIDE = (
    "CI",
    "GITHUB_ACTIONS",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_WORKSPACE",
    "PYTEST_ADDOPTS",
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
)


@pytest.fixture(scope="session")
def torch():
    """Loaded before a pytester is made, which forgets what is imported after that."""
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def torch_and_control():
    """Both loaded before a pytester run in this process, which forgets what it imports.

    Neither can be imported twice, and a process of its own takes six seconds to import them.
    """
    for name in ("torch._dynamo", "safetensors.torch", "dm_control"):
        pytest.importorskip(name)
    TASKS["reacher-easy"]()


@contextlib.contextmanager
def _loaded(**more):
    names = {name for name in os.environ if name.startswith("PYTEST_")}.union(OUTSIDE)
    # Most users do not set it, and what a process holds back is another thing then.
    names.add("PYTHONUNBUFFERED")
    environment = {name: os.environ[name] for name in os.environ.keys() - names}
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = Loaded(environment, said, **more)
        yield process
        process.close()


@pytest.fixture(scope="session")
def loaded():
    with _loaded() as process:
        yield process


@pytest.fixture(scope="session")
def loaded_with_other_hashes():
    with _loaded(PYTHONHASHSEED="random") as process:
        yield process


@pytest.fixture
def own_hashes(loaded, loaded_with_other_hashes, monkeypatch):
    """Of two processes that start one after the other, no matter where, each has its own hashes.

    But for workers of one session apart.
    """
    turns = itertools.cycle([loaded.start, loaded_with_other_hashes.start])
    monkeypatch.setattr(loaded, "start", lambda *request: next(turns)(*request))


@pytest.fixture
def forking(pytester, loaded, monkeypatch):
    """A pytester whose sessions apart, and workers of any, are forks of `loaded`."""
    anew = pytester.popen

    def start(command, *, stdout, stderr, **more):
        if not loaded.can_run(command):
            return anew(command, stdout=stdout, stderr=stderr, **more)
        with Path(os.devnull).open() as stdin:
            return loaded.start(command, *(one.fileno() for one in (stdin, stdout, stderr)))

    monkeypatch.setattr(pytester, "popen", start)
    loaded.start_workers(monkeypatch.setattr)
    return pytester


def with_files(pytester):
    """Have a pytester read, lengthen and change the files of its folder by their names."""

    def text(name):
        return (pytester.path / name).read_text(encoding="utf-8")

    def write(name, written):
        (pytester.path / name).parent.mkdir(parents=True, exist_ok=True)
        (pytester.path / name).write_text(written, encoding="utf-8")

    def change(name, before, after):
        assert before in text(name)
        write(name, text(name).replace(before, after))

    pytester.text, pytester.write, pytester.change = text, write, change
    pytester.json = lambda name: json.loads(text(name))
    # A file that is not there yet is begun.
    there = lambda name: text(name) if (pytester.path / name).exists() else ""  # noqa: E731
    pytester.add = lambda name, more: write(name, f"{there(name)}\n{more}\n")
    return pytester


@pytest.fixture
def repository(forking, monkeypatch):
    """A pytester whose folder holds the miniature; options of the outer run do not reach it."""
    pytester = forking
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    # Other tests have loaded torch in this process, and reports name its kernels where it is.
    monkeypatch.delitem(sys.modules, "torch.backends.cpu", raising=False)
    # Put back afterwards what the conftest file changes in this process.
    monkeypatch.setattr("pytest_cpg.gates.planning_gap.diagnosis.sample._DECISIONS", 3)
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    return with_files(pytester)


@pytest.fixture(scope="module")
def recorded(loaded, tmp_path_factory):
    """Run a session of the miniature apart, for all tests of a module: what it said, and where.

    In a new folder, or in that of an earlier one.
    """

    def run(files, *options, folder=None, **environment):
        if folder is None:
            folder = tmp_path_factory.mktemp("recorded")
            files = {"conftest.py": CONFTEST, "tox.ini": INI, **files}
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        command = [sys.executable, "-mpytest", *options]
        said = (folder / "said.out", folder / "said.err")
        with contextlib.ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for name in OUTSIDE:
                patch.delenv(name, raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.chdir(folder)
            stdin = stack.enter_context(Path(os.devnull).open())
            out, err = (stack.enter_context(path.open("w")) for path in said)
            if loaded.can_run(command):
                process = loaded.start(command, *(file.fileno() for file in (stdin, out, err)))
            else:
                process = subprocess.Popen(command, stdin=stdin, stdout=out, stderr=err)
            code = process.wait(timeout=120)
        outlines, errlines = (path.read_text(encoding="utf-8").splitlines() for path in said)
        return Recorded(pytest.RunResult(code, outlines, errlines, 0.0), folder)

    return run
