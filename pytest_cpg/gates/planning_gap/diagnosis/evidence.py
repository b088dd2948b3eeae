"""Evidence: what a model and the truth say of the same plans, and what it was trained on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, CpgError, FloatArray, IntArray
from pytest_cpg.episodes.decisions import evenly
from pytest_cpg.machine.files import check_unpacked_size
from pytest_cpg.planners.search import Objective
from pytest_cpg.stats import Interval
from pytest_cpg.world_models.transitions import Transitions

# A state is covered by this many neighbours, so that a single odd row covers nothing.
NEIGHBOURS = 5
# Of distances between training states: 1 % of them are farther by definition.
PERCENTILE = 99.0
# Rows that are kept of larger data, evenly: the distances of 5000 rows take a second.
MOST_ROWS = 5000
# Rows that follow each other are alike. A state is held against the other parts of the data.
_PARTS = 10
_BINS = 20
_WIDEST = 4.0
_OF_TRANSITIONS = ("observations", "actions", "next_observations")

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coverage:
    """Distances of states to the training data, as multiples of the threshold.

    Those of training states to the rest of the data [T], and of states that were visited or
    imagined in ``episodes`` [P].
    """

    trained: FloatArray
    planned: FloatArray
    episodes: IntArray

    @property
    def is_outside(self) -> BoolArray:
        """Which of the planned states lie farther out than the threshold, [P]."""
        return self.planned > 1

    def histogram(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return edges [D+1] and the shares of trained and planned states [D] between them.

        What lies farther than the last edge counts in the last bin.
        """
        edges = np.linspace(0, _WIDEST, _BINS + 1)
        trained, planned = (
            np.histogram(np.minimum(distances, _WIDEST), edges)[0] / max(1, len(distances))
            for distances in (self.trained, self.planned)
        )
        return edges, trained, planned


class TrainingStates:
    """The observations [T, O] that a model was trained on, ready to be asked for the nearest ones.

    ``centre`` and ``scale`` [O] are their mean and deviation, the latter 1 where none differs;
    ``transitions`` what followed on them, where that is known.
    """

    def __init__(self, observations: FloatArray, transitions: Transitions | None = None) -> None:
        from scipy.spatial import cKDTree

        rows = evenly(np.arange(len(observations)), MOST_ROWS)
        rows_kept = observations[rows]
        self.transitions = transitions and Transitions(
            **{name: getattr(transitions, name)[rows] for name in _OF_TRANSITIONS}
        )
        self.centre, deviations = rows_kept.mean(axis=0), rows_kept.std(axis=0)
        # What never changed in training is outside as soon as it does, in its own unit.
        self.scale = np.where(deviations > 0, deviations, 1.0)
        rows_kept = (rows_kept - self.centre) / self.scale
        self._distances = np.empty(len(rows_kept))
        for part in np.array_split(np.arange(len(rows_kept)), _PARTS):
            others = cKDTree(np.delete(rows_kept, part, axis=0))
            self._distances[part] = others.query(rows_kept[part], k=[NEIGHBOURS])[0][:, 0]
        self.threshold = float(np.percentile(self._distances, PERCENTILE))
        self._tree = cKDTree(rows_kept)

    def distances(self, observations: FloatArray) -> FloatArray:
        """Return distances of observations [..., O], as multiples of the threshold."""
        flat = (observations.reshape(-1, len(self.scale)) - self.centre) / self.scale
        nearest = self._tree.query(flat, k=[NEIGHBOURS])[0][:, 0]
        return self._relative(nearest).reshape(observations.shape[:-1])

    def coverage(self, planned: FloatArray, episodes: IntArray) -> Coverage:
        """Return how planned observations [P, O] of these episodes [P] lie to the training data."""
        return Coverage(
            trained=self._relative(self._distances),
            planned=self.distances(planned),
            episodes=episodes,
        )

    def _relative(self, distances: FloatArray) -> FloatArray:
        # Cells of a grid may all have been seen: whatever has not is far.
        if self.threshold == 0:
            return np.where(distances > 0, 2.0, 0.0)
        return distances / self.threshold


def read_training_data(data: Any, *, size: int, action_size: int) -> TrainingStates | str:
    """Return training data that a fixture gave, or why nothing can be checked by it.

    It gives `Transitions`, an array of observations [T, O], or the path of a ``.npy`` file, or of
    an ``.npz`` with the key ``observations``, and beside it ``actions`` and ``next_observations``
    where it holds transitions.
    """
    if data is None:
        return "return the data it was trained on from a training_data fixture"
    try:
        parts = _parts_of(data)
    except CpgError as error:
        return str(error)
    sizes = {"observations": size, "actions": action_size, "next_observations": size}
    flat = {}
    for name, part in parts.items():
        rows = part.reshape(-1, part.shape[-1]) if part.ndim > 2 else part
        wanted = f"return {name} [T, {sizes[name]}], or the path of a .npy or .npz file with them"
        what = "training_data has" if name == "observations" else f"training_data's {name} have"
        if rows.ndim != 2 or rows.shape[1] != sizes[name]:
            return f"{what} shape {rows.shape}: {wanted}"
        if rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
            return f"training_data holds what is no finite number: {wanted}"
        flat[name] = rows.astype(np.float64)
    observations = flat["observations"]
    if len(observations) < _PARTS * NEIGHBOURS:
        return f"training_data has {len(observations)} rows, and {_PARTS * NEIGHBOURS} are needed"
    if len(flat) < len(sizes):
        return TrainingStates(observations)
    if len({len(rows) for rows in flat.values()}) > 1:
        counts = ", ".join(f"{len(rows)} {name}" for name, rows in flat.items())
        return f"training_data has {counts}: return as many of each"
    return TrainingStates(observations, Transitions(**dict[str, Any](flat)))


def _parts_of(data: Any) -> dict[str, Array]:
    """Return arrays that were given or read, by name; nothing is unpickled."""
    if isinstance(data, Transitions):
        return {name: getattr(data, name) for name in _OF_TRANSITIONS}
    if not isinstance(data, str | os.PathLike):
        if not hasattr(data, "__array__") and not isinstance(data, list | tuple):
            raise CpgError(
                f"training_data is a {type(data).__name__}: return an array or a path, or "
                f"Transitions"
            )
        try:
            return {"observations": np.asarray(data)}
        except (TypeError, ValueError, RuntimeError) as error:
            raise CpgError(f"training_data is no array: {error}") from None
    path = Path(data)
    try:
        check_unpacked_size(path)
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"observations": content}
        with content:
            if "observations" not in content.files:
                raise CpgError(
                    f"training_data {path} has no array named observations, only "
                    f"{', '.join(content.files) or 'none at all'}"
                )
            is_whole = set(_OF_TRANSITIONS) <= set(content.files)
            names = _OF_TRANSITIONS if is_whole else _OF_TRANSITIONS[:1]
            return {name: np.asarray(content[name]) for name in names}
    except CpgError:
        raise
    # What is in a file may be wrong in any way, and its header may ask for any memory.
    except Exception as error:
        is_ours = path.suffix in ("", ".npy", ".npz")
        cure = "" if is_ours else f". Write numpy.save({path.stem + '.npy'!r}, observations)"
        raise CpgError(f"training_data {path} cannot be read: {error}{cure}") from None


# Rows of the candidates that planners chose; those behind them are random.
LEARNED, ORACLE, FIRST_RANDOM = 0, 1, 2
CHOSEN = slice(FIRST_RANDOM)
# Steps of a plan between the true states that a model is asked to resume it from: enough for an
# action to move what the score reads, by way of a speed.
WINDOW = 3

Memory: TypeAlias = Literal["none", "decoded", "opaque"]


class Headroom(NamedTuple):
    """Episodes that the oracle arm failed, run again with four times the search."""

    solved: int
    tried: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """What a model lacks: few numbers that remove most of its error on steps not fitted on.

    ``name`` is the constant that is wrong, ``claim`` what mends the error, ``advice`` where to look
    and ``left`` the share of the error that is left.
    """

    name: str
    claim: str
    advice: str
    left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStep:
    """Errors of one step, in units of what a step changes in each column."""

    #: Of true steps where plans lead, of the transitions of the training data that are nearest to
    #: these, and the first per second.
    error: Interval | None
    trained: Interval | None = None
    ratio: Interval | None = None
    #: What the error consists of, if it has a simple form.
    term: Term | None = None
    #: Share of the steps in which anything is done and happens that are right.
    right: float = 0.0
    #: With transitions of the training data the other two errors would be known.
    lacks_transitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Decisions taken again, with the model's answer and the truth.

    Shapes: ``N`` decisions, ``C`` candidate plans (that of the learned arm's planner, that of the
    oracle arm's, ``K`` random ones), ``H`` horizon, ``J`` windows of `WINDOW` steps in it. Scores
    are infinite past the budget, and where the truth diverges.
    """

    #: [N] and [E]: Which episode each decision is from, and those that only the oracle solved.
    episodes: IntArray
    lost: IntArray
    #: [N, J, C, H]: The score that the model is planned with, of what it predicts from the true
    #: state at the beginning of each window on, with a noise of 0. Infinite before it.
    resumed: FloatArray
    #: [N, C, H]: The same of whole plans with the noise that a stochastic model draws.
    drawn: FloatArray | None
    #: [N, C, H]: The task's score of what is true, and the model's own where it plans with that.
    actual: FloatArray
    rescored: FloatArray | None
    #: [N, J, C, H]: As `resumed`, by the task's score of what the model decodes; None where it
    #: decodes nothing or has no other score or reward.
    observed: FloatArray | None
    #: [N, 2, C, H]: Of a model with memory, what is true as it encodes each observation without: by
    #: its own score, and by the task's of what it decodes. None where `observed` is.
    afresh: FloatArray | None
    #: [N, C, J]: Windows in which a plan does nothing.
    is_idle: BoolArray
    #: [N, 2, J]: How far chosen plans lead from the training data, in multiples of the threshold.
    distances: FloatArray | None
    objective: Objective
    #: [N]: Steps until the budget.
    remaining: IntArray
    #: Whether the model has one, and what it holds can be compared with what is observed.
    memory: Memory
    #: Of the states that planners visit or imagine; a text says why it was not checked.
    coverage: Coverage | str
    #: None where answers cannot be compared with observations.
    one_step: OneStep | None = None

    @property
    def expected(self) -> FloatArray:
        """What the model predicts of whole plans with a noise of 0, [N, C, H]."""
        return self.resumed[:, 0]

    @property
    def predicted(self) -> FloatArray:
        """What plans are chosen by, [N, C, H]."""
        return self.expected if self.drawn is None else self.drawn

    @property
    def kept(self) -> FloatArray:
        """What plans come to, by the score that the model is planned with, [N, C, H]."""
        return self.actual if self.rescored is None else self.rescored
