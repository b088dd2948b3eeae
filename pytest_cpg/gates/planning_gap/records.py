"""Records: what is kept of a result, and what has changed since one was accepted."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_cpg.contracts.codec import BESIDE, decode, encode
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.design import DesignRecord
from pytest_cpg.episodes.replay import Replay
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import Finding, named
from pytest_cpg.gates.notation import with_ends
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.stats import Verdict, agresti_caffo_interval
from pytest_cpg.stats.paired import exact_mcnemar_p_value, fewest_significant_losses
from pytest_cpg.stats.returns import paired_mean_interval
from pytest_cpg.world_models import weights_digest

# What is written for who reads a diff, and follows from the rest.
_DERIVED = ("design_hash", "gap", "oracle_successes", "learned_successes")
# Of a design: what a replay's own may differ in.
_SHARED = ("planner", "task", "budget", "perturbation")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineGate:
    """The last accepted result of one gate.

    Outcomes are ``"1"`` for each success; the oracle arm may have run more. Returns are in reward
    units, to six digits; those of each episode only of gates judged by returns.
    """

    design: DesignRecord
    seed: int
    oracle: str
    learned: str
    oracle_mean_return: float
    learned_mean_return: float
    level: float
    verdict: Verdict
    model: str = ""
    learned_returns: tuple[float, ...] = ()
    processor: str = ""
    kernels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("oracle", "learned"):
            outcomes = getattr(self, name)
            if not outcomes or set(outcomes) - {"0", "1"}:
                raise ValueError(
                    f"need a 0 or 1 for each {name} episode, got {reprlib.repr(outcomes)}"
                )
        if len(self.oracle) < len(self.learned):
            raise ValueError(
                f"need at least as many oracle as learned episodes, got {len(self.oracle)} and "
                f"{len(self.learned)}"
            )
        if not 0 < self.level < 1:
            raise ValueError(f"need a level between 0 and 1, got {self.level!r}")
        wanted = len(self.learned) if self.design.metric == "return" else 0
        if len(self.learned_returns) != wanted:
            raise ValueError(f"need {wanted} learned_returns, got {len(self.learned_returns)}")
        for value in (self.oracle_mean_return, self.learned_mean_return, *self.learned_returns):
            if not math.isfinite(value):
                raise ValueError(f"need finite returns, got {value!r}")

    @classmethod
    def of(cls, result: GateResult) -> BaselineGate:
        """Return what is kept of a gate's result."""
        returns = result.learned.returns if result.design.metric == "return" else ()
        return cls(
            design=result.design,
            seed=result.seed,
            oracle=_outcomes(result.oracle),
            learned=_outcomes(result.learned),
            oracle_mean_return=_mean_return(result.oracle),
            learned_mean_return=_mean_return(result.learned),
            learned_returns=tuple(_six_digits(value) for value in returns),
            level=result.level,
            verdict=result.verdict,
            processor=result.processor,
            kernels=dict(result.kernels),
        )

    @property
    def oracle_arm(self) -> tuple[int, int]:
        """Successes and episodes of the oracle arm."""
        return self.oracle.count("1"), len(self.oracle)

    @property
    def learned_arm(self) -> tuple[int, int]:
        """Successes and episodes of the learned arm."""
        return self.learned.count("1"), len(self.learned)

    @property
    def gap(self) -> float:
        """Oracle minus learned success rate, in [-1, 1]."""
        (s, n), (t, m) = self.oracle_arm, self.learned_arm
        return (s * m - t * n) / (n * m)

    def to_plain(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON form, with what a reader of a diff looks for."""
        # Files from before they were recorded have neither.
        if not (self.processor or self.kernels):
            del values["processor"], values["kernels"]
        return {
            **values,
            "design": self.design.key,
            "design_hash": self.design.short_hash,
            "gap": self.gap,
            "oracle_successes": "{}/{}".format(*self.oracle_arm),
            "learned_successes": "{}/{}".format(*self.learned_arm),
        }

    @classmethod
    def read(cls, values: Mapping[str, Any], *, commit: str) -> BaselineGate:  # noqa: ARG003
        """Rebuild a gate from its JSON form; ValueError where a value does not fit the others."""
        gate = decode(cls, {name: value for name, value in values.items() if name not in _DERIVED})
        # Nothing that was edited by hand is dropped or contradicts the rest.
        expected = encode(gate)
        for name in sorted({*values, *expected}):
            if name not in expected:
                raise ValueError(f"{name} is no name of a value")
            if values.get(name) != expected[name]:
                raise ValueError(
                    f"{name} is {reprlib.repr(values.get(name))}, and the other values give "
                    f"{reprlib.repr(expected[name])}"
                )
        return gate


def _outcomes(arm: Arm) -> str:
    return "".join("01"[success] for success in arm.successes.tolist())


def _mean_return(arm: Arm) -> float:
    # Divided first: the sum of large returns may have no number.
    return _six_digits(float((arm.returns / arm.episodes).sum()))


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What has to be the same to run lost episodes again.

    ``oracle_steps`` are those in which the oracle solved each of them; 0 where a model broke before
    that was known. ``weights`` are as of `GateResult`.
    """

    design: DesignRecord = field(metadata=BESIDE)
    seed: int
    oracle_steps: tuple[int, ...]
    weights: str

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"need a seed of at least 0, got {self.seed}")
        if min(self.oracle_steps, default=0) < 0:
            steps = reprlib.repr(self.oracle_steps)
            raise ValueError(f"need oracle_steps of at least 0, got {steps}")

    @classmethod
    def of(cls, result: GateResult) -> Loss:
        """Return how a result lost its episodes."""
        solved_at = dict(zip(result.oracle.indices, result.oracle.steps, strict=True))
        return cls(
            design=result.design,
            seed=result.seed,
            oracle_steps=tuple(int(solved_at[episode]) for episode in result.lost_episodes),
            weights=result.weights,
        )

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a loss in its JSON form; of an earlier pytest-cpg it lacks two."""
        return {"horizon": 0, "control_period": 0.0, **values}

    @classmethod
    def read(cls, values: Mapping[str, Any], *, episodes: Sequence[int]) -> Loss:
        """Rebuild it from its JSON form and the lost episodes; ValueError for a wrong value."""
        loss = decode(cls, dict(values))
        if len(loss.oracle_steps) != len(episodes):
            raise ValueError(
                f"need as many oracle_steps as episodes, got {len(loss.oracle_steps)} and "
                f"{len(episodes)}"
            )
        return loss

    def changes(self, replay: Replay, learned: Any) -> tuple[str, ...]:
        """Say what is not as it was when the episodes were lost."""
        then, now = self.design, replay.design
        pairs = [
            *((name, getattr(then, name), getattr(now, name)) for name in _SHARED),
            ("versions", _joined(then.versions), _joined(now.versions)),
            ("weights", self.weights[:12], weights_digest(learned)[:12]),
        ]
        return tuple(
            f"{what}: {old or 'none'} when these episodes were lost, now {new or 'none'}"
            for what, old, new in pairs
            if (old or None) != (new or None)
        )


def _joined(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


# Characters of one difference, and of a processor and its kernels.
_MOST_SIGNS, _MOST_OF_MACHINE = 1000, 500
# Smaller p-values have no digits that matter.
_SURE = 0.001


def compare(gate: BaselineGate | None, result: GateResult) -> Drift:
    """Compare a result with the one that was accepted.

    - NEW: there is none.
    - INCOMPARABLE: it was measured under another design, of which an older simulator is one, or by
      returns from other starts.
    - UNCHANGED: no start was lost or gained; from other starts, the success rates are equal.
    - REGRESSED, IMPROVED: it is significant at the result's level, two-sided. With the same
      seed episode ``i`` began at the same start, and the starts that both learned arms ran are
      compared by McNemar's exact test, their returns by Student's paired interval. With another
      seed the rates are, by the Agresti-Caffo interval of two independent arms.
    - UNRESOLVED: there is a difference, and chance explains it.
    """
    now = BaselineGate.of(result)
    if gate is None:
        return Drift.new(now=_followed(now))
    is_other = gate.seed != now.seed or gate.design.short_hash != now.design.short_hash
    # With the same starts, noise and dynamics, whatever changed the oracle arm changed both.
    moved = None if is_other else sum(map(operator.ne, gate.oracle, now.oracle))
    elsewhere = _elsewhere(gate, now, moved)
    differs = [*gate.design.changes(now.design), *_changed_run(gate, now)]
    # A file may say anything, at any length.
    differs = [difference[:_MOST_SIGNS] for difference in differs]
    # Another processor on which the oracle arm is the same is told beside news, and is none.
    news = [*differs, elsewhere] if elsewhere else differs
    differs = news if moved else differs
    drift = _compared(gate, now, result.level)
    beside = f"; {', '.join(news)}" if news else ""
    solved, episodes = gate.learned_arm
    return replace(
        drift,
        text=f"{drift.text}{beside}",
        was=_followed(gate),
        now=_followed(now),
        cell="" if gate.design.metric == "return" else _cell(gate),
        then={} if drift.label is Label.INCOMPARABLE else {"learned": solved / episodes},
        # Of a start that was not run then, nobody knows.
        worse=drift.worse if len(gate.learned) >= len(now.learned) else None,
        better=drift.better if len(gate.learned) >= len(now.learned) else None,
        differs=tuple(differs),
    )


def unprovable(accepted: Mapping[str, BaselineGate]) -> list[Finding]:
    """Name accepted gates that solve so few starts that chance explains the loss of all of them."""
    levels = {gate.level for gate in accepted.values()}
    least = {level: fewest_significant_losses(level=level) for level in levels}
    few = [
        f"{name} ({gate.learned_arm[0]} solved, {least[gate.level]} needed)"
        for name, gate in accepted.items()
        if gate.design.metric == "success" and gate.learned_arm[0] < least[gate.level]
    ]
    if not few:
        return []
    return [
        Finding(
            f"baseline: {named(few)} can never read REGRESSED on these starts: chance explains the "
            f"loss of so few"
        )
    ]


def _cell(gate: BaselineGate) -> str:
    solved, episodes = gate.learned_arm
    if gate.design.metric == "return":
        return f"{gate.learned_mean_return:.4g}"
    return f"{solved / episodes:.2f}"


def _followed(gate: BaselineGate) -> str:
    """Return the starts that the model solved, as 46/50, or its mean return."""
    return _cell(gate) if gate.design.metric == "return" else "{}/{}".format(*gate.learned_arm)


def _reached(gate: BaselineGate) -> str:
    of_return = gate.design.metric == "return"
    return f"mean return {_cell(gate)}" if of_return else "{} of {}".format(*gate.learned_arm)


def _changed_run(then: BaselineGate, now: BaselineGate) -> Iterator[str]:
    if then.seed != now.seed:
        yield f"seed {then.seed} -> {now.seed}"
    learned, oracle = (len(then.learned), len(now.learned)), (len(then.oracle), len(now.oracle))
    for name, (before, after) in {"episodes": learned, "oracle episodes": oracle}.items():
        if before != after and (name == "episodes" or oracle != learned):
            yield f"{name} {before} -> {after}"
    if then.level != now.level:
        yield f"level {then.level:g} -> {now.level:g}"


def _elsewhere(then: BaselineGate, now: BaselineGate, moved: int | None) -> str:
    """Say on which other processor a gate was run, and what that did to the oracle arm."""
    # Only libraries that both have loaded tell kernels apart.
    libraries = [name for name in then.kernels if name in now.kernels]

    def machine(gate: BaselineGate) -> str:
        chosen = ", ".join(f"{name} {gate.kernels[name]}" for name in libraries)
        return f"{gate.processor} ({chosen})" if chosen else gate.processor

    was, where, starts = machine(then), machine(now), f"start{'s'[: moved != 1]}"
    if not then.processor or not now.processor or was == where:
        return f"oracle arm changed on {moved} {starts}" if moved else ""
    # Of a file that may say anything, at any length.
    text = f"accepted on {was[:_MOST_OF_MACHINE]}, run on {where[:_MOST_OF_MACHINE]}"
    return text if moved is None else f"{text}: {moved} oracle {starts} moved"


def _compared(then: BaselineGate, now: BaselineGate, level: float) -> Drift:
    """Return what two results say, before anything else that differs is told."""
    if then.design.short_hash != now.design.short_hash:
        return Drift(label=Label.INCOMPARABLE, text=f"{_reached(then)} under another design")
    if then.design.metric == "return":
        common = min(len(then.learned), len(now.learned))
        if then.seed != now.seed or common < 2:
            text = f"{_reached(then)}, and returns are compared on two or more common starts"
            return Drift(label=Label.INCOMPARABLE, text=text)
        old, new = then.learned_returns[:common], now.learned_returns[:common]
        drop = paired_mean_interval(old, new, level=level)
        text = (
            f"mean return {_cell(then)} -> {_cell(now)}, on common starts a drop of "
            f"{with_ends(drop, '.3g')}"
        )
        label = Label.of(drop.low, drop.high, is_same=old == new)
        return Drift(label=label, text=text, interval=drop)
    (was, of), (solved, episodes) = then.learned_arm, now.learned_arm
    text = f"{was}{f' of {of}' * (of != episodes)} -> {solved} of {episodes}"
    if then.seed != now.seed:
        drop = agresti_caffo_interval(was, of, solved, episodes, level=level)
        text = f"{text} other starts, a drop of {with_ends(drop)}"
        label = Label.of(drop.low, drop.high, is_same=drop.estimate == 0)
        return Drift(label=label, text=text, interval=drop)
    shared = list(zip(then.learned, now.learned, strict=False))
    worse, better = (
        tuple(start for start, pair in enumerate(shared) if pair == change)
        for change in (("1", "0"), ("0", "1"))
    )
    lost, gained = len(worse), len(better)
    p = exact_mcnemar_p_value(lost=lost, gained=gained)
    shown = f"p = {p:.2g}" if p >= _SURE else f"p < {_SURE:g}"
    change = f", lost {lost} start{'s'[: lost != 1]}, gained {gained} ({shown})"
    label = Label.REGRESSED if lost > gained else Label.IMPROVED
    if lost == gained == 0:
        label, change = Label.UNCHANGED, ", no start lost or gained"
    elif p > 1 - level:
        label = Label.UNRESOLVED
    return Drift(
        label=label,
        text=text + change,
        worse=worse,
        better=better,
        lost=lost,
        gained=gained,
        p_value=p,
    )
