"""Cause: why a gap is there, the numbers that show it, their JSON form, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_cpg.stats import Interval


class Cause(StrEnum):
    """Why a gap is there."""

    ACTION_BLIND = "ACTION BLIND"
    NOISE = "NOISE"
    SCORE_HEAD = "SCORE HEAD"
    COVERAGE = "COVERAGE"
    DYNAMICS_BIAS = "DYNAMICS BIAS"
    TOO_LITTLE_DATA = "TOO LITTLE DATA"
    UNDERFIT = "UNDERFIT"
    ONE_STEP_ERROR = "ONE-STEP ERROR"
    LOCAL_ERROR = "LOCAL ERROR"
    COMPOUNDING_ERROR = "COMPOUNDING ERROR"
    EXPLOITATION = "EXPLOITATION"
    PLANNER = "PLANNER"
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
    """What the figures of a diagnosis are drawn from; empty where there is nothing to draw.

    - ``ranking``, ``open_loop`` [H]: at each step ahead, mean Kendall tau of plans cut there, model
      and truth, and the error of the score along the oracle's plans, as a multiple of how far plans
      spread by then.
    - ``bins`` [D+1], ``trained``, ``planned`` [D]: edges of distances to the training data, as
      multiples of the threshold, and the share of training states, and of states visited or
      imagined, in each bin.
    - ``predicted``, ``actual`` [P]: score of chosen plans at the step where they promise most.
    """

    ranking: tuple[float, ...] = ()
    open_loop: tuple[float, ...] = ()
    bins: tuple[float, ...] = ()
    trained: tuple[float, ...] = ()
    planned: tuple[float, ...] = ()
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
        return (
            "Retrain the decoder on latents that the rollout reaches: the task's score reads what "
            "it decodes."
        )
    parts = " and ".join(part for part in ("score", "reward", "value") if part in swapped)
    return (
        f"Mend its {parts}, or leave out {parts.replace('value', 'terminal_value')}: beside a "
        f"decode(latents) the task's score is used."
    )
