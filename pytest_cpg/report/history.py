"""History: what the comparisons of a project found, session by session, oldest first.

Renderers are given one whose last session is the one that they show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_cpg.gates.card import Card, Ruling, Trend

# A sparkline has room for so many.
_MOST_HEIGHTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one comparison found; numbers of two may be compared if these share a ``design``."""

    label: str
    severity: str
    design: str = ""
    trends: tuple[Trend, ...] = ()

    @classmethod
    def nothing(cls, outcome: str) -> Found:
        """Return what is kept of a gate that failed without a verdict, by how its test ended."""
        return cls(label=outcome.upper(), severity="broken")

    @property
    def is_nothing(self) -> bool:
        """Whether there was no verdict."""
        return self == Found.nothing(self.label)

    @classmethod
    def of(cls, ruling: Ruling, card: Card) -> Found:
        """Return what is kept of a ruling and its card."""
        return cls(
            label=ruling.label,
            severity=ruling.severity.name.lower(),
            design=card.design,
            trends=card.trends,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session of a history: what was found, by the comparison's name.

    The commit has ``-dirty`` behind it where tracked files differed, and is empty where it is not
    known; the date is UTC, as ISO 8601 has it, and empty in what comes from a report.
    """

    commit: str
    date: str
    comparisons: Mapping[str, Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One comparison in one of several sessions; another design changes numbers, too."""

    commit: str
    date: str
    found: Found
    is_other_design: bool


@dataclass(frozen=True, slots=True)
class History:
    """Sessions, oldest first; the last one is the one that is shown."""

    sessions: tuple[Session, ...] = ()

    def points(self, name: str) -> tuple[Point, ...]:
        """Return a comparison of the last session over all commits that followed the same numbers.

        Of a commit its last session is the point; a tree with changes on top is the present alone.
        """
        if not self.sessions or name not in self.sessions[-1].comparisons:
            return ()
        points = [point for point in self.attempts(name) if not point.found.is_nothing]
        last = {point.commit or str(at): at for at, point in enumerate(points)}
        last_points = (at for commit, at in last.items() if not commit.endswith("-dirty"))
        return tuple(points[at] for at in sorted({*last_points, *range(len(points))[-1:]}))

    def attempts(self, name: str) -> tuple[Point, ...]:
        """Return a comparison over all sessions that tried it, with those that got no verdict.

        The others followed the same numbers as the last one of them.
        """
        past = [at.comparisons[name] for at in self.sessions if name in at.comparisons]
        now = next((row for row in reversed(past) if not row.is_nothing), Found.nothing(""))
        return tuple(
            Point(
                commit=session.commit,
                date=session.date,
                found=row,
                is_other_design=row.design != now.design and not row.is_nothing,
            )
            for session in self.sessions
            for row in [session.comparisons.get(name)]
            if row is not None and (row.is_nothing or _followed(row) == _followed(now))
        )

    def heights(self, name: str) -> tuple[float, ...]:
        """Return a comparison's first trend in at least two sessions, as heights in [0, 1].

        Sessions of another design are left out. A trend without an axis goes from its lowest value
        to its highest one.
        """
        trends = [
            point.found.trends[0]
            for point in self.points(name)
            if point.found.trends and not point.is_other_design
        ]
        if len(trends) < 2:
            return ()
        values = [trend.bound.estimate for trend in trends[-_MOST_HEIGHTS:]]
        low, high = trends[-1].axis or (min(values), max(values))
        # Halves, as the difference of two immense numbers has no float.
        span = high / 2 - low / 2
        if not span > 0 or not math.isfinite(span):
            return (0.5,) * len(values)
        return tuple(min(max((value / 2 - low / 2) / span, 0.0), 1.0) for value in values)


def _followed(found: Found) -> list[str]:
    return [trend.name for trend in found.trends]


NO_HISTORY = History()
