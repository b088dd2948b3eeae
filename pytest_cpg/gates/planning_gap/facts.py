"""Facts: what a reader may look up of a planning gap, each under a name of its own."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates.notation import found_drop, with_ends
from pytest_cpg.gates.planning_gap.figures import starts_by_ending
from pytest_cpg.gates.planning_gap.notation import WEIGHT_DIGITS, arm_name, recovery_text
from pytest_cpg.gates.planning_gap.result import GateResult, return_gap
from pytest_cpg.gates.planning_gap.stopping import level_of_last_look
from pytest_cpg.stats.power import detectable_gap, smallest_detectable_gap
from pytest_cpg.stats.returns import fieller_return_interval

# More looks than this are not worth their lines: the last one decided.
_MOST_LOOKS = 8
_MOST_LOST = 40


def facts_of(result: GateResult, model: str = "") -> tuple[tuple[str, str], ...]:
    """Return names and texts, none of them empty."""
    paired = (f"{ended} {len(starts)}" for ended, starts in starts_by_ending(result).items())
    facts = (
        ("same starts", ", ".join(paired)),
        ("perturbation", recovery_text(result)),
        ("judged by", result.evidence),
        ("margin", _margin(result)),
        ("looks", _looks(result)),
        ("steps", _steps(result)),
        ("returns", _returns(result)),
        ("share lost", _share_lost(result)),
        ("exploitation", _exploitation(result)),
        ("power", _power(result)),
        ("confidence", _confidence(result.learned)),
        ("lost", _lost(result.lost_episodes)),
        ("task", _task(result)),
        ("planner", result.design.planner),
        ("model gives", (", ".join(result.swapped) or "nothing") + f" ({model})" * bool(model)),
        ("weights", result.weights and f"sha256 {result.weights[:WEIGHT_DIGITS]}"),
        ("device", result.device),
        ("recipe", result.group),
        ("family", f"{result.family_size} gates" if result.family_size > 1 else ""),
        ("stored arms", "; ".join(note for note in result.reuse if note not in result.notes)),
        ("cost", _cost(result)),
        ("versions", ", ".join(map(" ".join, result.design.versions.items()))),
    )
    return tuple((name, text) for name, text in facts if text)


def _margin(result: GateResult) -> str:
    if result.margin is None:
        return ""
    return f"{result.margin:g}{' in mean return' * (result.design.metric == 'return')}"


def _looks(result: GateResult) -> str:
    """Return what was found at each look, the boundary there, and what stopping saved."""
    if not result.looks:
        return ""
    shown = result.looks if len(result.looks) <= _MOST_LOOKS else result.looks[-1:]
    looks = " | ".join(
        f"at {look.episodes}: z {look.statistic:.2f}, boundary {look.boundary:.2f}"
        for look in shown
    )
    most, done = result.max_episodes or 0, result.learned.episodes
    saved = f"; {100 * (most - done) / most:.0f} % of {most} saved" if done < most else ""
    return f"{looks}{saved}"


def _steps(result: GateResult) -> str:
    means = ((arm.name, arm.mean_steps_to_success) for arm in (result.oracle, result.learned))
    return "to success, mean: " + ", ".join(
        f"{name} {'none' if mean is None else f'{mean:.0f}'}" for name, mean in means
    )


def _returns(result: GateResult) -> str:
    """Return mean returns and their gap; nothing for one episode."""
    oracle, learned, level = result.oracle, result.learned, result.level
    common = learned.episodes
    if common == 1:
        return ""
    interval = return_gap(oracle, learned, level=level)
    means = ", ".join(f"{arm_name(arm)} {arm.returns.mean():.4g}" for arm in result.arms)
    text = f"mean: {means}; gap {with_ends(interval, '.4g')}"
    # None where the oracle is not sure to add anything to chance.
    normalised = result.design.metric == "return" and fieller_return_interval(
        oracle.returns[:common], learned.returns, result.chance.returns[:common], level=level
    )
    if not normalised:
        return text
    return f"{text}, {with_ends(normalised)} of what oracle has beyond chance"


def _share_lost(result: GateResult) -> str:
    if result.normalised_gap is None or result.design.metric == "return":
        return ""
    return f"{result.normalised_gap:.2f} of what oracle solves beyond chance"


def _exploitation(result: GateResult) -> str:
    """Say how far chosen plans stand lower among others in truth than in the model."""
    interval, diagnosis = result.exploitation, result.diagnosis
    if interval is None or diagnosis is None:
        return ""
    episodes = len(diagnosis.episodes)
    return f"{with_ends(interval)} of a score promised and not kept, {episodes} episodes"


def _power(result: GateResult) -> str:
    """Say what a gate of this size could have found, and how surely."""
    oracle, episodes = result.oracle, result.learned.episodes
    of, level = f"{oracle.success_count}/{oracle.episodes}", level_of_last_look(result)
    if result.design.metric == "return" or result.stop != "fixed":
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
    text = f"smallest drop this gate could flag from {of}: {found_drop(drop)}"
    return text if sure is None else f"{text}; found 4 times in 5 from {found_drop(sure)}"


def _confidence(arm: Arm) -> str:
    """Say how well the planner's confidences tell its failures, if it reports any."""
    risk = arm.selective_risk
    if risk is None:
        return ""
    return (
        f"area under the risk-coverage curve {risk.aurc:.3f}; {risk.base_rate:.3f} if it knew "
        f"nothing, {risk.ideal:.3f} if it knew all"
    )


def _lost(starts: Sequence[int]) -> str:
    if not starts:
        return ""
    shown = " ".join(map(str, starts[:_MOST_LOST]))
    more = len(starts) - _MOST_LOST
    return f"starts {shown}{f' and {more} more' if more > 0 else ''}"


def _task(result: GateResult) -> str:
    skipped = result.starts_skipped
    replaced = f"; {skipped} solved already, replaced" if skipped else ""
    design = result.design
    return (
        f"{design.task}, {design.budget} steps of {design.control_period:g} s, "
        f"starts {design.starts}, seed {result.seed}{replaced}"
    )


def _cost(result: GateResult) -> str:
    return "per decision, median: " + ", ".join(
        f"{arm.name} {arm.latency_ms.median:.2f} ms, {arm.rollout_steps:.0f} model steps"
        for arm in (result.oracle, result.learned)
    )
