"""Traces: all that the arms of a gate did and imagined in a few of its episodes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import CpgError, FloatArray, IntArray
from pytest_cpg.episodes.design import DesignRecord
from pytest_cpg.machine.files import replace_file

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeTrace:
    """What one arm did in one episode, and what its model promised.

    Shapes: ``T`` real steps, ``R`` planning rounds, ``H`` horizon, ``S`` state, ``A`` action.

    - ``steps``: to success, or the whole budget; below ``T`` where an episode goes on after that.
    - ``states`` [T+1, S], ``scores`` [T+1]: real states, the start first, and the task's score of
      each; lower is better.
    - ``actions`` [T, A]: executed, in the simulator's own units.
    - ``at`` [R]: steps taken before each round.
    - ``plans`` [R, H, A], ``lengths`` [R]: what the planner chose, and how many steps of it were
      executed, 1 to ``H``.
    - ``promised`` [R]: steps of each plan, 1 to ``H``, after which its predicted score is best;
      steps past the budget do not count.
    - ``predicted``, ``actual`` [R, H]: score along each plan: what the arm's own model gives from
      its own view of the real state (a stochastic model with noise 0), and what the true dynamics
      give from that state. Both by the model's own score or rewards where it has them; infinite
      where the truth diverges.
    """

    success: bool
    steps: int
    states: FloatArray
    actions: FloatArray
    scores: FloatArray
    at: IntArray
    plans: FloatArray
    lengths: IntArray
    promised: IntArray
    predicted: FloatArray
    actual: FloatArray

    @property
    def ending(self) -> str:
        """How it ended, in a few words."""
        return f"{'solved at step' if self.success else 'not solved in'} {self.steps}" + (
            " steps" * (not self.success)
        )

    @property
    def optimism(self) -> FloatArray:
        """Predicted minus actual score at each plan's promised step, [R].

        Below 0 the model promised to come nearer to the goal than the plan does.
        """
        rounds = np.arange(len(self.at))
        predicted, actual = (s[rounds, self.promised - 1] for s in (self.predicted, self.actual))
        # Where both are infinite, their difference is not zero but no number.
        return np.subtract(predicted, actual, out=np.zeros(len(rounds)), where=predicted != actual)


class ArmTraces(NamedTuple):
    """One episode in both arms."""

    oracle: EpisodeTrace
    learned: EpisodeTrace

    @property
    def worst_round(self) -> int:
        """The round of the learned arm whose optimism is largest in size, the first of them."""
        return int(np.abs(self.learned.optimism).argmax())

    @property
    def worst_optimism(self) -> float:
        """The optimism of that round."""
        return float(self.learned.optimism[self.worst_round])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """Some episodes of a gate, run again, by their indices.

    The learned arm ``swapped`` the dynamics alone, unless the model brings more; what ``changed``
    since the episodes were run before is not written.
    """

    design: DesignRecord
    seed: int
    swapped: tuple[str, ...]
    traces: Mapping[int, ArmTraces]
    changed: tuple[str, ...] = ()

    @property
    def has_own_score(self) -> bool:
        """Whether the learned arm's predicted and actual scores are in units of the model's own."""
        return has_own_score(self.swapped)

    @property
    def has_whole_costs(self) -> bool:
        """Whether each plan of the learned arm has one number of the model's own at all steps."""
        predicted = [learned.predicted for _, learned in self.traces.values()]
        return self.has_own_score and all((p == p[:, :1]).all() for p in predicted)

    def save(self, path: Path) -> None:
        """Write everything to a compressed ``.npz`` without pickles; parent folders are made.

        Names are ``schema``, ``episodes`` [N], ``swapped``, those of the design but ``versions``,
        ``seed``, and for each episode and arm those of `EpisodeTrace`, such as
        ``episode_0007/learned/predicted``. Raises CpgError, naming the path and what the system
        says.
        """
        file = io.BytesIO()
        # The stub takes every name for allow_pickle.
        np.savez_compressed(file, **self._arrays())  # type: ignore[arg-type]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, file.getvalue())
        except OSError as error:
            raise CpgError(f"cannot write the replay {path}: {error.strerror or error}") from None

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        names = [field.name for field in fields(self.design) if field.name != "versions"]
        arrays = {name: np.array(getattr(self.design, name)) for name in names}
        arrays.update(
            schema=np.array(SCHEMA),
            seed=np.array(self.seed),
            episodes=np.array(list(self.traces)),
            swapped=np.array(self.swapped, dtype=np.str_),
        )
        for episode, traces in self.traces.items():
            for arm, trace in zip(traces._fields, traces, strict=True):
                for field in fields(trace):
                    name = f"episode_{episode:04d}/{arm}/{field.name}"
                    arrays[name] = np.array(getattr(trace, field.name))
        return arrays


def has_own_score(swapped: tuple[str, ...]) -> bool:
    """Say whether an arm that replaces this rates plans in units of its own."""
    return not {"score", "reward"}.isdisjoint(swapped)
