"""What was measured as tables: each checkpoint a row, beside what was published."""

from itertools import chain, product
from operator import itemgetter

import numpy as np
from figure import draw

from pytest_cpg.stats import wilson_interval
from pytest_cpg.stats.rankings import FEWEST_MODELS_TO_CORRELATE, kendall_interval

HORIZONS = 1, 5, 10
# Ke et al. (2021), at 1, 5 and 10 steps: H@1 in %, and success of plans by a learned reward that
# are carried out unseen.
PUBLISHED = {
    ("blocks:3", "ae", "contrastive"): ("82.1 / 50.0 / 34.4", ".42 / .05 / .02"),
    ("blocks:3", "gnn", "contrastive"): ("93.9 / 78.3 / 72.1", ".77 / .68 / .66"),
    ("blocks:3", "modular", "contrastive"): ("98.7 / 94.7 / 90.6", ".54 / .13 / .07"),
    ("blocks:3", "vae", "nll"): ("49.5 / 1.7 / .2", ".32 / .04 / .01"),
    ("blocks:3", "ae", "nll-finetuned"): ("-", ".52 / - / -"),
    ("blocks:3", "gnn", "nll-finetuned"): ("-", ".30 / - / -"),
    ("blocks:3", "modular", "nll-finetuned"): ("-", ".64 / - / -"),
    ("blocks:3", "vae", "nll-finetuned"): ("-", ".43 / - / -"),
    ("blocks:3-fixed-unobserved", "modular", "contrastive"): ("-", ".85 / .78 / .40"),
    ("blocks:5-fixed-unobserved", "ae", "contrastive"): ("-", ".50 / .09 / -"),
    ("blocks:5-fixed-unobserved", "gnn", "contrastive"): ("-", ".84 / .74 / .68"),
    ("blocks:5-fixed-unobserved", "modular", "contrastive"): ("-", ".99 / .78 / .63"),
    ("chemistry:full5", "ae", "contrastive"): ("-", ".41 / .28 / .24"),
    ("chemistry:full5", "modular", "contrastive"): ("-", ".45 / .34 / .29"),
    ("chemistry:collider5", "modular", "contrastive"): ("-", ".69 / .69 / -"),
}
INTRODUCTION = """
Three numbers are at 1 / 5 / 10 steps, those in brackets intervals at 95 %; seconds are of CPU, in
training. The networks are the paper's in kind, not in size: they see a pixel for each cell, which
is easier than shapes in pictures of 50 x 50 pixels. Those were not run, as they need a GPU, for
which the same command trains ten times as long: nothing was run on one. Published figures are
those that were at hand, a dash stands for others; which losses those of chemistry are of is open.

Plans are for 200 starts. *Unseen*: the whole plan is carried out without a look, as published.
*Closed*: a new plan after every step. Verdicts are those of gates on distances, closed.
"""
LOSSES = ("contrastive", "nll", "nll-finetuned")
KINDS = ("ae", "vae", "gnn", "modular")
# Of predictions and of plans, by the worlds that they are about.
NUMBERED = {
    "blocks:3": (3, 9),
    "blocks:5": (4, 10),
    "blocks:3-unobserved": (5, 11),
    "blocks:5-unobserved": (6, 12),
    "blocks:3-fixed-unobserved": (7, 13),
    "blocks:5-fixed-unobserved": (8, 14),
    "zero-shot": (15, 16),
    "chemistry": (17, 18),
}


def not_run(rows):
    """Say which rows of a published table were not run, and why."""
    pairs = {(row["kind"], row["loss"]) for row in rows} | {("vae", "contrastive")}
    missing = {loss: [k for k in KINDS if (k, loss) not in pairs] for loss in LOSSES}
    texts = [f"{loss} of {', '.join(kinds)}" for loss, kinds in missing.items() if kinds]
    return f"Not run, for the minutes of CPU: {'; '.join(texts) or 'none'}."


def title(row):
    epochs = f"{row['epochs']} epoch{'s' * (row['epochs'] > 1)}, {row['trained']} s"
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


def metrics(row, k):
    """Return each number of what a checkpoint predicts, more being better; None: has no such."""
    hits = (row["hits"][f"{who} {k}"] / row["queries"] for who in ("model", "copy"))
    known = {stratum: 1 - share for stratum, (share, *_) in row["confused"].items()}
    model, copy = hits
    return {
        "H@1": model,
        "H@1 less a copy's": max(0.0, model - copy),
        "MRR": row["mrr"][f"model {k}"],
        "counterfactual": known["all"],
        "of contacts": known.get("contact"),
    }


def success(row, k, rates="distance", mode="closed"):
    found = cell(row, k, rates, mode)
    return found["solved"][2] / found["episodes"]


def tau(rows, name, k, *how):
    """Return Kendall's correlation of a number with success over the checkpoints that have both."""
    pairs = [(metrics(row, k)[name], success(row, k, *how)) for row in rows]
    pairs = [pair for pair in pairs if pair[0] is not None]
    if len(pairs) < FEWEST_MODELS_TO_CORRELATE:
        return "-"
    found = kendall_interval(*zip(*pairs, strict=True))
    return f"{found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]"


def correlated(rows):
    """Yield how each number of a prediction goes with success, over checkpoints."""
    worlds = ([r for r in rows if r["world"].startswith(world)] for world in ("blocks", "chem"))
    groups = [trained_alike(rows), *worlds, rows]
    for k, name in product(HORIZONS, metrics(rows[0], 1)):
        closed = (tau(group, name, k) for group in groups)
        yield [name, str(k), *closed, tau(rows, name, k, "reward", "open")]


def trained_alike(rows):
    return [r for r in rows if (r["world"], r["loss"]) == ("blocks:3", "contrastive")]


def plotted(rows):
    """Return the figure of all of them."""
    panels, captions = {}, {}
    for k, name in product(HORIZONS, metrics(rows[0], 1)):
        at = f"k = {k}", name
        dots = [(metrics(r, k)[name], success(r, k), r["kind"], r["is_half"]) for r in rows]
        panels[at] = [dot for dot in dots if dot[0] is not None]
        captions[at] = f"τ {tau(rows, name, k)}"
    return draw(panels, captions, "hollow: one epoch. Axes: 0 to 1. τ: Kendall's, at 95 %")


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
        rates = [" / ".join(share(count, 5000) for count in horizon) for horizon in counts]
        yield [f"`blocks:{count}`", *chain(*zip(rates, OF_BASELINES[count], strict=True)), "-"]
    for graph, solved in found["chemistry"].items():
        columns = zip(*(np.transpose(solved[str(k)]) / 200 for k in HORIZONS), strict=True)
        *texts, exact = (
            " / ".join(f"{np.median(k):.2f} [{np.min(k):.2f}, {np.max(k):.2f}]" for k in column)
            for column in columns
        )
        beside = chain(*zip(texts, OF_BASELINES[graph], strict=True))
        yield [f"`chemistry:{graph}5`", *beside, exact]


PREDICTED = ("checkpoint", "H@1", "of a copy", "published, %", "MRR", "share confused")
SOLVED = (
    *("checkpoint", "published, unseen", "reward, unseen", "reward, closed"),
    *("true dynamics, learned reward", "distance, closed", "oracle", "verdicts"),
)


def numbered(rows):
    """Yield the published tables by number."""
    for world, (first, second) in NUMBERED.items():
        is_family = not world.startswith("blocks")
        among = [r for r in rows if r["world"] == world or (is_family and world in r["world"])]
        yield f"## Tables {first} and {second}: `{world}`\n\n{not_run(among)}"
        if among:
            yield f"Table {first}, what is predicted:"
            yield table(PREDICTED, map(predicted, among))
            yield f"Table {second}, what is solved:"
            yield table(SOLVED, map(planned, among))


def write(found, folder):
    """Write the tables of what was found, and the figure."""
    order = itemgetter("world", "loss", "kind", "seed", "epochs")
    rows = sorted(found.get("rows", {}).values(), key=order)
    seconds = found["baselines"]["measured"]
    seconds += sum(row["trained"] + row["measured"] for row in rows)
    parts = [
        "# Causal worlds, measured",
        f"Written by `make causal` on {found['date']}: {found['machine']}, {seconds / 60:.0f} "
        f"minutes of CPU for {len(rows)} rows. A row is one checkpoint, never a mean over seeds.",
        INTRODUCTION.strip(),
        "## Without a model (of Tables 9 to 14, and 18)",
        "Of 5000 episodes of blocks, intervals at 95 %; of chemistry medians over 8 drawn worlds "
        "of 200 episodes, and the least and most of them. The published plan is greedy in blocks. "
        "In chemistry it is the target's own actions; plans by exact chances stand beside.",
        table(
            ["world", "random", "published", "published plan", "published", "exact plan"],
            baseline(found["baselines"]),
        ),
        *numbered(rows),
    ]
    compared = trained_alike(rows)
    if len(compared) >= FEWEST_MODELS_TO_CORRELATE:
        parts += [
            "## Do predictions tell who plans well? (Figures 21, 22, 27)",
            "![Numbers of predictions against plans that succeed](correlations.svg)",
            f"Kendall's rank correlations of each number with success, as `.correlation` has them, "
            f"intervals at 95 %: over the {len(compared)} checkpoints of `blocks:3` trained by "
            f"contrast, all of blocks, those of chemistry, and all {len(rows)}. Success is by "
            f"distances, closed, but in the last column: by learned rewards, unseen.",
            table(
                ["number", "k", "`blocks:3`", "blocks", "chemistry", "all", "all, unseen"],
                correlated(rows),
            ),
        ]
        folder.joinpath("correlations.svg").write_text(plotted(rows))
    folder.joinpath("tables.md").write_text("\n\n".join(parts) + "\n")
