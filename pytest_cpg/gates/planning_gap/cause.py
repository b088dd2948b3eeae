"""Cause: why a gap is there, the numbers that show it, their JSON form, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pytest_cpg.stats import Interval


class Cause(StrEnum):
    """Why a gap is there: what it means and what to do, with numbers of `wording` in braces.

    A terminal has the lines of its ``measures`` beside the usual ones; a page draws its ``figure``
    first.
    """

    meaning: str
    advice: str
    measures: tuple[str, ...]
    figure: str

    def __new__(
        cls,
        value: str,
        meaning: str = "",
        advice: str = "",
        measures: tuple[str, ...] = (),
        figure: str = "ranking",
    ) -> Self:
        """Make a cause that is its name, and knows the rest."""
        cause = str.__new__(cls, value)
        cause._value_, cause.meaning, cause.advice = value, meaning, advice
        cause.measures, cause.figure = measures, figure
        return cause

    ACTION_BLIND = (
        "ACTION BLIND",
        "the model hardly answers to actions: its predictions of different plans "
        "lie {response} as far apart as in truth.",
        "Check that the action reaches the network (order, units, normalisation) "
        "and that the training data varies it.",
        ("response",),
    )
    NOISE = (
        "NOISE",
        "the noise that the model draws decides: without it {noise} of the loss disappears.",
        "Plan with the mean (leave noise_size out), or fit the variance better.",
        ("noise",),
    )
    SCORE_HEAD = (
        "SCORE HEAD",
        "the score is at fault: {scoring}.",
        "",
        ("dynamics",),
    )
    COVERAGE = (
        "COVERAGE",
        "{outside} of the states visited or imagined lie outside the training data. "
        "There, predictions {window} steps ahead are off by {outside_error} times the effect of a "
        "plan; {inside}.",
        "Train on a mixture that leads there, too: shares of random actions, of a planner with "
        "this model and of other policies (collect_transitions). On cartpole-swingup a planner's "
        "transitions alone were not enough.",
        ("places",),
        "coverage",
    )
    DYNAMICS_BIAS = (
        "DYNAMICS BIAS",
        "{term}: single steps are off by {one_step} of what a step changes, and "
        "{claim} leaves {left} of that, in states that it was not fitted on.",
        "Check {look}, in the model and in what made its training data. More "
        "data or longer training does not mend a wrong constant.",
        ("places",),
        "open loop",
    )
    TOO_LITTLE_DATA = (
        "TOO LITTLE DATA",
        "single steps are off by {one_step} of what a step changes where plans lead, and by "
        "{trained} on the training data beside them, {times} times less: it was learned by heart.",
        "Collect more data, and not only where plans lead. Longer training fits the "
        "same data more closely, and nothing else.",
        ("one step", "trained"),
        "open loop",
    )
    UNDERFIT = (
        "UNDERFIT",
        "single steps are off by {one_step} of what a step changes where plans lead, "
        "and by {trained} already on the training data beside them: that was not learned.",
        "Train longer, until the loss on the training data stops falling; if it has "
        "stopped, take a larger network. More data helps as far as it brings more steps.",
        ("one step", "trained"),
        "open loop",
    )
    ONE_STEP_ERROR = (
        "ONE-STEP ERROR",
        "predictions {window} steps ahead are off by {window_error} times the "
        "effect of a plan. With true steps {places} of the loss disappears.",
        "Compare the one-step loss on held-out data with that on training data. "
        "Far above it: more data. Both high: longer training, or a larger network. Both low: check "
        "obstacles, constants, units, the time step and the delay of actions.",
        ("places",),
        "open loop",
    )
    LOCAL_ERROR = (
        "LOCAL ERROR",
        "the model is wrong at {bad_windows} of the places that plans lead through"
        "{others}. With true steps at the wrong ones {places} of the loss disappears.",
        "Replay a lost start: its table names the step at which a plan breaks its "
        "promise. Train on transitions from there, too.",
        ("places",),
        "open loop",
    )
    EXPLOITATION = (
        "EXPLOITATION",
        "the planner finds what only the model believes: with the truth where most "
        "is promised {promises} of the loss disappears.",
        "Penalise disagreement of an ensemble, or train on transitions of the "
        "plans that were chosen, too.",
        ("promises",),
        "promises",
    )
    COMPOUNDING_ERROR = (
        "COMPOUNDING ERROR",
        "small errors grow: predictions {window} steps ahead are off by {window_error} times the "
        "effect of a plan. With the truth every {window} steps {restarts} of the loss disappears.",
        "Train on rollouts of several steps, or plan {steps}.",
        ("restarts",),
        "open loop",
    )
    PLANNER = (
        "PLANNER",
        "with four times the search the oracle solves {solved} of {tried} starts that "
        "it had failed: the planner looks at too little.",
        "Give it more samples, iterations or horizon before the model is judged.",
        ("planner",),
    )
    NOT_SEEN = (
        "DOES NOT SEE",
        "the encoder does not tell what is in its pictures: {unseen}.",
        "Look at the encoder and at what it was trained on: the size and camera of its frames, "
        "their order in a stack, and whether its loss needs what they show.",
        ("unseen",),
    )
    NOT_PREDICTED = (
        "DOES NOT PREDICT",
        "the encoder tells {seen} of what is observed, and what is imagined from there is off by "
        "{off} times what real steps change.",
        "Train the dynamics longer, or on rollouts of several steps; check that actions are given "
        "with the frames that they follow.",
        ("imagined",),
    )
    NOT_RATED = (
        "DOES NOT RATE",
        "what is imagined is off by {off} times what real steps change, and yet plans are ranked "
        "with a tau of {ranking}: what rates them is at fault.",
        "Mend what rates plans, its score, reward, value or cost, on latents that the rollout "
        "reaches.",
        ("ranking",),
    )
    NONE = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number of a diagnosis: the mean over episodes and its 95 % interval, where it has one.

    ``text`` is its unit and what it is held to, or why there is no number.
    """

    name: str
    estimate: float | None
    low: float | None
    high: float | None
    text: str

    @classmethod
    def of(cls, name: str, interval: Interval | None, text: str) -> Measure:
        """Return the line of an interval."""
        ends = ("estimate", "low", "high")
        return cls(name=name, text=text, **{end: getattr(interval, end, None) for end in ends})


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the figures of a diagnosis are drawn from; empty where there is nothing to draw."""

    #: [H]: At each step ahead, mean Kendall tau of plans cut there, model and truth, and the error
    #: of the score along the oracle's plans, as a multiple of how far plans spread by then.
    ranking: tuple[float, ...] = ()
    open_loop: tuple[float, ...] = ()
    #: [D+1] and [D]: Edges of distances to the training data, as multiples of the threshold, and
    #: the share of training states, and of states visited or imagined, in each bin.
    bins: tuple[float, ...] = ()
    trained: tuple[float, ...] = ()
    planned: tuple[float, ...] = ()
    #: [P]: Score of chosen plans at the step where they promise most.
    predicted: tuple[float, ...] = ()
    actual: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Misreading:
    """How a model is misread: it would be right if it were asked, or its answers read, otherwise.

    ``is_decisive`` where the model's choices lose by it.
    """

    name: str
    summary: str
    recommendation: str
    is_decisive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a gap is there, as far as a sample of decisions shows.

    Its causes are NONE where nothing is shown beyond doubt, and two where both have to be mended.
    All numbers of a model that is misread are those of the model as it is read.
    """

    cause: Cause
    summary: str
    recommendation: str
    measures: tuple[Measure, ...] = ()
    profile: Profile = Profile()
    episodes: tuple[int, ...] = ()
    decisions: int = 0
    seconds: float = 0.0
    misreading: Misreading | None = None
    second: Cause = Cause.NONE

    @property
    def named(self) -> str:
        """The cause, or both; empty where there is none to name."""
        return " and ".join(cause for cause in (self.cause, self.second) if cause != Cause.NONE)

    @property
    def is_misread(self) -> bool:
        """Whether a misreading is to be mended before any cause, or there is no other."""
        misreading = self.misreading
        return misreading is not None and (misreading.is_decisive or self.cause == Cause.NONE)


_ON_MEMORY = (
    "Check update first: what it is given (the action that led to the observation), and that it "
    "keeps what was remembered. "
)
# What is named in place of another cause where the training data is not known.
_ON_DATA = {
    Cause.LOCAL_ERROR: " Give training_data, and the gate says whether plans leave that data.",
    Cause.ONE_STEP_ERROR: " Return Transitions from training_data, and the gate tells which.",
}


def advice_on(
    cause: Cause, *, swapped: Sequence[str], has_memory: bool, knows_data: bool, fault: str = ""
) -> str:
    """Return what to do about a cause; empty for NONE.

    The ``fault`` is why training data that was given tells nothing.
    """
    if cause == Cause.SCORE_HEAD:
        return advice_on_score(swapped)
    text = cause.advice
    if cause in (Cause.DYNAMICS_BIAS, Cause.ONE_STEP_ERROR) and has_memory:
        return _ON_MEMORY + text
    if knows_data or cause not in _ON_DATA:
        return text
    return text + (f" Your {fault}." if fault else _ON_DATA[cause])


def advice_on_score(swapped: Sequence[str]) -> str:
    """Return what to do about a model that rates plans wrongly, by what it rates them with."""
    if "decoder" in swapped:
        return (
            "Retrain the decoder on latents that the rollout reaches: the task's score reads what "
            "it decodes."
        )
    parts = " and ".join(part for part in ("score", "reward", "value") if part in swapped)
    return (
        f"Mend its {parts}, or leave out {parts.replace('value', 'terminal_value')}: beside a "
        f"decode(latents) the task's score is used."
    )
