"""A gate's result: the verdict, what it rests on, its JSON form, and how reports write it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.contracts.codec import BESIDE, UNWRITTEN, decode, encode, loads
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.design import DesignRecord
from pytest_cpg.gates import notation
from pytest_cpg.gates.notation import number
from pytest_cpg.gates.planning_gap.cause import Diagnosis
from pytest_cpg.stats import Interval, Verdict, agresti_caffo_interval
from pytest_cpg.stats.intervals import highest_rate
from pytest_cpg.stats.pairing import Pairs
from pytest_cpg.stats.returns import fieller_return_interval, mean_interval, paired_mean_interval

SCHEMA = 2


class Look(NamedTuple):
    """One look at a gate that could have stopped there: a paired z, and what it had to exceed."""

    episodes: int
    statistic: float
    boundary: float


class DeadEnds(NamedTuple):
    """In how many of the failed starts that were looked at the oracle met a dead end."""

    met: int
    tried: int
    #: Whether the score is one number wherever they were, so that it leads nowhere.
    is_flat: bool = False

    @property
    def are_usual(self) -> bool:
        """Whether nearly all of them are: of searches that are too narrow some are, by chance."""
        return 5 * self.met >= 4 * self.tried


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GateResult:
    """What one gate measured, and its verdict."""

    verdict: Verdict
    #: Of the gap, in [-1, 1]: what the verdict is judged by, and an interval that uses that both
    #: arms share their starts. With ``metric="return"`` the first is in units of return.
    interval: Interval
    paired_interval: Interval
    #: Episode ``i`` of each began at the same start; oracle and chance may have run more.
    oracle: Arm
    learned: Arm
    chance: Arm
    #: What was run; in the JSON form its parts stand beside the others.
    design: DesignRecord = field(metadata=BESIDE)
    #: Coverage of the intervals in (0, 1); rates this near to 0 or 1 count as such, [0, 0.5].
    level: float
    tolerance: float
    #: Oracle success rate below which the verdict is PLANNER BOTTLENECK, once it is sure.
    min_oracle: float | None
    #: Of starts and planner noise.
    seed: int
    #: Starts that were replaced, as they were solved already; what the task was reset with.
    starts_skipped: int
    start_seeds: tuple[int, ...]
    #: What the learned arm replaced: ``("dynamics",)`` unless the model brings more.
    swapped: tuple[str, ...]
    #: What a reader must know before trusting the verdict.
    notes: tuple[str, ...]
    #: What is wrong with the model itself, by which a gate fails whatever its verdict.
    faults: tuple[str, ...]
    #: What the verdict was judged by, in one clause; whether it rests on raw rates that may hide a
    #: difference of twice the tolerance.
    evidence: str = ""
    is_weak: bool = False
    #: What random actions would have been called in the learned arm's place; None for a smoke test,
    #: and in results of an earlier pytest-cpg.
    chance_verdict: Verdict | None = None
    #: The largest gap that is no loss; with it a verdict has to be proven.
    margin: float | None = None
    #: ``"fixed"`` or ``"sequential"``; ``"anytime"`` of earlier versions.
    stop: str = "fixed"
    #: Episodes per arm if no look had settled the verdict; None in results of schema 1.
    max_episodes: int | None = None
    #: What bounds the success gap: "agresti-caffo" or a paired method, as in markers.
    method: str = "agresti-caffo"
    #: Empty when all episodes were run.
    looks: tuple[Look, ...] = ()
    #: Gates that share one error rate; the recipe that this model is one checkpoint of.
    family_size: int = 1
    group: str = ""
    #: A check or test whose verdict is always INCONCLUSIVE.
    is_aa: bool = False
    is_smoke: bool = False
    #: SHA-256 of the learned model's torch weights, where they are, the processor that the gate ran
    #: on, and the kernels that libraries chose there.
    weights: str = ""
    device: str = ""
    processor: str = ""
    kernels: Mapping[str, str] = field(default_factory=dict)
    #: How much of the oracle and chance arms was known from earlier sessions.
    reuse: tuple[str, ...] = field(default=(), metadata=UNWRITTEN)
    #: What would have spared whoever waited for the arms; empty where they did not take long.
    sooner: str = field(default="", metadata=UNWRITTEN)
    #: What the task says of its starts, which is among the notes and casts no doubt.
    about_starts: str = field(default="", metadata=UNWRITTEN)
    #: How the task's simulator was put back into each state; empty where it is the task's own.
    restored_by: str = ""
    #: The true dynamics, with plans rated as a model with a score of its own rates them.
    rescored: Arm | None = None
    #: Why the gap is there, and how much plans of its episodes score in the model beyond what they
    #: score in truth, in [-1, 1], as `cpg_plan_quality` has it; None where that was not asked.
    diagnosis: Diagnosis | None = None
    exploitation: Interval | None = None
    #: Failed starts of the oracle arm that end in a minimum of the score, of those looked at.
    dead_ends: DeadEnds | None = None
    #: The goal of each start, where starts have goals of their own.
    start_goals: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        pairs_of(self.oracle, self.learned)
        # Chance runs on where a gate stops early before it is known to see.
        pairs_of(self.oracle, self.chance.first(min(self.oracle.episodes, self.chance.episodes)))

    def __repr__(self) -> str:
        return (
            f"GateResult({self.label}, gap {self.gap:+.2f} [{self.interval.low:+.2f}, "
            f"{self.interval.high:+.2f}], {self.oracle!r}, {self.learned!r})"
        )

    @property
    def label(self) -> str:
        """The verdict, or that there is none to have."""
        if self.is_smoke or self.is_aa:
            return "SMOKE" if self.is_smoke else "A/A"
        return self.verdict.value

    @property
    def gap(self) -> float:
        """Counterfactual Planning Gap: oracle minus learned success rate, in [-1, 1]."""
        (s, n), (t, m) = self.oracle.solved, self.learned.solved
        # One division of whole numbers rounds once: 47 and 37 of 50 differ by 0.2.
        return (s * m - t * n) / (n * m)

    @property
    def normalised_gap(self) -> float | None:
        """The gap as a share of what the oracle adds to chance; None when it adds nothing."""
        headroom = self.oracle.success_rate - self.chance.success_rate
        return self.gap / headroom if headroom > 0 else None

    @property
    def oracle_over_chance(self) -> float:
        """What the oracle adds to random actions, in what the gate judges: rates or returns."""
        if self.design.metric == "success":
            return self.oracle.success_rate - self.chance.success_rate
        oracle, chance = shared_returns(self.oracle, self.chance)
        return float(oracle.mean() - chance.mean())

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms that were run."""
        return (self.oracle, *([self.rescored] if self.rescored else []), self.learned, self.chance)

    @property
    def scoring_loss(self) -> Interval | None:
        """Interval of what the model's own score loses; None where the task's score rates.

        Oracle minus `rescored` success rate (Agresti-Caffo), or mean return where that is judged.
        """
        return self._loss(self.oracle, self.rescored)

    @property
    def dynamics_loss(self) -> Interval | None:
        """Interval of the loss beyond `scoring_loss`: `rescored` minus learned, likewise."""
        return self._loss(self.rescored, self.learned)

    @property
    def scoring_share(self) -> Interval | None:
        """Interval of the share of the gap that the model's own score loses by itself.

        None where the task's score rates, or the gap is not surely above 0 (Fieller).
        """
        if self.rescored is None:
            return None
        arms, count = (self.oracle, self.rescored, self.learned), self.learned.episodes
        is_return = self.design.metric == "return"
        values = [(arm.returns if is_return else 1.0 * arm.successes)[:count] for arm in arms]
        return fieller_return_interval(*values, level=self.level)

    @property
    def pairs(self) -> Pairs:
        """The paired table of the two arms."""
        return pairs_of(self.oracle, self.learned)

    @property
    def is_oracle_too_weak(self) -> bool:
        """Whether the oracle surely solves less than ``min_oracle`` asks for."""
        return is_too_weak(self.oracle, self.min_oracle)

    @property
    def lost_episodes(self) -> tuple[int, ...]:
        """Indices of the episodes that the oracle solved and the learned model did not."""
        solved = self.oracle.successes[: self.learned.episodes]
        return tuple(int(index) for index in self.learned.indices[solved & ~self.learned.successes])

    def _loss(self, better: Arm | None, worse: Arm | None) -> Interval | None:
        if better is None or worse is None:
            return None
        if self.design.metric == "return":
            return return_gap(better, worse, level=self.level) if worse.episodes > 1 else None
        return agresti_caffo_interval(*better.solved, *worse.solved, level=self.level)

    def to_plain(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON form: with the schema, and the gap for who reads no arms."""
        return {"schema": SCHEMA, **values, "gap": self.gap}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a result in its JSON form, or raise ValueError for a newer one."""
        schema = values.get("schema")
        # Schema 1 had one interval, stopping rule and metric: the defaults of what followed.
        if schema not in (1, SCHEMA):
            raise ValueError(
                f"this result has schema {schema!r}, and this pytest-cpg reads up to {SCHEMA}. "
                f"Read it with the pytest-cpg that wrote it, or upgrade: pip install -U pytest-cpg"
            )
        fields = {name: value for name, value in values.items() if name not in ("schema", "gap")}
        # Newcombe's interval was cut: of its results, what a page works out anew takes the likest.
        is_cut = fields.get("method") == "newcombe-paired"
        return fields | {"method": "bonett-price"} if is_cut else fields

    def to_json(self) -> str:
        """Return one line of JSON that `from_json` reads back."""
        return json.dumps(encode(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> GateResult:
        """Rebuild a result from `to_json`, or raise ValueError naming the first wrong value."""
        return decode(cls, loads(text))


def pairs_of(oracle: Arm, learned: Arm) -> Pairs:
    """Count how two arms did on the starts that both began at; the oracle arm may have more.

    Raises ValueError when episodes of one place in the arms did not begin at the same start.
    """
    shared = oracle.indices[: learned.episodes]
    if not np.array_equal(shared, learned.indices):
        raise ValueError(
            f"need arms over the same episodes to pair them, got indices {_ends(shared)} and "
            f"{_ends(learned.indices)}"
        )
    solved = oracle.successes[: learned.episodes]
    both = int((solved & learned.successes).sum())
    return Pairs(
        both=both,
        oracle_only=int(solved.sum()) - both,
        learned_only=learned.success_count - both,
        neither=int((~solved & ~learned.successes).sum()),
    )


def _ends(indices: IntArray) -> str:
    return f"{indices[0]} to {indices[-1]} ({len(indices)})" if len(indices) else "none"


def without_effect(results: Sequence[GateResult]) -> dict[str, str]:
    """Return the options that decided nothing in any of these results, and why."""
    stops_early = {result.stop != "fixed" for result in results}
    in_vain = {}
    if False not in stops_early:
        in_vain["episodes"] = "every gate may stop early, up to its max_episodes"
    if True not in stops_early:
        in_vain["max_episodes"] = "no gate may stop early; --cpg-stop makes them"
    return in_vain


def is_too_weak(oracle: Arm, min_oracle: float | None) -> bool:
    """Say whether an oracle's success rate is surely below what is asked for."""
    # Raw rates would fail a good oracle in every other run.
    return min_oracle is not None and highest_rate_of(oracle) < min_oracle


def highest_rate_of(arm: Arm) -> float:
    """Return the exact upper end of an arm's success rate."""
    return highest_rate(*arm.solved, level=arm.level)


def shared_returns(first: Arm, second: Arm) -> tuple[FloatArray, FloatArray]:
    """Return the returns of two arms on the starts that both began at."""
    shared = min(first.episodes, second.episodes)
    return first.returns[:shared], second.returns[:shared]


def return_gap(oracle: Arm, learned: Arm, *, level: float) -> Interval:
    """Bound the difference of two arms' mean returns on the starts that both began at."""
    return paired_mean_interval(oracle.returns[: learned.episodes], learned.returns, level=level)


def possible_return_gap(oracle: Arm, learned: Arm, chance: Arm, *, level: float) -> float:
    """Return the largest gap in mean returns that starts like none of these leave open.

    A start that was not seen may lose what `worst_of_chance` is; one that loses more is not guarded
    against (docs/statistics.md).
    """
    lost = oracle.returns[: learned.episodes] - learned.returns
    return mean_interval(lost, unseen=worst_of_chance(oracle, chance), level=level).high


def worst_of_chance(oracle: Arm, chance: Arm) -> float:
    """Return the most that random actions lose against the oracle's return of one start."""
    earned, by_chance = shared_returns(oracle, chance)
    return float((earned - by_chance).max())


# Of a hash, enough to tell any two checkpoints apart.
WEIGHT_DIGITS = 16


def gap_text(result: GateResult) -> str:
    """Return the judged gap and its interval, as they are printed everywhere."""
    metric = result.design.metric
    return f"{number(result.interval.estimate, metric)} {ends(result.interval, metric)}"


def ends(interval: Interval, metric: str) -> str:
    """Return an interval of a gap, of success or of returns; its ends keep their side of 0."""
    texts = ((value, number(value, metric)) for value in (interval.low, interval.high))
    low, high = (f"{value:.1g}" if value and not float(text) else text for value, text in texts)
    return f"[{low}, {high}]"


def arm_name(arm: Arm) -> str:
    """Return what an arm is called for readers."""
    return "oracle+score" if arm.name == "rescored" else arm.name


def reached(arm: Arm, metric: str) -> str:
    """Return what an arm earned a start, or how many of its starts it solved."""
    if metric == "return":
        return f"{arm.returns.mean():.4g} a start"
    return f"{arm.success_count}/{arm.episodes}"


def recovery_text(result: GateResult) -> str:
    """Return what went wrong and how each arm recovered from it; empty where nothing did."""
    if not result.design.perturbation:
        return ""
    texts = []
    for arm in result.arms:
        text, interval = "0/0", arm.recovery
        if arm.perturbed is not None and interval is not None:
            count = int((arm.successes & arm.perturbed).sum())
            text = f"{count}/{arm.perturbed.sum()} {notation.ends(interval)}"
        texts.append(f"{arm_name(arm)} {text}")
    name = notation.perturbation_name(result.design.perturbation)
    return f"{name}: recovered {', '.join(texts)}"
