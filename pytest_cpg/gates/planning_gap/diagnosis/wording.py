"""Wording: a diagnosis in words: the table of its measures, a paragraph, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from pytest_cpg.contracts import FloatArray
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis, Measure, Profile, advice_on
from pytest_cpg.gates.planning_gap.diagnosis import rules
from pytest_cpg.gates.planning_gap.diagnosis.coverage import Coverage
from pytest_cpg.gates.planning_gap.diagnosis.evidence import (
    WINDOW,
    Evidence,
    Headroom,
    OneStep,
    Term,
)
from pytest_cpg.gates.planning_gap.diagnosis.losses import FEWEST_EPISODES, LEAST_REGRET
from pytest_cpg.gates.planning_gap.diagnosis.measures import (
    MOST_BLIND,
    Measures,
    by_the_task,
    measures_of,
)
from pytest_cpg.gates.planning_gap.diagnosis.repairs import MOST, WINDOW_ERROR
from pytest_cpg.stats import Interval, Verdict

_MEANINGS = {
    Cause.ACTION_BLIND: "the model hardly answers to actions: its predictions of different plans "
    "lie {response} as far apart as in truth.",
    Cause.NOISE: "the noise that the model draws decides: without it {noise} of the loss "
    "disappears.",
    Cause.SCORE_HEAD: "the score is at fault: {scoring}.",
    Cause.COVERAGE: "{outside} of the states visited or imagined lie outside the training data. "
    "There, predictions {window} steps ahead are off by {outside_error} times the effect of a "
    "plan; {inside}.",
    Cause.DYNAMICS_BIAS: "{term}: single steps are off by {one_step} of what a step changes, and "
    "{claim} leaves {left} of that, in states that it was not fitted on.",
    Cause.TOO_LITTLE_DATA: "single steps are off by {one_step} of what a step changes where plans "
    "lead, and by {trained} on the training data beside them, {times} times less: it was learned "
    "by heart.",
    Cause.UNDERFIT: "single steps are off by {one_step} of what a step changes where plans lead, "
    "and by {trained} already on the training data beside them: that was not learned.",
    Cause.ONE_STEP_ERROR: "predictions {window} steps ahead are off by {window_error} times the "
    "effect of a plan. With true steps {places} of the loss disappears.",
    Cause.LOCAL_ERROR: "the model is wrong at {bad_windows} of the places that plans lead through"
    "{others}. With true steps at the wrong ones {places} of the loss disappears.",
    Cause.EXPLOITATION: "the planner finds what only the model believes: with the truth where most "
    "is promised {promises} of the loss disappears.",
    Cause.COMPOUNDING_ERROR: "small errors grow: predictions {window} steps ahead are off by "
    "{window_error} times the effect of a plan. With the truth every {window} steps {restarts} of "
    "the loss disappears.",
    Cause.PLANNER: "with four times the search the oracle solves {solved} of {tried} starts that "
    "it had failed: the planner looks at too little.",
}
# Of the measures, what is a share of something.
_SHARES = frozenset(("regret", "bad_windows", "outside", "response", "blind"))
# What is the truth, by its name in `WonBack`.
_PARTS = {
    "dynamics": "won back with the true dynamics",
    "places": "won back, the worst places true",
    "promises": "won back, the most promising places true",
    "restarts": f"won back, true every {WINDOW} steps",
    "noise": "won back with a noise of 0",
}
_NO_GAP = "The verdict is {verdict}, so there is no gap of the model to explain."
_NO_HEADROOM = "More search is not shown to help: {headroom}."
_NO_LOSS = (
    "The model's choices lose {regret} of what a random plan loses, not shown to be more than "
    "{least}, and its ranking is not shown to be bad: this does not explain the gap."
)
_UNEXPLAINED = (
    "The model's choices lose {regret} of what a random plan loses, but no single cause is shown "
    "to explain most of it."
)
_TOO_FEW = "Only {count} episodes were asked about, and {fewest} are needed to name a cause."
_ALIKE = (
    "The true scores of plans hardly differ, so that nothing tells the model's choices from "
    "others: this does not explain the gap."
)
_LOOK = (
    "Look at the measures, and at lost episodes with --cpg-replay, or run more episodes for a "
    "clearer answer."
)
_BOTH = "Neither is enough by itself."
_LEFT_DATA = (
    "Of the states visited or imagined, {outside} lie outside the training data, which does not "
    "explain it alone: {within}."
)


def diagnosis_of(
    evidence: Evidence | None,
    *,
    verdict: Verdict,
    oracle_rate: Interval,
    scoring_share: Interval | None,
    swapped: tuple[str, ...],
    headroom: Headroom | None,
    episodes: tuple[int, ...],
) -> Diagnosis:
    """Return what the evidence shows of a gate with this verdict."""
    causes: tuple[Cause, ...] = ()
    if rules.has_headroom(headroom, oracle_rate.high):
        causes = (Cause.PLANNER,)
    planner = Measure.of("planner", None, _headroom(headroom, oracle_rate))
    words = _words_of_planner(headroom, oracle_rate)
    if evidence is None:
        advice = advice_on(Cause.PLANNER, swapped=(), has_memory=False, knows_data=True)
        diagnosis = _told(causes, words, _NO_HEADROOM.format(**words), advice * bool(causes))
        return replace(diagnosis, measures=(planner,))
    measures = measures_of(evidence)
    words |= _words(measures, scoring_share)
    second = words
    if verdict == Verdict.MODEL_BOTTLENECK:
        seen = by_the_task(evidence)
        by_task = None if seen is None else measures_of(seen)
        causes = rules.causes_of(
            measures, scoring_share=scoring_share, memory=evidence.memory, by_task=by_task
        )
        if by_task is not None and causes[:1] == (Cause.SCORE_HEAD,):
            second = words | _words(by_task, scoring_share)
        otherwise = f"{_unexplained(measures, words, len(episodes))} {_LOOK}"
        beside = _beside(measures, causes).format(**words)
    else:
        otherwise, beside = _NO_GAP.format(verdict=verdict.value), ""
    advice = " ".join(
        advice_on(
            cause,
            swapped=swapped,
            has_memory=evidence.memory != "none",
            knows_data=_knows_data(evidence, cause),
        )
        for cause in causes
    )
    return replace(
        _told(
            causes,
            words,
            otherwise,
            advice,
            second=second,
            beside=beside,
        ),
        measures=(*_table(measures, evidence), planner),
        episodes=episodes,
        profile=_profile(measures, evidence.coverage),
        decisions=len(evidence.episodes),
    )


def _knows_data(evidence: Evidence, cause: Cause) -> bool:
    """Say whether training data would tell no more of a cause."""
    if cause == Cause.ONE_STEP_ERROR:
        return evidence.one_step is None or not evidence.one_step.lacks_transitions
    return isinstance(evidence.coverage, Coverage)


def _told(
    causes: tuple[Cause, ...],
    words: dict[str, str],
    otherwise: str,
    advice: str,
    *,
    second: dict[str, str] | None = None,
    beside: str = "",
) -> Diagnosis:
    """Return a diagnosis that says what was found, and what to do about each cause.

    ``second`` are the words of a second cause; beside SCORE HEAD it is what the task's score shows.
    """
    texts = [
        _MEANINGS[cause].format(**part)
        for cause, part in zip(causes, (words, second or words), strict=False)
    ] or [otherwise]
    if causes[1:] and causes[0] == Cause.SCORE_HEAD:
        texts[1] = f"what is left by the task's score: {texts[1]}"
    texts += [_BOTH] * (len(causes) > 1) + [beside] * bool(beside)
    first, other, *_ = (*causes, Cause.NONE, Cause.NONE)
    return Diagnosis(
        cause=first,
        second=other,
        summary=" ".join(text[:1].upper() + text[1:] for text in texts),
        recommendation=advice.format(**words),
    )


def _beside(measures: Measures, causes: tuple[Cause, ...]) -> str:
    """Return what else was measured to be bad, and why it is not the cause."""
    is_bad = rules.is_above(measures.outside, rules.LEAST_OUTSIDE)
    return _LEFT_DATA if is_bad and Cause.COVERAGE not in causes else ""


def _unexplained(measures: Measures, words: dict[str, str], count: int) -> str:
    if measures.won is not None:
        return _UNEXPLAINED.format(**words)
    if measures.regret is not None:
        return _NO_LOSS.format(least=_share(LEAST_REGRET), **words)
    if count >= FEWEST_EPISODES:
        return _ALIKE
    return _TOO_FEW.format(count=count, fewest=FEWEST_EPISODES)


def _words(measures: Measures, scoring_share: Interval | None) -> dict[str, str]:
    intervals = {
        name: interval
        for name in Measures.__dataclass_fields__
        if isinstance(interval := getattr(measures, name), Interval | None)
    }
    numbers = {
        name: _number(interval, is_share=name in _SHARES) for name, interval in intervals.items()
    }
    for name, interval in (measures.won.shares if measures.won else {}).items():
        # Of an estimate by Fieller, which knows no bounds.
        numbers[name] = _share(min(1.0, max(0.0, interval.estimate)))
    inside, within = "no state lies inside", "few lie inside to compare with"
    if measures.inside_error is not None:
        inside = f"inside, by {numbers['inside_error']}"
        within = (
            f"{WINDOW} steps are off by {numbers['inside_error']} times the effect of a plan "
            f"inside, and by {numbers['outside_error']} outside"
        )
    steps = "fewer steps" if measures.lost_at is None else f"fewer than {measures.lost_at} steps"
    return {
        **numbers,
        **_words_of_step(measures.one_step),
        "steps": f"{steps} ahead",
        "inside": inside,
        "others": _others(measures),
        "scoring": _scoring(scoring_share).format(**{"dynamics": "unknown", **numbers}),
        "within": within,
        "limit": f"{_limit(measures):g}",
        "window": str(WINDOW),
    }


def _others(measures: Measures) -> str:
    if rules.has_contrast(measures):
        return ", and right at the others"
    right = 0.0 if measures.one_step is None else measures.one_step.right
    return f", and right in {_share(right)} of single steps" if right > rules.LEAST_RIGHT else ""


def _number(interval: Interval | None, *, is_share: bool) -> str:
    if interval is None:
        return "unknown"
    if is_share:
        return _share(interval.estimate)
    return f"{interval.estimate:.0f}" if interval.estimate >= 10 else f"{interval.estimate:.2f}"


def _share(value: float) -> str:
    percent = 100 * value
    # An error of a few thousandths is none of 0.
    return f"{percent:.1g} %" if 0.01 <= percent < 0.5 else f"{percent:.0f} %"


def _scoring(share: Interval | None) -> str:
    """Return what shows a score to be at fault: the third arm, or which plans it prefers."""
    if share is not None and rules.is_above(share, MOST):
        return f"true dynamics, rated by the model, still lose {_share(share.estimate)} of the gap"
    return "with the true dynamics only {dynamics} of the loss disappears"


def _words_of_step(one_step: OneStep | None) -> dict[str, str]:
    if one_step is None:
        return {}
    term = one_step.term or Term(name="", claim="", advice="", left=1.0)
    return {
        "one_step": _number(one_step.error, is_share=True),
        "trained": _number(one_step.trained, is_share=True),
        "times": _number(one_step.ratio, is_share=False),
        "term": term.name,
        "claim": term.claim,
        "left": _share(term.left),
        "look": term.advice,
    }


def _words_of_planner(headroom: Headroom | None, oracle_rate: Interval) -> dict[str, str]:
    solved, tried = headroom or (0, 0)
    return {
        "solved": str(solved),
        "tried": str(tried),
        "headroom": _headroom(headroom, oracle_rate),
    }


def _table(measures: Measures, evidence: Evidence) -> Iterator[Measure]:
    chance = (
        "never chance" if measures.lost_at is None else f"chance from step {measures.lost_at} on"
    )
    is_checked = isinstance(evidence.coverage, Coverage)
    of_coverage = f"of states outside the data; bad above {rules.LEAST_OUTSIDE:g}"
    for name, interval, text in (
        ("regret", measures.regret, f"of a random plan's loss; bad above {LEAST_REGRET:g}"),
        ("ranking", measures.ranking, f"Kendall tau; {chance}"),
        (
            f"{WINDOW} steps",
            measures.window_error,
            f"error / change by plans; bad above {WINDOW_ERROR:g}",
        ),
        *_rows_of_step(measures.one_step),
        (
            "bad places",
            measures.bad_windows,
            f"share of places off by more than {_limit(measures):g}",
        ),
        ("response", measures.response, f"spread / true spread; blind below {MOST_BLIND:g}"),
        (
            "coverage",
            measures.outside,
            of_coverage if is_checked else f"not checked: {evidence.coverage}",
        ),
    ):
        yield Measure.of(name, interval, text)
    for name, text in _PARTS.items():
        if name != "noise" or evidence.drawn is not None:
            yield Measure.of(name, measures.won.shares[name] if measures.won else None, text)


def _rows_of_step(
    one_step: OneStep | None,
) -> Iterator[tuple[str, Interval | None, str]]:
    if one_step is None:
        return
    yield "one step", one_step.error, "error where plans lead / what a step changes"
    if not one_step.lacks_transitions:
        yield "trained", one_step.trained, "the same, on the training data beside these steps"


def _limit(measures: Measures) -> float:
    return measures.won.limit if measures.won else WINDOW_ERROR


def _headroom(headroom: Headroom | None, oracle_rate: Interval) -> str:
    if headroom is None:
        return f"4 x search not run: at most {1 - oracle_rate.estimate:.2f} of starts to gain"
    return f"4 x search solves {headroom.solved} of {headroom.tried} starts that the oracle failed"


def _profile(measures: Measures, coverage: Coverage | str) -> Profile:
    bins: tuple[tuple[float, ...], ...] = ((), (), ())
    if isinstance(coverage, Coverage):
        bins = tuple(_short(part.tolist()) for part in coverage.histogram())
    return Profile(
        ranking=_known(measures.ranking_by_step),
        open_loop=_known(measures.error_by_step),
        bins=bins[0],
        trained=bins[1],
        planned=bins[2],
        **_scatter(measures.promised, measures.kept),
    )


def _scatter(promised: FloatArray, actual_scores: FloatArray) -> dict[str, tuple[float, ...]]:
    pairs = [
        (float(promise), float(other))
        for promise, other in zip(promised, actual_scores, strict=True)
        if math.isfinite(promise) and math.isfinite(other)
    ]
    predicted, actual = zip(*pairs, strict=True) if pairs else ((), ())
    return {"predicted": _short(predicted), "actual": _short(actual)}


def _known(values: FloatArray) -> tuple[float, ...]:
    """Return the values up to the first that is not known."""
    plain = [float(value) for value in values]
    end = next((i for i, value in enumerate(plain) if not math.isfinite(value)), len(plain))
    return _short(plain[:end])


def _short(values: tuple[float, ...] | list[float]) -> tuple[float, ...]:
    """Round to what a figure shows: hundreds of these are in a report."""
    return tuple(float(f"{value:.4g}") for value in values)
