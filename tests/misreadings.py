"""Models that are right about the world, and whose convention is another than the gate's."""

from typing import NamedTuple

import numpy as np

from pytest_cpg.episodes.decisions import Decision, Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.probe import bound_to_starts, starts_of
from pytest_cpg.gates.planning_gap.diagnosis.misreadings import misread
from pytest_cpg.planners import CEM
from pytest_cpg.world_models import inference

# States that are asked about, after so many random steps at most.
_STATES, _STEPS = 64, 30


class Convention(NamedTuple):
    """A model, the name of how it is misread, and words that say what to type."""

    model: object
    name: str
    said: str


def conventions(step, task, seed=0):
    """Return models that would predict as ``step`` does, by what has to be known of them."""
    rng = np.random.default_rng(seed)
    size = task.observation_size
    order = np.roll(np.arange(size), 1 + seed % (size - 1))
    back = np.argsort(order)
    scale, offset = np.exp(rng.normal(0, 1, size)), rng.normal(0, 1, size)
    degrees, signs = np.ones(size), np.ones(size)
    degrees[0], signs[[0, -1]] = 180 / np.pi, -1.0
    period = task.control_period

    def three_steps(observations, actions):
        for _ in range(3):
            observations = step(observations, actions)
        return observations

    found = {
        "the change": Convention(lambda o, a: step(o, a) - o, "RETURNS THE CHANGE", "o + model"),
        "the rate": Convention(
            lambda o, a: (step(o, a) - o) / period, "RETURNS A RATE", f"o + {period:g} * model"
        ),
        "the normalised change": Convention(
            lambda o, a: (step(o, a) - o - 0.01 * offset) / (0.05 * scale),
            "RETURNS A SCALED CHANGE",
            "o + model(o, a) * std + mean",
        ),
        "columns returned in another order": Convention(
            lambda o, a: step(o, a)[:, order],
            "COLUMN ORDER",
            f"model(o, a)[:, [{', '.join(map(str, back))}]]",
        ),
        "columns wanted in another order": Convention(
            lambda o, a: step(o[:, back], a)[:, order],
            "COLUMN ORDER",
            f"model(o[:, [{', '.join(map(str, order))}]], a)",
        ),
        "normalised observations returned": Convention(
            lambda o, a: (step(o, a) - offset) / scale,
            "COLUMN SCALE",
            "model(o, a) * std + mean",
        ),
        "one angle in degrees": Convention(
            lambda o, a: step(o / degrees, a) * degrees, "COLUMN SCALE", "k = [57.3, 1, "
        ),
        "two columns with the other sign": Convention(
            lambda o, a: step(o * signs, a) * signs, "COLUMN SCALE", "k = [-1, 1, "
        ),
        "the opposite action": Convention(lambda o, a: step(o, -a), "ACTION SIGN", "model(o, -a)"),
        "actions in other units": Convention(
            lambda o, a: step(o, 0.2 * a), "ACTION SCALE", "model(o, 5 * a)"
        ),
        "steps three times as long": Convention(three_steps, "STEP LENGTH", "action_repeat=3"),
    }
    if task.actions.size > 1:
        found["an action's numbers in another order"] = Convention(
            lambda o, a: step(o, a[:, ::-1]), "ACTION ORDER", "model(o, a[:, [1, 0]])"
        )
    return found


def misreading_in(task, model, *, seed=0, trained="not given", states=_STATES, at=None):
    """Return how a model is misread, if it is, at states that random actions lead to, or others."""
    design = Design(
        task=task,
        planner=CEM(horizon=5),
        episodes=20,
        seed=seed,
    )
    states = _visited(task, seed)[:states] if at is None else at
    with inference(model):
        learned = bound_to_starts(model, design, starts_of(design))
        decisions = Decisions(
            rows=tuple(Decision(row, 0, 1) for row in range(len(states))),
            states=states,
            latents=learned.encode(states),
        )
        return misread(design, learned, decisions, trained=trained)


def _visited(task, seed):
    """Return states [N, S], each after another number of random steps from a start."""
    states = task.reset(1000 * (seed + 1) + np.arange(_STATES))
    rngs = [np.random.default_rng([seed, row]) for row in range(_STATES)]
    until = np.random.default_rng(seed).integers(1, _STEPS, _STATES)
    for step in range(_STEPS):
        after = task.step(states, task.actions.sample(rngs, ()))
        states = np.where((step < until)[:, None], after, states)
    return states
