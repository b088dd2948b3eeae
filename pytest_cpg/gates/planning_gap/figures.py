"""Figures: what a page draws of a planning gap, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates.card import Effect, Figure, Trend
from pytest_cpg.gates.diagnosis import Profile
from pytest_cpg.gates.planning_gap.notation import arm_name, gap_text
from pytest_cpg.gates.planning_gap.result import GateResult

# How both arms ended from one start: oracle first.
_PAIRS: Mapping[tuple[bool, bool], str] = {
    (True, True): "both",
    (True, False): "oracle only",
    (False, True): "learned only",
    (False, False): "neither",
}


def effect(result: GateResult) -> Effect:
    """Return the gap that was judged, as what the model loses."""
    is_share = result.design.metric == "success"
    return Effect(
        found=result.interval,
        unit="of starts" if is_share else "of mean return",
        is_share=is_share,
        margin=result.margin,
    )


def trends(result: GateResult) -> tuple[Trend, ...]:
    """Return the learned arm's success rate and the gap."""
    learned = result.learned
    # What an A/A check finds is of no model.
    whose = "A/A success rate" if result.is_aa else "Learned success rate"
    return (
        Trend(
            name=whose,
            text=f"{learned.success_count}/{learned.episodes}",
            bound=learned.interval,
            axis=(0.0, 1.0),
        ),
        Trend(name="Gap", text=gap_text(result), bound=result.interval),
    )


def figures(result: GateResult) -> tuple[Figure, ...]:
    """Return the arms' success by step, the starts by who solved them, and the lost episodes."""
    steps = Figure(
        kind="steps",
        title="Share of episodes solved within so many steps",
        axes=("steps", ""),
        series={arm_name(arm): tuple(_solved_by(arm, result.design.budget)) for arm in result.arms},
        scale=(0.0, 1.0),
    )
    starts = Figure(
        kind="cells",
        title="The same starts, one cell for each episode",
        axes=("episode", ""),
        series=_pairs(result),
    )
    lost = _lost(result)
    return (steps, starts, *([lost] if lost.series else []))


def _solved_by(arm: Arm, budget: int) -> Iterator[tuple[float, float]]:
    """Yield at which step which share of an arm's episodes was solved, up to the budget."""
    yield 0, 0.0
    solved = sorted(min(step, budget) for step in arm.steps[arm.successes].tolist())
    for count, step in enumerate(solved, 1):
        yield step, count / arm.episodes
    yield budget, arm.success_rate


def _pairs(result: GateResult) -> dict[str, tuple[int, ...]]:
    """Return the episodes of each kind; the oracle arm may have run more than there are pairs."""
    episodes: dict[str, list[int]] = {name: [] for name in _PAIRS.values()}
    learned = result.learned
    for episode, with_oracle, with_learned in zip(
        learned.indices.tolist(),
        result.oracle.successes[: learned.episodes].tolist(),
        learned.successes.tolist(),
        strict=True,
    ):
        episodes[_PAIRS[with_oracle, with_learned]].append(episode)
    return {name: tuple(of_kind) for name, of_kind in episodes.items()}


def _lost(result: GateResult) -> Figure:
    lost = set(result.lost_episodes)
    # The oracle arm may have run more episodes than there are pairs.
    rows = zip(
        result.learned.indices.tolist(),
        result.start_seeds,
        result.oracle.steps.tolist(),
        strict=False,
    )
    return Figure(
        kind="list",
        title=f"Lost episodes: {len(lost)}",
        series={
            str(episode): (f"start seed {seed}", f"oracle in {steps} steps")
            for episode, seed, steps in rows
            if episode in lost
        },
    )


def profile_figures(profile: Profile) -> Iterator[Figure]:
    """Yield what there is to draw of a diagnosis."""
    if len(profile.open_loop) > 1:
        yield _by_step(
            "Error of the score along the oracle's plans",
            "It is a multiple of how far plans spread.",
            profile.open_loop,
        )
    if len(profile.ranking) > 1:
        yield _by_step(
            "Ranking of plans by the model, Kendall tau", "0 is chance.", profile.ranking
        )
    if profile.bins:
        yield _distances(profile)
    if profile.predicted:
        yield _promises(profile)


def _by_step(title: str, reading: str, values: Sequence[float]) -> Figure:
    points = tuple((float(step), value) for step, value in enumerate(values, 1))
    return Figure(
        kind="curves", title=title, reading=reading, axes=("steps", ""), series={"learned": points}
    )


def _distances(profile: Profile) -> Figure:
    most = max(*profile.trained, *profile.planned)
    return Figure(
        kind="histogram",
        title="Distance to the training data",
        reading="Planned states are thick, training states thin, and the threshold is dashed.",
        axes=("thresholds or more", ""),
        series={
            "planned states": _stairs(profile.bins, profile.planned),
            "training states": _stairs(profile.bins, profile.trained),
            "limit": ((1.0, 0.0), (1.0, most)),
        },
    )


def _stairs(edges: Sequence[float], shares: Sequence[float]) -> tuple[tuple[float, float], ...]:
    return ((edges[0], 0.0), *zip(edges, (*shares, 0.0), strict=True))


def _promises(profile: Profile) -> Figure:
    points = tuple(zip(profile.predicted, profile.actual, strict=True))
    both = (*profile.predicted, *profile.actual)
    return Figure(
        kind="scatter",
        title="What chosen plans come to (upwards), over what they promise",
        reading="A plan on the line keeps its promise.",
        axes=("promised", ""),
        series={
            "limit": ((min(both), min(both)), (max(both), max(both))),
            "learned": tuple(sorted(points)),
        },
    )
