"""Sizes: how many episodes a gate has, once all that goes with their number fits."""

from __future__ import annotations

from pytest_cpg.episodes.arm import Metric
from pytest_cpg.gates.kind import Asked
from pytest_cpg.gates.planning_gap.stopping import StopMode
from pytest_cpg.stats.agresti_caffo import smallest_decisive_episodes
from pytest_cpg.stats.methods import PAIRED_METHODS
from pytest_cpg.stats.sequential import look_sizes, paired_statistic, wang_tsiatis_boundary

# Calibrating a sequential boundary takes 13 s at the first, and no time at the second.
MOST_SEQUENTIAL, _QUICK = 1000, 150


def interval_of(interval: str, family_size: int, *, has_margin: bool) -> str:
    """Return the method meant by "auto", for gates that judge successes.

    At the levels of a family, Agresti and Caffo's interval excludes 0 up to 2.6 times as often as
    it should, and it proves a margin that is the gap up to 3.4 times as often (docs/statistics.md).
    Tango's does neither.
    """
    if interval != "auto":
        return interval
    return "tango" if has_margin or family_size > 1 else "agresti-caffo"


def sizes_of(
    asked: Asked,
    *,
    stop: StopMode,
    metric: Metric,
    level: float,
    interval: str,
) -> int:
    """Return how many episodes a gate has, at most, once all that goes with their number fits."""
    if stop == "fixed":
        return _fixed(asked, metric=metric, level=level, interval=interval)
    values, sources = asked.values, asked.sources
    # Whoever gives both limits is ready for either kind of gate.
    is_only_limit = sources["episodes"] != sources["max_episodes"]
    if is_only_limit and _is_refused(asked, "episodes", beside="stop"):
        raise ValueError(
            f"with stop={stop!r} the limit is max_episodes, and episodes says nothing. Write "
            f"{asked.written('max_episodes', values['episodes'], beside='episodes')}."
        )
    if values["interval"] != "auto" and _is_refused(asked, "interval", beside="stop"):
        raise ValueError(
            f"stop={stop!r} has an interval of its own: leave interval={values['interval']!r} "
            f'out, or use stop="fixed".'
        )
    _check_first_look(asked, level)
    return int(values["max_episodes"])


def _fixed(asked: Asked, *, metric: Metric, level: float, interval: str) -> int:
    values = asked.values
    episodes = int(values["episodes"])
    if metric == "success":
        _check_can_fail(asked, level, interval)
    elif episodes < 2:
        usual = asked.written("episodes", 50)
        raise ValueError(f'metric="return" needs at least 2 episodes. Write {usual}.')
    if asked.sources["max_episodes"] == asked.sources["stop"] == "marker":
        raise ValueError(
            f"max_episodes={values['max_episodes']} says nothing of a gate that runs all its "
            f'episodes. Use episodes={values["max_episodes"]}, or add stop="sequential".'
        )
    return episodes


def _is_refused(asked: Asked, name: str, *, beside: str) -> bool:
    """Say whether an option without effect is a mistake: whoever asks for both can mend it.

    What a session asks of all gates need not fit one that says otherwise in its marker, nor what a
    marker asks a session that says otherwise for once.
    """
    source, other = asked.sources[name], asked.sources[beside]
    if source == "project" and name == "episodes":
        # It always has a value.
        return False
    return source == other or other == "project"


def _check_first_look(asked: Asked, level: float) -> None:
    most = asked.values["max_episodes"]
    try:
        look_sizes(most)
        if most > MOST_SEQUENTIAL:
            raise ValueError(
                f"the boundary of more than {MOST_SEQUENTIAL} episodes takes too long to "
                f"calibrate, got {most}"
            )
        # Any boundary that takes long to calibrate can be reached.
        boundary = wang_tsiatis_boundary(most, level=level) if most <= _QUICK else None
        if boundary and paired_statistic(wins=most, losses=0, pairs=most) <= boundary.constant:
            raise ValueError(
                f"a gate of {most} episodes can never fail at confidence {level:g}. Write "
                f"{asked.written('max_episodes', 50)}"
            )
    except ValueError as error:
        raise ValueError(f"max_episodes: {error}.") from None


def _check_can_fail(asked: Asked, level: float, interval: str) -> None:
    if interval == "agresti-caffo":
        least, kind = smallest_decisive_episodes(level=level), "gate"
    else:
        least, kind = PAIRED_METHODS[interval].smallest_decisive_pairs(level=level), "paired gate"
    episodes = asked.values["episodes"]
    if episodes < least:
        raise ValueError(
            f"a {kind} of {episodes} start{'s'[: episodes != 1]} can never fail at confidence "
            f"{level:.10g}, whatever the model does. Write "
            f"{asked.written('episodes', max(50, least))} ({least} is the least that can fail)."
        )
