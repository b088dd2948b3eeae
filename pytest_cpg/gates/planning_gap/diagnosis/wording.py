"""Wording: a diagnosis in words: the table of its measures, a paragraph, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis, Measure, advice_on
from pytest_cpg.gates.planning_gap.diagnosis import losses
from pytest_cpg.gates.planning_gap.diagnosis.evidence import (
    WINDOW,
    Coverage,
    Evidence,
    Headroom,
    Term,
)
from pytest_cpg.gates.planning_gap.diagnosis.measures import (
    LEAST_OUTSIDE,
    LEAST_RIGHT,
    MOST_BLIND,
    Measures,
    by_the_task,
    causes_of,
    has_contrast,
    has_headroom,
    is_above,
    measures_of,
)
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.stats import Interval, Verdict

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
_LOOK = (
    "Look at the measures, and at lost episodes with --cpg-replay, or run more episodes for a "
    "clearer answer."
)
_LEFT_DATA = (
    "Of the states visited or imagined, {outside} lie outside the training data, which does not "
    "explain it alone: {within}."
)


def diagnosis_of(
    evidence: Evidence | None,
    result: GateResult,
    *,
    headroom: Headroom | None,
    episodes: tuple[int, ...],
) -> Diagnosis:
    """Return what the evidence shows of a gate with this result."""
    oracle_rate, scoring_share = result.oracle.interval, result.scoring_share
    causes: tuple[Cause, ...] = ()
    if has_headroom(headroom, oracle_rate.high):
        causes = (Cause.PLANNER,)
    search = f"4 x search not run: at most {1 - oracle_rate.estimate:.2f} of starts to gain"
    solved, tried = headroom or (0, 0)
    if headroom is not None:
        search = f"4 x search solves {solved} of {tried} starts that the oracle failed"
    planner = Measure.of("planner", None, search)
    words = {"solved": str(solved), "tried": str(tried)}
    if evidence is None:
        advice = advice_on(Cause.PLANNER, swapped=(), has_memory=False, knows_data=True)
        otherwise = f"More search is not shown to help: {search}."
        diagnosis = _told(causes, (words, words), otherwise, advice * bool(causes))
        return replace(diagnosis, measures=(planner,))
    measures = measures_of(evidence)
    words |= _words(measures, scoring_share)
    second, beside = words, ""
    otherwise = (
        f"The verdict is {result.verdict.value}, so there is no gap of the model to explain."
    )
    if result.verdict == Verdict.MODEL_BOTTLENECK:
        seen = by_the_task(evidence)
        by_task = None if seen is None else measures_of(seen)
        causes = causes_of(
            measures, scoring_share=scoring_share, memory=evidence.memory, by_task=by_task
        )
        if by_task is not None and causes[:1] == (Cause.SCORE_HEAD,):
            second = words | _words(by_task, scoring_share)
        otherwise = f"{_unexplained(measures, words['regret'], len(episodes))} {_LOOK}"
        # What else was measured to be bad, and is not the cause.
        if is_above(measures.outside, LEAST_OUTSIDE) and Cause.COVERAGE not in causes:
            beside = _LEFT_DATA.format(**words)
    step, has_memory = evidence.one_step, evidence.memory != "none"
    knows_states = isinstance(evidence.coverage, Coverage)
    unread = "" if isinstance(evidence.coverage, Coverage) else evidence.coverage
    fault = unread if unread.startswith("training_data") else ""
    knows_steps = step is None or not step.lacks_transitions
    advice = " ".join(
        advice_on(
            cause,
            swapped=result.swapped,
            has_memory=has_memory,
            knows_data=knows_steps if cause == Cause.ONE_STEP_ERROR else knows_states,
            fault=fault,
        )
        for cause in causes
    )
    return replace(
        _told(causes, (words, second), otherwise, advice, beside=beside),
        measures=(*_table(measures, evidence), planner),
        episodes=episodes,
        profile=measures.profile,
        decisions=len(evidence.episodes),
    )


def _told(
    causes: tuple[Cause, ...],
    words: tuple[dict[str, str], dict[str, str]],
    otherwise: str,
    advice: str,
    *,
    beside: str = "",
) -> Diagnosis:
    """Return a diagnosis in words, of which each of two causes has its own."""
    pairs = zip(causes, words, strict=False)
    texts = [cause.meaning.format(**part) for cause, part in pairs] or [otherwise]
    if len(causes) > 1:
        if causes[0] == Cause.SCORE_HEAD:
            texts[1] = f"what is left by the task's score: {texts[1]}"
        texts.append("Neither is enough by itself.")
    texts += [beside] * bool(beside)
    first, other, *_ = (*causes, Cause.NONE, Cause.NONE)
    return Diagnosis(
        cause=first,
        second=other,
        summary=" ".join(text[:1].upper() + text[1:] for text in texts),
        recommendation=advice.format(**words[0]),
    )


def _unexplained(measures: Measures, regret: str, count: int) -> str:
    loses = f"The model's choices lose {regret} of what a random plan loses"
    if measures.won is not None:
        return f"{loses}, but no single cause is shown to explain most of it."
    if measures.regret is not None:
        return (
            f"{loses}, not shown to be more than {_share(losses.LEAST_REGRET)}, and its ranking is "
            f"not shown to be bad: this does not explain the gap."
        )
    fewest = losses.FEWEST_EPISODES
    if count >= fewest:
        return (
            "The true scores of plans hardly differ, so that nothing tells the model's choices "
            "from others: this does not explain the gap."
        )
    return f"Only {count} episodes were asked about, and {fewest} are needed to name a cause."


def _words(measures: Measures, scoring_share: Interval | None) -> dict[str, str]:
    numbers = {
        field.name: _number(interval, is_share=field.name in _SHARES)
        for field in fields(Measures)
        if isinstance(interval := getattr(measures, field.name), Interval | None)
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
    right, others, step = 0.0, "", measures.one_step
    if step is not None:
        right, term = step.right, step.term or Term(name="", claim="", advice="", left=1.0)
        numbers |= {
            "one_step": _number(step.error, is_share=True),
            "trained": _number(step.trained, is_share=True),
            "times": _number(step.ratio, is_share=False),
            "term": term.name,
            "claim": term.claim,
            "left": _share(term.left),
            "look": term.advice,
        }
    if has_contrast(measures):
        others = ", and right at the others"
    elif right > LEAST_RIGHT:
        others = f", and right in {_share(right)} of single steps"
    # What shows a score to be at fault: the third arm, or which plans it prefers.
    saved = numbers.get("dynamics", "unknown")
    scoring = f"with the true dynamics only {saved} of the loss disappears"
    if scoring_share is not None and is_above(scoring_share, losses.MOST):
        lost = _share(scoring_share.estimate)
        scoring = f"true dynamics, rated by the model, still lose {lost} of the gap"
    steps = "fewer steps" if measures.lost_at is None else f"fewer than {measures.lost_at} steps"
    return {
        **numbers,
        "steps": f"{steps} ahead",
        "inside": inside,
        "others": others,
        "scoring": scoring,
        "within": within,
        "window": str(WINDOW),
    }


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


def _table(measures: Measures, evidence: Evidence) -> Iterator[Measure]:
    last, step, won = measures.lost_at, measures.one_step, measures.won
    of_coverage = f"of states outside the data; bad above {LEAST_OUTSIDE:g}"
    if not isinstance(evidence.coverage, Coverage):
        of_coverage = f"not checked: {evidence.coverage}"
    chance = "never chance" if last is None else f"chance from step {last} on"
    of_window = f"error / change by plans; bad above {losses.WINDOW_ERROR:g}"
    of_places = f"share of places off by more than {won.limit if won else losses.WINDOW_ERROR:g}"
    of_response = f"spread / true spread; blind below {MOST_BLIND:g}"
    of_regret = f"of a random plan's loss; bad above {losses.LEAST_REGRET:g}"
    yield Measure.of("regret", measures.regret, of_regret)
    yield Measure.of("ranking", measures.ranking, f"Kendall tau; {chance}")
    of_value = "of scores-to-go / their true spread over plans"
    yield Measure.of("value error", measures.value_error, of_value)
    yield Measure.of(f"{WINDOW} steps", measures.window_error, of_window)
    if step is not None:
        yield Measure.of("one step", step.error, "error where plans lead / what a step changes")
        if not step.lacks_transitions:
            of_data = "the same, on the training data beside these steps"
            yield Measure.of("trained", step.trained, of_data)
    yield Measure.of("bad places", measures.bad_windows, of_places)
    yield Measure.of("response", measures.response, of_response)
    yield Measure.of("coverage", measures.outside, of_coverage)
    for name, text in _PARTS.items():
        if name != "noise" or evidence.drawn is not None:
            yield Measure.of(name, won.shares[name] if won else None, text)
