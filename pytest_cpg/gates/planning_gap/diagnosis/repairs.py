"""Repairs: which plans a model would choose if a part of it were the truth, and what that saves.

All candidates stay as they are. Only the scores that they are chosen by are made anew, from what
the evidence holds: no model is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray
from pytest_cpg.gates.planning_gap.diagnosis.evidence import FIRST_RANDOM, WINDOW, Evidence
from pytest_cpg.gates.planning_gap.diagnosis.losses import LEVEL, Loss, judged
from pytest_cpg.stats import Interval
from pytest_cpg.stats.returns import fieller_interval

# Of a score itself: what changes it less is rounding.
_ROUNDING = 1e-9
# Of a loss: a repair that wins back less leaves more than it mends.
MOST = 0.5
# Of what plans change in a window: an error r times that leaves a correlation of
# 1 / sqrt(1 + r**2), which is 0.97 here.
WINDOW_ERROR = 0.25
# Errors beyond which places are answered by the truth: as few of them as win back most.
_LIMITS = (WINDOW_ERROR, 0.5, 1.0, 2.0, 4.0)
# Repairs that are tried together; what promises most is among the worst places, and not their pair.
_PAIRS = (
    ("noise", "promises"),
    ("noise", "places"),
    ("noise", "restarts"),
    ("promises", "restarts"),
    ("places", "restarts"),
)


def mended(
    evidence: Evidence,
    *,
    places: BoolArray | None = None,
    restarts: bool = False,
    noise: bool = False,
) -> FloatArray:
    """Return the scores [N, C, H] that plans would be chosen by after a repair.

    The truth answers windows in ``places`` [N, C, J], and the model goes on from the true state
    behind them; with ``restarts`` it does at the beginning of every window; with ``noise`` none is
    drawn.
    """
    scores = np.empty(evidence.kept.shape)
    # The window from whose true beginning the model goes on.
    resumed = np.zeros(scores.shape[:2], dtype=np.intp)
    for window in range(evidence.resumed.shape[1]):
        span = slice(window * WINDOW, (window + 1) * WINDOW)
        if restarts:
            resumed = np.full_like(resumed, window)
        from_there = np.moveaxis(evidence.resumed[..., span], 1, 3)
        answer = np.take_along_axis(from_there, resumed[:, :, None, None], axis=3)[..., 0]
        if places is not None:
            is_true = places[:, :, window]
            answer = np.where(is_true[..., None], evidence.kept[..., span], answer)
            resumed = np.where(is_true, window + 1, resumed)
        scores[..., span] = answer
    if evidence.drawn is None or noise:
        return scores
    with np.errstate(invalid="ignore"):
        drawn = evidence.drawn - evidence.expected
    return scores + np.where(np.isfinite(drawn), drawn, 0.0)


def window_errors(evidence: Evidence) -> FloatArray:
    """Return how far scores are off at most within each window [N, C, J]; below 0 they flatter.

    The model begins each window at the true state. Errors are multiples of what plans change in
    the score by then, per window up to it. They are nan where there is nothing to be off in: past
    the budget, and where plans change next to nothing and the model knows it.
    """
    numbers = np.arange(evidence.resumed.shape[1])
    last = np.minimum((numbers + 1) * WINDOW, evidence.kept.shape[2]) - 1
    ends = evidence.kept[:, FIRST_RANDOM:, last]
    ends = np.where(np.isfinite(ends).all(axis=1, keepdims=True), ends, 0.0)
    # What random plans change: a plan has had so many windows to come that far.
    changes = np.asarray(ends.std(axis=1) / (numbers + 1))
    least = (_ROUNDING * np.abs(ends).max(axis=1))[:, None]
    errors = np.empty((*evidence.kept.shape[:2], changes.shape[1]))
    for window in numbers:
        span = slice(window * WINDOW, (window + 1) * WINDOW)
        with np.errstate(invalid="ignore"):
            off = evidence.resumed[:, window, :, span] - evidence.kept[..., span]
        # Two infinities are alike.
        off = np.where(np.isnan(off), 0.0, off)
        most = np.abs(off).argmax(axis=2)[..., None]
        errors[..., window] = np.take_along_axis(off, most, axis=2)[..., 0]
    is_asked = WINDOW * numbers < evidence.remaining[:, None]
    is_flat = (changes[:, None] <= least) & (np.abs(errors) <= least)
    units = np.maximum(changes[:, None], least)
    sizes = np.full(errors.shape, np.nan)
    np.divide(errors, units, out=sizes, where=is_asked[:, None] & ~is_flat & (units > 0))
    return sizes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WonBack:
    """What repairs win back of a loss.

    Attributes
    ----------
    shares : mapping
        By what is the truth: ``"noise"`` (none is drawn), ``"places"`` (the worst windows, off by
        more than the limit), ``"promises"`` (windows that flatter by more than the last limit),
        ``"restarts"`` (the beginning of every window), ``"dynamics"`` (all but the model's score);
        of a model with memory also ``"afresh"`` (that, and no memory) and ``"afresh, by task"``.
    limit : float
        The largest at which the worst places win back most; the least where none does.
    needed : tuple of str
        Two of them that win back most together, and neither alone.
    """

    shares: Mapping[str, Interval]
    limit: float
    needed: tuple[str, ...] = ()


def won_back(evidence: Evidence, loss: Loss) -> WonBack:
    """Return what repairs win back of a loss that is shown to be there."""
    lost = loss(evidence, evidence.predicted)
    rows = judged(evidence) & np.isfinite(lost)

    def saved(scores: FloatArray, before: FloatArray = lost) -> Interval:
        return fieller_interval((before - loss(evidence, scores))[rows], lost[rows], level=LEVEL)

    errors = window_errors(evidence)
    # From most truth to least, up to the first that fails: tests in a fixed order need no
    # correction for their number (Maurer, Hothorn and Lehmacher 1995).
    tried = [np.abs(errors) > limit for limit in _LIMITS]
    wins_most = (saved(mended(evidence, places=places)).low > MOST for places in tried)
    last = max(0, sum(1 for _ in takewhile(bool, wins_most)) - 1)
    limit, places = _LIMITS[last], tried[last]
    repairs: dict[str, dict[str, Any]] = {
        "noise": {"noise": True},
        "promises": {"places": errors < -_LIMITS[-1]},
        "places": {"places": places},
        "restarts": {"restarts": True},
    }
    scores = {name: mended(evidence, **repair) for name, repair in repairs.items()}
    shares = {name: saved(repaired) for name, repaired in scores.items()}

    def are_needed(pair: tuple[str, ...]) -> bool:
        both = mended(evidence, **repairs[pair[0]], **repairs[pair[1]])
        adds = (saved(both, loss(evidence, scores[name])).low > 0 for name in pair)
        return saved(both).low > MOST and all(adds)

    needed: tuple[str, ...] = ()
    if all(share.low <= MOST for share in shares.values()):
        needed = next(filter(are_needed, _PAIRS), ())
    shares["dynamics"] = saved(evidence.kept)
    if evidence.afresh is not None:
        shares["afresh"], shares["afresh, by task"] = map(saved, np.moveaxis(evidence.afresh, 1, 0))
    return WonBack(shares=shares, limit=limit, needed=needed)
