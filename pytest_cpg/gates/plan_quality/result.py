"""Result: where plans stand in the model and in truth, and all that they are judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.episodes.design import DesignRecord
from pytest_cpg.gates.card import AA_CHECK, SMOKE_TEST
from pytest_cpg.gates.plan_quality.formulas import Search
from pytest_cpg.stats import Interval
from pytest_cpg.stats.returns import mean_interval

FEWEST_EPISODES = 2
"""The fewest that have an interval."""
# Of a harmless episode: its plans are as good in truth as in the model, or the best in truth, where
# random ones are the worst.
AGREEING, PERFECT = 0.0, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What plans are judged by: the marker's arguments, the level corrected for the family.

    ``min_score`` is of reports that earlier versions wrote. ``has_goal`` says whether anything
    tells when an episode has succeeded; ``is_aa`` that the true dynamics stand for the model.
    """

    k: int = 24
    neighbours: Search = "random"
    max_exploitation: float = 0.1
    min_score: float | None = None
    level: float = 0.95
    family_size: int = 1
    has_goal: bool = True
    is_aa: bool = False
    is_smoke: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Two scores in [0, 1] of each episode [E] that has some: the means over its decisions."""

    episodes: IntArray
    first: FloatArray
    second: FloatArray

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def differences(self) -> Scores:
        """First minus second."""
        return Scores(self.episodes, self.first - self.second)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A score of each episode [E] with a decision to score, in [0, 1]; differences in [-1, 1]."""

    episodes: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.episodes)

    def mean(self, level: float, *, unseen: float, least: float) -> Interval | None:
        """Bound the mean by `mean_interval`, in [least, 1]; None of fewer than two episodes."""
        if len(self) < FEWEST_EPISODES:
            return None
        interval = mean_interval(self.values, unseen=unseen, level=level)
        return replace(interval, low=max(least, interval.low), high=min(1.0, interval.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A decision: steps taken before, and the score of what was chosen, in the model and in truth.

    ``regret`` is what the best neighbour is worth more in truth, in the units that plans are rated
    in.
    """

    episode: int
    at: int
    imagined: float
    true: float
    regret: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many decisions were scored, and of how many something holds, in the model and in truth.

    Flat are those where one changed action changes nothing, so that nothing is said of them; those
    that beat are worth more than each neighbour.
    """

    decisions: int
    flat_imagined: int
    flat_true: int
    beats_imagined: int
    beats_true: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanQualityResult:
    """What the fixture ``cpg_plan_quality`` gives.

    ``worlds`` are scores in the model and in truth, of decisions where plans differ from their
    neighbours in both; ``truth`` of those where they differ there; ``chance`` scores in truth of
    what was chosen and of random plans, where both differ. ``regret`` is the mean in truth, in the
    units that plans are rated in.

    The ``worst`` decisions have the most exploitation, and of those the most regret; none is as
    good in truth as in the model. ``solved`` episodes succeeded. ``faults`` are why model or setup
    are broken: of such a model nothing else is said.
    """

    design: DesignRecord
    seed: int
    episodes: int
    criteria: Criteria
    worlds: Pairs
    truth: Scores
    chance: Pairs
    counts: Counts
    regret: float
    worst: tuple[Place, ...]
    solved: int
    faults: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def level(self) -> float:
        """Of its intervals."""
        return self.criteria.level

    @property
    def check(self) -> str:
        """What was run in place of a gate."""
        return SMOKE_TEST if self.criteria.is_smoke else AA_CHECK if self.criteria.is_aa else ""

    @property
    def exploitation(self) -> Interval | None:
        """Score in the model minus score in truth, in [-1, 1].

        None where fewer than two episodes have such a decision.
        """
        values = self.worlds.differences
        return values.mean(self.criteria.level, unseen=AGREEING, least=-1.0)

    @property
    def score(self) -> Interval | None:
        """Score in truth, in [0, 1]; None as for exploitation."""
        return self.truth.mean(self.criteria.level, unseen=PERFECT, least=0.0)

    @property
    def above_chance(self) -> Interval | None:
        """Score in truth minus that of random plans there, in [-1, 1]; None as for exploitation."""
        return self.chance.differences.mean(self.criteria.level, unseen=PERFECT, least=-1.0)

    @property
    def episodes_known(self) -> int:
        """How many episodes have plans, and random ones, that one changed action changes."""
        return min(len(self.worlds), len(self.chance))

    @property
    def is_flat(self) -> bool:
        """Whether in most episodes one changed action changes nothing, so that nothing is judged.

        A planner that sees no plan better than another chooses by nothing.
        """
        bounds = (self.exploitation, self.score, self.above_chance)
        return 2 * self.episodes_known < self.episodes or None in bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptPlans:
    """The scores that were accepted last, each as the result has it.

    Earlier ones had no plan of the truth among their neighbours, and bear another name of them.
    """

    design: DesignRecord
    seed: int
    k: int
    neighbours: str
    worlds: Pairs
    truth: Scores

    @classmethod
    def of(cls, result: PlanQualityResult) -> KeptPlans:
        """Return what is kept of a result."""
        return cls(
            design=result.design,
            seed=result.seed,
            k=result.criteria.k,
            neighbours=f"{result.criteria.neighbours} and the truth's",
            worlds=result.worlds,
            truth=result.truth,
        )

    @property
    def exploitation(self) -> Scores:
        """Of each episode: in the model beyond that in truth."""
        return self.worlds.differences
