"""Comparing: what has changed since the last accepted answers to the same queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.notation import with_ends
from pytest_cpg.gates.policy_comparison.result import FEWEST_ERRORS, ComparisonResult
from pytest_cpg.stats import GradedAnswers, Interval, sampled_differences
from pytest_cpg.stats.coverage_curves import levels

_OUTCOMES = re.compile("[01]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswers:
    """The answers that were accepted last.

    Attributes
    ----------
    queries, digest : str
        What they are called; of the queries and their true returns.
    method : str
        Of the confidences.
    wrong : str
        ``"1"`` for each wrong answer, in the order of the queries.
    levels : tuple of int
        Rank of each confidence, 0 for the surest; equal ones share theirs. Digits enough to tell
        those near 1 apart would fill the file.
    """

    queries: str
    digest: str
    method: str
    wrong: str
    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        if not _OUTCOMES.fullmatch(self.wrong):
            raise ValueError(f"need a 0 or 1 for each answer, got {self.wrong!r:.40}")
        if len(self.levels) != len(self.wrong):
            raise ValueError(
                f"need a level for each of {len(self.wrong)} answers, got {len(self.levels)}"
            )

    @classmethod
    def of(cls, result: ComparisonResult) -> KeptAnswers:
        """Return what is kept of a result."""
        return cls(
            queries=result.design.name,
            digest=result.design.digest,
            method=result.criteria.confidence,
            wrong="".join("01"[one] for one in result.wrong.tolist()),
            levels=tuple(levels(result.graded.confidences).tolist()),
        )

    def graded(self, result: ComparisonResult) -> GradedAnswers:
        """Return the answers, grouped as those of a result to the same queries."""
        return GradedAnswers(
            wrong=np.array([one == "1" for one in self.wrong]),
            confidences=-np.array(self.levels),
            groups=result.groups,
        )


def compare(accepted: KeptAnswers | None, result: ComparisonResult) -> Drift:
    """Compare a result with the one that was accepted, query by query.

    - NEW: there is none.
    - INCOMPARABLE: other queries were asked, or confidence is another one.
    - UNCHANGED: the same answers, in the same order of confidence.
    - REGRESSED, IMPROVED: the loss, or the AUROC, differs by more than chance explains; each is
      tested at half of ``1 - level``, and worse in one of them is worse.
    - UNRESOLVED: there is a difference, and chance explains it.
    """
    if accepted is None:
        return Drift.new(now=str(result.wrong_count))
    now = KeptAnswers.of(result)
    was, differs = accepted.wrong.count("1"), tuple(_differences(accepted, now))
    if differs:
        return Drift(
            label=Label.INCOMPARABLE,
            text=f"{was} of {len(accepted.wrong)} wrong; {', '.join(differs)}",
            was=str(was),
            now=str(result.wrong_count),
            differs=differs,
        )
    pairs = [*zip(accepted.wrong, now.wrong, strict=True)]
    worse = tuple(query for query, pair in enumerate(pairs) if pair == ("0", "1"))
    label, text, added = _evidence(accepted, now, result)
    return Drift(
        label=label,
        text=f"{was} -> {result.wrong_count} of {len(result)} wrong, {text}",
        was=str(was),
        now=str(result.wrong_count),
        then={"loss": was / len(result)},
        worse=worse,
        lost=len(worse),
        gained=pairs.count(("1", "0")),
        interval=added,
    )


def _evidence(
    then: KeptAnswers, now: KeptAnswers, result: ComparisonResult
) -> tuple[Label, str, Interval | None]:
    """Return what two results say, and the loss that was added."""
    if (then.wrong, then.levels) == (now.wrong, now.levels):
        return Label.UNCHANGED, "the same answers, in the same order of confidence", None
    asked = result.criteria
    sampled = sampled_differences(
        result.graded,
        then.graded(result),
        rng=np.random.default_rng(asked.seed),
        resamples=asked.resamples,
    )
    # Loss and AUROC are two chances to differ.
    level = 1 - (1 - asked.level) / 2
    changes = {name: one.interval(level) for name, one in sampled.items()}
    few = min(then.wrong.count("1"), result.wrong_count) < FEWEST_ERRORS
    loss, auroc = changes["loss"], None if few else changes.get("auroc")
    text = f"loss {with_ends(loss, '+.3f')}"
    low, high = loss.low, loss.high
    if auroc is not None:
        text += f", AUROC {with_ends(auroc, '+.3f')}"
        low, high = max(low, -auroc.high), min(high, -auroc.low)
    return Label.of(low, high, is_same=False), text, loss


def _differences(then: KeptAnswers, now: KeptAnswers) -> Iterator[str]:
    if then.method != now.method:
        yield f"confidence {then.method} -> {now.method}"
    if then.digest != now.digest:
        yield f"other queries, {then.queries} -> {now.queries}"
