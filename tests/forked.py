"""Processes that are forked from one which has loaded all that a session of gates loads.

To load it takes a second, and most sessions take less. As a script: the one that has loaded it.
Forks of one share its seed of hashes: a test of several processes that must not agree by it takes
the fixture `own_hashes`.
"""

import contextlib
import gc
import importlib.metadata
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cached_property
from types import FunctionType, ModuleType, SimpleNamespace

import pluggy
import pytest

# All but those that import what is optional.
ROOMS = "contracts", "stats", "machine", "planners", "episodes", "gates", "report", "render"
# Bytes of a number that is sent.
_WIDTH = 16


def import_rooms(*names):
    """Import each module of these rooms."""
    for name in names:
        package = importlib.import_module(f"pytest_cpg.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


class Installed:
    """A distribution of which each part is read once."""

    def __init__(self, distribution):
        self._distribution = distribution

    def __getattr__(self, name):
        value = getattr(self._distribution, name)
        setattr(self, name, value)
        return value


# A pluggy before 1.7 has none, and never asks ours.
_searched = getattr(pluggy._manager, "_static_hook_attr", None)


def _hook_of(plugin, name):
    """A function of a module is found as pluggy finds it, without its search of classes."""
    value = vars(plugin).get(name) if type(plugin) is ModuleType else None
    return (value, value) if type(value) is FunctionType else _searched(plugin, name)


def spare_searches(plugins, patch):
    """Have sessions look only where something is found, which is a third of their time.

    They ask every installed distribution for its plugins, and try each name of these several times.
    """
    installed = [Installed(one) for one in importlib.metadata.distributions()]
    patch(importlib.metadata, "distributions", lambda: iter(installed))
    patch(pluggy._manager, "_static_hook_attr", _hook_of)
    holders = {one if isinstance(one, ModuleType) else type(one) for one in plugins}
    fixture = type(pytest.fixture(len))
    # Ours say by themselves which matter.
    for holder in (one for one in holders if "__dir__" not in vars(one)):
        names = [
            name
            for name in dir(holder)
            if name.startswith("pytest_") or isinstance(getattr(holder, name, None), fixture)
        ]
        patch(holder, "__dir__", lambda *_, names=names: names)


def _settings(environment):
    """Return what Python reads before a fork could, but for what `_run` sets or no test sees."""
    late = "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUNBUFFERED"
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("PYTHON") and name not in late
    }


class Loaded:
    """The process that is forked, which starts with `environment` and writes to the file `said`."""

    def __init__(self, environment, said, **more):
        self._environment, self._said, self._more = environment, said, more

    @classmethod
    def on(cls, channel):
        """Return the process that is asked on this channel, in a fork of it."""
        loaded = cls(dict(os.environ), sys.stderr)
        loaded._channel = channel
        return loaded

    @cached_property
    def _channel(self):
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=theirs,
                stdout=self._said,
                stderr=self._said,
                env=self._environment | self._more,
            )
        return ours

    def can_run(self, command):
        """Whether a fork does what a command of pytest or pytest-xdist does."""
        return (
            hasattr(os, "fork")
            and hasattr(socket, "send_fds")
            and command[0] == sys.executable
            and (command[1] == "-mpytest" or command[1:-1] in (["-u", "-c"], ["-u", "-B", "-c"]))
            and _settings(os.environ) == _settings(self._environment)
        )

    def start(self, command, *files):
        """Run a command, with the numbers of the files for its input, output and errors."""
        first = 1 if command[1] == "-mpytest" else -2
        request = {
            "arguments": command[first:],
            "folder": os.getcwd(),
            "environment": dict(os.environ),
        }
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                numbers = [theirs.fileno(), self._channel.fileno(), *files]
                socket.send_fds(self._channel, [b"."], numbers)
            ours.sendall(f"{json.dumps(request)}\n".encode())
            return Forked(ours)
        except (OSError, ValueError):
            ours.close()
            self._said.seek(0)
            said = self._said.read()
            raise RuntimeError(f"the process that tests fork has ended:\n{said}") from None

    def start_workers(self, patch):
        """Have pytest-xdist fork its workers."""

        def start(command, *, stdin, stdout):
            if not self.can_run(command):
                return subprocess.Popen(command, stdin=stdin, stdout=stdout)
            (theirs, stdin), (stdout, ours) = os.pipe(), os.pipe()
            process = self.start(command, theirs, ours, 2)
            os.close(theirs)
            os.close(ours)
            process.stdin, process.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
            return process

        from execnet.gateway_base import ThreadExecModel

        patch(ThreadExecModel, "subprocess", SimpleNamespace(PIPE=subprocess.PIPE, Popen=start))

    def close(self):
        if "_channel" in vars(self):
            # Forks that are left have it, too.
            self._channel.shutdown(socket.SHUT_WR)
            self._channel.close()
            self._process.wait()


class Forked:
    """One fork, with what pytester and execnet ask of a `subprocess.Popen`."""

    stdin = stdout = returncode = None

    def __init__(self, channel):
        self._channel = channel
        self._pid = self._number()

    def _number(self):
        return int(self._channel.recv(_WIDTH))

    def wait(self, timeout=None):
        if self.returncode is None:
            self._channel.settimeout(timeout)
            try:
                self.returncode = self._number()
            except TimeoutError:
                raise subprocess.TimeoutExpired("python", timeout) from None
            self._channel.close()
        return self.returncode

    def kill(self):
        if self.returncode is None:
            os.kill(self._pid, signal.SIGKILL)


class Plugins:
    """Keeps those of a session."""

    def pytest_configure(self, config):
        self.found = config.pluginmanager.get_plugins() - {self}


def _load():
    plugins = Plugins()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        # With its plugins, and their assertions rewritten.
        options = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", folder]
        code = pytest.main(options, plugins=[plugins])
        assert code == pytest.ExitCode.NO_TESTS_COLLECTED, code
        os.chdir("/")
    spare_searches(plugins.found, setattr)
    import_rooms(*ROOMS, "plugin")
    for name in ("filelock", "scipy.special"):
        importlib.import_module(name)
    gc.freeze()
    gc.set_threshold(20_000)
    # What is left here every fork would write, to where a worker is expected to answer.
    sys.stdout.flush()


def _send(channel, number):
    channel.sendall(f"{number:{_WIDTH}}".encode())


def _request(channel):
    """Fork for each request until the channel closes; return it, and a way to ask, in the fork."""
    while True:
        byte, files, *_ = socket.recv_fds(channel, 1, 5)
        if not byte:
            return None
        if not os.fork():
            channel.detach()
            return _own(socket.socket(fileno=files[0]), files[1:])
        for file in files:
            os.close(file)
        # Those that waited for others until now: what they took is counted, and they are gone.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _own(channel, files):
    """Fork once more, say how the fork ends, and return the request and a way to ask in it."""
    fork = os.fork()
    if fork:
        for file in (0, *files):
            os.close(file)
        _send(channel, fork)
        _, status = os.waitpid(fork, 0)
        _send(channel, os.waitstatus_to_exitcode(status))
        os._exit(0)
    asked, *files = files
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    with channel, channel.makefile() as lines:
        return json.loads(lines.readline()), socket.socket(fileno=asked)


def _run(request, asked):
    os.environ.clear()
    os.environ.update(request["environment"])
    encoding = os.environ.get("PYTHONIOENCODING", sys.stdout.encoding)
    # It may be a terminal now.
    sys.stdout = sys.__stdout__ = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    os.chdir(request["folder"])
    what, *more = request["arguments"]
    # In the place of this file's folder.
    sys.path[0] = request["folder"] if what == "-mpytest" else ""
    if what == "-mpytest":
        Loaded.on(asked).start_workers(setattr)
        sys.argv[1:] = more
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = ["-c"]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(more[0], vars(main))  # noqa: S102


if __name__ == "__main__":
    _load()
    _asked = _request(socket.socket(fileno=0))
    if _asked:
        _run(*_asked)
