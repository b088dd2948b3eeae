"""Selective prediction: how much risk is left when only the most confident episodes count."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pytest_cpg.stats.coverage_curves import Curves
from pytest_cpg.stats.graded_answers import GradedAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectiveRisk:
    """The area under a risk-coverage curve, and what to hold it against.

    Attributes
    ----------
    aurc : float
        Mean risk over all coverages, in [0, 1]; lower is better.
    ideal : float
        The ``aurc`` of an ideal order, in which every success is more confident than every failure.
    base_rate : float
        Share of failures among all episodes: the ``aurc`` of a confidence that says nothing.
    excess : float or None
        ``aurc`` between ``ideal``, 0, and ``base_rate``, 1; more where failures are surer. None
        where all episodes succeeded, or all failed.
    """

    aurc: float
    ideal: float
    base_rate: float
    excess: float | None
    episodes: int
    method: str


def aurc(confidences: ArrayLike, failures: ArrayLike) -> SelectiveRisk:
    """Return the area under the risk-coverage curve: the mean risk of the k most confident of N.

    For ``k = 1 .. N`` (Geifman and El-Yaniv, NeurIPS 2017; the ideal by Geifman, Uziel and
    El-Yaniv, ICLR 2019). Episodes of equal confidence have no order, so that the mean over all
    their orders is taken, exactly; a constant confidence gives the base rate.

    >>> risk = aurc([0.9, 0.9, 0.5, 0.1], [False, True, True, True])
    >>> round(risk.aurc, 4), round(risk.ideal, 4), risk.base_rate
    (0.6042, 0.4792, 0.75)

    Parameters
    ----------
    confidences : array [N]
        One finite number per episode, higher when surer of success; only their order matters.
    failures : array [N], bool
    """
    answers = GradedAnswers(wrong=failures, confidences=confidences)
    # The surest first.
    _, group = np.unique(-answers.confidences, return_inverse=True)
    sizes = np.bincount(group)
    failed = np.bincount(group[answers.wrong], minlength=len(sizes))
    area, ideal, excess = (float(value[0]) for value in Curves(sizes[None], failed[None]).aurc())
    return SelectiveRisk(
        aurc=area,
        ideal=ideal,
        base_rate=int(failed.sum()) / len(answers),
        excess=None if math.isnan(excess) else excess,
        episodes=len(answers),
        method="AURC, ties averaged",
    )
