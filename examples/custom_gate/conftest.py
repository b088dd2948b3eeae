"""A kind of gate of one's own: how far the next step of any model is off."""

import numpy as np

from pytest_cpg.gates.arguments import Argument, whole
from pytest_cpg.gates.at_most import AtMost
from pytest_cpg.gates.card import Severity


def questions(asked, task):
    """Return states that random actions reach, one more action for each, and what follows it."""
    seed, count = asked.values["seed"], asked.values["transitions"]
    rngs = [np.random.default_rng([seed, row]) for row in range(count)]
    actions = task.actions.sample(rngs, (11,))
    states = task.rollout(task.reset(seed + np.arange(count)), actions[:, :10])[:, -1]
    return states, actions[:, 10:], task.observe(task.step(states, actions[:, 10]))


def error(model, states, actions, following):
    """Return how far a model, bound to the task, is off after each action."""
    reached = model.rollout(model.encode(states), actions)[:, -1]
    return np.abs(model.observe(reached) - following).mean(axis=1)


ONE_STEP_ERROR = AtMost(
    marker="one_step_error",
    help="gate this test on the mean error of one step of a learned world model.",
    number="one-step error",
    questions=questions,
    error=error,
    ignorant=lambda observations, _: observations,
    own=(Argument("transitions", whole(10), 500, help="random steps that are predicted"),),
    labels={"ACCURATE": Severity.GOOD, "UNCLEAR": Severity.UNSURE, "INACCURATE": Severity.BAD},
    unit="of one step",
    meaning="The model's next step is off by more than the limit.",
    advice="Train on more transitions, or raise the limit.",
)


def pytest_cpg_gates():
    """Name the kind by its marker."""
    return {ONE_STEP_ERROR.marker: ONE_STEP_ERROR}
