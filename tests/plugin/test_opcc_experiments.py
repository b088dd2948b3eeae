"""The experiments on comparing policies: their tables are of their results, and they go on."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "examples" / "experiments" / "opcc"
# Ensembles are stood in for: what is tested is which runs are done, and which are done again.
STOPPED_IN_THE_FOURTH_RUN = """
import contextlib, json, sys, grid
one_run, done = json.loads(sys.stdin.read()), []
def run(cell, seed, folder):
    done.append(seed)
    if len(done) == 4:
        raise KeyboardInterrupt
    return one_run
grid.run = run
sys.argv = ["grid.py", "prior", "--data", "unread"]
with contextlib.suppress(KeyboardInterrupt):
    grid.main()
grid.main()
print("runs", done)
"""


@pytest.fixture
def copied(tmp_path):
    """Runs Python where the experiments are copied to, without their results."""
    folder = tmp_path / "opcc"
    folder.mkdir()
    shutil.copy(EXPERIMENTS.parent / "figures.py", tmp_path)
    for path in EXPERIMENTS.iterdir():
        if path.suffix in (".py", ".json"):
            shutil.copy(path, folder)

    def run(code, given=""):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, input=given, cwd=folder, env=environment, capture_output=True, text=True
        )

    run.folder = folder
    return run


def test_tables_are_what_results_give(copied):
    shutil.copy(EXPERIMENTS / "results.jsonl", copied.folder)
    made = copied("import tables; tables.write()")
    assert made.returncode == 0, made.stderr
    written = (copied.folder / "results.md").read_text()
    assert written == (EXPERIMENTS / "results.md").read_text()


def test_figures_are_what_results_give(copied):
    shutil.copy(EXPERIMENTS / "results.jsonl", copied.folder)
    made = copied("import plots; plots.write()")
    assert made.returncode == 0, made.stderr
    committed = sorted((EXPERIMENTS / "figures").iterdir())
    assert len(committed) == 6
    for path in committed:
        drawn = (copied.folder / "figures" / path.name).read_text(encoding="utf-8")
        assert drawn == path.read_text(encoding="utf-8"), path


@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
def test_an_interrupted_grid_goes_on_where_it_was(copied):
    first_line = (EXPERIMENTS / "results.jsonl").read_text().splitlines()[0]
    one_run = {k: v for k, v in json.loads(first_line).items() if k not in ("name", "seed", "cell")}
    told = copied(STOPPED_IN_THE_FOURTH_RUN, json.dumps(one_run))
    assert "runs [0, 1, 2, 3, 3, 4]" in told.stdout, told.stderr
    lines = (copied.folder / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [0, 1, 2, 3, 4]
