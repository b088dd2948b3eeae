"""Gate views: what a page shows of each gate of a session, worked out before anything is written.

A session comes as its JSON document, so that the page of an old one can be written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pytest_cpg.gates.card import Cause
from pytest_cpg.gates.notation import number
from pytest_cpg.gates.planning_gap.accepted import DesignKey
from pytest_cpg.gates.planning_gap.card import card_of
from pytest_cpg.gates.planning_gap.compare import Comparison
from pytest_cpg.gates.planning_gap.notation import WEIGHT_DIGITS, gap_text, recovery_text
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.ruling import ruling_of
from pytest_cpg.gates.planning_gap.stopping import level_of_last_look
from pytest_cpg.render.diagnosis import Plot, plots
from pytest_cpg.render.failure import is_drifted, paragraphs
from pytest_cpg.render.figures import (
    PAIR_KINDS,
    PLOT_HEIGHT,
    Axis,
    Curve,
    PairGrid,
    Trend,
    curves,
    pair_grid,
    pair_kinds,
    ranges,
)
from pytest_cpg.report.document import drift_of, result_of
from pytest_cpg.report.outcomes import FAILING, WORDS, comparison_outcome, gate_outcome
from pytest_cpg.stats import parse_verdict, smallest_detectable_gap

_SIGNS = {
    "failed": "\N{BALLOT X}",
    "error": "!",
    "missing": "\N{EMPTY SET}",
    "xfailed": "\N{MULTIPLICATION SIGN}",
    "inconclusive": "?",
    "skipped": "\N{EN DASH}",
    "passed": "\N{CHECK MARK}",
}
# How a gate can end, as words and as a sign, from worst to best.
STATES: Mapping[str, tuple[str, str]] = {
    outcome: (word, _SIGNS[outcome]) for outcome, word in WORDS.items()
}
# Nobody reads more at a glance, and each one costs the page some bytes.
_MOST_LOST, _MOST_SESSIONS, _MOST_OPEN = 40, 30, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An episode that the oracle solved and the learned model did not.

    Attributes
    ----------
    seed : int
        What the task was reset with.
    oracle_steps : int
        Steps to the oracle's success.
    """

    episode: int
    seed: int
    oracle_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a comparison found in one session.

    Attributes
    ----------
    is_other_design : bool
        Whether it was measured under another design than the one shown.
    """

    revision: str
    result: GateResult
    gap: str
    is_other_design: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A comparison over several sessions, oldest first, and the trends of rate and gap."""

    sessions: tuple[Session, ...]
    rate: Trend
    gap: Trend


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """One comparison of a gate.

    Attributes
    ----------
    path, name : str
        Its id in two parts: where the test is, and what it is called.
    state : str
        One of `STATES`; its test may have failed for another comparison.
    reason : str or None
        Why the test fails, where the comparison with the baseline does not say so already.
    gap : str
        As it is written everywhere, with its interval.
    paragraphs : tuple of str
        What the verdict means.
    facts : tuple of (str, str)
        What has to be known to judge or repeat it.
    pairs : tuple of (kind, count, episodes)
        The episodes of each of `PAIR_KINDS`.
    lost : tuple of Lost
        The first of them.
    films : tuple of (str, str)
        Name and address of films of lost episodes.
    cause : Cause or None
    plots : tuple of Plot
        Of why the gap is there; empty where that was not asked.
    history : History or None
        None where no earlier session made this comparison.
    """

    path: str
    name: str
    state: str
    reason: str | None
    max_verdict: str
    result: GateResult
    gap: str
    drift: Comparison | None
    paragraphs: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    curves: tuple[Curve, ...]
    grid: PairGrid
    pairs: tuple[tuple[str, int, str], ...]
    lost: tuple[Lost, ...]
    films: tuple[tuple[str, str], ...]
    cause: Cause | None
    plots: tuple[Plot, ...]
    history: History | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """One gate.

    Attributes
    ----------
    anchor : str
        What links to it.
    path, name : str
        Its id in two parts.
    state : str
        One of `STATES`.
    detail : str
        What went wrong where nothing was measured.
    earlier : tuple of str
        What each earlier attempt at the test found.
    is_open : bool
        Whether a reader should see all of it at once.
    """

    anchor: str
    path: str
    name: str
    state: str
    detail: str
    earlier: tuple[str, ...]
    is_open: bool
    comparisons: tuple[ComparisonView, ...]
    measurements: tuple[str, ...]


def gate_views(documents: Sequence[Mapping[str, Any]]) -> tuple[GateView, ...]:
    """Return the gates of the last of these sessions, with their history over all of them.

    Raises
    ------
    ValueError
        When a result was written by a newer pytest-cpg.
    """
    gates = documents[-1]["gates"]
    results = _results(documents[-1])
    histories = _histories(documents, results)
    states = [_gate_state(gate, results) for gate in gates]
    few_are_bad = sum(state in FAILING for state in states) <= _MOST_OPEN
    views = []
    for place, (gate, state) in enumerate(zip(gates, states, strict=True), 1):
        path, name = _parts(gate["id"])
        comparisons = tuple(
            _comparison_view(
                one,
                state=_comparison_state(gate, one, results[one["name"]]),
                result=results[one["name"]],
                history=histories.get(one["name"]),
            )
            for one in gate["comparisons"]
        )
        views.append(
            GateView(
                anchor=f"gate-{place}",
                path=path,
                name=name,
                state=state,
                detail=gate["detail"],
                earlier=tuple(gate["earlier"]),
                is_open=few_are_bad and state in FAILING,
                comparisons=comparisons,
                measurements=tuple(gate["measurements"]),
            )
        )
    return tuple(views)


def revision(document: Mapping[str, Any]) -> str:
    """Return what a session measured, as a table has room for it."""
    provenance = document["provenance"]
    if provenance["revision"] is None:
        return "not known"
    return f"{provenance['revision'][:7]}{'-dirty' * bool(provenance['dirty'])}"


def _results(document: Mapping[str, Any]) -> dict[str, GateResult]:
    """Return the result of every comparison, by its name."""
    return {
        one["name"]: result_of(one) for gate in document["gates"] for one in gate["comparisons"]
    }


def _gate_state(gate: Mapping[str, Any], results: Mapping[str, GateResult]) -> str:
    labels = [results[one["name"]].label for one in gate["comparisons"]]
    return gate_outcome(gate["outcome"], labels)


def _comparison_state(gate: Mapping[str, Any], one: Mapping[str, Any], result: GateResult) -> str:
    reasons = [other["reason"] for other in gate["comparisons"]]
    return comparison_outcome(
        gate["outcome"], reason=one["reason"], reasons=reasons, label=result.label
    )


def _parts(gate: str) -> tuple[str, str]:
    """Return where a test is and what it is called; its parameters belong to the name."""
    test, bracket, parameters = gate.partition("[")
    path, colons, name = test.rpartition("::")
    return path + colons, name + bracket + parameters


def _comparison_view(
    one: Mapping[str, Any], *, state: str, result: GateResult, history: History | None
) -> ComparisonView:
    path, name = _parts(one["name"])
    drift = drift_of(one)
    reason = one["reason"]
    accepted = parse_verdict(one["max_verdict"])
    card, ruling = card_of(result, accepted), ruling_of(result, accepted)
    kinds = pair_kinds(result.oracle.successes[: result.learned.episodes], result.learned.successes)
    return ComparisonView(
        path=path,
        name=name,
        state=state,
        reason=None if is_drifted(drift, reason) else reason,
        max_verdict=one["max_verdict"],
        result=result,
        gap=gap_text(result),
        drift=drift,
        paragraphs=tuple(paragraphs(card, ruling, reason=reason, drift=drift)),
        cause=card.cause,
        facts=tuple((what, text) for what, text in _facts(result, one["attempt"]) if text),
        curves=curves(result.arms, result.budget),
        grid=pair_grid(kinds),
        pairs=_pairs(result, kinds),
        lost=_lost(result),
        films=tuple((PurePosixPath(film).stem, film) for film in one["films"]),
        plots=() if result.diagnosis is None else plots(result.diagnosis.profile),
        history=history,
    )


def _pairs(result: GateResult, kinds: Sequence[str]) -> tuple[tuple[str, int, str], ...]:
    by_kind: dict[str, list[int]] = {kind: [] for kind in PAIR_KINDS}
    for episode, kind in zip(result.learned.indices.tolist(), kinds, strict=True):
        by_kind[kind].append(episode)
    return tuple((kind, len(episodes), ranges(episodes)) for kind, episodes in by_kind.items())


def _lost(result: GateResult) -> tuple[Lost, ...]:
    lost = set(result.lost_episodes[:_MOST_LOST])
    # The oracle arm may have run more episodes than there are pairs.
    rows = zip(
        result.learned.indices.tolist(),
        result.start_seeds,
        result.oracle.steps.tolist(),
        strict=False,
    )
    return tuple(
        Lost(episode=episode, seed=seed, oracle_steps=steps)
        for episode, seed, steps in rows
        if episode in lost
    )


def _facts(result: GateResult, attempt: int) -> Iterator[tuple[str, str]]:
    """Yield names and texts; a text is empty where there is nothing to say."""
    judged, paired = result.interval, result.paired_interval
    unit = " in mean return" * (result.metric == "return")
    yield "Gap", f"{gap_text(result)}{unit}, {judged.method}, {100 * judged.level:.4g} %"
    yield (
        "Paired gap",
        f"{number(paired.estimate)} [{number(paired.low)},{number(paired.high)}] in success, "
        f"{paired.method}, {100 * paired.level:.4g} %",
    )
    if result.normalised_gap is not None and result.metric == "success":
        yield "Normalised gap", f"{number(result.normalised_gap)} of what the oracle adds to chance"
    yield "Margin", "" if result.margin is None else f"{result.margin:g}{unit}"
    yield "Perturbation", recovery_text(result)
    yield "Judged by", result.evidence
    yield "Power", _power(result)
    yield "Looks", _looks(result)
    yield "Recipe", result.group
    yield "Family", f"{result.family_size} gates" if result.family_size > 1 else ""
    yield "Attempt", f"number {attempt}" if attempt > 1 else ""
    yield "Task", result.task
    yield "Planner", result.planner
    yield (
        "Budget",
        f"{result.budget} steps of {result.control_period:g} s, plans of {result.horizon} steps",
    )
    skipped = result.starts_skipped
    replaced = f"; {skipped} solved already, replaced" if skipped else ""
    yield "Starts", f"{result.starts}, seed {result.seed}{replaced}"
    yield "Swapped", ", ".join(result.swapped)
    yield "Weights", result.weights and f"sha256 {result.weights[:WEIGHT_DIGITS]}"
    yield "Device", result.device
    yield "Versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())


def _power(result: GateResult) -> str:
    """Return the smallest drop that could be flagged, where one number of episodes decides it."""
    if result.metric == "return" or result.stop != "fixed":
        return ""
    drop = smallest_detectable_gap(
        result.oracle.success_count,
        result.oracle.episodes,
        level=level_of_last_look(result),
        learned_episodes=result.learned.episodes,
        method=result.method,
    )
    if drop is None:
        return "no drop could be flagged"
    return f"smallest drop this gate could flag: {drop:.2f}"


def _looks(result: GateResult) -> str:
    if not result.looks:
        return ""
    last = result.looks[-1]
    return (
        f"{len(result.looks)}; the last at {last.episodes} of at most {result.max_episodes} "
        f"episodes: {last.statistic:.2f}, boundary {last.boundary:.2f}"
    )


def _histories(
    documents: Sequence[Mapping[str, Any]], shown: Mapping[str, GateResult]
) -> dict[str, History]:
    """Return the history of every comparison that an earlier session made as well."""
    found: dict[str, list[tuple[str, GateResult]]] = {name: [] for name in shown}
    for document in documents[-_MOST_SESSIONS:]:
        results = shown if document is documents[-1] else _results(document)
        for name in shown:
            # What an A/A check found is of no model.
            if name in results and results[name].is_aa == shown[name].is_aa:
                found[name].append((revision(document), results[name]))
    return {
        name: _history(measured, shown[name])
        for name, measured in found.items()
        if len(measured) > 1
    }


def _history(measured: Sequence[tuple[str, GateResult]], shown: GateResult) -> History:
    sessions = tuple(
        Session(
            revision=at,
            result=result,
            gap=gap_text(result),
            is_other_design=DesignKey.of(result) != DesignKey.of(shown),
        )
        for at, result in measured
    )
    hollow = [session.is_other_design for session in sessions]
    gaps = [session.result.interval for session in sessions]
    rates = [session.result.learned.interval for session in sessions]
    ends = [end for gap in gaps for end in (gap.low, gap.estimate, gap.high)]
    return History(
        sessions=sessions,
        rate=Trend.of(rates, Axis.of_rates(length=PLOT_HEIGHT), is_hollow=hollow),
        gap=Trend.of(gaps, Axis.around(ends, length=PLOT_HEIGHT), is_hollow=hollow),
    )
