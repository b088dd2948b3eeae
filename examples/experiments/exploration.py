"""Which data close the gap, at the same size: python exploration.py --jobs=2

A network is trained on transitions of six policies that explore, and a gate judges it. Only the
data differ: task, starts, planner, network and number of gradient steps are the same. What is found
is written to results/exploration.json, .md and .svg; --tables writes the latter anew.
"""

import time

import figures
import numpy as np
from spread import COLLECTED, HERE, parsed, results_of, run
from worlds import PLANNERS, described, fitted, judged, task_of

from pytest_cpg.stats import wilson_interval
from pytest_cpg.world_models import Transitions, collect_transitions

TASKS = ("cartpole-swingup", "acrobot-swingup")
SIZES = (2_000, 20_000)
BETWEEN = {"cartpole-swingup": (100, 500), "acrobot-swingup": (500, 6_000)}
SEEDS = (0, 1, 2)
EPISODES, GATE_SEED = 30, 100
# Steps of planners and of the energy-aware policy whose action is random.
NOISE = 0.1
# Rows of a file: as many are collected by one process.
PART = 2_500
MIXED = ("held", "oracle planner", "energy-aware")
POLICIES = ("random", "held", "oracle planner", "model planner", "energy-aware", "mixture")
COLOURS = ("#808080", "#2a78b5", "#d1702a", "#3a9a5b", "#a05195", "#c9a227")
GRAVITY = 9.81


def pump_acrobot(observations):
    """Return torques that do work at the elbow until the links have the energy of standing."""
    sines, cosines = observations[:, :2], observations[:, 2:4]
    upper, lower = observations[:, 4], observations[:, 4] + observations[:, 5]
    # Two thin links of 1 m and 1 kg.
    moving = 2 / 3 * upper**2 + lower**2 / 6
    moving += 0.5 * (cosines.prod(axis=1) + sines.prod(axis=1)) * upper * lower
    energy = moving + GRAVITY * (1.5 * cosines[:, 0] + 0.5 * cosines[:, 1])
    return (np.sign(2 * GRAVITY - energy) * np.sign(observations[:, 5]))[:, None]


def pump_cartpole(observations):
    """Return forces that give the pole the energy of standing, and keep the cart in the middle."""
    place, cosine, _, speed, turning = observations.T
    # Of a thin pole of 1 m, in units of its weight times half its length.
    energy = turning**2 / (3 * GRAVITY) + cosine
    push = -np.sign((1 - energy) * turning * cosine)
    return np.clip(push - 0.5 * place - 0.1 * speed, -1, 1)[:, None]


ACTS = {
    "random": lambda name: "random",
    "held": lambda name: "held-5",
    "oracle planner": PLANNERS.get,
    "energy-aware": {"cartpole-swingup": pump_cartpole, "acrobot-swingup": pump_acrobot}.get,
}


def collected(name, policy, *, seed, count):
    """Return the first transitions of a policy; its episodes are collected once."""
    if policy == "mixture":
        sizes = [count // len(MIXED)] * (len(MIXED) - 1)
        sizes.append(count - sum(sizes))
        parts = [
            collected(name, policy, seed=seed, count=size)
            for policy, size in zip(MIXED, sizes, strict=True)
        ]
    else:
        parts = [part_of(name, policy, seed, part) for part in range(-(-count // PART))]
    data = parts[0]
    for part in parts[1:]:
        data += part
    return data[:count]


def part_of(name, policy, seed, part):
    path = COLLECTED / f"{name}-{policy.replace(' ', '-')}-{seed}-{part}.npz"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        acting = ACTS[policy](name)
        collect_transitions(
            task_of(name),
            count=PART,
            seed=100 * seed + part,
            episode_steps=task_of(name).budget,
            policy=acting,
            noise=0 if isinstance(acting, str) else NOISE,
        ).save(path)
    return Transitions.load(path)


def prepared(cell):
    """Make what cells share: the oracle's arm of a task, or the data of its planner."""
    if cell["policy"] is None:
        stays = lambda observations, actions: observations  # noqa: E731  # a model that is none
        judged(cell["task"], stays, episodes=EPISODES, seed=GATE_SEED, diagnose="never")
    else:
        part_of(**{"name" if key == "task" else key: value for key, value in cell.items()})


def measured(cell):
    """Collect, train, and ask the gate."""
    begun = time.process_time()
    name, policy, size, seed = (cell[key] for key in ("task", "policy", "transitions", "seed"))
    if policy == "model planner":
        # Half of random actions; a model of these plans the other half.
        data = collected(name, "random", seed=seed, count=size // 2)
        model = fitted(name, data, seed=seed)
        data += collect_transitions(
            task_of(name),
            count=size - size // 2,
            seed=100 * seed + 50,
            episode_steps=task_of(name).budget,
            policy=(PLANNERS[name], model),
            noise=NOISE,
        )
    else:
        data = collected(name, policy, seed=seed, count=size)
    model = fitted(name, data, seed=seed)
    found = judged(name, model, episodes=EPISODES, seed=GATE_SEED, diagnose="never")
    return {
        "cell": cell,
        **described(found),
        "validation_error": round(model.validation_error, 6),
        "height": round(float(-task_of(name).score(data.observations).mean()), 3),
        "seconds": round(time.process_time() - begun, 1),
    }


def cells_of(sizes, *, tasks=TASKS, seeds=SEEDS, policies=POLICIES):
    return [
        {"task": name, "policy": policy, "transitions": size, "seed": seed}
        for size in sizes
        for seed in seeds
        for name in tasks
        for policy in policies
    ]


def every_cell():
    """Return all cells, cheap ones first."""
    cartpole, acrobot = TASKS
    least, most = SIZES
    planned = ("mixture", "oracle planner")
    others = [policy for policy in POLICIES if policy not in planned]
    return [
        *cells_of(SIZES, tasks=[cartpole]),
        *cells_of(BETWEEN[cartpole], tasks=[cartpole]),
        *(
            cell
            for seed in SEEDS
            for cell in cells_of(SIZES, tasks=[acrobot], seeds=[seed], policies=others)
        ),
        *cells_of([least], tasks=[acrobot], policies=planned),
        *(
            cell
            for policy in planned
            for cell in cells_of([most], tasks=[acrobot], policies=[policy])
        ),
        *cells_of(BETWEEN[acrobot], tasks=[acrobot]),
    ]


def shared_by(cells):
    """Return what has to be made before cells run, what takes longest first."""
    names = sorted({cell["task"] for cell in cells})
    parts = {
        (cell["task"], cell["seed"], part)
        for cell in cells
        if cell["policy"] in ("oracle planner", "mixture")
        for part in range(-(-cell["transitions"] // PART))
    }
    return [{"task": name, "policy": None} for name in names] + [
        {"task": name, "policy": "oracle planner", "seed": seed, "part": part}
        for name, seed, part in sorted(parts)
    ]


def pooled(found, name, policy, size):
    """Return starts that models of all seeds solve, and of how many."""
    rows = [
        row
        for row in found
        if {**row["cell"], "seed": 0}
        == {"task": name, "policy": policy, "transitions": size, "seed": 0}
    ]
    return sum(row["learned"] for row in rows), sum(row["episodes"] for row in rows), rows


def sizes_in(found):
    return sorted({row["cell"]["transitions"] for row in found})


def rates_of(found, name, policy):
    """Return a policy's success rate at each size that was run."""
    counts = {size: pooled(found, name, policy, size)[:2] for size in sizes_in(found)}
    return {size: solved / count for size, (solved, count) in counts.items() if count}


def needed(found, name, policy, *, share=0.8):
    """Return the transitions from which on a policy's success is a share of the best of all.

    Between sizes it is taken to be a line over the logarithm. None where it is not reached, or
    lost again at the largest size.
    """
    every = [rate for each in POLICIES for rate in rates_of(found, name, each).values()]
    wanted, enough, before = share * max(every, default=0), None, None
    for size, rate in rates_of(found, name, policy).items():
        if rate < wanted:
            enough = None
        elif enough is None:
            enough = size
            if before is not None:
                smaller, lower = before
                enough = round(smaller * (size / smaller) ** ((wanted - lower) / (rate - lower)))
        before = size, rate
    return enough


def tasks_in(found):
    return [name for name in TASKS if any(row["cell"]["task"] == name for row in found)]


def table(found):
    sizes = sizes_in(found)
    heads = [f"{size} transitions" for size in sizes]
    lines = [
        f"| task | policy | {' | '.join(heads)} | transitions to 0.8 of the best |",
        "|" + "---|" * (3 + len(sizes)),
    ]
    for name in tasks_in(found):
        for policy in POLICIES:
            columns = []
            for size in sizes:
                solved, count, rows = pooled(found, name, policy, size)
                if not count:
                    columns.append("-")
                    continue
                each = ", ".join(str(row["learned"]) for row in rows)
                columns.append(f"{solved}/{count} ({each})")
            enough = needed(found, name, policy)
            first = [*rates_of(found, name, policy)][:1] == [enough]
            columns.append("-" if enough is None else f"{'at most ' * first}{enough}")
            lines.append(f"| {name} | {policy} | {' | '.join(columns)} |")
    oracles = {row["cell"]["task"]: f"{row['oracle']}/{row['episodes']}" for row in found}
    told = ", ".join(f"{name} {solved}" for name, solved in oracles.items())
    return "\n".join(lines) + f"\n\nOracle arms: {told}. In brackets each training seed.\n"


def figure(found):
    """Draw the success of each policy's models, with its Wilson interval, against the size."""
    sizes = sizes_in(found)
    panel, foot, height = 330, 240, 330
    marks = [figures.text(8, 16, "success rate of the learned arm, 95 %")]
    for column, name in enumerate(tasks_in(found)):
        left = 50 + panel * column
        marks.append(figures.text(left + 130, 36, name, "middle"))
        for level in (0, 0.5, 1):
            y = foot - 180 * level
            marks.append(figures.line(left, y, left + 280, y))
            marks.append(figures.text(left - 6, y + 4, f"{level:g}", "end"))
        for place, size in enumerate(sizes):
            x = left + 20 + 250 * place / max(1, len(sizes) - 1)
            marks.append(figures.text(x, foot + 18, str(size), "middle"))
        for number, (policy, colour) in enumerate(zip(POLICIES, COLOURS, strict=True)):
            before = None
            for place, size in enumerate(sizes):
                solved, count, _ = pooled(found, name, policy, size)
                if not count:
                    continue
                bound = wilson_interval(solved, count)
                x = left + 8 + 4 * number + 250 * place / max(1, len(sizes) - 1)
                y, low, high = (
                    foot - 180 * rate for rate in (bound.estimate, bound.low, bound.high)
                )
                marks += [figures.line(x, low, x, high, colour), figures.dot(x, y, colour)]
                if before:
                    marks.append(figures.line(*before, x, y, colour))
                before = x, y
    for number, (policy, colour) in enumerate(zip(POLICIES, COLOURS, strict=True)):
        x, y = 50 + 220 * (number % 3), foot + 46 + 20 * (number // 3)
        marks += [figures.dot(x, y - 4, colour), figures.text(x + 10, y, policy)]
    marks.append(figures.text(340, foot + 34, "transitions", "middle"))
    return figures.drawn(height, marks)


def main():
    options = parsed(__doc__)
    until = time.monotonic() + 60 * options.minutes
    path = options.results or HERE / "results" / "exploration.json"
    cells = every_cell()
    if options.tiny:
        cells = cells_of([500], tasks=TASKS[:1], seeds=[0])
    if options.tables:
        cells = []
    spreading = {"jobs": options.jobs, "until": until}
    # One process makes them when a cell needs them.
    for _ in run(prepared, shared_by(cells) if options.jobs > 1 else [], **spreading):
        pass
    found = results_of(path, measured, cells, **spreading)
    path.with_suffix(".md").write_text(table(found))
    path.with_suffix(".svg").write_text(figure(found))
    print(table(found))


if __name__ == "__main__":
    main()
