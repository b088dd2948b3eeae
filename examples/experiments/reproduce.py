"""Reproduce the published experiments: python reproduce.py [NAME ...]

Each experiment is a file of gates, run by pytest as any gate is. What it found is written to
results/NAME.json, a table beside the published figures to results/NAME.md, and a figure to
results/NAME.svg. With --tables nothing is run: tables and figures are written anew from what was
found.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import coverage
import figures
import paired
import test_latent
import train_tdmpc2

from pytest_cpg.stats import agresti_caffo_interval

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PUBLISHED = json.loads((HERE / "published.json").read_text())
GATES = {
    "data-size": "test_data_size.py",
    "planners": "test_planners.py",
    "perturbations": "test_perturbations.py",
    "horizons": "test_horizons.py",
    "latent": "test_latent.py",
}
NAMES = [*GATES, "coverage", "paired"]
TABLES = {"coverage": coverage.table, "paired": paired.table}
# What two more columns compare, where they are published.
COSTS = {"compute": "model steps per executed action", "latency_ms": "ms per plan"}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; or all")
    parser.add_argument("--tables", action="store_true", help="write them from results/NAME.json")
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no experiment {name!r}. Known: {', '.join(NAMES)}.")
    RESULTS.mkdir(exist_ok=True)
    for name in options.names or NAMES:
        results = RESULTS / f"{name}.json"
        found = json.loads(results.read_text())["found"] if options.tables else measured(name)
        document = {"experiment": name, "found": found, "published": PUBLISHED[name]}
        results.write_text(json.dumps(document, indent=1) + "\n")
        table = TABLES[name](found, PUBLISHED[name]) if name in TABLES else gap_table(name, found)
        (RESULTS / f"{name}.md").write_text(table)
        if name in figures.DRAWN:
            (RESULTS / f"{name}.svg").write_text(figures.DRAWN[name](found))
        print(f"\n{table}")


def measured(name):
    """Run an experiment, and return what it found."""
    if name == "coverage":
        return coverage.measure()
    return paired.measure(PUBLISHED[name]) if name == "paired" else cells_of(name)


def cells_of(name):
    """Run an experiment's gates, and return what each found."""
    if name == "latent":
        train_missing()
    with tempfile.TemporaryDirectory() as folder:
        report, properties = Path(folder) / "report.json", Path(folder) / "junit.xml"
        written = [f"--cpg-json={report}", f"--junit-xml={properties}"]
        subprocess.run(
            [sys.executable, "-m", "pytest", GATES[name], *written], cwd=HERE, check=True
        )
        errors = validation_errors(properties)
        gates = json.loads(report.read_text())["gates"]
    return [cell_of(gate, errors) for gate in gates]


def train_missing():
    """Train the latent models that have no checkpoint yet, all at once: each takes one thread."""
    wanted = dict.fromkeys((task, size) for task, size, *_ in test_latent.CELLS)
    missing = [pair for pair in wanted if not train_tdmpc2.checkpoint(*pair).exists()]
    running = []
    for task, size in missing:
        print(f"training {task}, size {size}; several minutes", flush=True)
        command = [sys.executable, "train_tdmpc2.py", task, f"--size={size}"]
        running.append(subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL))
    for process in running:
        if process.wait():
            sys.exit(f"training failed: {' '.join(process.args[1:])}")


def cell_of(gate, errors):
    result = gate["comparisons"][0]["result"]
    cell = gate["id"].partition("[")[2].removesuffix("]")
    arms = ("oracle", "learned", "chance", *(["rescored"] if result["rescored"] else []))
    return {
        "cell": cell,
        **{name: result[name] for name in ("task", "planner", "starts", "seed", "verdict")},
        "validation_error": errors.get(cell),
        "episodes": len(result["oracle"]["successes"]),
        **{name: sum(result[name]["successes"]) for name in arms},
        "gap": [result["interval"][name] for name in ("estimate", "low", "high")],
        "solved_at": {name: solved_at(result[name]) for name in arms},
        "compute": [round(compute(result[name]), 1) for name in ("oracle", "learned")],
        "latency_ms": [round(result[name]["latency_ms"][0], 1) for name in ("oracle", "learned")],
        "versions": result["versions"],
    }


def compute(arm):
    """Return the model's steps in planning for each action that was executed."""
    return arm["rollout_steps"] * arm["decisions"] / sum(arm["steps"])


def solved_at(arm):
    """Return the step at which each episode succeeded, None for those that did not."""
    both = zip(arm["successes"], arm["steps"], strict=True)
    return [steps if success else None for success, steps in both]


def validation_errors(junit):
    """Return the model's validation error of each cell, as the tests have recorded it."""
    errors = {}
    for case in ElementTree.parse(junit).iter("testcase"):  # noqa: S314  # we have written it
        cell = case.get("name").partition("[")[2].removesuffix("]")
        for entry in case.iter("property"):
            if entry.get("name") == "validation_error":
                errors[cell] = float(entry.get("value"))
    return errors


def gap_table(name, cells):
    """Return the cells as a Markdown table, beside the published ones."""
    # What a model's own rating loses is seen with the true dynamics.
    rated = any("rescored" in cell for cell in cells)
    first = "oracle rated by the model" if rated else "validation error"
    rows = [
        f"| cell | {first} | oracle | published | difference | learned | published "
        "| difference | verdict | what differs |",
        "|" + "---|" * 10,
    ]
    costs = []
    for label, group in grouped(name, cells).items():
        published = PUBLISHED[name][published_cell(name, group[0])]
        count = sum(cell["episodes"] for cell in group)
        if rated:
            columns = [label, f"{group[0].get('rescored', '-')}/{count}"]
        else:
            columns = [label, ", ".join(f"{cell['validation_error']:.2g}" for cell in group)]
        for arm in ("oracle", "learned"):
            solved = sum(cell[arm] for cell in group)
            columns.append(f"{solved}/{count}")
            columns += against(solved, count, published.get(arm), published["episodes"])
        columns.append(", ".join(dict.fromkeys(cell["verdict"] for cell in group)))
        columns.append(published.get("differs", ""))
        rows.append(f"| {' | '.join(columns)} |")
        costs += [
            f"| {label} | {words} | {' | '.join(map(str, [*group[0][cost], *published[cost]]))} |"
            for cost, words in COSTS.items()
            if cost in published and cost in group[0]
        ]
    if costs:
        head = "| cell | cost | oracle | learned | oracle, published | learned, published |"
        rows += ["", head, "|" + "---|" * 6, *costs]
    return "\n".join(rows) + "\n"


def grouped(name, cells):
    """Return the cells of each row: the data sizes have three training seeds each."""
    groups = {}
    for cell in cells:
        label = published_cell(name, cell) if name == "data-size" else cell["cell"]
        groups.setdefault(label, []).append(cell)
    return groups


def published_cell(name, cell):
    """Return what a cell is published as, without the training seed or the way of rating."""
    label = cell["cell"]
    return label.rpartition("-")[0] if name in ("data-size", "latent") else label


def against(solved, count, published, published_count):
    """Return a published count, and the interval of ours minus theirs."""
    if published is None:
        return ["-", "-"]
    difference = agresti_caffo_interval(solved, count, published, published_count)
    return [
        f"{published}/{published_count}",
        f"{difference.estimate:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]",
    ]


if __name__ == "__main__":
    main()
