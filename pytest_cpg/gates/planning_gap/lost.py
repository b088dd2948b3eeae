"""Loss: how the episodes were lost that a replay runs again, and what has changed since."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_cpg.contracts.codec import BESIDE, decode
from pytest_cpg.episodes.design import Design, DesignRecord
from pytest_cpg.episodes.traces import Replay
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.world_models import weights_digest

# Of a design: what a replay's own may differ in.
_SHARED = ("planner", "task", "budget", "perturbation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What has to be the same to run lost episodes again.

    Attributes
    ----------
    seed : int
        Of starts and planner noise.
    oracle_steps : tuple of int
        Steps in which the oracle solved each of them; 0 where a model broke before that was known.
    weights : str
        SHA-256 of the learned model's torch weights; empty where it has none.
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
        """Return how a result lost its episodes; there may be none."""
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
        """Rebuild it from its JSON form and the episodes that were lost.

        Raises ValueError when a value is missing, unknown or impossible.
        """
        found = decode(cls, dict(values))
        if len(found.oracle_steps) != len(episodes):
            raise ValueError(
                f"need as many oracle_steps as episodes, got {len(found.oracle_steps)} and "
                f"{len(episodes)}"
            )
        return found

    def changes(self, found: Replay, learned: Any) -> tuple[str, ...]:
        """Say what is not as it was when the episodes were lost."""
        then, now = self.design, found.design
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
    return ", ".join(f"{name} {found}" for name, found in sorted(versions.items()))
