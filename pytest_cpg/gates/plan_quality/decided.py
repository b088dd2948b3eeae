"""Decided: what a planner decided with a learned model, and where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Plans
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.decisions import Decision, Decisions
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.stage import Progress
from pytest_cpg.episodes.starts import Starts
from pytest_cpg.world_models import BoundModel

# Of an episode, evenly from its first to its last.
_MOST_DECISIONS = 10


class Decided(NamedTuple):
    """Decisions of an arm.

    Attributes
    ----------
    plans : array [N, H, A]
        What was chosen.
    arm : Arm
        What became of it.
    """

    decisions: Decisions
    plans: FloatArray
    arm: Arm

    def sampled(self) -> Decided:
        """Return up to ten decisions of each episode, the first and the last among them."""
        # Of one episode together, in the order in which they were made.
        order = np.lexsort((self.decisions.at, self.decisions.episodes))
        parts = np.split(order, np.flatnonzero(np.diff(self.decisions.episodes[order])) + 1)
        counts = (np.linspace(0, len(part) - 1, min(len(part), _MOST_DECISIONS)) for part in parts)
        rows = np.concatenate(
            [part[places.round().astype(int)] for part, places in zip(parts, counts, strict=True)]
        )
        return Decided(self.decisions.take(rows), self.plans[rows], self.arm)


def decide(
    design: Design,
    learned: BoundModel,
    starts: Starts,
    *,
    progress: Progress,
) -> Decided:
    """Run the episodes of a learned model, and return all that was decided in them.

    ``progress`` is told what an `ArmRun` tells.
    """
    taken = np.zeros(len(starts.episodes), dtype=np.int64)
    rows: list[Decision] = []
    states: list[FloatArray] = []
    latents: list[FloatArray] = []
    plans: list[FloatArray] = []

    def note(episodes: IntArray, chosen: Plans) -> None:
        own = np.searchsorted(starts.episodes, episodes)
        rows.extend(
            Decision(int(episode), 0, int(at))
            for episode, at in zip(episodes, taken[own], strict=True)
        )
        states.append(run.states[own])
        latents.append(run.latents[own])
        plans.append(chosen.actions.copy())
        taken[own] += chosen.lengths

    run = ArmRun("learned", design, learned, starts, progress=progress, on_plan=note)
    arm = run.advance(len(starts.episodes))
    decisions = Decisions(
        rows=tuple(rows), states=np.concatenate(states), latents=np.concatenate(latents)
    )
    return Decided(decisions, np.concatenate(plans), arm)
