"""Selective prediction: how much risk is left when only the most confident episodes count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectiveRisk:
    """The area under a risk-coverage curve, and what to hold it against.

    Attributes
    ----------
    aurc : float
        Mean risk over all coverages, in [0, 1]; lower is better.
    excess : float
        What ``aurc`` lies above that of a perfect order, in which every success is more confident
        than every failure, in [0, 1].
    base_rate : float
        Share of failures among all episodes: the ``aurc`` of a confidence that says nothing.
    episodes : int
        Number of episodes.
    method : str
        As printed in every report.
    """

    aurc: float
    excess: float
    base_rate: float
    episodes: int
    method: str


def aurc(confidences: ArrayLike, failures: ArrayLike) -> SelectiveRisk:
    """Return the area under the risk-coverage curve: the mean risk of the k most confident of N.

    For ``k = 1 .. N`` (Geifman and El-Yaniv, NeurIPS 2017; excess by Geifman, Uziel and El-Yaniv,
    ICLR 2019). Episodes of equal confidence have no order, so that the mean over all their orders
    is taken, exactly; a constant confidence gives the base rate.

    Parameters
    ----------
    confidences : array [N]
        One finite number per episode, higher when surer of success; only their order matters.
    failures : array [N], bool
        Whether each episode failed.

    Raises
    ------
    ValueError
        When there is no episode, or when a confidence is not finite.

    Examples
    --------
    >>> risk = aurc([0.9, 0.9, 0.5, 0.1], [False, True, True, True])
    >>> round(risk.aurc, 4), round(risk.excess, 4), risk.base_rate
    (0.6042, 0.125, 0.75)
    """
    import numpy as np

    sizes, failed = _by_confidence(confidences, failures)
    n, lost = int(sizes.sum()), int(failed.sum())
    area = _area(sizes, failed)
    perfect = _area(np.array([n - lost, lost]), np.array([0, lost]))
    return SelectiveRisk(
        aurc=area,
        excess=max(0.0, area - perfect),
        base_rate=lost / n,
        episodes=n,
        method="AURC, ties averaged",
    )


def _by_confidence(
    confidences: ArrayLike, failures: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return episodes and failures [G] of each distinct confidence, the surest first."""
    import numpy as np

    confidence, failed = np.asarray(confidences), np.asarray(failures)
    if confidence.ndim != 1 or confidence.dtype.kind not in "iuf" or not confidence.size:
        raise ValueError(f"need one confidence for each episode, got {confidences!r}")
    if not np.isfinite(confidence).all():
        wrong = int(np.flatnonzero(~np.isfinite(confidence))[0])
        raise ValueError(f"need finite confidences, got {confidence[wrong]} at {wrong}")
    if failed.dtype != np.bool_ or failed.shape != confidence.shape:
        raise ValueError(
            f"need bool failures [{len(confidence)}], got {failed.dtype} of shape {failed.shape}"
        )
    _, group = np.unique(confidence, return_inverse=True)
    return np.bincount(group)[::-1], np.bincount(group[failed], minlength=group.max() + 1)[::-1]


def _area(sizes: NDArray[np.intp], failed: NDArray[np.intp]) -> float:
    import numpy as np

    kept = np.arange(1, sizes.sum() + 1)
    # In the mean over all orders of a group, failures come in it at its own constant rate.
    ends = np.concatenate([[0], sizes.cumsum()])
    expected = np.interp(kept, ends, np.concatenate([[0], failed.cumsum()]))
    return math.fsum(expected / kept) / len(kept)
