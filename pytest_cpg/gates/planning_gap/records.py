"""Records: what is kept of a result that was accepted, and of episodes that were lost."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_cpg.contracts.codec import BESIDE, decode, encode
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.design import Design, DesignRecord
from pytest_cpg.episodes.traces import Replay
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import weights_digest

# What is written for who reads a diff, and follows from the rest.
_DERIVED = ("design_hash", "gap", "oracle_successes", "learned_successes")
# Of a design: what a replay's own may differ in.
_SHARED = ("planner", "task", "budget", "perturbation")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineGate:
    """The last accepted result of one gate.

    Attributes
    ----------
    oracle, learned : str
        Outcome of each episode, ``"1"`` for a success. The oracle arm may have run more.
    oracle_mean_return, learned_mean_return : float
        In reward units, to six digits.
    learned_returns : tuple of float
        Return of each episode, to six digits; only of gates judged by returns.
    kernels : mapping
        Library to the kernels it chose there.
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
    def of_broken(cls, design: Design, learned: Any) -> Loss:
        """Return what has to be the same to break a model again in one episode."""
        weights = weights_digest(learned)
        return cls(design=design.record, seed=int(design.seed), oracle_steps=(0,), weights=weights)

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
