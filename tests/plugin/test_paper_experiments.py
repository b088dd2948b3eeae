"""The published experiments: their tables are of their results, and runs stop and go on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "examples" / "experiments"
pytestmark = pytest.mark.usefixtures("torch_and_control")


@pytest.fixture
def reproduce(tmp_path):
    """Types ``python reproduce.py`` where the experiments are copied to."""
    folder = tmp_path / "experiments"
    folder.mkdir()
    for path in EXPERIMENTS.iterdir():
        if path.suffix in (".py", ".json", ".ini"):
            shutil.copy(path, folder)
    shutil.copytree(EXPERIMENTS / "results", folder / "results")

    def run(*arguments, script="reproduce.py"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, script, *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    run.results = folder / "results"
    return run


def test_tables_and_figures_are_what_results_give(reproduce):
    made = reproduce("--tables")
    assert made.returncode == 0, made.stderr
    for path in (EXPERIMENTS / "results").iterdir():
        assert (reproduce.results / path.name).read_text() == path.read_text(), path.name


def test_cheap_cells_are_checked_against_what_is_kept(reproduce):
    checked = reproduce("--check", "audit", "paired", "detectability", "maze-horizons")
    assert checked.stdout.splitlines() == [
        f"{name}: as kept" for name in ("audit", "paired", "detectability", "maze-horizons")
    ]
    assert checked.returncode == 0


def test_a_result_that_is_not_as_kept_fails_the_check(reproduce):
    kept = reproduce.results / "maze-horizons.json"
    kept.write_text(kept.read_text().replace('"solved": 29', '"solved": 9', 1))
    checked = reproduce("--check", "maze-horizons")
    assert checked.stdout == "maze-horizons: NOT AS KEPT\n"
    assert checked.returncode == 1


def test_cells_without_time_are_named_and_none_is_lost(reproduce):
    before = (reproduce.results / "data-size.json").read_text()
    stopped = reproduce("data-size", "--again", "--minutes=0")
    assert (
        "not run: test_data_size.py::test_data_size[200-published-network-seed-0]" in stopped.stdout
    )
    assert (reproduce.results / "data-size.json").read_text() == before


def test_only_the_models_of_the_wanted_cells_are_trained(reproduce):
    stopped = reproduce("latent", "--again", "--only=reacher-easy-fixed-size-1-cem", "--minutes=0")
    said = stopped.stdout.splitlines()
    assert [line for line in said if line.startswith(("training", "not trained"))] == [
        "training: train_tdmpc2.py reacher-easy --size=1",
        "not trained: train_tdmpc2.py reacher-easy --size=1",
    ]


def test_an_unknown_experiment_is_refused_by_name(reproduce):
    refused = reproduce("data-sizes")
    assert refused.returncode == 2
    assert "no experiment 'data-sizes'. Known: planners, data-size," in refused.stderr


@pytest.mark.parametrize("name", ["exploration", "targeted"])
def test_experiments_on_data_show_what_was_found_and_lose_nothing_without_time(reproduce, name):
    tables = reproduce("--tables", script=f"{name}.py")
    assert tables.returncode == 0, tables.stderr
    for path in (EXPERIMENTS / "results").glob(f"{name}.*"):
        assert (reproduce.results / path.name).read_text() == path.read_text(), path.name
    results = reproduce.results / f"{name}.json"
    found = json.loads(results.read_text())[1:]
    results.write_text(json.dumps(found))
    stopped = reproduce("--minutes=0", script=f"{name}.py")
    assert stopped.returncode == 0, stopped.stderr
    assert "time is over" in stopped.stdout
    assert json.loads(results.read_text()) == found
