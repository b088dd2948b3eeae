"""Cause: why a gap is there, the numbers that show it, and their JSON form."""

from __future__ import annotations

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
    """One number of a diagnosis, as a line of its table.

    Attributes
    ----------
    estimate, low, high : float or None
        The mean over episodes and Student's 95 % interval; None where it could not be measured.
    text : str
        Its unit and what it is held to, or why there is no number.
    """

    name: str
    estimate: float | None
    low: float | None
    high: float | None
    text: str

    @classmethod
    def of(cls, name: str, interval: Interval | None, text: str) -> Measure:
        """Return the line of an interval."""
        if interval is None:
            return cls(name=name, estimate=None, low=None, high=None, text=text)
        return cls(
            name=name,
            estimate=interval.estimate,
            low=interval.low,
            high=interval.high,
            text=text,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the figures of a diagnosis are drawn from; empty where there is nothing to draw.

    Shapes: ``H`` steps ahead, ``D`` bins, ``P`` plans.

    Attributes
    ----------
    ranking : tuple [H]
        Mean Kendall tau of plans cut at each step, model and truth.
    open_loop : tuple [H]
        Error of the score so many steps ahead along the oracle's plans, as a multiple of how far
        plans spread by then.
    bins : tuple [D+1]
        Edges of distances to the training data, as multiples of the threshold.
    trained, planned : tuple [D]
        Share of training states, and of states visited or imagined, in each bin.
    predicted, actual : tuple [P]
        Score of chosen plans at the step where they promise most.
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

    Attributes
    ----------
    summary, recommendation : str
        The reading that fits and how much better, and what to type.
    is_decisive : bool
        Whether the model's choices lose by it, also without a planner that searches for errors.
    """

    name: str
    summary: str
    recommendation: str
    is_decisive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a gap is there, as far as a sample of decisions shows.

    Attributes
    ----------
    cause, second : Cause
        NONE where nothing is shown beyond doubt; two where both have to be mended.
    summary, recommendation : str
        What was found, with its numbers, and what to do about it.
    misreading : Misreading or None
        How the model is misread; all numbers are those of the model as it is read.
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
        return " and ".join(one.value for one in (self.cause, self.second) if one != Cause.NONE)

    @property
    def is_misread(self) -> bool:
        """Whether a misreading is to be mended before any cause, or there is no other."""
        found = self.misreading
        return found is not None and (found.is_decisive or self.cause == Cause.NONE)
