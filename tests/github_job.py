"""A job of GitHub's, as its runner goes through the steps, with stand-ins for what needs a network.

Scripts are run by bash as the runner does. ``actions/checkout`` clones a repository that is here.
``actions/setup-python`` puts the Python of this process on the path, whichever version is asked
for, and writes down which. ``actions/cache`` and ``actions/upload-artifact`` keep files in folders.
``pip`` installs nothing: it writes down what it is asked for.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

# As the runner starts a step whose shell is bash.
BASH = ("--noprofile", "--norc", "-eo", "pipefail", "-c")
_TOOLS = {
    "python": f'exec {sys.executable} "$@"',
    "pytest": f'exec {sys.executable} -m pytest "$@"',
    "pip": 'printf "%s\\n" "$*" >> "$PIP_LOG"',
}


def filled(text, context):
    """Return a text with the values of its expressions; one that is not known fails the test."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: context[found[1]], str(text))


@dataclass
class Job:
    """A job in a folder: ``asked`` is what pip and setup-python were asked for, ``log`` all output.

    ``own`` are actions by name, as their files have them, with what their inputs are.
    """

    folder: Path
    origin: Path
    context: dict
    own: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)
    log: str = ""

    def __post_init__(self):
        self.work, tools = self.folder / "work", self.folder / "tools"
        tools.mkdir(parents=True, exist_ok=True)
        for name, script in _TOOLS.items():
            (tools / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (tools / name).chmod(0o755)
        self._output, self._pips = self.folder / "output.txt", self.folder / "pip.txt"
        self.environment |= {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(self._output),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GITHUB_WORKSPACE": str(self.work),
            "PIP_LOG": str(self._pips),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        }

    def run(self, job):
        """Go through all steps of a job, and say whether it is green."""
        shutil.rmtree(self.work, ignore_errors=True)
        self._pips.unlink(missing_ok=True)
        environment = {name: filled(value, self.context) for name, value in job["env"].items()}
        is_green = self._steps(job["steps"], environment, self.context)
        if self._pips.exists():
            self.asked += self._pips.read_text("utf-8").splitlines()
        return is_green

    def _steps(self, steps, environment, context):
        is_green = True
        for step in steps:
            if not _holds(step.get("if", "success()"), is_green, context):
                continue
            if "run" in step:
                done = self._script(step, environment, context)
            else:
                done = self._action(step, environment, context)
            is_green = is_green and done
        return is_green

    def _script(self, step, environment, context):
        own = {name: filled(value, context) for name, value in step.get("env", {}).items()}
        self._output.unlink(missing_ok=True)
        done = subprocess.run(
            [shutil.which("bash"), *BASH, filled(step["run"], context)],
            cwd=self.work / filled(step.get("working-directory", "."), context),
            env={**os.environ, **self.environment, **environment, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.log += done.stdout
        if self._output.exists():
            for line in self._output.read_text("utf-8").splitlines():
                name, _, value = line.partition("=")
                context[f"steps.{step['id']}.outputs.{name}"] = value
        return done.returncode == 0

    def _action(self, step, environment, context):
        name, _, version = step["uses"].partition("@")
        assert version, f"{name} has no version"
        given = {key: filled(value, context) for key, value in step.get("with", {}).items()}
        if name in self.own:
            action = self.own[name]
            values = {key: each.get("default", "") for key, each in action["inputs"].items()}
            inputs = {
                f"inputs.{key}": filled(text, context) for key, text in {**values, **given}.items()
            }
            return self._steps(action["runs"]["steps"], environment, {**context, **inputs})
        getattr(self, f"_{name.removeprefix('actions/').replace('/', '_').replace('-', '_')}")(
            given, context, step.get("id")
        )
        return True

    def _checkout(self, given, context, step):
        subprocess.run([shutil.which("git"), "clone", "-q", self.origin, self.work], check=True)

    def _setup_python(self, given, context, step):
        self.asked.append(f"python {given['python-version']}")

    def _cache_restore(self, given, context, step):
        kept = sorted(
            (self.folder / "cache").glob(f"{given['restore-keys']}*"), key=os.path.getmtime
        )
        if kept:
            shutil.copytree(kept[-1], self.work, dirs_exist_ok=True)

    def _cache_save(self, given, context, step):
        self._keep(given["path"], self.folder / "cache" / given["key"])

    def _upload_artifact(self, given, context, step):
        self._keep(given["path"], self.folder / "artifacts" / given["name"])
        if step:
            context[f"steps.{step}.outputs.artifact-url"] = "https://github.example/o/r/artifacts/3"

    def _keep(self, paths, folder):
        for path in paths.split():
            for found in glob.glob(path, root_dir=self.work):
                here, there = self.work / found, folder / found
                there.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if here.is_dir() else shutil.copy)(here, there)


def _holds(condition, is_green, context):
    """Evaluate what a step's ``if`` may say here: always(), success() and comparisons."""

    def part(text):
        if text in ("always()", "success()"):
            return text == "always()" or is_green
        name, value = text.split(" == ")
        return str(context[name]) == value.strip("'")

    parts = condition.split(" && ")
    # Without a function of the state, a step is left out once another one has failed.
    return all(map(part, parts)) and (is_green or "always()" in parts)
