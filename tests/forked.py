"""Processes that are forked from one which has loaded all that a session of gates loads.

To load it takes a second, and most sessions take less. As a script: the one that has loaded it.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cached_property
from types import ModuleType

# All but those that import what is optional.
ROOMS = "contracts", "stats", "machine", "planners", "episodes", "gates", "report", "render"
_MOST_BYTES = 1 << 20


def import_rooms(*names):
    """Import each module of these rooms."""
    for name in names:
        package = importlib.import_module(f"pytest_cpg.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Loaded:
    """The process that is forked."""

    @cached_property
    def _begun(self):
        ours, theirs = _pair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return process, ours

    def start(self, arguments, *files):
        """Run Python with ``-mpytest`` or ``-c`` and more, on files for its input and outputs."""
        request = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
        ours, theirs = _pair()
        with theirs:
            numbers = [one.fileno() for one in (theirs, *files)]
            socket.send_fds(self._begun[1], [json.dumps(request).encode()], numbers)
        return Forked(ours)

    def connect(self, arguments):
        """Run Python likewise, with its input and output as pipes; its errors are shown."""
        (theirs, stdin), (stdout, ours) = os.pipe(), os.pipe()
        with ExitStack() as stack:
            ends = [stack.enter_context(os.fdopen(end)) for end in (theirs, os.dup(2))]
            ends.insert(1, stack.enter_context(os.fdopen(ours, "wb")))
            process = self.start(arguments, *ends)
        process.stdin, process.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        return process

    def close(self):
        if "_begun" in vars(self):
            process, channel = self._begun
            channel.close()
            process.wait()


class Forked:
    """One fork, with what pytester and execnet ask of a `subprocess.Popen`."""

    stdin = stdout = returncode = None

    def __init__(self, channel):
        self._channel = channel
        self._pid = int(channel.recv(_MOST_BYTES))

    def wait(self, timeout=None):
        if self.returncode is None:
            self._channel.settimeout(timeout)
            try:
                self.returncode = int(self._channel.recv(_MOST_BYTES))
            except TimeoutError:
                raise subprocess.TimeoutExpired("python", timeout) from None
            self._channel.close()
        return self.returncode

    def kill(self):
        if self.returncode is None:
            os.kill(self._pid, signal.SIGKILL)


def _load():
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        # With its plugins, and their assertions rewritten.
        pytest.main(["-p", "no:cacheprovider", "-p", "no:hypothesispytest", folder])
        os.chdir("/")
    import_rooms(*ROOMS, "plugin")
    importlib.import_module("scipy.special")
    gc.freeze()


def _request(channel):
    """Fork for each request until the channel is closed, and return the request in the fork."""
    while True:
        text, files, *_ = socket.recv_fds(channel, _MOST_BYTES, 4)
        if not text:
            return None
        if not os.fork():
            channel.close()
            answers = socket.socket(fileno=files.pop(0))
            fork = os.fork()
            if fork:
                for file in files:
                    os.close(file)
                answers.send(str(fork).encode())
                _, status = os.waitpid(fork, 0)
                answers.send(str(os.waitstatus_to_exitcode(status)).encode())
                os._exit(0)
            answers.close()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            return json.loads(text)
        for file in files:
            os.close(file)
        # Those that waited for others until now: what they took is counted, and they are gone.
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
            pass


def _run(request):
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    what, *more = request["arguments"]
    # In the place of this file's folder.
    sys.path[0] = request["folder"] if what == "-mpytest" else ""
    if what == "-mpytest":
        sys.argv[1:] = more
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = ["-c"]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(more[0], vars(main))  # noqa: S102


if __name__ == "__main__":
    _load()
    _asked = _request(socket.socket(fileno=int(sys.argv[1])))
    if _asked:
        _run(_asked)
