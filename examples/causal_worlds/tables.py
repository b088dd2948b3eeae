"""What was measured as tables: each checkpoint a row, beside what was published."""

import numpy as np

from pytest_cpg.stats import wilson_interval
from pytest_cpg.stats.rankings import (
    FEWEST_MODELS_TO_CORRELATE,
    kendall_interval,
    spearman_interval,
)

HORIZONS = 1, 5, 10
# Ke et al. (2021), at 1, 5 and 10 steps: H@1 in %, and success of plans by a learned reward that
# are carried out unseen. A dash: no figure was at hand.
PUBLISHED = {
    ("blocks:3", "ae", "contrastive"): ("82.1 / 50.0 / 34.4", ".42 / .05 / .02"),
    ("blocks:3", "gnn", "contrastive"): ("93.9 / 78.3 / 72.1", ".77 / .68 / .66"),
    ("blocks:3", "modular", "contrastive"): ("98.7 / 94.7 / 90.6", ".54 / .13 / .07"),
    ("blocks:3", "vae", "nll"): ("49.5 / 1.7 / .2", ".32 / .04 / .01"),
    ("blocks:3-fixed-unobserved", "modular", "contrastive"): ("-", ".85 / .78 / .40"),
}
NOT_RUN = """
Not run: Tables 5, 6, 8, 11, 12 and 14, zero-shot (15, 16), pictures of 50 x 50 pixels, and of all
other tables the rows that have no checkpoint here. The networks are the paper's in kind, not in
size: they see a pixel for each cell, which is easier than shapes in pictures.
"""


def title(row):
    epochs = f"{row['epochs']} epoch{'s' * (row['epochs'] > 1)}"
    return f"`{row['world']}` {row['kind']}, {row['loss']}, seed {row['seed']}, {epochs}"


def share(successes, count):
    if successes is None:
        return "-"
    interval = wilson_interval(successes, count)
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def published(row):
    return PUBLISHED.get((row["world"], row["kind"], row["loss"]), ("-", "-"))


def predicted(row):
    hits = (share(row["hits"][f"model {k}"], row["queries"]) for k in HORIZONS)
    copies = (f"{row['hits'][f'copy {k}'] / row['queries']:.2f}" for k in HORIZONS)
    ranks = (f"{row['mrr'][f'model {k}']:.2f}" for k in HORIZONS)
    strata = (
        f"{stratum} {at:.3f} [{low:.3f}, {high:.3f}]"
        for stratum, (at, low, high) in row["confused"].items()
    )
    middle = (" / ".join(hits), " / ".join(copies), published(row)[0], " / ".join(ranks))
    return [title(row), *middle, "; ".join(strata)]


def cell(row, k, rates, mode):
    """Return what was solved at a horizon; a plan of one step is the same, unseen or not."""
    wanted = {"k": k, "rates": rates, "open": mode == "open" and k > 1}
    return next(found for found in row["planning"] if wanted.items() <= found.items())


def solved(row, rates, mode, *, arm):
    cells = [cell(row, k, rates, mode) for k in HORIZONS]
    return " / ".join(share(each["solved"][arm], each["episodes"]) for each in cells)


def planned(row):
    oracle, rescored, learned = 0, 1, 2
    return [
        title(row),
        published(row)[1],
        solved(row, "reward", "open", arm=learned),
        solved(row, "reward", "closed", arm=learned),
        solved(row, "reward", "closed", arm=rescored),
        solved(row, "distance", "closed", arm=learned),
        solved(row, "distance", "closed", arm=oracle),
        ", ".join(cell(row, k, "distance", "closed")["says"].lower() for k in HORIZONS),
    ]


def correlated(rows):
    """Yield how each number of a prediction goes with success, over checkpoints."""
    metrics = {
        **{f"H@1 at {k}": [row["hits"][f"model {k}"] for row in rows] for k in HORIZONS},
        **{f"MRR at {k}": [row["mrr"][f"model {k}"] for row in rows] for k in HORIZONS},
        "counterfactual, all steps": [-row["confused"]["all"][0] for row in rows],
        "counterfactual, contact": [-row["confused"]["contact"][0] for row in rows],
    }
    for k in HORIZONS:
        success = [cell(row, k, "distance", "closed")["solved"][2] for row in rows]
        for name, values in metrics.items():
            intervals = [
                interval(values, success) for interval in (spearman_interval, kendall_interval)
            ]
            texts = (f"{i.estimate:.2f} [{i.low:.2f}, {i.high:.2f}]" for i in intervals)
            yield [name, str(k), *texts]


# Of 1000 episodes: blocks at random, greedy; chemistry at random, by the target's own actions.
OF_BASELINES = {
    "3": (".22 / .01 / .00", "1.00 / .99 / .98"),
    "5": (".22 / .00 / .00", "1.00 / .99 / .98"),
    "chain": (".05 / .01 / .01", ".52 / .39 / .38"),
    "full": (".03 / .01 / .00", ".44 / .28 / .24"),
    "collider": (".23 / .01 / .00", ".75 / .73 / .80"),
}


def baseline(found):
    """Yield what random actions and two kinds of plan solve, beside what was published."""
    for count, solved in found["blocks"].items():
        counts = zip(*(solved[str(k)] for k in HORIZONS), strict=True)
        rates = (" / ".join(share(count, 5000) for count in horizon) for horizon in counts)
        at_random, greedy = rates
        yield [
            f"`blocks:{count}`",
            at_random,
            OF_BASELINES[count][0],
            greedy,
            OF_BASELINES[count][1],
            "-",
        ]
    for graph, solved in found["chemistry"].items():
        columns = zip(*(np.transpose(solved[str(k)]) / 200 for k in HORIZONS), strict=True)
        texts = []
        for column in columns:
            spans = (f"{np.median(k):.2f} [{np.min(k):.2f}, {np.max(k):.2f}]" for k in column)
            texts.append(" / ".join(spans))
        at_random, replay, exact = texts
        at, optimal = OF_BASELINES[graph]
        yield [f"`chemistry:{graph}5`", at_random, at, replay, optimal, exact]


def write(found, folder):
    """Write the tables of what was found."""
    rows = list(found.get("rows", {}).values())
    at = "at 1 / 5 / 10 steps, intervals at 95 %"
    parts = [
        "# Causal worlds, measured",
        f"Written by `make causal` on {found['date']}: {found['machine']}. A row is one "
        f"checkpoint, never a mean over seeds.",
        NOT_RUN.strip(),
        "## Without a model",
        "Of 5000 episodes of blocks, intervals at 95 %; of chemistry medians over 8 drawn worlds "
        "of 200 episodes, and the least and most of them. The published plan is greedy in blocks. "
        "In chemistry it is the target's own actions; plans by exact chances stand beside.",
        table(
            ["world", "random", "published", "published plan", "published", "exact plan"],
            baseline(found["baselines"]),
        ),
        f"## What is predicted (Tables 3 to 8, 17), {at}",
        table(
            ["checkpoint", "H@1", "of a copy", "published, %", "MRR", "share confused"],
            map(predicted, rows),
        ),
        f"## What is solved (Tables 9 to 14, 18), {at}",
        "Of 200 starts. *Unseen*: the whole plan is carried out without a look, as published. "
        "*Closed*: a new plan after every step. Verdicts are those of gates on distances, closed.",
        table(
            [
                "checkpoint",
                "published, unseen",
                "reward, unseen",
                "reward, closed",
                "true dynamics, learned reward",
                "distance, closed",
                "oracle",
                "verdicts",
            ],
            map(planned, rows),
        ),
    ]
    compared = [row for row in rows if row["world"] == "blocks:3"]
    if len(compared) >= FEWEST_MODELS_TO_CORRELATE:
        parts += [
            "## Do predictions tell who plans well? (Figures 21, 22, 27)",
            f"Rank correlations of each number with success by distances, closed, over the "
            f"{len(compared)} checkpoints of `blocks:3`, intervals at 95 %.",
            table(["number", "steps", "Spearman", "Kendall"], correlated(compared)),
        ]
    folder.joinpath("tables.md").write_text("\n\n".join(parts) + "\n")
