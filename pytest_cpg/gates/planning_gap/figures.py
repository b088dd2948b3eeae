"""Figures: what a page draws of a planning gap, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates.card import Cell, Effect, Figure, Trend
from pytest_cpg.gates.notation import place
from pytest_cpg.gates.planning_gap.cause import Cause, Profile
from pytest_cpg.gates.planning_gap.result import GateResult, arm_name, gap_text, reached

# How both arms ended from one start: oracle first.
_PAIRS: Mapping[tuple[bool, bool], str] = {
    (True, True): "both solve",
    (True, False): "lost by the model",
    (False, True): "only the model solves",
    (False, False): "neither solves",
}


def effect(result: GateResult) -> Effect:
    """Return the gap that was judged, as what the model loses."""
    is_share = result.design.metric == "success"
    unit = "of starts" if is_share else "of mean return"
    return Effect(found=result.interval, unit=unit, is_share=is_share, margin=result.margin)


def trends(result: GateResult) -> tuple[Trend, ...]:
    """Return the learned arm's success rate and the gap."""
    learned = result.learned
    # What an A/A check finds is of no model.
    name = "A/A success rate" if result.is_aa else "Learned success rate"
    text = reached(learned, "success")
    return (
        Trend(name=name, text=text, bound=learned.interval, axis=(0.0, 1.0)),
        Trend(name="Gap", text=gap_text(result), bound=result.interval),
    )


def figures(result: GateResult) -> tuple[Figure, ...]:
    """Return the arms' success by step, the starts by who solved them, and the lost episodes."""
    steps = Figure(
        kind="steps",
        title="Starts solved over steps",
        axes=("step", "share of starts solved"),
        series={arm_name(arm): tuple(_solved_by(arm, result.design.budget)) for arm in result.arms},
        scale=(0.0, 1.0),
    )
    starts = Figure(
        kind="cells",
        title=f"The same {result.learned.episodes} starts in both arms",
        axes=("start", ""),
        series=starts_by_ending(result),
        cells=tuple(_cells(result)),
    )
    seeds = dict(zip(result.learned.indices.tolist(), result.start_seeds, strict=False))
    solved_in = dict(zip(result.oracle.indices.tolist(), result.oracle.steps.tolist(), strict=True))
    goals = _goals(result)
    lost = Figure(
        kind="list",
        title=f"Lost episodes: {len(result.lost_episodes)}",
        reading="Each with the seed of its start, and the steps in which the oracle solves it.",
        series={
            str(episode): (f"{seeds[episode]}{goals.get(episode, '')}", f"{solved_in[episode]}")
            for episode in result.lost_episodes
            if episode in seeds
        },
    )
    return (steps, starts, *([lost] if lost.series else []))


def _solved_by(arm: Arm, budget: int) -> Iterator[tuple[float, float]]:
    yield 0, 0.0
    solved = sorted(min(step, budget) for step in arm.steps[arm.successes].tolist())
    for count, step in enumerate(solved, 1):
        yield step, count / arm.episodes
    yield budget, arm.success_rate


def starts_by_ending(result: GateResult) -> dict[str, tuple[int, ...]]:
    """Return starts by how both arms ended; the oracle arm may have run more than these."""
    learned = result.learned
    solved = result.oracle.successes[: learned.episodes]
    ends = {name: (solved == by[0]) & (learned.successes == by[1]) for by, name in _PAIRS.items()}
    return {name: tuple(learned.indices[ended].tolist()) for name, ended in ends.items()}


def _goals(result: GateResult) -> dict[int, str]:
    """Return the goal of each episode in words, to follow the seed of its start."""
    episodes = result.oracle.indices.tolist()
    return {
        episode: f", goal {place(goal)}"
        for episode, goal in zip(episodes, result.start_goals, strict=False)
    }


def _cells(result: GateResult) -> Iterator[Cell]:
    goals = _goals(result)
    has_goals = "goals=" in result.design.task.partition(" (")[2]
    # The oracle arm may have run more episodes than there are pairs.
    starts = zip(result.learned.indices.tolist(), result.start_seeds, strict=False)
    for row, (episode, seed) in enumerate(starts):
        ends = ", ".join(
            f"{arm.name} {f'{arm.steps[row]} steps' if arm.successes[row] else 'not solved'}"
            for arm in (result.oracle, result.learned)
        )
        start = f"task.reset([{seed}])"
        if has_goals:
            # Those of a file belong to episodes, whatever their seeds.
            start = f"task.at_episodes({start}, [{episode}])"
        yield Cell(episode, f"seed {seed}{goals.get(episode, '')}; {ends}", start)


# Along the oracle's plans, in spreads of plans: a smaller error shows no cause.
_LEAST_ERROR = 0.25


def profile_figures(profile: Profile, cause: Cause) -> tuple[Figure, ...]:
    """Return what there is to draw of a diagnosis, first what shows its cause."""
    first = cause.figure
    # A model may be right where the oracle goes, and wrong where its own plans lead.
    if first == "open loop" and max(profile.open_loop, default=0.0) < _LEAST_ERROR:
        first = "promises"
    drawn = dict(_drawn(profile))
    return tuple(drawn[name] for name in sorted(drawn, key=lambda name: name != first))


def _drawn(profile: Profile) -> Iterator[tuple[str, Figure]]:
    if len(profile.open_loop) > 1:
        title = "Error of the score along the oracle's plans"
        reading = "1 is as much as plans differ from each other."
        upward = "error / spread of plans"
        yield "open loop", _by_step(title, reading, upward, profile.open_loop)
    if len(profile.ranking) > 1:
        title = "How well the model ranks plans"
        reading = "1 is the true order of plans, 0 is chance."
        yield "ranking", _by_step(title, reading, "Kendall tau", profile.ranking)
    if profile.bins:
        yield "coverage", _distances(profile)
    if profile.predicted:
        yield "promises", _promises(profile)


def _by_step(title: str, reading: str, upward: str, values: Sequence[float]) -> Figure:
    points = tuple((float(step), value) for step, value in enumerate(values, 1))
    return Figure(
        kind="curves",
        title=title,
        reading=reading,
        axes=("step of the plan", upward),
        series={"learned": points},
    )


def _distances(profile: Profile) -> Figure:

    def stairs(shares: Sequence[float]) -> tuple[tuple[float, float], ...]:
        return ((profile.bins[0], 0.0), *zip(profile.bins, (*shares, 0.0), strict=True))

    most = max(*profile.trained, *profile.planned)
    bins = zip(profile.bins, profile.planned, strict=False)
    outside = sum(share for edge, share in bins if edge >= 1)
    return Figure(
        kind="histogram",
        title="How far plans go from the training data",
        reading="Bars are states of plans, grey are training states. The last bar has the rest.",
        finding=f"{100 * outside:.0f} % of planned states lie beyond the threshold.",
        axes=("distance to the nearest training state, in thresholds", "share of states"),
        series={
            "planned states": stairs(profile.planned),
            "training states": stairs(profile.trained),
            "limit": ((1.0, 0.0), (1.0, most)),
        },
    )


def _promises(profile: Profile) -> Figure:
    both = (*profile.predicted, *profile.actual)
    return Figure(
        kind="scatter",
        title="Promised and true score of chosen plans",
        reading="Lower is better. A plan on the line keeps its promise.",
        axes=("score that the model promises", "score under the true dynamics"),
        series={
            "limit": ((min(both), min(both)), (max(both), max(both))),
            "learned": tuple(sorted(zip(profile.predicted, profile.actual, strict=True))),
        },
    )
