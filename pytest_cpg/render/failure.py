"""Failure section: what a failing gate shows, in text that can be acted on."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates.notation import (
    WEIGHT_DIGITS,
    arm_name,
    gap_text,
    percentage,
    recovery_text,
    short_name,
)
from pytest_cpg.gates.planning_gap.explanation import explanation
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.ruling import blindness, doubt
from pytest_cpg.gates.planning_gap.stopping import gap_interval, level_of_last_look
from pytest_cpg.render.diagnosis import diagnosis_lines
from pytest_cpg.stats import Interval, Verdict, detectable_gap, smallest_detectable_gap

if TYPE_CHECKING:
    from pytest_cpg.gates.planning_gap.compare import Comparison

# The options' defaults, which need not be typed; a test holds them to settings.py.
USUAL_LEVEL, USUAL_TOLERANCE = 0.95, 0.05
_WIDTH = 80
_BAR = 23
# More looks than this are not worth their lines: the last one decided.
_MOST_LOOKS = 8


_STRICT = (
    "--cpg-strict fails what its verdict would let pass: {doubt}. Mend that, or leave --cpg-strict "
    "(cpg_strict) out."
)


def headline(
    result: GateResult,
    max_verdict: Verdict,
    *,
    fault: bool,
    strict: bool = False,
    accepted: bool = False,
    drift: Comparison | None = None,
) -> str:
    """Return the first line: verdict, gap, interval and n within 80 columns."""
    size = f"n={result.learned.episodes}/arm"
    if drift is not None:
        return (
            f"{drift.label} from baseline  {short_name(result.verdict)} {gap_text(result)} {size}"
        )
    against = "model fault" if fault else f"> max {short_name(max_verdict)}"
    if strict:
        against = "in doubt"
    if fault and result.is_aa:
        against = "arms differ"
    if accepted:
        against = "gate passed"
    elif result.is_oracle_too_weak:
        against = "weak oracle"
    elif not fault and blindness(result, max_verdict):
        against = "blind gate"
    return f"{result.label} gap {gap_text(result)} {against}  {size}"


def failure_text(
    result: GateResult,
    *,
    reason: str | None,
    max_verdict: Verdict,
    model: str,
    nodeid: str,
    typed: Mapping[str, Any] | None = None,
    drift: Comparison | None = None,
    replay: str = "",
    not_kept: str = "",
    films: Sequence[str] = (),
    film_problem: str | None = None,
) -> str:
    """Return the whole section that a failing test prints.

    Parameters
    ----------
    reason : str or None
        From `failure_reason` or `doubt`, or the text of ``drift``; None where the gate passed.
    model : str
        What the learned arm was, for the header; may be empty.
    nodeid : str
        The test, for the command that runs this gate again.
    typed : mapping, optional
        Options that were asked of the session and decide the gate, for the same.
    drift : Comparison, optional
        With the baseline.
    replay : str
        The command that runs lost episodes again; may be empty.
    not_kept : str
        Why there is none although episodes were lost.
    films : sequence of str
        Where some of them can be seen.
    film_problem : str, optional
        Why there are no more.
    """
    fault = reason in result.faults
    drifted = drift if drift is not None and reason == drift.text else None
    is_accepted = reason is None
    strict = not (is_accepted or fault) and reason == doubt(result)
    lead = headline(
        result, max_verdict, fault=fault, strict=strict, accepted=is_accepted, drift=drifted
    )
    parts = [lead, ""]
    parts += _table(result)
    parts.append("")
    parts += _facts(result, model, drift)
    if not is_accepted:
        texts = explanation(result, max_verdict, fault=fault, drift=drifted)
        texts += [_STRICT.format(doubt=reason)] if strict else []
        parts += ["", *(_wrapped(text, "  ") for text in texts)]
    if result.diagnosis is not None:
        parts += ["", *diagnosis_lines(result.diagnosis)]
    if films or film_problem:
        parts += ["", *(f"  film: {path}" for path in films)]
        parts += [_wrapped(f"no film: {film_problem}", "  ")] if film_problem else []
    if replay:
        count = len(result.lost_episodes)
        lost = f"Replay the {count} lost episode{'s'[: count != 1]}, both arms, with traces:"
        parts += ["", f"  {lost}", f"      {replay}"]
    if not_kept:
        parts += ["", f"  lost episodes were not kept: {not_kept}"]
    command = rerun_command(result, nodeid, typed or {}, strict=strict)
    parts += ["", "  Rerun this gate exactly:", f"      {command}"]
    return "\n".join(parts)


def rerun_command(
    result: GateResult, nodeid: str, typed: Mapping[str, Any], *, strict: bool = False
) -> str:
    """Return the command line that repeats this gate with the same seed and episodes.

    Parameters
    ----------
    typed : mapping
        Option name to value, of what was asked of the session and decides the gate: it may have
        overruled a marker.
    strict : bool
        Whether doubts fail the gate.
    """
    options: dict[str, Any] = {"seed": result.seed}
    if not result.is_smoke:
        limit = "episodes" if result.stop == "fixed" else "max_episodes"
        options[limit] = result.max_episodes
    if result.stop != "fixed":
        options["stop"] = result.stop
    elif result.metric == "success" and (result.method != "agresti-caffo" or result.margin):
        options["interval"] = result.method
    # A gate that stops early has more of its own accord, and refuses to be told of them.
    if result.stop == "fixed" and result.oracle.episodes > result.learned.episodes:
        options["oracle_episodes"] = result.oracle.episodes
    if result.level != USUAL_LEVEL:
        options["confidence"] = repr(result.level)
    if result.tolerance != USUAL_TOLERANCE:
        options["tolerance"] = repr(result.tolerance)
    if result.family_size > 1:
        options.update(correction="holm", family_size=result.family_size)
    words = [
        f"--cpg-{name.replace('_', '-')}={shlex.quote(str(value))}"
        # What was measured has the last word, and the first place.
        for name, value in {**options, **typed, **options}.items()
    ]
    words += ["--cpg-quick"] * result.is_smoke + ["--cpg-strict"] * strict
    return " ".join(["pytest", shlex.quote(nodeid), *words])


def _table(result: GateResult) -> list[str]:
    width = _name_width(result)
    percent = percentage(result.level)
    lines = [
        f"  {'arm':{width}s} {'success':>8s}   rate   {percent + ' CI':14s} 0{'0.5':^{_BAR - 2}s}1"
    ]
    lines += [_arm_line(arm, width) for arm in result.arms]
    return [*lines, *_gap_lines(result, width)]


def _name_width(result: GateResult) -> int:
    return max(9, *(len(arm_name(arm)) for arm in result.arms))


def _gap_lines(result: GateResult, width: int) -> list[str]:
    """Return the gap with the interval that judges it, and what stands beside it."""
    judged, beside = result.interval, result.paired_interval
    agresti_caffo = gap_interval("agresti-caffo", result.oracle, result.learned, level=beside.level)
    percent = percentage(judged.level)
    if result.metric == "return":
        return [
            f"  {'gap':{width}s} {result.gap:+.2f}  in success (paired {percent}: {_ends(beside)})",
            f"  {'':{width}s} {judged.estimate:+.4g}  in mean return ({_method(judged)} {percent}: "
            f"{judged.low:+.4g} .. {judged.high:+.4g})",
        ]
    lead = f"  {'gap':{width}s} {result.gap:+.2f}  ({_method(judged)} {percent}: {_ends(judged)}"
    if judged.method == agresti_caffo.method:
        return [f"{lead}; paired {_ends(beside)})"]
    other = f"Agresti-Caffo {_ends(agresti_caffo)}{', blind to the looks' * bool(result.looks)})"
    return [f"{lead};", f"{'':{width + 9}s}{other}"]


def _ends(interval: Interval) -> str:
    return f"{interval.low:+.2f} .. {interval.high:+.2f}"


def _method(interval: Interval) -> str:
    """Return a method's name without its year."""
    return re.sub(r" \d{4}", "", interval.method)


def _arm_line(arm: Arm, width: int) -> str:
    interval = arm.interval
    success = f"{arm.success_count}/{arm.episodes}"
    return (
        f"  {arm_name(arm):{width}s} {success:>8s}   {arm.success_rate:.2f}   "
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


def _facts(result: GateResult, model: str, drift: Comparison | None) -> list[str]:
    pairs = result.pairs
    facts = [
        (
            "same starts",
            f"both {pairs.both} | oracle only {pairs.oracle_only} | "
            f"learned only {pairs.learned_only} | neither {pairs.neither}",
        ),
        ("perturbation", recovery_text(result)),
        ("judged by", result.evidence),
        ("looks", _looks(result)),
        ("baseline", f"{drift.label}, {drift.text}" if drift else ""),
        ("steps", _steps(result)),
        ("returns", _returns(result)),
    ]
    if result.normalised_gap is not None and result.metric == "success":
        facts.append(("normalised", f"gap / (oracle - chance) = {result.normalised_gap:+.2f}"))
    facts += [("power", _power(result)), ("confidence", _confidence(result.learned))]
    if result.lost_episodes:
        facts.append(("lost", f"episodes {_listed(result.lost_episodes)}"))
    facts += [
        ("task", _task(result)),
        ("planner", result.planner),
        ("swapped", (", ".join(result.swapped) or "nothing") + (f" ({model})" if model else "")),
        ("weights", result.weights and f"sha256 {result.weights[:WEIGHT_DIGITS]}"),
        ("stored arms", "; ".join(one for one in result.reuse if one not in result.notes)),
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


def _looks(result: GateResult) -> str:
    """Return what was found at each look, the boundary there, and what stopping saved."""
    if not result.looks:
        return ""
    what = "won" if result.stop == "anytime" else "z"
    shown = result.looks if len(result.looks) <= _MOST_LOOKS else result.looks[-1:]
    looks = " | ".join(
        f"at {look.episodes}: {what} {look.statistic:.2f}, boundary {look.boundary:.2f}"
        for look in shown
    )
    most, done = result.max_episodes or 0, result.learned.episodes
    saved = f"; {100 * (most - done) / most:.0f} % of {most} saved" if done < most else ""
    return f"{looks}{saved}"


def _returns(result: GateResult) -> str:
    """Return mean returns and their gap; nothing for one episode."""
    interval = result.return_interval
    if interval is None:
        return ""
    means = ", ".join(f"{arm_name(arm)} {arm.returns.mean():.4g}" for arm in result.arms)
    text = (
        f"mean: {means}; gap {interval.estimate:+.4g} [{interval.low:+.4g}, {interval.high:+.4g}]"
    )
    normalised = result.normalised_return_interval if result.metric == "return" else None
    if normalised is None:
        return text
    return (
        f"{text}; / (oracle - chance) = {normalised.estimate:+.2f} "
        f"[{normalised.low:+.2f}, {normalised.high:+.2f}]"
    )


def _confidence(arm: Arm) -> str:
    """Say how well the planner's confidences tell its failures, if it reports any."""
    risk = arm.selective_risk
    if risk is None:
        return ""
    return (
        f"area under the risk-coverage curve {risk.aurc:.3f}; {risk.base_rate:.3f} if it knew "
        f"nothing, {risk.aurc - risk.excess:.3f} if it knew all"
    )


def _cost(result: GateResult) -> str:
    return "per decision, median: " + ", ".join(
        f"{arm.name} {arm.latency_ms.median:.2f} ms, {arm.rollout_steps:.0f} model steps"
        for arm in (result.oracle, result.learned)
    )


def _power(result: GateResult) -> str:
    """Say what a gate of this size could have found, and how surely."""
    oracle, episodes = result.oracle, result.learned.episodes
    of, level = f"{oracle.success_count}/{oracle.episodes}", level_of_last_look(result)
    if result.metric == "return" or result.stop != "fixed":
        return ""
    drop = smallest_detectable_gap(
        oracle.success_count,
        oracle.episodes,
        level=level,
        learned_episodes=episodes,
        method=result.method,
    )
    if drop is None:
        return f"no drop from {of} could be flagged"
    sure = detectable_gap(
        oracle.success_rate,
        episodes,
        oracle_episodes=oracle.episodes,
        method=result.method,
        level=level,
    )
    text = f"smallest drop this gate could flag from {of}: {drop:.2f}"
    return text if sure is None else f"{text}; found 4 times in 5 from {sure:.2f}"


def _listed(episodes: Sequence[int], most: int = 40) -> str:
    shown = " ".join(str(episode) for episode in episodes[:most])
    return shown + (f" and {len(episodes) - most} more" if len(episodes) > most else "")


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
