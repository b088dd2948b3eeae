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
# As the runner starts a step whose shell is bash.
BASH = ("--noprofile", "--norc", "-eo", "pipefail", "-c")


def filled(text, context):
    """Return a text with the values of its expressions; one that is not known fails the test."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: context[found[1]], str(text))


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


def test_the_workflow_of_init_installs_what_there_is_and_runs_every_gate(tmp_path):
    """Its scripts in bash, with stand-ins that write down what they are given."""
    (job,) = WORKFLOW["jobs"].values()
    # YAML 1.1 reads the key "on" as true.
    assert set(WORKFLOW[True]) == {"pull_request", "push"}
    uses = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    assert uses == [
        *("actions/checkout", "actions/setup-python", "actions/cache/restore"),
        *("actions/cache/save", "actions/upload-artifact"),
    ]
    for name in ("pip", "pytest"):
        tool = tmp_path / name
        tool.write_text(
            f'#!/bin/sh\necho {name} "$@" >> said.txt\n'
            'echo \'"session": {"exit_code": 0,\' > cpg.json\n',
            encoding="utf-8",
        )
        tool.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"

    def said(name, **environment):
        (tmp_path / "said.txt").unlink(missing_ok=True)
        step = scripted(job["steps"])[name]
        done = run(step, tmp_path, {}, PATH=path, **environment)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "said.txt").read_text("utf-8").splitlines()

    needed = "pip install pytest-cpg[control,torch,html]"
    assert said("Install", TORCH_INDEX="") == ["pip install torch", needed]
    (tmp_path / "pyproject.toml").touch()
    assert said("Install", TORCH_INDEX="where/it is") == [
        *("pip install --index-url where/it is torch", needed, "pip install -e .")
    ]
    gates = "pytest -m cpg --cpg-html=cpg.html --cpg-json=cpg.json"
    assert said("Gates") == [gates]
    (tmp_path / ".cpg").mkdir()
    (tmp_path / ".cpg" / "baseline.json").touch()
    assert said("Gates") == [f"{gates} --cpg-drift=fail"]
