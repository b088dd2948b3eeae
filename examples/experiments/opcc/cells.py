"""Cells: the settings of every ensemble that is trained, and the tables that they are in."""

from dataclasses import dataclass

SEEDS = range(5)
BODIES = ("hopper", "halfcheetah", "walker2d")
MAZES = ("maze-open", "maze-umaze", "maze-medium", "maze-large")
KINDS = ("mixed", "random", "medium", "expert", "medium-expert")


@dataclass(frozen=True)
class Cell:
    """One ensemble; what is not said is feed-forward, deterministic, normalised and clipped.

    Attributes
    ----------
    recipe : str
        Of the transitions; see recipes.py.
    target : "next" or "same"
        What is learned to come after an observation: what did, or the observation itself, as the
        public baselines' replay buffer has it.
    bounds : "all", "before" or "none"
        What observations are clipped to: all, those before a step alone, or nothing.
    draws : bool
        Imagine with draws from the predicted variance, in place of its mean.
    learning_rate : float
        Cells that are to be compared have one; `-default` is that of `train_ensemble`.
    training : dict
        What else `train_ensemble` is told.
    """

    environment: str = "hopper"
    recipe: str = "mixed"
    target: str = "next"
    bounds: str = "all"
    draws: bool = False
    members: int = 10
    updates: int = 1000
    hidden: int = 64
    learning_rate: float = 1e-3
    training: dict | None = None


# No change is learned soon: what is left to learn is the reward.
SAME = {"target": "same", "updates": 300}
GAUSSIAN = {"output": "gaussian"}
AUTOREGRESSIVE = {"kind": "autoregressive"}
NEITHER = {"normalise_inputs": False, "normalise_targets": False}


DEFAULT = {"learning_rate": 4e-3}


def _of_kinds(environment, end="", **more):
    return {f"{environment}-{kind}{end}": Cell(environment, kind, **more) for kind in KINDS}


def _on_bodies(end, **more):
    return {f"{body}-mixed{end}": Cell(body, **more) for body in BODIES}


# What the paper's tables change, with the target that its baselines teach.
ABLATIONS = {
    "prior": {"training": {"prior_scale": 5.0}},
    "gaussian": {"training": GAUSSIAN, "draws": True},
    "not-normalised": {"training": NEITHER},
}


# Of these, also after more updates.
LONGER, UPDATES = ("gaussian", "not-normalised"), (1000, 3000)


def _ablated(name, environment, recipe="mixed"):
    return {
        f"{name}-same-{change}": Cell(environment, recipe, **SAME, **settings)
        for change, settings in ABLATIONS.items()
    }


BASE = "hopper-mixed"
TABLES = {
    "same": {
        **{
            name: cell for body in BODIES for name, cell in _of_kinds(body, "-same", **SAME).items()
        },
        **_on_bodies("-same-longer", target="same"),
    },
    "data": {name: cell for body in BODIES for name, cell in _of_kinds(body).items()},
    "models": {
        BASE: Cell(),
        "prior": Cell(training={"prior_scale": 5.0}),
        "gaussian": Cell(training=GAUSSIAN),
        "gaussian-drawn": Cell(training=GAUSSIAN, draws=True),
        "inputs-only": Cell(training={"normalise_targets": False}),
        "targets-only": Cell(training={"normalise_inputs": False}),
        "not-normalised": Cell(training=NEITHER),
        "bounds-before": Cell(bounds="before"),
        "no-bounds": Cell(bounds="none"),
        "wide": Cell(hidden=200),
        "feed-forward-300": Cell(updates=300),
        "autoregressive-300": Cell(updates=300, training=AUTOREGRESSIVE),
        "autoregressive-drawn": Cell(
            updates=300, training={**AUTOREGRESSIVE, **GAUSSIAN}, draws=True
        ),
    },
    "rate": {
        **_of_kinds("hopper", "-default", **DEFAULT),
        "wide-default": Cell(hidden=200, **DEFAULT),
    },
    "members": {
        "hundred": Cell(members=100),
        "hundred-same": Cell(members=100, **SAME),
    },
    "ablations": {
        **{
            name: cell
            for body in BODIES
            for kind in KINDS
            for name, cell in _ablated(f"{body}-{kind}", body, kind).items()
        },
        **{name: cell for maze in MAZES for name, cell in _ablated(maze, maze).items()},
        **_on_bodies("-same-autoregressive", **SAME, training=AUTOREGRESSIVE),
    },
    # What was also trained longer.
    "longer": {
        f"{body}-mixed-same-{change}-{updates}": Cell(
            body, target="same", updates=updates, **ABLATIONS[change]
        )
        for body in BODIES
        for change in LONGER
        for updates in UPDATES
    },
    "mazes": {
        name + end: Cell(name, **more)
        for name in MAZES
        for end, more in (("", {}), ("-same", SAME))
    },
}
CELLS = {name: cell for table in TABLES.values() for name, cell in table.items()}
