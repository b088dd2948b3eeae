"""Statistics: intervals, verdicts, stopping rules and power of counts and returns.

Pure functions: no input, output, clock or model. ``level`` is the coverage of an interval, in
(0, 1), and ``limit`` the most episodes worth answering. An impossible argument raises ValueError.
"""

from __future__ import annotations

from pytest_cpg.stats.agresti_caffo import (
    agresti_caffo_interval,
    agresti_caffo_p_value,
    episodes_to_prove_margin,
    episodes_to_resolve,
    smallest_decisive_episodes,
)
from pytest_cpg.stats.betting import (
    anytime_episodes_to_resolve,
    anytime_interval,
    anytime_look_sizes,
    betting_characteristics,
    betting_wealth,
)
from pytest_cpg.stats.bootstrap import (
    metric_differences,
    metric_intervals,
    sampled_differences,
    sampled_metrics,
)
from pytest_cpg.stats.calibration import Reliability, ReliabilityBin, reliability
from pytest_cpg.stats.clusters import cluster_interval, cluster_return_interval
from pytest_cpg.stats.correlation import kendall_interval, spearman_interval
from pytest_cpg.stats.coverage_curves import OperatingPoints
from pytest_cpg.stats.families import holm, holm_adjusted
from pytest_cpg.stats.graded_answers import GradedAnswers
from pytest_cpg.stats.intervals import Interval
from pytest_cpg.stats.margins import exact_tango_p_value, margin_interval, margin_level
from pytest_cpg.stats.mcnemar import exact_mcnemar_p_value, fewest_significant_losses
from pytest_cpg.stats.methods import PAIRED_METHODS
from pytest_cpg.stats.pairing import PairRates, pair_rates
from pytest_cpg.stats.power import detectable_gap, episodes_for_gap, gap_power
from pytest_cpg.stats.rankings import Ranking, rank_models
from pytest_cpg.stats.resolution import smallest_detectable_gap
from pytest_cpg.stats.returns import (
    fieller_return_interval,
    paired_mean_interval,
    paired_mean_p_value,
)
from pytest_cpg.stats.risk_coverage import (
    ANSWER_METRICS,
    AnswerMetrics,
    RiskCoverage,
    answer_metrics,
    metrics_by,
    published_cr,
    risk_coverage,
)
from pytest_cpg.stats.sampled import Sampled
from pytest_cpg.stats.selective import SelectiveRisk, aurc
from pytest_cpg.stats.sequential import (
    Boundary,
    Characteristics,
    boundary_p_value,
    final_critical_value,
    look_sizes,
    operating_characteristics,
    paired_statistic,
    repeated_interval,
    wang_tsiatis_boundary,
)
from pytest_cpg.stats.verdicts import (
    FEWEST_EPISODES_TO_CALL_ALIKE,
    Verdict,
    Weighed,
    judge_gap,
    weigh_gap,
    weigh_returns,
)
from pytest_cpg.stats.wilson import wilson_episodes_above, wilson_interval

__all__ = [
    "ANSWER_METRICS",
    "FEWEST_EPISODES_TO_CALL_ALIKE",
    "PAIRED_METHODS",
    "AnswerMetrics",
    "Boundary",
    "Characteristics",
    "GradedAnswers",
    "Interval",
    "OperatingPoints",
    "PairRates",
    "Ranking",
    "Reliability",
    "ReliabilityBin",
    "RiskCoverage",
    "Sampled",
    "SelectiveRisk",
    "Verdict",
    "Weighed",
    "agresti_caffo_interval",
    "agresti_caffo_p_value",
    "answer_metrics",
    "anytime_episodes_to_resolve",
    "anytime_interval",
    "anytime_look_sizes",
    "aurc",
    "betting_characteristics",
    "betting_wealth",
    "boundary_p_value",
    "cluster_interval",
    "cluster_return_interval",
    "detectable_gap",
    "episodes_for_gap",
    "episodes_to_prove_margin",
    "episodes_to_resolve",
    "exact_mcnemar_p_value",
    "exact_tango_p_value",
    "fewest_significant_losses",
    "fieller_return_interval",
    "final_critical_value",
    "gap_power",
    "holm",
    "holm_adjusted",
    "judge_gap",
    "kendall_interval",
    "look_sizes",
    "margin_interval",
    "margin_level",
    "metric_differences",
    "metric_intervals",
    "metrics_by",
    "operating_characteristics",
    "pair_rates",
    "paired_mean_interval",
    "paired_mean_p_value",
    "paired_statistic",
    "published_cr",
    "rank_models",
    "reliability",
    "repeated_interval",
    "risk_coverage",
    "sampled_differences",
    "sampled_metrics",
    "smallest_decisive_episodes",
    "smallest_detectable_gap",
    "spearman_interval",
    "wang_tsiatis_boundary",
    "weigh_gap",
    "weigh_returns",
    "wilson_episodes_above",
    "wilson_interval",
]
