"""Wording: a diagnosis in words: the table of its measures, a paragraph, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_cpg.contracts import FloatArray
from pytest_cpg.diagnosis import rules
from pytest_cpg.diagnosis.advice import advice_on
from pytest_cpg.diagnosis.coverage import Coverage
from pytest_cpg.diagnosis.evidence import Evidence, Headroom
from pytest_cpg.diagnosis.measures import FEWEST_EPISODES, STEP_ERROR, Measures, measures_of
from pytest_cpg.diagnosis.result import Cause, Diagnosis, Measure, Profile
from pytest_cpg.stats import Interval, Verdict

_MEANINGS = {
    Cause.ACTION_BLIND: "the model hardly answers to actions: as it predicts, plans lead "
    "{response} times as far apart as they do.",
    Cause.NOISE: "the noise that the model draws decides: its choices lose {regret} of what a "
    "random plan loses, and {mean_regret} with a noise of 0.",
    Cause.SCORE_HEAD: "with the true dynamics the model's own score still loses {score_regret} of "
    "what a random plan loses, with its dynamics {regret}: the score is at fault.",
    Cause.COVERAGE: "{outside} of the states visited or imagined lie outside the training data. A "
    "step is off there by {outside_error} times the effect of its action, {inside}.",
    Cause.DYNAMICS_BIAS: "one step is off by {step_error} times the effect of its action, and "
    "answers actions {gain} times as strongly as the truth.",
    Cause.LOCAL_ERROR: "most steps are right, and {bad_steps} of those that plans lead through are "
    "off by more than {limit} times the effect of their action.",
    Cause.EXPLOITATION: "the planner finds what only the model believes: its plans break their "
    "promise by {excess_optimism} deviations more than random ones do.",
    Cause.COMPOUNDING_ERROR: "small errors grow: one step is off by {step_error} times the effect "
    "of its action, the end of a plan by {horizon_error} times what plans change.",
    Cause.PLANNER: "with four times the search the oracle solves {solved} of {tried} starts that "
    "it had failed: the planner looks at too little.",
}
_NO_GAP = "The verdict is {verdict}, so there is no gap of the model to explain."
_NO_REGRET = (
    "The model's choices lose {regret} of what a random plan loses, not shown to be more than "
    "{least:g}, and its ranking is not shown to be bad: this does not explain the gap."
)
_UNEXPLAINED = (
    "The model's choices lose {regret} of what a random plan loses, but no single cause is shown "
    "beyond doubt."
)
_TOO_FEW = "Only {count} episodes were run again, and {fewest} are needed to name a cause."
_ALIKE = (
    "The true scores of plans hardly differ, so that nothing tells the model's choices from "
    "others: this does not explain the gap."
)
_LOOK = "Look at the measures, and at lost episodes with --cpg-replay; more episodes show more."


def diagnosis_of(
    evidence: Evidence,
    *,
    verdict: Verdict,
    oracle_rate: Interval,
    scoring_loss: Interval | None,
    swapped: tuple[str, ...],
    episodes: tuple[int, ...],
    seconds: float = 0.0,
) -> Diagnosis:
    """Return what the evidence shows of a gate with this verdict.

    Parameters
    ----------
    oracle_rate : Interval
        Of the oracle's success rate.
    scoring_loss : Interval or None
    swapped : tuple of str
        As of `GateResult`.
    episodes : tuple of int
        Which the decisions are from.
    seconds : float
        What it took to find the evidence.
    """
    found = measures_of(evidence)
    cause = rules.cause_of(
        found,
        verdict=verdict,
        headroom=evidence.headroom,
        oracle_high=oracle_rate.high,
        scoring_loss=scoring_loss,
        memory=evidence.memory,
    )
    words = _words(found, evidence.headroom)
    advice = advice_on(
        cause,
        swapped=swapped,
        has_memory=evidence.memory != "none",
        knows_data=isinstance(evidence.coverage, Coverage),
    )
    return Diagnosis(
        cause=cause,
        summary=_summary(cause, words, found, verdict, len(episodes)),
        recommendation=(advice or _LOOK * (verdict == Verdict.MODEL_BOTTLENECK)).format(**words),
        measures=tuple(_table(found, evidence, oracle_rate)),
        profile=_profile(found, evidence.coverage),
        episodes=episodes,
        decisions=len(evidence.episodes),
        seconds=seconds,
    )


def _summary(
    cause: Cause, words: dict[str, str], found: Measures, verdict: Verdict, count: int
) -> str:
    if cause != Cause.NONE:
        text = _MEANINGS[cause].format(**words)
        return text[0].upper() + text[1:]
    if verdict != Verdict.MODEL_BOTTLENECK:
        return _NO_GAP.format(verdict=verdict.value)
    if found.regret is None and count >= FEWEST_EPISODES:
        return _ALIKE
    if found.regret is None:
        return _TOO_FEW.format(count=count, fewest=FEWEST_EPISODES)
    if not rules.misleads(found):
        return _NO_REGRET.format(least=rules.LEAST_REGRET, **words)
    return _UNEXPLAINED.format(**words)


def _words(found: Measures, headroom: Headroom | None) -> dict[str, str]:
    """Return the numbers that texts are made of."""
    numbers = {
        name: "unknown" if interval is None else f"{interval.estimate:.2f}"
        for name in Measures.__dataclass_fields__
        if isinstance(interval := getattr(found, name), Interval | None)
    }
    inside = found.inside_error
    numbers["inside"] = (
        "and there is no other to compare with"
        if inside is None
        else f"inside by {inside.estimate:.2f}"
    )
    numbers["steps"] = (
        "fewer steps ahead" if found.lost_at is None else f"fewer than {found.lost_at} steps ahead"
    )
    solved, tried = headroom or (0, 0)
    numbers["limit"] = f"{STEP_ERROR:g}"
    return {**numbers, "solved": str(solved), "tried": str(tried)}


def _table(found: Measures, evidence: Evidence, oracle_rate: Interval) -> Iterator[Measure]:
    chance = "never chance" if found.lost_at is None else f"chance from step {found.lost_at} on"
    of_score = "regret of its score on true outcomes"
    least = rules.LEAST_REGRET, rules.LEAST_EXCESS, rules.LEAST_OUTSIDE
    for name, interval, text in (
        ("regret", found.regret, f"of a random plan's loss; bad above {least[0]:g}"),
        ("ranking", found.ranking, f"Kendall tau; {chance}"),
        ("one step", found.step_error, f"error / effect of action; bad above {STEP_ERROR:g}"),
        ("bad steps", found.bad_steps, f"share of steps; bad above {rules.LEAST_BAD:g}"),
        (
            "plan's end",
            found.horizon_error,
            f"error / spread of plans; bad above {rules.HORIZON_ERROR:g}",
        ),
        ("response", found.response, f"spread / true spread; blind below {rules.MOST_BLIND:g}"),
        (
            "optimism",
            found.excess_optimism,
            f"over random plans; bad above {least[1]:g}",
        ),
    ):
        yield Measure.of(name, interval, text)
    is_checked = isinstance(evidence.coverage, Coverage)
    of_coverage = f"of states outside the data; bad above {least[2]:g}"
    yield Measure.of(
        "coverage",
        found.outside if is_checked else None,
        of_coverage if is_checked else f"not checked: {evidence.coverage}",
    )
    has_score = evidence.rescored is not None
    yield Measure.of("score", found.score_regret, of_score if has_score else "the task's own")
    if evidence.expected is not None:
        yield Measure.of("noise", found.mean_regret, "regret with a noise of 0")
    yield Measure.of("planner", None, _headroom(evidence.headroom, oracle_rate))


def _headroom(headroom: Headroom | None, oracle_rate: Interval) -> str:
    if headroom is None:
        return f"4 x search not run: at most {1 - oracle_rate.estimate:.2f} of starts to gain"
    return f"4 x search solves {headroom.solved} of {headroom.tried} starts that the oracle failed"


def _profile(found: Measures, coverage: Coverage | str) -> Profile:
    bins: tuple[tuple[float, ...], ...] = ((), (), ())
    if isinstance(coverage, Coverage):
        bins = tuple(_plain(part) for part in coverage.histogram())
    return Profile(
        ranking=_known(found.ranking_by_step),
        open_loop=_known(found.error_by_step),
        bins=bins[0],
        trained=bins[1],
        planned=bins[2],
        **_scatter(found.promised, found.kept),
    )


def _scatter(promised: FloatArray, kept: FloatArray) -> dict[str, tuple[float, ...]]:
    pairs = [
        (float(one), float(other))
        for one, other in zip(promised, kept, strict=True)
        if math.isfinite(one) and math.isfinite(other)
    ]
    predicted, actual = zip(*pairs, strict=True) if pairs else ((), ())
    return {"predicted": _short(predicted), "actual": _short(actual)}


def _known(values: FloatArray) -> tuple[float, ...]:
    """Return the values up to the first that is not known."""
    plain = [float(value) for value in values]
    end = next((i for i, value in enumerate(plain) if not math.isfinite(value)), len(plain))
    return _short(plain[:end])


def _plain(values: FloatArray) -> tuple[float, ...]:
    return _short(values.tolist())


def _short(values: tuple[float, ...] | list[float]) -> tuple[float, ...]:
    """Round to what a figure shows: hundreds of these are in a report."""
    return tuple(float(f"{value:.4g}") for value in values)
