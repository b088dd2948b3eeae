"""A gate that buys data: python targeted.py --jobs=2

A gate is asked, transitions are collected where it says, a network is trained on all of them, and
the gate is asked again; the data grow by the same factor each time. Five ways to buy are compared:

uniform    random actions from the task's own starts
targeted   from the states in which plans broke their promise most in lost episodes: half of the
           episodes by the planner with that model, half random; each as long as a plan
half       half of each purchase as targeted, and half as uniform
planner    the planner with that model from the task's own starts
advised    as the cause advises: from broken promises for LOCAL ERROR and EXPLOITATION, else half of
           the episodes by the planner with that model, half random, from the task's own starts

The gate that says where to collect has other starts than the one that is reported. What is found is
written to results/targeted.json, .md and .svg; --tables writes the latter anew.
"""

import time
from itertools import pairwise

import figures
import numpy as np
from spread import HERE, parsed, results_of
from worlds import PLANNERS, described, fitted, judged, task_of

from pytest_cpg.contracts import CpgError
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.replay import replay
from pytest_cpg.gates.planning_gap.cause import Cause
from pytest_cpg.world_models import OracleDynamics, collect_transitions

# Transitions at first, the factor by which they grow, and at the end.
GROWTH, ROUNDS = 2**0.5, 10
FIRST = {"cartpole-swingup": 60, "reacher-easy": 500}
WAYS = ("uniform", "targeted", "half", "planner", "advised")
# Causes whose advice is to go where plans broke their promise.
LOCAL = (Cause.LOCAL_ERROR, Cause.EXPLOITATION)
SEEDS = (0, 1, 2, 3, 4)
EPISODES, ASKED, REPORTED = 20, 1000, 100
# Lost episodes that are replayed to find broken promises.
REPLAYED = 5
GOOD = "MODEL AS GOOD AS ORACLE"
NOISE = 0.1
COLOURS = {
    "uniform": "#808080",
    "targeted": "#2a78b5",
    "half": "#3a9a5b",
    "planner": "#d1702a",
    "advised": "#a05195",
}
HELD = "held-3"


def bought(way, name, model, found, *, count, seed):
    """Return transitions that a gate's result leads to, and what they were chosen by."""
    task, planner = task_of(name), PLANNERS[name]
    if way == "half":
        first, by = bought("targeted", name, model, found, count=count // 2, seed=seed)
        rest, _ = bought("uniform", name, model, None, count=count - count // 2, seed=seed + 500)
        return first + rest, by
    usual = {"count": count, "seed": seed, "episode_steps": task.budget}
    if way == "planner":
        return collect_transitions(task, **usual, policy=(planner, model), noise=NOISE), "plans"
    policy = {(planner, model): 0.5, HELD: 0.5}
    if way == "advised" and cause_of(found) not in LOCAL:
        return collect_transitions(task, **usual, policy=policy, noise=NOISE), "a mixture"
    if found is not None and found.lost_episodes:
        design = Design(task=task, planner=planner, episodes=EPISODES, seed=found.result.seed)
        replayed = replay(
            design,
            oracle=OracleDynamics(task),
            learned=model,
            episodes=found.lost_episodes[:REPLAYED],
        )
        broken = replayed.broken_promises()["states"]
        if len(broken):
            usual["episode_steps"] = planner.horizon
            data = collect_transitions(task, **usual, starts=broken, policy=policy, noise=NOISE)
            return data, "broken promises"
    # Nothing was lost: there is nowhere to go.
    return collect_transitions(task, **usual, policy=HELD), "random actions"


def cause_of(found):
    """Return the cause of a gap; None where nobody asked."""
    return found.result.diagnosis and found.result.diagnosis.cause


def measured(cell):
    """Buy data for one network, and return what the gate said of each size."""
    begun = time.process_time()
    name, way, seed = cell["task"], cell["way"], cell["seed"]
    task, rounds = task_of(name), []
    data = collect_transitions(
        task, count=FIRST[name], seed=1000 * seed, episode_steps=task.budget, policy=HELD
    )
    for step in range(1, cell["rounds"] + 1):
        model = fitted(name, data, seed=seed)
        found = judged(name, model, episodes=EPISODES, seed=REPORTED, diagnose="never")
        rounds.append({"transitions": len(data), **described(found)})
        if step == cell["rounds"]:
            break
        asked, cause = None, "not asked"
        if way in ("targeted", "half", "advised"):
            asked = judged(name, model, episodes=EPISODES, seed=ASKED + seed, training_data=data)
            cause = str(cause_of(asked) or "none")
        count = round(FIRST[name] * GROWTH**step) - len(data)
        try:
            more, by = bought(way, name, model, asked, count=count, seed=1000 * seed + step)
        except CpgError as error:
            rounds[-1]["error"] = str(error)
            break
        rounds[-1] |= {"cause": cause, "bought by": by}
        data += more
    return {"cell": cell, "rounds": rounds, "seconds": round(time.process_time() - begun, 1)}


def reached(rounds, *, lasts):
    """Return the transitions at which a gate's verdict is good, for good or for the first time."""
    enough = None
    for row in rounds:
        if row["verdict"] == GOOD:
            enough = enough or row["transitions"]
        elif lasts:
            enough = None
    return enough


def of(found, name, way):
    rows = [row for row in found if (row["cell"]["task"], row["cell"]["way"]) == (name, way)]
    return sorted(rows, key=lambda row: row["cell"]["seed"])


def table(found):
    lines = [
        "| task | data | seeds | first good verdict at | good from | median | solved at the end |",
        "|" + "---|" * 7,
    ]
    for name in FIRST:
        for way in WAYS:
            rows = of(found, name, way)
            if not rows:
                continue
            columns = [name, way, ", ".join(str(row["cell"]["seed"]) for row in rows)]
            for lasts in (False, True):
                sizes = [reached(row["rounds"], lasts=lasts) for row in rows]
                columns.append(", ".join("-" if size is None else str(size) for size in sizes))
            middle = np.median([np.inf if size is None else size for size in sizes])
            columns.append(f"{middle:.0f}" if np.isfinite(middle) else "-")
            columns.append(", ".join(str(row["rounds"][-1]["learned"]) for row in rows))
            lines.append(f"| {' | '.join(columns)} |")
    ends = {row["cell"]["task"]: row["rounds"][-1]["transitions"] for row in found}
    told = " and ".join(f"{size} of {name}" for name, size in ends.items())
    lines += [
        "",
        f"Transitions, in the order of the seeds; good is {GOOD}, and good from means that no "
        f"larger size that was run was worse. A dash: not with {told}. Of {EPISODES} starts.",
    ]
    for name in ends:
        lines += ["", *verdicts(found, name)]
    return "\n".join(lines) + "\n"


def verdicts(found, name):
    """Return a table of a task: how many seeds are good at each size, by what was bought."""
    sizes = [
        part["transitions"]
        for part in next(row for row in found if row["cell"]["task"] == name)["rounds"]
    ]
    lines = [f"| {name}: seeds that are good at | {' | '.join(map(str, sizes))} |"]
    lines.append("|" + "---|" * (len(sizes) + 1))
    for way in WAYS:
        columns = zip(*(row["rounds"] for row in of(found, name, way)), strict=True)
        good = [sum(part["verdict"] == GOOD for part in column) for column in columns]
        if good:
            lines.append(f"| {way} | {' | '.join(map(str, good))} |")
    return lines


def figure(found):
    """Draw the success of each way's networks against the transitions, each seed and their mean."""
    panel, foot = 330, 240
    marks = [figures.text(8, 16, "success rate of the learned arm; thick: mean of the seeds")]
    for column, name in enumerate(FIRST):
        left = 50 + panel * column
        marks.append(figures.text(left + 130, 36, name, "middle"))
        for level in (0, 0.5, 1):
            y = foot - 180 * level
            marks += [
                figures.line(left, y, left + 280, y),
                figures.text(left - 6, y + 4, f"{level:g}", "end"),
            ]
        for number in range(0, ROUNDS, 2):
            x = left + 10 + 260 * number / (ROUNDS - 1)
            size = round(FIRST[name] * GROWTH**number)
            marks.append(figures.text(x, foot + 18, str(size), "middle"))
        for way in WAYS:
            curves = [
                [part["learned"] / part["episodes"] for part in row["rounds"]]
                for row in of(found, name, way)
            ]
            curves = [(curve, 0.4) for curve in curves if len(curve) == ROUNDS]
            if curves:
                curves.append((np.mean([curve for curve, _ in curves], axis=0), 2.5))
            for curve, width in curves:
                places = [
                    (left + 10 + 260 * number / (ROUNDS - 1), foot - 180 * rate)
                    for number, rate in enumerate(curve)
                ]
                for (x1, y1), (x2, y2) in pairwise(places):
                    marks.append(figures.line(x1, y1, x2, y2, COLOURS[way], width))
    for number, way in enumerate(WAYS):
        x = 50 + 130 * number
        marks += [figures.dot(x, foot + 44, COLOURS[way]), figures.text(x + 10, foot + 48, way)]
    marks.append(figures.text(340, foot + 32, "transitions", "middle"))
    return figures.drawn(310, marks)


def main():
    options = parsed(__doc__)
    cells = [
        {"task": name, "way": way, "seed": seed, "rounds": 2 if options.tiny else ROUNDS}
        for seed in SEEDS
        for name in ("reacher-easy", "cartpole-swingup")
        for way in WAYS
    ]
    if options.tiny:
        cells = cells[len(WAYS) : 2 * len(WAYS)]
    path = options.results or HERE / "results" / "targeted.json"
    until = time.monotonic() + 60 * options.minutes
    cells = [] if options.tables else cells
    found = results_of(path, measured, cells, jobs=options.jobs, until=until)
    path.with_suffix(".md").write_text(table(found))
    path.with_suffix(".svg").write_text(figure(found))
    print(table(found))


if __name__ == "__main__":
    main()
