"""The comparison of policies as a kind of gate, loaded with the first one that is collected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError
from pytest_cpg.gates import BUILT_IN
from pytest_cpg.gates.arguments import REQUIRED, Argument, as_given, between, of_option
from pytest_cpg.gates.criteria import CriteriaKind
from pytest_cpg.gates.criterion import Criterion, Standing
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import Asked
from pytest_cpg.gates.notation import with_ends
from pytest_cpg.gates.policy_comparison.card import WORDS, shown
from pytest_cpg.gates.policy_comparison.measure import Spec, measure_comparison
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.gates.policy_comparison.result import (
    FEWEST_ERRORS,
    ComparisonResult,
    Criteria,
    KeptAnswers,
)
from pytest_cpg.stats import Interval, sampled_differences, wilson_interval

_METHOD = "pci"
# The share of all answers that the surest are.
_COVERAGE = 0.5
# The intervals of fewer are too wide.
_FEWEST_QUERIES = 200
_RESAMPLES = 1000
# An end of an interval rests on this many resamples or more.
_BEYOND_AN_END = 10
# Published worlds that end, by a rule that came with earlier versions.
_ENDING = ("hopper", "walker2d")
# The bootstrap knows no more starts than there are.
_FEWEST_GROUPS = 30
_ASSUMED_LOSS = 0.25
_share = between(0, 1)


class PolicyComparison(CriteriaKind[ComparisonResult]):
    """How often a model is wrong about the better of two policies, and whether it knows when."""

    marker = "cpg_opcc"
    fixtures = BUILT_IN[marker].fixtures
    help = "gate this test on whether a learned world model knows when it is wrong about policies."
    example = 'queries="queries.npz"'
    wanted_model = "several in one: members = E, and step or rollout"
    resumes = True
    # Of a few queries nothing can be said, and all are asked soon.
    has_smoke_test = None
    arguments = (
        Argument("queries", as_given, REQUIRED, help="a file, or PolicyQueries"),
        Argument("terminated", as_given, help="where episodes end: observations [B, O] to bool"),
        Argument("min_auroc", _share, 0.6, help="how well confidence tells right from wrong"),
        Argument("max_risk", _share, 0.05, help="the share of wrong ones among the surest"),
        Argument("max_loss", _share, help="the share of wrong answers among all"),
        of_option("seed"),
        of_option("confidence"),
    )
    labels = MappingProxyType({label: words.severity for label, words in WORDS.items()})
    words = WORDS
    result, entry_type = ComparisonResult, KeptAnswers
    shown = shown
    measure = staticmethod(measure_comparison)
    entry = staticmethod(KeptAnswers.of)

    def parse(self, asked: Asked) -> Spec:
        """Return what a test asks for.

        Raises ValueError or CpgError when there are no such queries, too few of them, or all have
        one start or one answer.
        """
        values = asked.values
        queries = _queries_at(values["queries"])
        is_file = queries is not values["queries"]
        name = Path(values["queries"]).name if is_file else queries.environment
        if values["terminated"] is not None:
            queries = replace(queries, terminated=values["terminated"])
        elif is_file and queries.environment in _ENDING:
            raise ValueError(
                f"queries: {name} is about {queries.environment}, whose episodes end where it "
                f"falls, and no file says so: write terminated=..., as in "
                f"examples/experiments/opcc/worlds.py"
            )
        _check_queries(queries, name)
        level = asked.shared(values["confidence"])
        for name_of_limit, share in (("max_loss", 1.0), ("max_risk", _COVERAGE)):
            limit, asked_of = values[name_of_limit], int(len(queries) * share)
            # A model keeps this limit that is wrong in every answer.
            surely = wilson_interval(asked_of, asked_of, level=level).low
            if limit is not None and limit >= surely:
                raise ValueError(
                    f"{name_of_limit}={limit:g} is kept by every model: one whose {asked_of} "
                    f"answers are all wrong is surely above {surely:.2f} only. Write a limit below "
                    f"that."
                )
        return Spec(
            name=name,
            queries=queries,
            criteria=Criteria(
                confidence=_METHOD,
                min_auroc=values["min_auroc"],
                max_risk=values["max_risk"],
                min_coverage=_COVERAGE,
                max_loss=values["max_loss"],
                # The far tails that a large family judges by need more of them.
                resamples=max(_RESAMPLES, round(2 * _BEYOND_AN_END / (1 - level))),
                level=level,
                family_size=asked.family_size,
                seed=values["seed"],
            ),
        )

    def criteria(self, result: ComparisonResult) -> list[Criterion]:
        """Return what is asked of a result, and how it stands to each."""
        limits, grades, loss = result.criteria, result.grades, result.loss
        trivial, surest = result.trivial_loss, f"surest {100 * limits.min_coverage:.3g} %"
        # What is never right where a trivial answer is wrong, is no better for sure. The trivial
        # loss is of the same queries: it has luck of its own, which their difference knows.
        is_missed = grades.behind.low >= 0 or grades.beyond == 0
        is_met = loss.high < trivial and grades.behind.high < 0 and not is_missed
        criteria = [
            Criterion(
                title="loss",
                bound=trivial,
                needed=f"< {trivial:.3f}",
                found=loss,
                standing=Standing.of(is_met=is_met, is_missed=is_missed),
                label="UNINFORMED",
                p_value=grades.p_values["loss"],
            )
        ]
        # The share that may be answered at max_risk is a maximum over thresholds, which jumps: what
        # is judged is the risk of the share that is asked for, no larger where that one is.
        for title, interval, bound, needed, name in (
            ("loss, max_loss", loss, limits.max_loss, "<={:.3f}", "max_loss"),
            ("AUROC", result.auroc, limits.min_auroc, ">= {:.2f}", "auroc"),
            (surest, result.surest_loss, limits.max_risk, "<={:.3f}", "coverage_at_risk"),
        ):
            if interval is not None and bound is not None:
                criteria.append(
                    Criterion.of_interval(
                        title,
                        interval,
                        bound,
                        needed=needed.format(bound),
                        label="UNINFORMED" if name == "max_loss" else "OVERCONFIDENT",
                        p_value=grades.p_values[name],
                        is_floor=title == "AUROC",
                    )
                )
        return criteria

    def label(self, result: ComparisonResult) -> str:
        """Return the gate's word for a result."""
        label = super().label(result)
        # A model that answers no better than none has no confidence worth a word.
        is_trivial = result.loss.estimate >= result.trivial_loss
        return "UNINFORMED" if label == "OVERCONFIDENT" and is_trivial else label

    def doubt(self, result: ComparisonResult) -> str | None:
        """Return that few starts have intervals that are too short."""
        if result.design.groups >= _FEWEST_GROUPS:
            return None
        return (
            f"the queries have {result.design.groups} starts, and intervals from fewer than "
            f"{_FEWEST_GROUPS} are too short"
        )

    def changed(self, then: KeptAnswers, now: KeptAnswers, result: ComparisonResult) -> Drift:
        """Compare query by query: the loss and the AUROC."""
        was, pairs = then.wrong.count("1"), [*zip(then.wrong, now.wrong, strict=True)]
        worse = tuple(query for query, pair in enumerate(pairs) if pair == ("0", "1"))
        label, text = Label.UNCHANGED, "the same answers, in the same order of confidence"
        added: Interval | None = None
        if (then.wrong, then.levels) != (now.wrong, now.levels):
            criteria = result.criteria
            sampled = sampled_differences(
                result.graded,
                then.graded(result),
                rng=np.random.default_rng(criteria.seed),
                resamples=criteria.resamples,
            )
            # Loss and AUROC are two chances to differ.
            level = 1 - (1 - criteria.level) / 2
            changes = {name: difference.interval(level) for name, difference in sampled.items()}
            added = changes["loss"]
            text, low, high = f"loss {with_ends(added, '+.3f')}", added.low, added.high
            are_few = min(was, result.wrong_count) < FEWEST_ERRORS
            if not are_few and (auroc := changes.get("auroc")) is not None:
                text += f", AUROC {with_ends(auroc, '+.3f')}"
                low, high = max(low, -auroc.high), min(high, -auroc.low)
            label = Label.of(low, high, is_same=False)
        return Drift(
            label=label,
            text=f"{was} -> {result.wrong_count} of {len(result)} wrong, {text}",
            then={"loss": was / len(result)},
            worse=worse,
            lost=len(worse),
            gained=pairs.count(("1", "0")),
            interval=added,
        )

    def differences(self, then: KeptAnswers, now: KeptAnswers) -> Iterator[str]:
        """Yield what is not as it was in the accepted run, and not the model."""
        if then.method != now.method:
            yield f"confidence {then.method} -> {now.method}"
        if then.digest != now.digest:
            yield f"other queries, {then.queries} -> {now.queries}"

    def followed(self, entry: KeptAnswers) -> str:
        """Return the number of wrong answers."""
        return str(entry.wrong.count("1"))

    def from_to(self, then: KeptAnswers, now: KeptAnswers) -> str:  # noqa: ARG002
        """Return how many were wrong."""
        return f"{self.followed(then)} of {len(then.wrong)} wrong"

    def expected(
        self,
        spec: Spec,
        task: None,  # noqa: ARG002
        accepted: KeptAnswers | None,
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the number of queries and steps, and how sure the loss will be."""
        queries, loss, assumed = len(spec.queries), _ASSUMED_LOSS, "?"
        if accepted is not None:
            loss, assumed = accepted.wrong.count("1") / len(accepted.wrong), ""
        interval = wilson_interval(round(loss * queries), queries, level=spec.criteria.level)
        cells = {
            "queries": str(queries),
            "steps": str(2 * int(spec.queries.horizons.sum())),
            "loss": f"{loss:.2f}{assumed}",
            "+-": f"{(interval.high - interval.low) / 2:.3f}",
        }
        return cells, (
            "steps: imagined by each member of the ensemble; +-: half of the interval of the loss, "
            "if every query is from a start of its own",
            *(["? loss assumed: nothing was accepted yet"] if assumed else []),
        )


def _queries_at(given: Any) -> PolicyQueries:
    """Return queries as they are, or those of a file; raise CpgError where there is none."""
    if isinstance(given, PolicyQueries):
        return given
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise ComponentError(
            f"queries: need the path of an .npz, or PolicyQueries, got {given!r:.60}"
        )
    path = Path(given)
    if path.suffix != ".npz" and not path.exists():
        raise ComponentError(
            f"queries: there is no file {os.fspath(given)!r}. Give the path of an .npz that "
            f"PolicyQueries.save wrote, or the queries themselves. Published ones, such as "
            f"'maze-umaze', do not come with the package: examples/experiments/opcc has them."
        )
    return PolicyQueries.load(path)


def _check_queries(queries: PolicyQueries, name: str) -> None:
    """Raise ValueError for queries from which nothing can be learned."""
    if len(queries) < _FEWEST_QUERIES:
        raise ValueError(
            f"queries: {name} has {len(queries)} queries, and the intervals of fewer than "
            f"{_FEWEST_QUERIES} are too wide to judge a model. Give more of them."
        )
    if not queries.groups.any():
        raise ValueError(
            f"queries: all {len(queries)} queries of {name} begin at one start, and nothing can be "
            f"said of others. Ask from more starts."
        )
    trues = int(queries.labels.sum())
    if trues in (0, len(queries)):
        side = "b" if trues else "a"
        raise ValueError(
            f"queries: side {side} is better in all {len(queries)} queries of {name}, so that a "
            f"constant answer is always right. Swap the sides of half of them."
        )
