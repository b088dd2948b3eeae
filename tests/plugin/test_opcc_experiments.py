"""The experiments on comparing policies: their tables are of their results, and they go on."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from grading import BASELINES_ERROR, baselines_levels
from means import published_half_width
from paper import PUBLISHED
from scipy import stats

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
# Five numbers with mean 0 and, as a population, deviation 1.
ONE_DEVIATION = np.sqrt(5 / 4) * np.array([-1, -1, 0, 1, 1])


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
    committed = {*(EXPERIMENTS / "figures").iterdir()} - {EXPERIMENTS / "figures" / "queries.svg"}
    assert len(committed) == 6
    for path in committed:
        drawn = (copied.folder / "figures" / path.name).read_text(encoding="utf-8")
        assert drawn == path.read_text(encoding="utf-8"), path


def test_scatters_have_every_return_of_the_published_queries(copied):
    """Of two mazes, whose queries are here; the committed figure has bodies and mazes."""
    code = "import plots; plots.WORLDS = plots.WORLDS[3:5]; print(plots.scatters(input()))"
    made = copied(code, str(EXPERIMENTS / "data"))
    committed = (EXPERIMENTS / "figures" / "queries.svg").read_text(encoding="utf-8")
    dots, all_dots = (
        [path.count("h0") for path in re.findall('d="([^"]*)"', of)]
        for of in (made.stdout, committed)
    )
    assert len(all_dots) == 14
    assert dots == all_dots[6:10], made.stderr


@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
def test_an_interrupted_grid_goes_on_where_it_was(copied):
    first_line = (EXPERIMENTS / "results.jsonl").read_text().splitlines()[0]
    one_run = {k: v for k, v in json.loads(first_line).items() if k not in ("name", "seed", "cell")}
    told = copied(STOPPED_IN_THE_FOURTH_RUN, json.dumps(one_run))
    assert "runs [0, 1, 2, 3, 3, 4]" in told.stdout, told.stderr
    lines = (copied.folder / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("body", PUBLISHED["1"])
@pytest.mark.parametrize("metric", ["loss", "aurcc", "rpp", "cr"])
def test_half_widths_of_all_kinds_are_the_published_ones(body, metric):
    """Table 4 is rebuilt from Table 1: five seeds of each kind, with its mean and half-width."""
    runs = []
    for row in PUBLISHED["1"][body].values():
        mean, half = row[metric]
        runs += [mean + half * beyond for beyond in np.sqrt(5 / 1.96**2) * ONE_DEVIATION]
    mean, half = PUBLISHED["4"][body]["ev"][metric]
    assert round(float(np.mean(runs)), 3) == pytest.approx(mean)
    assert round(published_half_width(runs), 3) == pytest.approx(half)


@pytest.mark.parametrize("confidence", ["pci", "u-pci"])
def test_levels_of_the_baselines_are_the_last_that_they_accept(confidence):
    """Their rule: U-PCI abstains where an end of b's interval is in a's, PCI where 0 is inside."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 10, 200)) * rng.choice([0.1, 1, 3], size=(2, 1, 200))
    expected = np.zeros(200)
    for level in np.arange(100) / 100:
        (low, high), (low_a, high_a), (low_b, high_b) = (
            stats.t.interval(level, 9, side.mean(axis=0), stats.sem(side, axis=0) + BASELINES_ERROR)
            for side in (b - a, a, b)
        )
        abstains = (low < 0) & (high > 0)
        if confidence == "u-pci":
            abstains = ((low_a <= low_b) & (low_b <= high_a)) | (
                (low_a <= high_b) & (high_b <= high_a)
            )
        expected[~abstains] = level
    assert baselines_levels(a, b, confidence) == pytest.approx(expected)
    assert len(set(expected)) > 20
