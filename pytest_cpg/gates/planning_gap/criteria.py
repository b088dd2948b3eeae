"""Criteria: what the gap of a design is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.stopping import StopMode, StoppingRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What the gap of a design is judged by; `Design` says what is run.

    `GateResult` has the same, and says what each is.

    Attributes
    ----------
    interval : str
        What bounds the gap of a fixed number of episodes: "agresti-caffo" or a paired method.
    """

    tolerance: float = 0.05
    min_oracle: float | None = None
    interval: str = "agresti-caffo"
    margin: float | None = None
    stop: StopMode = "fixed"
    family_size: int = 1
    group: str = ""
    is_aa: bool = False
    is_smoke: bool = False

    @property
    def method(self) -> str:
        """What bounds the gap in the end: rules that may stop early have an interval of their own.

        For those it is the fixed-size method that theirs comes from.
        """
        if self.stop == "fixed":
            return self.interval
        return "bonett-price" if self.margin is None else "tango"

    def gap_level(self, design: Design) -> float:
        """Return the coverage of the gap's interval: Bonferroni's share of the family's error."""
        return 1 - (1 - design.level) / self.family_size

    def rule(self, design: Design) -> StoppingRule:
        """Return when outcomes are looked at."""
        return StoppingRule(
            stop=self.stop,
            episodes=design.episodes,
            method=self.interval,
            level=self.gap_level(design),
            margin=self.margin,
        )
