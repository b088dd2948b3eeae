"""The GitHub Action and the workflow of `pytest-cpg init`: structure, and their scripts in bash.

GitHub itself is not here: what it puts in place of ${{ ... }} is put there by hand, and gh is a
stand-in that keeps comments in a file and asks the real jq.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from github_job import BASH, Job, filled

from pytest_cpg.render.command import main as command

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("xargs")), reason="needs bash"
)

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
TEMPLATE = (files("pytest_cpg.render.command") / "repository" / "world-model.yml.txt").read_text(
    "utf-8"
)
WORKFLOW = yaml.safe_load(TEMPLATE)
GATES = """
import pytest

@pytest.mark.parametrize("model", ["right", "mirrored"])
@pytest.mark.cpg(task="track")
def test_gate(benchmark_runner, model):
    import conftest
    benchmark_runner.compare(learned=getattr(conftest, model))
"""
GH = f"""#!{sys.executable}
import json, pathlib, subprocess, sys

store = pathlib.Path("comments.json")
comments = json.loads(store.read_text()) if store.exists() else [{{"id": 1, "body": "I like it"}}]
words = sys.argv[1:]
assert words.pop(0) == "api", words
if "--jq" in words:
    assert words[:2] == ["--paginate", "repos/o/r/issues/7/comments"], words
    found = subprocess.run(["jq", "-r", words[-1]], input=json.dumps(comments), text=True)
    sys.exit(found.returncode)
assert words[:2] == ["--silent", "--method"] and words[4] == "--field", words
method, path, (name, body) = words[2], words[3], words[5].split("=", 1)
assert name == "body" and body.startswith("@"), words
text = pathlib.Path(body[1:]).read_text(encoding="utf-8")
if method == "POST":
    assert path == "repos/o/r/issues/7/comments", path
    comments.append({{"id": 2, "body": text}})
else:
    assert (method, path) == ("PATCH", "repos/o/r/issues/comments/2"), words
    comments[1]["body"] = text
store.write_text(json.dumps(comments))
"""


def run(step, folder, context, **environment):
    own = {name: filled(value, context) for name, value in step.get("env", {}).items()}
    return subprocess.run(
        [shutil.which("bash"), *BASH, filled(step["run"], context)],
        cwd=folder,
        env={**os.environ, **environment, **own},
        capture_output=True,
        text=True,
        check=False,
    )


def scripted(steps):
    return {step.get("id", step.get("name")): step for step in steps if "run" in step}


STEPS = scripted(ACTION["runs"]["steps"])


@pytest.fixture
def job(repository, monkeypatch):
    """Run a step of the action in the miniature repository, on a pull request."""
    for name in ("CI", "GITHUB_ACTIONS"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider")
    repository.makepyfile(test_gates=GATES)
    folder = repository.path
    tools = folder / "tools"
    tools.mkdir()
    (tools / "gh").write_text(GH, encoding="utf-8")
    (tools / "gh").chmod(0o755)
    output = folder / "output.txt"
    context = {
        "inputs.python": sys.executable,
        "inputs.arguments": ACTION["inputs"]["arguments"]["default"],
        "inputs.token": "secret",
        "github.event.pull_request.number": "7",
        "steps.upload.outputs.artifact-url": "https://github.example/o/r/artifacts/3",
    }
    environment = {
        "GITHUB_OUTPUT": str(output),
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_RUN_ID": "11",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
    }

    def step(name, **given):
        done = run(STEPS[name], folder, {**context, **given}, **environment)
        if output.exists():
            pairs = (line.partition("=") for line in output.read_text("utf-8").splitlines())
            context.update({f"steps.gates.outputs.{key}": value for key, _, value in pairs})
        return done

    step.folder, step.context = folder, context
    return step


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
def test_one_comment_is_written_and_then_kept_up_to_date(job):
    pytest.importorskip("jinja2")
    done = job("gates")
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = {name.rpartition(".")[2]: job.context.get(name) for name in job.context}
    assert (outputs["exit-code"], outputs["outcome"], outputs["failing"]) == ("1", "failed", "1")
    # A word in quotes is one, and nothing in it is expanded.
    assert job("comment").returncode == 0
    comments = json.loads((job.folder / "comments.json").read_text("utf-8"))
    assert [one["id"] for one in comments] == [1, 2]
    first = comments[1]["body"]
    assert "mirrored" in first
    assert first.startswith("<!-- pytest-cpg report -->")
    job(
        "gates",
        **{"inputs.arguments": "-m cpg -k 'right or \"$(touch pwned)\"' --cpg-require=1"},
    )
    assert not (job.folder / "pwned").exists()
    assert job("comment").returncode == 0
    comments = json.loads((job.folder / "comments.json").read_text("utf-8"))
    assert [one["id"] for one in comments] == [1, 2]
    assert comments[1]["body"] != first
    assert job("End as pytest did").returncode == int(job.context["steps.gates.outputs.exit-code"])


def test_a_comment_that_cannot_be_written_is_a_warning(job):
    (job.folder / "cpg.md").write_text("<!-- pytest-cpg report -->\n", encoding="utf-8")
    (job.folder / "tools" / "gh").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    done = job("comment")
    assert done.returncode == 0
    assert "::warning::pytest-cpg: no comment was written" in done.stdout


def test_a_session_without_a_report_does_not_end_green(job):
    done = job("gates", **{"inputs.arguments": "--nonsense"})
    assert done.returncode == 0
    assert job.context["steps.gates.outputs.exit-code"] == "4"
    assert job("End as pytest did").returncode == 4
    # What ends the process before pytest does.
    ends = "import ctypes\nctypes.CDLL(None)._exit(0)\n"
    (job.folder / "conftest.py").write_text(ends, encoding="utf-8")
    done = job("gates")
    assert "::error::pytest ended with exit code 0" in done.stdout
    assert job("End as pytest did").returncode == 1


def test_an_odd_quote_in_the_arguments_ends_the_job(job):
    done = job("gates", **{"inputs.arguments": "-m cpg -k 'right --cpg-drift=fail"})
    assert done.returncode != 0
    assert "quote" in done.stderr
    assert not (job.folder / "cpg.json").exists()
    # GitHub puts nothing in place of an output that was not written.
    assert job("End as pytest did", **{"steps.gates.outputs.exit-code": ""}).returncode == 1


def test_the_action_has_what_github_asks_of_a_composite_one():
    assert ACTION["runs"]["using"] == "composite"
    assert {"name", "description", "inputs", "outputs", "runs"} == set(ACTION)
    known = set(ACTION["inputs"])
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == known
    ids = {step.get("id") for step in ACTION["runs"]["steps"]}
    assert set(re.findall(r"steps\.([\w-]+)\.", text)) <= ids
    for step in ACTION["runs"]["steps"]:
        assert ("run" in step) != ("uses" in step)
        # Of a composite action, each script has to name its shell.
        assert ("run" in step) == (step.get("shell") == "bash")
        assert re.fullmatch(r"actions/[\w/-]+@v\d+", step.get("uses", "actions/checkout@v4"))
    for name in known:
        assert ACTION["inputs"][name]["description"]
        assert "default" in ACTION["inputs"][name]


@pytest.mark.parametrize(
    "steps", [ACTION["runs"]["steps"], WORKFLOW["jobs"]["gates"]["steps"]], ids=["action", "init"]
)
def test_a_job_that_fails_keeps_its_history_and_arms(steps):
    names = [step.get("uses", step.get("id", step.get("name"))) for step in steps]
    restored, saved = (names.index(f"actions/cache/{one}@v4") for one in ("restore", "save"))
    assert restored < [str(one).lower() for one in names].index("gates") < saved
    assert steps[saved]["if"] == "always()"
    kept = dict(steps[restored]["with"])
    assert kept["key"].startswith(kept.pop("restore-keys"))
    assert steps[saved]["with"] == kept


def test_the_page_on_ci_shows_the_workflow_of_init():
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1] == TEMPLATE


# Numbers alone: what is tested is the job, and README's first gate needs no torch.
MAZE = """
import numpy as np
import pytest


@pytest.fixture
def learned_dynamics(oracle_dynamics):
    return {model}
"""
RIGHT = "lambda o, a: np.asarray(oracle_dynamics(o, a))"
WALL_BLIND = "lambda o, a: o + a"


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """What `pytest-cpg init` writes, under git, with a gate on a maze; commit a model with it."""
    for name in ("CI", "GITHUB_ACTIONS", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "origin"
    assert command(["init", str(folder), "--from", "git+https://hub.example/o/pytest-cpg@abc"]) == 0
    gates = folder / "tests" / "world_model"
    test = gates / "test_planning_gap.py"
    test.write_text(test.read_text("utf-8").replace("reacher-easy", "maze"), encoding="utf-8")
    git = (shutil.which("git"), "-c", "user.name=a", "-c", "user.email=a@example.com")

    def commit(model):
        (gates / "conftest.py").write_text(MAZE.format(model=model), encoding="utf-8")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "a")):
            subprocess.run([*git, *words], cwd=folder, check=True)

    return folder, commit


def at_github(tmp_path, folder, event, **more):
    """Return a job at GitHub for an event, and its context."""
    context = {
        "matrix.python": "3.12",
        "runner.os": "Linux",
        "github.run_id": str(len(list(tmp_path.iterdir()))),
        "github.run_attempt": "1",
        "github.event_name": event,
        "github.event.pull_request.number": "7" * (event == "pull_request"),
        "github.token": "secret",
        "vars.TORCH_INDEX": "",
        "steps.upload.outputs.artifact-url": "",
    }
    address = {
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_RUN_ID": context["github.run_id"],
        "GITHUB_REF_NAME": "main",
    }
    return Job(tmp_path / "github", folder, {**context, **more}, environment=address)


def test_the_workflow_of_init_is_run_step_by_step_on_main_and_on_a_pull_request(tmp_path, origin):
    pytest.importorskip("jinja2")
    folder, commit = origin
    workflow = yaml.safe_load((folder / ".github/workflows/world-model.yml").read_text("utf-8"))
    # YAML 1.1 reads the key "on" as true.
    assert workflow[True] == {"pull_request": None, "push": {"branches": ["main"]}}
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"] == {"python": ["3.11", "3.12", "3.13"]}
    commit(RIGHT)
    main = at_github(tmp_path, folder, "push")
    assert main.run(job), main.log
    source = "@ git+https://hub.example/o/pytest-cpg@abc"
    assert main.asked == [
        *("python 3.12", "install torch", f"install pytest-cpg[control,torch,html] {source}"),
    ]
    (kept,) = (tmp_path / "github" / "artifacts").iterdir()
    assert kept.name == "cpg-3.12"
    assert {path.name for path in kept.iterdir()} == {"cpg.html", "cpg.json"}
    assert "--cpg-drift" not in main.log
    # Accepted on main, as the docs say, from the report of the job.
    report, accepted = kept / "cpg.json", folder / ".cpg" / "baseline.json"
    assert command(["accept", str(report), f"--baseline={accepted}"]) == 0
    commit(WALL_BLIND)
    pull = at_github(tmp_path, folder, "pull_request", **{"vars.TORCH_INDEX": "where/it is"})
    assert not pull.run(job)
    assert "REGRESSED" in pull.log
    assert "install --index-url where/it is torch" in pull.asked
    # The arms that do not change came from main, and the history goes on.
    page = (tmp_path / "github" / "artifacts" / "cpg-3.12" / "cpg.html").read_text("utf-8")
    assert "2 commits" in page
    assert "CI run" in page
    summary = (tmp_path / "github" / "summary.md").read_text("utf-8")
    assert re.search(r"lost \d+ starts, gained 0", summary)


def test_the_workflow_installs_what_each_python_needs_and_your_own_package(tmp_path, origin):
    folder, commit = origin
    (folder / "pyproject.toml").write_text("[project]\nname = 'mine'\n", encoding="utf-8")
    commit(RIGHT)
    (job,) = WORKFLOW["jobs"].values()
    steps = [step for step in job["steps"] if step.get("name") == "Install"]
    first = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
    pulled = at_github(tmp_path, folder, "push", **{"matrix.python": "3.13"})
    assert pulled.run({**job, "steps": [*first, *steps]}), pulled.log
    torch, needed, control, ours, mine = pulled.asked
    assert torch == "install torch"
    assert needed.startswith("install mujoco>=3.17,<4 dm-env ")
    # The docs name the same packages.
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^    (dm-env .*)$", page, re.MULTILINE)[0].split()) < set(
        needed.split()
    )
    assert control == "install --no-deps dm-control>=1.0.50,<1.1"
    assert (ours, mine) == ("install pytest-cpg[html,torch,html]", "install -e .")


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
def test_the_job_of_the_actions_page_is_run_step_by_step(tmp_path, origin):
    pytest.importorskip("jinja2")
    page = (ROOT / "docs" / "action.md").read_text(encoding="utf-8")
    workflow = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    assert workflow[True] == {"pull_request": None, "push": {"branches": ["main"]}}
    (job,) = workflow["jobs"].values()
    folder, commit = origin
    comments = tmp_path / "github" / "work" / "comments.json"

    def ran(event):
        done = at_github(tmp_path, folder, event)
        done.own["OWNER/pytest-cpg"] = ACTION
        (tmp_path / "github" / "tools" / "gh").write_text(GH, encoding="utf-8")
        (tmp_path / "github" / "tools" / "gh").chmod(0o755)
        return done, done.run(job)

    commit(RIGHT)
    accept = [sys.executable, "-m", "pytest", "-q", "--cpg-update-baseline"]
    subprocess.run(accept, cwd=folder, check=True, capture_output=True)
    commit(RIGHT)
    main, is_green = ran("push")
    assert is_green, main.log
    assert main.asked[:2] == ["python 3.11", "install torch"]
    assert not comments.exists(), "there is no pull request to write one on"
    commit(WALL_BLIND)
    pull, is_green = ran("pull_request")
    assert not is_green
    assert "MODEL BOTTLENECK" in pull.log
    assert "MODEL BOTTLENECK" in json.loads(comments.read_text("utf-8"))[1]["body"]
    artifact = tmp_path / "github" / "artifacts" / "cpg" / "cpg.html"
    assert "2 commits" in artifact.read_text("utf-8"), "main's history is there"
