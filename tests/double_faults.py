"""Models of built-in tasks with two faults at once: a harmless and a real one, or two real ones."""

from dataclasses import dataclass, field, replace
from functools import cache

import faulty_models as puck
import numpy as np

from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.presets import preset_planner
from pytest_cpg.planners import RandomShooting
from pytest_cpg.tasks import TASKS as REGISTERED
from pytest_cpg.tasks.grids import GridTask, maze, two_room
from pytest_cpg.world_models import OracleDynamics

EPISODES = 12
TASKS = {
    "maze": maze,
    "two-room": two_room,
    "reacher": lambda: REGISTERED["reacher-easy"](budget=150),
    "pendulum": lambda: REGISTERED["pendulum-swingup"](budget=125, action_repeat=4, actions="box"),
    "cartpole": lambda: REGISTERED["cartpole-swingup"](budget=250, actions="box"),
}
PLANNERS = {
    "maze": RandomShooting(candidates=100, horizon=8),
    "two-room": RandomShooting(candidates=60, horizon=8),
    "reacher": RandomShooting(candidates=40, horizon=10),
    "pendulum": preset_planner("pendulum-swingup"),
    "cartpole": preset_planner("cartpole-swingup", samples=32),
}


@cache
def task_of(name):
    return TASKS[name]()


def _states(name, observations):
    """Return the simulator states that look like this; time and warm start do not matter."""
    if name in ("maze", "two-room"):
        return observations
    zero = np.zeros(len(observations))
    if name == "pendulum":
        cosine, sine, speed = observations.T
        return np.stack([zero, np.arctan2(sine, cosine), speed, zero, zero, zero], axis=1)
    if name == "cartpole":
        cart, cosine, sine, *speeds = observations.T
        return np.stack([zero, cart, np.arctan2(sine, cosine), *speeds, zero, zero], axis=1)
    first, second, x, y, *speeds = observations.T
    finger = _finger(first, second)
    target = finger + np.stack([x, y])
    return np.stack([zero, first, second, *speeds, zero, zero, *target], axis=1)


def _finger(first, second):
    return 0.12 * np.stack(
        [np.cos(first) + np.cos(first + second), np.sin(first) + np.sin(first + second)]
    )


def _hash(values):
    """Return numbers that look random, within (-1, 1)."""
    return 2 * np.modf(np.abs(np.sin(values * 78.233) * 43758.5453))[0] - 1


@dataclass(frozen=True)
class Twin:
    """The exact dynamics of a task, but for what is given.

    Attributes
    ----------
    plans : callable or None
        Maps plans [B, H, A] to others.
    pushes : tuple of callable
        Map states [B, S] and actions [B, A] to other actions.
    jumps : tuple of callable
        Map states after a step [B, S] to others.
    shows : tuple of callable
        Map observations along a plan [B, H, O] to others; what is imagined goes on without it.
    world : str or callable
        Makes what steps, by default the task.
    """

    name: str
    plans: object = None
    pushes: tuple = ()
    jumps: tuple = ()
    shows: tuple = ()
    world: object = None

    def rollout(self, latents, actions):
        task, world = task_of(self.name), task_of(self.name) if self.world is None else self.world()
        states = _states(self.name, latents)
        plans = actions if self.plans is None else self.plans(actions)
        if self.pushes or self.jumps:
            seen = np.stack(
                [task.observe(states) for states in self._walk(world, states, plans)], 1
            )
        else:
            seen = task.observe(world.rollout(states, plans))
        for show in self.shows:
            seen = show(seen)
        return seen

    def _walk(self, world, states, plans):
        for step in range(plans.shape[1]):
            pushed = plans[:, step]
            for push in self.pushes:
                pushed = push(states, pushed)
            states = world.step(states, pushed)
            for jump in self.jumps:
                states = jump(states)
            yield states


class Beside:
    """What is another than in a model; all else of it stays."""

    def __getattr__(self, name):
        if name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)


@dataclass(frozen=True)
class Drawing(Beside):
    """A model whose observations are blurred by drawn noise, for as long as the plan is."""

    model: object
    deviation: float
    noise_size: int

    def rollout(self, latents, actions, noise):
        return self.model.rollout(latents, actions) + self.deviation * noise


@dataclass(frozen=True)
class Scoring(Beside):
    """A model with a score of its own."""

    model: object
    score: object


@dataclass(frozen=True)
class Forgetful(Beside):
    """A model whose memory is an observation, and loses one of its numbers at every real step."""

    model: object
    column: int

    def encode(self, observations):
        return observations.copy()

    def update(self, latents, actions, observations):
        kept = observations.copy()
        kept[:, self.column] = 0.0
        return kept

    def decode(self, latents):
        return latents


@dataclass(frozen=True)
class Cluttered:
    """A model with two numbers in its latents that grow wild, and that nothing reads."""

    model: object
    size: int

    def encode(self, observations):
        return np.concatenate([observations, np.ones((len(observations), 2))], axis=1)

    def rollout(self, latents, actions):
        seen = self.model.rollout(latents[:, : self.size], actions)
        grown = latents[:, None, self.size :] * 1.7 ** np.arange(1, actions.shape[1] + 1)[:, None]
        return np.concatenate([seen, grown * _hash(seen[..., :1] + 1)], axis=2)

    def decode(self, latents):
        return latents[..., : self.size]


@dataclass(frozen=True)
class Part:
    """A fault: what it does to a model, and what it was trained on.

    Attributes
    ----------
    twin : mapping
        Fields of `Twin`; tuples are put together.
    wrap : callable or None
        Maps the name of a task and a model to another model.
    trained_on : callable or None
        Maps observations [T, O] of the task to those that there were.
    """

    twin: dict = field(default_factory=dict)
    wrap: object = None
    trained_on: object = None


def _after(steps, change):
    """Change the actions of plans from a step on."""
    return lambda plans: np.concatenate([plans[:, :steps], change(plans[:, steps:])], axis=1)


def _where(region, change):
    """Change the actions in a region."""

    def push(states, actions):
        return np.where(region(states)[:, None], change(actions), actions)

    return push


def _into(region, move):
    """Lead from a region to somewhere else."""
    return lambda states: np.where(region(states)[:, None], move(states), states)


def _angle(column, low, high):
    return lambda states: (
        ((states[:, column] % (2 * np.pi)) > low) & ((states[:, column] % (2 * np.pi)) < high)
    )


def _at(*cells):
    def region(states):
        return (np.rint(states)[:, None] == np.array(cells)).all(axis=2).any(axis=1)

    return region


def _upright(columns):
    """Return what puts these angles and speeds to zero."""

    def move(states):
        moved = states.copy()
        moved[:, columns] = 0.0
        return moved

    return move


def _on_target(states):
    moved = states.copy()
    moved[:, -2:] = _finger(states[:, 1], states[:, 2]).T
    return moved


def _frozen(steps):
    def show(seen):
        shown = seen.copy()
        shown[:, steps:] = shown[:, steps - 1 : steps]
        return shown

    return show


def _nonsense(column, size):
    def show(seen):
        shown = seen.copy()
        shown[..., column] = size * _hash(seen.sum(axis=-1))
        return shown

    return show


def _railless(states):
    """Keep a cart from its rails: they are far from where it is taken to be."""
    moved = states.copy()
    moved[:, 1] = np.clip(moved[:, 1], -1.5, 1.5)
    return moved


def _opened(make):
    """Return a grid with no walls but those at its edge."""

    @cache
    def made():
        task = make()
        rows = task.layout.split()
        inner = [f"#{row[1:-1].replace('#', ':')}#" for row in rows[1:-1]]
        return GridTask(name="open", layout="\n".join([rows[0], *inner, rows[-1]]), budget=9)

    return made


def _zero(actions):
    return np.zeros_like(actions)


def _turned(actions):
    return actions[..., ::-1]


def _scored(change):
    return Part(
        wrap=lambda name, model: Scoring(
            model, lambda latents: change(task_of(name).score(latents), latents)
        )
    )


def _noisy(deviation):
    return Part(wrap=lambda name, model: Drawing(model, deviation, task_of(name).observation_size))


def _late(plans):
    """Delay actions by four steps."""
    return np.concatenate([0 * plans[:, :4], plans[:, :-4]], axis=1)


def _other_target(score, latents):
    return np.hypot(latents[..., 2] + 0.2, latents[..., 3] - 0.1)


def _sideways(score, latents):
    """Reward a pendulum for pointing to a side."""
    return -latents[..., 1]


NEAR_TOP = {"pendulum": _angle(1, 0.0, 1.6), "cartpole": _angle(2, 0.0, 1.6)}
LEFT_HALF = _at(*[(x, y) for x in range(1, 8) for y in range(4, 8)])

# Parts by task; "" is for all of them.
HARMLESS = {
    "": {
        "clutter": Part(wrap=lambda name, model: Cluttered(model, task_of(name).observation_size)),
        "another unit of score": _scored(lambda score, latents: 3 * score + 2),
    },
    "maze": {
        "a little noise": _noisy(0.08),
        "a dead end that holds": Part(twin={"pushes": (_where(_at((1, 1), (5, 1)), _zero),)}),
    },
    "two-room": {
        "a little noise": _noisy(0.08),
        "a corner that holds": Part(twin={"pushes": (_where(_at((13, 1), (12, 1)), _zero),)}),
    },
    "reacher": {
        "nonsense in the angles": Part(twin={"shows": (_nonsense(0, 3.0), _nonsense(1, 3.0))}),
        "a little noise": _noisy(0.002),
    },
    "pendulum": {
        "nonsense in the speed": Part(twin={"shows": (_nonsense(2, 9.0),)}),
        "gravity 2 % too large": Part(
            twin={"world": cache(lambda: task_of("pendulum").with_physics(gravity=1.02))}
        ),
        "a little noise": _noisy(0.01),
    },
    "cartpole": {
        "nonsense in the cart": Part(twin={"shows": (_nonsense(0, 1.5),)}),
        "nonsense in the cart's speed": Part(twin={"shows": (_nonsense(3, 9.0),)}),
        "rails missing": Part(twin={"jumps": (_railless,)}),
        "a little noise": _noisy(0.005),
    },
}
REAL = {
    "": {
        "score flipped": _scored(lambda score, latents: -score),
        "score of something else": _scored(lambda score, latents: _hash(latents.sum(axis=-1))),
        "actions ignored": Part(twin={"plans": _after(0, _zero)}),
        "mirrored": Part(twin={"plans": _after(0, np.negative)}),
        "mirrored after 3 steps": Part(twin={"plans": _after(3, np.negative)}),
        "frozen after 5 steps": Part(twin={"shows": (_frozen(5),)}),
    },
    "maze": {
        "moves swapped": Part(twin={"plans": _after(0, _turned)}),
        "wormhole": Part(twin={"jumps": (_into(_at((1, 4), (3, 5)), lambda s: s * 0 + [13, 2]),)}),
        "wide wormhole": Part(
            twin={
                "jumps": (
                    _into(
                        _at(*[(x, y) for x in (1, 3, 5) for y in range(1, 8)]),
                        lambda s: s * 0 + [13, 2],
                    ),
                )
            }
        ),
        "walls missing": Part(twin={"world": _opened(maze)}),
        "blind in a region": Part(twin={"pushes": (_where(LEFT_HALF, _zero),)}),
        "large noise": _noisy(0.9),
    },
    "two-room": {
        "moves swapped": Part(twin={"plans": _after(0, _turned)}),
        "wormhole": Part(twin={"jumps": (_into(_at((2, 2), (5, 5)), lambda s: s * 0 + [12, 6]),)}),
        "walls missing": Part(twin={"world": _opened(two_room)}),
        "blind in a region": Part(twin={"pushes": (_where(LEFT_HALF, _zero),)}),
        "large noise": _noisy(1.2),
    },
    "reacher": {
        "wormhole": Part(twin={"jumps": (_into(_angle(2, 2.0, 2.2), _on_target),)}),
        "blind in a region": Part(twin={"pushes": (_where(_angle(1, 0.0, 3.0), _zero),)}),
        "large noise": _noisy(0.15),
        "one sign flipped": Part(twin={"plans": _after(0, lambda plans: plans * [1, -1])}),
        "score of another target": _scored(_other_target),
    },
    "pendulum": {
        "wormhole": Part(twin={"jumps": (_into(_angle(1, 2.0, 2.2), _upright([1, 2])),)}),
        "blind in a region": Part(twin={"pushes": (_where(_angle(1, 0.0, 2.5), _zero),)}),
        "large noise": _noisy(0.9),
        "gravity at 2 times": Part(
            twin={"world": cache(lambda: task_of("pendulum").with_physics(gravity=2.0))}
        ),
        "gravity at 5 times": Part(
            twin={"world": cache(lambda: task_of("pendulum").with_physics(gravity=5.0))}
        ),
        "score of a side": _scored(_sideways),
        "memory without speed": Part(wrap=lambda name, model: Forgetful(model, 2)),
        "four steps late": Part(twin={"plans": _late}),
    },
    "cartpole": {
        "wormhole": Part(twin={"jumps": (_into(_angle(2, 2.0, 2.2), _upright([2, 4])),)}),
        "blind in a region": Part(twin={"pushes": (_where(_angle(2, 0.0, 2.5), _zero),)}),
        "large noise": _noisy(0.9),
    },
}


@dataclass(frozen=True)
class Case:
    """Two faults of a task's model, and the causes that are right or acceptable."""

    task: str
    harmless: str
    real: str
    causes: tuple[str, ...]

    @property
    def title(self):
        return f"{self.task}: {self.real}, beside {self.harmless}"


BLIND, LOCAL = ("ACTION BLIND",), ("LOCAL ERROR",)
# What is mirrored or swapped among obstacles has no simple form.
BIAS = ("DYNAMICS BIAS", "ONE-STEP ERROR")
COMPOUNDING, EXPLOITED, COVERAGE = ("COMPOUNDING ERROR",), ("EXPLOITATION",), ("COVERAGE",)
SCORE, NOISE = ("SCORE HEAD",), ("NOISE",)
# A wall that is missing is a fault of some places, and a way that only the model believes in.
WALLS = ("LOCAL ERROR", "EXPLOITATION")

# Written before any of them was diagnosed; each has a gap, and its harmless fault alone has none.
CASES = tuple(
    Case(*row)
    for row in (
        ("maze", "clutter", "actions ignored", BLIND),
        ("maze", "a dead end that holds", "mirrored", BIAS),
        ("maze", "another unit of score", "mirrored after 3 steps", COMPOUNDING),
        ("maze", "a dead end that holds", "mirrored after 3 steps", COMPOUNDING),
        ("maze", "a little noise", "moves swapped", BIAS),
        ("maze", "another unit of score", "wormhole", EXPLOITED),
        ("maze", "a dead end that holds", "wide wormhole", EXPLOITED),
        ("maze", "clutter", "wide wormhole", EXPLOITED),
        ("maze", "a little noise", "walls missing", WALLS),
        ("maze", "clutter", "blind in a region", LOCAL),
        ("maze", "a dead end that holds", "score flipped", SCORE),
        ("maze", "a dead end that holds", "score of something else", SCORE),
        ("maze", "a dead end that holds", "large noise", NOISE),
        ("two-room", "another unit of score", "actions ignored", BLIND),
        ("two-room", "clutter", "mirrored", BIAS),
        ("two-room", "a corner that holds", "mirrored after 3 steps", COMPOUNDING),
        ("two-room", "a corner that holds", "moves swapped", BIAS),
        ("two-room", "a little noise", "wormhole", EXPLOITED),
        ("two-room", "clutter", "walls missing", WALLS),
        ("two-room", "another unit of score", "blind in a region", LOCAL),
        ("two-room", "a corner that holds", "score flipped", SCORE),
        ("reacher", "clutter", "actions ignored", BLIND),
        ("reacher", "nonsense in the angles", "mirrored", BIAS),
        ("reacher", "a little noise", "mirrored", BIAS),
        ("reacher", "nonsense in the angles", "mirrored after 3 steps", COMPOUNDING),
        ("reacher", "another unit of score", "mirrored after 3 steps", COMPOUNDING),
        ("reacher", "nonsense in the angles", "wormhole", EXPLOITED),
        ("reacher", "a little noise", "blind in a region", LOCAL),
        ("reacher", "nonsense in the angles", "score flipped", SCORE),
        ("reacher", "nonsense in the angles", "large noise", NOISE),
        ("pendulum", "nonsense in the speed", "frozen after 5 steps", COMPOUNDING),
        ("pendulum", "another unit of score", "mirrored after 3 steps", COMPOUNDING),
        ("pendulum", "gravity 2 % too large", "mirrored", BIAS),
        ("pendulum", "clutter", "wormhole", EXPLOITED),
        ("pendulum", "nonsense in the speed", "score flipped", SCORE),
        ("cartpole", "nonsense in the cart", "frozen after 5 steps", COMPOUNDING),
        ("cartpole", "rails missing", "frozen after 5 steps", COMPOUNDING),
        ("cartpole", "nonsense in the cart", "mirrored", BIAS),
        ("cartpole", "nonsense in the cart's speed", "actions ignored", BLIND),
        ("cartpole", "nonsense in the cart", "large noise", NOISE),
        ("puck", "gain at 0.95", "noise where it was not trained", COVERAGE),
        ("puck", "gain at 0.95", "noise in a region", LOCAL),
        ("puck", "gain at 0.95", "growing hidden error", COMPOUNDING),
        ("puck", "narrow training data", "a corner that seems to win", EXPLOITED),
        ("puck", "narrow training data", "mirrored", BIAS),
        ("puck", "narrow training data", "score with a goal elsewhere", SCORE),
        ("puck", "narrow training data", "large noise", NOISE),
        ("puck", "narrow training data", "actions ignored", BLIND),
    )
)


# Causes and misreadings that are right for a fault which is real.
RIGHT = {
    "score": SCORE,
    "actions": BLIND,
    "mirrored": (*BIAS, "ACTION SIGN"),
    "mirrored after 3 steps": COMPOUNDING,
    "frozen": COMPOUNDING,
    "moves swapped": (*BIAS, "ACTION ORDER"),
    "wormhole": EXPLOITED,
    "wide": EXPLOITED,
    "walls": WALLS,
    "blind": LOCAL,
    "large noise": NOISE,
    "one sign": (*BIAS, "ACTION SIGN"),
    "gravity": BIAS,
    "memory": BIAS,
    "four steps late": (*BIAS, "ONE STEP LATE"),
}
# Two real faults, each with a gap alone.
PAIRS = (
    ("maze", "score of something else", "large noise"),
    ("maze", "large noise", "mirrored after 3 steps"),
    ("maze", "blind in a region", "wide wormhole"),
    ("maze", "walls missing", "large noise"),
    ("two-room", "wormhole", "moves swapped"),
    ("two-room", "blind in a region", "mirrored after 3 steps"),
    ("two-room", "score of something else", "blind in a region"),
    ("reacher", "score of another target", "large noise"),
    ("reacher", "score of another target", "one sign flipped"),
    ("reacher", "large noise", "blind in a region"),
    ("reacher", "mirrored after 3 steps", "blind in a region"),
    ("pendulum", "score of a side", "memory without speed"),
    ("pendulum", "wormhole", "gravity at 5 times"),
    ("pendulum", "four steps late", "score of a side"),
    ("cartpole", "score of something else", "mirrored"),
    ("cartpole", "frozen after 5 steps", "large noise"),
)


def right_for(*faults):
    """Return the causes and misreadings that are right for a model with these real faults."""
    return {
        name
        for fault in faults
        for name in next(names for begin, names in reversed(RIGHT.items()) if begin in fault)
    }


def part_of(table, task, name):
    return {**table[""], **table[task]}[name]


def model_of(task, harmless="", *real):
    """Return a model with some real faults, and a harmless one."""
    parts = [part_of(REAL, task, name) for name in real]
    parts += [part_of(HARMLESS, task, harmless)] if harmless else []
    twin = {"name": task}
    for part in parts:
        for key, value in part.twin.items():
            twin[key] = twin.get(key, ()) + value if isinstance(value, tuple) else value
    model = Twin(**twin)
    for part in parts:
        if part.wrap is not None:
            model = part.wrap(task, model)
    return model


def _weak(model):
    """Return a model of the puck whose pushes are a little too weak."""
    return lambda observations, actions: model(observations, 0.95 * actions)


class WeakGrowing(puck.Growing):
    """The same of a model that is more than a function."""

    def rollout(self, latents, actions):
        return super().rollout(latents, 0.95 * actions)


# Faults of the puck, by what is harmless and what is real.
PUCK = {
    ("gain at 0.95", "noise where it was not trained"): puck.Fault(
        _weak(puck.noisy_near_the_goal), "", puck.far_from_the_goal()
    ),
    ("gain at 0.95", "noise in a region"): puck.Fault(_weak(puck.noisy_near_the_goal), ""),
    ("gain at 0.95", "growing hidden error"): puck.Fault(WeakGrowing(), ""),
    **{
        ("narrow training data", real): puck.Fault(model, "", puck.far_from_the_goal())
        for real, model in (
            ("a corner that seems to win", puck.bewitched),
            ("mirrored", puck.mirrored),
            ("score with a goal elsewhere", puck.OwnScore(goal=(3.0, 0.0))),
            ("large noise", puck.Drawing(0.9)),
            ("actions ignored", puck.deaf),
        )
    },
}


def cause_of(case, *, seed=0):
    """Return the diagnosis of a case."""
    if case.task == "puck":
        fault = PUCK[case.harmless, case.real]
        # What grows slowly loses few starts.
        return puck.named(fault, seed=seed, episodes=30)
    return named(case.task, model_of(case.task, case.harmless, case.real), seed=seed)


def design_of(task, *, seed=0, episodes=EPISODES):
    return Design(
        task=task_of(task),
        planner=PLANNERS[task],
        episodes=episodes,
        seed=seed,
    )


def judged(task, learned, **options):
    """Return design, result and oracle of a gate."""
    design = design_of(task, **options)
    oracle = OracleDynamics(design.task)
    return design, measure_gap(design, oracle=oracle, learned=learned), oracle


def named(task, learned, *, verdict=None, **options):
    """Return the diagnosis of a gate, as if it had had another verdict if told so."""
    design, result, oracle = judged(task, learned, **options)
    if verdict is not None:
        result = replace(result, verdict=verdict)
    return diagnose(design, oracle=oracle, learned=learned, result=result)
