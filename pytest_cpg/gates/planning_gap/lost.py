"""Loss: how the episodes were lost that a replay runs again, and what has changed since."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_cpg.contracts.codec import decode
from pytest_cpg.episodes.arm import Metric
from pytest_cpg.episodes.design import StartMode
from pytest_cpg.world_models import weights_digest

if TYPE_CHECKING:
    from pytest_cpg.episodes.traces import Replay
    from pytest_cpg.gates.planning_gap.result import GateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What has to be the same to run lost episodes again.

    Attributes
    ----------
    task, planner : str
        The task's name, and the planner with all its settings.
    budget : int
        Steps an episode may take.
    seed : int
        Of starts and planner noise.
    starts : "sampled" or "fixed"
    metric : "success" or "return"
    oracle_steps : tuple of int
        Steps in which the oracle solved each of them.
    weights : str
        SHA-256 of the learned model's torch weights; empty where it has none.
    versions : mapping
        Package name to version.
    perturbation : str
        The name of what went wrong in real steps; empty for nothing.
    """

    task: str
    planner: str
    budget: int
    seed: int
    starts: StartMode
    metric: Metric
    oracle_steps: tuple[int, ...]
    weights: str
    versions: Mapping[str, str]
    perturbation: str = ""

    def __post_init__(self) -> None:
        least = {"budget": 1, "seed": 0}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise ValueError(f"need a {name} of at least {lowest}, got {getattr(self, name)}")
        if min(self.oracle_steps, default=1) < 1:
            steps = reprlib.repr(self.oracle_steps)
            raise ValueError(f"need oracle_steps of at least 1, got {steps}")

    @classmethod
    def of(cls, result: GateResult) -> Loss:
        """Return how a result lost its episodes; there may be none."""
        solved_at = dict(zip(result.oracle.indices, result.oracle.steps, strict=True))
        return cls(
            task=result.task,
            planner=result.planner,
            budget=result.budget,
            seed=int(result.seed),
            starts="fixed" if result.starts == "fixed" else "sampled",
            metric=result.metric,
            oracle_steps=tuple(int(solved_at[episode]) for episode in result.lost_episodes),
            weights=result.weights,
            versions=dict(result.versions),
            perturbation=result.perturbation,
        )

    @classmethod
    def read(cls, values: Mapping[str, Any], *, episodes: Sequence[int]) -> Loss:
        """Rebuild it from its JSON form and the episodes that were lost.

        Raises
        ------
        ValueError
            When a value is missing, unknown or impossible.
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
        now = found.design
        pairs = [
            ("planner", self.planner, now.planner),
            ("task", self.task, now.task),
            ("budget", self.budget, now.budget),
            ("perturbation", self.perturbation, now.perturbation),
            ("versions", _joined(self.versions), _joined(now.versions)),
            ("weights", self.weights[:12], weights_digest(learned)[:12]),
        ]
        return tuple(
            f"{what}: {then or 'none'} when these episodes were lost, now {today or 'none'}"
            for what, then, today in pairs
            if (then or None) != (today or None)
        )


def _joined(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {found}" for name, found in sorted(versions.items()))
