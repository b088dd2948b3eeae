"""Comparing: what has changed between the last accepted result of a gate and a new one."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.finding import Finding, named
from pytest_cpg.gates.notation import with_ends
from pytest_cpg.gates.planning_gap.records import BaselineGate
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.paired import exact_mcnemar_p_value, fewest_significant_losses
from pytest_cpg.stats.returns import paired_mean_interval

# Characters of one difference, and of a processor and its kernels.
_MOST_SIGNS, _MOST_OF_MACHINE = 1000, 500
# Smaller p-values have no digits that matter.
_SURE = 0.001


def compare(gate: BaselineGate | None, result: GateResult) -> Drift:
    """Compare a result with the one that was accepted.

    - NEW: there is none.
    - INCOMPARABLE: it was measured under another design, of which an older simulator is one, or by
      returns from other starts.
    - UNCHANGED: no start was lost or gained; from other starts, the success rates are equal.
    - REGRESSED, IMPROVED: it is significant at the result's level, two-sided. With the same
      seed episode ``i`` began at the same start, and the starts that both learned arms ran are
      compared by McNemar's exact test, their returns by Student's paired interval. With another
      seed the rates are, by the Agresti-Caffo interval of two independent arms.
    - UNRESOLVED: there is a difference, and chance explains it.
    """
    now = BaselineGate.of(result)
    if gate is None:
        return Drift.new(now=_cell(now))
    is_other = gate.seed != now.seed or gate.design.short_hash != now.design.short_hash
    # With the same starts, noise and dynamics, whatever changed the oracle arm changed both.
    moved = None if is_other else sum(map(operator.ne, gate.oracle, now.oracle))
    elsewhere = _elsewhere(gate, now, moved)
    differs = [*gate.design.changes(now.design), *_changed_run(gate, now)]
    # A file may say anything, at any length.
    differs = [difference[:_MOST_SIGNS] for difference in differs]
    # Another processor on which the oracle arm is the same is told beside news, and is none.
    news = [*differs, elsewhere] if elsewhere else differs
    differs = news if moved else differs
    drift = _compared(gate, now, result.level)
    beside = f"; {', '.join(news)}" if news else ""
    solved, episodes = gate.learned_arm
    return replace(
        drift,
        text=f"{drift.text}{beside}",
        was=_cell(gate),
        now=_cell(now),
        then={} if drift.label is Label.INCOMPARABLE else {"learned": solved / episodes},
        # Of a start that was not run then, nobody knows.
        worse=drift.worse if len(gate.learned) >= len(now.learned) else None,
        differs=tuple(differs),
    )


def unprovable(accepted: Mapping[str, BaselineGate]) -> list[Finding]:
    """Name accepted gates that solve so few starts that chance explains the loss of all of them."""
    levels = {gate.level for gate in accepted.values()}
    least = {level: fewest_significant_losses(level=level) for level in levels}
    few = [
        f"{name} ({gate.learned_arm[0]} solved, {least[gate.level]} needed)"
        for name, gate in accepted.items()
        if gate.design.metric == "success" and gate.learned_arm[0] < least[gate.level]
    ]
    if not few:
        return []
    return [
        Finding(
            f"baseline: {named(few)} can never read REGRESSED on these starts: chance explains the "
            f"loss of so few"
        )
    ]


def _cell(gate: BaselineGate) -> str:
    solved, episodes = gate.learned_arm
    if gate.design.metric == "return":
        return f"{gate.learned_mean_return:.4g}"
    return f"{solved / episodes:.2f}"


def _reached(gate: BaselineGate) -> str:
    of_return = gate.design.metric == "return"
    return f"mean return {_cell(gate)}" if of_return else "{} of {}".format(*gate.learned_arm)


def _from_to(then: BaselineGate, now: BaselineGate) -> str:
    (was, of), (solved, episodes) = then.learned_arm, now.learned_arm
    return f"{was}{f' of {of}' * (of != episodes)} -> {solved} of {episodes}"


def _changed_run(then: BaselineGate, now: BaselineGate) -> Iterator[str]:
    if then.seed != now.seed:
        yield f"seed {then.seed} -> {now.seed}"
    learned, oracle = (len(then.learned), len(now.learned)), (len(then.oracle), len(now.oracle))
    for name, (before, after) in {"episodes": learned, "oracle episodes": oracle}.items():
        if before != after and (name == "episodes" or oracle != learned):
            yield f"{name} {before} -> {after}"
    if then.level != now.level:
        yield f"level {then.level:g} -> {now.level:g}"


def _elsewhere(then: BaselineGate, now: BaselineGate, moved: int | None) -> str:
    """Say on which other processor a gate was run, and what that did to the oracle arm."""
    # Only libraries that both have loaded tell kernels apart.
    libraries = [name for name in then.kernels if name in now.kernels]

    def machine(gate: BaselineGate) -> str:
        chosen = ", ".join(f"{name} {gate.kernels[name]}" for name in libraries)
        return f"{gate.processor} ({chosen})" if chosen else gate.processor

    was, where, starts = machine(then), machine(now), f"start{'s'[: moved != 1]}"
    if not then.processor or not now.processor or was == where:
        return f"oracle arm changed on {moved} {starts}" if moved else ""
    # Of a file that may say anything, at any length.
    text = f"accepted on {was[:_MOST_OF_MACHINE]}, run on {where[:_MOST_OF_MACHINE]}"
    return text if moved is None else f"{text}: {moved} oracle {starts} moved"


def _compared(then: BaselineGate, now: BaselineGate, level: float) -> Drift:
    """Return what two results say, before anything else that differs is told."""
    if then.design.short_hash != now.design.short_hash:
        return Drift(label=Label.INCOMPARABLE, text=f"{_reached(then)} under another design")
    if then.design.metric == "return":
        return _by_returns(then, now, level)
    return (_by_starts if then.seed == now.seed else _by_rates)(then, now, level)


def _by_starts(then: BaselineGate, now: BaselineGate, level: float) -> Drift:
    common = list(zip(then.learned, now.learned, strict=False))
    worse = tuple(start for start, pair in enumerate(common) if pair == ("1", "0"))
    lost, gained = len(worse), common.count(("0", "1"))
    p = exact_mcnemar_p_value(lost=lost, gained=gained)
    shown = f"p = {p:.2g}" if p >= _SURE else f"p < {_SURE:g}"
    text = f"{_from_to(then, now)}, lost {lost} start{'s'[: lost != 1]}, gained {gained} ({shown})"
    if lost == gained == 0:
        label, text = Label.UNCHANGED, f"{_from_to(then, now)}, no start lost or gained"
    elif p > 1 - level:
        label = Label.UNRESOLVED
    else:
        label = Label.REGRESSED if lost > gained else Label.IMPROVED
    return Drift(label=label, text=text, worse=worse, lost=lost, gained=gained, p_value=p)


def _by_rates(then: BaselineGate, now: BaselineGate, level: float) -> Drift:
    drop = agresti_caffo_interval(*then.learned_arm, *now.learned_arm, level=level)
    text = f"{_from_to(then, now)} other starts, a drop of {with_ends(drop)}"
    label = Label.of(drop.low, drop.high, is_same=drop.estimate == 0)
    return Drift(label=label, text=text, interval=drop)


def _by_returns(then: BaselineGate, now: BaselineGate, level: float) -> Drift:
    common = min(len(then.learned), len(now.learned))
    if then.seed != now.seed or common < 2:
        text = f"{_reached(then)}, and returns are compared on two or more common starts"
        return Drift(label=Label.INCOMPARABLE, text=text)
    old, new = then.learned_returns[:common], now.learned_returns[:common]
    drop = paired_mean_interval(old, new, level=level)
    text = (
        f"mean return {_cell(then)} -> {_cell(now)}, on common starts a drop of "
        f"{with_ends(drop, '.3g')}"
    )
    label = Label.of(drop.low, drop.high, is_same=old == new)
    return Drift(label=label, text=text, interval=drop)
