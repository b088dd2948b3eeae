"""Warm starts: what the next plan of each episode begins from."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.contracts import CpgError, FloatArray, IntArray, Planner
from pytest_cpg.contracts.planner import is_warm_started


class WarmStarts:
    """The memories of an arm's episodes, for a planner that is warm started; see `Planner`.

    Parameters
    ----------
    count : int
        Episodes of the arm, ``N``.

    Attributes
    ----------
    memory : array [N, ...] or None
        None until a first plan; zero for episodes that have none yet.
    """

    def __init__(self, planner: Planner, count: int) -> None:
        self.memory: FloatArray | None = None
        self._planner, self._count = planner, count
        self._is_used = is_warm_started(planner)

    def groups(self, active: IntArray, plans: IntArray) -> list[IntArray]:
        """Divide rows into those that plan at once: first plans have nothing to begin from.

        ``plans`` [N] is how many each episode has made.
        """
        if not self._is_used:
            return [active]
        is_first = plans[active] == 0
        return [rows for rows in (active[is_first], active[~is_first]) if rows.size]

    def keywords(self, rows: IntArray, plans: IntArray) -> dict[str, Any]:
        """Return what the planner is called with for one group of rows."""
        if not self._is_used:
            return {}
        if self.memory is None or not plans[rows[0]]:
            return {"memory": None}
        return {"memory": np.take(self.memory, rows, axis=0)}

    def keep(self, memory: FloatArray | None, rows: IntArray) -> None:
        """Keep what was returned for these rows, or raise CpgError for what cannot be kept."""
        if not self._is_used:
            return
        given = () if memory is None else np.shape(memory)
        kept = given[1:] if self.memory is None else self.memory.shape[1:]
        if memory is None or given != (len(rows), *kept):
            raise CpgError(
                f"planner {self._planner.name!r} is warm started and returned memory of shape "
                f"{given} for {len(rows)} episodes; return one row an episode, of one shape in "
                f"every plan, in Plans(..., memory=)."
            )
        if not np.isfinite(memory).all():
            raise CpgError(
                f"planner {self._planner.name!r} returned memory that is not finite; keep only "
                f"what its next plan can begin from."
            )
        if self.memory is None:
            self.memory = np.zeros((self._count, *kept))
        self.memory[rows] = memory
