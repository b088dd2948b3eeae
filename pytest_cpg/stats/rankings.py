"""Rankings of several models on the same starts: Bradley-Terry strengths and intervals on ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cpg.stats.counts import check_count
from pytest_cpg.stats.intervals import critical_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# Two models that each solve half of all starts, independently, differ on every one of n starts in
# the same direction in 2 / 4**n of the runs, and resampling would then tell them apart for certain:
# 1 of 8 at two starts, 1 of 32 at three.
FEWEST_GROUPS_TO_RANK = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """``M`` models on the same starts, best first; models that share a rank keep their order.

    Attributes
    ----------
    names : tuple of M str
        The models, best first.
    ranks : tuple of M int
        From 1; models with as many successes share the better rank: 1, 1, 3.
    rank_intervals : tuple of M (int, int)
        Lowest and highest rank of each model, which hold its own rank.
    strengths : tuple of M float, or None
        Natural logarithms with mean 0: of two models on one start, the difference is the log-odds
        of beating the other, where equal outcomes count as half a win for each. None when there is
        more than one component: then some differences are infinite.
    components : tuple of tuples of str
        Strongly connected components of the comparison graph, best first. Where there are two,
        every model of the first solved every start, and none of the second solved any.
    disconnected_share : float
        Share of the resamples whose graph was not strongly connected, in [0, 1]. They count in the
        intervals like all others: their ranks are certain, only strengths would be infinite.
    level : float
        Nominal coverage of each rank interval, in (0, 1).
    resamples : int
        Number of bootstrap resamples.
    method : str
        As printed in every report.
    """

    names: tuple[str, ...]
    ranks: tuple[int, ...]
    rank_intervals: tuple[tuple[int, int], ...]
    strengths: tuple[float, ...] | None
    components: tuple[tuple[str, ...], ...]
    disconnected_share: float
    level: float
    resamples: int
    method: str


def rank_models(
    names: Sequence[str],
    outcomes: ArrayLike,
    *,
    rng: np.random.Generator,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 1000,
) -> Ranking:
    """Return the Bradley-Terry ranking of models that were run from the same starts.

    On each start a model beats those that fail where it succeeds (Bradley and Terry, Biometrika
    39:324-345, 1952), and equal outcomes are half a win for each. Were ties dropped, or modelled
    (Davidson, JASA 65:317-328, 1970), a model that fails only where all others fail would have no
    finite strength. With half wins strengths are finite unless some models solve every start and
    all others none, and the ranking is that of the success counts.

    Rank intervals are percentile bootstrap intervals (Efron and Tibshirani, An Introduction to the
    Bootstrap, 1993, chapter 13). All models are resampled together; a model that ties in a
    resample takes its best possible rank there for the lower bound and its worst for the upper.
    Of four models with rates 0.05 or more apart on 100 starts, each true rank was inside in at
    least 99 % of the runs at level 0.95; of ten models 0.01 apart, that of the best and worst in
    89 %. Intervals without a common rank were found between two equal models in 5 %, and somewhere
    among ten equal ones in 8 % (simulated; see docs/statistics.md).

    Parameters
    ----------
    names : sequence of M str
        Different names of at least two models.
    outcomes : array [M, N], bool
        Whether each model succeeded from each start.
    rng : numpy.random.Generator
        Draws the resamples.
    groups : array [N], optional
        Which starts belong together, such as those of one scene: they are resampled together.
        Without it every start is its own group.
    level : float
        Coverage of each rank interval, in (0, 1).
    resamples : int
        Enough for at least one in each tail: 40 at level 0.95.

    Raises
    ------
    ValueError
        When an argument is impossible, or when there are fewer than three groups.

    Examples
    --------
    >>> import numpy as np
    >>> outcomes = np.arange(20) < np.array([[8], [19], [8]])
    >>> ranking = rank_models(["a", "b", "c"], outcomes, rng=np.random.default_rng(0))
    >>> ranking.names, ranking.ranks, ranking.rank_intervals
    (('b', 'a', 'c'), (1, 2, 2), ((1, 1), (2, 3), (2, 3)))
    """
    import numpy as np

    solved = _check_outcomes(names, outcomes)
    membership = _check_groups(groups, starts=solved.shape[1])
    critical_value(level)  # refuses an impossible level
    drawn = check_count("resamples", resamples, least=math.ceil(round(2 / (1 - level), 9)))
    sizes = np.bincount(membership)
    by_group = np.array([np.bincount(membership, weights=row) for row in solved])
    counts = by_group.sum(axis=1)
    best, worst = _ranks(counts)
    # How often each group is in each resample; whole numbers stay exact as floats.
    times = rng.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=drawn)
    resampled = times @ by_group.T
    resampled_best, resampled_worst = (np.sort(ranks, axis=0) for ranks in _ranks(resampled))
    cut = math.floor(round(drawn * (1 - level) / 2, 9))
    low = np.minimum(resampled_best[cut], best)
    high = np.maximum(resampled_worst[drawn - 1 - cut], worst)
    order = np.argsort(best, kind="stable")
    ordered = tuple(names[i] for i in order)
    # Wins less losses of a pair are the difference of its success counts, so that half wins depend
    # on the counts alone; which starts they fall on matters to the intervals only.
    wins = (solved.shape[1] + counts[order, None] - counts[order]) / 2
    np.fill_diagonal(wins, 0.0)
    components = _components(wins)
    return Ranking(
        names=ordered,
        ranks=tuple(int(best[i]) for i in order),
        rank_intervals=tuple((int(low[i]), int(high[i])) for i in order),
        strengths=_fit(wins) if len(components) == 1 else None,
        components=tuple(tuple(ordered[i] for i in component) for component in components),
        disconnected_share=_disconnected_share(resampled, times @ sizes),
        level=float(level),
        resamples=drawn,
        method="Bradley-Terry 1952, ties half a win, percentile bootstrap",
    )


def bradley_terry_strengths(names: Sequence[str], wins: ArrayLike) -> tuple[float, ...]:
    """Return the log-strengths, with mean 0, that make a table of paired comparisons likeliest.

    A model beats another with odds ``exp(difference of strengths)`` (Bradley and Terry, Biometrika
    39:324-345, 1952). Finite strengths exist just when the graph of who beat whom is strongly
    connected (Ford, American Mathematical Monthly 64:28-33, 1957).

    Parameters
    ----------
    names : sequence of M str
        Different names of at least two models.
    wins : array [M, M]
        How often the model of the row beat that of the column, at least 0, with zeros on the
        diagonal; a tie is half a win for each. Pairs need not be compared equally often, or at all.

    Raises
    ------
    ValueError
        When the table is impossible, or when the graph is not strongly connected; the message
        names the models that can be compared with each other.

    Examples
    --------
    >>> [round(strength, 3) for strength in bradley_terry_strengths(["a", "b"], [[0, 3], [1, 0]])]
    [0.549, -0.549]
    """
    import numpy as np

    _check_names(names)
    table = np.asarray(wins, dtype=float)
    if table.shape != (len(names), len(names)):
        raise ValueError(f"need wins [{len(names)}, {len(names)}], got shape {table.shape}")
    if not (np.isfinite(table) & (table >= 0)).all() or table.diagonal().any():
        raise ValueError(f"need finite wins of at least 0, and 0 on the diagonal, got {wins!r}")
    components = _components(table)
    if len(components) > 1:
        sets = " | ".join(", ".join(names[i] for i in component) for component in components)
        raise ValueError(
            "strengths can be compared only among models that have all beaten each other, directly "
            f"or through others; these sets have not: {sets}. Leave out all but one of them, or "
            "count ties as half a win for each"
        )
    return _fit(table)


def _check_names(names: Sequence[str]) -> None:
    if isinstance(names, str) or len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"need different names of at least two models, got {names!r}")


def _check_outcomes(names: Sequence[str], outcomes: ArrayLike) -> NDArray[np.bool_]:
    import numpy as np

    _check_names(names)
    solved = np.asarray(outcomes)
    if solved.dtype != np.bool_ or solved.ndim != 2 or len(solved) != len(names):
        raise ValueError(
            f"need bool outcomes [{len(names)} models, starts], got {solved.dtype} of shape "
            f"{solved.shape}"
        )
    return solved


def _check_groups(groups: ArrayLike | None, *, starts: int) -> NDArray[np.intp]:
    """Return the number of each start's group, from 0."""
    import numpy as np

    labels = np.arange(starts) if groups is None else np.asarray(groups)
    if labels.shape != (starts,):
        raise ValueError(f"need one group for each of {starts} starts, got shape {labels.shape}")
    kind = labels.dtype.kind
    if kind not in "biufSU" or (kind == "f" and not np.isfinite(labels).all()):
        raise ValueError(f"need groups that are finite numbers or text, got {groups!r}")
    distinct, membership = np.unique(labels, return_inverse=True)
    if len(distinct) < FEWEST_GROUPS_TO_RANK:
        what = "starts" if groups is None else "groups of starts"
        raise ValueError(f"need at least {FEWEST_GROUPS_TO_RANK} {what}, got {len(distinct)}")
    return membership


def _ranks(counts: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the best and the worst rank [..., M] that ties in the counts [..., M] leave open."""
    others, own = counts[..., None, :], counts[..., :, None]
    return 1 + (others > own).sum(axis=-1), (others >= own).sum(axis=-1)


def _disconnected_share(counts: NDArray[np.float64], starts: NDArray[np.intp]) -> float:
    # Half wins leave a pair without a way back only if one model solved all and the other nothing.
    every, none = counts == starts[:, None], counts == 0
    split = (every | none).all(axis=1) & every.any(axis=1) & none.any(axis=1)
    return float(split.mean())


def _components(wins: NDArray[np.float64]) -> list[list[int]]:
    """Return the strongly connected components, in the order of their first models."""
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(wins > 0, directed=True, connection="strong")
    members: dict[int, list[int]] = {}
    for model, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(model)
    return list(members.values())


def _fit(wins: NDArray[np.float64]) -> tuple[float, ...]:
    """Climb the concave log likelihood by Newton's steps; the graph is strongly connected.

    The minorising steps of Hunter (Annals of Statistics 32:384-406, 2004) need no matrix, but many
    thousand of them where a pair is lopsided.
    """
    import numpy as np
    from scipy.special import expit

    compared = wins + wins.T
    strengths = np.zeros(len(wins))
    for _ in range(1000):
        chances = expit(strengths[:, None] - strengths)
        weights = compared * chances * chances.T
        information = np.diag(weights.sum(axis=1)) - weights
        # The likelihood does not see a common shift. Any positive constant takes it out, because
        # the slopes sum to 0; one of the size of the weights keeps the matrix well conditioned.
        slopes = (wins * chances.T - wins.T * chances).sum(axis=1)
        step = np.linalg.solve(information + weights.mean(), slopes)
        moved = np.abs(step[:, None] - step)[compared > 0].max()
        if moved < 1e-13:
            break
        # The full step may overshoot. Along it the curvature grows at most by exp(moved * t), and
        # this length has the largest climb that bound ensures (Sun and Tran-Dinh, Mathematical
        # Programming 178:145-213, 2019); near the top it tends to the full step.
        strengths += step * (math.log1p(moved) / moved)
    return tuple((strengths - strengths.mean()).tolist())
