"""Graded answers: which answers are wrong, how sure each was, and what risk the surest leave."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.coverage_curves import SAME_CONFIDENCE, Curves


class GradedAnswers:
    """Answers that are known to be right or wrong, with their confidences.

    Parameters
    ----------
    wrong : array [N], bool
    confidences : array [N]
        Finite; only their order matters, and those closer than 1e-9 have none.
    stakes : array [N], optional
        What each answer costs if it is wrong, from 0: by how much the returns of the two policies
        differ. 1 where nothing is given.
    groups : array [N], optional
        Which answers are about the same thing, such as one initial state, and so are drawn
        together. Each is on its own where nothing is given.
    """

    __slots__ = ("confidences", "groups", "stakes", "wrong")

    wrong: NDArray[np.bool_]
    confidences: NDArray[np.float64]
    stakes: NDArray[np.float64]
    groups: NDArray[np.intp]

    def __init__(
        self,
        *,
        wrong: ArrayLike,
        confidences: ArrayLike,
        stakes: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> None:
        self.wrong = np.array(wrong)
        if self.wrong.dtype != np.bool_ or self.wrong.ndim != 1 or not self.wrong.size:
            raise ValueError(
                f"need a bool for each answer, True where it is wrong, got {self.wrong.dtype} of "
                f"{self.wrong.shape}"
            )
        n = len(self.wrong)
        self.confidences = _finite("confidences", confidences, n)
        self.stakes = _finite("stakes", np.ones(n) if stakes is None else stakes, n)
        if (self.stakes < 0).any():
            raise ValueError(f"need stakes of 0 or more, got {self.stakes.min()}")
        labels = np.arange(n) if groups is None else np.asarray(groups)
        if labels.shape != (n,):
            raise ValueError(f"need one group for each of {n} answers, got {labels.shape}")
        self.groups = np.unique(labels, return_inverse=True)[1]
        for array in (self.wrong, self.confidences, self.stakes, self.groups):
            array.flags.writeable = False

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self.wrong)

    def take(self, chosen: ArrayLike) -> GradedAnswers:
        """Return some of the answers, by their indices or by a bool for each."""
        which = np.asarray(chosen)
        return GradedAnswers(
            wrong=self.wrong[which],
            confidences=self.confidences[which],
            stakes=self.stakes[which],
            groups=self.groups[which],
        )

    def surest(self, coverage: float) -> GradedAnswers:
        """Return a share of the answers, in (0, 1], those of the last confidence all."""
        counted = math.ceil(coverage * len(self) - SAME_CONFIDENCE)
        last = np.sort(self.confidences)[-max(1, counted)]
        return self.take(self.confidences >= last - SAME_CONFIDENCE)


def _finite(name: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    values = np.array(values)
    # A bool may be an answer in the place of its confidence, and a text would be read as a number.
    if values.dtype.kind in "bSU":
        raise ValueError(f"need numbers as {name}, got {values.dtype}")
    values = values.astype(np.float64)
    if values.shape != (n,):
        raise ValueError(f"need {name} for each of {n} answers, got {values.shape}")
    if not np.isfinite(values).all():
        first = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"need finite {name}, got {values[first]} at {first}")
    return values


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
