"""Failure section: what a failing gate shows, in text that can be acted on."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence

from pytest_cpg.gates.result import GateResult
from pytest_cpg.metrics import Arm
from pytest_cpg.stats import (
    FEWEST_EPISODES_TO_CALL_ALIKE,
    Interval,
    Verdict,
    episodes_to_resolve,
    smallest_detectable_gap,
)

_SHORT = {
    Verdict.MODEL_AS_GOOD_AS_ORACLE: "AS GOOD AS ORACLE",
    Verdict.LEARNED_OUTPERFORMS_ORACLE: "LEARNED OUTPERFORMS",
}
# The options' defaults, which need not be typed; a test holds them to settings.py.
USUAL_LEVEL, USUAL_TOLERANCE = 0.95, 0.05
_WIDTH = 80
_BAR = 23


def headline(result: GateResult, max_verdict: Verdict, *, fault: bool) -> str:
    """Return the first line: verdict, gap, interval and n within 80 columns."""
    against = "model fault" if fault else f"> max {short_name(max_verdict)}"
    if result.is_oracle_too_weak:
        against = "weak oracle"
    return (
        f"{result.verdict} gap {result.gap:+.2f} {bracket(result.interval)} {against}  "
        f"n={result.oracle.episodes}/arm"
    )


def short_name(verdict: Verdict) -> str:
    """Return a verdict in at most 19 columns, for tables."""
    return _SHORT.get(verdict, verdict.value)


def bracket(interval: Interval) -> str:
    """Return an interval of a gap as it is printed everywhere."""
    return f"[{interval.low:+.2f},{interval.high:+.2f}]"


def failure_text(
    result: GateResult, *, reason: str, max_verdict: Verdict, model: str, nodeid: str
) -> str:
    """Return the whole section that a failing test prints.

    Parameters
    ----------
    reason : str
        From `failure_reason`.
    model : str
        What the learned arm was, for the header; may be empty.
    nodeid : str
        The test, for the command that runs this gate again.
    """
    fault = reason in result.faults
    parts = [headline(result, max_verdict, fault=fault), ""]
    parts += _table(result)
    parts.append("")
    parts += _facts(result, model)
    parts.append("")
    parts += [_wrapped(text, "  ") for text in _explanation(result, fault=fault)]
    parts += ["", "  Rerun this gate exactly:", f"      {rerun_command(result, nodeid)}"]
    return "\n".join(parts)


def rerun_command(result: GateResult, nodeid: str) -> str:
    """Return the command line that repeats this gate with the same seed and episodes."""
    options = [f"--cpg-seed={result.seed}", f"--cpg-episodes={result.oracle.episodes}"]
    if result.level != USUAL_LEVEL:
        options.append(f"--cpg-confidence={result.level:g}")
    if result.tolerance != USUAL_TOLERANCE:
        options.append(f"--cpg-tolerance={result.tolerance:g}")
    return " ".join(["pytest", shlex.quote(nodeid), *options])


def _table(result: GateResult) -> list[str]:
    percent = f"{100 * result.level:g}%"
    lines = [f"  {'arm':9s} {'success':>8s}   rate   {percent + ' CI':14s} 0{'0.5':^{_BAR - 2}s}1"]
    lines += [_arm_line(arm) for arm in (result.oracle, result.learned, result.chance)]
    paired = result.paired_interval
    lines.append(
        f"  {'gap':9s} {result.gap:+.2f}  (Agresti-Caffo {percent}: {result.interval.low:+.2f} .. "
        f"{result.interval.high:+.2f}; paired {paired.low:+.2f} .. {paired.high:+.2f})"
    )
    return lines


def _arm_line(arm: Arm) -> str:
    interval = arm.interval
    success = f"{arm.success_count}/{arm.episodes}"
    return (
        f"  {arm.name:9s} {success:>8s}   {arm.success_rate:.2f}   "
        f"[{interval.low:.2f}, {interval.high:.2f}]   {_bar(interval)}"
    ).rstrip()


def _bar(interval: Interval) -> str:
    """Draw an interval of a rate on a scale from 0 to 1."""
    low, at, high = (
        round(value * (_BAR - 1)) for value in (interval.low, interval.estimate, interval.high)
    )
    cells = ["."] * low + ["="] * (high - low + 1)
    cells[low] = cells[high] = "|"
    cells[at] = "o"
    return "".join(cells)


def _facts(result: GateResult, model: str) -> list[str]:
    pairs = result.pairs
    facts = [
        (
            "same starts",
            f"both {pairs.both} | oracle only {pairs.oracle_only} | "
            f"learned only {pairs.learned_only} | neither {pairs.neither}",
        ),
        ("steps", _steps(result)),
    ]
    if result.normalised_gap is not None:
        facts.append(("normalised", f"gap / (oracle - chance) = {result.normalised_gap:+.2f}"))
    facts.append(("power", _power(result)))
    if result.lost_episodes:
        facts.append(("lost", f"episodes {_listed(result.lost_episodes)}"))
    facts += [
        ("task", _task(result)),
        ("planner", result.planner),
        ("swapped", ", ".join(result.swapped) + (f" ({model})" if model else "")),
        ("cost", _cost(result)),
        ("versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())),
    ]
    return [
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"  {name:13s}",
            subsequent_indent=" " * 15,
            break_on_hyphens=False,
        )
        for name, text in facts
        if text
    ]


def _task(result: GateResult) -> str:
    skipped = result.starts_skipped
    replaced = f"; {skipped} solved already, replaced" if skipped else ""
    return (
        f"{result.task}, {result.budget} steps of {result.control_period:g} s, "
        f"starts {result.starts}{replaced}"
    )


def _steps(result: GateResult) -> str:
    means = ((arm.name, arm.mean_steps_to_success) for arm in (result.oracle, result.learned))
    return "to success, mean: " + ", ".join(
        f"{name} {'none' if mean is None else f'{mean:.0f}'}" for name, mean in means
    )


def _cost(result: GateResult) -> str:
    return "per decision, median: " + ", ".join(
        f"{arm.name} {arm.latency_ms.median:.2f} ms, {arm.rollout_steps:.0f} model steps"
        for arm in (result.oracle, result.learned)
    )


def _power(result: GateResult) -> str:
    oracle = result.oracle
    drop = smallest_detectable_gap(oracle.success_count, oracle.episodes, level=result.level)
    of = f"{oracle.success_count}/{oracle.episodes}"
    if drop is None:
        return f"no drop from {of} could be flagged at this number of episodes"
    return f"smallest drop this gate could flag from {of}: {drop:.2f}"


def _listed(episodes: Sequence[int], most: int = 40) -> str:
    shown = " ".join(str(episode) for episode in episodes[:most])
    return shown + (f" and {len(episodes) - most} more" if len(episodes) > most else "")


def _explanation(result: GateResult, *, fault: bool) -> list[str]:
    """Return paragraphs: what the verdict means, what to do, what to know."""
    paragraphs = list(result.faults) if result.faults else []
    if result.is_oracle_too_weak:
        paragraphs.append(_TOO_WEAK.format(**_numbers(result)))
    elif not fault:
        paragraphs.append(_MEANING[result.verdict].format(**_numbers(result)))
    if result.verdict is Verdict.INCONCLUSIVE:
        paragraphs.append(resolve_hint(result))
    paragraphs += [f"Note: {note}." for note in result.notes]
    return [paragraph for paragraph in paragraphs if paragraph]


def resolve_hint(result: GateResult) -> str:
    """Say how many more episodes would resolve an INCONCLUSIVE gate at these rates."""
    episodes = result.oracle.episodes
    if episodes < FEWEST_EPISODES_TO_CALL_ALIKE:
        return (
            f"resolve: below {FEWEST_EPISODES_TO_CALL_ALIKE} episodes no two rates are called "
            f"alike -> --cpg-episodes=50"
        )
    needed = episodes_to_resolve(
        result.oracle.success_count,
        result.oracle.episodes,
        result.learned.success_count,
        result.learned.episodes,
        level=result.level,
    )
    if needed is None and result.gap == 0:
        return "resolve: the rates are equal; no number of episodes would tell them apart"
    if needed is None:
        return "resolve: at these rates more than 100000 episodes per arm would be needed"
    more = needed - episodes
    return f"resolve: about {more} more episodes per arm at these rates -> --cpg-episodes={needed}"


def _numbers(result: GateResult) -> dict[str, str]:
    return {
        "oracle": f"{result.oracle.success_count}/{result.oracle.episodes}",
        "learned": f"{result.learned.success_count}/{result.learned.episodes}",
        "lost": str(result.pairs.oracle_only),
        "horizon": str(result.horizon),
        "wanted": f"{result.min_oracle:g}" if result.min_oracle is not None else "",
    }


_MEND = (
    "Fix the gate: look farther ahead (horizon, now {horizon}), use a stronger planner "
    '(planner="cem", or more candidates), give more steps (budget), or choose an easier task. '
)
_TOO_WEAK = (
    "The gate is at fault, not the model: with the true dynamics this planner solves {oracle} "
    "starts, and min_oracle asks for a rate of {wanted}. A planner this weak hides what a model "
    "gets wrong. " + _MEND
)
_MEANING = {
    Verdict.MODEL_BOTTLENECK: (
        "With the true dynamics this planner solves {oracle} starts, with the learned ones "
        "{learned}: the model loses {lost} starts that were there to be won. Planner, starts, "
        "noise and score were the same, so the loss is the model's. Compare its predictions with "
        "the simulator along the oracle's plans in the lost episodes, and train on states the "
        "planner visits; a lower validation error on the old data need not help."
    ),
    Verdict.PLANNER_BOTTLENECK: (
        "The gate is at fault, not the model: even with the true dynamics this planner solves only "
        "{oracle} starts, so no model could do better and a broken one would look the same. "
        + _MEND
        + 'To accept a gate that cannot see the model, write max_verdict="PLANNER BOTTLENECK".'
    ),
    Verdict.INCONCLUSIVE: (
        "The interval contains zero and the rates are neither both near 0 nor both near 1 (oracle "
        "{oracle}, learned {learned}): these episodes do not tell the arms apart."
    ),
    Verdict.MODEL_AS_GOOD_AS_ORACLE: (
        "Both arms solve nearly every start (oracle {oracle}, learned {learned})."
    ),
    Verdict.LEARNED_OUTPERFORMS_ORACLE: (
        "The learned model plans better than the true dynamics (oracle {oracle}, learned "
        "{learned}); a smoother or more optimistic model can do that."
    ),
}


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
