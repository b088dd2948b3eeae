"""Reproduce the published experiments: python reproduce.py [NAME ...]

Each experiment is a file of gates, run by pytest as any gate is. What it found is written to
results/NAME.json, a table beside the published figures to results/NAME.md, and a figure to
results/NAME.svg. A cell that is there is not run again, so that what was stopped goes on; --again
runs all. With --tables nothing is run: tables and figures are written anew from what was found.
With --check cells are run, compared with what was found before, and not written.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import audit
import coverage
import detectability
import figures
import kicks
import mazes
import nuisances
import paired
import runs
import train_dreamer
import train_tdmpc2

from pytest_cpg.stats import agresti_caffo_interval, judge_gap

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PUBLISHED = json.loads((HERE / "published.json").read_text())
# Cheapest first: what is stopped by --minutes has the most rows.
GATES = {
    "planners": "test_planners.py",
    "data-size": "test_data_size.py",
    "latent": "test_latent.py",
    "horizons": "test_horizons.py",
    "perturbations": "test_perturbations.py",
    "noise": "test_noise.py",
    "dreamer": "test_dreamer.py",
}
# What is no gate: how it is measured, and its table.
OTHERS = {
    "coverage": (coverage.measure, coverage.table),
    "paired": (lambda: paired.measure(PUBLISHED["paired"]), paired.table),
    "detectability": (
        lambda: detectability.measure(PUBLISHED["detectability"]),
        detectability.table,
    ),
    "audit": (lambda: audit.measure(PUBLISHED["audit"]), audit.table),
    "maze-horizons": (mazes.horizons, mazes.horizon_table),
    "offline-metrics": (mazes.offline_metrics, mazes.metric_table),
    "nuisances": (nuisances.measure, nuisances.table),
    "kicks": (kicks.measure, kicks.table),
}
NAMES = [*GATES, *OTHERS]
# What `make reproduce` checks.
QUICK = {
    "paired": None,
    "audit": None,
    "detectability": None,
    "maze-horizons": None,
    "offline-metrics": None,
    "coverage": None,
    "planners": (
        "acrobot-swingup-fixed-random-shooting-10",
        "cartpole-swingup-fixed-cem-30",
        "reacher-easy-fixed-cem-30",
        "reacher-easy-sampled-random-shooting-30",
    ),
}
# What gates train themselves, and the tasks of models that take longer.
OWN = ("random-data", "published-network")
TASKS = ("acrobot-swingup", "cartpole-swingup", "reacher-easy")
# What two more columns compare, where they are published.
COSTS = {"compute": "model steps per executed action", "latency_ms": "ms per plan"}


def main():
    options = arguments()
    RESULTS.mkdir(exist_ok=True)
    if options.check:
        sys.exit(check(options))
    until = time.monotonic() + 60 * options.minutes
    if not options.tables:
        run_gates([name for name in options.names if name in GATES], options, until)
    for name in options.names:
        if name in OTHERS and not options.tables and (options.again or not kept(name)):
            if time.monotonic() > until:
                print(f"{name}: not run, no time left")
                continue
            keep(name, OTHERS[name][0](), measured=runs.today())
        write(name)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; or all")
    parser.add_argument("--tables", action="store_true", help="write them from results/NAME.json")
    parser.add_argument("--again", action="store_true", help="run cells that have a result, too")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="cells that have it in their name"
    )
    parser.add_argument("--check", action="store_true", help="compare the cheap cells alone")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cells at a time")
    parser.add_argument(
        "--minutes", type=float, default=10**4, metavar="M", help="stop then, and keep what is done"
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no experiment {name!r}. Known: {', '.join(NAMES)}.")
    options.names = options.names or NAMES
    return options


def kept(name, part="found"):
    """Return what an experiment has found so far; nothing where it was not run."""
    results = RESULTS / f"{name}.json"
    return json.loads(results.read_text()).get(part, []) if results.exists() else []


def keep(name, found, measured=None):
    """Write what was found, and when, unless each cell knows that."""
    document = {"experiment": name, "found": found, "published": PUBLISHED.get(name)}
    document |= {"measured": measured} if measured else {}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def run_gates(names, options, until):
    """Run the cells of experiments that have no result yet, all together."""
    tests = {}
    for name in names:
        there = {} if options.again else {cell["cell"] for cell in kept(name)}
        every = runs.cells_of(GATES[name])
        wanted = [cell for cell in every if options.only in cell and cell not in there]
        # Of cells that share an oracle arm one goes first, and the others find it in the cache.
        wanted.sort(key=lambda cell: "tdmpc2" not in cell)
        tests |= {every[cell]: (name, [*every]) for cell in wanted}
    train_missing(tests, options.jobs, until)

    def keep_cell(test, cell):
        name, order = tests[test]
        found = {row["cell"]: row for row in [*kept(name), cell]}
        keep(name, [found[place] for place in order if place in found])
        print(f"{name}: {cell['cell']}: {cell['verdict']}", flush=True)

    left = runs.measured(tests, jobs=options.jobs, until=until, keep=keep_cell)
    for test in left:
        print(f"not run: {test}")


def trainer(test):
    """Return the checkpoint of a gate's model, and what trains it."""
    task = next((task for task in TASKS if task in test), TASKS[0])
    if "test_dreamer" in test:
        return train_dreamer.checkpoint(task), ["train_dreamer.py", task]
    size = 5 if "size-5" in test else 1
    return train_tdmpc2.checkpoint(task, size), ["train_tdmpc2.py", task, f"--size={size}"]


def train_missing(tests, jobs, until):
    """Train what gates need and has no checkpoint yet; each takes one thread."""
    needed = dict(trainer(test) for test in tests if not any(own in test for own in OWN))
    commands = [command for path, command in needed.items() if not path.exists()]

    def train(command):
        print(f"training: {' '.join(command)}", flush=True)
        seconds = max(1, min(until - time.monotonic(), 10**6))
        try:
            subprocess.run(
                [sys.executable, *command],
                cwd=HERE,
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            print(f"not trained: {' '.join(command)}")

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(train, commands))


def check(options):
    """Measure the cheap cells, say where they are not as kept, and return how many are apart."""
    apart, until = 0, time.monotonic() + 60 * options.minutes
    for name in options.names:
        if name in QUICK and name in OTHERS:
            is_same = json.loads(json.dumps(OTHERS[name][0]())) == kept(name)
            print(f"{name}: {'as kept' if is_same else 'NOT AS KEPT'}", flush=True)
            apart += not is_same
        elif name in QUICK:
            every, cells = runs.cells_of(GATES[name]), []
            tests = [every[cell] for cell in QUICK[name]]
            left = runs.measured(
                tests,
                jobs=options.jobs,
                until=until,
                keep=lambda _, cell, to=cells: to.append(cell),
            )
            before = {cell["cell"]: cell for cell in kept(name)}
            apart += len(left)
            for cell in cells:
                for arm in ("oracle", "learned"):
                    apart += differs(cell, before[cell["cell"]], arm)
    return apart


def differs(cell, before, arm):
    """Say what an arm solves here and as kept, and return whether their interval leaves 0 out."""
    here, there = (row[arm] for row in (cell, before))
    difference = agresti_caffo_interval(here, cell["episodes"], there, before["episodes"])
    is_apart = difference.low > 0 or difference.high < 0
    words = "NOT AS KEPT" if is_apart else "as kept" if here == there else "near what is kept"
    print(f"{cell['cell']}, {arm}: {here} here, {there} kept of {cell['episodes']}: {words}")
    return is_apart


def write(name):
    """Write the table and the figures of what was found, and print the table."""
    found = kept(name)
    if not found:
        return
    # Published figures may have been corrected since.
    measured = kept(name, "measured")
    keep(name, found, measured)
    if name in OTHERS:
        table = OTHERS[name][1](found, PUBLISHED.get(name))
        table += f"\nMeasured {measured['date']}, {measured['machine']}.\n"
    else:
        table = gap_table(name, found)
    (RESULTS / f"{name}.md").write_text(table)
    for file, draw in figures.DRAWN.get(name, {}).items():
        (RESULTS / f"{file}.svg").write_text(draw(found, PUBLISHED.get(name)))
    print(f"\n{table}")


def gap_table(name, cells):
    """Return the cells as a Markdown table, beside the published ones."""
    is_rated = any("rescored" in cell for cell in cells)
    head = ["cell", "validation error", *(["true dynamics, rated by the model"] * is_rated)]
    for arm in ("oracle", "learned"):
        head += [arm, "published", "difference"]
    head += ["gap", "published", "verdict", "what differs"]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    costs = []
    for label, group in grouped(cells).items():
        published = PUBLISHED[name][label]
        arms = ("oracle", "learned")
        solved = {arm: [cell[arm] for cell in group] for arm in arms}
        counts = [sum(solved[arm]) for arm in arms]
        count = sum(cell["episodes"] for cell in group)
        errors = [cell["validation_error"] for cell in group if cell["validation_error"]]
        columns = [label, ", ".join(f"{error:.2g}" for error in errors) or "-"]
        if is_rated:
            rated = [cell["rescored"] for cell in group if "rescored" in cell]
            columns.append(f"{sum(rated)}/{count}" if rated else "-")
        sizes = published["episodes"], published.get("learned_episodes", published["episodes"])
        theirs = published["oracle"], published["learned"]
        for arm, ours, their, size in zip(arms, counts, theirs, sizes, strict=True):
            difference = agresti_caffo_interval(ours, count, their, size)
            columns.append(f"{ours}/{count}{by_seed(solved[arm])}")
            columns.append(f"{their}/{size}{by_seed(published.get(f'{arm}_by_seed', []))}")
            columns.append(interval(difference))
        columns += [
            interval(agresti_caffo_interval(counts[0], count, counts[1], count)),
            interval(agresti_caffo_interval(theirs[0], sizes[0], theirs[1], sizes[1])),
            verdict_of(group, counts, count),
            published.get("differs", ""),
        ]
        rows.append(f"| {' | '.join(columns)} |")
        costs += costs_of(label, group, published)
    if costs:
        head = "| cell | cost | oracle | learned | oracle, published | learned, published |"
        rows += ["", head, "|" + "---|" * 6, *costs]
    if len(grouped(cells)) < len(cells):
        rows += ["", "In brackets each seed, from 0 on."]
    return "\n".join([*rows, "", *provenance(cells)]) + "\n"


def costs_of(label, group, published):
    """Return rows of what each arm costs, where that is published; of each seed."""
    rows = []
    for cost, words in COSTS.items():
        known = [cell[cost] for cell in group if cost in cell]
        if cost in published and len(known) == len(group):
            ours = [", ".join(map(str, arm)) for arm in zip(*known, strict=True)]
            theirs = [str(value) for value in published[cost]]
            rows.append(f"| {label} | {words} | {' | '.join([*ours, *theirs])} |")
    return rows


def by_seed(counts):
    """Return the counts of several seeds in brackets."""
    return f" ({', '.join(map(str, counts))})" if len(counts) > 1 else ""


def interval(of):
    return f"{of.estimate:+.2f} [{of.low:+.2f}, {of.high:+.2f}]"


def verdict_of(group, counts, count):
    """Return a cell's verdict; of several seeds that of all their episodes together, then each."""
    if len(group) == 1:
        return group[0]["verdict"]
    pooled = judge_gap(counts[0], count, counts[1], count)
    seeds = [cell["verdict"] for cell in group]
    each = "each seed, too" if len({*seeds}) == 1 else f"by seed: {', '.join(seeds)}"
    return f"{pooled} ({each})"


def grouped(cells):
    """Return the cells of each row: what several seeds have in common."""
    groups = {}
    for cell in cells:
        groups.setdefault(cell["cell"].partition("-seed-")[0], []).append(cell)
    return groups


def provenance(cells):
    """Return lines that say when and on what cells were measured."""
    groups = {}
    for cell in cells:
        made = cell["measured"]
        groups.setdefault(f"{made['date']}, {made['machine']}", []).append(cell)
    return [f"Measured {words}: {len(group)}." for words, group in groups.items()]


if __name__ == "__main__":
    main()
