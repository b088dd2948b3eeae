"""A kind of gate of one's own: how far a model's next step is off, with a bootstrap interval."""

import numpy as np

from pytest_cpg.gates.arguments import Argument, whole
from pytest_cpg.gates.at_most import AtMost
from pytest_cpg.gates.card import Severity
from pytest_cpg.stats.sampled import Percentile
from pytest_cpg.world_models.transitions import collect_transitions


def sample(asked, model, run):
    """Return the mean error of one step, resampled, and of how many steps."""
    count, seed = asked.values["transitions"], asked.values["seed"]
    steps = collect_transitions(run.task(asked.task), count=count, seed=seed)
    predicted = model(steps.observations, steps.actions)
    errors = np.abs(predicted - steps.next_observations).mean(axis=1)
    rows = np.random.default_rng(seed).integers(count, size=(2000, count))
    means = errors[rows].mean(axis=1)
    return Percentile(estimate=float(errors.mean()), resamples=means), f"{count} steps"


ONE_STEP_ERROR = AtMost(
    marker="one_step_error",
    help="gate this test on the mean error of one step of a learned world model.",
    number="one-step error",
    sample=sample,
    own=(Argument("transitions", whole(10), 500, help="random steps that are predicted"),),
    labels={"ACCURATE": Severity.GOOD, "UNCLEAR": Severity.UNSURE, "INACCURATE": Severity.BAD},
    unit="of one step",
    meaning="The model's next step is off by more than the limit.",
    advice="Train on more transitions, or raise the limit.",
)


def pytest_cpg_gates():
    """Name the kind by its marker."""
    return {ONE_STEP_ERROR.marker: ONE_STEP_ERROR}
