"""Student's t distribution: the quantile of its intervals, the tail of its tests."""

from __future__ import annotations

from pytest_cpg.stats.counts import check_count
from pytest_cpg.stats.intervals import critical_value


def student_critical_value(level: float, *, freedom: int) -> float:
    """Return the two-sided quantile ``t`` of a coverage level (Student, Biometrika 6:1-25, 1908).

    >>> round(student_critical_value(0.95, freedom=2), 3)
    4.303
    """
    # scipy.stats has the same number, and takes a second to import.
    from scipy.special import stdtrit

    critical_value(level)  # refuses an impossible level
    degrees = check_count("freedom", freedom, least=1)
    return abs(float(stdtrit(degrees, (1 - float(level)) / 2)))
