"""Statistics: intervals, verdicts, stopping rules and power of counts and returns.

Pure functions: no input, output, clock or model. ``level`` is the coverage of an interval, in
(0, 1), and ``limit`` the most episodes worth answering. An impossible argument raises ValueError.
"""

from __future__ import annotations

from pytest_cpg.stats.bootstrap import risk_intervals, sampled_differences, sampled_metrics
from pytest_cpg.stats.graded_answers import (
    ANSWER_METRICS,
    AnswerMetrics,
    GradedAnswers,
    OperatingPoints,
    RiskCoverage,
    SelectiveRisk,
    answer_metrics,
    aurc,
    risk_at_coverage,
    risk_coverage,
)
from pytest_cpg.stats.intervals import Interval, wilson_interval
from pytest_cpg.stats.power import agresti_caffo_interval, gap_half_width
from pytest_cpg.stats.reliability import Reliability, ReliabilityBin, reliability
from pytest_cpg.stats.sampled import Sampled
from pytest_cpg.stats.verdicts import Verdict, judge_gap

__all__ = [
    "ANSWER_METRICS",
    "AnswerMetrics",
    "GradedAnswers",
    "Interval",
    "OperatingPoints",
    "Reliability",
    "ReliabilityBin",
    "RiskCoverage",
    "Sampled",
    "SelectiveRisk",
    "Verdict",
    "agresti_caffo_interval",
    "answer_metrics",
    "aurc",
    "gap_half_width",
    "judge_gap",
    "reliability",
    "risk_at_coverage",
    "risk_coverage",
    "risk_intervals",
    "sampled_differences",
    "sampled_metrics",
    "wilson_interval",
]
