"""Confidences: which side an ensemble answers with, and how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CONFIDENCES = ("ev", "pci", "u-pci")
"""Ensemble voting; paired and unpaired confidence intervals of the members' mean return."""


class Compared(NamedTuple):
    """What an ensemble answers to each query [N], True where side b has the higher return.

    Confidences are in [0, 1]. A tie is answered with False, and has 0.
    """

    answers: NDArray[np.bool_]
    confidences: NDArray[np.float64]


def compared(values_a: ArrayLike, values_b: ArrayLike, method: str = "pci") -> Compared:
    """Return which side of each query has the higher return, and how sure the ensemble is.

    Closed forms of what "Evaluation of offline policy comparison with confidence" (Koul, Phielipp
    and Fern 2022) finds on a grid:

    - ``"ev"``: the share of members that vote for the answer, less the share that vote against it.
      A member to which both sides are equal votes for neither.
    - ``"pci"``: the largest level at which Student's interval of the members' mean difference
      leaves out 0.
    - ``"u-pci"``: the largest level at which the intervals of the two means do not overlap.

    Where members do not differ at all, the last two are 1, or 0 if the sides are equal. Swapped
    sides have the opposite answers, ties aside, and the same confidences, to the last bit. Raises
    ValueError when there are fewer than two members, when shapes differ, when a return is not
    finite, or when there is no such method.

    >>> a, b = [[10], [11], [12], [9], [8]], [[12], [10], [15], [11], [9]]
    >>> [round(float(compared(a, b, method).confidences[0]), 4) for method in CONFIDENCES]
    [0.6, 0.8921, 0.5346]

    Parameters
    ----------
    values_a, values_b : array [E, N]
        Return of each side, as each member imagines it.
    """
    if method not in _METHODS:
        raise ValueError(f"no confidence named {method!r}. Known: {', '.join(CONFIDENCES)}.")
    a, b = _checked(values_a, values_b)
    # A model that diverges imagines returns whose squares overflow; a power of two rounds nothing.
    _, exponent = np.frexp(np.maximum(np.abs(a).max(axis=0), np.abs(b).max(axis=0)))
    lead, confidences = _METHODS[method](np.ldexp(a, -exponent), np.ldexp(b, -exponent))
    return Compared(lead > 0, confidences)


def _checked(
    values_a: ArrayLike, values_b: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(values_a, dtype=np.float64), np.asarray(values_b, dtype=np.float64)
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"need returns [members, queries] of both sides, got {a.shape}, {b.shape}")
    if len(a) < 2:
        raise ValueError(f"need two members or more to be sure or unsure, got {len(a)}")
    for side, values in (("a", a), ("b", b)):
        if not np.isfinite(values).all():
            member, query = np.argwhere(~np.isfinite(values))[0]
            raise ValueError(
                f"need finite returns, got {values[member, query]} from member {member} "
                f"on side {side} of query {query}"
            )
    return a, b


_Lead = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def _by_votes(a: NDArray[np.float64], b: NDArray[np.float64]) -> _Lead:
    # Votes are whole: a sum of shares would tear equal confidences apart.
    lead = (a < b).sum(axis=0) - (a > b).sum(axis=0)
    return lead.astype(np.float64), np.abs(lead) / len(a)


def _by_paired_interval(a: NDArray[np.float64], b: NDArray[np.float64]) -> _Lead:
    lead, spread = _mean_and_spread(b - a)
    return lead, _largest_level(lead, spread, members=len(a))


def _by_two_intervals(a: NDArray[np.float64], b: NDArray[np.float64]) -> _Lead:
    lead, _ = _mean_and_spread(b - a)
    spread = _mean_and_spread(a)[1] + _mean_and_spread(b)[1]
    return lead, _largest_level(lead, spread, members=len(a))


_METHODS = dict(zip(CONFIDENCES, (_by_votes, _by_paired_interval, _by_two_intervals), strict=True))


def _mean_and_spread(values: NDArray[np.float64]) -> _Lead:
    """Return mean and standard deviation [N] over members, whose spread is 0 if all are equal."""
    # The mean of equal numbers may differ from them in its last bit.
    beyond = values - values[0]
    return values[0] + beyond.mean(axis=0), beyond.std(axis=0, ddof=1)


def _largest_level(
    lead: NDArray[np.float64], spread: NDArray[np.float64], *, members: int
) -> NDArray[np.float64]:
    """Return the level of Student's interval that ends at 0."""
    # scipy.stats has the same number, and takes a second to import.
    from scipy.special import stdtr

    certain = np.where(lead == 0, 0.0, np.inf)
    errors = spread / np.sqrt(members)
    with np.errstate(over="ignore"):
        ratio = np.divide(np.abs(lead), errors, out=certain, where=spread > 0)
    return np.asarray(1 - 2 * stdtr(members - 1, -ratio))
