"""Advice: what to do about a cause, with what a model brings."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cpg.gates.planning_gap.cause import Cause

# Numbers in braces are those of `wording`.
_ADVICE = {
    Cause.ACTION_BLIND: "Check that the action reaches the network (order, units, normalisation) "
    "and that the training data varies it.",
    Cause.NOISE: "Plan with the mean (leave noise_size out), or fit the variance better.",
    Cause.COVERAGE: "Train on transitions where the oracle's plans lead as well, or on those of "
    "this planner.",
    Cause.DYNAMICS_BIAS: "Check {look}, in the model and in what made its training data. More "
    "data or longer training does not mend a wrong constant.",
    Cause.TOO_LITTLE_DATA: "Collect more data, first where plans lead. Longer training fits the "
    "same data more closely, and nothing else.",
    Cause.UNDERFIT: "Train longer, until the loss on the training data stops falling; if it has "
    "stopped, take a larger network. More data helps as far as it brings more steps.",
    Cause.ONE_STEP_ERROR: "Compare the one-step loss on held-out data with that on training data. "
    "Far above it: more data. Both high: longer training, or a larger network. Both low: check "
    "obstacles, constants, units, the time step and the delay of actions.",
    Cause.LOCAL_ERROR: "Replay a lost start: its table names the step at which a plan breaks its "
    "promise. Train on transitions from there.",
    Cause.EXPLOITATION: "Penalise disagreement of an ensemble, or train on transitions of the "
    "plans that were chosen.",
    Cause.COMPOUNDING_ERROR: "Train on rollouts of several steps, or plan {steps}.",
    Cause.PLANNER: "Give it more samples, iterations or horizon before the model is judged.",
}
_ON_MEMORY = (
    "Check update first: what it is given (the action that led to the observation), and that it "
    "keeps what was remembered. "
)
# What is named in place of another cause where the training data is not known.
_ON_DATA = {
    Cause.LOCAL_ERROR: " Give training_data, and the gate says whether plans leave that data.",
    Cause.ONE_STEP_ERROR: " Return Transitions from training_data, and the gate tells which.",
}
_ON_DECODER = (
    "Retrain the decoder on latents that the rollout reaches: the task's score reads what it "
    "decodes."
)


def advice_on(cause: Cause, *, swapped: Sequence[str], has_memory: bool, knows_data: bool) -> str:
    """Return what to do about a cause; empty for NONE."""
    if cause == Cause.SCORE_HEAD:
        return advice_on_score(swapped)
    text = _ADVICE.get(cause, "")
    if cause in (Cause.DYNAMICS_BIAS, Cause.ONE_STEP_ERROR) and has_memory:
        return _ON_MEMORY + text
    return text if knows_data else text + _ON_DATA.get(cause, "")


def advice_on_score(swapped: Sequence[str]) -> str:
    """Return what to do about a model that rates plans wrongly, by what it rates them with."""
    if "decoder" in swapped:
        return _ON_DECODER
    own = [part for part in ("score", "reward", "value") if part in swapped]
    names = {"value": "terminal_value"}
    left_out = " and ".join(names.get(part, part) for part in own)
    return (
        f"Mend its {' and '.join(own)}, or leave out {left_out}: beside a decode(latents) the "
        f"task's score is used."
    )
